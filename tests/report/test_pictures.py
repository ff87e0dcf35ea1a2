"""The pictures of the page of results: every point is measured, and a kind has one look in all."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from harness.core.toml import read_toml
from harness.core.types import Record
from harness.registry import load_registry
from harness.report import (
    alignment_chart,
    directions_chart,
    distance_chart,
    reproduction_chart,
    seeds_chart,
    spectrum_chart,
    steps_chart,
    words_chart,
)
from harness.report.gallery import write_pdfs
from harness.report.pictures import known_kinds, looks_of
from harness.results.index import Results
from harness.results.protocols import encodings
from harness.results.published import load_tables
from harness.results.records import Store
from harness.results.reproduction import post_processing, reproductions

RESULTS = Path(__file__).resolve().parents[2] / "results"
COMMITTED = Results.read(Store(RESULTS))
TABLES = load_tables(RESULTS / "papers")
SVG = "{http://www.w3.org/2000/svg}"


def texts(picture, tag):
    root = ElementTree.fromstring(picture.svg())  # noqa: S314 - our own
    return [one.text for one in root.iter(f"{SVG}{tag}")]


def records(method, *scores):
    """One record a seed, on STS-B."""
    return [
        Record(1, method, "", "sts-b", seed, {"spearman": {"all": score}}, 9, {}, {}, {})
        for seed, score in enumerate(scores)
    ]


def results(*groups):
    return Results({(group[0].method, group[0].task): group for group in groups})


# Kinds


def test_no_two_kinds_share_a_colour_or_a_shape():
    held = known_kinds()
    every = [*held.looks, *held.spares]
    assert len({look.color for look in every}) == len({look.marker for look in every}) == len(every)
    measured = {post_processing(method) for method in COMMITTED.methods}
    assert measured <= {look.name for look in held.looks}


@given(st.lists(st.text("abcdef-", min_size=1, max_size=9), min_size=1, max_size=8, unique=True))
def test_a_kind_keeps_its_look_beside_others(names):
    """A newcomer's too, unless another newcomer's name points to the spare that it has."""
    listed = {look.name: look for look in known_kinds().looks}
    found = looks_of([*names, *listed])
    assert len({(look["color"], look["marker"]) for look in found.values()}) == len(found)
    for kind, look in listed.items():
        assert found[kind] == {"color": look.color, "marker": look.marker}
    assert looks_of(names[:1])[names[0]] == looks_of([names[0], *listed])[names[0]]


# Pictures


def test_every_measured_number_is_a_point_against_its_published_one():
    registry = load_registry()
    cells = [c for t in TABLES for c in reproductions(t, COMMITTED, registry).values()]
    picture = reproduction_chart.published_against_measured(cells, COMMITTED.unread())
    points = [hint.split(":")[0] for hint in texts(picture, "title") if ": published " in hint]
    run = [cell for cell in cells if cell.scores]
    assert sorted(points) == sorted([cell.cell.id for cell in run] * 2)  # in both panels
    assert picture.notes[0].startswith(f"{len(run)} of {len(cells):,} published numbers")
    assert reproduction_chart.published_against_measured([], COMMITTED.unread()) is None


def test_a_picture_is_drawn_anew_where_a_published_number_changed_and_no_record():
    registry = load_registry()
    cells = [c for t in TABLES for c in reproductions(t, COMMITTED, registry).values()]
    draw = reproduction_chart.published_against_measured
    picture = draw(cells, COMMITTED.unread())
    drawn = picture.svg()
    assert picture.svg(drawn) is drawn
    fewer = [c for c in cells if c.scores] + [c for c in cells if not c.scores][1:]
    assert f"of {len(fewer):,} published" in draw(fewer, COMMITTED.unread()).svg(drawn)
    run = next(c for c in cells if c.scores)
    values = {**run.cell.row.values, run.cell.column.id: "12.34"}
    row = replace(run.cell.row, values=values)
    other = [replace(c, cell=replace(c.cell, row=row)) if c is run else c for c in cells]
    assert "published 12.34" in draw(other, COMMITTED.unread()).svg(drawn)


def test_every_seed_of_every_learned_method_is_shown():
    plain = records("plain.mean", 50.0)
    found = results(
        records("e.mean+flow@target", 60.0, 61.0, 62.5), records("f.mean", 70.0, 71.0), plain
    )
    picture = seeds_chart.seeds_of_methods(found)
    hints = [hint for hint in texts(picture, "title") if ": " in hint]
    assert hints == ["e.mean+flow@target: 60.00, 61.00, 62.50", "f.mean: 70.00, 71.00"]
    written = texts(picture, "text")
    assert {"3: 1.26", "2: 0.71", "f.mean"} <= set(written)
    assert "plain.mean" not in written
    assert seeds_chart.seeds_of_methods(results(plain)) is None


def test_a_line_is_drawn_where_enough_directions_were_tried():
    gains = {1: 1.0, 2: 2.0, 4: 0.5, 8: -1.0}
    base = records("e.mean", 60.0)
    swept = [records(f"e.mean+natsv:{k}@target", 60.0 + gain) for k, gain in gains.items()]
    few = [records(f"e.mean+whitening:{k}@target", 60.0) for k in (8, 16, 32)]
    picture = directions_chart.score_against_directions(results(base, *swept, *few))
    assert picture.heights == (1,)
    assert {"+natsv: difference", "e.mean, STS-B"} <= set(texts(picture, "text"))
    assert directions_chart.score_against_directions(results(base, *few)) is None
    assert directions_chart.score_against_directions(results(*swept)) is None  # against nothing


def test_steps_go_from_the_published_number_choice_by_choice():
    steps = read_toml(steps_chart.Steps, RESULTS / "questions" / "steps.toml")
    cells = {cell.id: cell for table in TABLES for cell in table.cells()}
    picture = steps_chart.protocol_steps(steps, cells, COMMITTED.unread())
    hints = [hint for hint in texts(picture, "title") if ": " in hint]
    assert hints[0] == "published: 72.37"
    assert [hint.rpartition(":")[0] for hint in hints[1:]] == [row.what for row in steps.rows]
    lost = replace(steps, rows=(*steps.rows, replace(steps.rows[0], method="no.mean")))
    assert steps_chart.protocol_steps(lost, cells, COMMITTED.unread()) is None


def on(task, *measured, facts=None):
    """Records of a task; `measured` are methods with their scores, repeated ones seeds."""
    groups = {}
    for method, scores in measured:
        own = groups.setdefault(method, [])
        own.append(Record(1, method, "", task, len(own), scores, 100, {}, {}, {}, facts or {}))
    return results(*groups.values())


def test_an_encoder_is_shown_by_its_most_measured_encoding_on_the_tasks_own_text():
    names = ["e.cls", "e.mean", "e.mean+sn@target", "e.mean+sn@nli", "e.last2+sn@target", "f.cls"]
    names += ["e.input"]  # another encoder: it reads the files in another way
    found = on("spectrum", *((name, {}) for name in names))
    assert encodings(found, "spectrum") == {
        "e.mean": ["e.mean", "e.mean+sn@target"],
        "f.cls": ["f.cls"],
        "e.input": ["e.input"],
    }
    assert encodings(found, "sts-b") == {}


def test_alignment_and_uniformity_are_of_the_best_method_of_each_kind():
    def scores(uniformity, score, alignment=0.25):
        kept = {"alignment": alignment, "uniformity": uniformity}
        return {"spearman": {"all": score}, **kept}

    found = on(
        "sts-b",
        ("e.mean", scores(-1.0, 60.0)),
        ("e.cls", scores(-0.5, 50.0)),
        ("e.mean+sn@target", scores(-3.0, 70.0)),
        ("e.mean+sn@nli", scores(-2.0, 80.0)),  # fitted on other text
        ("f.mean", scores(-1.5, 10.0, alignment=None)),  # undefined
    )
    picture = alignment_chart.alignment_against_uniformity(found)
    assert [hint for hint in texts(picture, "title") if ": " in hint] == [
        "e.mean: uniformity -1.00, alignment 0.25, Spearman 60.00",
        "e.mean+sn@target: uniformity -3.00, alignment 0.25, Spearman 70.00",
    ]
    assert "e" in texts(picture, "text")
    assert alignment_chart.alignment_against_uniformity(results(records("e.mean", 60.0))) is None


def test_a_spectrum_is_the_mean_over_seeds_and_no_zero_on_a_logarithmic_axis():
    found = on(
        "spectrum",
        ("e.mean", {"spectrum": {"1": 100.0, "2": 10.0, "3": 0.0}}),
        ("e.mean+flow@target", {"spectrum": {"1": 100.0, "2": 40.0}}),
        ("e.mean+flow@target", {"spectrum": {"1": 100.0, "2": 60.0}}),
        ("f.mean", {"spectrum": {}}),  # vectors that do not vary
    )
    assert spectrum_chart._spectrum(found, "e.mean") == {1: 100.0, 2: 10.0}
    assert spectrum_chart._spectrum(found, "e.mean+flow@target") == {1: 100.0, 2: 50.0}
    picture = spectrum_chart.spectrum_of_embeddings(found)
    assert {"e.mean", "e.mean+flow@target"} <= set(texts(picture, "title"))
    assert picture.heights == (1,)
    assert spectrum_chart.spectrum_of_embeddings(on("spectrum")) is None


def test_edit_distance_has_a_panel_for_gold_and_one_an_encoder():
    def scores(shift):
        steps = {name: {"1": 50.0 + n, "4": 40.0 + n} for n, name in enumerate(("lower", "median"))}
        moved = {name: {k: v + shift for k, v in own.items()} for name, own in steps.items()}
        kept = moved | {"upper": {"1": 90.0, "4": 80.0}}
        return {"quartiles": kept, "gold_quartiles": kept}

    measured = [("e.mean", scores(0)), ("e.mean+sn@target", scores(-10)), ("f.cls", scores(5))]
    picture = distance_chart.similarity_against_distance(on("distance-quartiles", *measured))
    hints = [hint for hint in texts(picture, "title") if hint in {"gold", *dict(measured)}]
    assert hints == ["gold", "e.mean", "e.mean+sn@target", "f.cls"]
    assert len(picture.heights) == 3
    assert distance_chart.similarity_against_distance(on("distance-quartiles")) is None


def test_words_are_shown_with_the_share_of_them_that_a_method_knows():
    def scores(rare):
        means = dict.fromkeys(["all", *words_chart.RANGES], 2.0) | {"5001-10000": rare}
        return {"norm": means, "distance": {"k=3": means}}

    measured = [("e.mean", scores(3.0)), ("e.mean+sn@target", scores(None))]
    for zeros, label in ((0, "e.mean"), (57, "e.mean (43%)")):
        found = on("word-frequency", *measured, facts={"zero_vectors": zeros})
        picture = words_chart.frequency_of_words(found)
        hints = [hint for hint in texts(picture, "title") if ": " in hint]
        assert hints == ["e.mean: 1-100: 1.00, 101-500: 1.00, 501-5000: 1.00, 5001-10000: 1.50"] * 2
        assert label in texts(picture, "text")
    unknown = on("word-frequency", ("e.mean", scores(None)), facts={"zero_vectors": 0})
    assert words_chart.frequency_of_words(unknown) is None


def test_every_picture_is_written_as_a_pdf_and_twice_the_same(tmp_path):
    one, other = (write_pdfs(RESULTS, RESULTS / "papers", tmp_path / name) for name in "ab")
    assert {path.stem for path in one} >= {"published-against-measured", "seeds"}
    assert all(path.read_bytes().startswith(b"%PDF") for path in one)
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
