"""One cell: its identity, its measurement and its record.

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

from harness.core.arrays import Float64, read_only
from harness.core.environment import environment, packages
from harness.core.errors import ScoreError
from harness.core.interfaces import Transform
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
from harness.encoders.trained import course_of_training
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings, applied
from harness.evaluation.select import PlannedCell
from harness.results.records import SCHEMA
from harness.transforms.affine import Affine, OfFirstSentence

# SimCSE takes the pairs with a gold score above 4 of 5 as positives for alignment.
POSITIVE_ABOVE = 4.0


# Identity


def identity_of(
    cell: PlannedCell, texts: CellTexts, encoder_key: str, fit_digest: str | None = None
) -> dict[str, str]:
    """The identity of a cell: its method, data, encoding, code, and the sentences of its fit.

    Args:
        cell: The cell.
        texts: Its texts.
        encoder_key: The key in the identity of the cell's encoder.
        fit_digest: The digest of the sentences that are fitted on. A plan, which reads no
            corpus for it, leaves it out.

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
    if fit_digest is not None:
        identity["fit"] = fit_digest
    return identity


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
    of_second = vectors  # of the rows as second sentences of pairs
    maker = "the encoder"
    for transform in (None, *transforms):
        if transform is not None:
            is_shared = of_second is vectors
            vectors = applied(transform, vectors, of_pairs=True)
            if not isinstance(transform, OfFirstSentence):
                of_second = vectors if is_shared else applied(transform, of_second)
            maker = f"the map {type(transform).__name__}"
        is_finite = np.isfinite(vectors).all(axis=1)
        if not is_finite.all():
            row = rows[is_finite.argmin()]
            text = next(text for text in texts if pooled.row[text] == row)
            raise ScoreError(
                f"{maker}: wanted finite numbers, found others in the vector of {text[:60]!r}; "
                "mend what makes it, or leave the sentence out"
            )
    second = 0  # the row where the second sentences of pairs begin
    if of_second is not vectors:
        second = len(vectors)
        vectors = np.concatenate([vectors, of_second])
    time_mapped = perf_counter()
    scored, *learned_from = (
        PairRows(
            a=np.searchsorted(rows, pooled.rows(split.a)),
            b=np.searchsorted(rows, pooled.rows(split.b)) + second,
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
        "fingerprint": encoder.fingerprint or None,
        "max_length": encoder.identity.max_length,
        "parameters": encoder.identity.parameters,
        "encoding": list(cost.encoder_facts) or None,
        "encoded_with": other_versions or None,
        "training": course_of_training(encoder.path),
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
