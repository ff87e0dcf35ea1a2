"""One cell, from vectors to a record: post-processors are fitted, and mapped vectors scored.

`measure` scores fitted maps on a task, and its `Measurement` makes the record. `fit`
fits a chain of post-processors. It is called for a cell of a run, by `fit_cell` for an
export, and by the functions that a program calls (`evaluate`).
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np

from harness.core.arrays import Float, Float64, Int, read_only
from harness.core.environment import environment, one_blas_thread, packages
from harness.core.errors import ScoreError, UsageError
from harness.core.interfaces import Identity, PostProcessor, Transform
from harness.core.metrics import (
    PairRows,
    finite_scores,
    labelled_splits,
    metric_of,
    score,
    undefined_reason,
)
from harness.core.metrics.geometry import alignment_uniformity
from harness.core.pairs import Pairs
from harness.core.types import Clock, Method, Progress, Record, Task
from harness.encoders.cache.encodings import EncodingCost
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings
from harness.evaluation.fit_corpus import FitCorpusSample, fit_corpus_passes
from harness.evaluation.fit_vectors import (
    FitCorpusVectors,
    applied,
    apply_in_chunks,
    row_chunks,
)
from harness.evaluation.identity import plugins_of_cell
from harness.evaluation.select import PlannedCell
from harness.results.records import SCHEMA
from harness.tasks.loader import FitCorpus, TaskLoader
from harness.transforms.affine import Affine, Moments

# SimCSE takes the pairs with a gold score above 4 of 5 as positives for alignment.
POSITIVE_ABOVE = 4.0


# Measure


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderFacts:
    """The facts on the encoder of a cell that its record holds.

    Attributes:
        identity: The digests of its files.
        revision: The hub snapshot that they came from; None for other files.
        cost: The seconds that encoding the sentences of the cell's task took, in this run
            or an earlier one, and the settings of the encoder then.
        coverage: The share of the sentences' tokens that have a vector; None for an
            encoder that does not look tokens up.
    """

    identity: Identity
    revision: str | None
    cost: EncodingCost
    coverage: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """The measurement of one cell.

    Attributes:
        scores: The scores in points, as the record has them.
        values: The value of each pair that the scores are computed from: a similarity,
            or the prediction of a metric that learns.
        timings: The seconds that each step took.
        facts: Other facts: dimensions, the rank of the map, zero vectors.
    """

    scores: Mapping[str, Any]
    values: Float64[np.ndarray, " P"]
    timings: Mapping[str, float]
    facts: Mapping[str, Any]

    def record(
        self,
        cell: PlannedCell,
        identity: Mapping[str, str],
        encoder: EncoderFacts,
        fit_seconds: float,
        workers: int,
    ) -> Record:
        """The record of the cell that was measured.

        Args:
            cell: The cell.
            identity: The identity of the cell.
            encoder: The facts on its encoder.
            fit_seconds: The seconds that fitting its post-processors took.
            workers: How many processes ran at the same time.
        """
        cost, coverage = encoder.cost, encoder.coverage
        timings = {"encode": cost.seconds, "fit": fit_seconds, **self.timings}
        digests = {**identity, **encoder.identity.digests}
        digests.pop("method", None)  # the record holds it as `identity`
        devices = [
            str(settings.get("device", "cpu")) for settings in cost.encoder_facts
        ]
        device = ", ".join(dict.fromkeys(devices)) or "cpu"
        plugins = {
            plugin.name: plugin.version for plugin in plugins_of_cell(cell).values()
        }
        facts = {
            **self.facts,
            "distinct_sentences": cost.sentences,
            "sentences_per_second": cost.rate,
            "peak_memory_mb": _peak_memory_mb(),
            "workers": workers if workers > 1 else None,
            "coverage": round(coverage, 4) if coverage is not None else None,
            "plugins": plugins or None,
            "revision": encoder.revision,
            "max_length": encoder.identity.max_length,
            "parameters": encoder.identity.parameters,
            "encoding": list(cost.encoder_facts) or None,
            "encoded_with": _other_versions(cost) or None,
        }
        return Record(
            schema=SCHEMA,
            method=cell.method.id,
            identity=cell.method.identity,
            task=cell.task.name,
            seed=cell.seed,
            scores=self.scores,
            pairs=len(self.values),
            timings={step: round(seconds, 4) for step, seconds in timings.items()},
            digests=digests,
            environment={**environment(), "device": device},
            facts={name: fact for name, fact in facts.items() if fact is not None},
        )


def _other_versions(cost: EncodingCost) -> dict[str, Sequence[str]]:
    """The versions of libraries that encoded the sentences, where another one is installed now."""
    installed = packages()
    return {
        library: versions
        for library, versions in cost.versions.items()
        if versions != [str(installed.get(library))]
    }


def _peak_memory_mb() -> int:
    """The most memory that this process has used, in MiB."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return largest * unit // 2**20


