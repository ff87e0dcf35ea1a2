"""The end of a reproduction: what agrees with the papers, what differs, what did not run."""

import re
import shutil
from pathlib import Path

import pytest
from fakes import (
    BROKEN,
    NOT_HERE,
    OTHER,
    TOY,
    FakeConfig,
    library,
    method,
    published_row,
    published_table,
    registry,
    results_folder,
    snapshot,
)

from harness.cli.summary import (
    LINES_SHOWN,
    lines_of_claims,
    lines_of_failures,
    lines_of_moves,
    lines_of_numbers,
)
from harness.evaluation.run import Outcome, RunContext, execute
from harness.evaluation.select import planned_cells
from harness.gate.outcome import CheckResult, State
from harness.results.encoder_sizes import EncoderSize
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.published import Column
from harness.results.records import Cell
from harness.results.store import Store

ROOT = Path(__file__).resolve().parents[2]
FOUND = registry(FakeConfig())
ABSENT = method(encoder=FakeConfig("absent"))
COLUMNS = (
    Column("toy", "Toy", task="toy"),
    Column("sts-b", "STS-B", task="sts-b"),
    Column("avg", "Avg", average_of=("toy", "sts-b")),
)


@pytest.fixture
def outcomes_of_fakes(tmp_path):
    """What became of the fakes on two tasks, one of them with an encoder that is not here."""
    FOUND.encoders["absent"] = FakeConfig("absent")
    FOUND.methods[ABSENT.id] = ABSENT
    planned = [
        *planned_cells([ABSENT], [TOY], 1),
        *planned_cells(
            [method("mean"), method("cls")], [TOY, OTHER, NOT_HERE, BROKEN], 1
        ),
    ]
    store = Store(tmp_path / "runs")
    return list(execute(planned, RunContext(library(tmp_path), store)))


def table_off_by(outcomes_of_fakes, off):
    """A table that differs from what was measured by so many points."""
    score = {
        (o.cell.method, o.cell.task): o.record.scores["spearman"]["all"]
        for o in outcomes_of_fakes
        if o.record
    }
    a, b = score["fake.mean", "toy"], score["fake.mean", "sts-b"]
    numbers = {
        "fake.mean": {"toy": a, "sts-b": b + off, "avg": (a + b) / 2 + 0.03},
        "absent.mean": {"toy": 1, "sts-b": 2, "avg": 3},
        "fake.pooler": {"toy": 4},
    }
    rows = []
    for name, points in numbers.items():
        values = {column: f"{value:.2f}" for column, value in points.items()}
        rows.append(published_row(name, values, method=name))
    return published_table(COLUMNS, rows)


@pytest.mark.parametrize(
    ("off", "close", "differ"),
    [(0.3, 1, []), (-0.3, 1, []), (3, 0, ["-3.0"]), (-3, 0, ["+3.0"])],
)
def test_published_numbers_are_counted_by_what_became_of_them(
    outcomes_of_fakes, tmp_path, off, close, differ
):
    runs, table = tmp_path / "runs", table_off_by(outcomes_of_fakes, off)
    measured = results_folder(runs, FOUND, Results.read(Store(runs)), table)
    lines = lines_of_numbers(outcomes_of_fakes, measured)
    assert lines[:6] == [
        "7 published numbers:",
        "  2 reproduced (1 exact, 1 match)",
        f"  {close} close",
        f"  {len(differ)} differ",
        "  0 undecided",
        # Of the absent encoder one task was asked for, and with it the average; nobody
        # ran the other one, nor the pooler.
        "  4 not measured (2 not run, 2 asset missing)",
    ]
    assert len(lines) == 6 + len(differ)
    for line, points in zip(lines[6:], differ, strict=True):
        assert line.startswith(f"  differs: toys/fake.mean/sts-b: {points}")
        assert line.endswith(f"harness explain toys/fake.mean/sts-b --results {runs}")


def test_what_did_not_run_is_counted_by_what_would_get_it(outcomes_of_fakes):
    head, *lines = lines_of_failures(outcomes_of_fakes)
    assert head == "5 cells did not run:"
    assert lines[0] == "  2 asset missing: harness fetch sts-raw"
    assert lines[1].startswith("  2 failed: ")
    assert lines[2:] == ["  1 asset missing: harness fetch absent"]


def test_of_many_reasons_the_frequent_ones_are_shown_and_the_rest_counted():
    many = [
        Outcome(
            cell=Cell("a.mean", f"task-{i}-{j}"),
            status="asset missing",
            remedy=f"harness fetch {i}",
        )
        for i in range(LINES_SHOWN + 3)
        for j in range(i + 1)
    ]
    head, first, *_, last = lines_of_failures(many)
    assert head == f"{len(many):,} cells did not run:"
    assert (
        first == f"  {LINES_SHOWN + 3} asset missing: harness fetch {LINES_SHOWN + 2}"
    )
    assert last.startswith("  and 3 more: harness list assets")


def test_what_moved_is_named_and_what_has_no_record_is_counted(tmp_path):
    agrees = CheckResult(name="a", state=State.AGREES, why="")
    moved = CheckResult(name="b", state=State.UNKNOWN, why="0.5000 points")
    new = CheckResult(name="c", state=State.NO_BASELINE, why="")
    committed = ResultsFolder(tmp_path, FOUND)
    lines = lines_of_moves([agrees, moved, new], committed)
    assert lines == [
        f"1 of 2 agree with {tmp_path}/records",
        "1 have no committed record to agree with (--update makes them)",
        "  moved: b: 0.5000 points",
    ]


def test_tested_claims_are_counted_by_the_size_of_the_encoder_and_own_records_first(
    tmp_path,
):
    empty, packaged = ResultsFolder(tmp_path), ResultsFolder(ROOT / "results")
    lines = lines_of_claims(empty, packaged)  # nothing was measured there
    assert lines[0] == f"claims of papers, tested by {ROOT}/results/records:"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for size, line in zip(EncoderSize, lines[1:-1], strict=True):
        title, _, outcomes = line.strip().partition(": ")
        assert title == size.heading
        assert re.search(
            rf"claims of papers, tested on {size}[^|]*\|[^|]*\| {outcomes} *\|", readme
        )
    assert lines_of_claims(packaged, packaged) == lines
    assert lines_of_claims(empty, empty) == []


def test_a_second_reproduction_of_what_is_carried_changes_no_file_and_says_so(
    call, tmp_path, monkeypatch, few_packaged_results
):
    shutil.copytree(few_packaged_results / "papers", tmp_path / "results" / "papers")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    command = (
        "reproduce -m glove-mini.mean glove-mini.mean+sn@target -t mini-qnli sts-b"
    )
    first = call(command)
    assert first.status == 0
    assert "cells: 2 asset missing, 2 measured" in first.out
    assert "  2 asset missing: harness fetch sts-raw" in first.out
    before = snapshot(tmp_path)
    second = call(command)
    assert second.status == 0
    assert "cells: 2 done, 2 asset missing" in second.out
    tables = "tables: runs/LEADERBOARD.md, runs/tables, runs/site"
    assert second.out.endswith(f"{tables}\n")
    assert snapshot(tmp_path) == before


def test_a_limited_reproduction_is_kept_apart_and_says_what_it_lacks(toys, tmp_path):
    answer = toys("reproduce -m fake.mean -t toy --limit 12 --jobs 1")
    assert answer.status == 0
    assert "cells: 1 measured" in answer.out
    assert "the measured cell has no published number" in answer.out
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["limit-12"]
    assert (tmp_path / "runs/limit-12/records/fake/fake.mean/toy.limit-12").is_dir()
