"""The page of results: its tables, and the numbers that its dialogs show."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import papers
from boards import COLUMNS, PROTOCOL, average_of, seven_of
from claims import OUTCOMES, Claim, caveats_of
from pages import Report, Table
from scores import LABELS, Records, at, number, side

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
TALLIES = re.compile(r"<li><strong>(.*?)</strong>(.*?)<span>(.*?)</span></li>")


class Tables(HTMLParser):
    """Collects the tables of a page: their attributes, and heads and lines of plain text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], Table]] = []
        self.rows: list[list[str]] = []
        self.caption = ""
        self.into = ""  # the part of a table that text belongs to

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.rows, self.caption = [], ""
            self.found.append((dict(attrs), Table((), "", [], [])))
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
            self.into = "cell"
        elif tag == "caption":
            self.into = "caption"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td", "caption"):
            self.into = ""
        elif tag == "table":
            attributes, _ = self.found.pop()
            head, *lines = ([" ".join(cell.split()) for cell in row] for row in self.rows)
            self.found.append((attributes, Table((), self.caption, head, lines)))

    def handle_data(self, data: str) -> None:
        if self.into == "cell":
            self.rows[-1][-1] += data
        elif self.into == "caption":
            self.caption += data


def page(
    path: Path,
    tables: Mapping[str, Any],
    claims: Sequence[Claim],
    records: Records,
    report: Report,
) -> None:
    """Every table and every dialog; what waits for an asset and neighbours are not computed."""
    text = path.read_text(encoding="utf-8")
    parser = Tables()
    parser.feed(text)
    parts: dict[str, list[Table]] = {}
    for attributes, table in parser.found:
        if board := attributes.get("data-board"):
            _board(f"site: {board}", table, records, report)
        elif name := attributes.get("data-table"):
            parts.setdefault(name, []).append(table)
        elif table.head[0] == "Paper":
            _counts(table, tables, records, report)
        elif table.head[0] == "Claim":
            _claims(table, claims, report)
    report.equal("site: published tables", sorted(parts), sorted(tables))
    for name, shown in parts.items():
        blocks = list(papers.blocks(tables[name]))
        report.equal(f"site: {name}: parts", len(shown), len(blocks))
        for columns, part in zip(blocks, shown, strict=False):
            _paper(f"site: {name}", tables[name], columns, part, records, report)
    _tallies(text, tables, claims, records, report)
    found = DATA.search(text)
    assert found
    _dialogs(json.loads(found[1]), tables, records, report)


def _board(where: str, table: Table, records: Records, report: Report) -> None:
    """A board of all methods: its rows in their order, and each score."""
    methods = list(dict.fromkeys(method for method, _ in records))
    wanted: dict[str, list[str]] = {}
    if found := PROTOCOL.search(re.sub(r", (all|wmean|mean), ", r", `\1`, ", table.caption)):
        report.equal(f"{where}: columns", table.head[1:], ["Avg.", *LABELS])
        for method in methods:
            sides = seven_of(records, method, found)
            if any(one.mean is not None for one in sides):
                mean = average_of(sides)
                shown = "–" if mean is None else number(mean)
                wanted[method] = [shown, *(one.text for one in sides)]
    else:
        unknown = [heading for heading in table.head[1:] if heading not in COLUMNS]
        report.equal(f"{where}: columns without a rule", unknown, [])
        for method in methods if not unknown else ():
            sides = [side(records, method, *COLUMNS[head]) for head in table.head[1:]]
            if any(one.mean is not None for one in sides):
                wanted[method] = [one.text for one in sides]
    printed = [line[0].removesuffix(" †") for line in table.lines]
    report.equal(f"{where}: rows", sorted(printed), sorted(wanted))
    for line, method in zip(table.lines, printed, strict=True):
        fitted = method.partition("@")[2] in ("target", "target-splits")
        report.equal(f"{where}: {method}: †", line[0].endswith(" †"), fitted)
        for head, cell, due in zip(table.head[1:], line[1:], wanted.get(method, ()), strict=False):
            report.expect(f"{where}: {method}: {head}", cell, due)


def _paper(
    where: str,
    table: Mapping[str, Any],
    columns: Sequence[Mapping[str, Any]],
    shown: Table,
    records: Records,
    report: Report,
) -> None:
    """A published table: numbers as printed; ours with their verdicts; their spread."""
    due: list[list[papers.Due]] = []
    group = None
    for row in table["row"]:
        here = [column if column["id"] in row["values"] else None for column in columns]
        if not any(here):
            continue
        if row.get("group") not in (None, group):
            due.append([(row["group"], None)])
        group = row.get("group")
        published, *_ = papers.lines_of(table, row, columns, records)
        due.append(published)
        found = [papers.measured(table, row, c, records) if c else None for c in here]
        states = Counter(one.verdict for one in found if one)
        if not states:
            continue
        said = ", ".join(f"{count} {state}" for state, count in states.items())
        line: list[papers.Due] = [
            (f"measured: {said if len(states) > 1 else next(iter(states))}", None)
        ]
        line.append(("", None))
        spread: list[papers.Due] = [("sd (seeds)", None), ("", None)]
        for column, one in zip(here, found, strict=True):
            if column is None or one is None:
                line.append((papers.STATE if column else "", None))
                spread.append(("", None))
                continue
            digits = len(papers.in_points(table, row, column).partition(".")[2])
            mark = papers.VERDICTS[one.verdict]
            due_digits = min(max(digits, 2), papers.MOST_DIGITS)
            line.append((f"{number(fmean(one.scores))} {mark}", due_digits))
            sd = f"{number(stdev(one.scores))} " if len(one.scores) > 1 else ""
            spread.append((f"{sd}({len(one.scores)})" if one.seeded else "", 2))
        due.append(line)
        due += [spread] if any(one and one.seeded for one in found) else []
    papers.compare_lines(where, shown, due, report)


