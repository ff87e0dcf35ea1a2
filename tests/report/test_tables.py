"""A made-up published table with every word of a cell, as approved.

The committed pages are approved, too: `harness report --check` says if one would change.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from committed import FOLDER
from fakes import FakeConfig, made_record, registry, results_folder, results_of

from harness.conclusions.conformance import Reference, ReferenceCell, ReferenceScore
from harness.core.types import Record
from harness.report.front import measured_most, tallies
from harness.report.pages import conformance_page
from harness.report.papers import EVIDENCE_MARKS, VERDICT_MARKS, paper_page
from harness.report.sentences import coverage_note
from harness.results.published import EVIDENCE
from harness.results.published_tables import load_table
from harness.results.verdict import VERDICTS, CellState

GOLDEN = Path(__file__).parent / "golden"
REGISTRY = registry(FakeConfig())
LEFT = "of the tokens have a vector: a score is of what is left of the sentences"
# Words of runs, of fits and of other files, which have tests of their own.
ELSEWHERE = {
    CellState.ASSET_MISSING,
    CellState.OTHER_CORPUS,
    CellState.OTHER_DATA,
    CellState.OTHER_WEIGHTS,
}

PLAIN, CENTRED, SEEDED = (
    "fake.mean",
    "fake.mean+centre@target",
    "fake.mean+stretch@target",
)
CLS, WELCH = "fake.cls", "fake.cls+stretch@target"


def correlations(every: float | None, wmean: float | None = None) -> Mapping[str, Any]:
    """The scores of a task; a single set has the same under both aggregations."""
    return {"spearman": {"all": every, "wmean": every if wmean is None else wmean}}


def record(
    method: str, task: str, scores: Mapping[str, Any], seed: int = 0, **facts: float
) -> Record:
    return made_record(
        method,
        task,
        scores,
        seed,
        identity=REGISTRY.parse(method).identity,
        facts=facts,
    )


def seeds(
    method: str, task: str, spread: float, *means: float, k: int = 5
) -> list[Record]:
    """k seeds whose scores lie evenly about the means, one spread apart."""
    steps = [(i - (k - 1) / 2) * spread for i in range(k)]
    scores = (correlations(*(round(m + step, 6) for m in means)) for step in steps)
    return [record(method, task, one, seed) for seed, one in enumerate(scores)]


def measured() -> list[Record]:
    """The records under the table: each number is the printed one and what its word asks for."""
    gold = {"gold_edit_distance": -24.61, "edit_distance": -20.0}
    words = {"word statistic": {"wmean": 1.5}}
    old = replace(
        record(CLS, "sts12", correlations(74.0, 64.0)), identity="another description"
    )
    return [
        record(
            PLAIN, "sts12", correlations(70.004, 60.04), coverage=0.98
        ),  # exact, match
        record(PLAIN, "sts-b", correlations(80.45) | words, coverage=0.46),  # close
        record(PLAIN, "sick-r", correlations(50.9)),  # differs
        record(PLAIN, "lexical", gold),
        record(
            CENTRED, "sts12", correlations(70.97, 60.6)
        ),  # match, close: both from below
        record(
            CENTRED, "sts-b", correlations(80.0)
        ),  # differs; and no SICK-R: no average
        *seeds(SEEDED, "sts12", 0.1, 71.0, 63.5),  # differs, from below and from above
        *seeds(SEEDED, "sts-b", 2.0, 82.5),  # inconclusive
        *seeds(SEEDED, "sick-r", 0.1, 52.0, k=3),  # too few seeds, in the average too
        *seeds(WELCH, "sts12", 0.1, 75.0, 63.2),  # differs from above, consistent
        *seeds(WELCH, "sts-b", 2.0, 84.0),  # inconclusive
        *seeds(WELCH, "sick-r", 0.1, 51.0),  # differs from below
        old,
        record(CLS, "sts-b", correlations(84.0)),
        record(CLS, "sick-r", correlations(54.0)),
        record("fake.first-last", "sts12", correlations(65.0), coverage=0.97),
        record("fake.first-last", "sts-b", correlations(85.0)),
        record("fake.first-last", "sick-r", correlations(None)),  # undefined
    ]


@pytest.fixture
def folder(tmp_path):
    """A results folder with the synthetic table and the records under it."""
    table = load_table(GOLDEN / "synthetic.toml", REGISTRY)
    return results_folder(
        tmp_path, REGISTRY, results_of(*measured(), found=REGISTRY), table
    )


def test_a_number_of_a_development_set_is_none_of_the_test_sets_of_readme():
    """`sts-b.senteval.dev` is scored on dev, though `sts-b` is among the seven tasks."""
    minilm = [
        reproduction
        for reproduction in FOLDER.all_reproductions
        if reproduction.number.task == "sts-b" and reproduction.scores
    ]
    for task, is_shown in (("sts-b", True), ("sts-b.senteval.dev", False)):
        moved = tuple(
            replace(each, number=replace(each.number, task=task)) for each in minilm
        )
        stand_in = SimpleNamespace(all_reproductions=moved, registry=FOLDER.registry)
        assert (measured_most(stand_in) is not None) == is_shown


def test_a_published_table_with_every_word_of_a_cell_is_golden(approved, folder):
    states = {cell.state for cell in folder.all_reproductions}
    assert states == set(CellState) - ELSEWHERE
    [table] = folder.tables
    assert paper_page(table, folder) == approved(GOLDEN / "synthetic.md")


def test_every_verdict_and_every_kind_of_evidence_has_its_own_mark():
    assert set(VERDICT_MARKS) == set(VERDICTS)
    assert set(EVIDENCE_MARKS) == set(EVIDENCE)
    marks = [*VERDICT_MARKS.values(), *EVIDENCE_MARKS.values()]
    assert len(set(marks)) == len(marks)


def test_a_score_beyond_the_tolerance_and_one_that_was_not_run_are_no_pass(folder):
    cell = ReferenceCell({"all": 60.0}, PLAIN, "sts-b")
    reference = Reference("one.json", "a library", "Spearman", "score it", (cell,))
    ours = {61.0: "differs", None: "not run"}
    scores = [
        ReferenceScore(reference, cell, "all", 60.0, *one) for one in ours.items()
    ]
    folder.compared_references = [(reference, scores)]
    counts = {row.cells[0].text: row.cells[1].text for row in tallies(folder).rows}
    assert counts["scores of libraries"] == "0 of 1"
    page = conformance_page(folder)
    assert "beyond the tolerance" in page
    assert "not run" in page


@pytest.mark.parametrize(
    ("shares", "note"),
    [
        ({"a": 1.0, "b": 1.0}, ""),
        ({"a": 0.97, "b": 0.9701}, "97 % of the tokens have a vector"),
        ({"a": 1.0, "b": 0.9996}, "over 99 % (b) to 100 % of the tokens have a vector"),
        ({"a": 0.9, "b": 0.46}, f"46 % (b) to 90 % {LEFT}"),
    ],
)
def test_a_note_names_the_task_of_which_least_is_known(shares, note):
    assert coverage_note(shares) == note
