"""One cell: its identity, the fit of its post-processors, its measurement and its record.

A cell is done if a stored record has the identity that the cell would be measured with
now. docs/identity.md says which changes make a cell another one.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float64, read_only, read_only_view
from harness.core.environment import environment, packages
from harness.core.errors import ScoreError, UsageError
from harness.core.interfaces import PostProcessor, Transform
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
from harness.core.provenance import PLUGINS, code_digest, code_of
from harness.core.types import Record, Task
from harness.data.places import revision_of
from harness.data.tasks.loader import CellTexts
from harness.encoders.encodings import EncodingCost
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings, require_rows
from harness.evaluation.fit_corpus import FitCorpusSample
from harness.evaluation.select import PlannedCell
from harness.results.records import SCHEMA
from harness.transforms.affine import Affine, Moments

# SimCSE takes the pairs with a gold score above 4 of 5 as positives for alignment.
POSITIVE_ABOVE = 4.0


# Identity


def identity_of(
    cell: PlannedCell, texts: CellTexts, encoder_key: str, with_fit: bool = True
) -> dict[str, str]:
    """The identity of a cell: its method, data, encoding, code, and the sentences of its fit.

    Args:
        cell: The cell.
        texts: Its texts.
        encoder_key: The key in the identity of the cell's encoder.
        with_fit: Whether a corpus is read for the digest of the sentences that are
            fitted on. A plan leaves that digest out.

    Returns:
        A text or a digest for each of these facts, by its name in the record.
    """
    method, metric = cell.method, metric_of(cell.task)
    identity = {
        "method": method.identity,
        "data": texts.digests["data"],
        "encoding": encoder_key,
        "code": code_digest(),
        **code_of(method.encoder, method.pooling, *method.post, metric, cell.task.load),
        **texts.digests,
    }
    if with_fit and texts.fit_corpus is not None:
        sample = FitCorpusSample.of(method, cell.seed, texts.fit_corpus)
        identity["fit"] = sample.digest
    return identity


# Fit


def fit(
    posts: Sequence[PostProcessor],
    vectors: Moments | Float[np.ndarray, "n D"],
    rng: np.random.Generator,
    share: float = 1.0,
) -> tuple[Transform, ...]:
    """Fit post-processors in their order, each on the output of the ones before.

    From moments, a chain of affine maps is fitted without the vectors, since a map gives
    the moments of the mapped vectors.

    Args:
        posts: The post-processors.
        vectors: The rows to fit on, with repetitions, or their moments.
        rng: The only source of randomness.
        share: The number of vectors divided by the number of the corpus's sentences. A
            post-processor that takes a share of a corpus is told it.
    """
    x: Any = vectors
    if posts and not isinstance(x, Moments):
        x = read_only_view(x)
    transforms: list[Transform] = []
    for post in posts:
        is_whole = post.from_moments or share == 1
        options: Any = {} if is_whole else {"share": share}
        transform: Any = post.fit(x, rng, **options)
        if not callable(transform):
            raise ScoreError(
                f"+{post.name}: wanted a map of rows from fit, found "
                f"{type(transform).__name__}; return the fitted map"
            )
        if isinstance(x, Moments) and not isinstance(transform, Affine):
            raise UsageError(
                f"+{post.name}: wanted an Affine of a fit from moments, found "
                f"{type(transform).__name__}; return one, or set from_moments = False"
            )
        transforms.append(transform)
        if len(transforms) < len(posts):
            x = x.after(transform) if isinstance(x, Moments) else applied(transform, x)
    return tuple(transforms)


def applied(
    transform: Transform, x: Float[np.ndarray, "n D"]
) -> Float[np.ndarray, "n K"]:
    """The rows under a map, which cannot write into `x`; the result is read-only.

    Raises ScoreError unless there are as many rows of real numbers as in `x`.
    """
    mapped = transform(read_only_view(x))
    require_rows(f"the map {type(transform).__name__}", mapped, len(x))
    return read_only_view(mapped)


# Measurement


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


def measure(
    task: Task,
    pairs: Pairs,
    pooled: PooledEmbeddings,
    transforms: Sequence[Transform],
    labelled: Sequence[Pairs] = (),
) -> Measurement:
    """Measure fitted transforms on the pairs of a task.

    Args:
        task: The task.
        pairs: Its scored pairs.
        pooled: The vectors of sentences, including all sentences of the pairs.
        transforms: The fitted maps, in order.
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
    start = perf_counter()
    splits = (pairs, *labelled)
    texts: list[str] = []
    for split in splits:
        texts += split.sentences
    rows = np.unique(pooled.rows(texts))
    vectors = read_only(pooled.matrix[rows])
    maker = "the encoder"
    for transform in (None, *transforms):
        if transform is not None:
            vectors = applied(transform, vectors)
            maker = f"the map {type(transform).__name__}"
        is_finite = np.isfinite(vectors).all(axis=1)
        if not is_finite.all():
            row = rows[is_finite.argmin()]
            text = next(text for text in texts if pooled.row[text] == row)
            raise ScoreError(
                f"{maker}: wanted finite numbers, found others in the vector of {text[:60]!r}; "
                "mend what makes it, or leave the sentence out"
            )
    time_mapped = perf_counter()
    scored, *learned_from = (
        PairRows(
            a=np.searchsorted(rows, pooled.rows(split.a)),
            b=np.searchsorted(rows, pooled.rows(split.b)),
            gold=split.gold,
        )
        for split in splits
    )
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
    time_scored = perf_counter()
    if transforms and isinstance(transforms[-1], Affine):
        facts["rank"] = transforms[-1].rank
    return Measurement(
        scores=scores,
        values=values,
        timings={"apply": time_mapped - start, "score": time_scored - time_mapped},
        facts=facts,
    )


