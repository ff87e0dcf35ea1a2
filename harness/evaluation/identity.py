"""The identity of a cell: the facts that make two cells the same cell.

A cell is done if a stored record has the identity that the cell would be measured with
now. docs/identity.md says which changes make a cell another one.
"""

from __future__ import annotations

from harness.core.metrics import metric_of
from harness.core.provenance import Plugin, code_digest, code_of, plugins_of
from harness.evaluation.fit_corpus import FitCorpusSample
from harness.evaluation.select import PlannedCell
from harness.tasks.loader import CellTexts


def identity_of(
    cell: PlannedCell, texts: CellTexts, encoder_key: str
) -> dict[str, str]:
    """The identity of a cell: its method, data, encoding, code, and the sentences of its fit.

    Args:
        cell: The cell.
        texts: Its texts. A corpus is read once for the digest of its sentences.
        encoder_key: The key in the identity of the cell's encoder.

    Returns:
        A text or a digest for each of these facts, by its name in the record.
    """
    identity = identity_without_fit(cell, texts, encoder_key)
    if texts.fit_corpus is not None:
        identity["fit"] = FitCorpusSample.for_cell(cell, texts.fit_corpus).digest
    return identity


def identity_without_fit(
    cell: PlannedCell, texts: CellTexts, encoder_key: str
) -> dict[str, str]:
    """The identity of a cell without the digest of the sentences of its fit.

    A plan uses it, since it reads no corpus.
    """
    identity = {
        "method": cell.method.identity,
        "data": texts.digests["data"],
        "encoding": encoder_key,
        "code": code_digest(),
    }
    identity |= code_of(*_computing_parts(cell))
    identity |= texts.digests
    return identity


def plugins_of_cell(cell: PlannedCell) -> dict[str, Plugin]:
    """The plug-ins whose code computes a cell's score, by name."""
    return plugins_of(*_computing_parts(cell))


def _computing_parts(cell: PlannedCell) -> tuple[object, ...]:
    """The parts of a cell whose code computes its score."""
    method, metric = cell.method, metric_of(cell.task)
    return (method.encoder, method.pooling, *method.post, metric, cell.task.load)
