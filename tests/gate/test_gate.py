"""The gate: nothing that moved passes, and what moved it is told apart. Most tests are mutants."""

import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from fakes import TOY, FakeConfig, library, made_record, registry, snapshot
from hypothesis import given
from hypothesis import strategies as st

from harness.assets.places import Places
from harness.cli.check import report_in_words
from harness.core import metrics
from harness.core.errors import DataError, UsageError
from harness.core.metrics.similarity import OTHER_SCORES
from harness.core.tensors import write_tensors
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell
from harness.gate.check import Gate
from harness.gate.drift import (
    PAIRS_SHOWN,
    TOLERANCE_ACROSS_PLATFORMS,
    changed_inputs,
    compare_record,
    most_moved,
)
from harness.gate.failures import FAILURES_FILE, note_outcomes, read_failures
from harness.gate.golden_vectors import (
    GOLDEN_ACROSS_PLATFORMS,
    GOLDEN_SAME_PLATFORM,
    GoldenVectors,
    check_encoder,
    golden_path,
    read_golden_vectors,
    write_golden_vectors,
)
from harness.gate.outcome import State
from harness.gate.quick_set import (
    SAME_SIMILARITY,
    committed_similarities,
    make_golden_vectors,
    promote_run,
    promote_similarities,
    quick_set,
)
from harness.gate.rules import Override, Rules, read_rules
from harness.registry import load_registry
from harness.results.index import Results
from harness.results.records import (
    SAME_PLATFORM,
    Cell,
    encode_committed,
    encode_run,
    read_committed,
)
from harness.results.store import Store, sidecar_metadata
from harness.results.verdict import prediction_half_width

ROOT = Path(__file__).resolve().parents[2]
VECTORS = (
    ROOT / "harness" / "assets" / "embedded" / "glove-mini" / "vectors.safetensors"
)
PLAIN, CENTRED = Cell("fake.mean", "toy"), Cell("fake.mean+centre@target", "toy")
SEEDED = tuple(Cell("fake.mean+stretch@target", "toy", seed) for seed in range(3))
CELLS = (PLAIN, CENTRED, *SEEDED)
FOUND = registry(FakeConfig())
AGREES, ENCODER, SCORER = State.AGREES, State.ENCODER, State.SCORER
NO_BASELINE, COULD_NOT_RUN = State.NO_BASELINE, State.COULD_NOT_RUN
NOT_AGAIN = State.NOT_MEASURED_AGAIN
SETS = """
quick = [
  { method = "fake.mean", task = "toy" },
  { method = "fake.mean+centre@target", task = "toy" },
  { method = "fake.mean+stretch@target", task = "toy", seeds = 3 },
]
"""


def measure(folder, results, weights="one", cells=CELLS, places=None):
    """A quick run of the fakes into `folder/results`, as the command line does it."""
    found = registry(FakeConfig(weights=weights))
    planned = [PlannedCell(found.parse(c.method), TOY, c.seed) for c in cells]
    texts = (
        library(folder) if places is None else replace(library(folder), places=places)
    )
    runs = folder / results
    outcomes = list(execute(planned, RunContext(texts, Store(runs))))
    note_outcomes(runs, outcomes)
    make_golden_vectors(planned, texts.places, runs)
    return outcomes


@pytest.fixture(scope="module")
def promoted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("promoted")
    promote_run(measure(folder, "runs"), folder / "runs", folder / "results")
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


def report_of(folder, runs="runs", cells=CELLS, **options):
    """The report of the cells of a run against `folder/results`."""
    options = {"registry": FOUND, **options}
    return Gate.open(folder / runs, folder / "results", **options).check(cells)


def printed_report(report, folder, runs="runs", width=None):
    """What the command prints of a report."""
    return report_in_words(report, folder / runs, folder / "results", width)


def states(report):
    """The state of each cell, by its name."""
    return {cell.name: cell.state for cell in report.cells}


def check_of_cell(report, cell=PLAIN):
    [check] = [check for check in report.cells if check.name == str(cell)]
    return check


def change_record(results, cell=PLAIN, **change):
    """Another run's record in the place of this one's."""
    store = Store(results)
    record = store.read(cell)
    changed = replace(
        record, **{name: new(getattr(record, name)) for name, new in change.items()}
    )
    store.path(cell).write_bytes(encode_run(changed))


