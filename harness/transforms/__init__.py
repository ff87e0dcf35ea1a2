"""Encodings to vectors, and vectors to vectors: pooling, affine maps, normalising flows.

It imports `core`. It never sees a text, a task or a file; a fit returns a new object
and changes nothing.
"""
