"""The first counts, and scores of other programs: what was not tested does not pass for tested."""

from dataclasses import replace
from pathlib import Path

from committed import TABLES, committed_results
from fakes import FakeConfig, registry, results_folder

from harness.registry import load_registry
from harness.report.counts import different_scores, tallies
from harness.report.pages import conformance_page
from harness.results.conformance import Reference, ReferenceCell, ReferenceScore
from harness.results.index import Results
from harness.results.reproduction import reproductions

COMMITTED = Path(__file__).parents[2] / "results"
CELL = ReferenceCell({"all": 60.0}, "fake.mean", "sts-b")
LIBRARY = Reference(
    "one.json", "a library", "Spearman", "score it", (CELL,), version="2.0"
)
AUTHORS = replace(
    LIBRARY,
    file="two.json",
    authors_of="Nobody et al.",
    tolerance=0.01,
    reason="two digits",
)
COMPARED = [
    (
        AUTHORS,
        [
            ReferenceScore(AUTHORS, CELL, "all", 60.0, 60.007, "match"),
            ReferenceScore(AUTHORS, CELL, "all", 60.0, 61.0, "differs"),
        ],
    ),
    (
        LIBRARY,
        [
            ReferenceScore(LIBRARY, CELL, "all", 60.0, 60.0, "exact"),
            ReferenceScore(LIBRARY, CELL, "all", 60.0, None, "not run"),
        ],
    ),
]


def test_scores_of_other_programs_beside_ours_are_golden(approved):
    page = conformance_page(COMPARED, Results({})).text
    assert page == approved("golden/conformance.md")


def test_programs_of_authors_and_libraries_are_counted_apart(tmp_path):
    folder = results_folder(tmp_path, registry(FakeConfig()), Results({}))
    folder.compared_references = COMPARED
    _, authors, libraries, _ = tallies(folder)
    assert (authors.number, authors.total) == ("1", "of 2")
    assert "authors" in authors.what
    assert (libraries.number, libraries.total) == ("1", "of 1")
    assert "libraries" in libraries.what


def test_a_score_that_two_tables_publish_counts_once():
    results, found = committed_results(), load_registry()
    tables = {table.id: table for table in TABLES}
    first, second = (
        [
            c
            for c in reproductions(tables[name], results, found).values()
            if c.cell.row.id == row
        ]
        for name, row in (("mteb.1-12-75", "minilm"), ("mteb.0-0-2", "minilm"))
    )
    assert different_scores(first) == len(first) == 14
    assert different_scores([*first, *second]) == len(second) == 16
    assert different_scores([replace(cell, scores=()) for cell in first]) == 0
