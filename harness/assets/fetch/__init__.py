"""Downloads, and nothing else downloads: models and files from their hub or publisher.

It imports `core` and the rest of `assets`. It never keeps a file whose digest differs
from a known one, and never leaves half a file behind.
"""
