"""What is stored and read: records, published numbers, verdicts, differences, and the gate.

It imports the packages up to `registry`. It never runs a model, never renders a page, and
never compares published numbers with each other.
"""
