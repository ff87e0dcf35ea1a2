"""One cell, from texts to a record: vectors, fitted maps, similarities, scores.

A method is fitted the same way for a cell, for its export, and as a function of a
program.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np

from harness.core.arrays import Float64, Int, read_only
from harness.core.environment import environment, one_blas_thread, packages
from harness.core.errors import ScoreError, UsageError
from harness.core.interfaces import Identity, PostProcessor, Transform
from harness.core.metrics import (
    PairRows,
    labelled_splits,
    metric_of,
    score,
    undefined_reason,
)
from harness.core.metrics.geometry import alignment_uniformity
from harness.core.types import Clock, Method, Pairs, Progress, Record, Task
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
from harness.tasks.loader import TaskLoader
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
        cost: What encoding the sentences of the cell's task took, whenever that was.
        coverage: The share of their tokens that have a vector; None but for word
            vectors.
    """

    identity: Identity
    revision: str | None
    cost: EncodingCost
    coverage: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """The measurement of one cell.

    Attributes:
        scores: In points.
        values: One a pair, by which it is scored: cosines, or the predictions of a
            metric that learns.
        timings: Seconds, by what took them.
        facts: What else was seen: dimensions, ranks, zero vectors.
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
        """The record of the cell that was measured; `workers` processes ran at the same time."""
        cost = encoder.cost
        timings = {"encode": cost.seconds, "fit": fit_seconds, **self.timings}
        digests = {name: value for name, value in identity.items() if name != "method"}
        plugins = {
            plugin.name: plugin.version for plugin in plugins_of_cell(cell).values()
        }
        devices = dict.fromkeys(
            str(facts.get("device", "cpu")) for facts in cost.encoder_facts
        )
        facts = {
            **self.facts,
            "distinct_sentences": cost.sentences,
            "sentences_per_second": cost.rate,
            "peak_memory_mb": _peak_memory_mb(),
            "workers": workers if workers > 1 else None,
            "coverage": None
            if encoder.coverage is None
            else round(encoder.coverage, 4),
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
            digests={**digests, **encoder.identity.digests},
            environment={**environment(), "device": ", ".join(devices) or "cpu"},
            facts={name: fact for name, fact in facts.items() if fact is not None},
        )


def _other_versions(cost: EncodingCost) -> dict[str, Sequence[str]]:
    """The versions that encoded the sentences, of libraries that are installed in another."""
    installed = {library: [str(version)] for library, version in packages().items()}
    return {
        library: versions
        for library, versions in cost.versions.items()
        if versions != installed.get(library)
    }


def _peak_memory_mb() -> int:
    """The process's high-water mark; Linux counts in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


def measure(
    task: Task,
    pairs: Pairs,
    pooled: PooledEmbeddings,
    transforms: Sequence[Transform],
    clock: Clock,
    labelled: Sequence[Pairs] = (),
) -> Measurement:
    """Measure fitted transforms on one task's pairs, whose sentences are among the pooled ones.

    `labelled` are the pairs of the splits that the task's metric learns from. Raises
    ScoreError where a number would be meaningless.
    """
    metric = metric_of(task)
    if len(labelled) != len(labelled_splits(task)):
        raise ScoreError(
            f"{task.name}: wanted {len(labelled_splits(task))} labelled splits to learn "
            f"from, found {len(labelled)}"
        )
    start = clock()
    texts = [text for split in (pairs, *labelled) for text in split.sentences]
    rows = np.unique(pooled.rows(texts))
    vectors = read_only(pooled.matrix[rows])
    for transform in transforms:
        vectors = applied(transform, vectors)
    mapped = clock()
    scored = _pair_rows(pairs, pooled, rows)
    learned_from = [_pair_rows(split, pooled, rows) for split in labelled]
    values, found = metric.compare(vectors, scored, learned_from)
    facts = {"dimensions": int(vectors.shape[1]), **found}
    scores = score(task, values, pairs)
    for name in metric.further_scores:
        scores[name] = facts.pop(name)
    reason = undefined_reason(task, scores, values, pairs)
    if reason is not None:
        facts["undefined"] = reason
    if metric.of_vectors is not None:
        scores |= metric.of_vectors(vectors, scored, pairs)
    if task.geometry:
        positive = scored.gold > POSITIVE_ABOVE
        scores |= alignment_uniformity(vectors, scored.a, scored.b, positive)
    finished = clock()
    if transforms and isinstance(transforms[-1], Affine):
        facts["rank"] = transforms[-1].rank
    return Measurement(
        scores=scores,
        values=values,
        timings={"apply": mapped - start, "score": finished - mapped},
        facts=facts,
    )


