"""Records as data frames of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError
from harness.data.places import Places
from harness.resolve import resolve
from harness.results.folder import ResultsFolder
from harness.results.layout import OWN, is_results, own_or_committed, reading_order
from harness.results.score_rows import folder_rows, to_frame


def read_results(
    folder: Path | str = OWN, *, every_score: bool = False, encoders: Sequence[str] = ()
) -> Any:
    """Read the records of a folder as a data frame: one row per cell and seed.

    The columns are those of [`ScoreRow`][harness.ScoreRow]: the parts of the method's
    id, the score, what is published for it with the verdict, what it took, and what
    measured it.

    Args:
        folder: A results folder, as `harness run` and `harness reproduce` fill it.
            `results` is the current folder's own, with its `runs`, followed by what
            comes with the harness; the column `source` says which. A cell that several
            hold is read from the first.
        every_score: Whether each score of a record has a row (metric, aggregation,
            subset), and not its main score alone.
        encoders: The encoders that your own published tables name, each NAME=PATH as
            for `--encoder` on the command line.

    Returns:
        A `pandas.DataFrame`.

    Raises:
        UsageError: There is no such folder, or pandas is not installed.
        DataError: A record was changed after it was measured.

    Examples:
        >>> from harness import read_results
        >>> frame = read_results()
        >>> minilm = frame[frame.encoder == "minilm"]
        >>> minilm.pivot_table(index="method", columns="task", values="score").shape[0] > 5
        True
    """
    path = own_or_committed(Path(folder))
    if not is_results(path):
        raise UsageError(f"{path}: wanted a folder of results, found no records in it")
    registry = resolve(Places(Path()), encoders).registry
    order = reading_order(path, with_runs=True)
    results = ResultsFolder(path, registry, folders=order)
    return to_frame(folder_rows(results, every_score))
