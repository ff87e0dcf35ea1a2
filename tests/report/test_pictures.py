"""The pictures of the pages: every point is measured, a kind has one look, no hole is a 0."""

import re
import shutil
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from committed import RESULTS, TABLES, committed_results
from fakes import FakeConfig, made_record, registry, results_of
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.toml import read_typed
from harness.registry import load_registry
from harness.report import drawing, figures
from harness.report.build import stale_files, write_files
from harness.report.drawing import Figure, Panel, Series, listed_looks, looks_of
from harness.report.figures import picture, post_processing
from harness.report.leaderboard import cost_in_words
from harness.results.costs import milliseconds
from harness.results.folder import ResultsFolder
from harness.results.reproduction import reproductions
from harness.results.scorings import SEVEN, SIMCSE, Scoring
from harness.results.store import Store

PAPERS = RESULTS / "papers"
COMMITTED = committed_results()
SVG = "{http://www.w3.org/2000/svg}"
POINTS = st.lists(
    st.tuples(st.floats(0.01, 100), st.floats(20, 90)), min_size=1, max_size=12
)


def texts(svg, tag):
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    return [one.text for one in root.iter(f"{SVG}{tag}")]


def hints_with_numbers(made):
    return [hint for hint in texts(made.svg, "title") if ": " in hint]


# Charts


def pictured(points):
    series = [
        Series("flow", [x], [y], f"hint {n} <&>") for n, (x, y) in enumerate(points)
    ]
    figure = Figure("Quality <&> cost", "", ("a note",))
    return drawing.svg(figure, [Panel(series)], "about <&>")


def test_the_same_numbers_give_the_same_bytes_whatever_the_users_style_and_clock(
    monkeypatch,
):
    points = [(n + 1.0, 50.0 + n % 4) for n in range(6)]
    text = pictured(points)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    with matplotlib.rc_context(
        {"font.size": 30, "svg.hashsalt": "other", "axes.grid": False}
    ):
        assert pictured(points) == text
    assert "1970" not in text
    assert pictured(points[:-1]) != text


@settings(max_examples=8, deadline=None)
@given(POINTS)
def test_every_point_has_its_hint_and_a_place(points):
    text = pictured(points)
    assert not re.search(r"\b(nan|inf)\b", text)
    assert texts(text, "title")[1:] == [f"hint {n} <&>" for n in range(len(points))]


# Kinds


def test_no_two_kinds_share_a_colour_or_a_shape_and_every_measured_one_is_listed():
    looks = listed_looks()
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
    clocks = {
        name: t for name, t in (("encode", encode), ("apply", apply)) if t is not None
    }
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
    assert cost_in_words(measured, "e.mean", SIMCSE) == "4.0"
    assert (
        cost_in_words(measured, "e.mean", Scoring("raw", "spearman", "all"))
        == "not run"
    )
    one, *others = seven("e.mean")
    beside = replace(one, facts={**one.facts, "workers": 2})
    assert cost_in_words(results_of(beside, *others), "e.mean", SIMCSE) == "4.0 ‡"


@pytest.mark.parametrize("hole", ["encode", "apply", "sentences"])
def test_a_clock_that_is_not_there_is_a_word_and_never_a_zero(hole):
    whole = results_of(*seven("e.mean")[1:], seven("e.mean", **{hole: None})[0])
    stopped = results_of(*seven("e.mean", encode=0.0, apply=0.0))
    assert {cost_in_words(one, "e.mean", SIMCSE) for one in (whole, stopped)} == {
        "not timed"
    }


# Pictures


def drawn(name, plot):
    return plot and picture(figures.figures()[name], plot, COMMITTED)


def published(cells):
    return drawn(
        "published-against-measured", figures.published_against_measured(cells)
    )


@pytest.fixture(scope="module")
def cells():
    found = load_registry()
    return [c for t in TABLES for c in reproductions(t, COMMITTED, found).values()]


def test_every_measured_number_is_a_point_against_its_published_one(cells):
    made, run = published(cells), [cell for cell in cells if cell.scores]
    points = [
        hint.split(":")[0]
        for hint in hints_with_numbers(made)
        if ": published " in hint
    ]
    assert sorted(points) == sorted(
        [cell.cell.id for cell in run] * 2
    )  # in both panels
    assert made.figure.notes[0].startswith(
        f"{len(run)} of {len(cells):,} published numbers"
    )
    assert published([]) is None


def test_a_picture_is_out_of_date_where_a_published_number_changed_and_no_record(cells):
    made = published(cells)
    run = next(c for c in cells if c.scores)
    row = replace(
        run.cell.row, values={**run.cell.row.values, run.cell.column.id: "12.34"}
    )
    changed = replace(run, cell=run.cell.table.cell(row, run.cell.column))
    other = [changed if c is run else c for c in cells]
    assert published(other).records == made.records
    assert published(other).made_from != made.made_from


def test_steps_go_from_the_published_number_choice_by_choice(tmp_path, cells):
    path = RESULTS / "questions" / "steps.toml"

    def steps(file):
        return drawn("protocol-steps", figures.protocol_steps(file, cells, COMMITTED))

    rows = read_typed(figures.Steps, path).rows
    names = ["published", *(row.what for row in rows)]
    assert [
        hint.rpartition(":")[0] for hint in hints_with_numbers(steps(path))
    ] == names
    assert hints_with_numbers(steps(path))[0] == "published: 72.37"
    lost = tmp_path / "steps.toml"
    lost.write_text(path.read_text().replace(f'"{rows[-1].method}"', '"no.mean"'))
    assert steps(lost) is None


def test_what_is_chosen_is_golden_and_drawn(approved, cells):
    path = RESULTS / "questions" / "steps.toml"
    made = drawn("protocol-steps", figures.protocol_steps(path, cells, COMMITTED))
    panels = "\n".join(map(repr, made.panels)).replace(", Series(", ",\n  Series(")
    series = [line for panel in made.panels for line in panel.series]
    assert texts(made.svg, "title") == [
        made.figure.title,
        *(line.hint for line in series),
    ]
    assert f"Records: sha256 {made.records.digest()}" in made.svg
    assert f"{made.figure}\n{panels}\n" == approved("golden/pictures.txt")


def test_a_report_writes_it_and_says_when_it_is_stale(tmp_path):
    scores = {"all": 60.0, "mean": 60.0, "wmean": 60.0, "groups": {}}
    record = made_record("fake.mean", "sts-b", {"spearman": scores})
    Store(tmp_path).write(record, np.zeros(30), {})
    shutil.copytree(
        PAPERS, tmp_path / "papers", ignore=lambda _, names: sorted(names)[1:]
    )
    folder = ResultsFolder(tmp_path, registry(FakeConfig()))
    path = tmp_path / "site/index.html"
    assert path in write_files(folder, None)
    assert stale_files(folder, None) == []
    path.write_text("edited")
    assert stale_files(folder, None) == [path]
