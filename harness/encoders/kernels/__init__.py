"""Forward passes of transformer encoders: the plain padded one and faster ones of equal output.

It imports `core` and PyTorch, and is imported when an encoder is loaded. It never
decides by measuring time which pass a model takes.
"""
