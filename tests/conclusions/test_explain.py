"""Explanations: the effects of choices, and the nearest rows that were measured."""

from collections import defaultdict
from dataclasses import replace

import pytest
from committed import FOLDER, TABLES
from fakes import made_record, results_of

from baselines.minilm import MINILM
from harness.conclusions.effects import (
    Distance,
    RowGroups,
    distance,
    measured_effects,
    measured_scores,
)
from harness.conclusions.explain import explain
from harness.conclusions.traps import Trap, TrapRow
from harness.report.explanation import render_explanation
from harness.results.protocols import Protocol
from harness.results.published_tables import published_number

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
    "settings come before poolings, and poolings before post-processors": [
        ("minilm.first-last+whitening@nli", "sts-b.senteval", 70.0),
        ("minilm.first-last+sn@nli", "sts-b.senteval", 60.0),
        ("minilm.cls+whitening@nli", "sts-b.senteval", 68.2),
        ("minilm.first-last+whitening@nli", "sts-b", 69.6),
        ("minilm.pooler+whitening@nli", "sts-b.senteval", 75.0),
    ],
    "a similarity function is a choice of one record": [
        ("minilm.first-last+whitening@nli", "sts-b.senteval", 70.0),
        (
            "minilm.first-last+whitening@nli",
            "sts-b.senteval",
            66.1,
            "euclidean_spearman",
        ),
    ],
    "on the encoder itself: the effect is that on it": [
        ("bert-base:64.first-last+whitening@nli", "sts-b.senteval", 68.0),
        (f"bert-base:64.{SNLI}", "sts-b.senteval", 70.0),
        ("minilm.first-last+whitening@nli", "sts-b.senteval", 78.0),
        (f"minilm.{SNLI}", "sts-b.senteval", 77.0),
    ],
}


def explanation(*scores):
    """The explanation of the cell where these (method, task, score) are all that was measured."""
    cells = defaultdict(dict)
    for method, task, score, *metric in scores:
        of_metric = {"all": score, "groups": {}}
        cells[method, task]["".join(metric) or "spearman"] = of_metric
    results = results_of(*(made_record(*cell, cells[cell]) for cell in cells))
    number = published_number(CELL, TABLES)
    return explain(number, results, REGISTRY, {}, FOLDER.traps)


def test_explanations_are_golden(approved):
    texts = [
        f"# {what}\n{render_explanation(explanation(*MEASURED[what]), FOLDER)}"
        for what in MEASURED
    ]
    assert "\n\n".join(texts) + "\n" == approved("golden/explanations.txt")


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_rows_with_an_effect_the_nearest_counts(order):
    """Whichever was measured first."""
    near = [
        ("minilm.first-last+whitening@target", "sts-b.senteval", 79.0),
        ("minilm.cls+whitening@target", "sts-b.senteval", 74.0),
    ]
    far = [
        ("minilm.first-last", "sts-b.senteval", 70.0),
        ("minilm.cls", "sts-b.senteval", 69.0),
    ]
    explained = explanation(*[*near, *far][::order])
    [effect] = [
        each for each in explained.effects if each.changes == {"pooling": "cls"}
    ]
    assert effect.effects == {"minilm": pytest.approx(-5.0)}
    assert sorted(effect.on_rows) == pytest.approx([-5.0, -1.0])


@pytest.mark.parametrize("order", [1, -1])
def test_of_an_encoders_lengths_the_protocols_own_counts(order):
    rows = [
        ("bert-base:64.first-last+whitening@nli", "sts-b.senteval", 68.0),
        (f"bert-base:64.{SNLI}", "sts-b.senteval", 70.0),
        ("bert-base:128.first-last+whitening@nli", "sts-b.senteval", 68.0),
        (f"bert-base:128.{SNLI}", "sts-b.senteval", 60.0),
    ]
    [effect] = [
        each
        for each in explanation(*rows[::order]).effects
        if each.changes == {"fit_on": "snli-18k"}
    ]
    assert effect.effects == {"bert-base": pytest.approx(2.0)}


def of_sts12(score, aggregation="all", method="minilm.mean"):
    """The protocol of a method's score of STS12."""
    return Protocol.from_score(method, REGISTRY.tasks["sts12"], score, aggregation)


def test_metric_aggregation_and_similarity_are_choices_with_effects_of_their_own():
    protocol = of_sts12("spearman")
    scores = {
        protocol: 50.0,
        of_sts12("pearson"): 52.0,
        of_sts12("spearman", "wmean"): 53.0,
        of_sts12("dot_spearman"): 54.0,
    }
    found = measured_effects(protocol, RowGroups(scores), REGISTRY, FOLDER.traps)
    effects = {
        next(iter(each.changes.items())): each.effects["minilm"] for each in found
    }
    assert effects == {
        ("aggregation", "wmean"): 3.0,
        ("metric", "pearson"): 2.0,
        ("scored_by", "dot"): 4.0,
    }
    # The first trap is of aggregations, the ninth of a regressor's two metrics.
    assert {next(iter(each.changes)): each.traps for each in found} == {
        "aggregation": (1,),
        "metric": (9,),
        "scored_by": (),
    }


