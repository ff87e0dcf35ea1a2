"""Encodings on disk, addressed by content: each sentence goes through each encoder once.

It imports `core`. It never serves an encoding under another weights digest, tokenizer
or length than it was made with, and never a damaged one.
"""
