"""Fits on vectors: rows of a corpus in files, a share of it, dropout; in bounded memory."""

import itertools
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
from fakes import (
    OTHER,
    TOY,
    Centre,
    FakeConfig,
    FakeEncoder,
    Stretch,
    Told,
    corpus,
    numbered,
    outcomes_of_run,
    task,
)
from hypothesis import given
from hypothesis import strategies as st

from baselines.flow import FLOWS
from baselines.natsv import Natsv
from baselines.sn import SN
from baselines.whitening import Whitening
from harness.core.interfaces import Encoding
from harness.core.tensors import TensorFile
from harness.core.types import Corpus, Method, score_at, score_paths
from harness.data.tasks.loader import FitCorpus
from harness.evaluation.embeddings import SHARD, dropout_batch
from harness.evaluation.evaluate import fit_method
from harness.evaluation.fits import FitCorpusSample
from harness.evaluation.select import planned_cells
from harness.transforms.pooling import CLS, MEAN, Mean

TARGET = tuple(t for split in TOY.splits for t in TOY.load(None, split).sentences)
SAME = corpus("same", TARGET)
FIFTY = numbered(100, 50)
STREAM = corpus("stream", FIFTY)


@dataclass(frozen=True)
class Noisy(FakeEncoder):
    """Leaves its dropout on: each number of a mean is 0, or twice what it is."""

    rng: np.random.Generator | None = None

    def with_dropout(self, seed):
        return replace(self, rng=np.random.default_rng(seed))

    def encode(self, texts):
        encoding = super().encode(texts)
        if self.rng is None:
            return encoding
        kept = 2 * self.rng.integers(0, 2, encoding.mean.shape)
        return replace(encoding, mean=(encoding.mean * kept).astype(np.float32))


@dataclass(frozen=True)
class NoisyConfig(FakeConfig):
    def load(self, path, cache):
        return Noisy(self.identify(path).key, log=self.log)


@dataclass(frozen=True)
class Watched(Stretch):
    """Remembers what it was fitted on: a share of a corpus, or encodings with dropout."""

    name: ClassVar[str] = "watched"
    share: float = 1.0
    dropout: bool = False
    given: list = field(default_factory=list, compare=False, repr=False)

    def fit(self, x, rng, share=1.0):
        self.given.append(np.array(x))
        assert share == self.share
        return super().fit(x, rng)


def fitted(on, *post, config=None, seeds=1):
    """The cells of a method on the task of the fakes."""
    return planned_cells([Method(config or FakeConfig(), MEAN, post, on)], [TOY], seeds)


