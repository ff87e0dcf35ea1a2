"""Sample data for laws: rows, encodings and pairs, small and the same in every run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.core.interfaces import Encoding, PostProcessor
from harness.core.metrics import PairRows

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
    """The rows with three more coordinates that are constant but for noise, as MiniLM has.

    Args:
        x: (count, width) rows.
        noise: (count, 3) numbers that are added to the new coordinates, or one number.
    """
    constants = np.full((len(x), 3), 0.1, np.float32) + np.float32(noise)
    return np.concatenate([x, constants.astype(np.float32)], axis=1)


def rows_to_fit_on(*posts: PostProcessor) -> np.ndarray:
    """Rows on which these post-processors can be fitted, one after the other.

    They have 16 dimensions more than the post-processors take out or keep: the arguments
    in their names, `natsv:6` or `whitening:256`, are numbers of dimensions.
    """
    width = 16
    for post in posts:
        argument = post.name.partition(":")[2]
        if argument.isdigit():
            width += int(argument)
    return rows(2 * width, width)


def encoding(count: int = 5, depth: int = 4, width: int = 6) -> Encoding:
    """An encoding of `count` sentences, in which no part is missing.

    It has the token means of the embedding layer and of `depth` layers, [CLS], a pooler
    and the vector of a model under its own modules, all of `width` dimensions.
    """
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(count, depth + 1, width)).astype(np.float32)
    pooler, native = rng.normal(size=(2, count, width)).astype(np.float32)
    of_layers = rng.normal(size=(4, *mean.shape)).astype(np.float32)
    layer_cls, layer_max, layer_sep, layer_weighted = of_layers
    return Encoding(
        layers=tuple(range(depth + 1)),
        depth=depth,
        mean=mean,
        layer_cls=layer_cls,
        layer_max=layer_max,
        layer_sep=layer_sep,
        layer_weighted=layer_weighted,
        lengths=np.arange(2, count + 2, dtype=np.float32)[:, None],
        cls=layer_cls[:, -1],
        pooler=pooler,
        native=native,
    )


def pair_rows(row_numbers: np.ndarray, largest_gold: float) -> PairRows:
    """Pairs of the first two rows, the next two, ...; gold is 0 and `largest_gold` in turn."""
    a, b = row_numbers[0::2], row_numbers[1::2]
    return PairRows(a=a, b=b, gold=np.arange(len(a)) % 2 * largest_gold)
