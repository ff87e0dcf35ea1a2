"""Boards: tables of methods by tasks, for the leaderboard, encoders and the page of results.

A board has the seven STS tasks with their average under one scoring, or the columns of
one section apart from them. Models of the papers' size come first, and among encoders of
one size the best method.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from harness.conclusions.encoder_sizes import in_groups
from harness.conclusions.folder import Conclusions
from harness.core.metrics import metric_of
from harness.core.types import LeaderboardColumn, Record, Section
from harness.report.sentences import coverage_note
from harness.report.table import (
    DAGGER,
    HEADING,
    ShownColumn,
    ShownRow,
    ShownTable,
    method_cell,
    row_of,
)
from harness.results.differences import ITEMS_OF_SEED_0, differences_of_rows
from harness.results.index import (
    MISSING,
    Results,
    Value,
    average,
    coverage,
    methods_by_encoder,
)
from harness.results.origins import sentences_on_copies
from harness.results.scorings import TASK_LABELS, Scoring, seven_values

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
SEED_0_COMPARED = (
    "≈ compares seed 0 of each row over test items; averages are means over all seeds."
)
SEEDS_COMPARED = "≈ compares means over seeds, test items and seeds resampled together."
NOT_COMPARED = (
    "Neighbouring rows of this table were not compared, so no row is marked ≈."
)

OTHER_FLOOR = "In brackets: with the other floor of narrow coordinates (docs/flows.md)."
FACTS = ("Dim.", "Rank", "Params", "ms / sentence")  # further columns of the seven


def boards(
    methods: Sequence[str],
    folder: Conclusions,
    scorings: Iterable[Scoring],
    sections: Iterable[Section],
    *,
    with_ties: bool = False,
) -> list[ShownTable]:
    """The tables of these methods that have a row: the seven tasks, then further sections.

    Args:
        methods: The methods to choose from.
        folder: The results.
        scorings: How the seven tasks are scored, in a table each.
        sections: The further sections.
        with_ties: As in `seven_tasks`.
    """
    tables = [
        seven_tasks(methods, scoring, folder, with_ties=with_ties)
        for scoring in scorings
    ]
    tables += [section_board(name, methods, folder) for name in sections]
    return [table for table in tables if table is not None]


def seven_tasks(
    methods: Sequence[str],
    scoring: Scoring,
    folder: Conclusions,
    *,
    with_ties: bool = False,
) -> ShownTable | None:
    """The seven tasks and their average; None where no method has any of them.

    Args:
        methods: The methods to choose from.
        scoring: How the tasks are scored.
        folder: The results.
        with_ties: Whether a row is marked that is tied with the one above, which is done
            if the stored differences of all neighbours are of the same averages; and
            whether flows have their scores with the other floor.
    """
    results = folder.records
    measured = {method: seven_values(results, method, scoring) for method in methods}
    rows = _ranked(measured, by_column=-1)
    texts = {}
    for method, values in rows.items():
        texts[method] = [*map(str, values), *_facts(method, scoring, results)]
    tied, remarks = set[str](), []
    if with_ties:
        averages = {}
        for method, values in rows.items():
            if values[-1].mean is not None:
                averages[method] = values[-1].mean
        differences = differences_of_rows(averages, scoring, folder.differences)
        tied = {each.contrast.second for each in differences if each.is_tie}
        if differences:
            is_of_seed_0 = any(each.by == ITEMS_OF_SEED_0 for each in differences)
            remarks.append(SEED_0_COMPARED if is_of_seed_0 else SEEDS_COMPARED)
        elif len(averages) > 1:
            remarks.append(NOT_COMPARED)
        with_floors = {method for method, _, _ in folder.floors}
        other_floors = {
            method: _other_floors(method, scoring, folder)
            for method in texts
            if method in with_floors
        }
        for method, floors in other_floors.items():
            for place, other in floors.items():
                texts[method][place] += f" ({other})"
        if any(other_floors.values()):
            remarks.append(OTHER_FLOOR)
    columns = [
        ShownColumn(label, key=f"{task}/{'.'.join(path)}")
        for label, (task, path) in zip(
            TASK_LABELS.values(), scoring.task_scores, strict=True
        )
    ]
    text_form = "SentEval text" if scoring.text == "senteval" else "raw text"
    return _board(
        texts,
        [*columns, *map(ShownColumn, (AVERAGE, *FACTS))],
        folder,
        tied=tied,
        remarks=remarks,
        title=f"{scoring.correlation.capitalize()}, `{scoring.aggregation}`, {text_form}",
        key=scoring.id,
    )


def _other_floors(
    method: str, scoring: Scoring, folder: Conclusions
) -> dict[int, Value]:
    """The values of a flow with the other floor of narrow coordinates, by column.

    Of a method that has all seven it is their average.
    """
    values = {}
    for column, (task, path) in enumerate(scoring.task_scores):
        scores = folder.floors.get((method, task, path))
        if scores is not None:
            values[column] = scores.value
    if len(values) == len(scoring.task_scores):
        return {len(values): average([*values.values()])}
    return values


def section_board(
    name: Section, methods: Sequence[str], folder: Conclusions
) -> ShownTable | None:
    """The scores of a section's tasks; None without a row."""
    title, about = SECTIONS[name]
    results = folder.records
    legends = [about]
    columns = []
    measured: dict[str, list[Value]] = {method: [] for method in methods}
    for task in folder.registry.tasks.values():
        for column in task.columns:
            if column.section == name:
                path = column.score or metric_of(task).main_score
                key = f"{task.name}/{'.'.join(path)}"
                columns.append(ShownColumn(column.heading, key=key))
                legends.append(_legend(column, task.name, results))
                for method, values in measured.items():
                    values.append(results.value(method, task.name, *path))
    # The tasks of `other` are of several kinds, by none of which a method is the best.
    rows = _ranked(measured, by_column=None if name == "other" else 0)
    about = " ".join(filter(None, legends))
    return _board(rows, columns, folder, title=title, about=about, key=name)


