"""The page of claims, searches and ablations, with the numbers that are published for them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from harness.core.hardware import base_name
from harness.report.markdown import Page, escape, table
from harness.report.sentences import aggregation, metric, number_of, signed
from harness.results.claim_tests import (
    AVERAGE,
    ClaimOutcome,
    ClaimResult,
    ClaimTests,
    Finding,
)
from harness.results.claims import Claim, Claims
from harness.results.encoder_sizes import EncoderSize, sizes_of_encoders
from harness.results.index import NOT_MEASURED, value
from harness.results.published import Table
from harness.results.questions import Search
from harness.results.scorings import TASK_LABELS
from harness.results.verdict import TOLERANCES

CLAIMS_PAGE = "replication-in-miniature.md"
OPENING_FILE = Path(__file__).with_suffix(".md")  # the page's opening, with its rules
MISSING_NUMBER = "–"
NO_SCORES = "Not measured"  # the group of claims without a score
DECISIONS = (ClaimOutcome.HIGHER, ClaimOutcome.LOWER, ClaimOutcome.UNDECIDED)
LEAST_P = 0.001  # that a table prints
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
    claims: Claims, tests: ClaimTests, searches: Sequence[Search] = ()
) -> Page:
    """Summary, tables of claims, effect sizes, one section a claim, searches."""
    results = [tests.test(claim) for claim in claims.resolved]
    sizes = sizes_of_encoders(tests.results, tests.registry)
    groups = claims_by_size(results, sizes)
    ordered = [result for group in groups.values() for result in group]
    opening = OPENING_FILE.read_text(encoding="utf-8").format(
        about=claims.about,
        summary=_summaries(groups),
        tolerances=TOLERANCES,
        claims=_overview(groups),
        effects=_effects(ordered),
    )
    parts = [opening.strip()]
    for result in ordered:
        parts += _section(result)
    if searches:
        parts.append("## Searches and ablations")
    for search in searches:
        parts += search_parts(search, claims.tables)
    records = tests.results.select(cell for result in results for cell in result.cells)
    return Page("Claims of the papers, tested on other encoders", parts, records)


def claims_by_size(
    results: Sequence[ClaimResult], sizes: Mapping[str, EncoderSize]
) -> dict[str, list[ClaimResult]]:
    """The claims by the smallest encoder that each was tested on, the largest models first.

    Args:
        results: The claims.
        sizes: The size of each measured encoder.

    Returns:
        The claims by the titles of their groups; the last group is that of claims
        without a score.
    """
    groups: dict[str, list[ClaimResult]] = {size.heading: [] for size in EncoderSize}
    groups[NO_SCORES] = []
    order = [*EncoderSize]
    for result in results:
        if result.outcome == ClaimOutcome.NOT_MEASURED:
            groups[NO_SCORES].append(result)
        else:
            tested = [sizes[base_name(encoder)] for encoder in result.claim.encoders]
            groups[max(tested, key=order.index).heading].append(result)
    return {title: group for title, group in groups.items() if group}


def _summaries(groups: Mapping[str, Sequence[ClaimResult]]) -> str:
    """A line for each group, and the claims that tests over seeds alone decide."""
    lines = [f"* {_summary(title, group)}" for title, group in groups.items()]
    results = [result for group in groups.values() for result in group]
    seeds_alone = [_link(result) for result in results if result.rests_on_seeds_alone]
    if seeds_alone:
        lines.append(
            f"\n{len(seeds_alone)} of those that are higher or lower rest on tests over seeds "
            "alone and say nothing of the choice of test pairs, since the similarities of their "
            f"seeds were not kept: {', '.join(seeds_alone)}. Without these they are undecided."
        )
    return "\n".join(lines)


def _summary(title: str, group: Sequence[ClaimResult]) -> str:
    """How many claims of a group are higher, lower and undecided here, and on which encoders."""
    by_task: Counter[ClaimOutcome] = Counter()
    for result in group:
        by_task.update(result.outcomes)
    return (
        f"**{title}** ({encoders_of(group)}): of {number_of(len(group), 'claim')} "
        f"{outcomes_in_words(group)}. By task, of {by_task.total()}: {_counts(by_task)}."
        f"{parts_of_sentences(group)}"
    )


def encoders_of(results: Sequence[ClaimResult]) -> str:
    """The encoders that claims were tested on, as code."""
    encoders = (encoder for result in results for encoder in result.claim.encoders)
    return ", ".join(f"`{name}`" for name in dict.fromkeys(encoders))


def outcomes_in_words(results: Sequence[ClaimResult]) -> str:
    """`2 higher, 6 lower, 4 undecided here`."""
    return f"{_counts(Counter(result.outcome for result in results))} here"


def _encoders(claim: Claim) -> str:
    """`bert-mini`, or both encoders where a claim compares two."""
    return " and ".join(f"`{name}`" for name in claim.encoders)


def parts_of_sentences(results: Sequence[ClaimResult]) -> str:
    """How many claims are parts of one sentence."""
    sentences: dict[str, list[ClaimResult]] = {}
    for result in results:
        if result.claim.part_of:
            sentences.setdefault(result.claim.part_of, []).append(result)
    text = ""
    for sentence, parts in sentences.items():
        be = "is part" if len(parts) == 1 else "are parts"
        count = number_of(len(parts), "claim")
        text += f" {count} ({outcomes_in_words(parts)}) {be} of {sentence}."
    return text


def _counts(counts: Counter[ClaimOutcome]) -> str:
    """`3 higher, 1 lower, 0 undecided, 2 not measured`; the last only where there are such."""
    outcomes = [
        outcome for outcome in ClaimOutcome if counts[outcome] or outcome in DECISIONS
    ]
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in outcomes)


def _overview(groups: Mapping[str, Sequence[ClaimResult]]) -> str:
    """A table of each group: on how many tasks a claim has each outcome, here and in the paper."""
    head = ["claim", "", "tested on", "published in", *ClaimOutcome]
    head += ["tasks", "in the paper", "here"]
    parts = []
    for title, group in groups.items():
        rows: list[list[object]] = []
        for result in group:
            claim = result.claim
            counts = [result.outcomes.count(outcome) for outcome in ClaimOutcome]
            in_paper = result.in_paper if claim.better.values else MISSING_NUMBER
            named = [_link(result), claim.claim, _encoders(claim), _place(claim.table)]
            rows.append(
                [
                    *named,
                    *counts,
                    len(result.findings),
                    in_paper,
                    f"**{result.outcome}**",
                ]
            )
        parts += [f"### {title}: {encoders_of(group)}", table(head, rows, words=4)]
    return "\n\n".join(parts)


def _effects(results: Sequence[ClaimResult]) -> str:
    """The difference of each claim on each task, as published and as measured."""
    labels = dict.fromkeys([*TASK_LABELS.values(), AVERAGE])
    for result in results:
        labels |= dict.fromkeys(finding.label for finding in result.findings)
    rows = []
    for result in results:
        findings = {finding.label: finding for finding in result.findings}
        if result.average is not None:
            findings[AVERAGE] = result.average
        effects = [
            _effect(findings[label]) if label in findings else "" for label in labels
        ]
        rows.append([_link(result), _encoders(result.claim), *effects])
    return table(["claim", "tested on", *map(escape, labels)], rows, words=2)


def _effect(finding: Finding) -> str:
    """`+1.25, +0.80`: the published difference, then the measured one."""
    claimed, decision = finding.claimed, finding.decision
    published = MISSING_NUMBER if claimed is None else signed(claimed)
    measured = (
        decision.outcome if decision.difference is None else signed(decision.difference)
    )
    return f"{published}, {measured}"


def _section(result: ClaimResult) -> list[str]:
    """One claim: what it says, where, under which protocol, of which methods; task by task."""
    claim = result.claim
    above, below = claim.methods
    tasks = ", ".join(dict.fromkeys(f"`{column.task}`" for column in claim.columns))
    metrics = dict.fromkeys(
        metric(c.metric or claim.table.metric) for c in claim.columns
    )
    words = filter(
        None, [*metrics, aggregation(claim.table.aggregation), f"on {tasks}"]
    )
    about = (
        f"{claim.claim} ({_place(claim.table)}, `{claim.table.cite}`: {escape(claim.better.label)} "
        f"above {escape(claim.worse.label)}; tested on {_encoders(claim)}: `{above}` above "
        f"`{below}`.) {'; '.join(words)}."
    )
    counts = (f"{result.outcomes.count(outcome)} {outcome}" for outcome in ClaimOutcome)
    in_paper = "the paper says it in words and prints no numbers"
    if claim.better.values:
        in_paper = f"the paper's own numbers have this order on {result.in_paper}"
    verdict = (
        f"**Here {result.outcome}**: of {number_of(len(result.findings), 'task')} "
        f"{', '.join(counts)}; {in_paper}."
    )
    notes = _notes(claim)
    rows = [_line(finding) for finding in result.all_findings]
    parts = [f"## {claim.id}", about, notes, verdict, table(FINDING_HEAD, rows)]
    return list(filter(None, parts))


def _line(finding: Finding) -> list[str]:
    """A task of a claim: the published numbers, the measured ones, and the decision."""
    decision, claimed = finding.decision, finding.claimed
    published = [MISSING_NUMBER, MISSING_NUMBER, MISSING_NUMBER]
    if finding.published is not None and claimed is not None:
        better, worse = finding.published
        published = [f"{better:.2f}", f"{worse:.2f}", signed(claimed)]
    interval = " to ".join(signed(bound) for bound in decision.interval or ())
    difference = "" if decision.difference is None else signed(decision.difference)
    measured = [
        *map(str, finding.sides),
        difference,
        interval,
        p_value(decision.p_holm),
    ]
    return [
        escape(finding.label),
        *published,
        *measured,
        str(decision.outcome),
        decision.basis,
    ]


def p_value(p: float | None) -> str:
    """Three decimals, which never round up to a p that is significant, or down to 0."""
    if p is None:
        return ""
    return "<0.001" if p < LEAST_P else f"{math.ceil(1000 * round(p, 9)) / 1000:.3f}"


def _notes(claim: Claim) -> str:
    """Why the claim is not fully tested, its note; rows of another text form or with other maps."""
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
    for row, method in zip((claim.better, claim.worse), claim.methods, strict=True):
        label = escape(row.label)
        published, tested = _chain(row.method or method), _chain(method)
        if published != tested:
            notes.append(f"{label} has {published} in the paper, and {tested} here.")
        other = [
            row.tasks[c.id]
            for c in claim.columns
            if row.tasks.get(c.id, c.task) != c.task
        ]
        if other:
            names = ", ".join(f"`{name}`" for name in other)
            notes.append(
                f"{label} is published on {names}, another text form than here."
            )
    return " ".join(notes)


def _chain(method: str) -> str:
    """The post-processors of a method in words."""
    chain = method.partition("+")[2]
    return f"`+{chain}`" if chain else "no post-processing"


def _link(result: ClaimResult) -> str:
    return f"[{result.claim.id}](#{result.claim.id})"


def _place(published: Table) -> str:
    return (
        f"[{escape(f'{published.paper}, {published.table}')}](papers/{published.id}.md)"
    )


def search_parts(search: Search, tables: Mapping[str, Table]) -> list[str]:
    """Title, caption and table of one search; its published table is one of `tables`."""
    how = (
        f"Each row is `harness train {search.recipe}` with its options; `before` and `best` "
        "are Spearman in points on the development set that the recipe names."
    )
    lines = []
    for row in search.rows:
        options = f"`{row.options}`" if row.options else ""
        trials = search.trials.get(search.command(row), ())
        numbers = [NOT_MEASURED, NOT_MEASURED, NOT_MEASURED, NOT_MEASURED, ""]
        if trials:
            numbers = [
                _spread([trial.before for trial in trials]),
                _spread([trial.best for trial in trials]),
                ", ".join(dict.fromkeys(f"{t.step:,} of {t.steps:,}" for t in trials)),
                f"{fmean(trial.loss for trial in trials):.3f}",
                str(len(trials)),
            ]
        lines.append([row.label, options, *numbers])
    head = [*SEARCH_HEAD]
    if search.table:
        head.append("published")
        for line, score in zip(lines, search.published(tables), strict=True):
            line.append("" if score is None else f"{score:.1f}")
    return [f"### {search.title}", f"{search.caption}\n\n{how}", table(head, lines)]


def _spread(scores: list[float]) -> str:
    """Mean and spread over seeds; one number where all seeds have it."""
    return f"{scores[0]:.2f}" if len(set(scores)) == 1 else str(value(scores))
