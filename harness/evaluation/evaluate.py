"""One cell, the straight line: sentences -> vectors -> fitted maps -> cosines -> scores.

A method is fitted the same way for a cell, for its export, and as a function of a program.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float, Float32, Float64, read_only
from harness.core.errors import ScoreError, UsageError
from harness.core.files import text_digest
from harness.core.interfaces import Encoder, Identity, Transform
from harness.core.metrics import PairRows, labelled_splits, metric_of, score, why_undefined
from harness.core.metrics.geometry import alignment_uniformity
from harness.core.provenance import one_blas_thread
from harness.core.types import Clock, Method, Pairs, Progress, Task, why_no_text
from harness.evaluation.embeddings import (
    PROBE,
    SHARD,
    CachedEncoder,
    PooledEmbeddings,
    dropout_batch,
    encoded,
    pooled_rows,
    with_dropout,
)
from harness.evaluation.fit_corpus import (
    CorpusSample,
    FitData,
    applied,
    apply_in_chunks,
    corpus_passes,
    needs_dropout,
    parts_of,
)
from harness.evaluation.select import PlannedCell
from harness.registry import load_registry
from harness.resolve import Resolver
from harness.tasks.loader import OWN_TEXTS, TaskLoader
from harness.transforms.affine import Affine, Moments

# SimCSE takes the pairs with a gold score above 4 of 5 as positives for alignment.
POSITIVE_ABOVE = 4.0


@dataclass(frozen=True, eq=False)
class Measurement:
    """The measurement of one cell: scores in points, per-pair cosines, seconds, further facts.

    (A task whose metric learns has predictions in the place of cosines.)
    """

    scores: Mapping[str, Any]
    cosines: Float64[np.ndarray, " P"]
    timings: Mapping[str, float]
    facts: Mapping[str, Any]


def measure(
    task: Task,
    pairs: Pairs,
    pooled: PooledEmbeddings,
    transforms: Sequence[Transform],
    clock: Clock,
    labelled: Sequence[Pairs] = (),
) -> Measurement:
    """Measure fitted transforms on one task's pairs, whose sentences are among the pooled ones.

    `labelled` are the pairs of the splits that the task's metric learns from. Raises ScoreError
    where a number would be meaningless.
    """
    metric = metric_of(task)
    if len(labelled) != len(labelled_splits(task)):
        raise ScoreError(f"{task.name}: labelled splits go with a metric that learns, and only so")
    start = clock()
    every = (pairs, *labelled)
    texts = sum((p.sentences for p in every), ())
    rows, where = np.unique(pooled.rows(texts), return_inverse=True)
    vectors = read_only(pooled.matrix[rows])
    for transform in transforms:
        vectors = applied(transform, vectors)
    mapped = clock()
    sides = np.split(where, np.cumsum([len(side) for p in every for side in (p.a, p.b)])[:-1])
    scored, *learned = (
        PairRows(a, b, p.gold) for a, b, p in zip(sides[::2], sides[1::2], every, strict=True)
    )
    values, facts = metric.compare(vectors, scored, learned)
    facts = {"dimensions": int(vectors.shape[1]), **facts}
    scores = score(task, values, pairs) | {name: facts.pop(name) for name in metric.further_scores}
    if (why := why_undefined(task, scores, values, pairs)) is not None:
        facts["undefined"] = why
    if metric.of_vectors is not None:
        scores |= metric.of_vectors(vectors, scored, pairs)
    if task.geometry:
        scores |= alignment_uniformity(vectors, scored.a, scored.b, scored.gold > POSITIVE_ABOVE)
    finished = clock()
    if transforms and isinstance(transforms[-1], Affine):
        facts["rank"] = transforms[-1].rank
    timings = {"apply": mapped - start, "score": finished - mapped}
    return Measurement(scores, values, timings, facts)


def fit(method: Method, data: FitData, rng: np.random.Generator) -> tuple[Transform, ...]:
    """Fit the post-processors in the written order, each on what the ones before it give.

    A chain of affine maps is fitted from moments alone and never looks at the vectors again. A
    post-processor that is given a share of a corpus is told so, if moments do not suffice it.
    """
    vectors: Any = data.vectors
    transforms: list[Transform] = []
    for post in method.post:
        if transforms:
            vectors = _mapped(transforms[-1], vectors, data.scratch)
        if post.from_moments and data.scratch is not None and not isinstance(vectors, Moments):
            # The rows may not fit in memory.
            transform = post.fit(Moments.merged(map(Moments.of, parts_of(vectors))), rng)
        elif post.from_moments or data.share == 1:
            transform = post.fit(vectors, rng)
        else:
            fit: Any = post.fit
            transform = fit(vectors, rng, share=data.share)
        if isinstance(vectors, Moments) and not isinstance(transform, Affine):
            raise UsageError(f"{post.name}: fitted from moments, it must give an affine map")
        transforms.append(transform)
    return tuple(transforms)


def _mapped(transform: Transform, vectors: Any, scratch: Path | None) -> Any:
    """The moments or the vectors behind a map."""
    if isinstance(vectors, Moments):
        return vectors.after(cast(Affine, transform))
    if scratch is None:
        return applied(transform, vectors)
    return apply_in_chunks(transform, vectors, scratch)


@dataclass(frozen=True, eq=False)
class FittedCell:
    """A cell's encoder and fitted maps, and the digest of what they are fitted on, if any."""

    identity: Identity
    transforms: tuple[Transform, ...] = ()
    fitted_on: str | None = None


