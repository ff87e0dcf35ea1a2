"""Charts and what they show: the same bytes, labels in their frame, and no hole a 0."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from fakes import FakeConfig, registry
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core import charts
from harness.core.types import Record
from harness.report.build import printed, stale_files, verified_pages, write_files
from harness.report.figures import FROM_RECORDS, picture
from harness.report.leaderboard import cost_of
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.protocols import SEVEN, SIMCSE, Scoring
from harness.results.records import Store
from harness.results.reproduction import best_methods, frontier, milliseconds, post_processing
from harness.training.loop import curve_svg

PAPERS = Path(__file__).resolve().parents[2] / "results" / "papers"
PICTURE = "tables/quality-against-cost.svg"
SVG = "{http://www.w3.org/2000/svg}"
POINTS = st.lists(st.tuples(st.floats(0.01, 100), st.floats(20, 90)), min_size=1, max_size=12)


def quality_against_cost(found):
    made = picture("quality-against-cost", FROM_RECORDS["quality-against-cost"], found)
    return made.svg() if made else ""


def drawn(text, tag):
    return list(ElementTree.fromstring(text).iter(f"{SVG}{tag}"))  # noqa: S314 - our own


def written(text):
    return [one.text for one in drawn(text, "text")]


def marks(text):
    """The marked points by their hints: colour and shape of each."""
    found = {}
    for group in drawn(text, "g"):
        if (title := group.find(f"{SVG}title")) is not None:
            (use,) = group.iter(f"{SVG}use")
            shape = group.find(f".//{SVG}path")
            rule = re.search(rf"^\.{use.get('class')} {{ (.*) }}$", text, re.MULTILINE)[1]
            fill = re.search("fill: (#[0-9a-f]{6})", rule)[1]
            found[title.text] = fill, None if shape is None else shape.get("d")
    return found


def labelled(points, line=()):
    """The boxes of labels at points of a panel, the panel's own, and the figure's text."""
    with charts.style():
        figure, (axes,) = charts.panels("Quality <&> cost", ["a note"], (1,))
        for x, y in points:
            axes.plot(x, y)
        if line:
            axes.plot(*zip(*line, strict=True), marker="")
        charts.write_labels(axes, {f"encoder-{n}": point for n, point in enumerate(points)})
        boxes = [label.get_window_extent() for label in axes.texts]
        return boxes, axes.bbox, charts.svg(figure, {}, "about <&>")


# Charts


def test_the_same_numbers_give_the_same_bytes():
    points = [(n + 1.0, 50.0 + n % 4) for n in range(6)]
    assert labelled(points)[2] == labelled(list(points))[2]
    assert labelled(points)[2] != labelled(points, line=points)[2]


def test_the_users_own_style_and_the_clock_change_nothing(monkeypatch):
    points = [(1.0, 50.0), (2.0, 60.0)]
    expected = labelled(points)[2]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "other", "axes.grid": False}):
        assert labelled(points)[2] == expected
    assert "1970" not in expected


@settings(max_examples=15, deadline=None)
@given(POINTS)
def test_labels_stand_inside_their_panel(points):
    boxes, frame, text = labelled(points)
    assert not re.search(r"\b(nan|inf)\b", text)
    for box in boxes:
        assert frame.x0 < box.x0 < box.x1 < frame.x1


def test_labels_keep_out_of_each_other_s_way():
    """A column of five, as the post-processings of one encoder, and neighbours of two others."""
    points = [(5.0, 60 + 2.0 * n) for n in range(5)] + [(4.5, 63.5), (0.1, 40.0)]
    boxes, *_ = labelled(points)
    assert len(boxes) == len(points)
    assert not any(box.count_overlaps(boxes[:n]) for n, box in enumerate(boxes))


def test_names_are_text_and_never_markup():
    *_, text = labelled([(1.0, 50.0)])
    assert "Quality <&> cost" in written(text)
    assert "Quality <&> cost" in [title.text for title in drawn(text, "title")]
    assert "about &lt;&amp;&gt;" in text


def test_a_dark_page_has_a_colour_for_each_that_is_drawn_in_ink_or_paper():
    """A colour of the style sheet that is not in the drawing would leave it in the dark."""
    found = results(*seven("e.mean", score=60.0), *seven("f.mean", score=70.0, encode=9.0))
    text = quality_against_cost(found)
    rules, body = text.split("</style>")[0].split("@media")[1], text.split("</style>")[1]
    told = [re.findall(r"\.(s\d+)\b", rule) for rule in rules.splitlines() if "!important" in rule]
    assert len(told) == 5
    assert all(f'class="{name}"' in body for names in told for name in names)
    assert all(told)


def test_each_style_is_stated_once():
    found = quality_against_cost(results(*seven("e.mean", score=60.0), *seven("f.mean")))
    assert 'style="' not in found
    classes = re.findall(r"^\.s\d+ { (.*) }$", found, re.MULTILINE)
    assert len(classes) == len(set(classes)) > 5


# Training curves


def test_a_curve_has_a_panel_for_losses_and_one_for_scores():
    losses, scores = [(n + 1, 5.0 / (n + 1)) for n in range(9)], [(3, 70.0), (6, 74.5), (9, 74.0)]
    both, alone = curve_svg(losses, scores), curve_svg(losses, [])
    assert list(marks(both)) == ["loss at step 9", "dev score at step 6"]
    assert list(marks(alone)) == ["loss at step 9"]
    assert {"0.556", "74.50", "loss", "dev score", "steps"} <= set(written(both))
    assert "0.556" in written(alone)
    assert "dev score" not in written(alone)
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
    assert cost_of(found, "e.mean", SIMCSE) == "4.0"
    assert cost_of(found, "e.mean", Scoring("raw", "spearman", "all")) == "not run"


def test_a_cost_that_other_processes_shared_the_machine_with_is_marked():
    one, *others = seven("e.mean")
    beside = replace(one, facts={**one.facts, "workers": 2})
    assert cost_of(results(beside, *others), "e.mean", SIMCSE).endswith(" ‡")
    assert " ‡" not in cost_of(results(one, *others), "e.mean", SIMCSE)


@pytest.mark.parametrize("hole", ["encode", "apply", "sentences"])
def test_a_clock_that_is_not_there_is_a_word_and_never_a_zero(hole):
    whole = [*seven("e.mean")[1:], replace(seven("e.mean", **{hole: None})[0])]
    assert cost_of(results(*whole), "e.mean", SIMCSE) == "not timed"
    assert (
        cost_of(results(*seven("e.mean", encode=0.0, apply=0.0)), "e.mean", SIMCSE) == "not timed"
    )
    assert quality_against_cost(results(*whole)) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00123, "0.012"), (0.0123, "0.12"), (0.899, "9.0"), (12.34, "123")]
)
def test_two_digits_are_enough_for_orientation(seconds, text):
    assert cost_of(results(*seven("e.mean", encode=seconds, apply=0.0)), "e.mean", SIMCSE) == text


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
    assert [method for method, _ in best_methods(found).values()] == [
        "slow.mean",
        "slow.mean+sn@target",
        "quick.mean",
    ]
    text = quality_against_cost(found)
    assert [written(text).count(name) for name in ("quick", "slow", "hole")] == [1, 1, 0]
    drawn_over = [hint.split(":")[0] for hint in marks(text)]
    assert drawn_over == ["quick.mean", "slow.mean+sn@target", "slow.mean"]
    assert printed(text) is not None


def test_nine_post_processings_have_nine_colours_and_nine_shapes():
    posts = ["", *(f"+{name}@target" for name in ("natsv:1", "sn", "sn+natsv:6", "whitening"))]
    posts += [f"+{name}@target" for name in ("flow", "glow", "nice", "realnvp")]
    found = results(*(r for n, p in enumerate(posts) for r in seven(f"e.mean{p}", score=60.0 + n)))
    colours, shapes = zip(*marks(quality_against_cost(found)).values(), strict=True)
    assert len(set(colours)) == len(set(shapes)) == 9
    assert None not in shapes
    legend = written(quality_against_cost(found))
    assert all(legend.count(name) == 1 for name in ("as encoded", "sn + natsv", "whitening"))


def test_another_record_gives_the_picture_another_digest():
    one, other = results(*seven("e.mean")), results(*seven("e.mean", encode=0.30001))
    assert printed(quality_against_cost(one)) != printed(quality_against_cost(other))


def test_without_an_average_there_is_no_picture():
    assert quality_against_cost(results(*seven("e.mean")[1:])) == ""
    assert quality_against_cost(results()) == ""


def test_a_report_writes_it_beside_the_leaderboard_and_says_when_it_is_stale(tmp_path):
    for one in seven("fake.mean"):
        Store(tmp_path).write(one, np.zeros(30), {})
    shutil.copytree(PAPERS, tmp_path / "papers", ignore=lambda _, names: sorted(names)[1:])
    folder = ResultsFolder(tmp_path, registry(FakeConfig()))
    assert tmp_path / PICTURE in write_files(folder, None)
    assert f"]({PICTURE})" in (tmp_path / "LEADERBOARD.md").read_text()
    assert stale_files(folder, None) == []
    for text in ("edited", ""):
        (tmp_path / PICTURE).write_text(text)
        assert stale_files(folder, None) == [tmp_path / PICTURE]
        assert [path for path, fault in verified_pages(folder).items() if fault] == [
            tmp_path / PICTURE
        ]
