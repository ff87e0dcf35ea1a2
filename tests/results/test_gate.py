"""The gate: nothing that moved passes, and what moved it is told apart. Most tests are mutants."""

import re
import shutil
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
from fakes import TOY, FakeConfig, library, made_record, registry, snapshot
from hypothesis import given
from hypothesis import strategies as st
from processes import ROOT

from harness.cli.check import report_in_words
from harness.conclusions.folder import Conclusions
from harness.core.errors import DataError, UsageError
from harness.core.tensors import write_tensors
from harness.data.places import Places
from harness.encoders.modules import edit_json
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.promote import make_golden_vectors, promote
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell, quick_set
from harness.registry import load_registry
from harness.results.differences import (
    ITEMS,
    Contrast,
    Difference,
    neighbours,
    read_differences,
    write_differences,
)
from harness.results.gate import (
    GOLDEN_ACROSS_PLATFORMS,
    GOLDEN_SAME_PLATFORM,
    Gate,
    State,
    changed_inputs,
    check_encoder,
    check_record,
    read_rules,
)
from harness.results.golden_vectors import (
    GoldenVectors,
    golden_path,
    read_golden_vectors,
    write_golden_vectors,
)
from harness.results.index import Results
from harness.results.records import SAME_PLATFORM, Cell, cell_of, encode_run
from harness.results.scorings import SIMCSE
from harness.results.store import Store, note_failures, sidecar_metadata
from harness.results.verdict import prediction_half_width

PLAIN, CENTRED = Cell("fake.mean", "toy"), Cell("fake.mean+centre@target", "toy")
SEEDED = tuple(Cell("fake.mean+stretch@target", "toy", seed) for seed in range(3))
CELLS = (PLAIN, CENTRED, *SEEDED)
FOUND = registry(FakeConfig())
AGREES, INPUT, UNKNOWN = State.AGREES, State.OTHER_INPUT, State.UNKNOWN
ENCODER, SCORER = State.ENCODER, State.SCORER
NO_BASELINE, COULD_NOT_RUN = State.NO_BASELINE, State.COULD_NOT_RUN
NOT_AGAIN = State.NOT_MEASURED_AGAIN
SETS = """
quick = [
  { method = "fake.mean", task = "toy" },
  { method = "fake.mean+centre@target", task = "toy" },
  { method = "fake.mean+stretch@target", task = "toy", seeds = 3 },
]
"""


def measure(folder, results, cells=CELLS, places=None):
    """A quick run of the fakes into `folder/results`, as the command line does it."""
    planned = [PlannedCell(FOUND.parse(c.method), TOY, c.seed) for c in cells]
    texts = library(folder)
    if places is not None:
        texts = replace(texts, places=places)
    runs = folder / results
    outcomes = list(execute(planned, RunContext(texts, Store(runs))))
    note_failures(runs, {str(o.cell): o.message for o in outcomes})
    make_golden_vectors([cell.method for cell in planned], texts.places, runs)
    return outcomes


def promote_run(folder, results, committed):
    """A quick run whose outcomes are promoted; how many records and vectors changed."""
    records = [outcome.record for outcome in measure(folder, results)]
    runs = Conclusions(folder / results, FOUND)
    return promote(records, runs, Conclusions(committed, FOUND))


@pytest.fixture(scope="module")
def promoted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("promoted")
    promote_run(folder, "runs", folder / "results")
    (folder / "results" / "gate.toml").write_text(SETS)
    return folder


@pytest.fixture
def committed(tmp_path, promoted):
    """Committed results of the fakes, and a run in `runs` that agrees with them."""
    shutil.copytree(promoted, tmp_path, dirs_exist_ok=True)
    return tmp_path / "results"


@pytest.fixture
def runs(committed):
    return committed.with_name("runs")


def gate_of(runs, committed, plugins=()):
    folders = [Conclusions(path, FOUND, folders=[path]) for path in (runs, committed)]
    return Gate(*folders, dict(plugins))


