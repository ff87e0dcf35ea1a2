"""Scores as rows: a cell and seed each, beside the number whose protocol it is measured under."""

import inspect
from dataclasses import asdict, fields

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
FACTS = {"encoding": [{"dtype": "float32"}] * 2}


def record(method="minilm.mean", scores=SCORES, facts=FACTS):
    return made_record(
        method,
        "sts-b",
        scores,
        identity=REGISTRY.parse(method).identity,
        timings={"encode": 1.5, "score": 0.25},
        environment={"device": "cpu", "threads": 2, "harness": "0.3.0", "commit": None},
        facts=facts,
    )


PEARSON = {"all": 82.7406, "mean": 81.0, "groups": {"sts-b": 82.7406}}
LACKING = {"spearman": {"all": None, "groups": {"one": 80.0}}, "alignment": 1.0}
WITH_PUBLISHED = record(scores=SCORES | {"pearson": PEARSON})
RECORDS = {
    "The parts of an id, the main score and its costs": (
        record("minilm:64.first-last+sn+natsv:6@target"),
        {},
    ),
    "Every score, of which one is undefined": (
        record(scores=LACKING, facts=FACTS | {"undefined": "no spread"}),
        {"every_score": True},
    ),
    "The main score alone": (WITH_PUBLISHED, {}),
    "And one that has a published number": (WITH_PUBLISHED, {"published_too": True}),
}


def test_rows_are_golden(approved):
    page = ""
    for what, (made, options) in RECORDS.items():
        page += f"# {what}\n\n"
        for row in score_rows(results_of(made), TABLES, REGISTRY, **options):
            known = {k: v for k, v in asdict(row).items() if v not in (None, "")}
            page += "".join(f"{k}: {v}\n" for k, v in known.items()) + "\n"
    assert page == approved("golden/score_rows.txt")


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
