"""References: read by rule, compared with our records, and what they may confirm."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import made_record, results_of

from harness.core.errors import DataError
from harness.registry import load_registry
from harness.results.conformance import (
    NO_SCORE,
    NO_TASK,
    TOLERANCE,
    compare_reference,
    confirmed,
    read_reference,
)
from harness.results.folder import ResultsFolder
from harness.results.questions import Trial
from harness.results.verdict import CellState

COMMITTED = Path(__file__).resolve().parents[2] / "results"
REGISTRY = load_registry()
MEAN, CLS = "bert-mini.mean", "bert-mini.cls"
CELL = {"method": MEAN, "task": "sts12.senteval", "scores": {"all": 41.5}}
SMALL = {"program": "theirs", "what": "Spearman x100", "command": "run it", "cells": [CELL]}


def written(folder, **changes):
    path = folder / "theirs.json"
    path.write_text(json.dumps({**SMALL, **changes}), encoding="utf-8")
    return path


def cell(**changes):
    return [{k: v for k, v in {**CELL, **changes}.items() if v is not None}]


# Reading


def test_a_reference_has_a_tolerance_for_its_cells_that_have_none(tmp_path):
    cells = [*cell(tolerance=0.03), *cell(method=CLS)]
    read = read_reference(written(tmp_path, cells=cells, reason="noise", version="1.0"))
    assert (read.file, read.tolerance, read.version) == ("theirs.json", TOLERANCE, "1.0")
    assert list(map(read.tolerance_of, read.cells)) == [0.03, TOLERANCE]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"program": " "}, "theirs.json: program: wanted a text"),
        ({"command": 3}, "theirs.json: command: wanted text, found 3"),
        ({"comand": "x"}, "theirs.json: unknown key 'comand'"),
        ({"tolerance": 0.03}, "theirs.json: reason: a tolerance other than 0.001 needs one"),
        ({"tolerance": -1, "reason": "x"}, "theirs.json: tolerance: wanted points above 0"),
        ({"cells": []}, "theirs.json: cells: wanted one table or more"),
        ({"cells": [*cell(), *cell()]}, f"theirs.json: cells: {MEAN} sts12.senteval all stands"),
        ({"cells": cell(method="bert mini")}, "theirs.json, cell 1: method: 'bert mini' is no"),
        ({"cells": cell(task=None)}, "theirs.json, cell 1: wanted method and task, or training"),
        ({"cells": cell(training="x")}, "theirs.json, cell 1: wanted method and task, or"),
        ({"cells": cell(scores={})}, "theirs.json, cell 1: scores: wanted at least one number"),
        ({"cells": cell(scores={"all": "41"})}, "cell 1: scores.all: wanted a number, found '41'"),
        ({"cells": cell(scores={"all": float("nan")})}, "cell 1: scores.all: wanted a finite"),
        ({"cells": cell(scores={"a b": 1.0})}, "cell 1: scores: 'a b' is no score"),
        ({"cells": cell(tolerance=0)}, "theirs.json: tolerance: wanted points above 0"),
        (
            {"cells": cell(method=None, task=None, training="x")},
            "cell 1: scores: 'all' is no score",
        ),
    ],
)
def test_a_mistake_is_refused_by_file_cell_and_key(tmp_path, changes, wanted):
    with pytest.raises(DataError, match=r"^[^\n]+$") as refused:
        read_reference(written(tmp_path, **changes))
    assert wanted in str(refused.value)


# Comparing


def record(score, method=MEAN, task="sts12.senteval", description=None):
    written = repr(REGISTRY.parse(method)) if description is None else description
    spearman = {"all": score, "groups": {"a": score, "b": score}}
    return made_record(method, task, {"spearman": spearman}, repr=written)


def beside(reference, *records, trials=None):
    return compare_reference(reference, results_of(*records), trials or {}, REGISTRY)


def test_a_difference_has_the_verdict_of_a_deterministic_cell(tmp_path):
    read = read_reference(written(tmp_path))
    for ours, state, agrees in (
        (41.5009, CellState.EXACT, True),
        (41.504, CellState.EXACT, False),
        (41.46, CellState.MATCH, False),
        (40.0, CellState.DIFFERS, False),
    ):
        [score] = beside(read, record(ours))
        assert (score.ours, score.state, score.agrees) == (ours, state, agrees)
        assert score.difference == pytest.approx(ours - 41.5, abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "records", "state"),
    [
        ({}, [], CellState.NOT_RUN),
        ({}, [record(41.5, description="another")], CellState.STALE),
        ({}, [record(None)], NO_SCORE),
        ({"task": "nowhere"}, [], NO_TASK),
        ({"method": "nothing.mean"}, [], CellState.NO_METHOD),
    ],
)
def test_what_was_not_measured_says_why_and_never_agrees(tmp_path, changes, records, state):
    read = read_reference(written(tmp_path, cells=cell(**changes)))
    [score] = beside(read, *records)
    assert (score.ours, score.state, score.agrees, score.difference) == (None, state, None, None)


def test_a_training_is_found_by_its_command(tmp_path):
    cells = [{"training": "it --from there", "scores": {"best": 50.0, "loss": 1.5}}]
    read = read_reference(written(tmp_path, cells=cells))
    assert [score.state for score in beside(read)] == [CellState.NOT_RUN] * 2
    trial = Trial(0, 40.0, 50.0, 100, 100, 1.6, 9.0, {}, {}, {})
    best, loss = beside(read, trials={"it --from there": [trial]})
    assert (best.agrees, loss.agrees) == (True, False)


# What agrees is confirmed, and nothing else


def test_a_protocol_is_confirmed_where_all_of_its_scores_agree(tmp_path):
    cells = [*cell(), *cell(method=CLS), *cell(method=MEAN, task="sts13.senteval")]
    read = read_reference(written(tmp_path, cells=cells))
    fine = [record(41.5), record(41.5, CLS), record(41.5, task="sts13.senteval")]

    def poolings(records):
        results = results_of(*records)
        scores = compare_reference(read, results, {}, REGISTRY)
        return {procedure.pooling for procedure in confirmed(scores, results, REGISTRY)}

    assert poolings(fine) == {"mean", "cls"}
    assert poolings([*fine[:2], replace(record(41.6), task="sts13.senteval")]) == {"cls"}
    assert poolings(fine[:1]) == {"mean"}
    assert poolings([]) == set()


@pytest.fixture(scope="module")
def folder():
    return ResultsFolder(COMMITTED)


def test_every_committed_score_that_was_measured_equals_theirs(folder):
    every = [score for _, scores in folder.compared for score in scores]
    assert [score for score in every if score.agrees is False] == []
    assert sum(score.agrees is True for score in every) >= 54


def test_references_are_described_and_their_tolerances_are_few(folder):
    described = (COMMITTED / "references" / "README.md").read_text(encoding="utf-8")
    for reference, scores in folder.compared:
        assert f"`{reference.file}`" in described
        for score in scores:
            tolerance, trained = reference.tolerance_of(score.cell), "accuracy" in score.score
            ties = score.cell.task.startswith("sts12")
            assert tolerance <= (0.5 if trained or score.score == "f1" else 0.03)
            assert tolerance == TOLERANCE or ties or tolerance == 0.5
    assert len(folder.compared) >= 3


def test_what_is_marked_as_confirmed_equals_a_reference_of_its_protocol(folder):
    """A reference of equal pooling, post-processor, text form, metric and aggregation is here."""
    cells = [cell for table in folder.tables for cell in table.cells]
    cells = [cell.id for cell in cells if cell.evidence == "confirmed"]
    unbacked = [cell for cell in cells if folder.explain(cell).confirmed_by is None]
    assert cells
    assert unbacked == []
