"""A run: one pass for many cells, a failure is an outcome, and whatever was done stays done."""

import random
from collections import Counter
from unittest.mock import Mock

import pytest
from fakes import (
    BROKEN,
    NOT_HERE,
    OTHER,
    TOY,
    BrokenConfig,
    FakeConfig,
    FakeEncoder,
    Sentences,
    Told,
    corpus,
    method,
    numbered,
    outcomes_of_run,
    snapshot,
    task,
)
from threadpoolctl import ThreadpoolController

from baselines.natsv import Natsv
from harness.core.environment import packages
from harness.core.errors import DataError
from harness.core.metrics.correlation import CORRELATION_SCORES
from harness.core.types import Corpus, Method
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader
from harness.encoders import encodings
from harness.evaluation.fits import fit
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell, planned_cells
from harness.registry import load_registry
from harness.results.records import cell_of, largest_move
from harness.results.store import Store
from harness.transforms.pooling import MEAN

# One of every kind: plain, another pooling, calibrated, seeded and fitted on the
# training split.
METHODS = (
    method("mean"),
    method("cls"),
    method("mean", "centre", on="target"),
    method("first-last", "centre", "stretch", on="target"),
    method("mean", "stretch", on="target-train"),
)


def statuses(outcomes):
    return [outcome.status for outcome in outcomes.values()]


def logged(config, *methods):
    """The same methods on an encoder whose log is watched."""
    return [Method(config, m.pooling, m.post, m.fit_on) for m in methods]


# One pass