def points(outcome):
    return outcome.record.scores["spearman"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of eight sentences."""
    for module in ("embeddings", "fits"):
        monkeypatch.setattr(f"harness.evaluation.{module}.SHARD", 4)
    monkeypatch.setattr("harness.evaluation.fits.SHARDS_A_BLOCK", 2)


# A streamed corpus


@pytest.mark.parametrize(
    "chain",
    [(SN(), Natsv(1), FLOWS["flow"], Whitening(2)), (SN(), Natsv(1, centred=True))],
    ids=lambda chain: "+".join(post.name for post in chain),
)
def test_a_fit_on_a_streamed_corpus_is_the_fit_on_the_same_rows_in_memory(
    tmp_path, monkeypatch, chain
):
    monkeypatch.setattr("harness.evaluation.embeddings.SHARD", 7)
    methods = [Method(FakeConfig(), MEAN, chain, on) for on in ("same", "target")]
    planned = planned_cells(methods, [TOY], seeds=1)
    streamed, kept = outcomes_of_run(tmp_path, planned, SAME).values()
    for path in score_paths(kept.record.scores):
        # Float64 sums in another order; ranks may not move at all.
        wanted = pytest.approx(score_at(kept.record.scores, path), abs=1e-6)
        assert score_at(streamed.record.scores, path) == wanted
    assert streamed.record.digests["fit"] == kept.record.digests["fit"]


def test_a_corpus_is_encoded_once_for_all_seeds_poolings_and_kinds_of_fit(tmp_path):
    config = FakeConfig()
    chains = [(Stretch(),), (Centre(), Stretch()), (Centre(),), (SN(),)]
    methods = [
        Method(config, pooling, chain, "stream")
        for pooling in (MEAN, CLS)
        for chain in chains
    ]
    planned = planned_cells(methods, [TOY, task("other", 7)], seeds=2)
    outcomes = outcomes_of_run(tmp_path, planned, STREAM)
    assert {o.status for o in outcomes.values()} == {"measured"}
    assert [config.log.count(t) for t in FIFTY] == [1] * 50
    assert len([*(tmp_path / "cache" / "rows").rglob("*.*")]) == 2


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("post", [Centre(), Stretch()], ids=["moments", "rows"])
@pytest.mark.parametrize(
    "later", [FIFTY[:30], FIFTY[::-1]], ids=["fewer", "other order"]
)
def test_sentences_that_change_between_two_readings_are_not_fitted_on(
    tmp_path, later, post
):
    """The digest of the first reading would be the name of what was made of the second."""
    readings = itertools.chain([FIFTY], itertools.repeat(later))
    changing = Corpus("vary", lambda _: next(readings), STREAM.asset)
    planned = fitted("vary", post)
    [outcome] = outcomes_of_run(tmp_path, planned, changing).values()
    assert outcome.status == "failed"
    assert "@vary: wanted the same sentences at each reading" in outcome.message
    for folder in ("moments", "rows"):
        assert not [*(tmp_path / "cache" / folder).rglob("*.*")]


@pytest.mark.parametrize("post", [SN(), Stretch()], ids=["moments", "rows"])
def test_a_damaged_file_is_never_served(tmp_path, post):
    planned = fitted("stream", post)
    [good] = outcomes_of_run(tmp_path, planned, STREAM).values()
    [path] = (tmp_path / "cache").rglob("stream.*.safetensors")
    data = bytearray(path.read_bytes())
    data[-2] ^= 0x40
    path.write_bytes(data)
    [again] = outcomes_of_run(tmp_path, planned, STREAM, overwrite=True).values()
    assert again.record.scores == good.record.scores


# A share of it


def test_only_the_share_that_a_fit_looks_at_is_encoded(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.evaluation.fits.SHARD", 4)
    config, half = FakeConfig(), Watched(share=0.5)
    planned = fitted("stream", half, config=config, seeds=3)
    outcomes = outcomes_of_run(tmp_path, planned, STREAM).values()
    assert {len(x) for x in half.given} == {25}
    assert len({x.tobytes() for x in half.given}) == 3  # each seed draws its own
    assert 25 < len({*config.log} & {*FIFTY}) < 50
    assert len({o.record.digests["fit"] for o in outcomes}) == 3


def test_a_file_is_of_its_share_and_of_its_poolings_settings(tmp_path):
    sentences = FitCorpus("c", lambda: map(str, range(10**5)))

    def name(pooling, *post):
        method = Method(FakeConfig(), pooling, post, "c")
        sample = FitCorpusSample.of(method, 0, sentences)
        return sample.file(tmp_path, "key", method).name

    flow, short = FLOWS["flow"], FLOWS["flow:paper-nli"]
    plain = f"c.{sentences.digest[:16]}.mean.safetensors"
    assert name(MEAN, flow) == name(MEAN, Whitening(), short) == plain
    assert ".15000-drawn.mean." in name(MEAN, short)
    assert len({name(Mean("mine", layers), flow) for layers in ((-1,), (0, -1))}) == 2


@given(st.integers(1, 300), st.floats(0.01, 0.99), st.integers(0, 9))
def test_a_draw_takes_sentences_once_and_in_their_order(count, part, seed):
    size = max(1, int(part * count))
    corpus_of_numbers = FitCorpus("c", lambda: map("{:03}".format, range(count)))
    sample = FitCorpusSample(corpus_of_numbers, size, seed)
    drawn = list(sample.sentences(range(size)))
    assert len(drawn) == size
    assert drawn == sorted(set(drawn))
    assert drawn == list(sample.sentences(range(size)))


# Dropout


def test_each_occurrence_of_a_sentence_is_encoded_with_dropout_of_its_own(tmp_path):
    """Dropout is on in the fit alone: scored and cached encodings are without it."""
    config, dropped = NoisyConfig(), Watched(dropout=True)
    one, other = outcomes_of_run(
        tmp_path, fitted("target", dropped, config=config, seeds=2)
    ).values()
    rows, others = dropped.given
    assert len(rows) == len(TARGET) > len(set(TARGET))
    plain = MEAN(config.load("", "").encode(TARGET))
    assert set(np.unique(np.round(rows / plain, 3))) == {0.0, 2.0}
    assert not np.array_equal(rows, others)
    twice = next(t for t in TARGET if TARGET.count(t) > 1)
    first, second, *_ = (i for i, t in enumerate(TARGET) if t == twice)
    assert not np.array_equal(rows[first], rows[second])
    assert points(one) != points(other)
    [after] = outcomes_of_run(tmp_path, fitted(None, config=config)).values()
    [alone] = outcomes_of_run(tmp_path / "plain", fitted(None)).values()
    assert after.record.scores == alone.record.scores


@pytest.mark.parametrize(
    ("depth", "width", "sentences"), [(4, 256, 2048), (12, 768, 128), (80, 32768, 1)]
)
def test_a_large_encoder_takes_fewer_sentences_at_a_time_with_dropout(
    depth, width, sentences
):
    """Blocks of a pass hold whole batches."""
    probe = Encoding((), depth, np.zeros((1, 0, width), np.float32))
    for device in ("cpu", "cuda:1"):  # part of the draws, so no device may change it
        batch = dropout_batch(FakeEncoder("a", facts={"device": device}), probe)
        assert batch == sentences
        assert SHARD % batch == 0


def test_an_encoder_without_dropout_is_refused(tmp_path):
    planned = fitted("target", Watched(dropout=True))
    [outcome] = outcomes_of_run(tmp_path, planned).values()
    assert (outcome.status, outcome.exit_status) == ("failed", 2)
    assert "wanted an encoder with dropout" in outcome.message


@pytest.mark.parametrize("seed", [0, 1])
def test_a_method_as_a_function_sees_the_dropout_of_a_run(tmp_path, seed):
    dropped = Watched(dropout=True)
    planned = fitted("target", dropped, config=NoisyConfig(), seeds=2)
    outcomes_of_run(tmp_path, planned)
    fit_method(planned[0].method, NoisyConfig().load("", ""), TARGET, seed)
    np.testing.assert_array_equal(dropped.given[2], dropped.given[seed])


# Blocks of a pass

SIXTY = numbered(200, 60)
FAR = corpus("far", SIXTY)


def digests_of(folder):
    """The digests of the files of the corpus; no file of a block is left."""
    assert not list(folder.rglob(".*.block"))
    return {
        path.name: TensorFile.parse(path).digests for path in folder.rglob("*far.*")
    }


@pytest.mark.usefixtures("small_blocks")
def test_an_interrupted_pass_goes_on_with_the_block_it_was_in_and_ends_with_the_same_bits(
    tmp_path, monkeypatch
):
    config, after = NoisyConfig(), 30
    methods = [
        Method(config, pooling, (post,), "far")
        for pooling in (MEAN, CLS)
        for post in (SN(), Stretch())
    ]
    planned = planned_cells(methods, [TOY], seeds=1)
    outcomes_of_run(tmp_path / "whole", planned, FAR)
    config.log.clear()
    encode = FakeEncoder.encode

    def interrupted(encoder, texts):
        if len({*encoder.log, *texts} & {*SIXTY}) > after:
            raise KeyboardInterrupt
        return encode(encoder, texts)

    with monkeypatch.context() as patch:
        patch.setattr(FakeEncoder, "encode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            outcomes_of_run(tmp_path / "cut", planned, FAR)
    config.log.clear()
    outcomes_of_run(tmp_path / "cut", planned, FAR)
    assert 0 < len(config.log) < 60 - after + 16
    assert digests_of(tmp_path / "whole") == digests_of(tmp_path / "cut") != {}


def test_two_processes_make_the_blocks_of_every_file_once_and_with_the_same_bits(
    tmp_path,
):
    many = corpus("far", numbered(200, 4 * SHARD + 9))  # two blocks
    told = Told()
    methods = [
        Method(FakeConfig(), MEAN, (Centre(),), "far"),
        Method(FakeConfig(), CLS, (Stretch(),), "far"),
    ]
    planned = planned_cells(methods, [TOY, OTHER], seeds=2)
    alone = outcomes_of_run(tmp_path / "alone", planned, many)
    beside = outcomes_of_run(tmp_path / "beside", planned, many, told=told, jobs=2)
    assert told.steps == sum(count for _, count in told.phases)
    assert digests_of(tmp_path / "beside") == digests_of(tmp_path / "alone") != {}
    for cell, outcome in alone.items():
        assert outcome.record.scores == beside[cell].record.scores
