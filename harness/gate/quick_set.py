"""The quick set: the cells that are measured for a check, and promoted to committed results.

Three things of a run are promoted: records, similarities of pairs, and the golden vectors
of encoders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.files import write_atomically
from harness.core.interfaces import EncoderConfig, Trained
from harness.evaluation.run import Outcome
from harness.evaluation.select import PlannedCell, by_encoder
from harness.gate.failures import golden_failure, note_failures
from harness.gate.golden_vectors import (
    check_encoder,
    encode_golden_sentences,
    golden_name,
    golden_path,
    read_golden_vectors,
    write_golden_vectors,
)
from harness.gate.outcome import State
from harness.gate.rules import read_rules
from harness.registry import Registry, look_up
from harness.results.layout import GATE
from harness.results.records import Cell
from harness.results.store import Store, read_similarities, sidecar_metadata

# Two similarities that differ by at most this are the same: encoders repeat their
# coordinates to 4e-7, and post-processors may enlarge that difference.
SAME_SIMILARITY = 1e-5


def quick_set(registry: Registry, committed: Path) -> tuple[PlannedCell, ...]:
    """The cells that `gate.toml` names, grouped by encoder and pooling as they are to run."""
    cells = read_rules(committed).quick_cells
    if not cells:
        raise UsageError(
            f"{committed / GATE} names no quick set; name one, or give -m METHOD and -t TASK"
        )
    planned_cells = [
        PlannedCell(
            method=registry.parse(cell.method),
            task=look_up("task", cell.task, registry.tasks),
            seed=cell.seed,
        )
        for cell in cells
    ]
    return tuple(sorted(planned_cells, key=by_encoder))


def make_golden_vectors(
    planned_cells: Sequence[PlannedCell], places: Places, results: Path
) -> None:
    """Write the golden vectors of every encoder of these cells, or note why there are none.

    Where an encoder fails, the vectors of an earlier run are removed. A family has no
    golden vectors: each member is trained anew, and they differ.

    Args:
        planned_cells: The cells of the run.
        places: Where the files of encoders are.
        results: The results folder of the run.
    """
    configs: dict[str, EncoderConfig] = {}
    for cell in planned_cells:
        config = cell.method.encoder
        if not isinstance(config.source, Trained):
            configs[golden_name(cell.method.id)] = config
    for name, config in configs.items():
        failure = ""
        try:
            golden_vectors = encode_golden_sentences(name, config, places)
            write_golden_vectors(results, golden_vectors)
        except HarnessError as error:
            golden_path(results, name).unlink(missing_ok=True)
            failure = str(error)
        note_failures(results, {golden_failure(name): failure})


def promote_run(outcomes: Iterable[Outcome], runs: Path, committed: Path) -> int:
    """Copy records, similarities and golden vectors of a run to the committed results.

    A committed file that agrees with what was measured stays as it is.

    Args:
        outcomes: The outcomes of the run's cells.
        runs: The results folder of the run.
        committed: The folder of the committed results.

    Returns:
        How many records and files changed.
    """
    records = {outcome.cell: outcome.record for outcome in outcomes if outcome.record}
    changed = Store(committed).promote(records.values())
    for cell in records:
        changed += promote_similarities(cell, runs, committed)
    for encoder in sorted({golden_name(cell.method) for cell in records}):
        changed += _promote_golden_vectors(encoder, runs, committed)
    return changed


def _promote_golden_vectors(encoder: str, runs: Path, committed: Path) -> bool:
    """Copy an encoder's golden vectors from a run, unless the committed ones agree.

    Returns whether they were copied.
    """
    measured = read_golden_vectors(runs, encoder)
    if measured is None:
        return False
    committed_vectors = read_golden_vectors(committed, encoder)
    if committed_vectors is not None:
        check = check_encoder(committed_vectors, measured)
        if check.state is State.AGREES:
            return False
    write_golden_vectors(committed, measured)
    return True


def promote_similarities(cell: Cell, runs: Path, committed: Path) -> bool:
    """Copy a cell's similarities from a run, unless the committed ones agree.

    Returns whether they were copied.
    """
    source = Store(runs).path(cell).with_suffix(".safetensors")
    target = Store(committed).quick_path(cell)
    measured = Store(runs).cosines(cell)
    if measured is None:
        return False
    committed_cosines = committed_similarities(Store(committed), cell)
    are_same = _are_same(committed_cosines, measured)
    if are_same and _metadata_of_inputs(source) == _metadata_of_inputs(target):
        return False
    write_atomically(target, source.read_bytes())
    return True


def _are_same(
    committed: Float[np.ndarray, " P"] | None, measured: Float[np.ndarray, " P"]
) -> bool:
    """Whether no similarity differs by more than `SAME_SIMILARITY`."""
    if committed is None or committed.shape != measured.shape:
        return False
    largest_difference = np.abs(committed - measured).max(initial=0.0)
    return bool(largest_difference <= SAME_SIMILARITY)


def _metadata_of_inputs(sidecar: Path) -> dict[str, str]:
    """The metadata of similarities without the digest of the code that measured them."""
    return {**sidecar_metadata(sidecar), "code": ""}


def committed_similarities(store: Store, cell: Cell) -> Float[np.ndarray, " P"] | None:
    """The committed similarities of a cell; None where there are none, or the file is damaged."""
    try:
        return read_similarities(store.quick_path(cell), cell)
    except DataError:
        return None
