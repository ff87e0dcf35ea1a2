"""Scores as rows: a cell and seed each, beside the number whose protocol it is measured under."""

import inspect
from dataclasses import fields, replace

from committed import TABLES, committed_results
from fakes import made_record, results_of

from harness.registry import load_registry
from harness.results.reproduction import reproductions
from harness.results.score_rows import ScoreRow, score_rows

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
    wanted = {
        "encoder": "minilm:64",
        "pooling": "first-last",
        "post": "sn+natsv:6",
        "fit_on": "target",
        "transductive": True,
        "seed": 0,
        "metric": "spearman",
        "aggregation": "all",
        "score": 82.0,
        "pairs": 30,
        "encode_seconds": 1.5,
        "fit_seconds": None,
        "score_seconds": 0.25,
        "device": "cpu",
        "dtype": "float32",
        "published": None,
        "verdict": None,
    }
    assert {name: getattr(row, name) for name in wanted} == wanted


def test_every_score_of_a_record_can_be_a_row_and_an_undefined_one_says_why():
    lacking = {"spearman": {"all": None, "groups": {"one": 80.0}}, "alignment": 1.0}
    made = record(scores=lacking, facts={"undefined": "no spread"})
    found = rows(made, every_score=True)
    assert {(r.metric, r.aggregation): (r.score, r.state) for r in found} == {
        ("spearman", "all"): (None, "undefined: no spread"),
        ("spearman", "one"): (80.0, "measured"),
        ("alignment", ""): (1.0, "measured"),
    }


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
        assert (row.verdict, row.published) == (str(cell.state), cell.number.points)
        assert row.score in cell.scores


def test_every_column_is_explained():
    attributes = inspect.getdoc(ScoreRow).partition("Attributes:")[2]
    assert not [
        f.name for f in fields(ScoreRow) if f"\n    {f.name}: " not in attributes
    ]
