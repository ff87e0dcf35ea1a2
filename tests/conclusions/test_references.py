"""References: compared with our records, and what they may confirm."""

from dataclasses import replace

import pytest
from committed import FOLDER
from fakes import made_record, results_of

from harness.conclusions.conformance import (
    NO_SCORE,
    NO_TASK,
    Reference,
    ReferenceCell,
    compare_reference,
    confirmed_by,
    find_confirmations,
)
from harness.registry import load_registry
from harness.report.sentences import evidence_in_words
from harness.results.verdict import CellState

REGISTRY = load_registry()
MEAN, CLS = "bert-mini.mean", "bert-mini.cls"
CELL = ReferenceCell({"all": 41.5}, MEAN, "sts12.senteval")
THEIRS = Reference("theirs.json", "theirs", "Spearman x100", "run it", (CELL,))


# Comparing


def record(score, method=MEAN, task="sts12.senteval", description=None):
    written = REGISTRY.parse(method).identity if description is None else description
    spearman = {"all": score, "groups": {"a": score, "b": score}}
    return made_record(method, task, {"spearman": spearman}, identity=written)


@pytest.mark.parametrize(
    ("changes", "records", "ours", "state", "agrees"),
    [
        ({}, [record(41.5009)], 41.5009, CellState.EXACT, True),
        ({}, [record(41.504)], 41.504, CellState.EXACT, False),
        ({}, [record(41.46)], 41.46, CellState.MATCH, False),
        ({}, [record(40.0)], 40.0, CellState.DIFFERS, False),
        ({}, [], None, CellState.NOT_RUN, None),
        ({}, [record(41.5, description="another")], None, CellState.STALE, None),
        ({}, [record(None)], None, NO_SCORE, None),
        ({"task": "nowhere"}, [], None, NO_TASK, None),
        ({"method": "nothing.mean"}, [], None, CellState.NO_METHOD, None),
    ],
)
def test_a_score_has_the_verdict_of_a_deterministic_cell_or_says_why_it_has_none(
    changes, records, ours, state, agrees
):
    reference = replace(THEIRS, cells=(replace(CELL, **changes),))
    results = results_of(*records, found=REGISTRY)
    [score] = compare_reference(reference, results, {}, REGISTRY)
    assert (score.ours, score.state, score.agrees) == (ours, state, agrees)
    difference = None if ours is None else pytest.approx(ours - 41.5, abs=1e-9)
    assert score.difference == difference


# What agrees is confirmed, and nothing else


def test_a_protocol_is_confirmed_where_all_of_its_scores_agree():
    cells = (CELL, replace(CELL, method=CLS), replace(CELL, task="sts13.senteval"))
    reference = replace(THEIRS, cells=cells)
    fine = [record(41.5), record(41.5, CLS), record(41.5, task="sts13.senteval")]

    def poolings(records):
        results = results_of(*records)
        scores = compare_reference(reference, results, {}, REGISTRY)
        return {
            procedure.pooling
            for procedure in find_confirmations(scores, results, REGISTRY)
        }

    assert poolings(fine) == {"mean", "cls"}
    assert poolings([*fine[:2], replace(record(41.6), task="sts13.senteval")]) == {
        "cls"
    }
    assert poolings(fine[:1]) == {"mean"}
    assert poolings([]) == set()


def test_every_committed_score_but_an_inconclusive_one_equals_theirs():
    every = [score for _, scores in FOLDER.compared_references for score in scores]
    others = [score for score in every if score.agrees is False]
    assert [(score.cell.n, score.state) for score in others] == [(3, "inconclusive")]
    assert sum(score.agrees is True for score in every) >= 54


def reference_of(cell):
    """What confirms the protocol of a published cell."""
    return confirmed_by(cell, FOLDER.confirmations, FOLDER.records)


def test_what_confirms_a_row_is_named_and_by_its_authors():
    """Two programs gave SimCSE's means; mteb's authors wrote one of them, SimCSE's the other."""
    for cell, program in {
        "simcse.t5/simcse-bert-base-unsup/sts16": "princeton-nlp/SimCSE evaluation.py",
        "mteb.1-12-75/minilm/sts16": "mteb, its STS tasks",
    }.items():
        words = evidence_in_words(
            FOLDER.published_number(cell), reference_of(FOLDER.published_number(cell))
        )
        assert words.startswith(f"confirmed against the authors' code, {program}")
    cells = [cell for table in FOLDER.tables for cell in table.numbers]
    confirmed = [cell for cell in cells if cell.evidence == "confirmed"]
    assert confirmed
    for cell in confirmed:
        assert reference_of(cell).is_by_authors_of(cell.table), cell.id
    [cell] = [
        replace(c, table=replace(c.table, paper="Another")) for c in confirmed[:1]
    ]
    words = evidence_in_words(cell, reference_of(confirmed[0]))
    assert words.startswith("confirmed against another program, ")