def shift_main_score(by):
    """Scores whose main one is so many points off."""
    return lambda s: {
        **s,
        "spearman": {**s["spearman"], "all": s["spearman"]["all"] + by},
    }


def with_another_processor(environment):
    return {**environment, "processor": "another"}


def other_digest(name):
    return lambda digests: {**digests, name: "another"}


# What moved, of a run that agreed


def override(tolerance, cell=PLAIN, reason="it trains"):
    return (
        f'\n[[override]]\nmethod = "{cell.method}"\ntask = "{cell.task}"\n'
        f'tolerance = {tolerance}\nreason = "{reason}"\n'
    )


@dataclass(frozen=True)
class Run:
    """A run that agreed with the committed results, one of which is changed."""

    runs: Path
    committed: Path

    def change_record(self, cell=PLAIN, **change):
        change_record(self.runs, cell, **change)

    def change_golden(self, results=None, **change):
        folder = results or self.runs
        write_golden_vectors(
            folder, replace(read_golden_vectors(folder, "fake"), **change)
        )

    def move_golden(self, distance):
        """Move one coordinate of a golden vector, as it is compared: of length 1."""
        vectors = read_golden_vectors(self.runs, "fake").vectors.astype(np.float64)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors[3, 1] += distance
        self.change_golden(vectors=vectors.astype(np.float32))

    def override(self, tolerance):
        (self.committed / "gate.toml").write_text(SETS + override(tolerance))

    def says(self, state, why="", *, encoder, status):
        """A check says this of the cell and of its encoder, and ends with this exit status."""
        gate = Gate.open(self.runs, self.committed, registry=FOUND)
        report = gate.check(CELLS)
        check = check_of_cell(report)
        states = [checked.state for checked in report.encoders]
        assert (check.state, states) == (state, [encoder] if encoder else [])
        assert why in check.why
        assert report.exit_status == status
        text = report_in_words(report, self.runs, self.committed)
        assert (f"{state}: {PLAIN}: " in text) == (
            state is not AGREES or "(it trains" in why
        )
        return text


@pytest.fixture
def run(committed, runs):
    return Run(runs, committed)


NUDGE = 20 * GOLDEN_SAME_PLATFORM
OTHER_KERNEL = [{"library": "onednn", "route": "packed", "tokens": 2048}]


def test_a_run_that_agrees_passes(run):
    text = run.says(AGREES, "0.0000 points", encoder=AGREES, status=0)
    assert text.endswith("agrees: 1 encoder, 5 cells")


@pytest.mark.parametrize("points", [0.002, -0.002])
def test_a_score_that_moved_alone_is_the_scorers(run, points):
    run.change_record(scores=shift_main_score(points))
    run.says(SCORER, "0.0020 points", encoder=AGREES, status=1)


def test_a_score_that_vanished_is_the_scorers(run):
    run.change_record(scores=lambda scores: {**scores, "alignment": 1.5, "extra": 2.0})
    run.says(SCORER, "one side only", encoder=AGREES, status=1)


@pytest.mark.parametrize("distance", [NUDGE, -NUDGE])
def test_a_score_that_moved_with_golden_vectors_is_the_encoders(run, distance):
    run.move_golden(distance)
    run.change_record(scores=shift_main_score(1))
    run.says(ENCODER, "1.0000 points", encoder=ENCODER, status=1)


def test_golden_vectors_that_moved_alone_fail(run):
    run.move_golden(NUDGE)
    run.says(AGREES, "0.0000 points", encoder=ENCODER, status=1)


def test_golden_vectors_that_are_no_numbers_fail(run):
    run.change_golden(vectors=np.full((32, 4), np.nan, np.float32))
    run.says(AGREES, encoder=ENCODER, status=1)


def test_another_encoder_with_the_same_vectors_fails(run):
    """A tokenizer that only splits other sentences differently, say."""
    run.change_golden(key="another")
    for cell in CELLS:
        run.change_record(cell, digests=other_digest("encoding"))
    run.says(AGREES, encoder=ENCODER, status=1)


def test_without_golden_vectors_it_is_unknown_what_moved(run):
    for results in (run.runs, run.committed):
        golden_path(results, "fake").unlink()
    run.change_record(scores=shift_main_score(1))
    run.says(State.UNKNOWN, "1.0000 points", encoder=None, status=1)


