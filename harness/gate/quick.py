"""The quick set: its cells, its golden vectors, and what of a run of it is committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.assets.places import Places
from harness.core.errors import HarnessError, UsageError
from harness.core.sources import Trained
from harness.evaluation.outcomes import Outcome
from harness.gate import failures, golden_vectors, pair_drift
from harness.gate.tolerances import FILE, read_rules
from harness.registry import Registry, known
from harness.results.planned import PlannedCell, by_encoder
from harness.results.records import Store


def quick_set(found: Registry, committed: Path) -> tuple[PlannedCell, ...]:
    """The cells that `gate.toml` names, grouped by encoder and pooling as they are to run."""
    cells = read_rules(committed).quick_cells
    if not cells:
        raise UsageError(
            f"{committed / FILE} names no quick set; name one, or give -m METHOD and -t TASK"
        )
    planned = [
        PlannedCell(found.parse(cell.method), known("task", cell.task, found.tasks), cell.seed)
        for cell in cells
    ]
    return tuple(sorted(planned, key=by_encoder))


def encode_golden(planned: Sequence[PlannedCell], places: Places, results: Path) -> None:
    """Write the golden vectors of every encoder of these cells, or note why there are none.

    An encoder that cannot be asked keeps no vectors of an earlier run. A family has none: its
    members are trained anew, and differ.
    """
    every = (p.method for p in planned if not isinstance(p.method.encoder.source, Trained))
    encoders = {golden_vectors.subject(method.id): method.encoder for method in every}
    for name, config in encoders.items():
        why = ""
        try:
            golden_vectors.write(results, golden_vectors.encode(name, config, places))
        except HarnessError as error:
            golden_vectors.path_of(results, name).unlink(missing_ok=True)
            why = str(error)
        failures.note(results, {golden_vectors.what(name): why})


def promote(outcomes: Iterable[Outcome], runs: Path, committed: Path) -> int:
    """Commit records, similarities and golden vectors of a quick run; how many of them changed.

    Whatever agrees with what was measured stays as it is.
    """
    records = {outcome.cell: outcome.record for outcome in outcomes if outcome.record}
    changed = Store(committed).promote(records.values())
    changed += sum(pair_drift.promote(cell, runs, committed) for cell in records)
    for encoder in sorted({golden_vectors.subject(cell.method) for cell in records}):
        new, kept = golden_vectors.read(runs, encoder), golden_vectors.read(committed, encoder)
        if new is not None and (kept is None or golden_vectors.drift(kept, new).moved):
            golden_vectors.write(committed, new)
            changed += 1
    return changed
