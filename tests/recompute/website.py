"""The page of results: its tables, and the numbers that its dialogs show."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from statistics import fmean

import boards
import others
import papers
from claims import OUTCOMES, Claim, all_claims, by_kind, caveats_of, encoders_of
from pages import Report, Table, bare, markdown, numbers
from scores import Fields, Inputs, Records, at

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
TABLE = re.compile(r'<table(?: [a-z-]+="(.*?)")?>(.*?)</table>', re.DOTALL)
ROW = re.compile(r"<tr.*?>(.*?)</tr>", re.DOTALL)
CELL = re.compile(r"<t[hd].*?>(.*?)</t[hd]>", re.DOTALL)
TALLIES = re.compile(
    r"<li><strong>(.*?)</strong>(.*?)<span>(.*?)</span>(?:<details>.*?<span>(.*?)</span></details>)?"
)


def tables_of(text: str) -> Iterator[tuple[str, Table]]:
    """The tables of a page, of plain text, each with the value of its first attribute."""
    for value, content in TABLE.findall(text):
        rows = [[_plain(cell) for cell in CELL.findall(row)] for row in ROW.findall(content)]
        caption = _plain("".join(re.findall(r"<caption>(.*?)</caption>", content, re.DOTALL)))
        yield value, Table((), caption, rows[0], rows[1:])


def _plain(html: str) -> str:
    return " ".join(unescape(re.sub(r"<.*?>", "", html)).split())


def page(inputs: Inputs, report: Report) -> None:
    """Every table and every dialog; what waits for an asset and effects of choices are not."""
    results, records = inputs.results, inputs.records
    text = (results / "site" / "index.html").read_text(encoding="utf-8")
    pages = (results / "tables" / page for page in boards.encoder_pages(records))
    encoders = [table for page in pages for table in markdown(page)]
    parts: dict[str, list[Table]] = {}
    for name, table in tables_of(text):
        if name in inputs.tables:
            parts.setdefault(name, []).append(table)
        elif table.head[0] in ("Paper", "Source"):
            _counts(table, results / "LEADERBOARD.md", report)
        elif table.head[0] == "Claim":
            _claims(table, results / "tables" / "replication-in-miniature.md", report)
        elif table.head[0] == "Method":
            _board(f"site: {name}", table, encoders, records, report)
    report.equal("site: published tables", sorted(parts), sorted(inputs.tables))
    for name, shown in parts.items():
        in_markdown = list(markdown(results / "tables" / "papers" / f"{name}.md"))
        report.equal(f"site: {name}: parts", len(shown), len(in_markdown))
        for part, other in zip(shown, in_markdown, strict=False):
            _paper(f"site: {name}", part, other, report)
    _tallies(text, inputs, report)
    data = DATA.search(text)
    assert data
    _dialogs(json.loads(data[1]), inputs.tables, records, report)


def _sizes(method: str, records: Records) -> dict[str, str]:
    """Dimensions, rank and parameters by the first record of a method."""
    name = method.removesuffix(" †")
    facts = next((rows[0]["facts"] for cell, rows in records.items() if cell[0] == name), {})
    millions = facts.get("parameters", 0) / 1_000_000
    sizes = {h: str(facts.get(f, "–")) for h, f in (("Dim.", "dimensions"), ("Rank", "rank"))}
    return {**sizes, "Params": f"{millions:.3g}M" if millions else "–"}


def _board(
    where: str, table: Table, encoders: Sequence[Table], records: Records, report: Report
) -> None:
    """A board of all methods, as on the pages of their encoders."""
    name = re.split(r"\.(?: |$)", table.caption.removeprefix("Seven STS tasks: "))[0]
    wanted: dict[str, dict[str, str]] = {}
    for other in encoders:
        if other.headings[-1].replace("`", "") == name:
            for line in other.lines:
                wanted[line[0].replace("`", "")] = dict(zip(other.head, line, strict=True))
    report.equal(f"{where}: rows", sorted(line[0] for line in table.lines), sorted(wanted))
    for line in table.lines:
        due = wanted.get(line[0], {}) | _sizes(line[0], records)
        cells = [due.get(head, "") for head in table.head[1:]]
        report.equal(f"{where}: {line[0]}", line[1:], cells)
        report.numbers += len(numbers(line[1:]))


def _paper(where: str, shown: Table, in_markdown: Table, report: Report) -> None:
    """A published table: evidence and numbers as in Markdown, and a verdict beside each of ours."""
    report.equal(f"{where}: lines", len(shown.lines), len(in_markdown.lines))
    for line, other in zip(shown.lines, in_markdown.lines, strict=False):
        report.equal(f"{where}: {line[0]}: evidence", line[1:2], other[1:2])
        report.equal(f"{where}: {line[0]}", numbers(line[2:]), numbers(other[2:]))
        report.numbers += len(numbers(line[2:]))
        if line[0].startswith("measured"):
            names = {mark: name for name, mark in papers.VERDICTS.items()}
            marks = Counter(names[cell[-1]] for cell in line[2:] if cell[-1:] in names)
            verdicts = [f"{count} {name}" for name, count in marks.items()]
            due = "measured: " + (", ".join(verdicts) if len(marks) > 1 else next(iter(marks)))
            report.equal(f"{where}: verdicts", bare(line[0]), due)
            shared = bare(other[0])[-1:] if bare(other[0])[-1:] in names else ""
            ours = [shared or cell[-1] for cell in other[2:] if numbers([cell])]
            printed = [cell[-1] for cell in line[2:] if numbers([cell])]
            report.equal(f"{where}: marks", printed, ours)


def _counts(table: Table, leaderboard: Path, report: Report) -> None:
    """The counts of papers with measured numbers, or of sources without, as in Markdown."""
    [other] = (table for table in markdown(leaderboard) if table.head[0] == "paper")
    names = {"Published": "published", "Runnable": "runnable", "Measured": "run"}
    every = [dict(zip(other.head, line, strict=True)) for line in other.lines]
    run = table.head[0] == "Paper"
    heads = [names.get(head, head) for head in table.head[1:] if head != "Needs"]
    report.equal("site: counts", set(heads) - set(other.head), set())
    wanted = [[line[n] for n in ("paper", *heads)] for line in every if (line["run"] != "0") == run]
    printed = [[c.replace("–", "0") for c in line[: 1 + len(heads)]] for line in table.lines]
    report.equal(f"site: {table.head[0]}", sorted(printed), sorted(wanted))


def _claims(table: Table, page: Path, report: Report) -> None:
    [other] = (table for table in markdown(page) if table.headings[-1] == "Claims")
    for line, due in zip(table.lines, other.lines, strict=True):
        shown = dict(zip(table.head, line, strict=True))
        wanted = dict(zip(other.head, due, strict=True))
        held = f"{wanted['holds']} of {wanted['tasks']}"
        report.expect(f"site: claim {due[0]}", shown["Tasks on which it holds"], held)
        report.equal(f"site: claim {due[0]}", f"**{shown['Outcome']}**", wanted["verdict"])


def _tallies(text: str, inputs: Inputs, report: Report) -> None:
    """The counts on top of the page."""
    tables, records, claims = inputs.tables, inputs.records, all_claims(inputs)
    counts = papers.counted(tables, records)["all"]
    given = [f"{counts[verdict]} {verdict}" for verdict in papers.VERDICTS if counts[verdict]]
    given += ["none differs"] if not counts["differs"] else []
    tested = [claim for claim in claims if claim.outcome != OUTCOMES[-1]]
    methods, tasks = ({cell[n] for cell in records} for n in (0, 1))
    wanted = [
        f"{counts['run']:,} of {counts['published']:,}: published numbers were measured here, by "
        f"{papers.different_scores(tables, records):,} different scores: {', '.join(given)}",
        *_claims_tallies(tested),
        *others.equal_scores(inputs).values(),
        f"{len(records):,}: measured cells: {len(methods)} methods on {len(tasks)} tasks, "
        f"{sum(map(len, records.values())):,} records over all seeds",
    ]
    tallies = TALLIES.findall(unescape(text))
    printed = [
        f"{' '.join(f'{a} {b}'.split())}: {what} {more}".strip() for a, b, what, more in tallies
    ]
    report.equal("site: counts on top", printed, wanted)


def _claims_tallies(tested: Sequence[Claim]) -> list[str]:
    """How many claims of papers hold, and how many tests of which none claims anything."""
    words = {"claims": "claims of the papers"}
    said = []
    for what, group in by_kind(tested).items():
        outcomes = Counter(claim.outcome for claim in group)
        said.append(
            f"{outcomes['holds']} of {len(group)}: {words.get(what, what)} hold here; "
            f"{outcomes['does not hold']} do not hold, {outcomes['undecided']} undecided."
            f"{caveats_of(group)}{encoders_of(group)}"
        )
    return said


def _dialogs(data: Fields, tables: Fields, records: Records, report: Report) -> None:
    """The printed number, the scores and the difference of each cell; the scores of each method."""
    wanted = {
        f"{name}/{row['id']}/{column['id']}": (table, row, column)
        for name in tables
        for table, row, column in papers.cells({name: tables[name]})
    }
    cells = {f"{row}/{column}": f for row, of in data["cells"].items() for column, f in of.items()}
    report.equal("site: cells of the dialogs", sorted(cells), sorted(wanted))
    for name, (table, row, column) in wanted.items():
        fields = cells.get(name, {})
        digits, due = papers.printed_digits(papers.in_points(table, row, column))
        report.expect(f"site: dialog {name}", fields.get("printed"), digits, due)
        one = papers.measured(table, row, column, records)
        shown, mine = [fields[name] for name in ("seeds", "difference") if name in fields], []
        if one:
            gap = fmean(one.scores) - float(papers.in_points(table, row, column))
            mine = [[round(score, 4) for score in one.scores], round(gap, 4)]
        report.equal(f"site: dialog {name}: scores", shown, mine)
        report.numbers += len(mine)
    paths: dict[str, dict[str, None]] = {}
    for tasks in data["scores"].values():
        for task, one in tasks.items():
            paths.setdefault(task, {}).update(dict.fromkeys(one.get("scores", {})))
    for (method, task), rows in records.items():
        shown = data["scores"].get(method, {}).get(task, {}).get("scores", {})
        for path in paths.get(task, ()):
            found = [at(row["scores"], path.split(".")) for row in rows]
            where = f"site: dialog {method} on {task}: {path}"
            if None in found:
                report.equal(where, path in shown, False)
                continue
            printed = shown.get(path, [])
            near = [abs(a - b) <= 0.005 + 1e-9 for a, b in zip(printed, found, strict=True)]
            report.numbers += len(near)
            report.equal(where, all(near), True)
