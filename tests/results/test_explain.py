"""Explanations: the effects of choices, those that lead to another number, the nearest rows."""

import pytest
from committed import FOLDER, TABLES
from fakes import made_record, results_of

from harness.core.errors import UsageError
from harness.report.sentences import command_options, render_explanation
from harness.results.explain import explain
from harness.results.published_tables import published_cell

REGISTRY = FOLDER.registry
CELL = (
    "bert-whitening.t1/bert-base-whitening-nli/sts-b"  # first-last+whitening@nli, 68.19
)
SNLI = "first-last+whitening@snli-18k"
FLOWS = tuple(
    f"+flow:{n}@target" for n in range(40)
)  # each one choice away from the cell


# What was measured: methods on tasks, with their scores and now and then a metric.
MEASURED = {
    "on no encoder under this protocol: effects are measured at the nearest row": [
        ("minilm.first-last", "sts-b.senteval", 80.0),
        ("minilm.first-last+whitening@target", "sts-b.senteval", 79.0),
        (f"minilm.{SNLI}", "sts-b.senteval", 77.5),
        ("minilm.first-last+sn@target", "sts-b.senteval", 81.0),
    ],
    "the nearest row is of the same metric": [
        (f"bert-mini.{SNLI}", "sts-b.senteval", 60.0, "pearson"),
        ("minilm.first-last+whitening@target", "sts-b", 79.0),
    ],
    "under this protocol on other encoders: each has its effect": [
        ("minilm.first-last+whitening@nli", "sts-b.senteval", 78.0),
        (f"minilm.{SNLI}", "sts-b.senteval", 77.0),
        ("bert-mini.first-last+whitening@nli", "sts-b.senteval", 58.0),
        (f"bert-mini.{SNLI}", "sts-b.senteval", 58.5),
    ],
    "on the encoder itself: the effect is that on it": [
        ("bert-base:64.first-last+whitening@nli", "sts-b.senteval", 68.0),
        (f"bert-base:64.{SNLI}", "sts-b.senteval", 70.0),
        ("minilm.first-last+whitening@nli", "sts-b.senteval", 78.0),
        (f"minilm.{SNLI}", "sts-b.senteval", 77.0),
    ],
}


def explanation(*scores, mine=None):
    """The explanation of the cell where these (method, task, score) are all that was measured."""
    records = [
        made_record(
            method, task, {"".join(metric) or "spearman": {"all": score, "groups": {}}}
        )
        for method, task, score, *metric in scores
    ]
    cell = published_cell(CELL, TABLES)
    return explain(cell, results_of(*records), REGISTRY, {}, FOLDER.traps, mine)


def test_explanations_are_golden(approved):
    texts = [
        f"# {what}\n{render_explanation(explanation(*MEASURED[what]), REGISTRY, FOLDER.traps)}"
        for what in MEASURED
    ]
    explained = render_explanation(
        explanation(*ROWS, mine=66.2), REGISTRY, FOLDER.traps
    )
    texts.append(f"# choices that lead to another number\n{explained}")
    assert "\n\n".join(texts) + "\n" == approved("golden/explanations.txt")


@pytest.mark.parametrize("encoder", ["bert-base:64", "minilm"])
def test_the_nearest_fit_corpus_of_the_kind_is_shown_among_many(encoder):
    many = [(f"{encoder}.first-last{post}", "sts-b.senteval", 68.0) for post in FLOWS]
    explained = explanation(
        *many, (f"{encoder}.mean+whitening:256@snli-18k", "sts-b", 50.0)
    )
    assert [row.fit_on for row in explained.nearest] == ["target", "snli-18k"]
    assert "fit on snli-18k, text raw: 50.00" in render_explanation(explained, REGISTRY)


# Two points down: SN with [CLS] was measured, raw text with [CLS] was not.
ROWS = [
    ("minilm.first-last+whitening@nli", "sts-b.senteval", 70.0),
    ("minilm.first-last+sn@nli", "sts-b.senteval", 69.0),
    ("minilm.cls+whitening@nli", "sts-b.senteval", 68.2),
    ("minilm.cls+sn@nli", "sts-b.senteval", 67.7),
    ("minilm.first-last+whitening@nli", "sts-b", 69.6),
    ("minilm.pooler+whitening@nli", "sts-b.senteval", 75.0),
]


def test_choices_that_lead_to_another_number_are_single_first_then_pairs_and_sums():
    explained = explanation(*ROWS, mine=66.2)
    single = [(dict(c.changes), round(c.effect, 2)) for c in explained.choices]
    assert single == [({"pooling": "cls"}, -1.8), ({"post": "+sn"}, -1.0)]
    pairs = [
        ({*c.changes.values()}, round(c.effect, 2), c.is_sum) for c in explained.pairs
    ]
    assert pairs == [
        ({"cls", "+sn"}, -2.3, False),
        ({"cls", "raw"}, -2.2, True),
        ({"+sn", "raw"}, -1.4, True),
    ]
    assert (
        command_options(explained.choices[0].names)
        == "-m 'bert-base:64.cls+whitening@nli'"
    )
    assert explained.pairs[1].names.task == "sts-b"


@pytest.mark.parametrize("mine", [100.5, -101.0, float("nan"), float("inf")])
def test_a_number_that_no_score_can_be_is_refused(mine):
    with pytest.raises(UsageError, match="from -100 to 100"):
        explanation(*ROWS, mine=mine)


def test_a_number_beside_an_average_is_refused():
    with pytest.raises(UsageError, match="not a score of one task"):
        FOLDER.explain("simcse.t5/bert-base-first-last-avg/avg", 50.0)


def test_a_trap_is_named_where_it_shows_the_choice_and_the_protocol():
    rows = [
        ("minilm.cls", "sts12.senteval", 75.0),
        ("minilm.pooler", "sts12.senteval", 74.0),
    ]
    cell = published_cell("simcse.t5/simcse-bert-base-unsup/sts12", TABLES)
    records = [
        made_record(m, t, {"spearman": {"all": s, "groups": {}}}) for m, t, s in rows
    ]
    explained = explain(cell, results_of(*records), REGISTRY, {}, FOLDER.traps)
    [choice] = explained.choices
    titles = [FOLDER.traps[number - 1].title for number in choice.traps]
    assert titles == ["Before or after the pooler"]


def test_a_trap_is_named_at_the_rows_that_it_is_known_at():
    """Whatever was measured: here nothing was."""
    for place, title in {
        "bert-flow.t2/bert-base-last2avg/sts-b": "BERT-flow's last2avg is first-last",
        "simcse.t5/simcse-bert-base-unsup/sts12": "Before or after the pooler",
    }.items():
        cell = published_cell(place, TABLES)
        explained = explain(cell, results_of(), REGISTRY, {}, FOLDER.traps)
        assert title in render_explanation(explained, REGISTRY, FOLDER.traps)


def test_a_similarity_function_is_a_choice_of_one_record():
    scores = {"all": 70.0, "groups": {}}, {"all": 66.1, "mean": 66.1, "wmean": 66.1}
    by_similarity = dict(zip(("spearman", "euclidean_spearman"), scores, strict=True))
    record = made_record(
        "minilm.first-last+whitening@nli", "sts-b.senteval", by_similarity
    )
    cell = published_cell(CELL, TABLES)
    explained = explain(cell, results_of(record), REGISTRY, {}, FOLDER.traps, 64.3)
    [choice] = explained.choices
    assert dict(choice.changes) == {"scored_by": "euclidean"}
    assert choice.effect == pytest.approx(-3.9)
    assert command_options(choice.names) == "score euclidean_spearman all"
