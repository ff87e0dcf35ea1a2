"""Moments of a streamed corpus: at the rate of the bare products, in memory that does not grow."""

import tracemalloc
from functools import reduce
from itertools import cycle, islice

import numpy as np
import pytest

from baselines.whitening import Whitening
from harness.core.metrics import cosine
from harness.core.metrics.correlation import spearman
from harness.evaluation.embeddings import SHARD
from harness.transforms.affine import Moments

ROWS, SIZE = 1_000_000, 768
BLOCKS = 8  # in memory, taken in turn: what stands in them does not matter to the clock
PRODUCTS = 64  # blocks whose bare product is measured each round
SHARE = 0.5  # of the matrix rate
EQUAL = 1e-6  # points


def blocks(count, rows, size):
    """So many blocks of float32 rows, correlated and off centre, as encodings are."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(size, size)) / np.sqrt(size) + 3 * np.eye(size)
    made = [
        rng.normal(size=(rows, size)) @ mixing + 2 for _ in range(min(count, BLOCKS))
    ]
    return islice(cycle([block.astype(np.float32) for block in made]), count)


def streamed(parts):
    return reduce(Moments.merge, map(Moments.of, parts))


def test_moments_of_a_million_rows(side_by_side):
    rows, size = (SHARD, SIZE) if side_by_side.on else (64, 16)
    count = ROWS // rows if side_by_side.on else 3
    products = PRODUCTS if side_by_side.on else 1
    kept = list(blocks(BLOCKS, rows, size))
    a, b = (block.astype(np.float64) for block in kept[:2])

    def multiply():  # of two matrices: that of a matrix with itself is half the work
        for _ in range(products):
            a.T @ b

    side_by_side.run(
        lambda: streamed(islice(cycle(kept), count)), {"products": multiply}
    )
    shares = (
        side_by_side.ratios("products", count / products) if side_by_side.on else [1.0]
    )
    facts = {"rows": count * rows, "size": size}
    side_by_side.require("moments-matrix-rate", shares, SHARE, **facts)


def peak(count, rows, size):
    """Bytes that moments take at most, beside the rows that are handed in."""
    parts = list(blocks(count, rows, size))
    tracemalloc.start()
    streamed(parts)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_memory_does_not_grow_with_the_rows():
    size, rows = 256, 128
    few, many = peak(4, rows, size), peak(64, rows, size)
    assert many < 1.1 * few
    assert many < 8 * (size * size + rows * size) * 8


@pytest.mark.parametrize("dimensions", [None, 32])
def test_scores_are_those_of_two_passes(dimensions):
    """The mean first, then the products of centred rows, all of them at once in float64."""
    parts = list(blocks(6, 500, 96))
    rows = np.concatenate(parts).astype(np.float64)
    centred = rows - rows.mean(axis=0)
    two_passes = Moments(len(rows), rows.mean(axis=0), centred.T @ centred)
    post, rng = (
        Whitening(dimensions) if dimensions else Whitening(),
        np.random.default_rng(0),
    )
    a, b = np.split(rows[:2000], 2)
    gold = rng.normal(size=len(a))
    scores = []
    for moments in (streamed(parts), two_passes):
        whiten = post.fit(moments, rng)
        scores.append(spearman(cosine(whiten(a), whiten(b))[0], gold))
    assert scores[0] == pytest.approx(scores[1], abs=EQUAL)
