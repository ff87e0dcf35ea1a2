"""Explanations: what differences are taken against, and the nearest fit corpus."""

from pathlib import Path

import pytest
from fakes import made_record, results_of
from golden import require_golden

from harness.registry import load_registry
from harness.report.sentences import render_explanation
from harness.results.explain import explain
from harness.results.published import load_tables, published_cell

REGISTRY = load_registry()
TABLES = load_tables(Path(__file__).resolve().parents[2] / "results" / "papers")
CELL = "bert-whitening.t1/bert-base-whitening-nli/sts-b"  # first-last+whitening@nli, 68.19
SNLI = "first-last+whitening@snli-18k"
FLOWS = tuple(f"+flow:{n}@target" for n in range(40))  # each one choice away from the cell


# What was measured: methods on tasks, with their scores and now and then a metric.
MEASURED = {
    "on no encoder under this protocol: differences are from the nearest row": [
        ("minilm.first-last", "sts-b.senteval", 80.0),
        ("minilm.first-last+whitening@target", "sts-b.senteval", 79.0),
        (f"minilm.{SNLI}", "sts-b", 77.5),
        ("minilm.first-last+sn@target", "sts-b.senteval", 81.0),
    ],
    "a row of another metric is no base where one of the same was run": [
        (f"bert-mini.{SNLI}", "sts-b.senteval", 60.0, "pearson"),
        ("minilm.first-last+whitening@target", "sts-b", 79.0),
    ],
    "the same method on another encoder stays the reference": [
        ("minilm.first-last+whitening@nli", "sts-b.senteval", 78.0),
        (f"minilm.{SNLI}", "sts-b.senteval", 77.0),
    ],
    "on the encoder itself: differences are from the published number": [
        (f"bert-base:64.{SNLI}", "sts-b.senteval", 70.0)
    ],
}


def explanation(*scores):
    """The explanation of the cell where these (method, task, score) are all that was measured."""
    records = [
        made_record(method, task, {"".join(metric) or "spearman": {"all": score, "groups": {}}})
        for method, task, score, *metric in scores
    ]
    return explain(published_cell(CELL, TABLES), results_of(*records), REGISTRY, {})


def test_explanations_are_golden():
    texts = (f"# {what}\n{render_explanation(explanation(*MEASURED[what]))}" for what in MEASURED)
    require_golden(Path(__file__).parent / "golden" / "explanations.txt", "\n\n".join(texts) + "\n")


@pytest.mark.parametrize("encoder", ["bert-base:64", "minilm"])
def test_the_nearest_fit_corpus_of_the_kind_stands_first_among_many(encoder):
    many = [(f"{encoder}.first-last{post}", "sts-b.senteval", 68.0) for post in FLOWS]
    explained = explanation(*many, (f"{encoder}.mean+whitening:256@snli-18k", "sts-b", 50.0))
    assert explained.neighbours[0].protocol.fit_on == "snli-18k"
    assert "fit on snli-18k" in render_explanation(explained)