def report_of(runs, cells=CELLS, committed=None, **options):
    """The report of the cells of a run against the committed results next to it."""
    return gate_of(runs, committed or runs.with_name("results"), **options).check(cells)


def check_of_cell(report, cell=PLAIN):
    [check] = [check for check in report.cells if check.name == str(cell)]
    return check


# What moved, of a run that agreed


def change_record(runs, cell=PLAIN, **change):
    """Another run's record in the place of this one's."""
    store = Store(runs)
    record = store.read(cell)
    values = {name: new(getattr(record, name)) for name, new in change.items()}
    store.path(cell).write_bytes(encode_run(replace(record, **values)))


def shifted(points, cell=PLAIN, **change):
    """A main score that is so many points off."""

    def scores(of):
        spearman = {**of["spearman"], "all": of["spearman"]["all"] + points}
        return {**of, "spearman": spearman}

    return lambda runs: change_record(runs, cell, scores=scores, **change)


def other_input(name, cell=PLAIN):
    """Another digest of an input."""

    def digests(of):
        return {**of, name: "another"}

    return lambda runs: change_record(runs, cell, digests=digests)


def golden(results="runs", **change):
    """Other golden vectors of a results folder."""

    def change_golden(runs):
        folder = runs.with_name(results)
        known = read_golden_vectors(folder, "fake")
        write_golden_vectors(folder, replace(known, **change))

    return change_golden


def golden_missing(*folders):
    def remove(runs):
        for folder in folders:
            golden_path(runs.with_name(folder), "fake").unlink()

    return remove


def other_code(runs):
    sidecar = Store(runs).path(PLAIN).with_suffix(".safetensors")
    similarities = Store(runs).cosines(PLAIN)
    metadata = {**sidecar_metadata(sidecar), "code": "other"}
    write_tensors(sidecar, {"cosine": similarities}, metadata)


def other_tokenizer(runs):
    """One that only splits other sentences differently, say."""
    for cell in CELLS:
        other_input("encoding", cell)(runs)


def no_record(runs):
    Store(runs).path(PLAIN).unlink()


NOT_FINITE = golden(vectors=np.full((32, 4), np.nan, np.float32))

CHANGES = {
    "Nothing": [],
    "A score": [shifted(-0.002)],
    "The encoder": [NOT_FINITE],
    "The encoder and a score": [NOT_FINITE, shifted(1)],
    "A score, and nothing is known of the encoder": [
        golden_missing("runs", "results"),
        shifted(1),
    ],
    "A score, and the vectors of the encoder are of an earlier run": [
        golden(code="other"),
        shifted(1),
    ],
    "The tokenizer, which splits other sentences": [
        golden(key="another"),
        other_tokenizer,
    ],
    "The weights, and the encoder": [NOT_FINITE, other_input("weights")],
    "The weights, and not the encoder": [other_input("weights")],
    "The data, the encoder and a score": [NOT_FINITE, other_input("data"), shifted(1)],
    "The fit corpus, and the encoder": [NOT_FINITE, other_input("fit", CENTRED)],
    "The committed vectors are of other sentences": [
        golden("results", sentences="others")
    ],
    "There are no committed vectors": [golden_missing("results")],
    "The vectors are of other weights than the records": [golden(key="other")],
    "The vectors do not say by which code they were made": [golden(code="")],
    "A record is of other code": [other_code],
    "A record is gone": [no_record],
    "A record is gone, and a score moved": [no_record, shifted(1, CENTRED)],
}


def test_what_a_check_says_of_what_moved_is_golden(promoted, tmp_path, approved):
    page = ""
    for number, (what, changes) in enumerate(CHANGES.items()):
        folder = shutil.copytree(promoted, tmp_path / str(number))
        runs, committed = folder / "runs", folder / "results"
        for change in changes:
            change(runs)
        report = report_of(runs)
        text = report_in_words(report, runs, committed).replace(f"{folder}/", "")
        page += f"# {what}\n\n{text}\n[{report.exit_status}]\n\n"
    assert page == approved("golden/checks.txt")


