"""The page of noise: which published bests are better than the runner-up by more than noise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from harness.conclusions.folder import Conclusions
from harness.conclusions.noise import Lead, LeadKind, chain_of, lead, least_difference
from harness.conclusions.widths import (
    ASSUMED_BETWEEN,
    LEVEL_95,
    TaskScores,
    chance_to_find,
    standard_error,
    task_pairs,
)
from harness.registry import look_up
from harness.report.papers import LEAD_MARKS
from harness.report.pictures import ChainPicture
from harness.report.table import ShownCell, rendered
from harness.results.published import PublishedNumber
from harness.results.scorings import SEVEN, TASK_LABELS

# The chain of works that the page shows.
CHAIN_START, CHAIN_SUPERVISION = "bert-base-uncased", "none"
CHAIN_TITLE = "BERT-base without labels: mean of seven STS tasks"

# Of the table of least differences: the score, in points, and the correlations of the
# similarities of two systems.
USUAL_SCORE = 78.0
AVERAGE_TASK = "avg"  # in the place of a task: the mean of the seven
SHOWN_BETWEEN = (0.98, 0.95, 0.90, 0.80)


def noise_page(folder: Conclusions) -> str:
    """The page; empty where no table has two numbers to compare."""
    leads = [*folder.leads.values()]
    if not leads:
        return ""
    chain = _chain(folder)
    return rendered(
        "noise.md",
        title="Larger than noise?",
        columns=[*(f"{LEAD_MARKS[kind]} {kind}" for kind in LeadKind), "all"],
        totals=[
            [name, *_counts(part)]
            for name, part in (
                ("one task", [lead for lead in leads if not lead.best.is_average]),
                ("an average", [lead for lead in leads if lead.best.is_average]),
            )
        ],
        tables=_counts_by_table(leads),
        steps=_steps(chain, folder),
        least=[[TASK_LABELS[task], *_least([task])] for task in SEVEN]
        + [["mean of the seven", *_least(SEVEN)]],
        usual_score=f"{USUAL_SCORE:g}",
        between=[f"{between:.2f}" for between in SHOWN_BETWEEN],
        assumed=ASSUMED_BETWEEN,
        digest="",
    )


def chain_picture(folder: Conclusions) -> ChainPicture | None:
    """The picture of the chain of works; None where it has no two of them."""
    chain = _chain(folder)
    if len(chain) < 2:
        return None
    rows = []
    for number in chain:
        items = [
            least_difference(number, number, [between] * len(number.tasks)) or 0.0
            for between in ASSUMED_BETWEEN
        ]
        spread = folder.spreads.of(number)
        seeds = None
        if spread is not None:
            seeds = LEVEL_95 * math.sqrt(2 * spread.variance) / 2
        work = number.table.paper.partition(" (")[0].removesuffix(" repo")
        rows.append((work, number.score, items[0] / 2, items[1] / 2, seeds))
    return ChainPicture(CHAIN_TITLE, rows)


def _chain(folder: Conclusions) -> list[PublishedNumber]:
    """The best average of each work for BERT-base without labels."""
    numbers = folder.published_numbers.values()
    return chain_of(numbers, CHAIN_START, CHAIN_SUPERVISION, SEVEN)


def _name(number: PublishedNumber) -> str:
    """A row of the chain with its work."""
    return f"{number.row.label} ({number.table.paper})"


def _counts(leads: Iterable[Lead]) -> list[int]:
    """How many leads are of each kind, and all of them."""
    counts = Counter(each.kind for each in leads)
    return [*(counts[kind] for kind in LeadKind), counts.total()]


def _counts_by_table(leads: Sequence[Lead]) -> list[list[object]]:
    """The counts of each published table, in the order of the tables."""
    by_table: dict[str, list[Lead]] = {}
    for each in leads:
        by_table.setdefault(each.best.table.id, []).append(each)
    rows: list[list[object]] = []
    for table, of_table in by_table.items():
        first = of_table[0].best.table
        name = ShownCell(f"{first.paper}, {first.table}", link=f"papers/{table}.md")
        rows.append([name, *_counts(of_table)])
    return rows


def _steps(chain: Sequence[PublishedNumber], folder: Conclusions) -> list[list[str]]:
    """Each number of the chain with how far it is above the one before it."""
    rows = [[_name(chain[0]), chain[0].shown, "", "", "", ""]] if chain else []
    for lower, higher in pairwise(chain):
        step = lead(higher, lower, folder.spreads, folder.similarities_of)
        items = ""
        if step.items is not None:
            items = " to ".join(f"{points:.2f}" for points in step.items)
        seeds = "not published" if step.seeds is None else f"{step.seeds:.2f}"
        mark = f"{LEAD_MARKS[step.kind]} {step.kind}"
        rows.append(
            [_name(higher), higher.shown, f"{step.points:.2f}", items, seeds, mark]
        )
    return rows


def _least(tasks: Sequence[str]) -> list[str]:
    """The least difference beyond the choice of pairs on tasks, for each correlation shown."""
    return [
        f"{LEVEL_95 * _error(tasks, USUAL_SCORE, between):.2f}"
        for between in SHOWN_BETWEEN
    ]


def _error(tasks: Sequence[str], score: float, between: float) -> float:
    """The standard error of the difference of two systems with one score, in points.

    Raises UsageError for a task whose pairs are not known.
    """
    scores = [
        TaskScores(
            look_up("task with known pairs", task, task_pairs()), score, score, between
        )
        for task in tasks
    ]
    return standard_error(scores)


def power_rows(task: str, points: float, score: float) -> list[dict[str, object]]:
    """How large a difference has to be on a task, and how often one of a size is found.

    Args:
        task: The task; `avg` for the mean of the seven.
        points: The true difference of two systems, in points.
        score: The score of both, some points below 100.

    Raises:
        UsageError: The number of the task's pairs is not known.
    """
    tasks = SEVEN if task == AVERAGE_TASK else (task.replace(".senteval", ""),)
    rows: list[dict[str, object]] = []
    for between in SHOWN_BETWEEN:
        error = _error(tasks, score, between)
        rows.append(
            {
                "similarities correlate": between,
                "beyond items from": round(LEVEL_95 * error, 2),
                f"{points:g} is found in": f"{chance_to_find(points, error):.0%}",
            }
        )
    return rows
