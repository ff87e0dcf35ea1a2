"""The page of claims: every difference, interval, outcome and count, and the searches below."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import others
from boards import size
from pages import Column, Report, Table, content, paragraphs, tables
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

OUTCOMES = ("higher", "lower", "undecided", "not measured")
Score = tuple[str, tuple[str, ...]]


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

    `text` is what is claimed, `part_of` the sentence it is a part of, `encoders` what
    it was tested on; of one of `every` part all parts have to hold.
    """

    id: str
    text: str
    lines: Sequence[Line]
    averages: bool
    part_of: str
    encoders: tuple[str, ...]
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
        if self.every and self.counts["lower"]:
            return "lower"
        if self.every:
            return "higher" if self.counts["higher"] == len(self.tasks) else "undecided"
        half = len(self.tasks) / 2
        return next(
            (word for word in OUTCOMES[:2] if self.counts[word] > half), "undecided"
        )

    @property
    def in_paper(self) -> str:
        """On how many tasks the printed numbers have the claimed order."""
        claimed = [line.claimed for line in self.tasks]
        if None in claimed:
            return "–"
        return str(
            sum(difference > 0 for difference in claimed if difference is not None)
        )


def all_claims(inputs: Inputs) -> list[Claim]:
    """Every claim, tested anew."""
    data = content(inputs.results / "questions" / "claims.toml")
    stored = content(inputs.results / "records" / "claims.json")["intervals"]
    return [
        _claim(entry, data, inputs.tables, stored, inputs.records)
        for entry in data["claim"]
    ]


def _columns(table: Fields, chosen: Sequence[str] | None) -> list[Fields]:
    tried = [c for c in table["columns"] if chosen is None or c["id"] in chosen]
    return [
        c for c in tried if c.get("task") and c.get("metric", table["metric"]) in SCORES
    ]


def _score(table: Fields, column: Fields) -> Score:
    way = column.get("aggregation") or table.get("aggregation")
    return column["task"], path_of(column.get("metric", table["metric"]), way)


