"""What contracts are tried on: rows, encodings and pairs, small and the same in every run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.core.interfaces import Encoding, PostProcessor
from harness.core.types import Pairs
from harness.evaluation.embeddings import PooledEmbeddings

MISSING_FOLDER = Path("no-such-folder")


def rows(count: int, width: int, seed: int = 0) -> np.ndarray:
    """Correlated, off-centre float32 rows, like an encoder's; spreads fall from 1 to 0.05."""
    rng = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(rng.normal(size=(width, width)))
    spread = np.geomspace(1, 0.05, width)
    cloud = (rng.normal(size=(count, width)) * spread) @ directions
    return (cloud + rng.normal(size=width)).astype(np.float32)


def with_constants(x: np.ndarray, noise: np.ndarray | float = 0.0) -> np.ndarray:
    """The rows with three constant coordinates more, as MiniLM has them, and noise in these."""
    constant = np.full((len(x), 3), 0.1, np.float32) + np.float32(noise)
    return np.concatenate([x, constant.astype(np.float32)], axis=1)


def dimensions(*posts: PostProcessor) -> int:
    """More dimensions than any of these asks for: the argument in a name counts directions."""
    arguments = (post.name.partition(":")[2] for post in posts)
    return 16 + sum(int(a) for a in arguments if a.isdigit())


def rows_to_fit_on(*posts: PostProcessor) -> np.ndarray:
    """Rows that these post-processors can be fitted on, one after the other."""
    width = dimensions(*posts)
    return rows(2 * width, width)


def encoding(count: int = 5, depth: int = 4, width: int = 6) -> Encoding:
    """An encoding that keeps every layer, a summary token, a pooler and what modules make."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(count, depth + 1, width)).astype(np.float32)
    cls, pooler, native = rng.normal(size=(3, count, width)).astype(np.float32)
    return Encoding(tuple(range(depth + 1)), depth, mean, cls, pooler, native)


def view_of(x: np.ndarray) -> tuple[PooledEmbeddings, Pairs]:
    """The rows as the sentences of a view, and neighbouring ones as pairs in two groups."""
    texts = [f"sentence {row}" for row in range(len(x))]
    gold = np.random.default_rng(0).integers(0, 11, len(x) // 2) / 2
    group = tuple("near" if row % 3 else "far" for row in range(len(gold)))
    pairs = Pairs(tuple(texts[0::2]), tuple(texts[1::2]), gold, group)
    row_of_text = {text: row for row, text in enumerate(texts)}
    return PooledEmbeddings(row_of_text, x, clock=lambda: 0.0), pairs
