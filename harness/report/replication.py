"""The page of claims, searches and ablations, with the numbers that are published for them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from harness.report.markdown import Page, escape, table
from harness.report.sentences import aggregation, metric, number_of, signed
from harness.results.claim_tests import AVERAGE, ClaimOutcome, ClaimResult, ClaimTests, Finding
from harness.results.claims import Claim, Claims
from harness.results.index import NOT_MEASURED, value
from harness.results.published import Table
from harness.results.questions import Search
from harness.results.scorings import TASK_LABELS
from harness.results.verdict import TOLERANCES

CLAIMS_PAGE = "replication-in-miniature.md"
OPENING_FILE = Path(__file__).with_suffix(".md")  # the page's opening, with its rules
MISSING_NUMBER = "–"
TESTS_OF_NO_PAPER = "tests on encoders of which no paper claims anything"
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
    "verdict",
    "decided by",
)
SEARCH_HEAD = ("", "options", "before", "best", "at step", "last loss", "seeds")


def claims_page(claims: Claims, tests: ClaimTests, searches: Sequence[Search] = ()) -> Page:
    """Summary, table of claims, effect sizes, one section a claim, searches."""
    results = [tests.test(claim) for claim in claims.resolved]
    opening = OPENING_FILE.read_text(encoding="utf-8").format(
        about=claims.about,
        summary=_summary(results),
        tolerances=TOLERANCES,
        claims=_overview(results),
        effects=_effects(results),
    )
    parts = [opening.strip()]
    for result in results:
        parts += _section(result)
    if searches:
        parts.append("## Searches and ablations")
    for search in searches:
        parts += search_parts(search, claims.tables)
    records = tests.results.select(cell for result in results for cell in result.cells)
    return Page("Replication in miniature", parts, records)


def _summary(results: Sequence[ClaimResult]) -> str:
    """How many claims hold, do not hold and are undecided, and the links to them."""
    paragraphs = []
    for group in (claims_of_papers(results), claims_of_no_paper(results)):
        if group:
            outcomes = _counts(Counter(result.outcome for result in group))
            paragraphs.append(
                f"**Of {_group_in_words(group)} {outcomes}.**"
                f"{caveats(group)}{outcomes_by_encoder(group)} {_task_counts(group)}"
            )
    lines = []
    for outcome in ClaimOutcome:
        links = [_link(result) for result in results if result.outcome == outcome]
        if links:
            lines.append(f"- {outcome}: {', '.join(links)}")
    seeds_alone = [_link(result) for result in results if result.rests_on_seeds_alone]
    if seeds_alone:
        paragraphs.append(
            f"{len(seeds_alone)} of the decided ones rest on tests over seeds alone and say "
            "nothing of the choice of test pairs, since the similarities of their seeds were not "
            f"kept: {', '.join(seeds_alone)}. Without these tests they are undecided."
        )
    return "\n\n".join([*paragraphs, "\n".join(lines)])


def claims_of_papers(results: Sequence[ClaimResult]) -> list[ClaimResult]:
    """The claims that a paper makes of the encoder on which they are tested."""
    return [result for result in results if result.claim.of_paper]


def claims_of_no_paper(results: Sequence[ClaimResult]) -> list[ClaimResult]:
    """The tests on an encoder of which no paper claims anything."""
    return [result for result in results if not result.claim.of_paper]


def _group_in_words(group: Sequence[ClaimResult]) -> str:
    """`32 claims`, or `11 tests on encoders of which no paper claims anything`."""
    noun = "claims" if group[0].claim.of_paper else TESTS_OF_NO_PAPER
    return f"{len(group)} {noun}"


def _task_counts(group: Sequence[ClaimResult]) -> str:
    by_task: Counter[ClaimOutcome] = Counter()
    for result in group:
        by_task.update(result.outcomes)
    return f"Claim by task, of {by_task.total()}: {_counts(by_task)}."


def outcomes_by_encoder(results: Sequence[ClaimResult]) -> str:
    """On which encoders the claims were tested, each with its outcomes."""
    counts: dict[str, Counter[ClaimOutcome]] = {}
    for result in results:
        counts.setdefault(_encoders(result.claim), Counter())[result.outcome] += 1
    tested = (f"{encoders} ({_counts(n, n)})" for encoders, n in counts.items())
    return f" Tested on {'; '.join(tested)}."


def _encoders(claim: Claim) -> str:
    """`bert-mini`, or both encoders where a claim compares two."""
    return " and ".join(f"`{name}`" for name in claim.encoders)


def caveats(results: Sequence[ClaimResult]) -> str:
    """How many claims are parts of one sentence."""
    counts: dict[str, Counter[ClaimOutcome]] = {}
    for result in results:
        if result.claim.part_of:
            counts.setdefault(result.claim.part_of, Counter())[result.outcome] += 1
    text = ""
    for sentence, outcomes in counts.items():
        number, words = outcomes.total(), _counts(outcomes, outcomes)
        text += f" {number} claims ({words}) are parts of {sentence}."
    return text


def _counts(
    counts: Counter[ClaimOutcome], shown: Container[ClaimOutcome] = tuple(ClaimOutcome)
) -> str:
    """`3 hold, 1 do not hold, 0 undecided, 2 not measured`, or only some of the outcomes."""
    plural = {ClaimOutcome.HOLDS: "hold", ClaimOutcome.FAILS: "do not hold"}
    outcomes = [outcome for outcome in ClaimOutcome if outcome in shown]
    return ", ".join(f"{counts[outcome]} {plural.get(outcome, outcome)}" for outcome in outcomes)


def _overview(results: Sequence[ClaimResult]) -> str:
    """A line for each claim: on how many tasks it has each outcome, here and in the paper."""
    head = ["claim", "", "tested on", "published in", *ClaimOutcome]
    head += ["tasks", "in the paper", "verdict"]
    rows: list[list[object]] = []
    for result in results:
        claim = result.claim
        counts = [result.outcomes.count(outcome) for outcome in ClaimOutcome]
        in_paper = result.in_paper if claim.better.values else MISSING_NUMBER
        named = [_link(result), claim.claim, _encoders(claim), _place(claim.table)]
        rows.append([*named, *counts, len(result.findings), in_paper, f"**{result.outcome}**"])
    return table(head, rows, words=4)


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
        effects = [_effect(findings[label]) if label in findings else "" for label in labels]
        rows.append([_link(result), *effects])
    return table(["claim", *map(escape, labels)], rows)


def _effect(finding: Finding) -> str:
    """`+1.25, +0.80`: the published difference, then the measured one."""
    claimed, decision = finding.claimed, finding.decision
    published = MISSING_NUMBER if claimed is None else signed(claimed)
    measured = decision.outcome if decision.difference is None else signed(decision.difference)
    return f"{published}, {measured}"


def _section(result: ClaimResult) -> list[str]:
    """One claim: what it says, where, under which protocol, of which methods; task by task."""
    claim = result.claim
    above, below = claim.methods
    tasks = ", ".join(dict.fromkeys(f"`{column.task}`" for column in claim.columns))
    metrics = dict.fromkeys(metric(c.metric or claim.table.metric) for c in claim.columns)
    words = filter(None, [*metrics, aggregation(claim.table.aggregation), f"on {tasks}"])
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
        f"**{str(result.outcome).capitalize()}**: of {number_of(len(result.findings), 'task')} "
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
    measured = [*map(str, finding.sides), difference, interval, p_value(decision.p_holm)]
    return [escape(finding.label), *published, *measured, str(decision.outcome), decision.basis]


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
        notes.append("It claims every column, so it holds only if all hold.")
    if claim.note:
        notes.append(claim.note)
    for row, method in zip((claim.better, claim.worse), claim.methods, strict=True):
        label = escape(row.label)
        published, tested = _chain(row.method or method), _chain(method)
        if published != tested:
            notes.append(f"{label} has {published} in the paper, and {tested} here.")
        other = [row.tasks[c.id] for c in claim.columns if row.tasks.get(c.id, c.task) != c.task]
        if other:
            names = ", ".join(f"`{name}`" for name in other)
            notes.append(f"{label} is published on {names}, another text form than here.")
    return " ".join(notes)


def _chain(method: str) -> str:
    """The post-processors of a method in words."""
    chain = method.partition("+")[2]
    return f"`+{chain}`" if chain else "no post-processing"


def _link(result: ClaimResult) -> str:
    return f"[{result.claim.id}](#{result.claim.id})"


def _place(published: Table) -> str:
    return f"[{escape(f'{published.paper}, {published.table}')}](papers/{published.id}.md)"


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
