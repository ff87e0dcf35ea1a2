"""Which measured method of a row's encoder gives a reader's numbers, of two that may."""

import pytest
from committed import FOLDER
from fakes import made_record, results_of

from harness.conclusions.measured_rows import measured_readings, measured_rows
from harness.conclusions.numbers import accident_rank
from harness.conclusions.readings import MOST_CHANGES
from harness.registry import load_registry
from harness.results.verdict import TOLERANCES

REGISTRY = load_registry()
ROW = "simcse.t5/bert-base-first-last-avg"  # bert-base.static-last
COLUMNS = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
POINTS = dict(zip(COLUMNS, range(40, 75, 5), strict=True))


def reported(points, place=ROW, decimals=2):
    """A reader's numbers of columns of the row."""
    mine = ",".join(f"{name}={value:.{decimals}f}" for name, value in points.items())
    return FOLDER.reported(place, mine)


def records(method, points, metric="spearman", aggregation="all"):
    """A record of the method on each task, with one score."""
    return [
        made_record(method, f"{name}.senteval", {metric: {aggregation: float(value)}})
        for name, value in points.items()
    ]


def found(*of_methods, points=POINTS, place=ROW, decimals=2):
    results = results_of(*(record for each in of_methods for record in each))
    return measured_readings(reported(points, place, decimals), results, REGISTRY)


def moved(points, *columns, by=5.0):
    """The points, with those of some columns moved."""
    return {name: value + by * (name in columns) for name, value in points.items()}


def test_another_pooling_that_gives_all_numbers_is_the_reading():
    [reading] = found(records("bert-base.mean", POINTS))
    assert reading.method == "bert-base.mean"
    assert (reading.columns, reading.misfits) == (COLUMNS, ())
    assert reading.about == tuple(reading.changes) == ("pooling",)
    assert (reading.evidence.fits, reading.evidence.columns) == (7, 7)


def test_the_rows_own_method_shows_that_the_published_numbers_are_not_its():
    [reading] = found(records("bert-base.static-last", POINTS))
    assert reading.about == ("published",)
    assert reading.changes == {}


def test_three_columns_and_two_thirds_of_them_have_to_be_given():
    three = {name: POINTS[name] for name in COLUMNS[:3]}
    assert found(records("bert-base.mean", three), points=three)
    two = {name: POINTS[name] for name in COLUMNS[:2]}
    assert not found(records("bert-base.mean", two), points=two)
    assert not found(records("bert-base.mean", moved(three, "sts12")), points=three)
    [reading] = found(records("bert-base.mean", moved(POINTS, "sts12", "sick-r")))
    assert reading.misfits == ("sts12", "sick-r")
    assert reading.columns == COLUMNS[1:-1]
    assert not found(
        records("bert-base.mean", moved(POINTS, "sts12", "sts13", "sts14"))
    )
    # Two thirds of six are four.
    six = {name: POINTS[name] for name in COLUMNS[1:]}
    assert found(records("bert-base.mean", moved(six, "sts13", "sts14")), points=six)
    # Of those that are measured: six of six, of a reader's seven.
    [reading] = found(records("bert-base.mean", six))
    assert (reading.columns, reading.misfits) == (COLUMNS[1:], ("sts12",))
    assert not found(records("bert-base.mean", two))


def test_the_most_columns_come_before_the_fewest_changes_and_ties_are_all_told():
    near = records("bert-base.cls", moved(POINTS, "sts12"))
    both = records("bert-base:64.mean", POINTS)
    assert [each.method for each in found(near, both)] == ["bert-base:64.mean"]
    one = records("bert-base.mean", POINTS)
    assert [each.method for each in found(near, both, one)] == ["bert-base.mean"]
    tied = records("bert-base.cls", POINTS)
    methods = {each.method for each in found(both, tied, one)}
    assert methods == {"bert-base.cls", "bert-base.mean"}


def test_as_many_choices_are_changed_as_a_person_does_at_once():
    [reading] = found(records("bert-base:64.mean", POINTS, metric="pearson"))
    assert len(reading.changes) == MOST_CHANGES
    of_four = records("bert-base:64.mean", POINTS, "pearson", "wmean")
    assert not found(of_four)


def test_of_as_many_changes_the_most_frequent_accident_comes_first():
    found_both = found(
        records("bert-base.mean", POINTS),
        records("bert-base.static-last", POINTS, metric="pearson"),
        records("bert-base:64.static-last", POINTS),
    )
    changed = [reading.about[0] for reading in found_both]
    assert len(set(changed)) == 3
    assert changed == sorted(changed, key=accident_rank)


def test_methods_of_other_encoders_and_choices_that_are_no_accident_are_left_out():
    assert not found(records("minilm.mean", POINTS))
    assert found(records("minilm.mean", POINTS), records("bert-base.mean", POINTS))
    assert not found(records("bert-base.static-last+whitening:64@target", POINTS))
    # A row that has a post-processor may have had another one.
    whitened = "simcse.b2/bert-whitening-target-all"
    points = {
        number.column.id: 60.0 + place
        for place, number in enumerate(FOLDER.numbers_of(whitened))
        if number.task
    }
    for method in (
        "bert-base.static-last+whitening:64@target",
        "bert-base.static-last+whitening@target-train",
    ):
        [reading] = found(records(method, points), points=points, place=whitened)
        assert set(reading.changes) <= {"post", "fit_on"}


@pytest.mark.parametrize(
    ("metric", "aggregation", "changed"),
    [
        ("pearson", "all", "metric"),
        ("spearman", "wmean", "aggregation"),
        ("dot_spearman", "all", "scored_by"),
    ],
)
def test_other_scores_of_the_rows_own_method_are_readings(metric, aggregation, changed):
    of_row = records(
        "bert-base.static-last", POINTS, metric=metric, aggregation=aggregation
    )
    [reading] = found(of_row)
    assert reading.method == "bert-base.static-last"
    assert tuple(reading.changes) == (changed,)


def test_another_text_of_the_data_is_a_reading():
    of_raw = [
        made_record("bert-base.static-last", name, {"spearman": {"all": float(value)}})
        for name, value in POINTS.items()
    ]
    [reading] = found(of_raw)
    assert reading.about == ("text",)


def test_a_number_is_given_as_closely_as_it_is_printed():
    def off(by, decimals):
        scores = {name: value + by for name, value in POINTS.items()}
        return bool(found(records("bert-base.mean", scores), decimals=decimals))

    match = TOLERANCES.match
    assert off(0.9 * match, 2)
    assert not off(1.1 * match, 2)
    assert off(0.45, 0)
    assert not off(0.55, 0)
    assert off(-0.9 * match, 2)


def test_every_protocol_of_a_method_is_beside_the_readers_numbers():
    of_two = [
        made_record(
            "bert-base.mean",
            f"{name}.senteval",
            {"spearman": {"all": value, "mean": value + 1}, "pearson": {"all": value}},
        )
        for name, value in POINTS.items()
    ]
    rows = [*measured_rows(reported(POINTS), results_of(*of_two), REGISTRY)]
    assert len(rows) == 3
    assert all(len(row.numbers) == len(row.scores) == 7 for row in rows)
    # A column without a score is left out, and those after it are not.
    without = [record for record in of_two if record.task != "sts13.senteval"]
    in_between = made_record("bert-base.mean", "sts13.senteval", {"alignment": 1.0})
    without.insert(1, in_between)
    rows = [*measured_rows(reported(POINTS), results_of(*without), REGISTRY)]
    columns = [number.published.column.id for number in rows[0].numbers]
    assert columns == [name for name in COLUMNS if name != "sts13"]