def test_a_record_of_another_plug_in_is_no_answer(runs):
    change_record(runs, digests=lambda digests: {**digests, "plugin mine": "before"})
    for sha256, state in (("before", INPUT), ("now", NOT_AGAIN)):
        report = report_of(runs, plugins={"mine": sha256})
        assert check_of_cell(report).state is state


# Golden vectors


@pytest.mark.parametrize(
    ("processor", "tolerance"),
    [("here", GOLDEN_SAME_PLATFORM), ("there", GOLDEN_ACROSS_PLATFORMS)],
)
@pytest.mark.parametrize("share", [0.5, 2])
def test_golden_vectors_may_move_further_across_platforms(processor, tolerance, share):
    """A unit vector's other coordinate, and a length that counts for nothing."""
    vectors = np.eye(32, 40, dtype=np.float32)
    old = GoldenVectors("e", "key", "here", "s", vectors)
    moved = vectors.copy()
    moved[5, 30] = share * tolerance
    check = check_encoder(old, replace(old, vectors=3 * moved, platform=processor))
    state = ENCODER if share > 1 else AGREES
    assert (check.tolerance, check.state) == (tolerance, state)
    assert check.distance == pytest.approx(share * tolerance, rel=1e-3)


def test_a_model_under_its_own_modules_has_golden_vectors_of_its_own(tmp_path):
    """Its pooling is part of it, so that a broken one is told as the encoder's."""
    folder = shutil.copytree(
        ROOT / "harness/data/embedded/simcse-sup-mini", tmp_path / "model"
    )
    found = load_registry().with_encoders([TransformerConfig("mine", "mine")])
    places = Places(tmp_path, encoders={"mine": folder})
    methods = [found.parse(name) for name in ("mine.native", "mine.mean")]
    make_golden_vectors(methods, places, tmp_path / "before")
    cls = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    edit_json(folder / "1_Pooling" / "config.json", **cls)
    make_golden_vectors(methods, places, tmp_path / "after")
    # All files of a folder are its identity, also those that `mine.mean` does not read.
    for name in ("mine.native", "mine"):
        vectors = (
            read_golden_vectors(tmp_path / when, name) for when in ("before", "after")
        )
        assert check_encoder(*vectors).state is ENCODER


def test_a_file_without_golden_vectors_is_refused_by_name(committed):
    path = golden_path(committed, "fake")
    whole = path.read_bytes()
    golden_path(committed, "other").write_bytes(whole)
    with pytest.raises(DataError, match=r"wanted the vectors of other, found fake's"):
        read_golden_vectors(committed, "other")
    refusal = r"fake\.safetensors holds no golden .*; delete"
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=refusal):
        read_golden_vectors(committed, "fake")
    write_tensors(path, {"vectors": np.ones((1, 1), np.float32)}, {"colour": ""})
    with pytest.raises(DataError, match=refusal):
        read_golden_vectors(committed, "fake")


# Promotion


def test_promoting_again_changes_nothing(committed, runs, tmp_path):
    before = snapshot(committed)
    assert promote_run(tmp_path, "again", committed) == 0
    assert snapshot(committed) == before
    golden("results", sentences="others")(runs)
    golden("again", code="older")(runs)  # left by an earlier run, not made by this one
    again = Conclusions(tmp_path / "again", FOUND)
    assert promote([*again.store.records()], again, Conclusions(committed)) == 0
    assert promote_run(tmp_path, "again", committed) == 1


