"""Texts to encodings: transformer checkpoints, word vectors, encoders trained by the harness.

It imports `core`, `data` and `transforms`. It never knows which task or method asks,
and what it returns for a sentence never depends on the other sentences.
"""