def measure(
    task: Task,
    pairs: Pairs,
    pooled: PooledEmbeddings,
    transforms: Sequence[Transform],
    clock: Clock,
    labelled: Sequence[Pairs] = (),
) -> Measurement:
    """Measure fitted transforms on the pairs of a task.

    Args:
        task: The task.
        pairs: Its scored pairs.
        pooled: The vectors of sentences, including all sentences of the pairs.
        transforms: The fitted maps, in order.
        clock: Tells seconds.
        labelled: The pairs of the splits that the task's metric learns from.

    Raises:
        ScoreError: A number would be meaningless.
    """
    metric = metric_of(task)
    if len(labelled) != len(labelled_splits(task)):
        raise ScoreError(
            f"{task.name}: wanted {len(labelled_splits(task))} labelled splits to learn "
            f"from, found {len(labelled)}"
        )
    start = clock()
    splits = (pairs, *labelled)
    texts: list[str] = []
    for split in splits:
        texts += split.sentences
    rows, row_of_text = np.unique(pooled.rows(texts), return_inverse=True)
    vectors = read_only(pooled.matrix[rows])
    _require_finite("the encoder", vectors, texts, row_of_text)
    for transform in transforms:
        vectors = applied(transform, vectors)
        maker = f"the map {type(transform).__name__}"
        _require_finite(maker, vectors, texts, row_of_text)
    time_mapped = clock()
    scored, *learned_from = _pair_rows(splits, row_of_text)
    values, metric_facts = metric.compare(vectors, scored, learned_from)
    facts = {**metric_facts, "dimensions": int(vectors.shape[1])}
    further_scores = {name: facts.pop(name) for name in metric.further_scores}
    scores = {**score(task, values, pairs), **further_scores}
    if metric.of_vectors is not None:
        scores |= metric.of_vectors(vectors, scored, pairs)
    if task.geometry:
        positive = scored.gold > POSITIVE_ABOVE
        scores |= alignment_uniformity(vectors, scored.a, scored.b, positive)
    scores = finite_scores(metric, scores)
    reason = undefined_reason(task, scores, values, pairs)
    if reason is not None:
        facts["undefined"] = reason
    time_scored = clock()
    if transforms and isinstance(transforms[-1], Affine):
        facts["rank"] = transforms[-1].rank
    return Measurement(
        scores=scores,
        values=values,
        timings={"apply": time_mapped - start, "score": time_scored - time_mapped},
        facts=facts,
    )


def _require_finite(
    maker: str,
    vectors: Float[np.ndarray, "R K"],
    texts: Sequence[str],
    row_of_text: Int[np.ndarray, " T"],
) -> None:
    """Raise ScoreError, which names the text, for a vector that is not finite.

    Args:
        maker: What made the vectors, for the message.
        vectors: The vectors of the distinct texts.
        texts: The texts, with repetitions.
        row_of_text: The row of each text.
    """
    is_finite = np.isfinite(vectors).all(axis=1)
    if not is_finite.all():
        row = int(is_finite.argmin())
        text = texts[int((row_of_text == row).argmax())]
        raise ScoreError(
            f"{maker}: wanted finite numbers, found others in the vector of {text[:60]!r}; mend "
            "what makes it, or leave the sentence out"
        )


def _pair_rows(
    splits: Sequence[Pairs], row_of_text: Int[np.ndarray, " T"]
) -> Iterator[PairRows]:
    """The pairs of each split as rows of the matrix of vectors.

    `row_of_text` has the row of each sentence: of all first sentences of a split, then of
    all its second ones, split after split.
    """
    start = 0
    for split in splits:
        middle = start + len(split.a)
        end = middle + len(split.b)
        rows_of_a = row_of_text[start:middle]
        rows_of_b = row_of_text[middle:end]
        yield PairRows(a=rows_of_a, b=rows_of_b, gold=split.gold)
        start = end


# Fit


def fit(
    method: Method, fit_vectors: FitCorpusVectors, rng: np.random.Generator
) -> tuple[Transform, ...]:
    """Fit a method's post-processors in their order, each on the output of the ones before.

    From moments, a chain of affine maps is fitted without the vectors, since a map gives
    the moments of the mapped vectors.
    """
    vectors: Any = fit_vectors.vectors
    if method.post and not isinstance(vectors, Moments):
        _require_rows_to_fit_on(vectors)
    transforms: list[Transform] = []
    for post in method.post:
        if transforms:
            vectors = _mapped(transforms[-1], vectors, fit_vectors.scratch)
        transform = _fit_one(post, vectors, fit_vectors, rng)
        if not callable(transform):
            raise ScoreError(
                f"+{post.name}: wanted a map of rows from fit, found "
                f"{type(transform).__name__}; return the fitted map"
            )
        if isinstance(vectors, Moments) and not isinstance(transform, Affine):
            raise UsageError(
                f"{post.name}: fitted from moments, it must give an affine map"
            )
        transforms.append(transform)
    return tuple(transforms)


