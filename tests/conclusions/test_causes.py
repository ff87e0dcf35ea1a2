"""Causes outside of protocols: the rows, columns, numbers and versions that each may affect."""

from types import SimpleNamespace

import pytest

from harness.conclusions.causes import Cause, Causes, ProgramLine

WORDS = dict.fromkeys(("title", "check", "change", "source"), "")


def cause(**settings):
    """A cause of differences from 0.5 to 2 points, with other settings."""
    plain = {"id": "made", "rows": ("simcse.t5/*", "minilm.*"), "gap": (0.5, 2.0)}
    return Cause(**{**WORDS, **plain, **settings})


def reported(gap, column="sts12", points=50.0):
    """A reader's number that is so many points above the published one."""
    published = SimpleNamespace(column=SimpleNamespace(id=column))
    return SimpleNamespace(gap=gap, points=points, published=published)


@pytest.mark.parametrize(
    ("gap", "misses"),
    [(0.5, 0), (2.0, 0), (1.0, 0), (0.25, 0.25), (-1, 1.5), (3.5, 1.5)],
)
def test_the_bounds_of_a_difference_belong_to_it(gap, misses):
    assert cause().misses(reported(gap)) == misses
    assert cause().explains(reported(gap)) is (misses == 0)


def test_a_column_may_have_bounds_of_its_own():
    with_gaps = cause(gaps={"sts13": (-9.0, -8.0)})
    assert with_gaps.explains(reported(-8.5, "sts13"))
    assert not with_gaps.explains(reported(1.0, "sts13"))
    assert with_gaps.explains(reported(1.0))


def test_it_explains_columns_of_its_own_above_its_least_number():
    of_years = cause(columns=("sts1?", "sick-r"), above=40.0)
    for column, points, explains in (
        ("sts12", 40.1, True),
        ("sick-r", 40.1, True),
        ("sts-b", 40.1, False),
        ("sts12", 40.0, False),
    ):
        assert of_years.explains(reported(1.0, column, points)) is explains


def test_it_applies_to_rows_by_their_id_or_their_method():
    for row, method, applies in (
        ("simcse.t5/any", None, True),
        ("other.t1/any", "minilm.cls", True),
        ("other.t1/any", "bert-base.cls", False),
        ("other.t1/any", None, False),
    ):
        number = SimpleNamespace(row_id=row, method=method)
        assert cause().applies_to(number) is applies


def test_a_cause_of_mixed_signs_moves_some_up_and_others_down():
    mixed = cause(signs="mixed")
    for gaps, has in (
        ((1, -1), True),
        ((1, 2), False),
        ((0, -1), False),
        ((1, 0), False),
    ):
        assert mixed.has_signs([reported(gap) for gap in gaps]) is has
        assert cause().has_signs([reported(gap) for gap in gaps])
    assert mixed.has_signs([reported(1)])  # one column tells no sign


def test_it_is_of_versions_that_all_of_its_packages_have():
    of_two = cause(versions={"torch": ">=2,<3", "mteb": "<2.1"})
    for torch, mteb, is_of in (
        ("2.0", "2.0.9", True),
        ("2.7rc1", "2.0.9", True),
        ("3.0", "2.0.9", False),
        ("2.0", "2.1", False),
        ("2.0", "main", False),
    ):
        assert of_two.is_of_versions({"torch": torch, "mteb": mteb}) is is_of
    assert not of_two.is_of_versions({"torch": "2.0"})
    assert not cause().is_of_versions({"torch": "2.0"})


def test_bounds_in_no_order_and_an_id_that_is_there_twice_are_refused():
    for gap in ((1.0, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError, match="two numbers in ascending order"):
            cause(gap=gap)
    with pytest.raises(ValueError, match="certainty: wanted one of"):
        cause(certainty="sure")
    with pytest.raises(ValueError, match="'made' is there twice"):
        Causes(causes=(cause(), cause(id="other"), cause()))


def test_of_lines_of_programs_the_first_for_the_choice_and_the_row_is_shown():
    lines = (
        ProgramLine("aggregation", "all", "of another value"),
        ProgramLine("text", "wmean", "of another choice"),
        ProgramLine("aggregation", "wmean", "of BERT-flow", ("bert-flow.*",)),
        ProgramLine("aggregation", "wmean", "of all"),
        ProgramLine("aggregation", "wmean", "the last"),
    )
    causes = Causes(lines=lines)
    assert causes.line("aggregation", "wmean", "bert-flow.t2/a") == "of BERT-flow"
    assert causes.line("aggregation", "wmean", "simcse.t5/a") == "of all"
    assert causes.line("aggregation", "mean", "simcse.t5/a") == ""