def test_a_trap_shows_a_choice_by_its_rows_of_tasks_that_are_here():
    protocol = of_sts12("spearman")
    scores = {protocol: 50.0, replace(protocol, pooling="cls"): 40.0}
    away, *here = (
        TrapRow("", f"minilm.{pooling}", task)
        for pooling, task in (("max", "gone"), ("mean", "sts12"), ("cls", "sts12"))
    )

    def traps(*rows):
        trap = Trap("", "", rows, about=("pooling",))
        [effect] = measured_effects(protocol, RowGroups(scores), REGISTRY, (trap,))
        return effect.traps

    assert traps(away, *here) == (1,)
    assert traps(away, here[0]) == traps(away, here[1]) == ()


def test_of_rows_that_are_as_near_those_of_the_first_count_on_each_encoder():
    protocol = of_sts12("spearman", method="bert-base.mean")
    scores = {}
    # Both ways are one choice from the protocol.
    for encoder, text, split, effect in (
        ("minilm", "senteval", protocol.split, 1.0),
        ("bert-mini", "senteval", protocol.split, 2.0),
        ("mpnet-base", protocol.text, "dev", 3.0),
    ):
        start = replace(protocol, encoder=encoder, text=text, split=split)
        scores |= {start: 50.0, replace(start, pooling="cls"): 50.0 + effect}
    [effect] = measured_effects(protocol, RowGroups(scores), REGISTRY)
    assert effect.effects == {"minilm": 1.0, "bert-mini": 2.0}
    assert effect.differences == {"text": "senteval"}


def test_rows_without_the_protocols_choice_are_passed_over():
    protocol = of_sts12("spearman")
    other = replace(protocol, post="+sn", fit_on="target")
    scores = {
        replace(other, pooling="cls"): 10.0,
        replace(other, pooling="last2"): 20.0,
        protocol: 50.0,
        replace(protocol, pooling="cls"): 40.0,
    }
    [effect] = [
        each
        for each in measured_effects(protocol, RowGroups(scores), REGISTRY)
        if "pooling" in each.changes
    ]
    assert effect.effects == {"minilm": -10.0}


def test_of_a_choice_the_largest_effect_comes_first_whatever_its_sign():
    explained = explanation(
        ("minilm.first-last+whitening@nli", "sts-b.senteval", 70.0),
        ("minilm.cls+whitening@nli", "sts-b.senteval", 72.0),
        ("minilm.mean+whitening@nli", "sts-b.senteval", 61.0),
        ("minilm.last2+whitening@nli", "sts-b.senteval", 75.0),
    )
    poolings = [each.changes["pooling"] for each in explained.effects]
    assert poolings == ["mean", "last2", "cls"]


def nearest_encoder(*methods):
    """The encoder of the row that is nearest to the cell, of methods with raw text."""
    [row] = explanation(*[(method, "sts-b", 50.0) for method in methods]).nearest
    return row.encoder


@pytest.mark.parametrize("order", [1, -1])
def test_of_rows_that_are_as_near_its_own_encoder_counts_then_one_with_many_rows(order):
    many = ("minilm.first-last+whitening@nli", "minilm.cls", "minilm.mean")
    few = ("bert-mini.first-last+whitening@nli",)
    own = ("bert-base:64.first-last+whitening@nli",)
    assert nearest_encoder(*[*many, *few][::order]) == "minilm"
    assert nearest_encoder(*[*many, *few, *own][::order]) == "bert-base"


@pytest.mark.parametrize(
    ("changes", "far"),
    [
        ({"encoder": "minilm", "max_length": ""}, Distance(0, True, False, 0)),
        ({"pooling": "cls"}, Distance(1, True, False, 1)),
        ({"fit_on": "target"}, Distance(1, True, False, 1)),
        ({"fit_on": "snli-18k"}, Distance(0, False, False, 1)),  # a corpus of its kind
        ({"post": "+whitening:256"}, Distance(1, True, False, 1)),
        ({"post": "+sn"}, Distance(1, True, True, 1)),
        # A post-processor and its fit corpus are one choice.
        ({"post": "+sn", "fit_on": "target"}, Distance(1, True, True, 2)),
        ({"post": "+sn", "fit_on": "snli-18k"}, Distance(1, False, True, 2)),
        ({"post": "", "fit_on": "", "pooling": "cls"}, Distance(2, True, True, 3)),
    ],
)
def test_how_far_a_row_is_from_a_protocol(changes, far):
    task = REGISTRY.tasks["sts-b.senteval"]
    method = "bert-base:64.first-last+whitening@nli"
    protocol = Protocol.from_score(method, task, "spearman", "all")
    assert distance(replace(protocol, **changes), protocol) == far


