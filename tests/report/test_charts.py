"""Charts and what they show: whole XML, the same bytes, dots in their frame, and no hole a 0."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from fakes import FakeConfig, registry
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.core.svg import LEFT, RIGHT, WIDTH, Axis, Dot, Line, Panel, number, svg
from harness.core.types import Record
from harness.report.build import stale_files, write_files
from harness.report.cost_chart import PICTURE, quality_against_cost, shown_cost
from harness.report.verify import pages, printed
from harness.results.costs import best, frontier, milliseconds, post_processing
from harness.results.index import Results
from harness.results.protocols import BERT_FLOW, SEVEN, SIMCSE
from harness.results.records import Store
from harness.training.checkpoint import curve_svg

PAPERS = Path(__file__).resolve().parents[2] / "results" / "papers"
SVG = "{http://www.w3.org/2000/svg}"
VALUES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=6)
POINTS = st.lists(st.tuples(st.floats(0.01, 100), st.floats(20, 90)), min_size=1, max_size=12)


def drawn(text, tag):
    return list(ElementTree.fromstring(text).iter(f"{SVG}{tag}"))  # noqa: S314 - our own


def chart(points, label=lambda n: f"encoder-{n}", line=True):
    dots = [Dot(x, y, f"s{n % 3}", label(n), "&<>") for n, (x, y) in enumerate(points)]
    x = Axis.around("cost", [d.x for d in dots], log=True)
    panel = Panel(x, Axis.around("quality", [d.y for d in dots]), dots, [Line(points)] * line)
    return svg("Quality <&> cost", ["a note"], [panel], "about")


def boxes(text):
    """Where the letters of labels stand, with the width that the chart gives them."""
    found = []
    for one in drawn(text, "text"):
        if one.get("class") == "name":
            x, y, width = float(one.get("x")), float(one.get("y")), 7.1 * len(one.text)
            left = x - width if one.get("text-anchor") == "end" else x
            found.append((left, y - 10, left + width, y + 3))
    return found


# Axes


@given(VALUES, st.booleans())
def test_an_axis_holds_its_values_in_their_order(values, log):
    axis = Axis.around("x", values, log)
    shares = [axis.share(value) for value in sorted(values)]
    assert shares == sorted(shares)
    assert all(0 < share < 1 for share in shares)
    assert (axis.share(axis.low), axis.share(axis.high)) == (0, 1)


@given(VALUES, st.booleans())
def test_ticks_are_few_round_and_on_the_axis(values, log):
    assume(max(values) > 1.5 * min(values))
    axis = Axis.around("x", values, log)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 10 or (log and axis.high < 5 * axis.low)
    assert all(axis.low <= tick <= axis.high for tick in ticks)
    assert ticks == sorted(set(ticks))
    if log:
        assert {f"{tick:e}"[0] for tick in ticks} <= set("125")


@pytest.mark.parametrize(
    ("value", "text"), [(0.05, "0.05"), (0, "0"), (2.5, "2.5"), (-3, "-3"), (12500, "12,500")]
)
def test_ticks_are_written_as_people_write_them(value, text):
    assert number(value) == text


# Charts


def test_the_same_numbers_give_the_same_bytes():
    points = [(n + 1.0, 50.0 + n % 4) for n in range(6)]
    assert chart(points) == chart(list(points))
    assert chart(points) != chart(points, line=False)


@settings(max_examples=25)
@given(POINTS)
def test_a_chart_is_whole_and_holds_its_dots_and_labels(points):
    text = chart(points, line=False)
    assert not re.search(r"\b(nan|inf)\b", text)
    circles = [c for c in drawn(text, "circle") if c.get("r") == "6"]
    assert len(circles) == len(points)
    for circle in circles:
        assert LEFT < float(circle.get("cx")) < WIDTH - RIGHT
    for left, _, right, _ in boxes(text):
        assert left > LEFT
        assert right < WIDTH - RIGHT


def test_labels_keep_out_of_each_other_s_way():
    """A column of five, as the post-processings of one encoder, and neighbours of two others."""
    points = [(5.0, 60 + 3.5 * n) for n in range(5)] + [(4.5, 66.0), (0.1, 40.0)]
    found = boxes(chart(points, line=False))
    assert len(found) == len(points)
    pairs = [(a, b) for n, a in enumerate(found) for b in found[:n]]
    apart = [a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3] for a, b in pairs]
    assert all(apart)


def test_names_are_text_and_never_markup():
    text = chart([(1.0, 50.0)], label=lambda _: "<script>&")
    assert "<script" not in text
    assert [one.text for one in drawn(text, "text")].count("<script>&") == 1


def test_a_legend_names_each_series_once_with_its_own_colour():
    text = chart([(n + 1.0, 50.0 + n) for n in range(6)])
    legend = [c.get("fill") for c in drawn(text, "circle") if c.get("r") == "5"]
    assert len(set(legend)) == 3
    assert {c.get("fill") for c in drawn(text, "circle")} == set(legend)


# Training curves


def test_a_curve_has_a_panel_for_losses_and_one_for_scores():
    losses, scores = [(n + 1, 5.0 / (n + 1)) for n in range(9)], [(3, 70.0), (6, 74.5), (9, 74.0)]
    both, alone = curve_svg(losses, scores), curve_svg(losses, [])
    lines = [len(drawn(text, "path")) for text in (both, alone)]
    assert lines[0] > lines[1]
    marks = [[t.text for t in drawn(x, "text") if t.get("class") == "name"] for x in (both, alone)]
    assert marks == [["0.556", "74.50"], ["0.556"]]
    assert "1 step;" in curve_svg([(1, 2.0)], [])


# Costs


def record(method, task, encode=0.3, apply=0.1, sentences=100, score=60.0, seed=0):
    clocks = {name: t for name, t in (("encode", encode), ("apply", apply)) if t is not None}
    scores = {"spearman": {"all": score, "wmean": score}}
    facts = {"distinct_sentences": sentences} if sentences else {}
    return Record(1, method, "", task, seed, scores, 30, clocks, {}, {}, facts)


def seven(method, **change):
    return [record(method, SIMCSE.task(task), **change) for task in SEVEN]


def results(*records):
    by_cell = {}
    for one in records:
        by_cell.setdefault((one.method, one.task), []).append(one)
    return Results(by_cell)


def test_the_cost_is_all_the_time_over_all_the_sentences():
    many, few = (SIMCSE.task(task) for task in ("sts12", "sts13"))
    found = results(
        record("e.mean", many, 2.0, 1.0, 900),
        record("e.mean", few, 1.0, 0.0, 100),
        record("e.mean", "qnli", 50.0, 50.0, 1),  # no column of the table
    )
    assert milliseconds(found, "e.mean", SIMCSE) == pytest.approx(1000 * 4 / 1000)
    assert shown_cost(found, "e.mean", SIMCSE) == "4.0"
    assert shown_cost(found, "e.mean", BERT_FLOW) == "not run"


@pytest.mark.parametrize("hole", ["encode", "apply", "sentences"])
def test_a_clock_that_is_not_there_is_a_word_and_never_a_zero(hole):
    whole = [*seven("e.mean")[1:], replace(seven("e.mean", **{hole: None})[0])]
    assert shown_cost(results(*whole), "e.mean", SIMCSE) == "not timed"
    assert (
        shown_cost(results(*seven("e.mean", encode=0.0, apply=0.0)), "e.mean", SIMCSE)
        == "not timed"
    )
    assert quality_against_cost(results(*whole)) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00123, "0.012"), (0.0123, "0.12"), (0.899, "9.0"), (12.34, "123")]
)
def test_two_digits_are_enough_for_orientation(seconds, text):
    assert (
        shown_cost(results(*seven("e.mean", encode=seconds, apply=0.0)), "e.mean", SIMCSE) == text
    )


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("e.mean", "as encoded"),
        ("e:64.cls@target", "as encoded"),
        ("e.mean+natsv:6@target-train", "natsv"),
        ("e.mean+sn+natsv:6", "sn + natsv"),
    ],
)
def test_a_family_is_what_is_done_to_the_vectors(method, name):
    assert post_processing(method) == name


@given(POINTS)
def test_the_frontier_is_what_nothing_beats_in_both(points):
    edge = frontier(points)
    for cost, score in points:
        assert any(x <= cost and y >= score for x, y in edge)
    for x, y in edge:
        assert not any((a <= x and b > y) or (a < x and b >= y) for a, b in points)


def test_the_picture_shows_the_best_of_each_encoder_and_family():
    found = results(
        *seven("slow.mean", score=80.0, encode=9.0),
        *seven("slow.cls", score=70.0, encode=9.0),
        *seven("slow.mean+sn@target", score=75.0, encode=9.0),
        *seven("quick.mean", score=50.0),
        *seven("hole.mean")[1:],
    )
    assert [method for method, _ in best(found).values()] == [
        "slow.mean",
        "slow.mean+sn@target",
        "quick.mean",
    ]
    text = quality_against_cost(found)
    names = [one.text for one in drawn(text, "text") if one.get("class") == "name"]
    assert sorted(names) == ["quick", "slow"]
    assert len([c for c in drawn(text, "circle") if c.get("r") == "6"]) == 3
    assert printed(text) is not None


def test_another_record_gives_the_picture_another_digest():
    one, other = results(*seven("e.mean")), results(*seven("e.mean", encode=0.30001))
    assert printed(quality_against_cost(one)) != printed(quality_against_cost(other))


def test_without_an_average_there_is_no_picture():
    assert quality_against_cost(results(*seven("e.mean")[1:])) == ""
    assert quality_against_cost(results()) == ""


def test_a_report_writes_it_beside_the_leaderboard_and_says_when_it_is_stale(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.report.build.load_registry", lambda: registry(FakeConfig()))
    for one in seven("fake.mean"):
        Store(tmp_path).write(one, np.zeros(30), {})
    shutil.copytree(PAPERS, tmp_path / "papers", ignore=lambda _, names: sorted(names)[1:])
    where = (tmp_path, tmp_path / "papers", None)
    assert tmp_path / PICTURE in write_files(*where)
    assert f"]({PICTURE})" in (tmp_path / "LEADERBOARD.md").read_text()
    assert stale_files(*where) == []
    (tmp_path / PICTURE).write_text("edited")
    assert stale_files(*where) == [tmp_path / PICTURE]
    assert [path for path, fault in pages(*where[:2]).items() if fault] == [tmp_path / PICTURE]
