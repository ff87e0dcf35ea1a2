"""The page of results: its tables, its dialogs, and the counts that README has too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from claims import compare_claims_of_website, compare_counts_of_claims
from methods import compare_methods
from pages import Comparison, Page
from papers import (
    all_published,
    compare_showcase,
    compare_table,
    compare_tallies_of_numbers,
    measured,
)
from records import Fields, Results, score_at
from references import compare_counts_of_references

DATA = re.compile(
    r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL
)


def compare_website(results: Results) -> Iterator[Comparison]:
    """Its tables but that of what is not exact, and its dialogs."""
    page = Page(results.folder / "site" / "index.html")
    yield from compare_methods(page, results.methods, results)
    yield from compare_showcase(page, results)
    yield from compare_claims_of_website(page, results)
    yield from _compare_tallies(page, results)
    for name in results.published:
        [own] = [table for table in page.tables if table.title == name]
        yield from compare_table(page, name, own, results)
    found = DATA.search(page.text)
    assert found
    data = json.loads(found[1])
    yield from _compare_published(page, data["cells"], results)
    yield from _compare_scores(page, data["scores"], results)


def compare_readme(results: Results) -> Iterator[Comparison]:
    """The first table, and the counts."""
    page = Page(results.folder.parent / "README.md")
    yield from compare_showcase(page, results)
    yield from _compare_tallies(page, results)


def _compare_tallies(page: Page, results: Results) -> Iterator[Comparison]:
    """The counts that README and page begin with."""
    yield from compare_tallies_of_numbers(page, results)
    yield from compare_counts_of_claims(page, results)
    yield from compare_counts_of_references(page, results)
    methods, tasks = ({cell[place] for cell in results.records} for place in (0, 1))
    records = sum(map(len, results.records.values()))
    due = [len(results.records), len(methods), len(tasks), records]
    yield page.sentence("cells", due)


def _compare_published(
    page: Page, data: Fields, results: Results
) -> Iterator[Comparison]:
    """The dialog of each published number: its digits, our scores and the difference."""
    for published in all_published(results):
        parts = (published.table, published.row, published.column)
        name = "/".join(part["id"] for part in parts)
        cell = data[name]
        where = f"dialog of {name}"
        yield page.cell(where, cell["printed"], published.numbers)
        printed = cell.get("seeds"), cell.get("difference")
        ours = measured(published, results)
        if ours is None:
            yield page.equal(where, printed, (None, None))
            continue
        seeds = [round(score, 4) for score in ours.scores.known]
        difference = round(ours.mean - float(published.digits), 4)
        yield page.equal(where, printed, (seeds, difference))


def _compare_scores(page: Page, data: Fields, results: Results) -> Iterator[Comparison]:
    """The dialog of each method and task: its scores by seed, where all are defined."""
    names: dict[str, set[str]] = {}
    for tasks in data.values():
        for task, cell in tasks.items():
            names.setdefault(task, set()).update(cell.get("scores", {}))
    for (method, task), records in results.records.items():
        printed = data.get(method, {}).get(task, {}).get("scores", {})
        for name in names.get(task, ()):
            scores = [score_at(record, name.split(".")) for record in records]
            due = [] if None in scores else scores
            shown = printed.get(name, [])
            near = [
                abs(a - b) <= 0.005 + 1e-9 for a, b in zip(shown, due, strict=False)
            ]
            is_equal = len(shown) == len(due) and all(near)
            where = f"{page.name}: dialog of {method} on {task}: {name}"
            yield Comparison(where, shown, due, is_equal, len(due))
