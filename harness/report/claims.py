"""The page of the papers' claims, tested on other encoders, and of searches and ablations.

A claim says that one row of a published table is above another. Claims are in groups by
the size of the encoders that they were tested on; each has a section with a row for each
task. Below them are the searches, with the numbers that are published for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from harness.core.hardware import base_name
from harness.report.render import rendered
from harness.report.sentences import (
    aggregation_in_words,
    metric_in_words,
    number_of,
    signed,
)
from harness.report.table import MISSING_NUMBER, ShownCell, ShownTable, table_of
from harness.results import published
from harness.results.claims import AVERAGE, Claim, ClaimResult, Finding
from harness.results.differences import Outcome
from harness.results.encoder_sizes import EncoderSize
from harness.results.folder import ResultsFolder
from harness.results.index import NOT_MEASURED, CellName, value
from harness.results.questions import Search, Trial
from harness.results.scorings import TASK_LABELS

CLAIMS_PAGE = "replication-in-miniature.md"
# What pages say of an outcome; the claimed row is `higher` or `lower` in the records.
OUTCOME_WORDS = {
    Outcome.HIGHER: "as claimed",
    Outcome.LOWER: "opposite",
    Outcome.UNDECIDED: "undecided",
    Outcome.NOT_MEASURED: NOT_MEASURED,
}
DECISIONS = (Outcome.HIGHER, Outcome.LOWER, Outcome.UNDECIDED)
LEAST_P = 0.001  # that a table prints
OVERVIEW_HEAD = (
    "id",
    "claim",
    "tested on",
    "published in",
    *OUTCOME_WORDS.values(),
    "tasks",
    "in the paper",
    "here",
)
FINDING_HEAD = (
    "task",
    "published: better",
    "worse",
    "difference",
    "measured: better",
    "worse",
    "difference",
    "95 %",
    "p (Holm)",
    "here",
    "decided by",
)
SEARCH_HEAD = ("row", "options", "before", "best", "at step", "last loss", "seeds")


def claims_page(folder: ResultsFolder) -> str:
    """All claims with their tests, then the searches."""
    groups = claims_by_size(folder.claim_results, folder.encoder_sizes)
    results: list[ClaimResult] = []
    for group in groups.values():
        results += group
    cells: list[CellName] = []
    for result in folder.claim_results:
        cells += result.cells
    claims = folder.claims
    tables = {table.id: table for table in folder.tables}
    values = {
        "title": "Claims of the papers, tested on other encoders",
        "about": "" if claims is None else claims.about,
        "groups": [_group(title, group) for title, group in groups.items()],
        "on_seeds_alone": [
            result.claim.id for result in results if result.rests_on_seeds_alone
        ],
        "effects": _effects(results),
        "sections": [_section(result) for result in results],
        "searches": [
            (search, search_table(search, tables)) for search in folder.searches
        ],
    }
    digest = folder.records.select(cells).digest()
    return rendered("claims.md", digest=digest, **values)


# Groups of claims


def claims_by_size(
    results: Sequence[ClaimResult], sizes: Mapping[str, EncoderSize]
) -> dict[str, list[ClaimResult]]:
    """The claims by the smallest encoder that each was tested on, the largest models first.

    Args:
        results: The claims.
        sizes: The size of each measured encoder.

    Returns:
        The claims by the titles of their groups; claims without a score are the last
        group.
    """
    groups: dict[str, list[ClaimResult]] = {size.heading: [] for size in EncoderSize}
    groups["Not measured"] = []
    largest_first = list(EncoderSize)
    for result in results:
        title = "Not measured"
        if result.outcome != Outcome.NOT_MEASURED:
            encoder_sizes = [sizes[base_name(name)] for name in result.claim.encoders]
            title = max(encoder_sizes, key=largest_first.index).heading
        groups[title].append(result)
    return {title: group for title, group in groups.items() if group}


def encoders_of(results: Iterable[ClaimResult]) -> str:
    """The encoders that claims were tested on, as code."""
    names: dict[str, None] = {}
    for result in results:
        names |= dict.fromkeys(result.claim.encoders)
    return ", ".join(f"`{name}`" for name in names)


def outcomes_in_words(results: Iterable[ClaimResult]) -> str:
    """`2 as claimed, 6 opposite, 4 undecided`."""
    return _counts_in_words(Counter(result.outcome for result in results))


def _counts_in_words(counts: Counter[Outcome]) -> str:
    """The count of each outcome; `not measured` only if there are any."""
    return ", ".join(
        f"{counts[outcome]} {word}"
        for outcome, word in OUTCOME_WORDS.items()
        if counts[outcome] or outcome in DECISIONS
    )


def _group(title: str, results: Sequence[ClaimResult]) -> dict[str, Any]:
    """What the template says of the claims of encoders of one size."""
    by_task: Counter[Outcome] = Counter()
    by_sentence: dict[str, list[ClaimResult]] = {}
    for result in results:
        by_task.update(result.outcomes)
        if result.claim.entry.part_of:
            by_sentence.setdefault(result.claim.entry.part_of, []).append(result)
    parts = []
    for sentence, claims in by_sentence.items():
        verb = "is part" if len(claims) == 1 else "are parts"
        number = number_of(len(claims), "claim")
        parts.append(f"{number} ({outcomes_in_words(claims)}) {verb} of {sentence}.")
    rows = [_overview_row(result) for result in results]
    return {
        "title": title,
        "encoders": encoders_of(results),
        "claims": number_of(len(results), "claim"),
        "outcomes": outcomes_in_words(results),
        "tasks": by_task.total(),
        "outcomes_by_task": _counts_in_words(by_task),
        "parts": parts,
        "table": table_of(OVERVIEW_HEAD, rows, texts=4),
    }


def _overview_row(result: ClaimResult) -> list[object]:
    claim = result.claim
    counts = [result.outcomes.count(outcome) for outcome in OUTCOME_WORDS]
    return [
        _link(result),
        claim.entry.claim,
        _encoders(claim),
        ShownCell(
            f"{claim.table.paper}, {claim.table.table}",
            link=f"papers/{claim.table.id}.md",
        ),
        *counts,
        len(result.findings),
        result.in_paper if claim.is_printed else MISSING_NUMBER,
        ShownCell(OUTCOME_WORDS[result.outcome], bold=True),
    ]


def _link(result: ClaimResult) -> ShownCell:
    return ShownCell(result.claim.id, link=f"#{result.claim.id}")


def _encoders(claim: Claim) -> str:
    """`bert-mini`, or both encoders where a claim compares two."""
    return " and ".join(f"`{name}`" for name in claim.encoders)


def _effects(results: Sequence[ClaimResult]) -> ShownTable:
    """The difference of each claim on each task, as published and as measured."""
    labels = dict.fromkeys([*TASK_LABELS.values(), AVERAGE])  # of columns, each once
    for result in results:
        labels |= dict.fromkeys(finding.label for finding in result.findings)
    rows = []
    for result in results:
        findings = {finding.label: finding for finding in result.all_findings}
        effects = [_effect(findings.get(label)) for label in labels]
        rows.append([_link(result), _encoders(result.claim), *effects])
    return table_of(["claim", "tested on", *labels], rows, texts=2)


def _effect(finding: Finding | None) -> str:
    """`+1.25, +0.80`: the published difference, then the measured one; empty without a finding."""
    if finding is None:
        return ""
    published_effect = MISSING_NUMBER
    if finding.claimed is not None:
        published_effect = signed(finding.claimed)
    measured = OUTCOME_WORDS[finding.difference.outcome]
    if finding.difference.points is not None:
        measured = signed(finding.difference.points)
    return f"{published_effect}, {measured}"


# The section of a claim


def _section(result: ClaimResult) -> dict[str, Any]:
    """What the template says of a claim, with a row for each task."""
    claim = result.claim
    metrics = dict.fromkeys(
        metric_in_words(column.metric or claim.table.metric) for column in claim.columns
    )
    protocol = [*metrics]
    if claim.table.aggregation:
        protocol.append(aggregation_in_words(claim.table.aggregation))
    tasks = dict.fromkeys(f"`{column.task}`" for column in claim.columns)
    protocol.append(f"on {', '.join(tasks)}")
    counts = [
        f"{result.outcomes.count(outcome)} {word}"
        for outcome, word in OUTCOME_WORDS.items()
    ]
    return {
        "claim": claim,
        "encoders": _encoders(claim),
        "protocol": "; ".join(protocol),
        "notes": _notes(claim),
        "outcome": OUTCOME_WORDS[result.outcome],
        "tasks": number_of(len(result.findings), "task"),
        "counts": ", ".join(counts),
        "in_paper": result.in_paper if claim.is_printed else "",
        "table": table_of(
            FINDING_HEAD, [_finding_row(finding) for finding in result.all_findings]
        ),
    }


def _finding_row(finding: Finding) -> list[str]:
    """A task of a claim: the published numbers, the measured ones, and the decision."""
    printed = [MISSING_NUMBER, MISSING_NUMBER, MISSING_NUMBER]
    if finding.published is not None and finding.claimed is not None:
        better, worse = finding.published
        printed = [f"{better:.2f}", f"{worse:.2f}", signed(finding.claimed)]
    tested = finding.difference
    difference = "" if tested.points is None else signed(tested.points)
    interval = ""
    if tested.low is not None and tested.high is not None:
        interval = f"{signed(tested.low)} to {signed(tested.high)}"
    better_score, worse_score = finding.sides
    return [
        finding.label,
        *printed,
        str(better_score),
        str(worse_score),
        difference,
        interval,
        _p_value(tested.p_holm),
        OUTCOME_WORDS[tested.outcome],
        tested.by,
    ]


def _p_value(p: float | None) -> str:
    """Three significant digits, so that a p just below a level is not printed as that level."""
    if p is None:
        return ""
    return "<0.001" if p < LEAST_P else f"{p:.3g}"


def _notes(claim: Claim) -> list[str]:
    """What the test leaves out of the claim, the claim's note, and how its rows differ here."""
    notes = []
    if claim.entry.part_of:
        notes.append(f"This is part of {claim.entry.part_of}.")
    if not claim.entry.of_paper:
        notes.append("No paper claims this of the encoder that was tested.")
    if claim.entry.conjunction:
        notes.append(
            "It claims every column: it is `as claimed` only if all are, and `opposite` if one is."
        )
    notes.append(claim.entry.note)
    for row, method in zip(claim.rows, claim.methods, strict=True):
        in_paper, here = _posts(row.method or method), _posts(method)
        if in_paper != here:
            notes.append(
                f"{row.label} is taken to have {in_paper} in the paper, and has {here} here."
            )
        other_tasks = [
            f"`{row.tasks[column.id]}`"
            for column in claim.columns
            if row.tasks.get(column.id, column.task) != column.task
        ]
        if other_tasks:
            notes.append(
                f"{row.label} is published on {', '.join(other_tasks)}, another text form than "
                "here."
            )
    return [note for note in notes if note]


