"""sentence-transformers as a peer, and which of several programs is the fastest."""

import numpy as np


def peer(folder, device="cpu", length=256, pooling="mean"):
    """A SentenceTransformer with its own tokens, forward pass and pooling."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    module = Transformer(str(folder), max_seq_length=length)
    width = module.get_embedding_dimension()
    return SentenceTransformer(modules=[module, Pooling(width, pooling)], device=device)


def unit(x):
    """Rows of length 1."""
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def fastest(seconds, names):
    """The program with the least median of seconds."""
    return min(names, key=lambda name: np.median(seconds[name]))
