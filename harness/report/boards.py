"""Boards: tables of methods by tasks, for the leaderboard, encoders and the page of results.

A board has the seven STS tasks with their average under one scoring, or the columns of
one section apart from them. Models of the papers' size come first, and among encoders of
one size the best method.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from harness.core.hardware import base_name
from harness.core.metrics import metric_of
from harness.core.types import LeaderboardColumn, Record, Section, is_transductive
from harness.report.papers import DAGGER
from harness.report.sentences import coverage_note
from harness.report.table import (
    HEADING,
    MISSING_NUMBER,
    ShownCell,
    ShownColumn,
    ShownRow,
    ShownTable,
)
from harness.results.differences import ITEMS_OF_SEED_0, differences_of_rows
from harness.results.encoder_sizes import EncoderSize
from harness.results.folder import ResultsFolder
from harness.results.index import (
    Results,
    TaskScore,
    Value,
    average,
    column_value,
    encoder_of_method,
    methods_by_encoder,
)
from harness.results.reproduction import coverage
from harness.results.scorings import Scoring

# The sections apart from the seven tasks, with their titles and introductions.
SECTIONS: Mapping[Section, tuple[str, str]] = {
    "other": ("Other tasks", ""),
    "transfer": (
        "Transfer (accuracy)",
        "SentEval's transfer tasks: the accuracy, ×100, of a logistic regression that is "
        "trained on the vectors, under SimCSE's test protocol (Adam, ten folds, one seed); "
        f"best on MR first. {DAGGER} fitted on all sentences of the task, without their labels.",
    ),
    "embedded": (
        "Embedded tasks",
        "Sentences that the harness makes itself, so that every machine can score them; best on "
        "mini-STS first. No paper has these tasks: they compare methods with each other. "
        "Spearman, `all`; AUC; for lexical the correlation with edit distance; accuracy of a "
        "classifier.",
    ),
}
AVERAGE = "Avg."
TIE_MARK = "≈"
SEED_0_COMPARED = (
    "≈ compares seed 0 of each row over test items; averages are means over all seeds."
)
SEEDS_COMPARED = "≈ compares means over seeds, test items and seeds resampled together."
NOT_COMPARED = (
    "Neighbouring rows of this table were not compared, so no row is marked ≈."
)

OTHER_FLOOR = "In brackets: with the other floor of narrow coordinates (docs/flows.md)."

# The scores of each column by its heading; several are averaged.
Columns = Mapping[str, Sequence[TaskScore]]
FACTS = ("Dim.", "Rank", "Params", "ms / sentence")  # further columns of the seven


def seven_tasks(
    methods: Sequence[str], scoring: Scoring, folder: ResultsFolder, encoder: str = ""
) -> ShownTable | None:
    """The seven tasks and their average; None where no method has any of them.

    Args:
        methods: The methods to choose from.
        scoring: How the tasks are scored.
        folder: The results.
        encoder: The encoder of all methods. A row is marked as tied with the one above
            if the stored differences of all neighbours are of the same averages.
    """
    columns: dict[str, Sequence[TaskScore]] = {
        label: [(task, scoring.path)] for label, task in scoring.tasks_by_label.items()
    }
    columns[AVERAGE] = scoring.task_scores
    rows = _rows(columns, methods, folder.records, ordered_by=-1)
    averages = {
        method: values[-1].mean
        for method, values in rows.items()
        if values[-1].mean is not None
    }
    stored = folder.differences if encoder else {}
    differences = differences_of_rows(averages, scoring, stored)
    tied = {
        difference.contrast.second for difference in differences if difference.is_tie
    }
    remark = NOT_COMPARED if encoder and len(averages) > 1 else ""
    if differences:
        is_of_seed_0 = any(each.by == ITEMS_OF_SEED_0 for each in differences)
        remark = SEED_0_COMPARED if is_of_seed_0 else SEEDS_COMPARED
    text = "SentEval text" if scoring.text == "senteval" else "raw text"
    floors = _other_floors(rows, scoring, folder) if encoder else {}
    if floors:
        remark = f"{remark} {OTHER_FLOOR}"
    return _board(
        scoring.id,
        f"{scoring.correlation.capitalize()}, `{scoring.aggregation}`, {text}",
        columns,
        rows,
        folder,
        facts={name: _facts(name, scoring, folder.records) for name in rows},
        tied=tied,
        remark=remark,
        in_brackets=floors,
    )


def _other_floors(
    methods: Iterable[str], scoring: Scoring, folder: ResultsFolder
) -> dict[str, dict[str, Value]]:
    """The values of flows with the other floor of narrow coordinates, by method and heading.

    Of a method that has all seven it is their average.
    """
    tasks = scoring.tasks_by_label
    values_of_methods = {}
    for method in methods:
        values: dict[str, Value] = {}
        for heading, task in tasks.items():
            scores = folder.floors.get((method, task, scoring.path))
            if scores is not None:
                values[heading] = scores.value
        if len(values) == len(tasks):
            values = {AVERAGE: average([*values.values()])}
        if values:
            values_of_methods[method] = values
    return values_of_methods


def section_board(
    name: Section, methods: Sequence[str], folder: ResultsFolder
) -> ShownTable | None:
    """The scores of a section's tasks; None without a row."""
    title, about = SECTIONS[name]
    legends = [about]
    columns: dict[str, Sequence[TaskScore]] = {}
    for task in folder.registry.tasks.values():
        for column in task.columns:
            if column.section == name:
                path = column.score or metric_of(task).main_score
                columns[column.heading] = [(task.name, path)]
                legends.append(_legend(column, task.name, folder.records))
    # The tasks of `other` are of several kinds, by none of which a method is the best.
    ordered_by = None if name == "other" else 0
    rows = _rows(columns, methods, folder.records, ordered_by)
    about = " ".join(filter(None, legends))
    return _board(name, title, columns, rows, folder, about=about)


