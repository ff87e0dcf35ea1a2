"""Data frames of results, for pandas and polars: either is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from harness.core.errors import UsageError
from harness.core.installed import extra
from harness.evaluation.select import encoders_by_hand
from harness.registry import known
from harness.results.layout import OWN, is_results, own_or_committed, require_own
from harness.results.score_rows import ScoreRow, folder_rows

# The types of a column by that of its field; a column of whole numbers has holes, too.
PANDAS = {"str": "string", "bool": "bool", "int": "Int64", "float": "float64"}
POLARS = {"str": "String", "bool": "Boolean", "int": "Int64", "float": "Float64"}
TYPES = {"pandas": PANDAS, "polars": POLARS}


def read_results(
    folder: Path | str = OWN,
    *,
    every_score: bool = False,
    only_own: bool = False,
    encoders: Sequence[str] = (),
    library: Literal["pandas", "polars"] = "pandas",
) -> Any:
    """Read the records of a folder as a data frame: a row a cell and seed.

    The columns are those of [`ScoreRow`][harness.ScoreRow]: the parts of the method's id, the
    score, what is published for it with the verdict, what it took, and what measured it.

    Args:
        folder: A results folder, as `harness run` and `harness reproduce` fill it. `results` is
            the current folder's own, followed by what comes with the harness; the column `source`
            tells them apart. A cell that both hold is one's own alone.
        every_score: One row for each score of a record (metric, aggregation, subset) and not for
            its main score alone.
        only_own: Leave out what comes with the harness.
        encoders: Encoders that published tables of your own name, each NAME=PATH as behind
            `--encoder` on the command line.
        library: The library whose frame is made.

    Returns:
        A `pandas.DataFrame`, or a `polars.DataFrame`.

    Raises:
        UsageError: There is no such folder, or none of one's own, or the library is neither of the
            two or not installed.
        DataError: A record was changed after it was measured.

    Examples:
        >>> from harness import read_results
        >>> frame = read_results()
        >>> minilm = frame[frame.encoder == "minilm"]
        >>> minilm.pivot_table(index="method", columns="task", values="score").shape[0] > 5
        True
    """
    place = own_or_committed(Path(folder))
    if not is_results(place):
        raise UsageError(f"{place}: wanted a folder of results, found no records in it")
    if only_own:
        require_own("only_own", place)
    registry, _ = encoders_by_hand(encoders)
    return to_frame(folder_rows(Path(folder), registry, every_score, only_own), library)


def to_frame(rows: Sequence[ScoreRow], library: Literal["pandas", "polars"]) -> Any:
    """A data frame with a column for each field, typed by it, even where there is no row."""
    types = known("library", library, TYPES)
    kinds = {field.name: str(field.type).partition(" ")[0] for field in fields(ScoreRow)}
    columns = {name: [getattr(row, name) for row in rows] for name in kinds}
    with extra(library):
        if library == "polars":
            import polars

            schema = {name: getattr(polars, types[kind]) for name, kind in kinds.items()}
            return polars.DataFrame(columns, schema=schema)
        import pandas

        return pandas.DataFrame(
            {name: pandas.array(columns[name], dtype=types[kind]) for name, kind in kinds.items()}
        )
