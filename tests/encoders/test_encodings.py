"""Embeddings on disk: encoded once ever, never another's, complete or absent, never damaged."""

import shutil
import tempfile
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from fakes import DEPTH, FakeConfig, FakeEncoder, numbered
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from harness.core.errors import HarnessError, UsageError
from harness.core.interfaces import Identity
from harness.core.provenance import with_code
from harness.core.tensors import write_tensors
from harness.data.places import Places
from harness.encoders import encodings
from harness.encoders.encodings import EncoderCache
from harness.evaluation.embeddings import CachedEncoder
from harness.transforms.pooling import CLS, MEAN, SECOND_LAST_CLS

ENCODER = FakeConfig().load(Path(), Path())
KEY = with_code(ENCODER.key, FakeConfig())
IDENTITY = Identity(KEY, {})
TEXTS = numbered(0, 12)
# Whatever a line of a file may hold; UTF-8 has no surrogates.
SENTENCES = st.lists(
    st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=8
)


def encoder_after_run(root, texts, config=None):
    """The cached encoder after a run over the texts."""
    places = Places(root, encoders={"fake": root})
    made = CachedEncoder.open(config or FakeConfig(), places)
    sum(made.encode(texts))
    return made


def cache_with_texts(root, texts=TEXTS, seconds=1.0, how=None):
    cache = EncoderCache.open(root, IDENTITY)
    cache.add(texts, ENCODER.encode(texts), seconds, how)
    return cache


def require_right(cache, texts):
    """Bit for bit what the encoder gives."""
    wanted = ENCODER.encode(texts)
    found = cache.read(texts, wanted.layers)
    assert (found.layers, found.depth) == (wanted.layers, wanted.depth)
    np.testing.assert_array_equal(found.mean, wanted.mean)
    vectors = cache.read(texts, ())
    for name in ("cls", "pooler"):
        np.testing.assert_array_equal(getattr(vectors, name), getattr(wanted, name))


# Once, in order, and each encoder its own


@settings(max_examples=30, deadline=None)
@given(SENTENCES, SENTENCES)
def test_each_distinct_sentence_is_encoded_once_ever_and_read_as_it_was(stored, asked):
    """Repeated texts that were encoded each time: embeddings-benchmark/mteb#738."""
    config = FakeConfig()
    with tempfile.TemporaryDirectory() as folder:
        for texts in (stored, asked, stored):
            encoder_after_run(Path(folder), texts, config)
        require_right(EncoderCache.open(Path(folder), IDENTITY), asked)
    assert sorted(config.log) == sorted({*stored, *asked})


def test_an_encoder_is_loaded_only_for_a_sentence_that_is_missing(tmp_path):
    cache_with_texts(tmp_path)
    assert "loaded" not in vars(encoder_after_run(tmp_path, TEXTS))


def test_two_encoders_never_share_a_vector(tmp_path):
    configs = FakeConfig(weights="one"), FakeConfig(weights="other")
    a, b = (
        encoder_after_run(tmp_path, TEXTS, config).cache.read(TEXTS, [DEPTH]).mean
        for config in configs
    )
    assert configs[0].log == configs[1].log
    assert not np.isclose(a, b).any()
    cache_with_texts(tmp_path)
    shutil.copytree(tmp_path / "encodings" / KEY, tmp_path / "encodings" / "another")
    assert EncoderCache.open(tmp_path, Identity("another", {})).missing(TEXTS) == list(
        TEXTS
    )


def test_what_sentences_cost_and_how_they_were_encoded_is_kept_with_them(
    tmp_path, monkeypatch
):
    for version, route, texts, seconds in (
        ("1", "plain", TEXTS[:4], 2.0),
        ("1", "packed", TEXTS[4:8], 4.0),
        ("2", "plain", TEXTS[8:], 4.0),
    ):
        versions = {"torch": version}
        monkeypatch.setattr(encodings, "packages", lambda found=versions: found)
        cache = cache_with_texts(tmp_path, texts, seconds, {"route": route})
    cost = cache.cost(TEXTS)
    assert (cost.sentences, cost.seconds) == (12, pytest.approx(10.0))
    assert cost.encoder_facts == ({"route": "packed"}, {"route": "plain"})
    assert cost.versions == {"torch": ["1", "2"]}
    part = cache.cost(TEXTS[:1])
    assert part.seconds == pytest.approx(0.5)
    assert part.encoder_facts == ({"route": "plain"},)
    assert part.versions == {"torch": ["1"]}
    assert cache.rate == pytest.approx(sum(map(len, TEXTS)) / 10.0)


