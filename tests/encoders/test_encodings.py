"""Embeddings on disk: encoded once ever, never another's, complete or absent, never damaged."""

import multiprocessing
import tempfile
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from fakes import DEPTH, FakeConfig, FakeEncoder, Told, numbered, ticks
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.encoders.cache.encodings import EncoderCache
from harness.evaluation.embeddings import SHARD, CachedEncoder

KEY = FakeConfig().identify(Path()).key
TEXTS = numbered(0, 12)
# Whatever a line of a file may hold; UTF-8 has no surrogates.
SENTENCES = st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=8)


def bench(root, config=None):
    config = config or FakeConfig()
    identity = config.identify(root)
    cache = EncoderCache.open(root, identity.key)
    return CachedEncoder(identity, cache, lambda: config.load(root, root), ticks(), root)


def filled(root, texts=TEXTS, seconds=1.0):
    cache, encoder = EncoderCache.open(root, KEY), FakeEncoder(KEY)
    cache.add(texts, encoder.encode(texts), seconds)
    return cache


def shards(root, suffix="safetensors"):
    return sorted((root / "encodings").rglob(f"*.{suffix}"))


def require_equal(found, wanted):
    assert (found.layers, found.depth) == (wanted.layers, wanted.depth)
    for name in ("mean", "cls", "pooler"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


# Once, in order, and each encoder its own


@settings(max_examples=30, deadline=None)
@given(SENTENCES, SENTENCES)
def test_what_is_read_is_what_was_encoded(stored, asked):
    with tempfile.TemporaryDirectory() as folder:
        made = bench(Path(folder))
        made.ensure(stored, Told())
        made.ensure(asked, Told())
        again = EncoderCache.open(Path(folder), KEY)
        require_equal(again.read(asked), FakeEncoder(KEY).encode(asked))


@settings(max_examples=30, deadline=None)
@given(st.lists(SENTENCES, max_size=4))
def test_each_distinct_sentence_is_encoded_once_ever(runs):
    config = FakeConfig()
    with tempfile.TemporaryDirectory() as folder:
        for texts in runs:
            bench(Path(folder), config).ensure(texts, Told())
    assert sorted(config.log) == sorted({text for texts in runs for text in texts})


def test_order_and_repetitions_are_the_callers(tmp_path):
    asked = [*TEXTS[::-1], *TEXTS[:3], TEXTS[0]]
    require_equal(filled(tmp_path).read(asked), FakeEncoder(KEY).encode(asked))


def test_missing_keeps_the_order_and_drops_repetitions(tmp_path):
    cache = filled(tmp_path, TEXTS[:2])
    assert cache.missing(["new", TEXTS[0], "newer", "new"]) == ["new", "newer"]


def test_an_encoder_is_loaded_only_for_a_sentence_that_is_missing(tmp_path):
    filled(tmp_path)
    made = bench(tmp_path)
    made.ensure(TEXTS, Told())
    assert made.encoder is None


def test_two_encoders_never_share_a_vector(tmp_path):
    one, other = FakeConfig(weights="one"), FakeConfig(weights="other")
    for config in (one, other):
        bench(tmp_path, config).ensure(TEXTS, Told())
    assert one.log == other.log
    a, b = (bench(tmp_path, config).cache.read(TEXTS).mean for config in (one, other))
    assert not np.isclose(a, b).any()
    assert EncoderCache.open(tmp_path, KEY + "0").missing(TEXTS) == list(TEXTS)


@pytest.mark.parametrize("has", [False, True])
def test_a_part_that_the_encoder_lacks_stays_absent(tmp_path, has):
    made = bench(tmp_path, FakeConfig(has_cls=has, has_pooler=not has))
    made.ensure(TEXTS, Told())
    found = made.cache.read(TEXTS)
    assert (found.cls is not None, found.pooler is not None) == (has, not has)


def test_many_sentences_go_in_shards_and_progress_counts_them(tmp_path):
    texts, told = numbered(0, SHARD + 1), Told()
    made = bench(tmp_path)
    made.ensure(texts, told)
    assert (len(shards(tmp_path)), told.steps) == (2, SHARD + 1)
    # Similar lengths together: a batch costs what its longest sentence costs.
    assert list(map(len, made.encoder.log)) == sorted(map(len, texts))


def test_the_seconds_paid_are_kept_and_shared_out(tmp_path):
    filled(tmp_path, TEXTS[:4], seconds=2.0)
    cache = filled(tmp_path, TEXTS[4:], seconds=4.0)
    assert cache.paid(TEXTS).seconds == pytest.approx(6.0)
    assert cache.paid(TEXTS[:1]).seconds == pytest.approx(0.5)
    assert cache.rate == pytest.approx(len(TEXTS) / 6.0)
    assert cache.size() == sum(path.stat().st_size for path in shards(tmp_path))


# Damage


def cut(path, share):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(data))


