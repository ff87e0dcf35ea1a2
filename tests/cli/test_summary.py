"""What a run says: its scores beside published numbers, what moved, what did not run."""

import re

import numpy as np
import pytest
from committed import TABLES
from fakes import made_record

from harness.cli.summary import (
    LINES_SHOWN,
    by_cell,
    count_in_words,
    lines_of_differing_numbers,
    lines_of_failures,
    lines_of_moves,
    numbers_beside,
    score_in_words,
    score_table,
)
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.run import Outcome, RunContext, execute
from harness.evaluation.select import planned_cells
from harness.gate.check import Check, State
from harness.registry import load_registry
from harness.report.papers import printed_number
from harness.resolve import Resolver
from harness.results.records import Cell
from harness.results.reproduction import LOW_COVERAGE
from harness.results.store import Store

REGISTRY = load_registry()
CELLS = {cell.id: cell for table in TABLES for cell in table.cells}
STS = CELLS["mteb.1-12-75/minilm/sts-b"]


def measured(method, task, score, **facts):
    """A record of a cell with this score, of the method as it is registered."""
    scores = {"spearman": {"all": score, "wmean": 40.0}, "pearson": {"all": score - 1}}
    identity = REGISTRY.parse(method).identity
    return made_record(method, task, scores, identity=identity, facts=facts)


def shown(*records):
    """The published numbers of records, and the lines of the table."""
    numbers = numbers_beside(records, TABLES, REGISTRY)
    return numbers, score_table(by_cell(records), numbers).splitlines()


# Scores beside published numbers


@pytest.mark.parametrize(
    ("off", "verdict"), [(0, "exact"), (0.3, "close"), (-0.3, "close"), (3, "differs")]
)
def test_a_score_stands_beside_its_published_number_and_verdict(off, verdict, tmp_path):
    numbers, table = shown(measured(STS.method, STS.task, STS.points + off))
    assert table[2] == f"{STS.method}:"
    measured_score = f"{STS.points + off:.4f}"
    published = [STS.task, "spearman", "all", measured_score, printed_number(STS)]
    assert [*published, verdict, "mteb.1-12-75"] in [row.split() for row in table]
    assert f"{verdict}" in count_in_words(numbers, 1)
    lines = lines_of_differing_numbers(numbers, tmp_path)
    explained = f"  differs: {STS.id}: +{off}.00 points; why: harness explain {STS.id}"
    assert any(line.startswith(explained) for line in lines) == (verdict == "differs")


def test_a_number_of_another_score_is_compared_with_that_score():
    """Spearman 82.03 says nothing of a published 82.74 that is a Pearson correlation."""
    cells = [
        next(
            cell
            for cell in CELLS.values()
            if cell.method and cell.task and wanted in (cell.metric, cell.aggregation)
        )
        for wanted in ("pearson", "wmean")
    ]
    for cell, score in zip(cells, (49.0, 40.0), strict=True):
        numbers, _ = shown(measured(cell.method, cell.task, 50.0))
        [number] = [number for number in numbers if number.cell == cell]
        assert number.measured == score


def test_what_has_no_published_number_is_shown_without():
    records = [measured("minilm.mean", "mini-sts", 50.0)]
    records.append(measured("bert-mini.cls", STS.task, 9.0))
    numbers, table = shown(*records)
    assert [row.split() for row in table] == [
        ["task", "metric", "measured"],
        table[1].split(),
        ["minilm.mean:"],
        ["mini-sts", "spearman", "50.00"],
        ["bert-mini.cls:"],
        ["sts-b", "spearman", "9.00"],
    ]
    assert count_in_words(numbers, 2) == (
        "None of the 2 measured cells has a published number."
    )
    assert count_in_words([], 1) == "The measured cell has no published number."


def test_an_average_is_judged_once_all_of_its_tasks_are_there():
    cell = next(
        c
        for c in CELLS.values()
        if c.average_of and c.method and c.metric == "spearman"
    )
    records = [measured(cell.method, task, 50.0) for task in cell.average_of]
    numbers, table = shown(*records)
    assert cell in [number.cell for number in numbers]
    assert any(row.startswith(f"average of {len(cell.average_of)} ") for row in table)
    numbers, _ = shown(*records[1:])
    assert cell not in [number.cell for number in numbers]


def test_few_known_words_and_undefined_scores_are_told_beside_a_score():
    low, enough = (
        measured("glove-mini.mean", task, 10.41, coverage=coverage)
        for task, coverage in (
            ("mini-sts", LOW_COVERAGE - 0.001),
            ("mini-sick", LOW_COVERAGE),
        )
    )
    published = measured(STS.method, STS.task, 10.41, coverage=0.24)
    assert score_in_words(low) == "Spearman 10.41 (85 % of tokens known)"
    assert score_in_words(enough) == "Spearman 10.41"
    undefined = made_record("a.mean", "t", {"auc": None}, facts={"undefined": "equal"})
    assert score_in_words(undefined) == "undefined (equal)"
    _, table = shown(low, enough, published)
    assert sum("(85 % of tokens known)" in row for row in table) == 1
    assert any("(24 % of tokens known)" in row for row in table)


# Moves and failures


def test_what_did_not_run_is_counted_by_what_would_get_it():
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
    count = LINES_SHOWN + 3
    assert first == f"  {count} asset missing: harness fetch {count - 1}"
    assert last.startswith("  and 3 more: harness list assets")


def test_what_moved_is_named_and_what_has_no_record_is_counted(tmp_path):
    agrees = Check(name="a", state=State.AGREES, why="")
    moved = Check(name="b", state=State.UNKNOWN, why="0.5000 points")
    new = Check(name="c", state=State.NO_BASELINE, why="")
    assert lines_of_moves([agrees, moved, new], tmp_path) == [
        f"1 of 2 agrees with {tmp_path}/records",
        f"1 cell not in {tmp_path}/records yet; --update adds what is new",
        "  moved: b: 0.5000 points",
    ]


# The coverage of word vectors


def test_a_file_that_lacks_the_words_of_a_task_is_an_error_unless_allowed(tmp_path):
    words = ("a", "the", "man", "dog")
    vectors = np.eye(len(words), 4, dtype=np.float32)
    np.savez(tmp_path / "few.npz", words=np.array(words), vectors=vectors)
    resolver = Resolver.from_options(
        Places(tmp_path / "cache"), [f"few={tmp_path / 'few.npz'}"]
    )
    registry = resolver.registry
    loader = TaskLoader(resolver.places, registry.corpora)
    task, store = registry.tasks["mini-sts"], Store(tmp_path / "runs")
    texts = dict.fromkeys(loader.texts(task).pairs.sentences)
    known = [[w.lower() in words for w in re.findall(r"\w+|[^\w\s]", t)] for t in texts]
    share = sum(map(sum, known)) / sum(map(len, known))
    planned = planned_cells([registry.parse("few.mean")], [task], 1)
    refusing = RunContext(loader, store)
    allowing = RunContext(loader, store, min_coverage=0)
    # Not measured; measured since it is allowed; done, and not allowed any more; done
    # and allowed.
    statuses = []
    for context in (refusing, allowing, refusing, allowing):
        [outcome] = execute(planned, context)
        statuses.append(outcome.status)
        if outcome.record:
            assert outcome.record.facts["coverage"] == round(share, 4)
        else:
            assert "wanted a vector for 20 % of the tokens" in outcome.message
            assert "allow it with --min-coverage 0" in outcome.message
    assert statuses == ["failed", "measured", "failed", "done"]