def _posts(method: str) -> str:
    """The post-processors of a method in words."""
    names = method.partition("+")[2]
    return f"`+{names}`" if names else "no post-processing"


# Searches


def search_table(search: Search, tables: Mapping[str, published.Table]) -> ShownTable:
    """The variants of a search with their trainings, and the published numbers, if it has any."""
    head = [*SEARCH_HEAD]
    printed: Sequence[float | None] = ()
    if search.table:
        head.append("published")
        printed = search.published(tables)
    rows = []
    for place, row in enumerate(search.rows):
        options = f"`{row.options}`" if row.options else ""
        trials = search.trials.get(search.command(row), ())
        cells = [row.label, options, *_trial_numbers(trials)]
        if search.table:
            score = printed[place]
            cells.append("" if score is None else f"{score:.1f}")
        rows.append(cells)
    return table_of(head, rows)


def _trial_numbers(trials: Sequence[Trial]) -> list[str]:
    """Score before training, best score, its step, last loss, and the number of seeds."""
    if not trials:
        return [NOT_MEASURED, NOT_MEASURED, NOT_MEASURED, NOT_MEASURED, ""]
    steps = dict.fromkeys(f"{trial.step:,} of {trial.steps:,}" for trial in trials)
    return [
        _mean_and_spread([trial.before for trial in trials]),
        _mean_and_spread([trial.best for trial in trials]),
        ", ".join(steps),
        f"{fmean(trial.loss for trial in trials):.3f}",
        str(len(trials)),
    ]


def _mean_and_spread(scores: list[float]) -> str:
    """The mean and the spread over seeds; one number where all seeds have the same score."""
    return f"{scores[0]:.2f}" if len(set(scores)) == 1 else str(value(scores))