def _pair_rows(
    pairs: Pairs, pooled: PooledEmbeddings, rows: Int[np.ndarray, " n"]
) -> PairRows:
    """Pairs by where their sentences are among the chosen rows, which ascend."""
    a = np.searchsorted(rows, pooled.rows(pairs.a))
    b = np.searchsorted(rows, pooled.rows(pairs.b))
    return PairRows(a=a, b=b, gold=pairs.gold)


# Fit


def fit(
    method: Method, fit_vectors: FitCorpusVectors, rng: np.random.Generator
) -> tuple[Transform, ...]:
    """Fit the post-processors in the written order, each on what the ones before it give.

    A chain of affine maps is fitted from moments alone and never looks at the vectors
    again.
    """
    vectors: Any = fit_vectors.vectors
    transforms: list[Transform] = []
    for post in method.post:
        if transforms:
            vectors = _mapped(transforms[-1], vectors, fit_vectors.scratch)
        transform = _fit_one(post, vectors, fit_vectors, rng)
        if isinstance(vectors, Moments) and not isinstance(transform, Affine):
            raise UsageError(
                f"{post.name}: fitted from moments, it must give an affine map"
            )
        transforms.append(transform)
    return tuple(transforms)


def _fit_one(
    post: PostProcessor,
    vectors: Any,
    fit_vectors: FitCorpusVectors,
    rng: np.random.Generator,
) -> Transform:
    """Fit one post-processor on vectors or moments.

    One that needs rows, and is given a share of a corpus, is told how large the share
    is.
    """
    may_exceed_memory = fit_vectors.scratch is not None and not isinstance(
        vectors, Moments
    )
    if post.from_moments and may_exceed_memory:
        return post.fit(Moments.merged(map(Moments.of, row_chunks(vectors))), rng)
    if post.from_moments or fit_vectors.share == 1:
        return post.fit(vectors, rng)
    fit_share: Any = post.fit
    transform: Transform = fit_share(vectors, rng, share=fit_vectors.share)
    return transform


def _mapped(transform: Transform, vectors: Any, scratch: Path | None) -> Any:
    """The moments or the rows of mapped vectors."""
    if isinstance(vectors, Moments):
        return vectors.after(cast(Affine, transform))
    if scratch is None:
        return applied(transform, vectors)
    return apply_in_chunks(transform, vectors, scratch)


@dataclass(frozen=True, eq=False)
class FittedTransforms:
    """The maps of a cell as they were fitted.

    Attributes:
        identity: That of the cell's encoder.
        transforms: The maps, in order.
        fitted_on: The sha256 of the sentences that they are fitted on; None where there
            are none.
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
    """Fit the maps of a cell as a run does, through its cache; `encoder` is its own, if open."""
    if encoder is None:
        encoder = CachedEncoder.open(cell.encoder, loader.places, perf_counter)
    method, fit_corpus = (
        cell.method,
        loader.texts(cell.task, cell.method.fit_on).fit_corpus,
    )
    if fit_corpus is None:
        return FittedTransforms(encoder.identity)
    corpus_pass = fit_corpus_passes(encoder, {cell: fit_corpus}, progress).get(cell)
    if corpus_pass is not None:
        vectors = corpus_pass.vectors(method)
    else:
        sentences = tuple(fit_corpus.sentences())
        distinct = sorted(set(sentences))
        missing = encoder.cache.missing(distinct)
        if missing:
            progress.phase(f"{cell.encoder.name}: encoding", len(missing))
            encoder.ensure(missing, progress)
        pooled = encoder.pooled(method.pooling, distinct)
        vectors = FitCorpusVectors.from_embeddings(
            method, pooled, fit_corpus.digest, sentences
        )
    with one_blas_thread():
        transforms = fit(method, vectors, np.random.default_rng(cell.seed))
    digest = FitCorpusSample.for_cell(cell, fit_corpus).digest
    return FittedTransforms(encoder.identity, transforms, digest)
