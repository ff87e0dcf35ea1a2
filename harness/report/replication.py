"""The page that sets the papers' claims against a small model: which hold, which not, by how much.

Claims are data (`results/questions/claims.toml`), published numbers too; every word and number of
the page is computed from them and from the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.report.markdown import page, table
from harness.report.searches import Search
from harness.report.sentences import aggregation, metric
from harness.results.claim_tests import (
    AVERAGE,
    Decision,
    Finding,
    Judge,
    Judgement,
    Order,
    Word,
    judged,
    order,
)
from harness.results.claims import Claim, Claims, address, points, scored
from harness.results.protocols import LABELS
from harness.results.published import Column, Table
from harness.results.verdict import TOLERANCES

PAGE = "replication-in-miniature.md"
HEAD = (
    *("task", "published: better", "worse", "difference"),
    *("measured: better", "worse", "difference", "95 %"),
    *("verdict", "decided by"),
)
RULES = (
    "A claim is that one row of a published table lies above another. Methods of a small model "
    "stand in for the rows, and the same difference is measured under that table's own protocol "
    "(text form, metric, aggregation, split). All differences are in points (x100).\n\n"
    "- On one task the claim `holds` if the measured difference is above 0, and `does not hold` if "
    "it is below. It is `undecided` if the 95 % interval of the difference contains 0, or a row "
    f"that depends on a seed has fewer than {TOLERANCES.seeds} of them. `not measured` is a hole, "
    "never a zero.\n"
    "- The interval is Welch's over seeds where either row depends on one (decided by seeds; it "
    "says nothing of the choice of test pairs). Between two rows without seeds it is the paired "
    "bootstrap over test pairs where one is stored, as it is for averages of neighbouring rows "
    "(by items). Elsewhere there is none, and the "
    f"sign of a difference of more than {TOLERANCES.match:g} decides (by sign); less than that may "
    "turn on another platform and is undecided.\n"
    "- A whole claim holds if it holds on more than half of its tasks, does not hold if the "
    "opposite is true on more than half, is not measured if it is on no task, and is undecided "
    "otherwise. Holes count as tasks.\n"
    "- The average counts as none, and exists only where all its cells do; the published one is "
    "that of the printed columns."
)
EFFECTS = (
    "Each cell: the published difference, then the measured one. Rows of different tables stand "
    "under different protocols and are not comparable with each other."
)
ORDERS = (
    "Of all rows of a published table that have a stand-in and were measured: Kendall's tau of the "
    "published and the measured order, and how many pairs of rows stand in the published order."
)


def claims_page(claims: Claims, judge: Judge, searches: Sequence[Search] = ()) -> str:
    """Summary, table of claims, effect sizes, orders of rows, one section a claim, searches."""
    found = judged(claims, judge)
    parts = [claims.about, *summary(found), RULES, "## Claims", _overview(found)]
    parts += ["## Effect sizes", EFFECTS, _effects(found)]
    parts += ["## Order of the rows", ORDERS, _orders(claims, judge)]
    for judgement in found:
        parts += _section(judgement)
    if searches:
        parts += [
            "## Searches and ablations",
            *(p for one in searches for p in one.parts(claims.tables)),
        ]
    return page("Replication in miniature", parts, judge.results.digest())


def summary(found: Sequence[Judgement]) -> list[str]:
    """How many claims hold and how many do not, then which."""
    whole = Counter(judgement.word for judgement in found)
    single = Counter(word for judgement in found for word in judgement.words)
    lines = [
        f"**Of {len(found)} claims {_counts(whole)}.** "
        f"Claim by task, of {single.total()}: {_counts(single)}."
    ]
    named = {
        word: ", ".join(f"[{j.claim.id}](#{j.claim.id})" for j in found if j.word == word)
        for word in Word
    }
    listed = [f"- {word}: {names}" for word, names in named.items() if names]
    return [*lines, "\n".join(listed)]


def _counts(words: Counter[Word]) -> str:
    """`3 hold, 1 do not hold, 0 undecided, 2 not measured`."""
    plural = {Word.HOLDS: "hold", Word.FAILS: "do not hold"}
    return ", ".join(f"{words[word]} {plural.get(word, word)}" for word in Word)


def in_paper(findings: Sequence[Finding]) -> int:
    """On how many tasks the paper's own numbers have the claimed order."""
    return sum(finding.claimed > 0 for finding in findings)


def _overview(found: Sequence[Judgement]) -> str:
    head = ["claim", "", "published in", *Word, "tasks", "in the paper", "verdict"]
    rows = [
        [
            f"[{j.claim.id}](#{j.claim.id})",
            j.claim.claim,
            _place(j.claim.table),
            *(j.words.count(word) for word in Word),
            len(j.findings),
            in_paper(j.findings),
            f"**{j.word}**",
        ]
        for j in found
    ]
    return table(head, rows, words=3)