def test_golden_vectors_of_other_sentences_are_no_baseline(run):
    run.change_golden(run.committed, sentences="others")
    run.says(AGREES, encoder=NO_BASELINE, status=3)


def test_missing_committed_golden_vectors_are_no_baseline(run):
    golden_path(run.committed, "fake").unlink()
    run.says(AGREES, encoder=NO_BASELINE, status=3)


def test_a_missing_committed_record_is_no_baseline(run):
    path = Store(run.committed).committed_path(PLAIN.method)
    kept = [record for cell, record in read_committed(path).items() if cell != PLAIN]
    path.write_bytes(encode_committed(kept))
    run.says(NO_BASELINE, "no committed record", encoder=AGREES, status=3)


@pytest.mark.parametrize("change", [{"code": "other"}, {"key": "other"}])
def test_golden_vectors_of_an_earlier_run_are_no_answer(run, change):
    run.change_golden(**change)
    run.says(AGREES, encoder=NOT_AGAIN, status=3)


def test_golden_vectors_that_do_not_state_their_code_are_compared(run):
    run.change_golden(code="")
    run.says(AGREES, encoder=AGREES, status=0)


def test_a_record_of_other_code_is_no_answer(run):
    sidecar = Store(run.runs).path(PLAIN).with_suffix(".safetensors")
    similarities = Store(run.runs).cosines(PLAIN)
    metadata = {**sidecar_metadata(sidecar), "code": "other"}
    write_tensors(sidecar, {"cosine": similarities}, metadata)
    why = "of an earlier run, by other code; harness run --gate"
    run.says(NOT_AGAIN, why, encoder=AGREES, status=3)


def test_a_record_of_another_plug_in_is_no_answer(run):
    run.change_record(digests=lambda digests: {**digests, "plugin mine": "before"})
    for sha256, state in (("before", State.OTHER_INPUT), ("now", NOT_AGAIN)):
        gate = Gate.open(
            run.runs, run.committed, registry=FOUND, plugins={"mine": sha256}
        )
        assert check_of_cell(gate.check(CELLS)).state is state


def test_a_score_that_moved_counts_more_than_a_record_that_is_gone(run):
    Store(run.runs).path(PLAIN).unlink()
    run.change_record(CENTRED, scores=shift_main_score(1))
    run.says(COULD_NOT_RUN, "holds no record", encoder=AGREES, status=1)


def test_other_data_are_told_before_golden_vectors_that_moved(run):
    run.move_golden(NUDGE)
    run.change_record(digests=other_digest("data"))
    run.says(State.OTHER_INPUT, "other data; ", encoder=ENCODER, status=1)


@pytest.mark.parametrize("points", [0.4, -0.4])
def test_a_score_may_move_within_its_override(run, points):
    run.override(0.5)
    run.change_record(scores=shift_main_score(points))
    run.says(AGREES, "tolerance 0.5 (it trains)", encoder=AGREES, status=0)


def test_a_score_beyond_its_override_fails(run):
    run.override(0.5)
    run.change_record(scores=shift_main_score(0.6))
    run.says(SCORER, "(it trains)", encoder=AGREES, status=1)


def test_an_override_is_of_its_own_cell_alone(run):
    run.override(0.5)
    run.change_record(CENTRED, scores=shift_main_score(0.4))
    run.says(AGREES, "(it trains)", encoder=AGREES, status=1)


def test_an_override_may_be_narrower_than_the_rule(run):
    run.override(SAME_PLATFORM / 100)
    run.change_record(scores=shift_main_score(SAME_PLATFORM / 2))
    run.says(SCORER, "tolerance 1e-05 (it trains)", encoder=AGREES, status=1)


@pytest.mark.parametrize("share", [-1.1, -0.9, 0.9, 1.1])
def test_a_score_may_move_further_on_another_platform(run, share):
    run.change_record(
        scores=shift_main_score(share * TOLERANCE_ACROSS_PLATFORMS),
        environment=with_another_processor,
    )
    state, status = (SCORER, 1) if abs(share) > 1 else (AGREES, 0)
    run.says(state, "tolerance 0.05", encoder=AGREES, status=status)


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_another_kernel_on_the_same_platform_is_the_same_platform(run, share):
    points = shift_main_score(share * SAME_PLATFORM)
    run.change_record(
        scores=points, facts=lambda facts: {**facts, "encoding": OTHER_KERNEL}
    )
    state, status = (SCORER, 1) if share > 1 else (AGREES, 0)
    run.says(state, "tolerance 0.001", encoder=AGREES, status=status)


