"""The page of claims: every difference, interval, outcome and count, and the searches below."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import others
from pages import Report, Table, content, markdown
from papers import SCORES, in_points, path_of
from scores import (
    Decision,
    Fields,
    Inputs,
    Records,
    Side,
    averaged,
    corrected,
    decide,
    number,
    side,
)

OUTCOMES = ("holds", "does not hold", "undecided", "not measured")
APART = "tests on encoders of which no paper claims anything"
Score = tuple[str, tuple[str, ...]]
P_COLUMN = 8  # of the table of a claim


@dataclass(frozen=True)
class Line:
    """A claim on one column, or on their average: what is printed, both sides, the outcome."""

    label: str
    printed: tuple[float, float] | None
    sides: tuple[Side, Side]
    decision: Decision

    @property
    def claimed(self) -> float | None:
        """The published difference."""
        return None if self.printed is None else self.printed[0] - self.printed[1]


@dataclass(frozen=True)
class Claim:
    """A claim with its lines; the last is the average where there is one.

    `caveats` say which sentence it is a part of; `encoders` on what it
    was tested, and `of_paper` whether a paper claims it of such an encoder; of one of `every` part
    all parts have to hold.
    """

    id: str
    place: str
    lines: Sequence[Line]
    averages: bool
    caveats: Sequence[str]
    encoders: str
    of_paper: bool
    every: bool

    @property
    def tasks(self) -> Sequence[Line]:
        """Its lines but the average."""
        return self.lines[:-1] if self.averages else self.lines

    @property
    def counts(self) -> dict[str, int]:
        """How many tasks have each outcome."""
        outcomes = [line.decision.outcome for line in self.tasks]
        return {outcome: outcomes.count(outcome) for outcome in OUTCOMES}

    @property
    def outcome(self) -> str:
        """What more than half of the tasks say; holes count as tasks."""
        if self.counts["not measured"] == len(self.tasks):
            return "not measured"
        if self.every and self.counts["does not hold"]:
            return "does not hold"
        if self.every:
            return "holds" if self.counts["holds"] == len(self.tasks) else "undecided"
        half = len(self.tasks) / 2
        return next((word for word in OUTCOMES[:2] if self.counts[word] > half), "undecided")

    @property
    def in_paper(self) -> str:
        """On how many tasks the printed numbers have the claimed order."""
        claimed = [line.claimed for line in self.tasks]
        if None in claimed:
            return "–"
        return str(sum(difference > 0 for difference in claimed if difference is not None))


def page(inputs: Inputs, report: Report) -> None:
    """The whole page."""
    results, tables = inputs.results, inputs.tables
    path = results / "tables" / "replication-in-miniature.md"
    claims = all_claims(inputs)
    shown = list(markdown(path))
    _summary(path.read_text(encoding="utf-8"), claims, report)
    for claim in claims:
        [own] = [table for table in shown if table.headings[-1] == claim.id]
        _section(own, claim, report)
    _overview(next(t for t in shown if t.headings[-1] == "Claims"), claims, report)
    _effects(next(t for t in shown if t.headings[-1] == "Effect sizes"), claims, report)
    searches = [table for table in shown if "Searches and ablations" in table.headings]
    others.searches(searches, results, tables, report)
    report.equal("claims: tables", len(shown), 2 + len(claims) + len(searches))


def all_claims(inputs: Inputs) -> list[Claim]:
    """Every claim, tested anew."""
    data = content(inputs.results / "questions" / "claims.toml")
    stored = content(inputs.results / "records" / "claims.json")["intervals"]
    return [_claim(entry, data, inputs.tables, stored, inputs.records) for entry in data["claim"]]


def _columns(table: Fields, chosen: Sequence[str] | None) -> list[Fields]:
    tried = [c for c in table["columns"] if chosen is None or c["id"] in chosen]
    return [c for c in tried if c.get("task") and c.get("metric", table["metric"]) in SCORES]


def _score(table: Fields, column: Fields) -> Score:
    way = column.get("aggregation") or table.get("aggregation")
    return column["task"], path_of(column.get("metric", table["metric"]), way)


def _claim(
    entry: Fields, data: Fields, tables: Fields, stored: Sequence[Fields], records: Records
) -> Claim:
    stand_ins = data["rows"]
    table = tables[entry["table"]]
    rows = {row["id"]: row for row in table["row"]}
    names = entry["better"], entry["worse"]
    methods = entry.get("methods") or [stand_ins[entry["table"]][name] for name in names]
    columns = _columns(table, entry.get("columns"))
    scores = [_score(table, column) for column in columns]
    lines = []
    for column, score in zip(columns, scores, strict=True):
        printed = None
        if {*names} <= {*rows}:
            above, below = (float(in_points(table, rows[name], column)) for name in names)
            printed = above, below
        lines.append(_line(column["label"], printed, methods, [score], stored, records))
    decisions = corrected([line.decision for line in lines])
    lines = [replace(line, decision=one) for line, one in zip(lines, decisions, strict=True)]
    metrics = {column.get("metric", table["metric"]) for column in columns}
    averages = len(columns) > 1 and len(metrics) == 1
    if averages:
        known = [line.printed for line in lines if line.printed]
        means = (fmean(a for a, _ in known), fmean(b for _, b in known)) if known else None
        lines.append(_line("Avg.", means, methods, scores, stored, records))
    caveats = [f"are parts of {entry['part_of']}"] if "part_of" in entry else []
    names = dict.fromkeys(method.split(".")[0] for method in methods)
    return Claim(
        id=entry["id"],
        place=f"{table['paper']}, {table['table']}",
        lines=lines,
        averages=averages,
        caveats=caveats,
        encoders=" and ".join(f"`{name}`" for name in names),
        of_paper=entry.get("of_paper", True),
        every=bool(entry.get("conjunction")),
    )


def _line(
    label: str,
    printed: tuple[float, float] | None,
    methods: Sequence[str],
    scores: Sequence[Score],
    stored: Sequence[Fields],
    records: Records,
) -> Line:
    above, below = (averaged([side(records, m, *score) for score in scores]) for m in methods)
    on = [[task, list(path)] for task, path in scores]
    wanted = {"better": methods[0], "worse": methods[1], "scores": on}
    known = [one for one in stored if one["contrast"] == wanted]
    decision = decide(above, below, known[0] if known else None)
    return Line(label, printed, (above, below), decision)


def _counted(counts: Mapping[str, int]) -> str:
    plural = {"holds": "hold", "does not hold": "do not hold"}
    return ", ".join(f"{count} {plural.get(word, word)}" for word, count in counts.items())


def caveats_of(claims: Sequence[Claim]) -> str:
    """How many claims have each caveat, by outcome."""
    said = ""
    for what in dict.fromkeys(caveat for claim in claims for caveat in claim.caveats):
        own = [claim.outcome for claim in claims if what in claim.caveats]
        some = {word: own.count(word) for word in OUTCOMES if word in own}
        said += f" {len(own)} claims ({_counted(some)}) {what}."
    return said


def by_kind(claims: Sequence[Claim]) -> dict[str, list[Claim]]:
    """What papers claim, and what none claims of the encoder that was tested."""
    kinds = {
        "claims": [claim for claim in claims if claim.of_paper],
        APART: [claim for claim in claims if not claim.of_paper],
    }
    return {what: group for what, group in kinds.items() if group}


def encoders_of(claims: Sequence[Claim]) -> str:
    """On which encoders the claims were tested, by outcome."""
    said = []
    for encoders in dict.fromkeys(claim.encoders for claim in claims):
        own = [claim.outcome for claim in claims if claim.encoders == encoders]
        some = {word: own.count(word) for word in OUTCOMES if word in own}
        said.append(f"{encoders} ({_counted(some)})")
    return f" Tested on {'; '.join(said)}."


def _summary(text: str, claims: Sequence[Claim], report: Report) -> None:
    wanted = []
    for what, group in by_kind(claims).items():
        whole = {word: sum(claim.outcome == word for claim in group) for word in OUTCOMES}
        tasks = {word: sum(claim.counts[word] for claim in group) for word in OUTCOMES}
        said = f"**Of {len(group)} {what} {_counted(whole)}.**"
        said += f"{caveats_of(group)}{encoders_of(group)} "
        wanted.append(f"{said}Claim by task, of {sum(tasks.values())}: {_counted(tasks)}.")
    printed = [line for line in text.splitlines() if line.startswith("**Of ")]
    report.equal("claims: summaries", len(printed), len(wanted))
    for line, due in zip(printed, wanted, strict=False):
        report.expect("claims: summary", line, due)
    for word in OUTCOMES:
        line = next((li for li in text.splitlines() if li.startswith(f"- {word}: [")), "")
        ids = [claim.id for claim in claims if claim.outcome == word]
        report.equal(f"claims: {word}", re.findall(r"\(#(.*?)\)", line), ids)
    for claim in claims:
        own = text[text.index(f"\n## {claim.id}\n") :]
        said = next(line for line in own.splitlines() if line.startswith("**"))
        counts = ", ".join(f"{claim.counts[word]} {word}" for word in OUTCOMES)
        order = f"the paper's own numbers have this order on {claim.in_paper}"
        if claim.in_paper == "–":
            order = "the paper says it in words and prints no numbers"
        tasks_of = "1 task" if len(claim.tasks) == 1 else f"{len(claim.tasks)} tasks"
        due = f"**{claim.outcome.capitalize()}**: of {tasks_of} {counts}; {order}."
        report.expect(f"claims: {claim.id}: verdict", said, due)


def _signed(value: float) -> str:
    return f"{value + 0.0:+.9f}"


def _p(p: float | None) -> str:
    """Three decimals, rounded up."""
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{math.ceil(round(p, 9) * 1000) / 1000:.3f}"


def _section(table: Table, claim: Claim, report: Report) -> None:
    report.equal(f"claims: {claim.id}: lines", len(table.lines), len(claim.lines))
    for cells, line in zip(table.lines, claim.lines, strict=False):
        decision = line.decision
        shown = []
        for one in line.sides:
            few = f" (k={len(one.scores)})" if one.seeded and one.scores else ""
            shown.append(one.text + few)
        printed = [number(points) for points in line.printed] if line.printed else ["–", "–"]
        interval = decision.interval
        due = [
            line.label,
            *printed,
            "–" if line.claimed is None else _signed(line.claimed),
            *shown,
            "" if decision.difference is None else _signed(decision.difference),
            f"{_signed(interval[0])} to {_signed(interval[1])}" if interval else "",
            decision.outcome,
            decision.by,
        ]
        where = f"claims: {claim.id}: {line.label}"
        report.equal(f"{where}: p", cells[P_COLUMN], _p(decision.p))
        head, shown_cells = ([*row[:P_COLUMN], *row[P_COLUMN + 1 :]] for row in (table.head, cells))
        report.cells(where, head, shown_cells, due)


def _overview(table: Table, claims: Sequence[Claim], report: Report) -> None:
    report.equal("claims: overview", len(table.lines), len(claims))
    for cells, claim in zip(table.lines, claims, strict=False):
        due = [*(str(n) for n in claim.counts.values()), str(len(claim.tasks)), claim.in_paper]
        report.cells(f"claims: overview: {claim.id}", table.head[4:-1], cells[4:-1], due)
        report.equal(f"claims: overview: {claim.id}: tested on", cells[2], claim.encoders)
        report.equal(f"claims: overview: {claim.id}", cells[0], f"[{claim.id}](#{claim.id})")
        report.equal(f"claims: overview: {claim.id}", cells[-1], f"**{claim.outcome}**")


def _effects(table: Table, claims: Sequence[Claim], report: Report) -> None:
    for cells, claim in zip(table.lines, claims, strict=True):
        lines = {line.label: line for line in claim.lines}
        report.equal("claims: effects", set(lines) - set(table.head), set())
        for head, cell in zip(table.head[1:], cells[1:], strict=True):
            due = ""
            if line := lines.get(head):
                difference = line.decision.difference
                due = "–" if line.claimed is None else _signed(line.claimed)
                due += ", " + (line.decision.outcome if difference is None else _signed(difference))
            report.expect(f"claims: effects: {claim.id}: {head}", cell, due)
