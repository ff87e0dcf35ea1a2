"""The identity of a measurement: what a stored result must agree in to count as done."""

from __future__ import annotations

from harness.core.provenance import code_digest
from harness.results.planned import PlannedCell
from harness.tasks.loader import CellInputs


def identity_of(cell: PlannedCell, inputs: CellInputs, encoding: str) -> dict[str, str]:
    """Method, data, encoding and code of a cell; `encoding` is the encoder's key.

    The digest of the sentences of a fit (`fit`), for which a corpus is read, is left out.
    """
    return {
        "method": repr(cell.method),
        "data": inputs.digests["data"],
        "encoding": encoding,
        "code": code_digest(),
        **inputs.digests,
    }
