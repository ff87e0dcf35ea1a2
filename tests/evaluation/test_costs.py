"""What cells cost, by records of encoders of the same shape; what comes first of a run."""

from dataclasses import replace

import pytest
from fakes import OTHER, TOY, FakeConfig, corpus, library, made_record, method

from harness.core.types import Method
from harness.evaluation.costs import Costs, ShapeCosts
from harness.evaluation.plan import make_plan, plan_text
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.registry import load_registry
from harness.results.index import Results
from harness.results.store import Store
from harness.transforms.pooling import MEAN

FOUND = load_registry()


def record(method, task, fit=0.0, encode=10.0, score=0.0, parameters=110_000_000):
    return replace(
        made_record(method, task, {}),
        timings={"encode": encode, "fit": fit, "apply": 0.0, "score": score},
        facts={"distinct_sentences": 400, "parameters": parameters},
        environment={"processor": "a processor"},
    )


RECORDS = [
    record("mpnet-base.mean", "sts-b", score=2.0),
    record("mpnet-base.mean+flow@target", "sts-b", fit=14.0, score=4.0),
    record("mpnet-base.cls+flow@target", "sts-b", fit=16.0),
    record("mpnet-base.cls+flow:released@target", "sts-b", fit=1000.0),
    record("mpnet-base.cls+flow@target", "sts16", fit=1.0, encode=40.0),
]


def costs_of(name, task):
    return ShapeCosts(RECORDS, FOUND).fit(FOUND.parse(name), task)


def test_a_fit_costs_what_it_cost_on_the_task_with_or_without_dropout():
    assert costs_of("bert-base.mean+flow@target", "sts-b") == 15.0
    assert costs_of("bert-base.mean+flow:released@target", "sts-b") == 1000.0
    # A variant without records costs what its kind does.
    assert costs_of("bert-base.mean+flow:paper@target", "sts16") == 1.0
    assert costs_of("bert-base.mean", "sts-b") == 0.0
    assert costs_of("bert-base.mean+whitening@target", "sts-b") is None


def test_a_fit_on_a_corpus_costs_as_many_rows():
    flow = FOUND.parse("bert-base.mean+flow@nli")
    rows = {"sts-b": 1500, "sts16": 100}
    costs = ShapeCosts(RECORDS, FOUND)
    assert costs.seconds_a_row(flow, rows.get) == pytest.approx(0.01)
    assert costs.seconds_a_row(flow, {}.get) is None


def test_the_rate_is_of_the_tasks_where_they_were_measured():
    costs = ShapeCosts(RECORDS, FOUND)
    assert costs.rate({"sts-b"}) == pytest.approx(40.0)
    assert costs.rate({"qnli"}) == pytest.approx(800 / 50)
    assert ShapeCosts([], FOUND).rate({"sts-b"}) is None
    assert costs.encoders == ("mpnet-base",)


def test_encoders_of_another_shape_tell_nothing(tmp_path, monkeypatch):
    large = record("minilm.mean", "sts-b", parameters=335_000_000)
    monkeypatch.setattr(Results, "read", lambda *_: Results.of([*RECORDS, large]))
    costs = Costs([Store(tmp_path)], FOUND)
    assert costs.of_shape(109_482_240).encoders == ("mpnet-base",)
    assert costs.of_shape(335_141_888).encoders == ("minilm",)
    assert costs.of_shape(22_000_000).encoders == ()


FAR = replace(corpus("far", (("a sentence of a corpus",) * 50)), count=1_000_000)
ON_FAR = Method(FakeConfig(), MEAN, method("mean", "centre", on="target").post, "far")


def test_cells_whose_fits_encode_a_corpus_come_last(tmp_path):
    texts, runs = library(tmp_path, FAR), Store(tmp_path / "runs")
    planned = planned_cells([ON_FAR, method("mean")], [TOY, OTHER], seeds=1)
    words = " ".join(plan_text(make_plan(planned, texts, runs)).split())
    assert "First 2 scores: " in words
    assert "Then 2 scores, whose fits encode a corpus" in words
    outcomes = [*execute(planned, RunContext(texts, runs))]
    assert [outcome.cell.method for outcome in outcomes] == [
        *["fake.mean"] * 2,
        *[ON_FAR.id] * 2,
    ]