def _claim(
    entry: Fields,
    data: Fields,
    tables: Fields,
    stored: Sequence[Fields],
    records: Records,
) -> Claim:
    stand_ins = data["rows"]
    table = tables[entry["table"]]
    rows = {row["id"]: row for row in table["row"]}
    names = entry["better"], entry["worse"]
    methods = entry.get("methods") or [
        stand_ins[entry["table"]][name] for name in names
    ]
    columns = _columns(table, entry.get("columns"))
    scores = [_score(table, column) for column in columns]
    lines = []
    for column, score in zip(columns, scores, strict=True):
        printed = None
        if {*names} <= {*rows}:
            above, below = (
                float(in_points(table, rows[name], column)) for name in names
            )
            printed = above, below
        lines.append(_line(column["label"], printed, methods, [score], stored, records))
    decisions = corrected([line.decision for line in lines])
    lines = [
        replace(line, decision=one) for line, one in zip(lines, decisions, strict=True)
    ]
    metrics = {column.get("metric", table["metric"]) for column in columns}
    averages = len(columns) > 1 and len(metrics) == 1
    if averages:
        known = [line.printed for line in lines if line.printed]
        means = (
            (fmean(a for a, _ in known), fmean(b for _, b in known)) if known else None
        )
        lines.append(_line("Avg.", means, methods, scores, stored, records))
    return Claim(
        id=entry["id"],
        text=entry["claim"],
        lines=lines,
        averages=averages,
        part_of=entry.get("part_of", ""),
        encoders=tuple(dict.fromkeys(method.split(".")[0] for method in methods)),
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
    above, below = (
        averaged([side(records, m, *score) for score in scores]) for m in methods
    )
    on = [[task, list(path)] for task, path in scores]
    wanted = {"better": methods[0], "worse": methods[1], "scores": on}
    known = [one for one in stored if one["contrast"] == wanted]
    decision = decide(above, below, known[0] if known else None)
    return Line(label, printed, (above, below), decision)


def page(inputs: Inputs, report: Report) -> None:
    """A section for each claim, tables with a line for each claim, counts in sentences."""
    path = inputs.results / "tables" / "replication-in-miniature.md"
    claims = all_claims(inputs)
    sections = {table.headings[-1]: table for table in tables(path)}
    for claim in claims:
        _section(f"claims: {claim.id}", sections[claim.id], claim, report)
    overviews(path, {f"[{claim.id}](#{claim.id})": claim for claim in claims}, report)
    texts = paragraphs(path)
    for place, group in enumerate(groups(claims)):
        tasks = [line.decision.outcome for claim in group for line in claim.tasks]
        due = [*counts_of(group), len(tasks), *_counts(tasks)]
        report.sentence(f"claims: counts of group {place + 1}", texts, due)
    by_section = _texts_of_sections(path)
    for claim in claims:
        in_paper = [] if claim.in_paper == "–" else [claim.in_paper]
        due = [
            len(claim.tasks),
            *_counts([line.decision.outcome for line in claim.tasks]),
            *in_paper,
        ]
        report.sentence(f"claims: {claim.id}: counts", by_section[claim.id], due)
    others.searches(inputs, path, report)


def _texts_of_sections(path: Path) -> dict[str, list[str]]:
    """The paragraphs below each heading."""
    sections: dict[str, list[str]] = {}
    heading = ""
    for text in paragraphs(path):
        if text.startswith("#"):
            heading = text.lstrip("# ")
        sections.setdefault(heading, []).append(text)
    return sections


def overviews(path: Path, claims: dict[str, Claim], report: Report) -> None:
    """Tables with a line for each claim, named by a text: outcomes, counts and effects."""
    found: Counter[str] = Counter()
    for table in tables(path):
        keys = [line[0] for line in table.lines]
        if not {*keys} & {*claims}:
            continue
        found.update(keys)
        where = f"{path.name}: {' / '.join(table.headings[1:])}"
        own = [claims[key] for key in keys]
        report.columns(where, keys, table, list(_overview_columns(own)))
        for line, claim in zip(table.lines, own, strict=True):
            encoders = [
                cell for cell in line if all(name in cell for name in claim.encoders)
            ]
            report.equal(f"{where}: {claim.id}: encoders", encoders != [], True)
            said = {cell.strip("*") for cell in line} & {*OUTCOMES}
            report.equal(f"{where}: {claim.id}: outcome", said - {claim.outcome}, set())
    most = max(found.values(), default=1)
    report.equal(f"{path.name}: claims", found, Counter(dict.fromkeys(claims, most)))


def _overview_columns(claims: Sequence[Claim]) -> Iterator[Column]:
    """What the columns of such a table may hold."""
    tasks = [str(len(claim.tasks)) for claim in claims]
    for outcome in OUTCOMES:
        cells = [str(claim.counts[outcome]) for claim in claims]
        yield Column([outcome], cells)
        yield Column(
            [],
            [f"{count} of {total}" for count, total in zip(cells, tasks, strict=True)],
        )
    yield Column([], tasks)
    yield Column([], [claim.in_paper for claim in claims])
    for label in dict.fromkeys(line.label for claim in claims for line in claim.lines):
        yield Column([label], [_effect(claim, label) for claim in claims])


def _effect(claim: Claim, label: str) -> str:
    """The claimed and the measured difference on a column."""
    for line in claim.lines:
        if line.label == label:
            return " ".join(
                _signed(value)
                for value in (line.claimed, line.decision.difference)
                if value is not None
            )
    return ""


def _counts(outcomes: Sequence[str]) -> list[int]:
    """How often each outcome is there, if it is."""
    return [outcomes.count(word) for word in OUTCOMES if word in outcomes]


def groups(claims: Sequence[Claim]) -> list[list[Claim]]:
    """The claims by the size of the smallest encoder that each was tested on."""
    by_size: dict[int, list[Claim]] = {}
    for claim in claims:
        by_size.setdefault(max(map(size, claim.encoders)), []).append(claim)
    return [*by_size.values()]


def counts_of(group: Sequence[Claim]) -> list[int]:
    """How many claims, by outcome."""
    return [len(group), *_counts([claim.outcome for claim in group])]


def _section(where: str, table: Table, claim: Claim, report: Report) -> None:
    """A line for each task: both published numbers and ours, differences, interval, p, outcome."""
    labels = [line.label for line in claim.lines]
    report.equal(f"{where}: lines", [cells[0] for cells in table.lines], labels)
    for cells, line in zip(table.lines, claim.lines, strict=False):
        decision = line.decision
        due = [number(points) for points in line.printed or ()]
        due += [_signed(line.claimed)] if line.claimed is not None else []
        for one in line.sides:
            due += [one.text, str(len(one.scores)) if one.seeded and one.scores else ""]
        due += [_signed(decision.difference)] if decision.difference is not None else []
        due += [_signed(end) for end in decision.interval or ()]
        due += [_p(decision.p)] if decision.p is not None else []
        report.expect(f"{where}: {line.label}", " ".join(cells[1:]), " ".join(due))
        said = {*cells} & {*OUTCOMES}
        report.equal(
            f"{where}: {line.label}: outcome",
            said - {"not measured"} or said,
            {decision.outcome},
        )


def _signed(value: float) -> str:
    return f"{value + 0.0:+.9f}"


def _p(p: float) -> str:
    """Three decimals, rounded up."""
    return "<0.001" if p < 0.001 else f"{math.ceil(round(p, 9) * 1000) / 1000:.3f}"