def test_a_part_of_a_run_with_other_weights_is_not_promoted(committed, runs):
    """Once a baseline of two models, which the next whole run failed."""
    before = snapshot(committed)
    others = {"weights": "other"}

    def promoted_part(*cells):
        records = [
            replace(record, digests={**record.digests, **others})
            for record in Conclusions(runs, FOUND).store.records()
            if cell_of(record) in cells
        ]
        return promote(records, Conclusions(runs, FOUND), Conclusions(committed, FOUND))

    with pytest.raises(
        UsageError, match=r"other weights in .*\+centre@target on toy"
    ) as error:
        promoted_part(PLAIN, *SEEDED)
    assert "\n" not in str(error.value)
    assert snapshot(committed) == before
    assert promoted_part(*CELLS) == len(CELLS)


def test_a_partial_run_keeps_the_committed_differences_of_neighbours_alone(tmp_path):
    old, new = (Conclusions(tmp_path / name) for name in ("old", "new"))
    averages = {"glove-mini.mean+sn@target": 70.0, "glove-mini.mean": 60.0}
    records = [
        made_record(
            method,
            task,
            {"spearman": {"all": points}},
            identity=old.registry.parse(method).identity,
        )
        for method, points in averages.items()
        for task, _ in SIMCSE.task_scores
    ]
    [pair] = neighbours(averages, SIMCSE)
    reverse = Contrast(pair.second, pair.first, pair.scores)
    known = {
        contrast: Difference(
            contrast=contrast, points=10.0, low=9.0, high=11.0, p=0.5, by=ITEMS
        )
        for contrast in (pair, reverse)
    }
    write_differences(old.path, known)
    promote(records, new, old)
    assert read_differences(old.path) == {pair: known[pair]}
    write_differences(new.path, {pair: replace(known[pair], p=0.01)})
    promote([], Conclusions(new.path), Conclusions(old.path))
    assert read_differences(old.path)[pair].p == 0.01


# What did not run


def test_a_cell_that_failed_is_not_judged_by_an_older_record(committed, tmp_path):
    """The encoder is gone when it is run again; records and vectors of before still lie there."""
    gone = Places(tmp_path / "cache", tmp_path / "data", {})
    measure(tmp_path, "runs", cells=[PLAIN], places=gone)
    report = report_of(tmp_path / "runs", [PLAIN])
    assert check_of_cell(report).state is COULD_NOT_RUN
    assert "harness fetch fake" in check_of_cell(report).why
    assert [check.state for check in report.encoders] == [COULD_NOT_RUN]
    measure(tmp_path, "runs")
    assert report_of(tmp_path / "runs").exit_status == 0


def test_vectors_of_an_encoder_that_the_gate_no_longer_names_are_no_finding(runs):
    """An earlier run left them beside records that agree."""
    golden(key="another")(runs)
    assert [check.name for check in report_of(runs).encoders] == ["fake"]
    other = 'quick = [{ method = "other.mean", task = "toy" }]'
    runs.with_name("results").joinpath("gate.toml").write_text(other)
    assert report_of(runs).encoders == ()


# One record against the committed ones

DIGESTS = {"data": "d", "weights": "w", "code": "c", "encoding": "e"}


def record(score, seed=0, **change):
    scores = {"spearman": {"all": score, "groups": {"a": score}}, "alignment": score}
    made = made_record(
        "m", "t", scores, seed, digests=DIGESTS, environment={"system": "Linux"}
    )
    return replace(made, **change)


def test_the_line_of_a_moved_cell_shows_the_score_that_moved_by_its_points():
    moved = record(50.0)
    moved.scores["alignment"] = 30.0
    told = check_of(moved, [record(50.0)]).why
    assert told.startswith("20.0000 points")
    assert told.endswith("; alignment 50.0000 -> 30.0000")


def seeds(*scores):
    return [record(score, seed) for seed, score in enumerate(scores)]


def check_of(made, committed):
    return check_record(made, Results({("m", "t"): committed}))


