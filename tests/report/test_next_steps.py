"""What published numbers wait for: commands, with the numbers that wait for them."""

import re
from collections import Counter

import pytest
from committed import FOLDER, TABLES

from harness.data.places import every_asset
from harness.registry import load_registry
from harness.report.front import differing, missing, outcome_of_papers
from harness.report.next_steps import best_downloads, needs_of
from harness.results.index import Results
from harness.results.reproduction import reproductions
from harness.results.verdict import CellState

FOUND = load_registry()


def cells(results):
    return [
        c for table in TABLES for c in reproductions(table, results, FOUND).values()
    ]


@pytest.fixture(scope="module")
def nothing_run():
    return cells(Results({}))


def test_the_next_step_makes_most_numbers_measurable_for_each_byte(nothing_run):
    commands, size, cells = best_downloads(nothing_run, FOUND, ())
    assert size > 0
    assert all(command.startswith("harness fetch ") for command in commands)
    needs = {cell.id: {*needs_of(cell, FOUND, ())} for cell in cells}
    assert all(need <= {*commands} for need in needs.values())
    # With what it gets, these numbers wait for nothing, and only others come next.
    there = {name for command in commands for name in command.split()[2:]}
    there |= {asset.name for asset in every_asset() if asset.get in commands}
    _, _, later_cells = best_downloads(nothing_run, FOUND, there)
    assert not {cell.id for cell in later_cells} & {*needs}


def test_the_papers_numbers_on_bert_base_are_counted_by_what_they_wait_for():
    """Those of issues are no numbers of the papers, and a fit on NLI waits for it, too."""
    waiting = Counter(
        "@nli" in method
        for each in FOLDER.all_reproductions
        if each.state is CellState.NOT_RUN
        and re.match("bert-base[.:]", method := each.number.method)
        and re.match("arXiv (1908|2011|2103|2104)|EMNLP 2019", each.number.table.source)
    )
    text = missing(FOLDER)
    without_needs = sum(map(int, re.findall(r"([\d,]+) that take hours", text)))
    [(after, needed)] = re.findall(r"([\d,]+) after (.*?)[,.]", text)
    assert "all-nli" in needed
    assert (int(after), without_needs) == (waiting[True], waiting[False])


def test_a_number_that_differs_stands_once_and_its_quotations_are_counted():
    rows = [[cell.text for cell in row.cells] for row in differing(FOLDER).rows]
    *own, (repeated, *_) = rows
    [quotations] = map(int, re.findall(r"quote them, (\d+) number", repeated))
    [total] = map(int, re.findall(r"(\d+) differs", outcome_of_papers(FOLDER)))
    assert len(own) + quotations == total
    assert quotations > 0
    flows = [place for place, *_ in own if "flow (target), STS13" in place]
    assert len(flows) == 1
    assert all(why for _, why, *_ in own)
