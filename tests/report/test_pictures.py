"""The pictures of the pages: every point is measured, a kind has one look, no hole is a 0."""

import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from fakes import FakeConfig, made_record, registry, results_of
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.metrics.word_frequency import RANGES
from harness.core.toml import read_typed
from harness.registry import load_registry
from harness.report import drawing, figures
from harness.report.build import digest_in, stale_files, write_files
from harness.report.drawing import Figure, Panel, Series, known_looks, looks_of
from harness.report.figures import FROM_RECORDS, picture
from harness.report.leaderboard import cost_of
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.protocols import SEVEN, SIMCSE, Scoring, encodings
from harness.results.published import load_tables
from harness.results.records import Store
from harness.results.reproduction import (
    best_methods,
    frontier,
    milliseconds,
    post_processing,
    reproductions,
)

RESULTS = Path(__file__).resolve().parents[2] / "results"
PAPERS = RESULTS / "papers"
COMMITTED = Results.read(Store(RESULTS))
TABLES = load_tables(PAPERS)
SVG = "{http://www.w3.org/2000/svg}"
POINTS = st.lists(st.tuples(st.floats(0.01, 100), st.floats(20, 90)), min_size=1, max_size=12)


def texts(svg, tag):
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    return [one.text for one in root.iter(f"{SVG}{tag}")]


def hints(made):
    return [hint for hint in texts(made.svg, "title") if ": " in hint]


def drawn(name, results):
    return picture(name, FROM_RECORDS[name], results)


def on(task, *measured, facts=None):
    """Records of a task; `measured` are methods with their scores, repeated ones seeds."""
    fields = {"pairs": 100, "facts": facts or {}}
    return results_of(*(made_record(method, task, scores, **fields) for method, scores in measured))


def on_sts_b(*measured):
    return on("sts-b", *((method, {"spearman": {"all": score}}) for method, score in measured))


# Charts


def labelled(points):
    """The boxes of labels at points of a panel, and the panel's own."""
    with matplotlib.rc_context(fname=Path(drawing.__file__).with_suffix(".mplstyle")):
        _, [axes] = drawing.laid_out(Figure("Quality", "", ("a note",)), [Panel(())])
        for x, y in points:
            axes.plot(x, y)
        drawing.write_labels(axes, [(f"encoder-{n}", point) for n, point in enumerate(points)])
        return [label.get_window_extent() for label in axes.texts], axes.bbox


def pictured(points):
    series = [Series("flow", [x], [y], f"hint {n}", "name <&>") for n, (x, y) in enumerate(points)]
    figure = Figure("Quality <&> cost", "", ("a note",))
    return drawing.svg(figure, [Panel(series)], "about <&>")


def test_the_same_numbers_give_the_same_bytes_whatever_the_users_style_and_clock(monkeypatch):
    points = [(n + 1.0, 50.0 + n % 4) for n in range(6)]
    text = pictured(points)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "other", "axes.grid": False}):
        assert pictured(points) == text
    assert "1970" not in text
    assert pictured(points[:-1]) != text


@settings(max_examples=8, deadline=None)
@given(POINTS)
def test_labels_stand_inside_their_panel(points):
    boxes, frame = labelled(points)
    assert not re.search(r"\b(nan|inf)\b", pictured(points))
    assert all(frame.x0 < box.x0 < box.x1 < frame.x1 for box in boxes)


# Kinds


def test_no_two_kinds_share_a_colour_or_a_shape_and_every_measured_one_is_listed():
    looks = known_looks()
    for values in zip(*looks.values(), strict=True):  # colours, then markers
        assert len(set(values)) == len(looks)
    assert {post_processing(method) for method in COMMITTED.methods} <= set(looks)
    chosen = looks_of(["another", "sn", "a third"])
    assert len({(look["color"], look["marker"]) for look in chosen.values()}) == 3
    assert chosen["sn"]["color"] == looks["sn"][0]


