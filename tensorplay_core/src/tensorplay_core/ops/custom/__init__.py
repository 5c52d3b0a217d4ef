"""Operators that programs define at run time, and what they register for any operator: the room behind ``tp.library``.

Nothing here is imported until one of its names is asked for: a program without custom operators does not pay for it.
"""
