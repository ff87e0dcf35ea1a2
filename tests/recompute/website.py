"""The page of results: its tables, the counts on top, and the numbers that its dialogs show."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import boards
import claims
import others
import papers
from pages import Report, Table, paragraphs, tables
from scores import Fields, Inputs, Records, at

DATA = re.compile(
    r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL
)
NAMED = re.compile(r'<table(?: data-table="(.*?)")?')


def page(inputs: Inputs, report: Report) -> None:
    """Every table and every dialog; what waits for an asset and effects of choices are not."""
    path, records = inputs.results / "site" / "index.html", inputs.records
    text = path.read_text(encoding="utf-8")
    boards.boards(path, records.methods, records, report)
    papers.counts(path, inputs, report)
    claims.overviews(
        path, {claim.text: claim for claim in claims.all_claims(inputs)}, report
    )
    published: dict[str, list[Table]] = {}
    for name, table in zip(NAMED.findall(text), tables(path), strict=True):
        if name:
            published.setdefault(name, []).append(table)
    report.equal("site: published tables", sorted(published), sorted(inputs.tables))
    for name, shown in published.items():
        papers.sheet(f"site: {name}", inputs.tables[name], shown, records, report)
    tallies(path, inputs, report)
    found = DATA.search(text)
    assert found
    _dialogs(json.loads(found[1]), inputs.tables, records, report)


def readme(inputs: Inputs, report: Report) -> None:
    """The README's counts by paper, and the numbers of its sentences."""
    papers.readme(inputs, report)
    tallies(inputs.results.parent / "README.md", inputs, report)


def tallies(path: Path, inputs: Inputs, report: Report) -> None:
    """The counts that README and page begin with."""
    records, texts = inputs.records, paragraphs(path)
    total = papers.counted(inputs.tables, records)["all"]
    different = papers.different_scores(inputs.tables, records)
    verdicts = [total[verdict] for verdict in papers.VERDICTS if total[verdict]]
    due: dict[str, Sequence[int]] = {
        "published numbers": [total["run"], total["published"], different, *verdicts],
        "cells": [
            len(records),
            *(len({cell[place] for cell in records}) for place in (0, 1)),
            sum(map(len, records.values())),
        ],
    }
    tested = [c for c in claims.all_claims(inputs) if c.outcome != claims.OUTCOMES[-1]]
    for place, group in enumerate(claims.groups(tested)):
        due[f"claims of group {place + 1}"] = claims.counts_of(group)
    for by_authors, counts in others.equal_scores(inputs).items():
        due["scores of authors" if by_authors else "scores of libraries"] = counts
    for what, counts in due.items():
        report.sentence(f"{path.name}: {what}", texts, counts)


def _dialogs(data: Fields, tables: Fields, records: Records, report: Report) -> None:
    """The printed number, the scores and the difference of each cell; the scores of each method."""
    wanted = {
        f"{name}/{row['id']}/{column['id']}": (table, row, column)
        for name in tables
        for table, row, column in papers.cells({name: tables[name]})
    }
    cells = {
        f"{row}/{column}": f
        for row, of in data["cells"].items()
        for column, f in of.items()
    }
    report.equal("site: cells of the dialogs", sorted(cells), sorted(wanted))
    for name, (table, row, column) in wanted.items():
        fields = cells.get(name, {})
        digits = papers.printed_digits(papers.in_points(table, row, column))
        report.expect(
            f"site: dialog {name}",
            fields.get("printed", ""),
            digits,
            papers.MOST_DIGITS,
        )
        one = papers.measured(table, row, column, records)
        shown, mine = (
            [fields[name] for name in ("seeds", "difference") if name in fields],
            [],
        )
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
            near = [
                abs(a - b) <= 0.005 + 1e-9 for a, b in zip(printed, found, strict=True)
            ]
            report.numbers += len(near)
            report.equal(where, all(near), True)
