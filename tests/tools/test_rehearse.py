"""The committed rehearsal is of the cells that are published now."""

import pytest
from rehearse import (
    FIRST,
    RESULTS,
    digest_of_cells,
    make_scratch,
    numbers_without,
    published_cells,
)

from harness.registry import load_registry
from harness.results.folder import ResultsFolder


def test_every_published_cell_that_can_run_was_rehearsed():
    last, cells = ResultsFolder(RESULTS).rehearsal, published_cells(load_registry())
    failed = [cell for cell in cells if str(cell.address) in last.failed]
    remedy = "there are other published cells than were rehearsed: run make rehearse"
    assert (last.digest, last.cells) == (digest_of_cells(cells), len(cells)), remedy
    assert (last.numbers, len(last.failed)) == (numbers_without(failed), len(failed)), (
        remedy
    )


# A table of words, a table of pieces, a plain checkpoint's family, modules, and pinned
# weights.
KINDS = (
    "glove-6b-st",
    "potion-base-2m",
    "sbert-sts-bert-base",
    "rubert-tiny2",
    "mpnet-base",
)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.weights
def test_each_kind_of_stand_in_runs_and_a_broken_one_is_named(data_dir, tmp_path):
    every = [
        cell for cell in published_cells(load_registry()) if cell.task.name == "sts-b"
    ]
    cells = [cell for cell in every if cell.method.encoder.name in (*KINDS, "labse")]
    assert len(cells) == len(KINDS) + 1
    scratch = make_scratch(tmp_path, data_dir, 1, cells)
    name = scratch.aliases.get("labse", "labse")
    (scratch.encoders[name] / "modules.json").write_text("{}")
    scratch.run(cells, FIRST)
    failed = scratch.failures(cells, FIRST)
    assert [cell.method.id for cell in failed] == ["labse.native"]
    assert "modules.json" in failed.popitem()[1]


def test_a_cell_that_failed_takes_its_numbers_along():
    [cell] = (c for c in published_cells(load_registry()) if str(c.address) == CELL)
    assert numbers_without([]) - numbers_without([cell]) == 2, "its own, and an average"


CELL = "declutr-base.mean on sts12.senteval, seed 0"
