"""Files of questions whose rows are measured one by one, with what was measured for each row.

`results/questions/speed.toml` has a row for each benchmark, `reliability.toml` one for
each attack. What was measured for a row is a sealed file of its own, named by the row's
id: `results/records/speed/ID.json`, `results/records/reliability/ID.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness.core.errors import DataError
from harness.core.toml import read_rows, read_sealed
from harness.results.layout import digest_of_measured, measured_for


class RowWithId(Protocol):
    """A row of a file of questions."""

    @property
    def id(self) -> str:
        """The name of its result file."""


RowType = TypeVar("RowType", bound=RowWithId)
ResultType = TypeVar("ResultType")


@dataclass(frozen=True)
class MeasuredRows(Generic[RowType, ResultType]):
    """The rows of a file of questions, and what was measured for them.

    Attributes:
        rows: The rows by their ids.
        results: The result of each row, by its id; None where it was not measured.
        digest: The sha256 of the file and of all results.
    """

    rows: Mapping[str, RowType]
    results: Mapping[str, ResultType | None]
    digest: str


def read_measured_rows(
    questions: Path, row_type: type[RowType], result_type: type[ResultType]
) -> MeasuredRows[RowType, ResultType]:
    """The rows of a file with their results.

    Args:
        questions: The file.
        row_type: The dataclass of a row.
        result_type: The dataclass of a result.

    Raises:
        DataError: A file is damaged, two rows have one id, or a result has no row.
    """
    rows = read_rows(row_type, questions)
    rows_by_id = {row.id: row for row in rows}
    if len(rows_by_id) < len(rows):
        raise DataError(f"{questions.name}: wanted an id for each row, found one twice")
    results: dict[str, ResultType | None] = dict.fromkeys(rows_by_id)
    for file in results_folder(questions).glob("*.json"):
        results[file.stem] = read_sealed(result_type, file)
    results_without_row = sorted(results.keys() - rows_by_id)
    if results_without_row:
        names = ", ".join(results_without_row)
        raise DataError(f"{questions.name}: measured, but no row there: {names}")
    return MeasuredRows(rows_by_id, results, digest_of_measured(questions))


def results_folder(questions: Path) -> Path:
    """The folder with a result file for each row of a file of questions."""
    return measured_for(questions).with_suffix("")
