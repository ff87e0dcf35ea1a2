"""sentence-transformers as a peer: its own tokens, forward pass and pooling."""

from time import perf_counter

import numpy as np


def peer(folder, device="cpu"):
    """A SentenceTransformer with mean pooling."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    module = Transformer(str(folder), max_seq_length=256)
    pooling = Pooling(module.get_embedding_dimension(), "mean")
    return SentenceTransformer(modules=[module, pooling], device=device)


def unit(x):
    """Rows of length 1."""
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def two_best(sizes, encode):
    """The two fastest batch sizes, each tried twice, in turn."""
    seconds = dict.fromkeys(sizes, np.inf)
    for _ in range(2):
        for size in sizes:
            start = perf_counter()
            encode(size)
            seconds[size] = min(seconds[size], perf_counter() - start)
    return sorted(sizes, key=seconds.__getitem__)[:2]