def test_each_sentence_of_all_cells_is_encoded_once(tmp_path):
    config, told = FakeConfig(), Told()
    planned = planned_cells(logged(config, *METHODS), [TOY, OTHER], seeds=2)
    assert set(statuses(outcomes_of_run(tmp_path, planned, told=told))) == {"measured"}
    wanted = set()
    for one in (TOY, OTHER):
        for split in one.splits:
            wanted.update(one.load(tmp_path, split).sentences)
    assert sorted(config.log) == sorted(wanted)
    # Progress counts tokens, since a long text takes longer than a short one; the
    # encoder cuts texts at 8.
    tokens = sum(min(8, len(text) // 5) + 1 for text in wanted)
    assert told.phases == [("encoding tokens", tokens), ("scoring", len(planned))]
    assert told.steps == tokens + len(planned)


def test_neither_the_order_of_cells_nor_the_batches_move_a_score(tmp_path, monkeypatch):
    planned = list(planned_cells(METHODS, [TOY, OTHER], seeds=2))
    one = outcomes_of_run(tmp_path / "one", planned)
    random.Random(1).shuffle(planned)
    monkeypatch.setattr("harness.evaluation.embeddings.SHARD", 7)
    other = outcomes_of_run(tmp_path / "other", planned)
    assert one.keys() == other.keys()
    for cell, outcome in one.items():
        a, b = outcome.record.scores, other[cell].record.scores
        assert a["spearman"] == b["spearman"]
        # Uniformity sums float32 exponentials, in the order of the rows.
        assert largest_move(a, b) < 1e-6


def test_each_seed_has_a_fit_and_one_on_a_corpus_serves_all_tasks(
    tmp_path, monkeypatch
):
    counted = Mock(wraps=fit)
    monkeypatch.setattr("harness.evaluation.fits.fit", counted)
    on_stream = method("mean", "stretch", on="stream")
    on_target = method("mean", "centre", "stretch", on="target")
    planned = planned_cells([on_stream, on_target], [TOY, OTHER], seeds=2)
    outcomes = outcomes_of_run(tmp_path, planned, STREAM)
    fits = Counter(call.args[0] for call in counted.call_args_list)
    assert fits == {on_stream.post: 2, on_target.post: 4}
    for cell in planned:  # a fit that was kept is that of its own method and seed
        [alone] = outcomes_of_run(tmp_path / "alone", [cell], STREAM).values()
        assert alone.record.scores == outcomes[cell.address].record.scores


# The record


def test_a_record_says_everything_that_its_number_belongs_to(tmp_path):
    planned = planned_cells([METHODS[3]], [TOY], seeds=1)
    [(cell, outcome)] = outcomes_of_run(tmp_path, planned).items()
    record = outcome.record
    assert (cell_of(record), record.identity) == (cell, METHODS[3].identity)
    assert set(record.scores) == {*CORRELATION_SCORES, "alignment", "uniformity"}
    assert set(record.scores["spearman"]) == {"all", "mean", "wmean", "groups"}
    assert set(record.scores["spearman"]["groups"]) == {"left", "right"}
    assert record.pairs == 30
    assert set(record.timings) == {"encode", "fit", "apply", "score"}
    programs = {"file fakes", "file test_runner"}  # of the stand-ins
    digests = {"data", "fit", "encoding", "code", "weights"}
    assert set(record.digests) - programs == digests
    environment = {"commit", "dirty", "packages", "python", "processor", "threads"}
    assert {*environment, "device"} <= set(record.environment)
    facts = {"dimensions": 4, "rank": 4, "zero_vector_pairs": 0, "max_length": 8}
    assert {**facts, "distinct_sentences": 45}.items() <= record.facts.items()
    assert record.facts["peak_memory_mb"] > 0
    assert "encoded_with" not in record.facts
    assert Store(tmp_path / "runs").read(cell) == record


# What does not run


def sentences_cut_short(sentences):
    yield from sentences
    raise DataError("corpus.txt: wanted more sentences, found the end; get it again")


STREAM = corpus("stream", numbered(100, 25))
CUT = Corpus("cut", lambda _: sentences_cut_short(numbered(100, 5)), STREAM.asset)
NO_POOLER = FakeConfig(has_pooler=False)

CULPRITS = {
    "its data are not here": (METHODS[0], NOT_HERE),
    "its data are damaged": (METHODS[0], BROKEN),
    "its encoder does not load": (method(encoder=BrokenConfig(weights="broken")), TOY),
    "it lacks it on a corpus": (
        method("pooler", "centre", on="stream", encoder=NO_POOLER),
        TOY,
    ),
    "its corpus is cut": (method("cls", "centre", on="cut"), TOY),
    "its calibration is impossible": (
        Method(FakeConfig(), MEAN, (Natsv(9),), "target"),
        TOY,
    ),
}


@pytest.mark.parametrize("why", CULPRITS)
def test_a_cell_that_fails_stops_no_other(tmp_path, why):
    culprit, on = CULPRITS[why]
    healthy = [method("mean", encoder=FakeConfig("fine"))]
    if not isinstance(culprit.encoder, BrokenConfig):
        healthy += [
            method("mean", encoder=culprit.encoder),
            method("mean", "centre", on="stream", encoder=culprit.encoder),
            method("mean", "stretch", on="stream", encoder=culprit.encoder),
        ]
    planned = [PlannedCell(culprit, on, 0), *planned_cells(healthy, [TOY], seeds=1)]
    outcomes = outcomes_of_run(tmp_path, planned, STREAM, CUT)
    failed = outcomes.pop(planned[0].address)
    status, exit_statuses = "failed", (1, 2)
    if on is NOT_HERE:
        status, exit_statuses = "asset missing", (3,)
    assert failed.status == status
    assert failed.exit_status in exit_statuses
    assert "\n" not in failed.message
    assert statuses(outcomes) == ["measured"] * len(healthy)


# Whatever its exception


def test_an_unexpected_error_is_the_outcome_of_the_cells_that_meet_it(
    tmp_path, caplog, monkeypatch
):
    """TOY holds sentences 0 to 44, and what is after them 60 on."""
    rows_of = FakeEncoder.rows_of

    def jammed(encoder, text):
        if text == "sentence number 35":
            raise IndexError("row 35\nand more")
        return rows_of(encoder, text)

    monkeypatch.setattr(FakeEncoder, "rows_of", jammed)
    planned = planned_cells([method()], [TOY, task("after", start=60)], seeds=1)
    with caplog.at_level("DEBUG", "harness"):
        failed, fine = outcomes_of_run(tmp_path, planned).values()
    assert (failed.status, fine.status) == ("failed", "measured")
    assert failed.message.startswith("unexpected IndexError: row 35 (")
    assert "in encode" in caplog.text


# Run again


def test_a_second_run_measures_nothing_and_writes_nothing(tmp_path):
    planned = planned_cells(METHODS, [TOY, OTHER], seeds=2)
    first = outcomes_of_run(tmp_path, planned)
    before, told = snapshot(tmp_path), Told()
    second = outcomes_of_run(tmp_path, planned, told=told)
    assert set(statuses(second)) == {"done"}
    for cell, outcome in second.items():
        assert outcome.record == first[cell].record
    assert snapshot(tmp_path) == before
    assert told.phases == []


def test_other_weights_data_or_labels_are_measured_again(tmp_path):
    """Vectors of another model from a cache: embeddings-benchmark/mteb#3192.

    The labels of a regression are not scored, and still they move the score.
    """
    other = method(encoder=FakeConfig(weights="other"))
    learnt = [
        task("learnt", load=Sentences(labels=n), metric="regression") for n in (0, 1)
    ]
    measured = [(method(), TOY), (other, TOY), (other, task(start=3))]
    for cell in (*measured, *((other, scored) for scored in learnt)):
        [outcome] = outcomes_of_run(tmp_path, [PlannedCell(*cell, 0)]).values()
        assert outcome.status == "measured"


def test_a_record_states_other_versions_that_encoded_its_sentences(
    tmp_path, monkeypatch
):
    planned = planned_cells([method("mean")], [TOY], seeds=1)
    with monkeypatch.context() as patch:
        patch.setattr(
            encodings, "packages", lambda: {**packages(), "tokenizers": "0.1"}
        )
        [first] = outcomes_of_run(tmp_path, planned).values()
    [again] = outcomes_of_run(tmp_path, planned, overwrite=True).values()
    for outcome in (first, again):  # the packages of this process encoded nothing
        assert outcome.record.facts["encoded_with"] == {"tokenizers": ["0.1"]}


def test_no_digit_of_a_score_depends_on_the_number_of_threads(tmp_path):
    registry = load_registry()
    methods = registry.select_methods(
        ["glove-mini.mean+whitening@target", "glove-mini.mean+natsv:10@mini-text"]
    )
    planned = planned_cells(
        methods, registry.select_tasks(["mini-sts", "mini-sts.dev"]), seeds=1
    )
    libraries, scores = ThreadpoolController(), []
    for threads in ("1", "2", "3"):
        folder = tmp_path / threads
        context = RunContext(
            TaskLoader(Places(folder), registry.corpora), Store(folder / "runs")
        )
        with libraries.limit(limits=int(threads), user_api="blas"):
            scores.append({o.cell: o.record.scores for o in execute(planned, context)})
    assert scores[0] == scores[1] == scores[2]