def test_scores_are_compared_that_differ_in_one_of_metric_similarity_and_aggregation():
    """A task with one subset has one aggregation."""
    every = {"all": 50.0, "mean": 51.0, "wmean": 52.0}
    names = ("spearman", "pearson", "dot_spearman", "dot_pearson")
    for groups, wanted in (
        (
            {"a": 1.0, "b": 2.0},
            {"spearman": {*every}, "pearson": {"all"}, "dot": {"all"}},
        ),
        ({"a": 1.0}, {"spearman": {"all"}, "pearson": {"all"}, "dot": {"all"}}),
    ):
        scores = {name: {**every, "groups": groups} for name in names}
        results = results_of(made_record("minilm.mean", "sts12", scores))
        protocol = Protocol.from_score(
            "minilm.mean", REGISTRY.tasks["sts12"], "spearman", "all"
        )
        found = defaultdict(set)
        for row in measured_scores(results, REGISTRY, protocol):
            name = row.metric if row.scored_by == "cosine" else row.scored_by
            found[name].add(row.aggregation)
            assert (row.metric, row.scored_by) != ("pearson", "dot")
        assert found == wanted


def test_rows_are_the_defined_scores_of_the_protocols_task():
    """In each text form; those of other tasks, and undefined ones, are passed over."""
    whole, none = {"all": 50.0, "groups": {}}, {"all": None, "groups": {}}
    results = results_of(
        made_record("minilm.mean", "sick-r", {"spearman": whole, "pearson": whole}),
        made_record("minilm.mean", "sts-b", {"spearman": none, "pearson": whole}),
        made_record("minilm.mean", "sts-b.senteval", {"spearman": whole}),
    )
    protocol = Protocol.from_score(
        "minilm.cls", REGISTRY.tasks["sts-b"], "spearman", "all"
    )
    rows = measured_scores(results, REGISTRY, protocol)
    found = {(row.task, row.text, row.metric) for row in rows}
    assert found == {("sts-b", "raw", "pearson"), ("sts-b", "senteval", "spearman")}


def test_rows_of_other_weights_are_passed_over():
    pin = {name: value for name, value in vars(MINILM.pin).items() if value}
    of_another = pin | {"files": None, "tensors": "of another training"}
    of_copy = {"facts": {"fingerprint": {k: v for k, v in of_another.items() if v}}}
    scores = {"spearman": {"all": 50.0, "groups": {}}}
    results = results_of(
        made_record("minilm.mean", "sts-b", scores, **of_copy),
        made_record("bert-base:64.mean", "sts-b", scores),
    )
    protocol = Protocol.from_score(
        "minilm.cls", REGISTRY.tasks["sts-b"], "spearman", "all"
    )
    [row] = measured_scores(results, REGISTRY, protocol)
    assert row.encoder == "bert-base"


@pytest.mark.parametrize("encoder", ["bert-base:64", "minilm"])
def test_the_nearest_fit_corpus_of_the_kind_is_shown_among_many(encoder):
    many = [(f"{encoder}.first-last{post}", "sts-b.senteval", 68.0) for post in FLOWS]
    explained = explanation(
        *many, (f"{encoder}.mean+whitening:256@snli-18k", "sts-b", 50.0)
    )
    assert [row.fit_on for row in explained.nearest] == ["target", "snli-18k"]
    assert "fit on snli-18k, text raw: 50.00" in render_explanation(explained, FOLDER)


def test_an_effect_is_computed_at_the_nearest_rows_until_all_are_asked_for():
    """A folder has thousands of rows on which a choice was measured."""
    explained = explanation(
        *[
            (f"minilm.{pooling}+whitening:{k}@target", "sts-b.senteval", 70.0)
            for pooling in ("first-last", "cls")
            for k in range(8, 48)
        ]
    )
    [effect] = explained.effects
    assert len(effect.effects) == 1
    assert "on_rows" not in vars(effect)
    assert len(effect.on_rows) == 40


def test_a_trap_is_named_at_the_rows_that_it_is_known_at():
    """Whatever was measured: here nothing was."""
    for place, title in {
        "bert-flow.t2/bert-base-last2avg/sts-b": "BERT-flow's last2avg is first-last",
        "simcse.t5/simcse-bert-base-unsup/sts12": "Before or after the pooler",
    }.items():
        cell = published_number(place, TABLES)
        explained = explain(cell, results_of(), REGISTRY, {}, FOLDER.traps)
        assert title in render_explanation(explained, FOLDER)