def test_no_run_is_no_pass_and_no_move(committed, tmp_path):
    report = report_of(tmp_path, "nowhere")
    assert set(states(report).values()) == {COULD_NOT_RUN}
    assert [e.state for e in report.encoders] == [COULD_NOT_RUN]
    assert report.exit_status == 3
    nowhere = tmp_path / "nowhere"
    report = Gate.open(tmp_path / "runs", nowhere, registry=FOUND).check([PLAIN])
    assert (check_of_cell(report).state, report.exit_status) == (NO_BASELINE, 3)
    text = report_in_words(report, tmp_path / "runs", nowhere)
    assert "harness run --gate --update makes it" in text
    assert "moved" not in text


def test_a_perturbed_cosine_is_the_scorers_and_names_the_pairs(
    committed, tmp_path, monkeypatch
):
    """One pair of the thirty is scored wrongly; everything before the cosine is as it was."""
    right = metrics.cosine

    def wrong(a, b):
        cosines, zero = right(a, b)
        cosines[7] = -cosines[7] if abs(cosines[7]) > 0.1 else 1.0
        return cosines, zero

    monkeypatch.setattr(metrics, "cosine", wrong)
    measure(tmp_path, "mutant")
    report = report_of(tmp_path, "mutant")
    check = check_of_cell(report)
    assert check.state is SCORER
    assert (check.pairs[0].pair, len(check.pairs)) == (8, PAIRS_SHOWN)
    assert check.pairs[0].committed != check.pairs[0].measured
    text = printed_report(report, tmp_path, "mutant")
    assert "scorer moved: fake.mean on toy, seed 0: " in text
    assert "    pair 8: similarity " in text


def test_other_weights_are_named_by_cell_and_encoder(committed, tmp_path):
    kept = read_golden_vectors(tmp_path / "runs", "fake")
    measure(tmp_path, "other", weights="two")
    report = report_of(tmp_path, "other")
    assert set(states(report).values()) == {ENCODER}
    assert re.fullmatch(
        r"other weights; -?\d+\.\d{4} -> -?\d+\.\d{4}", check_of_cell(report).why
    )
    assert check_of_cell(report).pairs
    [encoder] = report.encoders
    assert encoder.state is ENCODER
    assert encoder.why.startswith("other weights, tokenizer, modules or settings; ")
    write_golden_vectors(tmp_path / "other", kept)  # left by another run than the cells
    [encoder] = report_of(tmp_path, "other").encoders
    assert (encoder.state, "of an earlier run" in encoder.why) == (NOT_AGAIN, True)


def test_what_moved_is_shown_before_and_after(committed, tmp_path):
    change_record(tmp_path / "runs", scores=shift_main_score(1.25))
    old = Store(committed).read(PLAIN).scores["spearman"]["all"]
    [line, _] = printed_report(report_of(tmp_path), tmp_path).splitlines()
    assert line.startswith("scorer moved: fake.mean on toy, seed 0: 1.2500 points, ")
    assert line.endswith(f"; {old:.4f} -> {old + 1.25:.4f}")
    folded = printed_report(report_of(tmp_path), tmp_path, width=50).splitlines()
    assert max(len(line) for line in folded if str(tmp_path) not in line) <= 50


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
    assert (check.tolerance, check.state) == (
        tolerance,
        ENCODER if share > 1 else AGREES,
    )
    assert check.distance == pytest.approx(share * tolerance, rel=1e-3)


def test_a_model_under_its_own_modules_has_golden_vectors_of_its_own(tmp_path):
    """Its pooling is part of it, so that a broken one is told as the encoder's."""
    folder = shutil.copytree(
        ROOT / "harness/assets/embedded/simcse-sup-mini", tmp_path / "model"
    )
    found = load_registry().with_encoders([TransformerConfig("mine", "mine")])
    places = Places(tmp_path, encoders={"mine": folder})
    names = ("mine.native", "mine.mean")
    planned = [
        PlannedCell(found.parse(n), found.tasks["mini-lexical"], 0) for n in names
    ]
    make_golden_vectors(planned, places, tmp_path / "before")
    pooling = folder / "1_Pooling" / "config.json"
    held = json.loads(pooling.read_text())
    cls, mean = "pooling_mode_cls_token", "pooling_mode_mean_tokens"
    pooling.write_text(json.dumps({**held, cls: held[mean], mean: held[cls]}))
    make_golden_vectors(planned, places, tmp_path / "after")
    # All files of a folder are its identity, also those that `mine.mean` does not read.
    for name, state in (("mine.native", ENCODER), ("mine", ENCODER)):
        vectors = (
            read_golden_vectors(tmp_path / when, name) for when in ("before", "after")
        )
        assert check_encoder(*vectors).state is state


