"""Reverse-mode automatic differentiation: modes, nodes and the engine; the formulas are generated on the floor above."""
