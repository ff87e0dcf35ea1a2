"""From a request to records: the plan, one cell, and many cells that share encodings.

It imports the packages up to `results`. It never renders a page, and never
changes a committed result unless asked to promote one.
"""