def test_a_kind_is_what_is_done_to_the_vectors():
    kinds = {
        "e.mean": "as encoded",
        "e:64.cls@target": "as encoded",
        "e.mean+natsv:6@target-train": "natsv",
        "e.mean+sn+natsv:6": "sn + natsv",
    }
    assert {method: post_processing(method) for method in kinds} == kinds


# Costs


def timed(method, task, encode=0.3, apply=0.1, sentences=100, score=60.0):
    clocks = {name: t for name, t in (("encode", encode), ("apply", apply)) if t is not None}
    scores = {"spearman": {"all": score, "wmean": score}}
    facts = {"distinct_sentences": sentences} if sentences else {}
    return made_record(method, task, scores, timings=clocks, facts=facts)


def seven(method, **change):
    return [timed(method, SIMCSE.task(task), **change) for task in SEVEN]


def test_the_cost_is_all_the_time_over_all_the_sentences():
    many, few = (SIMCSE.task(task) for task in ("sts12", "sts13"))
    measured = results_of(
        timed("e.mean", many, 2.0, 1.0, 900),
        timed("e.mean", few, 1.0, 0.0, 100),
        timed("e.mean", "qnli", 50.0, 50.0, 1),  # no column of the table
    )
    assert milliseconds(measured, "e.mean", SIMCSE) == pytest.approx(1000 * 4 / 1000)
    assert cost_of(measured, "e.mean", SIMCSE) == "4.0"
    assert cost_of(measured, "e.mean", Scoring("raw", "spearman", "all")) == "not run"
    one, *others = seven("e.mean")
    beside = replace(one, facts={**one.facts, "workers": 2})
    assert cost_of(results_of(beside, *others), "e.mean", SIMCSE) == "4.0 ‡"


@pytest.mark.parametrize("hole", ["encode", "apply", "sentences"])
def test_a_clock_that_is_not_there_is_a_word_and_never_a_zero(hole):
    whole = results_of(*seven("e.mean")[1:], seven("e.mean", **{hole: None})[0])
    stopped = results_of(*seven("e.mean", encode=0.0, apply=0.0))
    assert {cost_of(one, "e.mean", SIMCSE) for one in (whole, stopped)} == {"not timed"}
    assert drawn("quality-against-cost", whole) is None


@given(POINTS)
def test_the_frontier_is_what_nothing_beats_in_both(points):
    edge = frontier(points)
    for cost, score in points:
        assert any(x <= cost and y >= score for x, y in edge)
    for x, y in edge:
        assert not any((a <= x and b > y) or (a < x and b >= y) for a, b in points)


def test_quality_against_cost_shows_the_best_of_each_encoder_and_kind():
    measured = results_of(
        *seven("slow.mean", score=80.0, encode=9.0),
        *seven("slow.cls", score=70.0, encode=9.0),
        *seven("slow.mean+sn@target", score=75.0, encode=9.0),
        *seven("quick.mean", score=50.0),
        *seven("hole.mean")[1:],
    )
    best = ["slow.mean", "slow.mean+sn@target", "quick.mean"]
    assert [method for method, _ in best_methods(measured).values()] == best
    made = drawn("quality-against-cost", measured)
    assert [hint.split(":")[0] for hint in hints(made)] == best[::-1]  # the best over the others
    shown = texts(made.svg, "text")
    assert [shown.count(name) for name in ("quick", "slow", "hole", "sn")] == [1, 1, 0, 1]
    assert digest_in(made.svg) is not None


def test_a_report_writes_it_beside_the_leaderboard_and_says_when_it_is_stale(tmp_path):
    for one in seven("fake.mean"):
        Store(tmp_path).write(one, np.zeros(30), {})
    shutil.copytree(PAPERS, tmp_path / "papers", ignore=lambda _, names: sorted(names)[1:])
    folder = ResultsFolder(tmp_path, registry(FakeConfig()))
    name = "tables/quality-against-cost.svg"
    assert tmp_path / name in write_files(folder, None)
    assert f"]({name})" in (tmp_path / "LEADERBOARD.md").read_text()
    assert stale_files(folder, None) == []
    (tmp_path / name).write_text("edited")
    assert stale_files(folder, None) == [tmp_path / name]