def _counts(table: Table, tables: Mapping[str, Any], records: Records, report: Report) -> None:
    found = papers.counted(tables, records)
    report.equal("site: papers", sorted(line[0] for line in table.lines), sorted(found))
    names = {"Published": "published", "Runnable": "runnable", "Measured": "run"}
    for line in table.lines:
        for head, cell in zip(table.head[1:], line[1:], strict=True):
            count = found[line[0]][names.get(head, head)]
            due = str(count) if count or head in names else "–"
            report.expect(f"site: {line[0]}: {head}", cell, due)


def _claims(table: Table, claims: Sequence[Claim], report: Report) -> None:
    report.equal("site: claims", len(table.lines), len(claims))
    for line, claim in zip(table.lines, claims, strict=False):
        held = f"{claim.counts['holds']} of {len(claim.tasks)}"
        row = dict(zip(table.head, line, strict=True))
        report.expect(f"site: claim {claim.id}", row["Tasks on which it holds"], held)
        report.equal(f"site: claim {claim.id}", row["Outcome"], claim.outcome)


def _tallies(
    text: str,
    tables: Mapping[str, Any],
    claims: Sequence[Claim],
    records: Records,
    report: Report,
) -> None:
    """The counts on top of the page but those of conformance, which stand on their own page."""
    counts = papers.counted(tables, records)["all"]
    outcomes = Counter(claim.outcome for claim in claims)
    given = [f"{counts[verdict]} {verdict}" for verdict in papers.VERDICTS if counts[verdict]]
    given += ["none differs"] if not counts["differs"] else []
    tested = [claim for claim in claims if claim.outcome != OUTCOMES[-1]]
    methods, tasks = ({cell[n] for cell in records} for n in (0, 1))
    wanted = [
        f"{counts['run']:,} of {counts['published']:,}: published numbers were measured here, by "
        f"{papers.different_scores(tables, records):,} different scores: {', '.join(given)}",
        f"{outcomes['holds']} of {len(tested)}: claims of the papers hold for small models; "
        f"{outcomes['does not hold']} do not hold, {outcomes['undecided']} undecided."
        f"{caveats_of(tested)}",
        f"{len(records):,}: measured cells: {len(methods)} methods on {len(tasks)} tasks, "
        f"{sum(map(len, records.values())):,} records over all seeds",
    ]
    found = TALLIES.findall(unescape(text))
    printed = [
        f"{' '.join(f'{a} {b}'.split())}: {c}" for a, b, c in found if not c.startswith("scores of")
    ]
    report.equal("site: counts on top", printed, wanted)


def _dialogs(
    data: Mapping[str, Any], tables: Mapping[str, Any], records: Records, report: Report
) -> None:
    """The printed number, the scores and the difference of each cell; the scores of each method."""
    wanted = {}
    for name, table in tables.items():
        for row, column in ((r, c) for r in table["row"] for c in table["columns"]):
            if column["id"] in row["values"]:
                wanted[f"{name}/{row['id']}/{column['id']}"] = table, row, column
    cells = {f"{row}/{column}": f for row, of in data["cells"].items() for column, f in of.items()}
    report.equal("site: cells of the dialogs", sorted(cells), sorted(wanted))
    for name, (table, row, column) in wanted.items():
        fields = cells.get(name, [""] * 11)
        digits, due = papers.printed_digits(papers.in_points(table, row, column))
        report.expect(f"site: dialog {name}", fields[0], digits, due)
        one = papers.measured(table, row, column, records)
        shown, mine = fields[11:13], []
        if one:
            gap = fmean(one.scores) - float(papers.in_points(table, row, column))
            mine = [[round(score, 4) for score in one.scores], round(gap, 4)]
        report.equal(f"site: dialog {name}: scores", shown, mine)
        report.numbers += len(mine)
    for (method, task), rows in records.items():
        paths = data["paths"].get(task, ())
        shown = data["scores"].get(method, {}).get(task, [])[3:]
        for path, printed in zip(paths, shown, strict=True):
            found = [at(row["scores"], path.split(".")) for row in rows]
            where = f"site: dialog {method} on {task}: {path}"
            values = printed if isinstance(printed, list) else [printed]
            if None in found:
                report.equal(where, printed, 0)
                continue
            near = [abs(a - b) <= 0.005 + 1e-9 for a, b in zip(values, found, strict=True)]
            report.numbers += len(near)
            report.equal(where, all(near), True)