def _legend(column: LeaderboardColumn, task: str, results: Results) -> str:
    """A column's legend with the scores of the first method that has all of them; else empty."""
    for method in results.by_task.get(task, ()):
        values = {
            name: results.value(method, task, name) for name in column.legend_scores
        }
        if all(value.mean is not None for value in values.values()):
            return column.legend.format(**values)
    return ""


def _ranked(
    rows: Mapping[str, Sequence[Value]], by_column: int | None
) -> dict[str, Sequence[Value]]:
    """The methods with any value, the best in a column first, those without one there last."""
    measured = {}
    for method, values in rows.items():
        if any(value.mean is not None for value in values):
            measured[method] = values
    if by_column is None:
        return measured

    def order(method: str) -> float:
        mean = measured[method][by_column].mean
        return math.inf if mean is None else -mean

    return {method: measured[method] for method in sorted(measured, key=order)}


def _board(
    rows: Mapping[str, Sequence[object]],
    columns: Sequence[ShownColumn],
    folder: Conclusions,
    *,
    tied: Collection[str] = (),
    remarks: Sequence[str] = (),
    **further: str,
) -> ShownTable | None:
    """A board of ordered rows, the largest models first, each size below its heading.

    Args:
        rows: The cells of each method; a board without rows is None.
        columns: The columns but for the first; the key of a score names its task.
        folder: The results.
        tied: The methods that are tied with the one above.
        remarks: What is said below the board.
        further: Title, introduction and key of the table.
    """
    if not rows:
        return None
    groups = in_groups(rows, folder.encoder_sizes)
    shown_rows: list[ShownRow] = []
    for size, methods in groups.items():
        if len(groups) > 1:
            shown_rows.append(row_of([size.heading], HEADING))
        for method in methods:
            name = method_cell(method, is_tied=method in tied)
            shown_rows.append(row_of([name, *rows[method]], key=method))
    coverage_remark = _coverage_remark(folder.records, [*rows], columns)
    copies = sentences_on_copies([*rows], folder.records, folder.registry)
    notes = [
        coverage_remark,
        *(f"{sentence}." for sentence in copies),
        " ".join(remarks),
    ]
    return ShownTable(
        columns=[ShownColumn("method", is_text=True), *columns],
        rows=shown_rows,
        notes=[note for note in notes if note],
        **further,
    )


def _coverage_remark(
    results: Results, methods: Sequence[str], columns: Sequence[ShownColumn]
) -> str:
    """The coverage of each encoder with word vectors on the tasks of the columns."""
    notes = []
    for encoder, encoder_methods in methods_by_encoder(methods).items():
        shares: dict[str, float] = {}
        for column in columns:
            task = column.key.partition("/")[0]
            records: list[Record] = []
            for method in encoder_methods:
                records += results.records(method, task)
            share = coverage(records)
            if share is not None:
                shares[column.heading] = share
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
    for task, _ in scoring.task_scores:
        records += results.records(method, task)
    facts = records[0].facts
    sizes = [str(facts.get(name, MISSING)) for name in ("dimensions", "rank")]
    parameters = MISSING
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
