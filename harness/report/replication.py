"""The page of claims, searches and ablations, with the numbers that are published for them.

Its opening, with the rules of a test, is `replication.md`. Below it is a section for each
claim, ordered by the size of the encoders that the claim was tested on, then the searches
and ablations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from harness.core.hardware import base_name
from harness.report.markdown import MISSING_NUMBER, Page, escape, table
from harness.report.sentences import (
    aggregation_in_words,
    metric_in_words,
    number_of,
    signed,
)
from harness.results.claim_tests import AVERAGE, ClaimOutcome, ClaimResult, Finding
from harness.results.claims import Claim, Claims
from harness.results.encoder_sizes import EncoderSize
from harness.results.index import NOT_MEASURED, CellName, Results, value
from harness.results.published import Row, Table
from harness.results.questions import Search, Trial
from harness.results.scorings import TASK_LABELS
from harness.results.verdict import TOLERANCES

CLAIMS_PAGE = "replication-in-miniature.md"
OPENING_FILE = Path(__file__).with_suffix(".md")
NO_SCORES = "Not measured"  # the group of claims without a score
DECISIONS = (ClaimOutcome.HIGHER, ClaimOutcome.LOWER, ClaimOutcome.UNDECIDED)
LEAST_P = 0.001  # that a table prints
OVERVIEW_HEAD = (
    "claim",
    "",
    "tested on",
    "published in",
    *ClaimOutcome,
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
SEARCH_HEAD = ("", "options", "before", "best", "at step", "last loss", "seeds")


def claims_page(
    claims: Claims,
    results: Sequence[ClaimResult],
    records: Results,
    sizes: Mapping[str, EncoderSize],
    searches: Sequence[Search] = (),
) -> Page:
    """Summary, tables of claims, effect sizes, one section a claim, searches.

    Args:
        claims: The claims as they are written.
        results: Each of them, tested.
        records: The records that they were tested on.
        sizes: The size of each measured encoder.
        searches: The searches for hyper-parameters.
    """
    groups = claims_by_size(results, sizes)
    sorted_results = _results_of_groups(groups)
    opening = OPENING_FILE.read_text(encoding="utf-8").format(
        about=claims.about,
        summary=_summary(groups),
        tolerances=TOLERANCES,
        claims=_overview(groups),
        effects=_effects(sorted_results),
    )
    parts = [opening.strip()]
    for result in sorted_results:
        parts += _section(result)
    if searches:
        parts.append("## Searches and ablations")
    for search in searches:
        parts += search_parts(search, claims.tables)
    cells: list[CellName] = []
    for result in results:
        cells += result.cells
    return Page(
        title="Claims of the papers, tested on other encoders",
        parts=parts,
        records=records.select(cells),
    )


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
    groups[NO_SCORES] = []
    largest_first = list(EncoderSize)
    for result in results:
        title = NO_SCORES
        if result.outcome != ClaimOutcome.NOT_MEASURED:
            encoder_sizes = [sizes[base_name(name)] for name in result.claim.encoders]
            smallest = max(encoder_sizes, key=largest_first.index)
            title = smallest.heading
        groups[title].append(result)
    return {title: group for title, group in groups.items() if group}


def _results_of_groups(
    groups: Mapping[str, Sequence[ClaimResult]],
) -> list[ClaimResult]:
    """The claims of all groups, in the order of the groups."""
    results: list[ClaimResult] = []
    for group in groups.values():
        results += group
    return results


def encoders_of(results: Iterable[ClaimResult]) -> str:
    """The encoders that claims were tested on, as code."""
    names: dict[str, None] = {}
    for result in results:
        names |= dict.fromkeys(result.claim.encoders)
    return ", ".join(f"`{name}`" for name in names)


def outcomes_in_words(results: Sequence[ClaimResult]) -> str:
    """`2 higher, 6 lower, 4 undecided here`."""
    counts = Counter(result.outcome for result in results)
    return f"{_counts_in_words(counts)} here"


def _counts_in_words(counts: Counter[ClaimOutcome]) -> str:
    """`3 higher, 1 lower, 0 undecided, 2 not measured`; `not measured` only if there are any."""
    outcomes = [
        outcome for outcome in ClaimOutcome if counts[outcome] or outcome in DECISIONS
    ]
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in outcomes)


# The summary


def _summary(groups: Mapping[str, Sequence[ClaimResult]]) -> str:
    """A line for each group, and the claims that tests over seeds alone decide."""
    lines = [f"* {_summary_of_group(title, group)}" for title, group in groups.items()]
    links = [
        _link(result)
        for result in _results_of_groups(groups)
        if result.rests_on_seeds_alone
    ]
    if links:
        lines.append(
            f"\n{len(links)} of those that are higher or lower rest on tests over seeds "
            "alone and say nothing of the choice of test pairs, since the similarities of their "
            f"seeds were not kept: {', '.join(links)}. Without these they are undecided."
        )
    return "\n".join(lines)


def _summary_of_group(title: str, group: Sequence[ClaimResult]) -> str:
    """How many claims of a group are higher, lower and undecided here, and on which encoders."""
    counts: Counter[ClaimOutcome] = Counter()
    for result in group:
        counts.update(result.outcomes)
    by_claim = f"of {number_of(len(group), 'claim')} {outcomes_in_words(group)}"
    by_task = f"By task, of {counts.total()}: {_counts_in_words(counts)}"
    parts = _parts_of_sentences(group)
    return f"**{title}** ({encoders_of(group)}): {by_claim}. {by_task}.{parts}"


def _parts_of_sentences(results: Sequence[ClaimResult]) -> str:
    """How many claims are parts of one sentence of a paper."""
    claims_by_sentence: dict[str, list[ClaimResult]] = {}
    for result in results:
        if result.claim.part_of:
            claims_by_sentence.setdefault(result.claim.part_of, []).append(result)
    text = ""
    for sentence, claims in claims_by_sentence.items():
        verb = "is part" if len(claims) == 1 else "are parts"
        count = number_of(len(claims), "claim")
        text += f" {count} ({outcomes_in_words(claims)}) {verb} of {sentence}."
    return text


# The tables of all claims


def _overview(groups: Mapping[str, Sequence[ClaimResult]]) -> str:
    """A table for each group: on how many tasks a claim has each outcome, here and in the paper."""
    parts = []
    for title, group in groups.items():
        rows = [_overview_row(result) for result in group]
        parts.append(f"### {title}: {encoders_of(group)}")
        parts.append(table(OVERVIEW_HEAD, rows, word_columns=4))
    return "\n\n".join(parts)


def _overview_row(result: ClaimResult) -> list[object]:
    claim = result.claim
    counts = [result.outcomes.count(outcome) for outcome in ClaimOutcome]
    return [
        _link(result),
        claim.claim,
        _encoders_in_words(claim),
        _place(claim.table),
        *counts,
        len(result.findings),
        result.in_paper if claim.better.values else MISSING_NUMBER,
        f"**{result.outcome}**",
    ]


def _effects(results: Sequence[ClaimResult]) -> str:
    """A table of the difference of each claim on each task, as published and as measured."""
    labels = dict.fromkeys([*TASK_LABELS.values(), AVERAGE])  # of columns, each once
    for result in results:
        labels |= dict.fromkeys(finding.label for finding in result.findings)
    rows = []
    for result in results:
        findings = {finding.label: finding for finding in result.findings}
        if result.average is not None:
            findings[AVERAGE] = result.average
        effects = [_effect(findings.get(label)) for label in labels]
        rows.append([_link(result), _encoders_in_words(result.claim), *effects])
    head = ["claim", "tested on", *map(escape, labels)]
    return table(head, rows, word_columns=2)


def _effect(finding: Finding | None) -> str:
    """`+1.25, +0.80`: the published difference, then the measured one; empty without a finding."""
    if finding is None:
        return ""
    published = MISSING_NUMBER
    if finding.claimed is not None:
        published = signed(finding.claimed)
    measured = str(finding.decision.outcome)
    if finding.decision.difference is not None:
        measured = signed(finding.decision.difference)
    return f"{published}, {measured}"


# The section of a claim


def _section(result: ClaimResult) -> list[str]:
    """A claim under its heading: what it says, notes, its outcome, and a line for each task."""
    rows = [_finding_row(finding) for finding in result.all_findings]
    parts = [
        f"## {result.claim.id}",
        _claim_in_words(result.claim),
        _notes(result.claim),
        _outcome_in_words(result),
        table(FINDING_HEAD, rows),
    ]
    return [part for part in parts if part]


def _claim_in_words(claim: Claim) -> str:
    """What a claim says, its place in a paper, its methods and its protocol."""
    better_method, worse_method = claim.methods
    rows = f"{escape(claim.better.label)} above {escape(claim.worse.label)}"
    methods = f"`{better_method}` above `{worse_method}`"
    metrics = dict.fromkeys(
        metric_in_words(column.metric or claim.table.metric) for column in claim.columns
    )
    tasks = dict.fromkeys(f"`{column.task}`" for column in claim.columns)
    protocol = [*metrics]
    if claim.table.aggregation:
        protocol.append(aggregation_in_words(claim.table.aggregation))
    protocol.append(f"on {', '.join(tasks)}")
    return (
        f"{claim.claim} ({_place(claim.table)}, `{claim.table.cite}`: {rows}; "
        f"tested on {_encoders_in_words(claim)}: {methods}.) {'; '.join(protocol)}."
    )


def _outcome_in_words(result: ClaimResult) -> str:
    """On how many tasks a claim has each outcome, here and in the paper."""
    counts = [f"{result.outcomes.count(outcome)} {outcome}" for outcome in ClaimOutcome]
    in_paper = "the paper says it in words and prints no numbers"
    if result.claim.better.values:
        in_paper = f"the paper's own numbers have this order on {result.in_paper}"
    tasks = number_of(len(result.findings), "task")
    return f"**Here {result.outcome}**: of {tasks} {', '.join(counts)}; {in_paper}."


def _finding_row(finding: Finding) -> list[str]:
    """A task of a claim: the published numbers, the measured ones, and the decision."""
    published = [MISSING_NUMBER, MISSING_NUMBER, MISSING_NUMBER]
    if finding.published is not None and finding.claimed is not None:
        better, worse = finding.published
        published = [f"{better:.2f}", f"{worse:.2f}", signed(finding.claimed)]
    decision = finding.decision
    difference = ""
    if decision.difference is not None:
        difference = signed(decision.difference)
    interval = ""
    if decision.interval is not None:
        low, high = decision.interval
        interval = f"{signed(low)} to {signed(high)}"
    better_score, worse_score = finding.sides
    return [
        escape(finding.label),
        *published,
        str(better_score),
        str(worse_score),
        difference,
        interval,
        _p_value(decision.p_holm),
        str(decision.outcome),
        decision.basis,
    ]


def _p_value(p: float | None) -> str:
    """Three decimals; a p that is not significant is never rounded to one that is.

    It is rounded up, after the rounding errors of floating point are taken away.
    """
    if p is None:
        return ""
    if p < LEAST_P:
        return "<0.001"
    return f"{math.ceil(1000 * round(p, 9)) / 1000:.3f}"


def _notes(claim: Claim) -> str:
    """What the test leaves out of the claim, the claim's note, and how its rows differ here."""
    notes = []
    if claim.part_of:
        notes.append(f"This is part of {claim.part_of}.")
    if not claim.of_paper:
        notes.append("No paper claims this of the encoder that was tested.")
    if claim.conjunction:
        notes.append(
            "It claims every column: it is `higher` only if all are, `lower` if one is."
        )
    if claim.note:
        notes.append(claim.note)
    better_method, worse_method = claim.methods
    notes += _notes_on_row(claim, claim.better, better_method)
    notes += _notes_on_row(claim, claim.worse, worse_method)
    return " ".join(notes)