# Pictures


def published(cells):
    choose = partial(figures.published_against_measured, cells)
    return picture("published-against-measured", choose, COMMITTED)


@pytest.fixture(scope="module")
def cells():
    found = load_registry()
    return [c for t in TABLES for c in reproductions(t, COMMITTED, found).values()]


def test_every_measured_number_is_a_point_against_its_published_one(cells):
    made, run = published(cells), [cell for cell in cells if cell.scores]
    points = [hint.split(":")[0] for hint in hints(made) if ": published " in hint]
    assert sorted(points) == sorted([cell.cell.id for cell in run] * 2)  # in both panels
    assert made.figure.notes[0].startswith(f"{len(run)} of {len(cells):,} published numbers")
    assert published([]) is None


def test_a_picture_is_out_of_date_where_a_published_number_changed_and_no_record(cells):
    made = published(cells)
    run = next(c for c in cells if c.scores)
    row = replace(run.cell.row, values={**run.cell.row.values, run.cell.column.id: "12.34"})
    changed = replace(run, cell=run.cell.table.cell(row, run.cell.column))
    other = [changed if c is run else c for c in cells]
    assert published(other).digest == made.digest
    assert published(other).made_from != made.made_from


def test_every_seed_of_every_learned_method_is_shown():
    learned = [("e.mean+flow@target", score) for score in (60.0, 61.0, 62.5)]
    learned += [("f.mean", 70.0), ("f.mean", 71.0)]
    made = drawn("seeds", on_sts_b(*learned, ("plain.mean", 50.0)))
    assert hints(made) == ["f.mean: 70.00, 71.00", "e.mean+flow@target: 60.00, 61.00, 62.50"]
    assert {"3: 1.26", "2: 0.71", "f.mean"} <= set(texts(made.svg, "text"))
    assert "plain.mean" not in texts(made.svg, "text")
    assert drawn("seeds", on_sts_b(("plain.mean", 50.0))) is None


def test_a_line_is_drawn_where_enough_directions_were_tried():
    gains = {1: 1.0, 2: 2.0, 4: 0.5, 8: -1.0}
    swept = [(f"e.mean+natsv:{k}@target", 60.0 + gain) for k, gain in gains.items()]
    few = [("e.mean", 60.0), *((f"e.mean+whitening:{k}@target", 60.0) for k in (8, 16, 32))]
    made = drawn("score-against-directions", on_sts_b(*few, *swept))
    assert len(made.panels) == 1
    assert {"+natsv: difference", "e.mean, STS-B"} <= set(texts(made.svg, "text"))
    assert drawn("score-against-directions", on_sts_b(*few)) is None
    assert drawn("score-against-directions", on_sts_b(*swept)) is None  # against nothing


def test_steps_go_from_the_published_number_choice_by_choice(tmp_path, cells):
    path = RESULTS / "questions" / "steps.toml"

    def steps(file):
        choose = partial(figures.protocol_steps, file, cells)
        return picture("protocol-steps", choose, COMMITTED)

    rows = read_typed(figures.Steps, path).rows
    names = ["published", *(row.what for row in rows)]
    assert [hint.rpartition(":")[0] for hint in hints(steps(path))] == names
    assert hints(steps(path))[0] == "published: 72.37"
    lost = tmp_path / "steps.toml"
    lost.write_text(path.read_text().replace(f'"{rows[-1].method}"', '"no.mean"'))
    assert steps(lost) is None


def test_an_encoder_is_shown_by_its_most_measured_encoding_on_the_tasks_own_text():
    names = ["e.cls", "e.mean", "e.mean+sn@target", "e.mean+sn@nli", "e.last2+sn@target", "f.cls"]
    names.append("e.input")  # another encoder: it reads the files in another way
    measured = on("spectrum", *((name, {}) for name in names))
    assert encodings(measured, "spectrum") == {
        "e.mean": ["e.mean", "e.mean+sn@target"],
        "f.cls": ["f.cls"],
        "e.input": ["e.input"],
    }
    assert encodings(measured, "sts-b") == {}


