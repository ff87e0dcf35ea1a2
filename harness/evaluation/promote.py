"""The golden vectors that a run measures, and what of it becomes the baseline.

Three things of a run are promoted: records, the golden vectors of encoders, and the
differences of methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.conclusions.folder import Conclusions
from harness.core.errors import HarnessError
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
    """
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
