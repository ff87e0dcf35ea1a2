"""The papers' tables again: their rows and columns, ours beneath, and what to say of each pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.registry import Registry
from harness.report.markdown import page, table
from harness.results.published import Column, Row, Table
from harness.results.reproduction import Judged, method_of
from harness.results.verdict import TOLERANCES, Word

HEAD = ("row", "trained on", "fitted on", "")
DAGGER = "†"


@dataclass
class Footnotes:
    """Notes in the order in which the table calls for them; the same text once."""

    texts: list[str] = field(default_factory=list)

    def mark(self, text: str) -> str:
        """The mark of a note."""
        if text not in self.texts:
            self.texts.append(text)
        return f"[{self.texts.index(text) + 1}]"

    def lines(self) -> list[str]:
        """The notes as they stand under the table."""
        return [f"[{number}] {text}" for number, text in enumerate(self.texts, start=1)]


def rows(
    published: Table, judged: Mapping[str, Judged], registry: Registry, notes: Footnotes
) -> list[list[str]]:
    """One line of published numbers a row; two more where something was measured."""
    lines = []
    for row in published.rows:
        cells = [judged.get(f"{published.id}/{row.id}/{c.id}") for c in published.columns]
        states = {str(j.word) for j in cells if j and not j.scores}
        any_measured = any(j.scores for j in cells if j)
        first = "published" if any_measured else f"published ({', '.join(sorted(states))})"
        values = [_printed(j, notes) for j in cells]
        label, *about = _about(row, registry, notes)
        seen = dict.fromkeys(note for j in cells if j for note in j.seen)
        label = " ".join([label, *(notes.mark(note) for note in seen)])
        lines.append([label, *about, first, *values])
        if any_measured:
            blank = ["", "", ""]
            lines.append([*blank, "measured", *map(_measured, cells)])
            lines.append([*blank, "verdict", *map(_verdict, cells)])
    return lines


def heading(published: Table, column: Column) -> str:
    """The column's label, with its metric where that is not the table's."""
    other = column.metric and column.metric != published.metric
    return f"{column.label} ({column.metric})" if other else column.label


def _about(row: Row, registry: Registry, notes: Footnotes) -> list[str]:
    """Label with its marks, what the encoder was trained on, what it was fitted on."""
    marks = [DAGGER] if row.transductive else []
    if row.why_not:
        marks.append(notes.mark(row.why_not))
    if row.note:
        marks.append(notes.mark(row.note))
    method = method_of(row, registry)
    seen = method.encoder.trained_on if method else row.supervision
    fitted = "" if row.fit == "none" else row.fit
    return [" ".join([row.label, *marks]), seen, fitted]


def _printed(judged: Judged | None, notes: Footnotes) -> str:
    if judged is None:
        return ""
    own = judged.cell.row.notes.get(judged.cell.column.id)
    digits = judged.cell.in_points or judged.cell.value
    if len(digits.partition(".")[2]) > 4:
        digits = f"{float(digits):.4f}"
    return f"{digits} {notes.mark(own)}" if own else digits


def _measured(judged: Judged | None) -> str:
    if judged is None:
        return ""
    if judged.measured is None:
        return str(judged.word)
    sd, k = judged.verdict.sd, judged.verdict.k
    return f"{judged.measured:.2f}" + (f" ± {sd:.2f} (k={k})" if sd is not None else "")


def _verdict(judged: Judged | None) -> str:
    if judged is None or judged.verdict.difference is None:
        return ""
    difference = round(judged.verdict.difference, 2) + 0.0  # no -0.00
    return f"{difference:+.2f} {judged.word}"


def notes_for(published: Table) -> list[str]:
    """What stands under every table: its own notes, its columns' and the rules of judgement."""
    columns = [
        f"{c.label}: {c.note or c.why_not}" for c in published.columns if c.note or c.why_not
    ]
    dagger = f"{DAGGER} fitted on the sentences that are scored, no labels seen."
    return [*published.notes, *columns, dagger, TOLERANCES.sentence()]


def markdown(
    published: Table, judged: Mapping[str, Judged], registry: Registry, digest: str
) -> str:
    """The table's page."""
    notes = Footnotes()
    head = [*HEAD, *(heading(published, column) for column in published.columns)]
    body = table(head, rows(published, judged, registry, notes), words=len(HEAD))
    under = "\n".join(f"- {line}" for line in [*notes.lines(), *notes_for(published)])
    source = f"{published.paper}, {published.table}. Source: {published.source}."
    return page(published.title, [source, body, under], digest)


def latex(published: Table, judged: Mapping[str, Judged], registry: Registry, digest: str) -> str:
    """The same for a paper: booktabs, one file to \\input."""
    from tabulate import tabulate

    notes = Footnotes()
    head = [*HEAD, *(heading(published, column) for column in published.columns)]
    body = tabulate(
        rows(published, judged, registry, notes),
        headers=head,
        tablefmt="latex_booktabs",
        disable_numparse=True,
    )
    comments = [f"% {line}" for line in [*notes.lines(), *notes_for(published)]]
    return "\n".join(
        [
            f"% {published.paper}, {published.title}. Generated by harness report.",
            f"% Records: sha256 {digest}",
            body,
            *comments,
            "",
        ]
    )


COUNTED = (
    Word.EXACT,
    Word.MATCH,
    Word.CLOSE,
    Word.CONSISTENT,
    Word.DIFFERS,
    Word.INCONCLUSIVE,
    Word.TOO_FEW_SEEDS,
)


def summary(tables: Sequence[tuple[Table, Mapping[str, Judged]]]) -> str:
    """Per paper: cells published, with a method here, run, and by verdict."""
    papers: dict[str, list[Judged]] = {}
    for published, judged in tables:
        papers.setdefault(published.paper, []).extend(judged.values())
    lines = [[paper, *_counts(cells)] for paper, cells in papers.items()]
    lines.append(["all", *_counts([j for cells in papers.values() for j in cells])])
    head = ["paper", "published", "runnable", "run", *(str(word) for word in COUNTED)]
    return table(head, lines)


def _counts(cells: Sequence[Judged]) -> list[int]:
    runnable = [j for j in cells if j.word not in (Word.NO_METHOD, Word.OTHER_PROTOCOL)]
    run = [j for j in runnable if j.scores]
    return [
        len(cells),
        len(runnable),
        len(run),
        *(sum(j.word == word for j in run) for word in COUNTED),
    ]