def _notes_on_row(claim: Claim, row: Row, method: str) -> list[str]:
    """How a published row differs from the method that is measured for it."""
    notes = []
    label = escape(row.label)
    published = _post_processors(row.method or method)
    measured = _post_processors(method)
    if published != measured:
        notes.append(
            f"{label} is taken to have {published} in the paper, and has {measured} here."
        )
    published_tasks = [
        row.tasks[column.id]
        for column in claim.columns
        if row.tasks.get(column.id, column.task) != column.task
    ]
    if published_tasks:
        names = ", ".join(f"`{name}`" for name in published_tasks)
        notes.append(f"{label} is published on {names}, another text form than here.")
    return notes


def _post_processors(method: str) -> str:
    """The post-processors of a method in words."""
    names = method.partition("+")[2]
    return f"`+{names}`" if names else "no post-processing"


def _link(result: ClaimResult) -> str:
    return f"[{result.claim.id}](#{result.claim.id})"


def _encoders_in_words(claim: Claim) -> str:
    """`bert-mini`, or both encoders where a claim compares two."""
    return " and ".join(f"`{name}`" for name in claim.encoders)


def _place(paper_table: Table) -> str:
    """A link to the page of a published table."""
    name = escape(f"{paper_table.paper}, {paper_table.table}")
    return f"[{name}](papers/{paper_table.id}.md)"


# Searches


def search_parts(search: Search, tables: Mapping[str, Table]) -> list[str]:
    """Title, caption and table of one search.

    Args:
        search: The search.
        tables: Published tables by their ids; the search may repeat the rows of one.
    """
    explanation = (
        f"Each row is `harness train {search.recipe}` with its options; `before` and `best` "
        "are Spearman in points on the development set that the recipe names."
    )
    head = [*SEARCH_HEAD]
    lines = []
    for row in search.rows:
        options = f"`{row.options}`" if row.options else ""
        trials = search.trials.get(search.command(row), ())
        lines.append([row.label, options, *_trial_numbers(trials)])
    if search.table:
        head.append("published")
        for line, score in zip(lines, search.published(tables), strict=True):
            line.append("" if score is None else f"{score:.1f}")
    return [
        f"### {search.title}",
        f"{search.caption}\n\n{explanation}",
        table(head, lines),
    ]


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
