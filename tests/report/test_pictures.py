"""The pictures of the page of results: every point is measured, and a kind has one look in all."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from harness.core.metrics.word_frequency import RANGES
from harness.core.toml import read_typed
from harness.core.types import Record
from harness.registry import load_registry
from harness.report import figures
from harness.report.drawing import known_kinds, looks_of
from harness.report.figures import FROM_RECORDS, picture, write_pdfs
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.protocols import encodings
from harness.results.published import load_tables
from harness.results.records import Store
from harness.results.reproduction import post_processing, reproductions

RESULTS = Path(__file__).resolve().parents[2] / "results"
COMMITTED = Results.read(Store(RESULTS))
TABLES = load_tables(RESULTS / "papers")
SVG = "{http://www.w3.org/2000/svg}"


def texts(made, tag):
    root = ElementTree.fromstring(made.svg())  # noqa: S314 - our own
    return [one.text for one in root.iter(f"{SVG}{tag}")]


def records(method, *scores):
    """One record a seed, on STS-B."""
    return [
        Record(1, method, "", "sts-b", seed, {"spearman": {"all": score}}, 9, {}, {}, {})
        for seed, score in enumerate(scores)
    ]


def drawn(name, found):
    return picture(name, FROM_RECORDS[name], found)


def published(cells):
    choose = partial(figures.published_against_measured, cells)
    return picture("published-against-measured", choose, COMMITTED)


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
    made = published(cells)
    points = [hint.split(":")[0] for hint in texts(made, "title") if ": published " in hint]
    run = [cell for cell in cells if cell.scores]
    assert sorted(points) == sorted([cell.cell.id for cell in run] * 2)  # in both panels
    assert made.notes[0].startswith(f"{len(run)} of {len(cells):,} published numbers")
    assert published([]) is None


def test_a_picture_is_out_of_date_where_a_published_number_changed_and_no_record():
    registry = load_registry()
    cells = [c for t in TABLES for c in reproductions(t, COMMITTED, registry).values()]
    made_from = published(cells).made_from
    assert published(cells).made_from == made_from
    fewer = [c for c in cells if c.scores] + [c for c in cells if not c.scores][1:]
    assert published(fewer).made_from != made_from
    run = next(c for c in cells if c.scores)
    values = {**run.cell.row.values, run.cell.column.id: "12.34"}
    row = replace(run.cell.row, values=values)
    other = [replace(c, cell=replace(c.cell, row=row)) if c is run else c for c in cells]
    assert published(other).digest == published(cells).digest
    assert published(other).made_from != made_from


def test_every_seed_of_every_learned_method_is_shown():
    plain = records("plain.mean", 50.0)
    found = results(
        records("e.mean+flow@target", 60.0, 61.0, 62.5), records("f.mean", 70.0, 71.0), plain
    )
    made = drawn("seeds", found)
    hints = [hint for hint in texts(made, "title") if ": " in hint]
    assert hints == ["e.mean+flow@target: 60.00, 61.00, 62.50", "f.mean: 70.00, 71.00"]
    written = texts(made, "text")
    assert {"3: 1.26", "2: 0.71", "f.mean"} <= set(written)
    assert "plain.mean" not in written
    assert drawn("seeds", results(plain)) is None


def test_a_line_is_drawn_where_enough_directions_were_tried():
    gains = {1: 1.0, 2: 2.0, 4: 0.5, 8: -1.0}
    base = records("e.mean", 60.0)
    swept = [records(f"e.mean+natsv:{k}@target", 60.0 + gain) for k, gain in gains.items()]
    few = [records(f"e.mean+whitening:{k}@target", 60.0) for k in (8, 16, 32)]
    made = drawn("score-against-directions", results(base, *swept, *few))
    assert made.heights == (1,)
    assert {"+natsv: difference", "e.mean, STS-B"} <= set(texts(made, "text"))
    assert drawn("score-against-directions", results(base, *few)) is None
    assert drawn("score-against-directions", results(*swept)) is None  # against nothing


def test_steps_go_from_the_published_number_choice_by_choice(tmp_path):
    path = RESULTS / "questions" / "steps.toml"
    registry = load_registry()
    cells = [c for t in TABLES for c in reproductions(t, COMMITTED, registry).values()]

    def steps(file):
        choose = partial(figures.protocol_steps, file, cells)
        return picture("protocol-steps", choose, COMMITTED)

    hints = [hint for hint in texts(steps(path), "title") if ": " in hint]
    assert hints[0] == "published: 72.37"
    rows = read_typed(figures.Steps, path).rows
    assert [hint.rpartition(":")[0] for hint in hints[1:]] == [row.what for row in rows]
    lost = tmp_path / "steps.toml"
    lost.write_text(path.read_text().replace(f'"{rows[-1].method}"', '"no.mean"'))
    assert steps(lost) is None


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
    made = drawn("alignment-against-uniformity", found)
    assert [hint for hint in texts(made, "title") if ": " in hint] == [
        "e.mean: uniformity -1.00, alignment 0.25, Spearman 60.00",
        "e.mean+sn@target: uniformity -3.00, alignment 0.25, Spearman 70.00",
    ]
    assert "e" in texts(made, "text")
    assert drawn("alignment-against-uniformity", results(records("e.mean", 60.0))) is None


def test_a_spectrum_is_the_mean_over_seeds_and_no_zero_on_a_logarithmic_axis():
    found = on(
        "spectrum",
        ("e.mean", {"spectrum": {"1": 100.0, "2": 10.0, "3": 0.0}}),
        ("e.mean+flow@target", {"spectrum": {"1": 100.0, "2": 40.0}}),
        ("e.mean+flow@target", {"spectrum": {"1": 100.0, "2": 60.0}}),
        ("f.mean", {"spectrum": {}}),  # vectors that do not vary
    )
    made = drawn("spectrum", found)
    assert {"e.mean", "e.mean+flow@target"} <= set(texts(made, "title"))
    plain, flow = made.data["e.mean"]
    assert (plain.x, plain.y) == ([1, 2], [100.0, 10.0])
    assert (flow.x, flow.y) == ([1, 2], [100.0, 50.0])
    assert made.heights == (1,)
    assert drawn("spectrum", on("spectrum")) is None


def test_edit_distance_has_a_panel_for_gold_and_one_an_encoder():
    def scores(shift):
        steps = {name: {"1": 50.0 + n, "4": 40.0 + n} for n, name in enumerate(("lower", "median"))}
        moved = {name: {k: v + shift for k, v in own.items()} for name, own in steps.items()}
        kept = moved | {"upper": {"1": 90.0, "4": 80.0}}
        return {"quartiles": kept, "gold_quartiles": kept}

    measured = [("e.mean", scores(0)), ("e.mean+sn@target", scores(-10)), ("f.cls", scores(5))]
    made = drawn("similarity-against-edit-distance", on("distance-quartiles", *measured))
    hints = [hint for hint in texts(made, "title") if hint in {"gold", *dict(measured)}]
    assert hints == ["gold", "e.mean", "e.mean+sn@target", "f.cls"]
    assert len(made.heights) == 3
    assert drawn("similarity-against-edit-distance", on("distance-quartiles")) is None


def test_words_are_shown_with_the_share_of_them_that_a_method_knows():
    def scores(rare):
        means = dict.fromkeys(RANGES, 2.0) | {"5001-10000": rare}
        return {"norm": means, "distance": {"k=3": means}}

    measured = [("e.mean", scores(3.0)), ("e.mean+sn@target", scores(None))]
    for zeros, label in ((0, "e.mean"), (57, "e.mean (43%)")):
        found = on("word-frequency", *measured, facts={"zero_vectors": zeros})
        made = drawn("word-frequency", found)
        hints = [hint for hint in texts(made, "title") if ": " in hint]
        assert hints == ["e.mean: 1-100: 1.00, 101-500: 1.00, 501-5000: 1.00, 5001-10000: 1.50"] * 2
        assert label in texts(made, "text")
    unknown = on("word-frequency", ("e.mean", scores(None)), facts={"zero_vectors": 0})
    assert drawn("word-frequency", unknown) is None


def test_every_picture_is_written_as_a_pdf_and_twice_the_same(tmp_path):
    one, other = (write_pdfs(ResultsFolder(RESULTS), tmp_path / name) for name in "ab")
    assert {path.stem for path in one} >= {"published-against-measured", "seeds"}
    assert all(path.read_bytes().startswith(b"%PDF") for path in one)
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
