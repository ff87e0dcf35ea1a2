"""The golden vectors that a run measures, and what of it becomes the baseline.

Three things of a run are promoted: records, the golden vectors of encoders, and the
differences of methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.conclusions.folder import Conclusions
from harness.core.errors import HarnessError, UsageError
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Trained
from harness.core.provenance import code_digest
from harness.core.types import Method, Record
from harness.data.places import Places
from harness.evaluation.compare import shown_differences
from harness.results.differences import write_differences
from harness.results.gate import State, check_encoder, golden_failure
from harness.results.golden_vectors import (
    encode_golden_sentences,
    golden_name,
    golden_path,
    read_golden_vectors,
    write_golden_vectors,
)
from harness.results.index import encoder_of_method
from harness.results.records import Cell, cell_of
from harness.results.store import note_failures


def make_golden_vectors(
    methods: Iterable[Method], places: Places, results: Path
) -> None:
    """Write the golden vectors of the encoders of methods, or note why there are none.

    Where an encoder fails, the vectors of an earlier run are removed. A family has no
    golden vectors: each member is trained anew, and they differ.

    Args:
        methods: The methods of the run.
        places: Where the files of encoders are.
        results: The results folder of the run.
    """
    configs: dict[str, EncoderConfig] = {}
    for method in methods:
        if not isinstance(method.encoder.source, Trained):
            configs[golden_name(method.id)] = method.encoder
    for name, config in configs.items():
        failure = ""
        try:
            golden_vectors = encode_golden_sentences(name, config, places)
            write_golden_vectors(results, golden_vectors)
        except HarnessError as error:
            golden_path(results, name).unlink(missing_ok=True)
            failure = str(error)
        note_failures(results, {golden_failure(name): failure})


# The baseline

CELLS_SHOWN = 8  # that a message names


def promote(
    records: Sequence[Record], runs: Conclusions, committed: Conclusions
) -> int:
    """Write what was measured to the committed results.

    A record, or a file of golden vectors, that agrees with what was measured stays as it
    is. Differences that neither a claim nor neighbouring rows need any more are dropped.

    Args:
        records: The records of the run's cells.
        runs: The results of the run, with its golden vectors and its differences.
        committed: The committed results.

    Returns:
        How many records and files of golden vectors changed.

    Raises:
        UsageError: Records that would stay are of other weights of the same encoder.
            Nothing is written.
    """
    _require_one_model(records, committed)
    count = committed.store.promote(records)
    for encoder in sorted({golden_name(record.method) for record in records}):
        known = read_golden_vectors(committed.path, encoder)
        measured = read_golden_vectors(runs.path, encoder)
        if measured is None or measured.code != code_digest():
            continue  # none were made by this run
        if known is None or check_encoder(known, measured).state is not State.AGREES:
            write_golden_vectors(committed.path, measured)
            count += 1
    differences = {**committed.differences, **runs.differences}
    promoted = committed.reopen(committed.path)  # with the records of this run
    shown = shown_differences(promoted, differences)
    kept = {
        contrast: differences[contrast] for contrast in shown if contrast in differences
    }
    write_differences(committed.path, kept)
    return count


def _require_one_model(records: Iterable[Record], committed: Conclusions) -> None:
    """Refuse a part of a run whose weights are not those of the records that would stay.

    A baseline of two models under one name fails the next whole run, or passes a wrong one.
    Raises UsageError with the cells that have to be measured, too.
    """
    measured = {cell_of(record): record for record in records}
    weights: dict[tuple[str, int | None], str] = {}
    for cell, record in measured.items():
        weights[_model_of(cell, committed)] = record.digests.get("weights", "")
    others: dict[str, list[str]] = {}
    for record in committed.store.records():
        cell = cell_of(record)
        known = record.digests.get("weights", "")
        model = _model_of(cell, committed)
        if cell not in measured and weights.get(model, known) != known:
            others.setdefault(model[0], []).append(str(cell))
    for encoder, cells in others.items():
        shown = "; ".join(cells[:CELLS_SHOWN])
        more = f" and {len(cells) - CELLS_SHOWN} more" if cells[CELLS_SHOWN:] else ""
        raise UsageError(
            f"{committed.path}: wanted one model in all records of {encoder}, found other weights "
            f"in {shown}{more}; measure these in the same run, too (-m and -t select them); "
            "nothing was written"
        )


def _model_of(cell: Cell, committed: Conclusions) -> tuple[str, int | None]:
    """A cell's encoder without its length, and of a family, whose members differ, the seed."""
    name = base_name(encoder_of_method(cell.method))
    config = committed.registry.encoders.get(name)
    is_family = config is not None and isinstance(config.source, Trained)
    return name, cell.seed if is_family else None