@pytest.mark.parametrize("damage", [b"", b"cut", b"\0" * 40, b"other keys"])
def test_a_file_without_golden_vectors_is_refused_by_name(committed, damage):
    path = golden_path(committed, "fake")
    path.write_bytes(path.read_bytes()[:-1] if damage == b"cut" else damage)
    if damage == b"other keys":
        write_tensors(
            path, {"vectors": np.ones((1, 1), np.float32)}, {"key": "", "colour": ""}
        )
    with pytest.raises(
        DataError, match=r"fake\.safetensors holds no golden vectors .*; delete it"
    ):
        read_golden_vectors(committed, "fake")


def test_golden_vectors_of_another_encoder_are_refused_by_name(committed):
    golden_path(committed, "fake").rename(golden_path(committed, "other"))
    words = r"other\.safetensors: wanted the vectors of other, found fake's"
    with pytest.raises(DataError, match=words):
        read_golden_vectors(committed, "other")


def test_similarities_of_another_cell_are_not_compared_and_are_replaced(
    committed, tmp_path
):
    path = Store(committed).quick_path(PLAIN)
    about = {**sidecar_metadata(path), "cell": "another cell"}
    write_tensors(path, {"cosine": Store(tmp_path / "runs").cosines(PLAIN)}, about)
    assert committed_similarities(Store(committed), PLAIN) is None
    assert promote_similarities(PLAIN, tmp_path / "runs", committed)
    assert committed_similarities(Store(committed), PLAIN) is not None


# Promotion


def test_promoting_again_changes_nothing(committed, tmp_path):
    before = snapshot(committed)
    assert promote_run(measure(tmp_path, "again"), tmp_path / "again", committed) == 0
    assert snapshot(committed) == before
    write_golden_vectors(
        committed, replace(read_golden_vectors(committed, "fake"), sentences="others")
    )
    assert promote_run(measure(tmp_path, "again"), tmp_path / "again", committed) == 1


def test_other_code_that_measures_the_same_changes_no_committed_similarity(
    committed, runs
):
    """And what measured another identity does."""
    path = Store(runs).path(PLAIN).with_suffix(".safetensors")
    about, cosines = sidecar_metadata(path), Store(runs).cosines(PLAIN)
    for name, changed in (("code", False), ("data", True)):
        write_tensors(path, {"cosine": cosines}, {**about, name: "other"})
        assert promote_similarities(PLAIN, runs, committed) is changed
    write_tensors(path, {"cosine": cosines + np.float32(2 * SAME_SIMILARITY)}, about)
    assert promote_similarities(PLAIN, runs, committed)
    assert not promote_similarities(PLAIN, runs, committed)


# What did not run


def test_a_cell_that_failed_is_not_judged_by_an_older_record(committed, tmp_path):
    """The encoder is gone when it is run again; records and vectors of before still lie there."""
    gone = Places(tmp_path / "cache", tmp_path / "data", {})
    measure(tmp_path, "runs", cells=[PLAIN], places=gone)
    report = report_of(tmp_path, cells=[PLAIN])
    assert check_of_cell(report).state is COULD_NOT_RUN
    assert "harness fetch fake" in check_of_cell(report).why
    assert [e.state for e in report.encoders] == [COULD_NOT_RUN]
    measure(tmp_path, "runs")
    assert report_of(tmp_path).exit_status == 0


@pytest.mark.parametrize("text", ["", "[]", '{"name": '])
def test_a_damaged_list_of_reasons_is_refused_by_name(tmp_path, text):
    (tmp_path / FAILURES_FILE).write_text(text)
    with pytest.raises(
        DataError, match=r"not-run\.json is no list of reasons .*; delete it"
    ):
        read_failures(tmp_path)


