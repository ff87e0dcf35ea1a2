"""A method as a function from texts to vectors, for any Python program: fit once, call freely.

Nothing is cached: a text goes through the encoder at every call, once per call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from harness.core.arrays import Float, Float32
from harness.core.errors import ScoreError, UsageError
from harness.core.interfaces import Encoder, Transform
from harness.core.types import Method
from harness.evaluation.embeddings import PROBE, SHARD, dropout_batch, with_dropout
from harness.evaluation.evaluate import FitData, fit
from harness.evaluation.fit_corpus import from_moments, needs_dropout
from harness.evaluation.pooled import PooledEmbeddings


@dataclass(frozen=True, eq=False)
class Embedder:
    """A fitted method, which maps texts to vectors when it is called.

    Attributes:
        method: The method.
        encoder: Its encoder, loaded.
        transforms: Its post-processors as they were fitted, in order.
    """

    method: Method
    encoder: Encoder
    transforms: tuple[Transform, ...] = ()

    def __call__(self, texts: Iterable[str]) -> Float[np.ndarray, "N K"]:
        """Embed texts.

        Args:
            texts: N texts; each distinct one is encoded once.

        Returns:
            A matrix of N rows in the order of the texts: float64 behind a post-processor, else as
            the encoder gives them.

        Raises:
            ScoreError: The vector of a text is not finite.
            UsageError: One text is given instead of a list, or something in it is no text.
        """
        texts = as_texts(texts)
        embeddings = pooled(self.method, self.encoder, texts)
        vectors = embeddings.matrix
        for transform in self.transforms:
            vectors = transform(vectors)
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            text = list(embeddings.row)[int(finite.argmin())]
            raise ScoreError(f"{self.method.id}: the vector of {text!r} is not finite")
        return vectors[embeddings.rows(texts)]


def fit_method(
    method: Method, encoder: Encoder, texts: Iterable[str] | None = None, seed: int = 0
) -> Embedder:
    """Fit a method's post-processors on texts, repetitions included.

    A cell of a run that is fitted on these texts with this seed has these very maps.

    Args:
        method: The method.
        encoder: Its encoder, loaded.
        texts: What to fit on; a method without post-processors needs none.
        seed: Seeds the generator of every fit.

    Returns:
        The method as a function from texts to vectors.

    Raises:
        UsageError: The method has post-processors and there are no texts to fit them on, or
            something among these is no text.
        ScoreError: The vectors of the texts span too few directions, or are not finite.

    Examples:
        >>> from pathlib import Path
        >>> from harness import Places, fit_method, load_registry
        >>> method = load_registry().parse("glove-mini.mean+natsv:1@target")
        >>> places = Places(cache=Path("cache"))
        >>> encoder = method.encoder.load(places.encoder(method.encoder), places.cache)
        >>> embed = fit_method(method, encoder, texts=["A man eats.", "A dog runs.", "It rains."])
        >>> embed(["A man runs.", "A man runs."]).shape
        (2, 100)
    """
    if not method.post:
        return Embedder(method, encoder)
    texts = as_texts(() if texts is None else texts)
    if not texts:
        raise UsageError(f"{method.id}: wanted texts to fit it on, found none; give some")
    if needs_dropout(method):
        at_once = dropout_batch(encoder, encoder.encode([PROBE]))
        data = FitData(encoded(method, with_dropout(encoder, seed), texts, at_once))
    else:
        embeddings = pooled(method, encoder, texts)
        if from_moments(method):
            data = FitData(embeddings.moments("texts", texts)[0])
        else:
            data = FitData(embeddings.matrix[embeddings.rows(texts)])
    return Embedder(method, encoder, fit(method, data, np.random.default_rng(seed)))


def pooled(method: Method, encoder: Encoder, texts: Sequence[str]) -> PooledEmbeddings:
    """The distinct texts under the method's pooling."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    return PooledEmbeddings(rows, encoded(method, encoder, list(rows)), perf_counter)


def encoded(
    method: Method, encoder: Encoder, texts: Sequence[str], at_once: int = SHARD
) -> Float32[np.ndarray, "N D"]:
    """One row a text, encoded so many at a time."""
    starts = range(0, len(texts), at_once) or (0,)  # no texts have a width, too
    parts = [method.pooling(encoder.encode(texts[s : s + at_once])) for s in starts]
    return np.concatenate(parts)


def as_texts(texts: Iterable[str]) -> list[str]:
    """The texts as a list. Raises UsageError for one text, and for what is no text."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        kind = "one text" if isinstance(texts, str) else f"a {type(texts).__name__}"
        raise UsageError(f"wanted a list of texts, found {kind}; put it into a list")
    found = list(texts)
    for row, text in enumerate(found):
        if not isinstance(text, str):
            raise UsageError(
                f"wanted texts, found {text!r:.40} in row {row}; leave it out, or make a str of it"
            )
    return found