def _require_rows_to_fit_on(x: Float[np.ndarray, "n D"]) -> None:
    """Raise ScoreError unless there are rows, finite ones that are not all equal."""
    are_equal = True
    start = 0
    for chunk in row_chunks(x):
        is_finite = np.isfinite(chunk).all(axis=1)
        if not is_finite.all():
            row = start + int(is_finite.argmin())
            raise ScoreError(f"row {row} of the vectors to fit on is not finite")
        are_equal = are_equal and bool((chunk == x[0]).all())
        start += len(chunk)
    if are_equal:
        finding = "all of them are equal" if start else "no sentences to fit on"
        raise ScoreError(f"wanted vectors to fit on that differ, found: {finding}")


def _fit_one(
    post: PostProcessor,
    vectors: Any,
    fit_vectors: FitCorpusVectors,
    rng: np.random.Generator,
) -> Any:
    """Fit one post-processor on vectors or moments; returns what it gives.

    If it is fitted on the rows of a share of a corpus, it is told how large the share is.
    """
    are_rows = not isinstance(vectors, Moments)
    may_exceed_memory = fit_vectors.scratch is not None
    if post.from_moments and are_rows and may_exceed_memory:
        moments = Moments.merged(Moments.of(chunk) for chunk in row_chunks(vectors))
        return post.fit(moments, rng)
    if post.from_moments or fit_vectors.share == 1:
        return post.fit(vectors, rng)
    fit_share: Any = post.fit
    return fit_share(vectors, rng, share=fit_vectors.share)


def _mapped(transform: Transform, vectors: Any, scratch: Path | None) -> Any:
    """The moments or the rows of mapped vectors; rows go into `scratch` if it is given."""
    if isinstance(vectors, Moments):
        return vectors.after(cast(Affine, transform))
    if scratch is None:
        return applied(transform, vectors)
    return apply_in_chunks(transform, vectors, scratch)


@dataclass(frozen=True, eq=False)
class FittedTransforms:
    """The maps of a cell as they were fitted.

    Attributes:
        identity: The identity of the cell's encoder.
        transforms: The maps, in order.
        fitted_on: The sha256 of the sentences that they were fitted on; None without
            any.
    """

    identity: Identity
    transforms: tuple[Transform, ...] = ()
    fitted_on: str | None = None


def fit_cell(
    cell: PlannedCell,
    loader: TaskLoader,
    progress: Progress,
    encoder: CachedEncoder | None = None,
) -> FittedTransforms:
    """Fit the maps of a cell as a run does, with the same cache.

    Args:
        cell: The cell.
        loader: Reads the sentences that it is fitted on.
        progress: Counts the sentences that are encoded.
        encoder: The encoder of the cell, if it is open already.
    """
    if encoder is None:
        encoder = CachedEncoder.open(cell.encoder, loader.places, perf_counter)
    fit_corpus = loader.texts(cell.task, cell.method.fit_on).fit_corpus
    if fit_corpus is None:
        return FittedTransforms(encoder.identity)
    corpus_pass = fit_corpus_passes(encoder, {cell: fit_corpus}, progress).get(cell)
    if corpus_pass is not None:
        fit_vectors = corpus_pass.vectors(cell.method)
    else:
        fit_vectors = _encoded_fit_corpus(cell, fit_corpus, encoder, progress)
    with one_blas_thread():
        transforms = fit(cell.method, fit_vectors, np.random.default_rng(cell.seed))
    digest = FitCorpusSample.for_cell(cell, fit_corpus).digest
    return FittedTransforms(encoder.identity, transforms, digest)


def _encoded_fit_corpus(
    cell: PlannedCell, fit_corpus: FitCorpus, encoder: CachedEncoder, progress: Progress
) -> FitCorpusVectors:
    """The vectors of the task's sentences that a cell is fitted on.

    They are read from the cache, and missing ones are encoded first.
    """
    sentences = tuple(fit_corpus.sentences())
    distinct_sentences = sorted(set(sentences))
    missing = encoder.cache.missing(distinct_sentences)
    if missing:
        progress.phase(f"{cell.encoder.name}: encoding", len(missing))
        encoder.ensure(missing, progress)
    pooled = encoder.pooled(cell.method.pooling, distinct_sentences)
    return FitCorpusVectors.from_embeddings(
        cell.method, pooled, fit_corpus.digest, sentences
    )
