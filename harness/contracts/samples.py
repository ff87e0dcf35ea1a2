"""Sample data for contract tests: rows, encodings and pairs, small and the same in every run.

Axis letters: N sentences, D dimensions.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.core.interfaces import Encoding, PostProcessor
from harness.core.types import Pairs
from harness.evaluation.embeddings import PooledEmbeddings

MISSING_FOLDER = Path("no-such-folder")


def rows(count: int, width: int, seed: int = 0) -> np.ndarray:
    """Correlated, off-centre float32 rows, as encoders give them, of shape (count, width).

    Their standard deviations along orthogonal directions fall from 1 to 0.05.
    """
    rng = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(rng.normal(size=(width, width)))
    deviations = np.geomspace(1, 0.05, width)
    centred_rows = (rng.normal(size=(count, width)) * deviations) @ directions
    centre = rng.normal(size=width)
    return (centred_rows + centre).astype(np.float32)


def with_constants(x: np.ndarray, noise: np.ndarray | float = 0.0) -> np.ndarray:
    """The rows with three more coordinates, constant but for noise, as MiniLM has them."""
    constants = np.full((len(x), 3), 0.1, np.float32) + np.float32(noise)
    return np.concatenate([x, constants.astype(np.float32)], axis=1)


def dimensions(*posts: PostProcessor) -> int:
    """More dimensions than these post-processors together take out or keep.

    The argument in a name, `natsv:6` or `whitening:256`, counts dimensions.
    """
    count = 16
    for post in posts:
        argument = post.name.partition(":")[2]
        if argument.isdigit():
            count += int(argument)
    return count


def rows_to_fit_on(*posts: PostProcessor) -> np.ndarray:
    """Enough rows of enough dimensions for these post-processors, one after the other."""
    width = dimensions(*posts)
    return rows(2 * width, width)


def encoding(count: int = 5, depth: int = 4, width: int = 6) -> Encoding:
    """An encoding with token means of every layer, [CLS], a pooler and a vector of modules."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(count, depth + 1, width)).astype(np.float32)
    cls, pooler, native = rng.normal(size=(3, count, width)).astype(np.float32)
    return Encoding(
        layers=tuple(range(depth + 1)),
        depth=depth,
        mean=mean,
        cls=cls,
        pooler=pooler,
        native=native,
    )


def pooled_pairs(x: np.ndarray) -> tuple[PooledEmbeddings, Pairs]:
    """The rows as the vectors of sentences, and each two that follow each other as a pair.

    Gold scores go from 0 to 5; the pairs are in two groups.
    """
    texts = [f"sentence {row}" for row in range(len(x))]
    gold = np.random.default_rng(0).integers(0, 11, len(x) // 2) / 2
    group = tuple("near" if number % 3 else "far" for number in range(len(gold)))
    pairs = Pairs(tuple(texts[0::2]), tuple(texts[1::2]), gold, group)
    row_of_text = {text: row for row, text in enumerate(texts)}
    return PooledEmbeddings(row_of_text, x, clock=lambda: 0.0), pairs
