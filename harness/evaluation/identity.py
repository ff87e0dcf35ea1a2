"""What makes two cells the same cell: what a stored result must agree in to count as done."""

from __future__ import annotations

from harness.core.metrics import metric_of
from harness.core.provenance import Plugin, code_digest, code_of, plugins_of
from harness.evaluation.fit_corpus import FitCorpusSample
from harness.evaluation.select import PlannedCell
from harness.tasks.loader import CellTexts


def identity_of(
    cell: PlannedCell, texts: CellTexts, encoder_key: str
) -> dict[str, str]:
    """Method, data, encoding and code of a cell, and the sentences that it is fitted on.

    A corpus is read once for the digest of its sentences. `encoder_key` is that of the
    encoder's identity.
    """
    identity = identity_without_fit(cell, texts, encoder_key)
    if texts.fit_corpus is not None:
        identity["fit"] = FitCorpusSample.for_cell(cell, texts.fit_corpus).digest
    return identity


def identity_without_fit(
    cell: PlannedCell, texts: CellTexts, encoder_key: str
) -> dict[str, str]:
    """The identity of a cell without the sentences of its fit: a plan reads no corpus."""
    identity = {
        "method": cell.method.identity,
        "data": texts.digests["data"],
        "encoding": encoder_key,
        "code": code_digest(),
    }
    identity |= code_of(*_parts_of(cell))
    return {**identity, **texts.digests}


def plugins_of_cell(cell: PlannedCell) -> dict[str, Plugin]:
    """The plug-ins whose code has a part in a cell's score, by name."""
    return plugins_of(*_parts_of(cell))


def _parts_of(cell: PlannedCell) -> tuple[object, ...]:
    """All whose code has a part in a cell's score."""
    method, metric = cell.method, metric_of(cell.task)
    return (method.encoder, method.pooling, *method.post, metric, cell.task.load)
