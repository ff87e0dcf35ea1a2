"""The quick set: what is measured for a check, and promoted to the committed results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.files import write_atomically
from harness.core.interfaces import Trained
from harness.evaluation.run import Outcome
from harness.evaluation.select import PlannedCell, by_encoder
from harness.gate.failures import golden_failure, note_failures
from harness.gate.golden_vectors import (
    check_encoder,
    encode_encoder,
    golden_path,
    read_golden,
    subject,
    write_golden,
)
from harness.gate.outcome import State
from harness.gate.rules import read_rules
from harness.registry import Registry, look_up
from harness.results.layout import GATE
from harness.results.records import Cell, Store, read_similarities, sidecar_metadata

# Similarities that agree to here are the same: encoders repeat their coordinates to
# 4e-7, and a calibration may stretch that.
SAME_SIMILARITY = 1e-5


def quick_set(registry: Registry, committed: Path) -> tuple[PlannedCell, ...]:
    """The cells that `gate.toml` names, grouped by encoder and pooling as they are to run."""
    cells = read_rules(committed).quick_cells
    if not cells:
        raise UsageError(
            f"{committed / GATE} names no quick set; name one, or give -m METHOD and -t TASK"
        )
    planned = [
        PlannedCell(
            method=registry.parse(cell.method),
            task=look_up("task", cell.task, registry.tasks),
            seed=cell.seed,
        )
        for cell in cells
    ]
    return tuple(sorted(planned, key=by_encoder))


def encode_golden(
    planned: Sequence[PlannedCell], places: Places, results: Path
) -> None:
    """Write the golden vectors of every encoder of these cells, or note why there are none.

    An encoder that cannot be asked keeps no vectors of an earlier run. A family has
    none: its members are trained anew, and differ.
    """
    encoders = {
        subject(cell.method.id): cell.method.encoder
        for cell in planned
        if not isinstance(cell.method.encoder.source, Trained)
    }
    for name, config in encoders.items():
        failure = ""
        try:
            write_golden(results, encode_encoder(name, config, places))
        except HarnessError as error:
            golden_path(results, name).unlink(missing_ok=True)
            failure = str(error)
        note_failures(results, {golden_failure(name): failure})


def promote_gate(outcomes: Iterable[Outcome], runs: Path, committed: Path) -> int:
    """Commit records, similarities and golden vectors of a quick run; how many of them changed.

    Whatever agrees with what was measured stays as it is.
    """
    records = {outcome.cell: outcome.record for outcome in outcomes if outcome.record}
    changed = Store(committed).promote(records.values())
    changed += sum(promote_similarities(cell, runs, committed) for cell in records)
    encoders = sorted({subject(cell.method) for cell in records})
    return changed + sum(
        _promote_golden(encoder, runs, committed) for encoder in encoders
    )


def _promote_golden(encoder: str, runs: Path, committed: Path) -> bool:
    """Copy an encoder's golden vectors from a run; those that agree stay as they are."""
    measured, kept = read_golden(runs, encoder), read_golden(committed, encoder)
    if measured is None:
        return False
    if kept is not None and check_encoder(kept, measured).state is State.AGREES:
        return False
    write_golden(committed, measured)
    return True


def promote_similarities(cell: Cell, runs: Path, committed: Path) -> bool:
    """Copy a cell's similarities from a run; those that agree stay as they are."""
    source = Store(runs).path(cell).with_suffix(".safetensors")
    target = Store(committed).quick_path(cell)
    measured = Store(runs).cosines(cell)
    kept = committed_similarities(Store(committed), cell)
    if measured is None:
        return False
    if (
        kept is not None
        and kept.shape == measured.shape
        and _identity_but_code(source) == _identity_but_code(target)
        and np.abs(kept - measured).max(initial=0.0) <= SAME_SIMILARITY
    ):
        return False
    write_atomically(target, source.read_bytes())
    return True


def _identity_but_code(sidecar: Path) -> dict[str, str]:
    """What similarities were measured on; other code that measures the same is no difference."""
    return {**sidecar_metadata(sidecar), "code": ""}


def committed_similarities(store: Store, cell: Cell) -> Float[np.ndarray, " P"] | None:
    """The committed similarities of a cell, or None where there are no whole ones of it."""
    try:
        return read_similarities(store.quick_path(cell), cell)
    except DataError:
        return None
