"""The printed tables as approved: one made-up table with every word, and the pages around it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeConfig, made_record, registry, results_folder, results_of

from harness.core.toml import read_rows
from harness.core.types import Record
from harness.registry import load_registry
from harness.report.explanation import render_explanation
from harness.report.front import tallies
from harness.report.leaderboard import encoder_page, leaderboard
from harness.report.pages import conformance_page, traps_page
from harness.report.papers import EVIDENCE_MARKS, VERDICT_MARKS, paper_page
from harness.report.sentences import coverage_note
from harness.results.conformance import Reference, ReferenceCell, ReferenceScore
from harness.results.differences import ITEMS_OF_SEED_0, Difference, neighbours
from harness.results.index import Results
from harness.results.published import EVIDENCE
from harness.results.published_tables import load_table
from harness.results.questions import Trap
from harness.results.records import Cell
from harness.results.scorings import SEVEN, SIMCSE
from harness.results.store import Store
from harness.results.verdict import VERDICTS, CellState

GOLDEN = Path(__file__).parent / "golden"
REGISTRY = registry(FakeConfig())
# The pages of papers are handed records for their digest: none, so that only tables are
# held.
NO_RECORDS = Results({})
LEFT = "of the tokens have a vector: a score is of what is left of the sentences"
# Words of runs, of fits and of other files, which have tests of their own.
ELSEWHERE = {CellState.ASSET_MISSING, CellState.OTHER_CORPUS, CellState.OTHER_DATA}

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


def seven(method: str, first: float, *but: str) -> list[Record]:
    """The seven tasks of the leaderboard but some, each a point above the one before it."""
    scores = {
        task: correlations(first + i, first + i - 5) for i, task in enumerate(SEVEN)
    }
    return [
        replace(record(method, SIMCSE.task(task), score), identity="")
        for task, score in scores.items()
        if task not in but
    ]


def in_order(records: Sequence[Record]) -> Results:
    """Records in memory, in the order in which a store reads them."""
    path = Store(Path()).path
    return results_of(
        *sorted(records, key=lambda r: path(Cell(r.method, r.task, r.seed)))
    )


@pytest.fixture
def folder(tmp_path):
    """A results folder with the synthetic table and the records under it."""
    table = load_table(GOLDEN / "synthetic.toml", REGISTRY)
    return results_folder(tmp_path, REGISTRY, in_order(measured()), table)


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


def test_an_explanation_says_of_how_many_tokens_a_score_is(folder):
    explanation = (
        render_explanation(folder.explain("synthetic/plain/avg"), folder.registry)
        + "\n"
    )
    assert f"\nword vectors: 46 % {LEFT}\n" in explanation


def test_traps_are_golden(approved, folder):
    folder.traps = read_rows(Trap, GOLDEN / "traps.toml", "trap")
    assert traps_page(folder) == approved(GOLDEN / "protocols.md")


def test_leaderboard_is_golden(approved, folder):
    """Complete rows, of which two are tied, a fitted one, a seeded one with a hole, a stray one."""
    seeded = [
        replace(one, seed=seed) for seed in (0, 1) for one in seven(SEEDED, 70.0 + seed)
    ]
    holes = [one for one in seeded if one.task != "sts14.senteval"]
    stray = replace(seven(PLAIN, 30.0)[5], method="words.mean")
    undefined = replace(
        seven(CLS, 0.0)[0], method="words.mean", scores=correlations(None)
    )
    clocks, lacking = {"encode": 0.3, "apply": 0.03}, {"sts12.senteval": 0.46}
    timed = [
        replace(
            one,
            timings=clocks,
            facts={"distinct_sentences": 60, "coverage": lacking.get(one.task, 0.98)},
        )
        for one in (*seven(PLAIN, 60.0), *seven(CLS, 60.1))
    ]
    complete = [*timed, *seven(CENTRED, 65.0)]
    raw = [
        replace(record(PLAIN, t, correlations(50.0, 40.0)), identity="") for t in SEVEN
    ]
    records = [
        *complete,
        *raw,
        *holes,
        *seven("fake.last2", 55.0, "sick-r"),
        stray,
        undefined,
    ]
    pairs = neighbours({CENTRED: 68.0, CLS: 63.1, PLAIN: 63.0}, SIMCSE)
    stored = {
        contrast: Difference(contrast=contrast, points=points, p=p, by=ITEMS_OF_SEED_0)
        for (contrast, points), p in zip(pairs.items(), (0.001, 0.3), strict=True)
    }
    measured_folder = results_folder(Path(), REGISTRY, in_order(records))
    measured_folder.differences = stored
    page = leaderboard(measured_folder) + encoder_page("fake", measured_folder)
    assert page == approved(GOLDEN / "leaderboard.md")


def test_a_leaderboard_of_embedded_tasks_alone_is_golden(approved):
    gold = {
        "gold_edit_distance": -16.2,
        "gold_edit_distance_near": -25.6,
        "edit_distance": -18.0,
    }
    records = [
        record(CLS, "mini-sts", correlations(70.0)),
        record(CLS, "mini-qnli", {"auc": 66.0}),
        record(PLAIN, "mini-sick", correlations(60.0)),
        record(CENTRED, "mini-sts", correlations(80.0)),
        record(CENTRED, "mini-lexical", gold),
    ]
    page = leaderboard(results_folder(Path(), load_registry(), in_order(records)))
    assert page == approved(GOLDEN / "embedded.md")
    empty = results_folder(Path(), load_registry(), NO_RECORDS)
    assert "Embedded tasks" not in leaderboard(empty)