def fit_cell(cell: PlannedCell, loader: TaskLoader, progress: Progress) -> FittedCell:
    """Fit the maps of a cell as a run does, through its cache."""
    encoder = CachedEncoder.open(cell.encoder, loader.places, perf_counter)
    return _fit_cached(cell, encoder, loader, progress)


def _fit_cached(
    cell: PlannedCell, encoder: CachedEncoder, loader: TaskLoader, progress: Progress
) -> FittedCell:
    """Fit the maps of a cell whose encoder is opened."""
    method, text = cell.method, loader.inputs(cell.task, cell.method.fit_on).fit
    if text is None:
        return FittedCell(encoder.identity)
    corpus_pass = corpus_passes(encoder, {cell: text}, progress).get(cell)
    if corpus_pass is not None:
        data = corpus_pass.data(method)
    else:
        sentences = tuple(text.sentences())
        distinct = sorted(set(sentences))
        if missing := encoder.cache.missing(distinct):
            progress.phase(f"{cell.encoder.name}: encoding", len(missing))
            encoder.ensure(missing, progress)
        data = FitData.of(method, encoder.pooled(method.pooling, distinct), text.digest, sentences)
    with one_blas_thread():
        transforms = fit(method, data, np.random.default_rng(cell.seed))
    return FittedCell(encoder.identity, transforms, CorpusSample.of_cell(cell, text).digest)


@dataclass(frozen=True, eq=False)
class Embedder:
    """A fitted method, which maps texts to vectors when it is called.

    Attributes:
        method: The method.
        encoder: Its encoder, loaded.
        transforms: Its post-processors as they were fitted, in order.
        fitted_on: The sha256 of the sentences that they were fitted on; None where there are none.
    """

    method: Method
    encoder: Encoder
    transforms: tuple[Transform, ...] = ()
    fitted_on: str | None = None

    def __call__(self, texts: Iterable[str]) -> Float[np.ndarray, "N K"]:
        """Embed texts.

        Args:
            texts: N texts; each distinct one is encoded once.

        Returns:
            A matrix of N rows in the order of the texts: float64 behind a post-processor, else as
            the encoder gives them.

        Raises:
            ScoreError: The vector of a text is not finite.
            UsageError: It is a single string, or holds something other than strings.
        """
        texts = as_texts(texts)
        embeddings = _pooled(self.method, self.encoder, texts)
        vectors = embeddings.matrix
        for transform in self.transforms:
            vectors = applied(transform, vectors)
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            text = list(embeddings.row)[int(finite.argmin())]
            raise ScoreError(f"{self.method.id}: the vector of {text!r} is not finite")
        return vectors[embeddings.rows(texts)]


def fit_method(
    method: Method, encoder: Encoder, texts: Iterable[str] | None = None, seed: int = 0
) -> Embedder:
    """Fit a method's post-processors on texts, repetitions included.

    A cell of a run that is fitted on these texts with this seed has these maps, but for rounding.
    A method that takes a share of a corpus (`flow:paper-nli`) draws other sentences there.

    Args:
        method: The method.
        encoder: Its encoder, loaded.
        texts: What to fit on, in the place of the corpus that the method's id names; a method
            without post-processors needs none.
        seed: Seeds the generator of every fit.

    Returns:
        The method as a function from texts to vectors. If it was fitted, its id ends with
        `@own-texts`, and `fitted_on` is the digest of the texts.

    Raises:
        UsageError: The method has post-processors and there are no texts to fit them on, or
            these contain something other than strings.
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
        >>> embed.method.id
        'glove-mini.mean+natsv:1@own-texts'
    """
    if not method.post:
        return Embedder(method, encoder)
    texts = as_texts(() if texts is None else texts)
    if not texts:
        raise UsageError(f"{method.id}: wanted texts to fit it on, found none; give some")
    if needs_dropout(method):
        at_once = dropout_batch(encoder, encoded(encoder, [PROBE]))
        data = FitData(_encoded(method, with_dropout(encoder, seed), texts, at_once))
    else:
        data = FitData.of(method, _pooled(method, encoder, texts), "texts", texts)
    with one_blas_thread():
        transforms = fit(method, data, np.random.default_rng(seed))
    fitted = replace(method, fit_on=OWN_TEXTS)
    return Embedder(fitted, encoder, transforms, text_digest(texts))