def test_what_an_interrupted_run_did_not_reach_could_not_run(committed, tmp_path):
    outcomes = measure(tmp_path, "runs")
    note_outcomes(tmp_path / "runs", outcomes[:1], [o.cell for o in outcomes[1:]])
    report = report_of(tmp_path)
    assert check_of_cell(report, outcomes[0].cell).state is AGREES
    late = [check_of_cell(report, outcome.cell) for outcome in outcomes[1:]]
    assert {(c.state, c.why) for c in late} == {
        (COULD_NOT_RUN, "the last run ended before it")
    }


def test_similarities_that_were_changed_are_refused_by_name(committed, tmp_path):
    sidecar = Store(tmp_path / "runs").path(PLAIN).with_suffix(".safetensors")
    content = bytearray(sidecar.read_bytes())
    content[-1] ^= 1
    sidecar.write_bytes(content)
    with pytest.raises(DataError, match=r"seed-0\.safetensors was changed or cut"):
        report_of(tmp_path)


# Rules


def test_an_override_of_a_cell_that_is_not_committed_is_refused(committed, tmp_path):
    (committed / "gate.toml").write_text(
        SETS + override(0.5, replace(PLAIN, method="fake.maen"))
    )
    with pytest.raises(
        DataError, match=r"gate\.toml: .* found one of fake\.maen on toy"
    ):
        report_of(tmp_path)


# One record against the committed ones


DIGESTS = {"data": "d", "weights": "w", "code": "c", "encoding": "e"}


def record(score, seed=0, **change):
    scores = {"spearman": {"all": score, "groups": {"a": score}}, "alignment": score}
    made = made_record(
        "m", "t", scores, seed, digests=DIGESTS, environment={"system": "Linux"}
    )
    return replace(made, **change)


def seeds(*scores):
    return [record(score, seed) for seed, score in enumerate(scores)]


def check_of(made, committed, *overrides):
    return compare_record(
        made, Results({("m", "t"): committed}), Rules(overrides=overrides)
    )


def test_the_tolerance_itself_is_within():
    assert (SAME_PLATFORM, TOLERANCE_ACROSS_PLATFORMS) == (0.001, 0.05)
    moved = [
        check_of(record(70 + by), seeds(70.0)).moved
        for by in (0.001, 0.001 + 1e-12, 0.0010001)
    ]
    assert moved == [False, False, True]


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


def test_one_committed_seed_has_no_interval():
    check = check_of(record(70.5), seeds(70.0))
    assert (check.state, check.distance) == (State.UNKNOWN, pytest.approx(0.5))


def test_another_seed_than_the_one_committed_has_no_baseline():
    check = check_of(record(70.0, seed=1), seeds(70.0))
    assert (check.state, check.distance) == (NO_BASELINE, None)


@pytest.mark.parametrize(("score", "state"), [(70.05, AGREES), (70.5, State.UNKNOWN)])
def test_an_override_is_a_tolerance_in_place_of_the_interval_of_seeds(score, state):
    a_tenth = Override("m", "t", 0.1, "why")
    assert check_of(record(score), seeds(70.0, 75.0), a_tenth).state is state


@pytest.mark.parametrize("hole", [{}, {"spearman": {"all": None}}, {"spearman": {}}])
@pytest.mark.parametrize("seed", [0, 9])
def test_a_record_without_its_main_score_agrees_with_nothing(hole, seed):
    check = check_of(record(0, seed, scores=hole), seeds(70.0, 75.0))
    assert (check.state, check.distance) == (State.UNKNOWN, None)
    assert "one side only" in check.why


def test_a_record_that_lacks_another_score_agrees_with_nothing():
    without_groups = {"spearman": {"all": 72.5, "groups": {}}, "alignment": 72.5}
    check = check_of(record(72.5, scores=without_groups), seeds(70.0, 75.0))
    assert (check.state, check.distance) == (State.UNKNOWN, None)


def test_nothing_agrees_with_committed_seeds_of_which_one_has_no_score():
    committed = [*seeds(70.0, 75.0), record(0, seed=2, scores={})]
    check = check_of(record(72.5), committed)
    assert (check.state, check.distance) == (State.UNKNOWN, None)


def test_weights_that_training_made_are_no_input_and_other_data_always_are():
    trained = [
        replace(r, digests={**r.digests, "weights": str(r.seed)})
        for r in seeds(70.0, 71.0)
    ]
    retrained = record(
        70.5, digests={**trained[0].digests, "weights": "new", "code": "x"}
    )
    assert changed_inputs(trained, retrained) == ()
    assert changed_inputs(seeds(70.0, 71.0), retrained) == ("weights",)
    assert not check_of(retrained, trained).moved
    others = record(70.5, digests={**trained[0].digests, "data": "x"})
    assert check_of(others, trained).inputs == ("data",)


