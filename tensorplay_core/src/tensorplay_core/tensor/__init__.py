"""The tensor itself: an array, an interned type, and what autograd hangs on them."""
