"""Records, published numbers, verdicts, claims, differences and the regression gate.

It imports the packages up to `registry`. It never runs a model and never renders a
page.
"""
