"""Results to Markdown, LaTeX, pictures and citations.

It imports the packages up to `results`. It never computes a result and never runs a
model: every number on a page is read from a record, a published table or a stored
comparison.
"""
