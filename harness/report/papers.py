"""Published tables beside what was measured for them: their pages, and what marks mean.

Below the published numbers of a row are the measured ones with their verdicts.
`published_table` makes the table with its footnotes, which every page prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from harness.conclusions.folder import Conclusions
from harness.conclusions.noise import LeadKind
from harness.conclusions.standings import StandingKind
from harness.report.sentences import (
    coverage_note,
    fit_corpus_in_words,
    training_data_in_words,
)
from harness.report.table import (
    DAGGER,
    HEADING,
    NO_BREAK_SPACE,
    ShownCell,
    ShownColumn,
    ShownRow,
    ShownTable,
    rendered,
    row_of,
)
from harness.results import published
from harness.results.published import EVIDENCE, reasons
from harness.results.reproduction import Reproduction, compose_method
from harness.results.verdict import CellState

CONTRADICTED_MARK = "‡"
TRAINED_MARK = "⊂"  # of a model that was trained on the task
RAISED_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
VERDICT_MARKS: Mapping[CellState, str] = {
    CellState.EXACT: "=",
    CellState.MATCH: "≃",
    CellState.CLOSE: "∼",
    CellState.CONSISTENT: "±",
    CellState.DIFFERS: "≠",
    CellState.INCONCLUSIVE: "?",
    CellState.TOO_FEW_SEEDS: "…",
}
EVIDENCE_MARKS: Mapping[str, str] = {
    "confirmed": "●",
    "code": "◉",
    "measured": "◐",
    "paper": "○",
    "inferred": "△",
}

LEAD_MARKS: Mapping[LeadKind, str] = {
    LeadKind.BEYOND_ITEMS: "↑",
    LeadKind.WITHIN_ITEMS: "≈",
    LeadKind.WITHIN_SEEDS: "↕",
    LeadKind.UNKNOWN: "◦",
}

Footnotes = dict[str, str]  # the marks of footnotes by their texts


def legend() -> list[str]:
    """What the marks in a published table mean, a sentence each."""
    verdicts = [f"{mark} {state}" for state, mark in VERDICT_MARKS.items()]
    kinds = [
        f"{EVIDENCE_MARKS[kind]} {kind}, {meaning}"
        for kind, meaning in EVIDENCE.items()
    ]
    return [
        "↳ measured here, with its verdict and, where it depends on a seed, the standard "
        f"deviation and the number of seeds: {', '.join(verdicts)}.",
        f"ev. (evidence): the row's protocol is {'; '.join(kinds)}.",
        f"{DAGGER} fitted on the sentences that are scored, no labels seen. "
        f"{CONTRADICTED_MARK} another published table has other digits of the same model and "
        "protocol, beyond rounding; `harness explain TABLE/ROW/COLUMN` names it.",
        lead_legend(),
        f"{TRAINED_MARK} by mteb's list, the model was trained on the task, or on STS-B's training "
        "split, which has some of its pairs; `harness cite TABLE/ROW/COLUMN` says how many.",
    ]


def lead_legend() -> str:
    """What the marks of the best number of a column mean."""
    meaning = {
        LeadKind.BEYOND_ITEMS: "other test pairs would not turn it around",
        LeadKind.WITHIN_ITEMS: "other test pairs might",
        LeadKind.WITHIN_SEEDS: "other seeds might",
        LeadKind.UNKNOWN: "the number of pairs, or how far both systems agree, decides",
    }
    marks = [f"{LEAD_MARKS[kind]} {kind}, {text}" for kind, text in meaning.items()]
    return (
        "The best of a column for its backbone and supervision has a mark, against the "
        f"runner-up: {'; '.join(marks)} (`results/tables/noise.md`)."
    )


def paper_page(table: published.Table, folder: Conclusions) -> str:
    """The page of a published table, with what each of its rows is."""
    rows = []
    for row in table.rows:
        method = compose_method(row.method, folder.registry)
        trained_on = training_data_in_words(row, method)
        name = f"`{row.method}`" if row.method else ""
        fit_corpus = fit_corpus_in_words(row, method)
        rows.append([row.label, f"`{row.id}`", name, trained_on, fit_corpus])
    return rendered(
        "paper.md",
        title=table.title,
        paper_table=table,
        shown=published_table(table, folder),
        legend=legend(),
        rows=rows,
        digest=folder.records_of_table(table).digest,
    )


def published_table(
    table: published.Table, folder: Conclusions, *, with_footnotes: bool = True
) -> ShownTable:
    """A published table with what was measured for it; its notes are the footnotes."""
    footnotes: Footnotes | None = {} if with_footnotes else None
    reproductions = folder.reproductions(table)
    columns = [ShownColumn("row", is_text=True), ShownColumn("ev.", is_text=True)]
    for column in table.columns:
        note = "; ".join(filter(None, [_reason(column), column.note]))
        heading = _heading(table, column) + _mark(note, footnotes)
        columns.append(ShownColumn(heading, key=column.id))
    columns.append(ShownColumn("here", is_text=True))
    rows = []
    group_above = None
    for row in table.rows:
        numbers = [
            reproductions.get(f"{table.id}/{row.id}/{column.id}")
            for column in table.columns
        ]
        if row.group and row.group != group_above:
            rows.append(row_of([row.group], HEADING))
        group_above = row.group
        rows.append(_published_row(row, numbers, folder, footnotes))
        if any(number and number.scores for number in numbers):
            rows.append(_measured_row(row, numbers, footnotes))
        rows += _rows_on_other_corpora(row, numbers, folder, footnotes)
    notes = [f"{mark} {text}" for text, mark in (footnotes or {}).items()]
    return ShownTable(
        columns=columns, rows=rows, notes=[*notes, *table.notes], key=table.id
    )


def _mark(text: str, footnotes: Footnotes | None) -> str:
    """The mark of a footnote, which is added if it is new; no text has no mark."""
    if not text or footnotes is None:
        return ""
    number = str(len(footnotes) + 1)
    return footnotes.setdefault(text, number.translate(RAISED_DIGITS))


def _heading(table: published.Table, column: published.Column) -> str:
    """A column's label, with its metric unless the table has the same or the label says it."""
    name = (column.metric or table.metric).replace("_", " ")
    if column.metric in (None, table.metric) or name in column.label:
        return column.label
    return f"{column.label} ({name})"


