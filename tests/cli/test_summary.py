"""What a run says: its scores beside published numbers, what moved, what did not run."""

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
    numbers_beside,
    score_in_words,
    score_table,
)
from harness.evaluation.run import Outcome
from harness.registry import load_registry
from harness.results.index import LOW_COVERAGE
from harness.results.records import Cell
from harness.results.store import Store

REGISTRY = load_registry()
CELLS = {cell.id: cell for table in TABLES for cell in table.numbers if cell.method}
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
    published = [STS.task, "spearman", "all", measured_score, STS.shown]
    assert [*published, verdict, "mteb.1-12-75"] in [row.split() for row in table]
    assert verdict in count_in_words(numbers, 1)
    lines = lines_of_differing_numbers(numbers, tmp_path)
    explained = f"  differs: {STS.id}: +{off}.00 points; why: harness explain {STS.id}"
    assert any(line.startswith(explained) for line in lines) == (verdict == "differs")


@pytest.mark.parametrize(("other", "score"), [("pearson", 49.0), ("wmean", 40.0)])
def test_a_number_of_another_score_is_compared_with_that_score(other, score):
    """Spearman 82.03 says nothing of a published 82.74 that is a Pearson correlation."""
    cell = next(
        cell
        for cell in CELLS.values()
        if cell.task and other in (cell.metric, cell.aggregation)
    )
    numbers, _ = shown(measured(cell.method, cell.task, 50.0))
    [number] = [number for number in numbers if number.number == cell]
    assert number.measured == score


def test_an_average_is_judged_once_all_of_its_tasks_are_there():
    cell = next(
        cell for cell in CELLS.values() if cell.average_of and cell.metric == "spearman"
    )
    records = [measured(cell.method, task, 50.0) for task in cell.average_of]
    numbers, table = shown(*records)
    assert cell in [number.number for number in numbers]
    assert any(row.startswith(f"average of {len(cell.average_of)} ") for row in table)
    numbers, _ = shown(*records[1:])
    assert cell not in [number.number for number in numbers]


def test_few_known_words_and_undefined_scores_are_told_beside_a_score():
    share = LOW_COVERAGE - 0.001
    low = measured("glove-mini.mean", "mini-sts", 10.41, coverage=share)
    enough = measured("glove-mini.mean", "mini-sick", 10.41, coverage=LOW_COVERAGE)
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
    many = []
    for number in range(1, LINES_SHOWN + 4):
        remedy = f"harness fetch {number}"
        for task in range(number):
            cell = Cell("a.mean", f"task-{number}-{task}")
            many.append(Outcome(cell=cell, status="asset missing", remedy=remedy))
    _, first, *_, last = lines_of_failures(many)
    assert first == f"  {number} asset missing: {remedy}"
    assert last.startswith("  and 3 more: harness list assets")


# The coverage of word vectors


def test_a_file_that_lacks_the_words_of_a_task_is_an_error_unless_allowed(
    call, tmp_path
):
    words = ("a", "the", "man", "dog")
    vectors = np.eye(len(words), 4, dtype=np.float32)
    np.savez(tmp_path / "few.npz", words=np.array(words), vectors=vectors)
    command = "run -m few.mean -t mini-sts --encoder few=few.npz"
    # Not measured; measured since it is allowed; done, and not allowed any more.
    for options, status in (("", 1), ("--min-coverage 0", 0), ("", 1)):
        answer = call(f"{command} {options}")
        assert answer.status == status
        if status == 1:
            assert "wanted a vector for 20 % of the tokens" in answer.complaint
            assert "allow it with --min-coverage 0" in answer.complaint
    [record] = Store(tmp_path / "runs").records()
    assert 0 < record.facts["coverage"] < 0.2
