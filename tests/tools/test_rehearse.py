"""The committed rehearsal is of the cells that are published now."""

from dataclasses import replace
from importlib.metadata import version

import pytest
from rehearse import RESULTS, digest_of_cells, numbers_without, published_cells

from harness.registry import load_registry
from harness.report.pages import published_counts
from harness.results.folder import ResultsFolder


def test_every_published_cell_that_can_run_was_rehearsed():
    last, cells = ResultsFolder(RESULTS).rehearsal, published_cells(load_registry())
    failed = [cell for cell in cells if str(cell.address) in last.failed]
    remedy = "there are other published cells than were rehearsed: run make rehearse"
    assert (last.digest, last.cells) == (digest_of_cells(cells), len(cells)), remedy
    assert (last.numbers, len(last.failed)) == (numbers_without(failed), len(failed)), remedy


def test_a_cell_that_failed_takes_its_numbers_along():
    [cell] = (c for c in published_cells(load_registry()) if str(c.address) == CELL)
    assert numbers_without([]) - numbers_without([cell]) == 2, "its own, and an average"


CELL = "declutr-base.mean on sts12.senteval, seed 0"


@pytest.mark.parametrize("of_version", ["", "this", "0.0.1"])
def test_runnable_numbers_are_called_rehearsed_at_the_version_that_ran_them(of_version):
    folder = ResultsFolder(RESULTS)
    this = version("sentence-embedding-harness")
    last = replace(folder.rehearsal, numbers=17, version=this if of_version == "this" else "0.0.1")
    folder.rehearsal = last if of_version else None
    ending = published_counts(folder).rpartition("`runnable`: ")[2]
    assert ("17 numbers rehearsed" in ending and this in ending) == (of_version == "this")
    assert ("not rehearsed" in ending) == (of_version != "this")