def _reason(row_or_column: published.Row | published.Column) -> str:
    """Why no method or no task reproduces a row or column; empty where one does."""
    why_not = row_or_column.why_not
    return reasons()[why_not].explanation if why_not else ""


# Rows. They have a `Reproduction` for each column; None where the row has no number.


def _published_row(
    row: published.Row,
    reproductions: Sequence[Reproduction | None],
    folder: Conclusions,
    footnotes: Footnotes | None,
) -> ShownRow:
    """The published numbers of a row; the last cell says why none of them was measured."""
    printed = [each for each in reproductions if each is not None]
    notes = [_reason(row), row.note]
    for each in printed:
        notes += [f"{origin.name}: {origin}" for origin in each.unpinned]
    marks = [_mark(note, footnotes) for note in dict.fromkeys(notes)]
    label = f"{row.label}{DAGGER}" if row.transductive else row.label
    name = ShownCell(label, mark=NO_BREAK_SPACE.join(filter(None, marks)))
    evidence = ""
    cells = []
    for reproduction in reproductions:
        if reproduction is None:
            cells.append(ShownCell(""))
            continue
        number = reproduction.number
        if number.evidence:
            evidence = evidence or EVIDENCE_MARKS[number.evidence]
        kinds = [standing.kind for standing in folder.standings.get(number.id, ())]
        mark = CONTRADICTED_MARK if StandingKind.CONTRADICTED in kinds else ""
        if number.id in folder.leads:
            mark += LEAD_MARKS[folder.leads[number.id].kind]
        contact = folder.training_data.contact(number)
        if contact is not None and contact.is_trained_on_task:
            mark += TRAINED_MARK
        of_number = number.notes[:1] if number.is_misprint else ()
        for note in (*of_number, row.notes.get(number.column.id, "")):
            mark += _mark(note, footnotes)
        cells.append(ShownCell(number.shown, mark=mark))
    why_not = ""
    if not any(each.scores for each in printed):
        # A column without a task here says so in its heading.
        here = [each for each in printed if not each.number.column.why_not]
        states = [str(each.state) for each in here or printed]
        why_not = ", ".join(dict.fromkeys(states))
    return row_of([name, evidence, *cells, why_not], "published", key=row.id)


def _measured_row(
    row: published.Row,
    reproductions: Sequence[Reproduction | None],
    footnotes: Footnotes | None,
) -> ShownRow:
    """The measured numbers of a row with their verdicts, or why one was not measured."""
    coverage: dict[str, float] = {}
    for reproduction in reproductions:
        if reproduction is not None and reproduction.coverage is not None:
            coverage[reproduction.number.column.label] = reproduction.coverage
    mark = _mark(coverage_note(coverage), footnotes)
    label = ShownCell(f"↳{NO_BREAK_SPACE}measured", mark=mark)
    cells = map(measured_cell, reproductions)
    return row_of([label, "", *cells, ""], "measured", key=row.id)


def _rows_on_other_corpora(
    row: published.Row,
    reproductions: Sequence[Reproduction | None],
    folder: Conclusions,
    footnotes: Footnotes | None,
) -> list[ShownRow]:
    """What methods gave that differ from a row's in a corpus alone; they have no verdict."""
    shown = [each for each in reproductions if each is not None]
    methods = dict.fromkeys(name for each in shown for name in each.on_other_corpora)
    published_method = compose_method(row.method, folder.registry)
    rows = []
    for name in methods:
        method = compose_method(name, folder.registry)
        differing = [
            f"{words} on {here}, the row's on {there}"
            for words, here, there in (
                (
                    "trained",
                    training_data_in_words(row, method),
                    training_data_in_words(row, published_method),
                ),
                (
                    "fitted",
                    fit_corpus_in_words(row, method),
                    fit_corpus_in_words(row, published_method),
                ),
            )
            if here != there
        ]
        mark = _mark(f"`{name}`: {'; '.join(differing)}", footnotes)
        label = ShownCell(f"↳{NO_BREAK_SPACE}{CellState.OTHER_CORPUS}", mark=mark)
        cells = []
        for each in reproductions:
            scores = each.on_other_corpora.get(name, ()) if each is not None else ()
            text = f"{fmean(scores):.2f}" if scores else ""
            if len(scores) > 1:
                text += f" ± {stdev(scores):.2f} ({len(scores)})"
            cells.append(ShownCell(text))
        rows.append(row_of([label, "", *cells, ""], "measured", key=row.id))
    return rows


def measured_cell(reproduction: Reproduction | None) -> ShownCell:
    """A measured number with spread, seeds and the mark of its verdict; its state without one."""
    if reproduction is None:
        return ShownCell("")
    state = str(reproduction.state)
    text = reproduction.shown
    if not text:
        return ShownCell(state)
    if reproduction.verdict.sd is not None:
        text += f" ± {reproduction.verdict.sd:.2f} ({reproduction.verdict.k})"
    mark = f"{NO_BREAK_SPACE}{VERDICT_MARKS[reproduction.state]}"
    return ShownCell(text, mark=mark, state=state)