# Statistics that a shard lacks


def cache_of_earlier_version(root, texts=TEXTS):
    """A shard that does not state what the encoder was asked for, with the last [CLS] alone."""
    made = cache_with_texts(root, texts)
    [shard] = made.shards
    metadata = {k: v for k, v in shard.metadata.items() if k != "statistics"}
    tensors = {name: shard.read(name) for name in shard.tensors}
    kept = {n: t for n, t in tensors.items() if not n.startswith("cls.")}
    write_tensors(shard.path, kept, metadata)


def test_a_shard_that_lacks_what_a_pooling_reads_is_missing_for_it_alone(tmp_path):
    cache_of_earlier_version(tmp_path)
    config = FakeConfig()
    made = encoder_after_run(tmp_path, TEXTS, config)
    for pooling in (MEAN, CLS):
        made.pooled(pooling, TEXTS)
    assert config.log == []
    rows = made.pooled(SECOND_LAST_CLS, TEXTS[:5]).matrix
    np.testing.assert_array_equal(rows, ENCODER.encode(TEXTS[:5]).layer_cls[:, -2])
    assert sorted(config.log) == sorted(TEXTS[:5])
    # What was encoded again serves all poolings, whatever the order of the files.
    again = encoder_after_run(tmp_path, TEXTS, config)
    again.pooled(SECOND_LAST_CLS, TEXTS[:5])
    assert again.cache.missing(TEXTS, ["layer_cls"]) == list(TEXTS[5:])
    assert len(config.log) == 5
    require_right(again.cache, TEXTS)


def test_an_encoder_without_a_statistic_is_asked_once(tmp_path):
    config = FakeConfig(has_layer_cls=False)
    made = encoder_after_run(tmp_path, TEXTS, config)
    for _ in range(2):
        with refused(UsageError, "no summary token of a layer"):
            made.pooled(SECOND_LAST_CLS, TEXTS)
    assert sorted(config.log) == sorted(TEXTS)


# Damage


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_the_sentences_of_a_cut_shard_are_encoded_again(tmp_path, share):
    cache_with_texts(tmp_path)
    [path] = tmp_path.rglob("*.safetensors")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert EncoderCache.open(tmp_path, IDENTITY).missing(TEXTS) == list(TEXTS)
    require_right(encoder_after_run(tmp_path, TEXTS).cache, TEXTS)


@pytest.mark.parametrize("name", ["mean.0", f"mean.{DEPTH}", "cls", "pooler"])
def test_a_damaged_vector_is_refused_and_encoded_again(tmp_path, name):
    cache = cache_with_texts(tmp_path)
    [shard] = cache.shards
    data = bytearray(shard.path.read_bytes())
    data[shard.start + shard.tensors[name]["data_offsets"][1] - 1] ^= 1
    shard.path.write_bytes(data)
    with refused(HarnessError, "damaged and were set aside; run again"):
        require_right(cache, TEXTS)
    require_right(encoder_after_run(tmp_path, TEXTS).cache, TEXTS)


# Complete or absent


@pytest.mark.parametrize(
    ("cls", "method", "number", "kept"),
    [
        (EncoderCache, "add", 3, 8),
        (FakeEncoder, "encode", 5, 8),  # after the probe, alone and with others
    ],
)
def test_what_goes_wrong_is_raised_and_the_shards_before_are_whole(
    cls, method, number, kept, tmp_path, monkeypatch
):
    calls, wrapped = count(1), getattr(cls, method)

    def fails_at_a_number(*given, **named):
        if next(calls) == number:
            raise OSError(28, "No space left on device")
        return wrapped(*given, **named)

    monkeypatch.setattr("harness.evaluation.embeddings.SHARD", 4)
    monkeypatch.setattr(cls, method, fails_at_a_number)
    with pytest.raises(OSError, match="No space left"):
        encoder_after_run(tmp_path, TEXTS)
    assert len(EncoderCache.open(tmp_path, IDENTITY).locations) == kept
