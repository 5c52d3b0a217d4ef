"""Which kernel serves a call: keys, tables, interned tensor types and the one resolution that all readers share.

This floor knows no tensor class and no array library. It sees tensors through their interned type alone.
"""
