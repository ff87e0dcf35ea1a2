"""Explanations: what differences are taken against, and the nearest fit corpus."""

from pathlib import Path

import pytest
from fakes import made_record, results_of

from harness.registry import load_registry
from harness.report.sentences import render_explanation
from harness.results.explain import explain
from harness.results.published import load_tables, published_cell

REGISTRY = load_registry()
TABLES = load_tables(Path(__file__).resolve().parents[2] / "results" / "papers")
CELL = "bert-whitening.t1/bert-base-whitening-nli/sts-b"  # first-last+whitening@nli, 68.19
SNLI = "first-last+whitening@snli-18k"
FLOWS = tuple(f"+flow:{n}@target" for n in range(40))  # each one choice away from the cell


def measured(*scores):
    """The explanation of the cell where these (method, task, score) are all that was measured."""
    records = [
        made_record(method, task, {"".join(metric) or "spearman": {"all": score, "groups": {}}})
        for method, task, score, *metric in scores
    ]
    return explain(published_cell(CELL, TABLES), results_of(*records), REGISTRY, {})


def differences(explanation):
    return {n.command.split("'")[1]: round(n.difference, 2) for n in explanation.neighbours}


def test_differences_are_from_the_nearest_row_where_the_method_was_run_on_no_encoder():
    explanation = measured(
        ("minilm.first-last", "sts-b.senteval", 80.0),
        ("minilm.first-last+whitening@target", "sts-b.senteval", 79.0),
        (f"minilm.{SNLI}", "sts-b", 77.5),
        ("minilm.first-last+sn@target", "sts-b.senteval", 81.0),
    )
    assert (explanation.shown_on, explanation.reference) == ("minilm", 77.5)
    assert explanation.base is explanation.neighbours[0]
    assert differences(explanation) == {
        f"minilm.{SNLI}": 0.0,
        "minilm.first-last": 2.5,
        "minilm.first-last+whitening@target": 1.5,
        "minilm.first-last+sn@target": 3.5,
    }
    text = render_explanation(explanation)
    assert (
        "bert-base was not run, nor this protocol on any other encoder; differences are from the "
        "nearest row that was run: minilm with fit on snli-18k, text raw, 77.50\n" in text
    )
    assert f"harness run -m 'minilm.{SNLI}' -t sts-b" in text.splitlines()[-1]


def test_a_row_of_another_metric_is_no_base_where_one_of_the_same_was_run():
    explanation = measured(
        (f"bert-mini.{SNLI}", "sts-b.senteval", 60.0, "pearson"),
        ("minilm.first-last+whitening@target", "sts-b", 79.0),
    )
    assert (explanation.shown_on, explanation.reference) == ("minilm", 79.0)


@pytest.mark.parametrize("encoder", ["bert-base:64", "minilm"])
def test_the_nearest_fit_corpus_of_the_kind_stands_first_among_many(encoder):
    many = [(f"{encoder}.first-last{post}", "sts-b.senteval", 68.0) for post in FLOWS]
    explanation = measured(*many, (f"{encoder}.mean+whitening:256@snli-18k", "sts-b", 50.0))
    assert explanation.neighbours[0].protocol.fit_on == "snli-18k"
    assert "fit on snli-18k" in render_explanation(explanation)


def test_the_same_method_on_another_encoder_stays_the_reference():
    explanation = measured(
        ("minilm.first-last+whitening@nli", "sts-b.senteval", 78.0),
        (f"minilm.{SNLI}", "sts-b.senteval", 77.0),
    )
    assert (explanation.base, explanation.reference) == (None, 78.0)
    assert differences(explanation) == {f"minilm.{SNLI}": -1.0}
    assert "on minilm, the same protocol gives 78.00" in render_explanation(explanation)


def test_where_the_encoder_was_run_differences_are_from_the_published_number():
    explanation = measured((f"bert-base:64.{SNLI}", "sts-b.senteval", 70.0))
    assert (explanation.base, explanation.reference) == (None, 68.19)
    assert differences(explanation) == {f"bert-base:64.{SNLI}": 1.81}
