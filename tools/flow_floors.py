"""What the floor of a flow's coordinates moves: the scores of a row under both floors.

`harness/transforms/flows.py` leaves out coordinates whose range is below 1e-6 of the widest. From
version 0.3.0 on it was 3e-5 for a time, and mpnet-base's flows on the last layer were measured with
it. `results/records/flow_floors.json` has the rows of both times; `tools/measured_pages.py` writes
the tables of docs/flows.md from it.

    python tools/flow_floors.py RESULTS_WITH_1E-6 RESULTS_WITH_3E-5
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.core.files import write_atomically
from harness.core.json_text import sealed
from harness.core.scores import ScorePath, score_at
from harness.core.toml import read_sealed
from harness.core.types import Record
from harness.report.markdown import table
from harness.results.index import main_path, value
from harness.results.records import Store

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "results" / "records" / "flow_floors.json"
PAGE = ROOT / "docs" / "flows.md"
FLOWS = ("flow", "nice", "glow")
UNMOVED = "first-last"  # no coordinate of this pooling is between the floors
MORE = {"spearman": ("spearman", "wmean"), "edit_distance": ("gold_similarity",)}


@dataclass(frozen=True)
class FloorRow:
    """The scores of a cell by seed under the floors 1e-6 and 3e-5; none where it was not measured.

    `floor` is the one of the record that is committed.
    """

    method: str
    task: str
    score: ScorePath
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: str


@dataclass(frozen=True)
class StoredRows:
    """The file of rows."""

    rows: tuple[FloorRow, ...]


def read_floors() -> tuple[FloorRow, ...]:
    """Every row that the floor moves. Raises DataError for a damaged file."""
    return read_sealed(StoredRows, STORED).rows


def rows_of(low: Iterable[Record], high: Iterable[Record]) -> list[FloorRow]:
    """The rows of the records that were made with either floor."""
    scores: dict[tuple[str, str, ScorePath], dict[str, list[float]]] = defaultdict(dict)
    for floor, records in (("low", low), ("high", high)):
        for record in sorted(records, key=lambda record: record.seed):
            if not moves(record.method):
                continue
            main = main_path(record.scores)
            paths = [main, *([MORE[main[0]]] if main[0] in MORE else [])]
            for path in paths:
                score = score_at(record.scores, path)
                if score is not None:
                    of_row = scores[record.method, record.task, path]
                    of_row.setdefault(floor, []).append(round(score, 4))
    return [
        FloorRow(
            *cell,
            low=tuple(found.get("low", ())),
            high=tuple(found.get("high", ())),
            floor="1e-6" if "low" in found else "3e-5",
        )
        for cell, found in sorted(scores.items())
    ]


def moves(method: str) -> bool:
    """Whether the floor moves a method of mpnet-base: a flow on the last layer."""
    pooling, _, post = method.partition(".")[2].partition("+")
    return pooling != UNMOVED and post.partition("@")[0].partition(":")[0] in FLOWS


def floors_table(rows: Sequence[FloorRow]) -> str:
    """A line for each score that was measured with both floors."""
    lines = []
    for row in rows:
        single = row.score == ("spearman", "wmean") and (*row.low, *row.high) == both(rows, row)
        if row.low and row.high and not single:
            means = value(row.low), value(row.high)
            difference = (means[1].mean or 0.0) - (means[0].mean or 0.0)
            name = f"`{row.method}`"
            lines.append(
                [name, row.task, " ".join(row.score), *map(str, means), f"{difference:+.2f}"]
            )
    return table(["method", "task", "score", "1e-6", "3e-5", "moved"], lines, words=3)


def both(rows: Sequence[FloorRow], like: FloorRow) -> tuple[float, ...]:
    """The scores over all pairs of a row's cell; its subsets have the same where there is one."""
    found = (
        (*row.low, *row.high)
        for row in rows
        if (row.method, row.task, row.score) == (like.method, like.task, ("spearman", "all"))
    )
    return next(found, ())


def one_floor_table(rows: Sequence[FloorRow]) -> str:
    """The methods and tasks that were measured with the floor of 3e-5 alone."""
    tasks: dict[str, dict[str, None]] = {}
    for row in rows:
        if not row.low:
            tasks.setdefault(row.method, {})[row.task] = None
    lines = [[f"`{m}`", len(of_method), ", ".join(of_method)] for m, of_method in tasks.items()]
    return table(["method", "tasks", "which"], lines, words=1)


def floors_part(rows: Sequence[FloorRow]) -> str:
    """The generated part of the page."""
    cells = {(row.method, row.task) for row in rows}
    measured = {(row.method, row.task) for row in rows if row.low and row.high}
    return "\n\n".join(
        [
            f"{len(cells)} cells of methods and tasks are on the last layer of `mpnet-base`. "
            f"{len(measured)} of them were measured with both floors, five seeds each; the "
            "committed records are those of 1e-6.",
            floors_table(rows),
            f"The other {len(cells) - len(measured)} were measured with the floor of 3e-5 alone. "
            "Their numbers are those of a flow without the coordinate until they are measured "
            "again:",
            one_floor_table(rows),
        ]
    )


def main() -> None:
    """Store the rows of two results folders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("low", type=Path)
    parser.add_argument("high", type=Path)
    given = parser.parse_args()
    rows = rows_of(Store(given.low).records(), Store(given.high).records())
    lines = ",\n".join(f"  {json.dumps(asdict(row))}" for row in rows)
    text = f'{{\n "rows": [\n{lines}\n ]\n}}'
    write_atomically(STORED, sealed(STORED.name, text).encode())


if __name__ == "__main__":
    main()