def test_alignment_and_uniformity_are_of_the_best_method_of_each_kind():
    def scores(uniformity, score, alignment=0.25):
        spearman = {"spearman": {"all": score}}
        return spearman | {"alignment": alignment, "uniformity": uniformity}

    measured = on(
        "sts-b",
        ("e.mean", scores(-1.0, 60.0)),
        ("e.cls", scores(-0.5, 50.0)),
        ("e.mean+sn@target", scores(-3.0, 70.0)),
        ("e.mean+sn@nli", scores(-2.0, 80.0)),  # fitted on other text
        ("f.mean", scores(-1.5, 10.0, alignment=None)),  # undefined
    )
    made = drawn("alignment-against-uniformity", measured)
    assert hints(made) == [
        "e.mean: uniformity -1.00, alignment 0.25, Spearman 60.00",
        "e.mean+sn@target: uniformity -3.00, alignment 0.25, Spearman 70.00",
    ]
    assert made.panels[0].guides == [([-1.0, -3.0], [0.25, 0.25])]
    assert "e" in texts(made.svg, "text")
    assert drawn("alignment-against-uniformity", on_sts_b(("e.mean", 60.0))) is None


def test_a_spectrum_is_the_mean_over_seeds_and_no_zero_on_a_logarithmic_axis():
    measured = on(
        "spectrum",
        ("e.mean", {"spectrum": {"1": 100.0, "2": 10.0, "3": 0.0}}),
        ("e.mean+flow@target", {"spectrum": {"1": 100.0, "2": 40.0}}),
        ("e.mean+flow@target", {"spectrum": {"1": 100.0, "2": 60.0}}),
        ("f.mean", {"spectrum": {}}),  # vectors that do not vary
    )
    made = drawn("spectrum", measured)
    assert {"e.mean", "e.mean+flow@target"} <= set(texts(made.svg, "title"))
    [panel] = made.panels
    assert [(s.x, s.y) for s in panel.series] == [([1, 2], [100.0, 10.0]), ([1, 2], [100.0, 50.0])]
    assert drawn("spectrum", on("spectrum")) is None


def test_edit_distance_has_a_panel_for_gold_and_one_an_encoder():
    def scores(shift):
        steps = {name: {"1": 50.0 + n, "4": 40.0 + n} for n, name in enumerate(("lower", "median"))}
        moved = {name: {k: v + shift for k, v in own.items()} for name, own in steps.items()}
        kept = moved | {"upper": {"1": 90.0, "4": 80.0}}
        return {"quartiles": kept, "gold_quartiles": kept}

    measured = [("e.mean", scores(0)), ("e.mean+sn@target", scores(-10)), ("f.cls", scores(5))]
    made = drawn("similarity-against-edit-distance", on("distance-quartiles", *measured))
    shown = [[series.hint for series in panel.series] for panel in made.panels]
    assert shown == [["gold"], ["e.mean", "e.mean+sn@target"], ["f.cls"]]
    assert "gold" in texts(made.svg, "title")
    assert drawn("similarity-against-edit-distance", on("distance-quartiles")) is None


def test_words_are_shown_with_the_share_of_them_that_a_method_knows():
    def scores(rare):
        means = dict.fromkeys(RANGES, 2.0) | {"5001-10000": rare}
        return {"norm": means, "distance": {"k=3": means}}

    measured = [("e.mean", scores(3.0)), ("e.mean+sn@target", scores(None))]
    for zeros, label in ((0, "e.mean"), (57, "e.mean (43%)")):
        words = on("word-frequency", *measured, facts={"zero_vectors": zeros})
        made = drawn("word-frequency", words)
        ratios = "e.mean: 1-100: 1.00, 101-500: 1.00, 501-5000: 1.00, 5001-10000: 1.50"
        assert hints(made) == [ratios] * 2
        assert label in texts(made.svg, "text")
    unknown = on("word-frequency", ("e.mean", scores(None)), facts={"zero_vectors": 0})
    assert drawn("word-frequency", unknown) is None