@pytest.mark.parametrize(("system", "tolerance"), [("Linux", 0.001), ("Darwin", 0.05)])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_tolerance_itself_is_within(system, tolerance, sign):
    for share, moved in ((1, False), (1 + 1e-9, False), (1.01, True)):
        points = 70 + sign * share * tolerance
        made = record(points, environment={"system": system})
        check = check_of(made, seeds(70.0))
        assert (check.moved, check.tolerance) == (moved, tolerance)


FINITE = st.floats(20, 90).map(lambda x: round(x, 3))


@given(st.lists(FINITE, min_size=2, max_size=6), st.sampled_from([1, -1]))
def test_a_trained_cell_may_move_within_the_interval_of_its_seeds(scores, sign):
    """On both sides of the mean; a seed that was never committed is judged alike."""
    mean = fmean(scores)
    half = max(prediction_half_width(stdev(scores), len(scores)), SAME_PLATFORM)
    for seed in (0, 99):
        inside = check_of(record(mean + sign * 0.99 * half, seed), seeds(*scores))
        outside = check_of(record(mean + sign * 1.01 * half, seed), seeds(*scores))
        same_as_own = seed == 0 and abs(outside.distance or 0) <= SAME_PLATFORM
        assert not inside.moved
        assert outside.moved or same_as_own


def test_a_seed_beside_one_other_has_no_baseline():
    other = check_of(record(70.0, seed=1), seeds(70.0))
    assert (other.state, other.distance) == (NO_BASELINE, None)


@pytest.mark.parametrize(
    "hole",
    [
        {},
        {"spearman": {"all": None}},
        {"spearman": {}},
        {"spearman": {"all": 72.5, "groups": {}}, "alignment": 72.5},
    ],
)
def test_a_record_without_a_score_agrees_with_nothing(hole):
    for made, committed in (
        (record(0, 0, scores=hole), seeds(70.0, 75.0)),
        (record(72.5), [*seeds(70.0, 75.0)[1:], record(0, 0, scores=hole)]),
    ):
        check = check_of(made, committed)
        assert (check.state, check.distance) == (UNKNOWN, None)
        assert re.match(r"(spearman|alignment).*: on one side only", check.why)


def test_weights_that_training_made_are_no_input():
    trained = [
        replace(r, digests={**r.digests, "weights": str(r.seed)})
        for r in seeds(70.0, 71.0)
    ]
    digests = {**DIGESTS, "weights": "new", "code": "x"}
    retrained = record(70.5, digests=digests)
    assert changed_inputs(trained, retrained) == ()
    assert changed_inputs(seeds(70.0, 71.0), retrained) == ("weights",)
    assert not check_of(retrained, trained).moved


# What is checked


def test_by_default_the_quick_set_and_whatever_was_run(committed, runs, tmp_path):
    extra, mine = Cell("fake.cls", "toy"), Cell("mine.mean", "toy")
    assert gate_of(tmp_path / "nowhere", committed).cells_to_check() == CELLS
    measure(tmp_path, "runs", cells=[extra])
    gate = gate_of(runs, committed)
    for patterns, cells in (
        ([], (*CELLS, extra)),
        ([["*"], ["toy"]], (*CELLS, extra)),
        ([["*centre*"]], (CENTRED,)),
        ([["mine.mean"], ["toy"]], (mine,)),
    ):
        assert gate.cells_to_check(*patterns) == cells
    report = gate.check([mine])
    assert (check_of_cell(report, mine).state, report.exit_status) == (NO_BASELINE, 3)


def test_the_committed_quick_set_can_be_run():
    """Its data are in the repository: a checkout without other data can be gated."""
    planned = quick_set(load_registry(), ROOT / "results")
    places = Places(ROOT / "cache")
    assert all(places.has_data(p.task.asset) for p in planned)
    assert {p.address for p in planned} == set(read_rules(ROOT / "results").quick_cells)
    assert len({p.method.encoder.name for p in planned}) > 1
    assert any(p.method.post for p in planned)
