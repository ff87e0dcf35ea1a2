"""Searches and ablations as they stand in a page, beside what is published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from harness.report.markdown import escape, page, table
from harness.report.sentences import aggregation, metric, signed, tasks_counted
from harness.results.claims import (
    AVERAGE,
    Claim,
    ClaimOutcome,
    ClaimResult,
    Claims,
    ClaimTests,
    Decision,
    Finding,
    scored,
)
from harness.results.index import NOT_MEASURED, value
from harness.results.protocols import LABELS
from harness.results.published import Table
from harness.results.questions import Search, SearchRow
from harness.results.verdict import TOLERANCES

SEARCH_HEAD = ("", "options", "before", "best", "at step", "last loss", "seeds")


def search_parts(search: Search, tables: Mapping[str, Table]) -> list[str]:
    """Title, caption and table of one search; its published table is one of `tables`."""
    how = f"Each row is `harness train {search.recipe}` with its options; `before` and `best` "
    how += "are Spearman in points on the development set that the recipe names."
    head, lines = [*SEARCH_HEAD], [_line(search, row) for row in search.rows]
    if search.table:
        head.append("published")
        scores = search.published(tables)
        for line, score in zip(lines, scores, strict=True):
            line.append("" if score is None else f"{score:.1f}")
    return [f"### {search.title}", f"{search.caption}\n\n{how}", table(head, lines)]


def _line(search: Search, row: SearchRow) -> list[str]:
    options, trials = f"`{row.options}`" if row.options else "", search.trials_of(row)
    if not trials:
        return [row.label, options, *[NOT_MEASURED] * 4, ""]
    return [
        row.label,
        options,
        _spread([trial.before for trial in trials]),
        _spread([trial.best for trial in trials]),
        ", ".join(f"{trial.step:,} of {trial.steps:,}" for trial in trials),
        f"{fmean(trial.loss for trial in trials):.3f}",
        str(len(trials)),
    ]


def _spread(scores: list[float]) -> str:
    """Mean and spread over seeds; one number where all seeds have it."""
    return f"{scores[0]:.2f}" if len(set(scores)) == 1 else str(value(scores))


PAGE = "replication-in-miniature.md"
TEMPLATE = Path(__file__).with_suffix(".md")  # the page's opening, with its rules
NO_NUMBER = "–"
HEAD = (
    *("task", "published: better", "worse", "difference"),
    *("measured: better", "worse", "difference", "95 %"),
    *("verdict", "decided by"),
)


def claims_page(claims: Claims, tests: ClaimTests, searches: Sequence[Search] = ()) -> str:
    """Summary, table of claims, effect sizes, orders of rows, one section a claim, searches."""
    results = [tests.test(claim) for claim in claims.resolved]
    opening = TEMPLATE.read_text(encoding="utf-8").format(
        about=claims.about,
        summary="\n\n".join(summary(results)),
        tolerances=TOLERANCES,
        claims=_overview(results),
        effects=_effects(results),
        orders=_orders(claims, tests),
    )
    parts = [opening.strip()]
    for result in results:
        parts += _section(result)
    if searches:
        parts.append("## Searches and ablations")
    for search in searches:
        parts += search_parts(search, claims.tables)
    return page("Replication in miniature", parts, tests.results.digest())


def summary(results: Sequence[ClaimResult]) -> list[str]:
    """Counts of claims by outcome, then the claims of each."""
    whole = Counter(result.outcome for result in results)
    by_task = Counter(outcome for result in results for outcome in result.outcomes)
    counts = (
        f"**Of {len(results)} claims {_counts(whole)}.**{caveats(results)} "
        f"Claim by task, of {by_task.total()}: {_counts(by_task)}."
    )
    linked = {
        outcome: ", ".join(_link(result) for result in results if result.outcome == outcome)
        for outcome in ClaimOutcome
    }
    return [
        counts,
        "\n".join(f"- {outcome}: {links}" for outcome, links in linked.items() if links),
    ]


def caveats(results: Sequence[ClaimResult]) -> str:
    """How many claims rest on a training that does not work, or are parts of one sentence."""
    of: dict[str, Counter[ClaimOutcome]] = {}
    for result in results:
        claim = result.claim
        for fact, what in (
            (claim.failed_training, "rest on a training that does not work here"),
            (claim.part_of, f"are parts of {claim.part_of}"),
        ):
            if fact:
                of.setdefault(what, Counter())[result.outcome] += 1
    return "".join(f" {n.total()} claims ({_counts(n, n)}) {what}." for what, n in of.items())


def _counts(
    counts: Counter[ClaimOutcome], of: Container[ClaimOutcome] = tuple(ClaimOutcome)
) -> str:
    """`3 hold, 1 do not hold, 0 undecided, 2 not measured`, or only some of the outcomes."""
    plural = {ClaimOutcome.HOLDS: "hold", ClaimOutcome.FAILS: "do not hold"}
    return ", ".join(
        f"{counts[outcome]} {plural.get(outcome, outcome)}"
        for outcome in ClaimOutcome
        if outcome in of
    )


def _overview(results: Sequence[ClaimResult]) -> str:
    head = ["claim", "", "published in", *ClaimOutcome, "tasks", "in the paper", "verdict"]
    rows = [
        [
            _link(result),
            result.claim.claim,
            _place(result.claim.table),
            *(result.outcomes.count(outcome) for outcome in ClaimOutcome),
            len(result.findings),
            result.in_paper if result.claim.better.values else NO_NUMBER,
            f"**{result.outcome}**",
        ]
        for result in results
    ]
    return table(head, rows, words=3)


def _effects(results: Sequence[ClaimResult]) -> str:
    """Published and measured differences, claims by tasks."""
    labels = [*LABELS.values(), AVERAGE]
    findings = [finding for result in results for finding in result.findings]
    labels += dict.fromkeys(f.label for f in findings if f.label not in labels)
    rows = []
    for result in results:
        own = {finding.label: finding for finding in result.findings}
        if result.average:
            own[AVERAGE] = result.average
        rows.append([_link(result), *(_effect(own.get(label)) for label in labels)])
    return table(["claim", *map(escape, labels)], rows)


def _effect(finding: Finding | None) -> str:
    if finding is None:
        return ""
    measured = _difference(finding.decision) or finding.decision.outcome
    return f"{_claimed(finding)}, {measured}"


def _claimed(finding: Finding) -> str:
    """The published difference; a dash where the paper prints no numbers."""
    return NO_NUMBER if finding.claimed is None else signed(finding.claimed)


def _difference(decision: Decision) -> str:
    return "" if decision.difference is None else signed(decision.difference)


def _orders(claims: Claims, tests: ClaimTests) -> str:
    tables = [claims.tables[name] for name in claims.rows]
    labels = list(dict.fromkeys(column.label for table in tables for column in scored(table)))
    labels = sorted(labels, key=[*LABELS.values(), *labels].index)
    rows = []
    for published in tables:
        orders = {c.label: tests.row_order(claims, published, c) for c in scored(published)}
        stand_ins = len(claims.rows[published.id])
        rows.append([_place(published), stand_ins, *(orders.get(label, "") for label in labels)])
    return table(["table", "rows", *map(escape, labels)], rows)


def _section(result: ClaimResult) -> list[str]:
    """One claim: what it says, where, of which methods, then task by task."""
    claim, findings = result.claim, result.findings
    above, below = claim.methods
    about = (
        f"{claim.claim} ({_place(claim.table)}, `{claim.table.cite}`: {escape(claim.better.label)} "
        f"above {escape(claim.worse.label)}; here `{above}` above `{below}`.) {_protocol(claim)}"
    )
    counts = (f"{result.outcomes.count(outcome)} {outcome}" for outcome in ClaimOutcome)
    in_paper = "the paper says it in words and prints no numbers"
    if claim.better.values:
        in_paper = f"the paper's own numbers have this order on {result.in_paper}"
    verdict = (
        f"**{str(result.outcome).capitalize()}**: of {tasks_counted(len(findings))} "
        f"{', '.join(counts)}; {in_paper}."
    )
    rows = [_replication_line(finding) for finding in (*findings, *filter(None, [result.average]))]
    return [f"## {claim.id}", about, *_notes(claim), verdict, table(HEAD, rows)]


def _replication_line(finding: Finding) -> list[str]:
    decision, (above, below) = finding.decision, finding.sides
    interval = decision.interval
    return [
        escape(finding.label),
        *(f"{points:.2f}" for points in finding.published or ()),
        *([] if finding.published else [NO_NUMBER, NO_NUMBER]),
        _claimed(finding),
        str(above),
        str(below),
        _difference(decision),
        f"{signed(interval[0])} to {signed(interval[1])}" if interval else "",
        str(decision.outcome),
        decision.by,
    ]


def _notes(claim: Claim) -> list[str]:
    """Why the claim is not fully tested, its note; rows of another text form or with other maps."""
    part = f"This is part of {claim.part_of}." if claim.part_of else ""
    notes = [*filter(None, (claim.failed_training, part, claim.note))]
    for row, method in zip((claim.better, claim.worse), claim.methods, strict=True):
        published, here = (_post_processing(name or method) for name in (row.method, method))
        if published != here:
            notes.append(f"{escape(row.label)} has {published} in the paper, and {here} here.")
        other = [c for c in claim.columns if row.tasks.get(c.id, c.task) != c.task]
        if other:
            names = ", ".join(f"`{row.tasks[c.id]}`" for c in other)
            notes.append(
                f"{escape(row.label)} is published on {names}, another text form than here."
            )
    return [" ".join(notes)] if notes else []


def _post_processing(method: str) -> str:
    """The post-processors of a method and what they are fitted on."""
    chain = method.partition("+")[2]
    return f"`+{chain}`" if chain else "no post-processing"


def _protocol(claim: Claim) -> str:
    """Metric, aggregation and tasks of the published table, in words."""
    tasks = ", ".join(dict.fromkeys(f"`{column.task}`" for column in claim.columns))
    metrics = dict.fromkeys(metric(c.metric or claim.table.metric) for c in claim.columns)
    words = filter(None, [*metrics, aggregation(claim.table.aggregation), f"on {tasks}"])
    return f"{'; '.join(words)}."


def _link(result: ClaimResult) -> str:
    """The claim's id, with a link to its section."""
    return f"[{result.claim.id}](#{result.claim.id})"


def _place(published: Table) -> str:
    """The paper's table, with a link to its page."""
    return f"[{escape(f'{published.paper}, {published.table}')}](papers/{published.id}.md)"