# Pairs


@given(st.permutations(range(12)))
def test_the_pairs_that_moved_most_come_first(order):
    old, new = np.arange(12.0), np.array(order, float)
    moves = [abs(m.measured_rank - m.committed_rank) for m in most_moved(old, new)]
    most = sorted(np.abs(new - old), reverse=True)[:PAIRS_SHOWN]
    assert moves == [move for move in most if move > 0]


def test_columns_of_other_pairs_have_no_ranks_to_compare(committed, tmp_path):
    change_record(tmp_path / "runs", scores=shift_main_score(1))
    path = Store(committed).quick_path(PLAIN)
    write_tensors(path, {"cosine": np.zeros(29, np.float32)}, {"cell": str(PLAIN)})
    assert check_of_cell(report_of(tmp_path)).pairs == ()
    path.unlink()
    assert check_of_cell(report_of(tmp_path)).pairs == ()


@pytest.mark.parametrize("asset", [TOY.asset, "embedded"])
def test_pairs_are_told_with_their_sentences_where_these_are_at_hand(
    committed, tmp_path, asset
):
    """Those that the package carries need no data folder."""
    found = registry(FakeConfig())
    found.tasks["toy"] = replace(TOY, asset=asset)
    measure(tmp_path, "other", weights="two")
    scored, embedded = TOY.pairs(tmp_path / "data"), asset == "embedded"
    for folder in ("data", None, "runs"):
        at_hand = embedded or folder == "data"
        data_dir = folder and tmp_path / folder
        pairs = check_of_cell(
            report_of(tmp_path, "other", data_dir=data_dir, registry=found)
        ).pairs
        assert pairs
        for pair in pairs:
            texts = (scored.a[pair.pair - 1], scored.b[pair.pair - 1])
            assert pair.texts == (texts if at_hand else None)
    change_record(tmp_path / "other", digests=other_digest("data"))
    check = check_of_cell(report_of(tmp_path, "other", data_dir=tmp_path / "data"))
    assert all(pair.texts is None for pair in check.pairs), (
        "these are not the scored sentences"
    )


# What is checked


def test_by_default_the_quick_set_and_whatever_was_run(committed, runs, tmp_path):
    not_run = Gate.open(tmp_path / "nowhere", committed, registry=FOUND)
    assert not_run.cells_to_check() == CELLS
    extra = Cell("fake.cls", "toy")
    measure(tmp_path, "runs", cells=[extra])
    gate = Gate.open(runs, committed, registry=FOUND)
    assert gate.cells_to_check() == (*CELLS, extra)
    assert gate.cells_to_check(["*centre*"]) == (CENTRED,)
    assert gate.cells_to_check(["*"], ["toy"]) == (*CELLS, extra)
    mine = Cell("mine.mean", "toy")
    assert gate.cells_to_check(["mine.mean"], ["toy"]) == (mine,)
    report = report_of(tmp_path, cells=[mine])
    assert (states(report), report.exit_status) == ({str(mine): NO_BASELINE}, 3)


def test_the_committed_quick_set_can_be_run():
    planned = quick_set(load_registry(), ROOT / "results")
    assert {p.address for p in planned} == set(read_rules(ROOT / "results").quick_cells)
    assert len({p.method.encoder.name for p in planned}) > 1
    assert any(p.method.post for p in planned)


def test_an_unknown_task_in_a_set_is_wrong_usage(tmp_path):
    (tmp_path / "gate.toml").write_text(
        'quick = [{ method = "fake.mean", task = "tay" }]'
    )
    with pytest.raises(UsageError, match="did you mean toy"):
        quick_set(registry(FakeConfig()), tmp_path)


def test_scores_that_are_computed_since_a_record_was_committed_move_nothing():
    made = record(50.0)
    others = {name: {"all": 40.0} for name in OTHER_SCORES}
    now = replace(made, scores={**made.scores, **others})
    assert check_of(now, [made]).state is AGREES
    moved = replace(now, scores={**now.scores, "alignment": 49.0})
    assert check_of(moved, [made]).state is not AGREES
    assert check_of(made, [now]).state is not AGREES
