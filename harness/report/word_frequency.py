"""The page of BERT-flow's Table 1: norms and neighbours of word embeddings by frequency.

`tools/word_frequency.py` measures them. They are no scores in points, so that a verdict
has two words alone: equal to the printed digits, or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.conclusions.folder import Conclusions
from harness.core.digests import sha256_of
from harness.core.toml import read_typed
from harness.report.papers import VERDICT_MARKS
from harness.report.table import (
    HEADING,
    ShownCell,
    ShownTable,
    rendered,
    row_of,
    table_of,
)
from harness.results.layout import RECORDS
from harness.results.verdict import CellState, Published

FOLDER = "word-frequency"  # in the records
TABLE = "bert-flow.t1"
SQUARED = " (squared)"  # after the id of a row whose distances are squared


@dataclass(frozen=True)
class Reading:
    """The statistics under one reading of what the paper leaves unsaid.

    Attributes:
        ranks: What the words are ranked by.
        neighbours: Among what its neighbours are looked for.
        words: How many words were measured.
        values: The statistics by the id of the printed row, one for each range of
            ranks; what is squared has `(squared)` after the id.
    """

    ranks: str
    neighbours: str
    words: int
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class WordFrequencies:
    """What was measured on one encoder.

    Attributes:
        encoder: The encoder.
        digests: sha256 of the checkpoint's weights and of the file of counts.
        readings: The statistics under each reading.
    """

    encoder: str
    digests: Mapping[str, str]
    readings: Sequence[Reading]


def word_frequency_page(folder: Conclusions) -> str:
    """Every printed row of the table, with the statistics of each encoder and reading."""
    files = sorted((folder.path / RECORDS / FOLDER).glob("*.json"))
    if not files or TABLE not in {table.id for table in folder.tables}:
        return ""
    measured = [read_typed(WordFrequencies, file) for file in files]
    return rendered(
        "word_frequency.md",
        title="Word embeddings by frequency",
        encoders=[(each, *_compared(each, folder)) for each in measured],
        marks=VERDICT_MARKS,
        numbers=len(folder.table(TABLE).numbers),
        digest=", ".join(map(sha256_of, files)),
    )


def _compared(
    measured: WordFrequencies, folder: Conclusions
) -> tuple[ShownTable, Mapping[str, int]]:
    """The table of an encoder, and how many printed numbers each reading gives."""
    table = folder.table(TABLE)
    shown = []
    exact = {_name(reading): 0 for reading in measured.readings}
    for row in table.rows:
        numbers = [number for number in table.numbers if number.row.id == row.id]
        shown.append(row_of([row.label], HEADING))
        shown.append(row_of(["printed", *(number.value for number in numbers)]))
        for reading in measured.readings:
            for suffix in ("", SQUARED):
                values = reading.values.get(row.id + suffix)
                if values is None:
                    continue
                cells = []
                for number, value in zip(numbers, values, strict=True):
                    half_unit = Published(number.value).half_unit
                    is_equal = round(abs(float(number.value) - value), 9) <= half_unit
                    state = CellState.EXACT if is_equal else CellState.DIFFERS
                    if not suffix:
                        exact[_name(reading)] += is_equal
                    cells.append(
                        ShownCell(
                            f"{value:.3f}", f" {VERDICT_MARKS[state]}", state=state
                        )
                    )
                shown.append(row_of([f"{_name(reading)}{suffix}", *cells]))
    head = ["", *(column.label for column in table.columns)]
    return table_of(head, shown), exact


def _name(reading: Reading) -> str:
    return f"{reading.ranks}; neighbours among {reading.neighbours}"
