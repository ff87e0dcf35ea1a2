"""The atlas of an encoder: which methods it compares, and what stands where one is missing."""

import pytest
from fakes import made_record

from harness.conclusions.atlas import Atlas, atlases_of, geometry_of
from harness.results.index import MISSING, Results
from harness.results.scorings import SEVEN
from harness.results.verdict import CellState


def records(method, points, tasks=SEVEN, **facts):
    """The same score on each task in SentEval's text, with two more similarities."""
    score = {"all": points, "mean": points + 2, "wmean": points + 1}
    scores = {"spearman": score, "dot_spearman": {"all": points - 5}}
    return [
        made_record(method, f"{task}.senteval", scores, facts=facts) for task in tasks
    ]


def atlas(*of_methods):
    results = Results.of([one for several in of_methods for one in several])
    return Atlas("some", results)


def averages(rows):
    return {row.label: row.average for row in rows}


def test_layers_are_in_order_up_to_the_last_and_a_missing_one_is_a_hole():
    found = atlas(
        records("some.layer:10", 40),
        records("some.layer:2", 30),
        records("some.cls:0", 20, tasks=SEVEN[:6]),
        records("some.mean", 50),
        records("some:64.layer:11", 60),  # another length
        records("other.layer:12", 60),  # another encoder
    ).layers
    assert [*found] == ["mean", "[CLS]"]  # no maximum was measured
    labels = [str(layer) for layer in range(11)] + ["last"]
    assert [row.label for row in found["mean"]] == labels
    scores = averages(found["mean"])
    assert (scores["2"], scores["10"], scores["last"]) == (30, 40, 50)
    hole, of_six_sets = found["mean"][3], found["[CLS]"][0]
    assert {value.state for value in hole.values[:-1]} == {CellState.NOT_RUN}
    assert of_six_sets.values[-1] == (None, None, 0, MISSING)


def test_an_effect_is_the_difference_of_one_choice_and_of_nothing_that_is_missing():
    effects = atlas(
        records("some.mean", 50),
        records("some:64.mean", 47),
        records("some:128.mean", 49),
        records("some.first-last", 60),
        records("some:64.first-last", 61),
    ).effects
    of_mean = averages(effects["some.mean"])
    assert of_mean == {
        "dot product for cosine": -5,
        "mean over subsets for all pairs": 2,
        "weighted mean for all pairs": 1,
        "at most 64 tokens": -3,
        "at most 128 tokens": -1,
    }
    assert averages(effects["some.first-last"]) == {"at most 64 tokens": 1}


def test_a_curve_is_in_the_order_of_k_with_its_two_ends():
    found = atlas(
        records("some:64.first-last", 50),
        records("some:64.first-last+whitening:256@target", 62),
        records("some:64.first-last+whitening:64@target", 58),
        records("some:64.first-last+whitening:8@target", 50),
        records("some:64.first-last+whitening@target", 61, dimensions=768),
        records("some:64.first-last+natsv:1@target", 51),
        records("some:64.first-last+natsv:10@target", 53),
        records("some:64.first-last+natsv:3@target", 52),
        records("some:64.first-last+natsv:10@nli", 53),  # two points: no curve
        records("some:64.first-last+sn@target", 52),
        records("some:64.first-last+sn+natsv:2@target", 54),
        records("some:64.first-last+sn+natsv:6@target", 55),
        records("some:64.first-last+sn+natsv:12@target", 53),
    ).curves
    shown = {
        curve.post: [
            (row.label, k, row.average)
            for row, k in zip(curve.rows, curve.numbers, strict=True)
        ]
        for curve in found
    }
    assert shown == {
        "whitening:K": [
            ("8", 8, 51),
            ("64", 64, 59),
            ("256", 256, 63),
            ("all", 768, 62),
        ],
        "natsv:K": [("none", 0, 51), ("1", 1, 52), ("3", 3, 53), ("10", 10, 54)],
        "sn+natsv:K": [("none", 0, 53), ("2", 2, 55), ("6", 6, 56), ("12", 12, 54)],
    }
    assert {curve.plain.average for curve in found} == {51}


def test_an_encoder_has_an_atlas_if_something_varies_on_it():
    results = Results.of(
        [
            *records("layered.layer:0", 40),
            *records("plain.mean", 40),
            *records("plain.mean+natsv:1@target", 40),
        ]
    )
    assert [each.encoder for each in atlases_of(results)] == ["layered"]


@pytest.mark.parametrize("missing", ["alignment", "uniformity", "spearman"])
def test_a_point_has_all_three_numbers(missing):
    scores = {"alignment": 0.2, "uniformity": -1.5, "spearman": {"all": 47.0}}
    whole = made_record("some.mean+sn@target", "sts-b", scores)
    part = made_record(
        "some.cls", "sts-b", {key: scores[key] for key in scores if key != missing}
    )
    (point,) = geometry_of(Results.of([whole, part]))
    assert (point.method, point.calibration, point.score) == (whole.method, "sn", 47.0)