# Record


def record_of(
    cell: PlannedCell,
    identity: Mapping[str, str],
    measurement: Measurement,
    encoder: CachedEncoder,
    cost: EncodingCost,
    fit_seconds: float,
    workers: int,
) -> Record:
    """The record of a cell that was measured.

    Args:
        cell: The cell.
        identity: The identity of the cell.
        measurement: Its measurement.
        encoder: Its encoder.
        cost: The seconds that encoding the sentences of the cell's task took, in this run
            or an earlier one, and the settings of the encoder then.
        fit_seconds: The seconds that fitting its post-processors took.
        workers: How many processes ran at the same time.
    """
    timings = {"encode": cost.seconds, "fit": fit_seconds, **measurement.timings}
    digests = {**identity, **encoder.identity.digests}
    digests.pop("method")  # the record holds it as `identity`
    devices = [str(settings.get("device", "cpu")) for settings in cost.encoder_facts]
    device = ", ".join(dict.fromkeys(devices)) or "cpu"
    plugins = {
        name: plugin.version
        for name, plugin in PLUGINS.items()
        if f"plugin {name}" in identity
    }
    installed = packages()
    other_versions = {
        library: versions
        for library, versions in cost.versions.items()
        if versions != [str(installed.get(library))]
    }
    facts = {
        **measurement.facts,
        "distinct_sentences": cost.sentences,
        "sentences_per_second": cost.rate,
        "peak_memory_mb": _peak_memory_mb(),
        "workers": workers if workers > 1 else None,
        "coverage": None if cost.coverage is None else round(cost.coverage, 4),
        "plugins": plugins or None,
        "revision": revision_of(encoder.path),
        "max_length": encoder.identity.max_length,
        "parameters": encoder.identity.parameters,
        "encoding": list(cost.encoder_facts) or None,
        "encoded_with": other_versions or None,
    }
    return Record(
        schema=SCHEMA,
        method=cell.method.id,
        identity=cell.method.identity,
        task=cell.task.name,
        seed=cell.seed,
        scores=measurement.scores,
        pairs=len(measurement.values),
        timings={step: round(seconds, 4) for step, seconds in timings.items()},
        digests=digests,
        environment={**environment(), "device": device},
        facts={name: fact for name, fact in facts.items() if fact is not None},
    )


def _peak_memory_mb() -> int:
    """The most memory that this process has used, in MiB."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return largest * unit // 2**20
