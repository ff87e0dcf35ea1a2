"""The published tables on the page: the lines of `harness.report.paper_tables`, cell by cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.registry import Registry
from harness.report.paper_tables import MARKS, OURS, RAISED, Block, sheet
from harness.results.published import Table
from harness.results.reproduction import Reproduction, count

DIGITS = "0123456789".translate(RAISED)  # of the marks of footnotes, with which a label ends


@dataclass(frozen=True)
class Shown:
    """A text in a table; of a measured number also its verdict in word and mark."""

    text: str
    verdict: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """A line: its heading and texts. `kind` is heading, published, measured or spread.

    `row` is the published row whose numbers it holds; empty where it holds none.
    """

    kind: str
    label: str
    row: str = ""
    texts: Sequence[Shown] = ()


@dataclass(frozen=True)
class Part:
    """Columns that stand beside each other, those of numbers by their ids, and the lines below."""

    caption: str
    head: Sequence[str]
    columns: Sequence[str]
    lines: Sequence[Line]


@dataclass(frozen=True)
class PaperTable:
    """A published table with what was measured of it."""

    id: str
    title: str
    place: str
    counts: Mapping[str, int]
    parts: Sequence[Part]
    legend: Sequence[str]
    notes: Sequence[str]


def paper_tables(
    published: Sequence[Table], cells: Sequence[Mapping[str, Reproduction]], registry: Registry
) -> Iterator[tuple[str, list[PaperTable]]]:
    """The tables of each paper, papers of which something was measured first."""
    papers: dict[str, list[PaperTable]] = {}
    for table, own in zip(published, cells, strict=True):
        papers.setdefault(table.paper, []).append(_table(table, own, registry))
    yield from sorted(papers.items(), key=lambda item: -sum(t.counts["run"] for t in item[1]))


def _table(table: Table, cells: Mapping[str, Reproduction], registry: Registry) -> PaperTable:
    made = sheet(table, cells, registry)
    parts = [
        Part(block.caption, block.head, block.columns, list(_lines(table.id, block, cells)))
        for block in made.blocks
    ]
    place = f"{table.table}. Source: {table.source}."
    counts = count(list(cells.values()))
    # The page says in words which lines are ours, and has the marks of verdicts above all tables.
    legend = [text for text in made.legend if not text.startswith(OURS)]
    return PaperTable(table.id, table.title, place, counts, parts, legend, made.notes)


def _lines(table: str, block: Block, cells: Mapping[str, Reproduction]) -> Iterator[Line]:
    previous = ""
    for row, (label, *texts) in zip(block.rows, block.lines, strict=True):
        if not row:
            yield Line("heading", label)
            continue
        evidence, *numbers = texts
        own = [cells.get(f"{table}/{row}/{column}") for column in block.columns]
        kind = "published" if row != previous else "spread" if "sd" in label else "measured"
        shown = [_shown(text, one, kind) for one, text in zip(own, numbers, strict=True)]
        text = label.removeprefix(OURS).strip()
        if kind == "measured":
            text = f"{_verdicts(own)}{label[len(label.rstrip(DIGITS)) :]}"
        of = "" if kind == "spread" else row
        yield Line(kind, text, of, [Shown(evidence), *shown])
        previous = row


def _verdicts(cells: Sequence[Reproduction | None]) -> str:
    """`measured: exact`, or how many cells have each verdict."""
    states = Counter(str(cell.state) for cell in cells if cell and cell.scores)
    if len(states) == 1:
        return f"measured: {next(iter(states))}"
    return f"measured: {', '.join(f'{n} {state}' for state, n in states.items())}"


def _shown(text: str, one: Reproduction | None, kind: str) -> Shown:
    """A number; a measured one with its verdict."""
    if one is None or kind != "measured" or not one.scores:
        return Shown(text)
    return Shown(_unmarked(text), str(one.state), MARKS.get(one.state, ""))


def _unmarked(text: str) -> str:
    """A number without the mark of its verdict, which the page sets apart."""
    words = text.split()
    return " ".join(words[:-1]) if len(words) > 1 and words[-1] in MARKS.values() else text
