"""The regression gate: what moved between a run and the committed results, and which part did.

It imports the packages up to `evaluation`. It never changes a committed result unless
asked to promote one.
"""
