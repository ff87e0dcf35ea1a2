"""Records, published numbers, verdicts, claims, and their statistics.

It imports the packages up to `registry`. It never runs a model and never renders a
page.
"""