def _legend(column: LeaderboardColumn, task: str, results: Results) -> str:
    """A column's legend with the scores of the first method that has all of them; else empty."""
    for method in results.by_task.get(task, ()):
        values = {
            name: results.value(method, task, name) for name in column.legend_scores
        }
        if all(value.mean is not None for value in values.values()):
            return column.legend.format(**values)
    return ""


def _rows(
    columns: Columns, methods: Sequence[str], results: Results, ordered_by: int | None
) -> dict[str, Sequence[Value]]:
    """The values of each method in the columns, of those that have any.

    The best in the column of a number come first, those without a value there last.
    """
    rows: dict[str, Sequence[Value]] = {}
    for method in methods:
        values = [column_value(results, method, scores) for scores in columns.values()]
        if any(value.mean is not None for value in values):
            rows[method] = values
    if ordered_by is None:
        return rows

    def order(method: str) -> float:
        mean = rows[method][ordered_by].mean
        return math.inf if mean is None else -mean

    return {method: rows[method] for method in sorted(rows, key=order)}


def _board(
    key: str,
    title: str,
    columns: Columns,
    rows: Mapping[str, Sequence[Value]],
    folder: ResultsFolder,
    *,
    about: str = "",
    facts: Mapping[str, Sequence[str]] | None = None,
    tied: Collection[str] = (),
    remark: str = "",
    in_brackets: Mapping[str, Mapping[str, Value]] | None = None,
) -> ShownTable | None:
    """A board of ordered rows, the largest models first, each size below its heading.

    `in_brackets` has further values by method and heading.
    """
    if not rows:
        return None
    rows_by_size: dict[EncoderSize, list[ShownRow]] = {size: [] for size in EncoderSize}
    for method, values in rows.items():
        mark = f" {DAGGER}" if is_transductive(method) else ""
        if method in tied:
            mark += f" {TIE_MARK}"
        further_values = (in_brackets or {}).get(method, {})
        texts = []
        for heading, value in zip(columns, values, strict=True):
            further = further_values.get(heading)
            texts.append(f"{value} ({further})" if further else str(value))
        if facts:
            texts += facts[method]
        cells = [ShownCell(f"`{method}`", mark=mark), *map(ShownCell, texts)]
        size = folder.encoder_sizes[base_name(encoder_of_method(method))]
        rows_by_size[size].append(ShownRow(cells, key=method))
    groups = {size: group for size, group in rows_by_size.items() if group}
    shown_rows: list[ShownRow] = []
    for size, group in groups.items():
        if len(groups) > 1:
            shown_rows.append(ShownRow([ShownCell(size.heading)], HEADING))
        shown_rows += group
    headings = [ShownColumn("method", is_text=True)]
    tasks = {}
    for heading, [(task, path), *more] in columns.items():
        key_of_score = "" if more else f"{task}/{'.'.join(path)}"
        headings.append(ShownColumn(heading, key=key_of_score))
        if not more:
            tasks[heading] = task
    notes = [_coverage_notes(folder.records, [*rows], tasks), remark]
    return ShownTable(
        columns=[*headings, *map(ShownColumn, FACTS if facts else ())],
        rows=shown_rows,
        title=title,
        about=about,
        notes=[note for note in notes if note],
        key=key,
    )


def _coverage_notes(
    results: Results, methods: Sequence[str], tasks: Mapping[str, str]
) -> str:
    """The coverage of each encoder with word vectors on the tasks, by their headings."""
    notes = []
    for encoder, encoder_methods in methods_by_encoder(methods).items():
        shares: dict[str, float] = {}
        for heading, task in tasks.items():
            records: list[Record] = []
            for method in encoder_methods:
                records += results.records(method, task)
            share = coverage(records)
            if share is not None:
                shares[heading] = share
        note = coverage_note(shares)
        if note:
            notes.append(f"`{encoder}`: {note}")
    return f"{'; '.join(notes)}." if notes else ""


def _facts(method: str, scoring: Scoring, results: Results) -> list[str]:
    """Dimensions, rank of the fitted map and parameters, and what a sentence takes.

    The time is in milliseconds for each distinct sentence of the seven tasks, of encoding
    it and applying the method; `not timed` where a record lacks a clock.
    """
    records: list[Record] = []
    for task in scoring.tasks_by_label.values():
        records += results.records(method, task)
    facts = records[0].facts
    sizes = [str(facts.get(name, MISSING_NUMBER)) for name in ("dimensions", "rank")]
    parameters = MISSING_NUMBER
    if "parameters" in facts:
        parameters = f"{facts['parameters'] / 1e6:.3g}M"
    seconds = sentences = 0.0
    for record in records:
        seconds += record.timings.get("encode", math.nan)
        seconds += record.timings.get("apply", math.nan)
        sentences += record.facts.get("distinct_sentences", math.nan)
    time = "not timed"
    if seconds > 0 and sentences > 0:
        milliseconds = 1000 * seconds / sentences
        decimals = max(0, 1 - math.floor(math.log10(milliseconds)))
        time = f"{milliseconds:.{decimals}f}"
    return [*sizes, parameters, time]
