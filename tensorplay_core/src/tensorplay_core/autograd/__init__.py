"""Reverse-mode automatic differentiation: modes, nodes, the engine. Formulas are generated on the floor above."""