def flip_in(shard, name):
    flip(shard.path, 8 * (shard.start + shard.tensors[name]["data_offsets"][1] - 1))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_the_sentences_of_a_cut_shard_are_encoded_again(tmp_path, share):
    filled(tmp_path)
    [path] = shards(tmp_path)
    cut(path, share)
    assert EncoderCache.open(tmp_path, KEY).missing(TEXTS) == list(TEXTS)
    require_equal(read_again(tmp_path, TEXTS), FakeEncoder(KEY).encode(TEXTS))


@pytest.mark.parametrize("name", ["mean.0", f"mean.{DEPTH}", "cls", "pooler"])
def test_a_damaged_vector_is_refused_and_encoded_again(tmp_path, name):
    cache = filled(tmp_path)
    flip_in(cache.shards[0], name)
    with pytest.raises(HarnessError, match="damaged and were set aside; run again"):
        cache.read(TEXTS)
    require_equal(read_again(tmp_path, TEXTS), FakeEncoder(KEY).encode(TEXTS))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_flipped_bit_is_ever_served(data):
    """Anywhere in the file: the rows are right, or refused once and right in the next run."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        path = filled(root, TEXTS[:3]).shards[0].path
        flip(path, data.draw(st.integers(0, 8 * path.stat().st_size - 1)))
        try:
            found = read_again(root, TEXTS[:3])
        except HarnessError:
            found = read_again(root, TEXTS[:3])
        require_equal(found, FakeEncoder(KEY).encode(TEXTS[:3]))


def read_again(root, texts):
    made = bench(root)
    made.ensure(texts, Told())
    return made.cache.read(texts)


# How it was encoded


PLAIN, PACKED = ({"route": route, "threads": 2, "device": "cpu"} for route in ("plain", "packed"))


def test_the_ways_in_which_sentences_were_encoded_are_kept_with_them(tmp_path):
    cache, encoder = EncoderCache.open(tmp_path, KEY), FakeEncoder(KEY)
    for texts, how in ((TEXTS[:3], PLAIN), (TEXTS[3:6], PACKED), (TEXTS[6:9], PLAIN)):
        cache.add(texts, encoder.encode(texts), 1.0, how=how)
    again = EncoderCache.open(tmp_path, KEY)
    assert again.paid(TEXTS[:3]).how == again.paid(TEXTS[6:9]).how == (PLAIN,)
    assert again.paid(TEXTS[3:6]).how == (PACKED,)
    assert again.paid(TEXTS[:9]).how == (PACKED, PLAIN)


# Written while the next ones are encoded


def failing_at(number, wrapped, error):
    """The method, which fails when it is called for the so-manieth time."""
    calls = count(1)

    def call(*given, **named):
        if next(calls) == number:
            raise error
        return wrapped(*given, **named)

    return call


@pytest.mark.parametrize(
    ("cls", "method", "number", "kept"),
    [(EncoderCache, "add", 1, 0), (EncoderCache, "add", 3, 8), (FakeEncoder, "encode", 4, 8)],
)
def test_what_goes_wrong_is_raised_and_the_shards_before_are_whole(
    cls, method, number, kept, tmp_path, monkeypatch
):
    monkeypatch.setattr("harness.evaluation.embeddings.SHARD", 4)
    made, full = bench(tmp_path), OSError(28, "No space left on device")
    monkeypatch.setattr(cls, method, failing_at(number, getattr(cls, method), full))
    with pytest.raises(OSError, match="No space left"):
        made.ensure(TEXTS, Told())
    assert len(EncoderCache.open(tmp_path, KEY).known) == kept


# Complete or absent


class Crash(BaseException):
    """Power goes."""


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_a_crash_while_writing_leaves_the_old_file_or_none(tmp_path, monkeypatch, step):
    write_atomically(tmp_path / "old", b"before")
    for name in ("old", "new"):
        monkeypatch.setattr(step, failing_at(1, None, Crash))
        with pytest.raises(Crash):
            write_atomically(tmp_path / name, b"after")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"old": b"before"}


def test_a_crash_while_storing_a_shard_leaves_none(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", failing_at(1, None, Crash))
    with pytest.raises(Crash):
        filled(tmp_path)
    assert list((tmp_path / "encodings" / KEY).iterdir()) == []
    assert EncoderCache.open(tmp_path, KEY).missing(TEXTS) == list(TEXTS)


# Two at once


def fill(root, start, barrier):
    made = bench(Path(root))
    barrier.wait()
    for first in range(start, start + 40, 10):
        made.ensure(numbered(first, 10), Told())


def test_two_processes_may_fill_one_folder(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    workers = [context.Process(target=fill, args=(tmp_path, s, barrier)) for s in (0, 20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0]
    cache, texts = EncoderCache.open(tmp_path, KEY), numbered(0, 60)
    assert (cache.missing(texts), shards(tmp_path, "damaged")) == ([], [])
    require_equal(cache.read(texts), FakeEncoder(KEY).encode(texts))