SMALL_TASK = "mini-sts"  # a task that is always here, for a method that is fitted on no task


def fit_on_corpus(method: Method, loader: TaskLoader, seed: int) -> Embedder:
    """Fit a method on the corpus that its id names, as a run fits it, and through the same cache.

    Raises AssetMissing where encoder or corpus are not on this machine.
    """
    cell = PlannedCell(method, load_registry().tasks[SMALL_TASK], seed)
    encoder = CachedEncoder.open(cell.encoder, loader.places, perf_counter)
    fitted = _fit_cached(cell, encoder, loader, Progress())
    return Embedder(method, encoder.loaded(), fitted.transforms, fitted.fitted_on)


def _pooled(method: Method, encoder: Encoder, texts: Sequence[str]) -> PooledEmbeddings:
    """The distinct texts under the method's pooling."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    return PooledEmbeddings(rows, _encoded(method, encoder, list(rows)), perf_counter)


def _encoded(
    method: Method, encoder: Encoder, texts: Sequence[str], at_once: int = SHARD
) -> Float32[np.ndarray, "N D"]:
    """One row a text, encoded so many at a time."""
    starts = range(0, len(texts), at_once) or (0,)  # no texts have a width, too
    batches = (encoded(encoder, texts[start : start + at_once]) for start in starts)
    parts = [pooled_rows(method.pooling, encoding) for encoding in batches]
    return np.concatenate(parts)


def as_texts(texts: Iterable[str]) -> list[str]:
    """The texts as a list. Raises UsageError for a single string, and for anything but strings."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        kind = "one text" if isinstance(texts, str) else f"a {type(texts).__name__}"
        raise UsageError(f"wanted a list of texts, found {kind}; put it into a list")
    texts = list(texts)
    for row, text in enumerate(texts):
        if (why := why_no_text(text)) is not None:
            raise UsageError(f"wanted texts, {why} in row {row}; leave it out, or make a str of it")
    return texts


def resolved(model: str | Path | Method, places: Places) -> tuple[Method, Places]:
    """The method that a name, a folder or a `Method` means, and places that know its files."""
    if isinstance(model, Method):
        return model, places
    if not isinstance(model, str | Path):
        raise UsageError(
            "wanted the name, the folder or the Method of a model, found a "
            f"{type(model).__name__}; harness.evaluate takes a function, one at a time"
        )
    resolver = Resolver.of(places)
    method = resolver.method(model)
    return method, resolver.places


def encoder(
    model: str | Path | Method,
    *,
    texts: Iterable[str] | None = None,
    seed: int = 0,
    places: Places | None = None,
) -> Embedder:
    """Open a model as a function from texts to vectors.

    Args:
        model: What `harness run -m` takes: the id of a method, an encoder's name, a hub repository
            or a folder, which then mean the model's own modules; or a `Method`.
        texts: What post-processors are fitted on; by default the corpus that the id names, as a run
            fits on it, with the same cache. What is fitted on a task's sentences (`@target`) needs
            them.
        seed: Seeds the fits; of a family, it names the training.
        places: Where files are looked for; by default where the command line looks, as
            HARNESS_CACHE_DIR and HARNESS_DATA_DIR say. Nothing is downloaded.

    Returns:
        The method, fitted: called with N texts, it gives a matrix of N rows. The id of one that was
        fitted on `texts` ends with `@own-texts`.

    Raises:
        UsageError: The name is unknown, or there are no texts to fit on.
        AssetMissing: The model or the corpus is not on this machine; the message says how to get
            it.
        DataError: Its files are not what they should be.

    Examples:
        >>> import harness
        >>> embed = harness.encoder("bert-mini")
        >>> embed(["A man is eating.", "Someone eats."]).shape
        (2, 256)
        >>> embed.method.id
        'bert-mini.mean'
    """
    places = Places.from_environment(os.environ) if places is None else places
    method, places = resolved(model, places)
    corpora = load_registry().corpora
    if texts is None and method.fit_on in corpora:
        return fit_on_corpus(method, TaskLoader(places, corpora), seed)
    config = method.encoder.member(seed)
    loaded = config.load(places.encoder(config), places.cache)
    return fit_method(method, loaded, texts, seed)