def _effects(found: Sequence[Judgement]) -> str:
    """Published and measured differences, claims by tasks."""
    labels = [*LABELS.values(), AVERAGE]
    labels += dict.fromkeys(f.label for j in found for f in j.findings if f.label not in labels)
    rows = []
    for judgement in found:
        own = {finding.label: finding for finding in judgement.findings}
        if judgement.average:
            own[AVERAGE] = judgement.average
        cells = [_effect(own[label]) if label in own else "" for label in labels]
        rows.append([f"[{judgement.claim.id}](#{judgement.claim.id})", *cells])
    return table(["claim", *labels], rows)


def _effect(finding: Finding) -> str:
    return f"{signed(finding.claimed)}, {_measured(finding.decision)}"


def _measured(decision: Decision) -> str:
    return str(decision.word) if decision.difference is None else signed(decision.difference)


def _orders(claims: Claims, judge: Judge) -> str:
    tables = [claims.tables[name] for name in claims.rows]
    labels = list(dict.fromkeys(c.label for one in tables for c in scored(one)))
    labels = sorted(labels, key=[*LABELS.values(), *labels].index)
    rows = []
    for one in tables:
        stand_ins = claims.rows[one.id]
        found = {c.label: str(_order(one, c, stand_ins, judge)) for c in scored(one)}
        rows.append([_place(one), len(stand_ins), *(found.get(label, "") for label in labels)])
    return table(["table", "rows", *labels], rows)


def _order(published: Table, column: Column, stand_ins: Mapping[str, str], judge: Judge) -> Order:
    task, path = address(published, column)
    printed, ours = [], []
    for row in published.rows:
        if row.id not in stand_ins or column.id not in row.values:
            continue
        mean = judge.side(stand_ins[row.id], task, path).value.mean
        if mean is not None:
            printed.append(points(published, row, column))
            ours.append(mean)
    return order(printed, ours)


def _section(judgement: Judgement) -> list[str]:
    """One claim: what it says, where, of which methods, then task by task."""
    claim, findings = judgement.claim, judgement.findings
    above, below = claim.methods
    about = (
        f"{claim.claim} ({_place(claim.table)}, `{claim.table.cite}`: {claim.better.label} above "
        f"{claim.worse.label}; here `{above}` above `{below}`.) {_protocol(claim)}"
    )
    counts = (f"{judgement.words.count(word)} {word}" for word in Word)
    verdict = (
        f"**{str(judgement.word).capitalize()}**: of {_tasks(len(findings))} {', '.join(counts)}; "
        f"the paper's own numbers have this order on {in_paper(findings)}."
    )
    rows = [_line(finding) for finding in (*findings, *filter(None, [judgement.average]))]
    shown = table(HEAD, rows)
    return [f"## {claim.id}", about, *_notes(claim), verdict, shown]


def _line(finding: Finding) -> list[str]:
    decision, (above, below) = finding.decision, finding.sides
    interval = decision.interval
    return [
        finding.label,
        *(f"{one:.2f}" for one in finding.published),
        signed(finding.claimed),
        str(above),
        str(below),
        "" if decision.difference is None else signed(decision.difference),
        f"{signed(interval[0])} to {signed(interval[1])}" if interval else "",
        str(decision.word),
        decision.by,
    ]


def _notes(claim: Claim) -> list[str]:
    """The claim's own note, and which of its published rows belong to another text form."""
    notes = [claim.note] if claim.note else []
    for row in (claim.better, claim.worse):
        other = [c for c in claim.columns if row.tasks.get(c.id, c.task) != c.task]
        if other:
            names = ", ".join(f"`{row.tasks[c.id]}`" for c in other)
            notes.append(f"{row.label} is published on {names}, another text form than here.")
    return [" ".join(notes)] if notes else []


def _protocol(claim: Claim) -> str:
    """Metric, aggregation and tasks of the published table, in words."""
    tasks = ", ".join(dict.fromkeys(f"`{column.task}`" for column in claim.columns))
    metrics = dict.fromkeys(metric(c.metric or claim.table.metric) for c in claim.columns)
    words = filter(None, [*metrics, aggregation(claim.table.aggregation), f"on {tasks}"])
    return f"{'; '.join(words)}."


def _place(published: Table) -> str:
    """The paper's table, with a link to its page."""
    return f"[{published.paper}, {published.table}](papers/{published.id}.md)"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def signed(number: float) -> str:
    """With its sign and two decimals; no -0.00."""
    return f"{round(number, 2) + 0.0:+.2f}"
