"""Downloads of models and files from their hub or publisher; no other module downloads.

It imports `core` and the rest of `assets`; pooch and huggingface_hub do the work. It
never keeps a file whose digest differs from a known one, and never puts half a file
into its place.
"""
