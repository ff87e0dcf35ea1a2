"""Scores as rows: a cell and seed each, beside the number whose protocol it is measured under."""

import inspect
from dataclasses import fields, replace
from pathlib import Path

import pytest
from committed import TABLES, committed_results
from fakes import made_record, results_of

from harness.registry import load_registry
from harness.results.reproduction import reproductions
from harness.results.score_rows import ScoreRow, score_rows

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = load_registry()
SCORES = {
    "spearman": {"all": 82.0, "mean": 81.0, "groups": {"one": 80.0, "two": 82.5}},
    "alignment": None,
}


def record(method="minilm.mean", task="sts-b", seed=0, **change):
    made = made_record(
        method,
        task,
        SCORES,
        seed,
        identity=REGISTRY.parse(method).identity,
        timings={"encode": 1.5, "score": 0.25},
        environment={"device": "cpu", "threads": 2, "harness": "0.3.0", "commit": None},
        facts={"encoding": [{"dtype": "float32"}] * 2},
    )
    return replace(made, **change)


def rows(*records, **options):
    return score_rows(results_of(*records), TABLES, REGISTRY, **options)


def test_a_row_holds_the_parts_of_the_id_the_score_and_its_cost():
    [row] = rows(record("minilm:64.first-last+sn+natsv:6@target"))
    assert (row.encoder, row.pooling, row.post) == (
        "minilm:64",
        "first-last",
        "sn+natsv:6",
    )
    assert (row.fit_on, row.transductive, row.seed) == ("target", True, 0)
    assert (row.metric, row.aggregation, row.score, row.pairs) == (
        "spearman",
        "all",
        82.0,
        30,
    )
    assert (row.encode_seconds, row.fit_seconds, row.score_seconds) == (1.5, None, 0.25)
    assert (row.device, row.dtype) == ("cpu", "float32")
    assert (row.published, row.published_in, row.verdict) == (None, None, None)


def test_every_score_of_a_record_can_be_a_row_and_an_undefined_one_says_why():
    states = {
        (r.metric, r.aggregation): r.score for r in rows(record(), every_score=True)
    }
    assert states == {
        ("spearman", "all"): 82.0,
        ("spearman", "mean"): 81.0,
        ("spearman", "one"): 80.0,
        ("spearman", "two"): 82.5,
        ("alignment", ""): None,
    }
    lacking = {"spearman": {"all": None, "groups": {"one": None}}, "alignment": 1.0}
    why = record(scores=lacking, facts={"undefined": "no spread"})
    assert {r.metric + r.aggregation: r.state for r in rows(why, every_score=True)} == {
        "spearmanall": "undefined: no spread",
        "spearmanone": "undefined",
        "alignment": "measured",
    }


def test_what_is_published_stands_beside_the_score_of_its_own_protocol_alone():
    every = {
        r.aggregation: r
        for r in rows(record(), every_score=True)
        if r.metric == "spearman"
    }
    [cell] = [c for t in TABLES for c in t.cells if c.id == "mteb.0-0-2/minilm/sts-b"]
    row = every["all"]
    assert (row.published_in, row.published, row.evidence) == (
        cell.id,
        cell.points,
        cell.evidence,
    )
    assert row.difference == pytest.approx(82.0 - cell.points)
    assert row.verdict == "match"
    assert not [
        r for name, r in every.items() if name != "all" and r.published is not None
    ]


def test_a_score_with_a_published_number_can_have_a_row_beside_the_main_one():
    scores = {
        **SCORES,
        "pearson": {"all": 82.7406, "mean": 81.0, "groups": {"sts-b": 82.7406}},
    }
    main, other = rows(record(scores=scores), published_too=True)
    assert (main.metric, round(main.published, 2)) == ("spearman", 82.03)
    assert (other.metric, other.aggregation, other.score) == ("pearson", "all", 82.7406)
    assert (round(other.published, 4), other.verdict) == (82.7406, "exact")
    assert rows(record(scores=scores)) == [main]


def test_rows_agree_with_the_verdicts_of_the_tables():
    """Over the committed records: no verdict is joined to another protocol's score."""
    results = committed_results()
    joined = [
        r
        for r in score_rows(results, TABLES, REGISTRY, every_score=True)
        if r.published
    ]
    judged = {
        i: c for t in TABLES for i, c in reproductions(t, results, REGISTRY).items()
    }
    assert len(joined) >= 20
    for row in joined:
        cell = judged[row.published_in]
        assert (row.verdict, row.published) == (str(cell.state), cell.cell.points)
        assert row.score in cell.scores


def test_every_column_is_explained():
    attributes = inspect.getdoc(ScoreRow).partition("Attributes:")[2]
    assert not [
        f.name for f in fields(ScoreRow) if f"\n    {f.name}: " not in attributes
    ]
