"""What a plan knows from an earlier run is what it would have read, or nothing."""

import os

import pytest
from fakes import AWAY, Sentences, corpus, library, task

from harness.core.digests import KEY_BYTES, sentence_key
from harness.core.errors import AssetMissing, DataError
from harness.encoders.cache.encodings import keys_in
from harness.evaluation import wanted
from harness.evaluation.wanted import Wanted, file_of, packed, remember
from harness.tasks.loader import needed_splits

TASKS = (task(), task("other", 10, metric="regression"))
WANTS = [(one, fit) for one in TASKS for fit in (None, "target", "target-train")]


def never(*_):
    raise AssertionError("the data were read")


def keys(library, *want):
    found = Wanted.open(library)
    return found.keys(found.splits(*want))


@pytest.fixture
def folder(tmp_path):
    """A run has read every split."""
    read = library(tmp_path)
    for want in WANTS:
        read.sentences(*want)
    remember(read)
    return tmp_path


@pytest.mark.parametrize("want", WANTS)
def test_the_keys_are_those_of_the_sentences_that_a_run_encodes(folder, want, monkeypatch):
    texts = library(folder).sentences(*want)
    monkeypatch.setattr(Sentences, "__call__", never)
    assert keys(library(folder), *want) == set(map(sentence_key, texts))


def test_without_a_run_they_come_from_the_data(tmp_path):
    for want in WANTS:
        texts = library(tmp_path).sentences(*want)
        assert keys(library(tmp_path), *want) == set(map(sentence_key, texts))
    assert not file_of(library(tmp_path).places).exists()


@pytest.mark.parametrize("change", ["code", "content", "another file", "cut", "no state"])
def test_after_a_change_they_come_from_the_data(folder, monkeypatch, change):
    places = library(folder).places
    data = next(path for path in places.data_dir.rglob("*") if path.is_file())
    if change == "code":
        monkeypatch.setattr(wanted, "code_digest", lambda: "other")
    elif change == "content":
        before = data.stat()
        data.write_bytes(data.read_bytes())
        os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "another file":
        data.with_name("new").touch()
    elif change == "cut":
        file_of(places).write_bytes(file_of(places).read_bytes()[:-1])
    else:
        monkeypatch.setattr(wanted, "state_of", lambda _: None)
    monkeypatch.setattr(Sentences, "__call__", never)
    with pytest.raises(AssertionError, match="the data were read"):
        keys(library(folder), *WANTS[0])


def test_a_run_adds_to_what_still_holds(folder, monkeypatch):
    new = task("new", 200)
    read = library(folder)
    texts = read.sentences(new, None)
    remember(read)
    monkeypatch.setattr(Sentences, "__call__", never)
    assert keys(library(folder), new, None) == set(map(sentence_key, texts))
    for want in WANTS:
        keys(library(folder), *want)


def test_data_that_are_not_here_are_missing_all_the_same(folder):
    away = library(folder)
    for path in sorted(away.places.data_dir.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    with pytest.raises(AssetMissing):
        keys(away, *WANTS[0])


def test_a_corpus_that_is_not_here_is_missing_though_all_keys_are_known(folder):
    away = library(folder, corpus("far", (), AWAY))
    with pytest.raises(AssetMissing):
        keys(away, TASKS[0], "far")


def test_damaged_data_are_said_and_never_remembered(tmp_path):
    broken = task(load=Sentences(broken=True))
    with pytest.raises(DataError):
        keys(library(tmp_path), broken, None)
    remember(library(tmp_path))
    assert not file_of(library(tmp_path).places).exists()


def test_a_cache_that_may_only_be_read_is_no_reason_to_fail(folder, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(wanted, "write_tensors", refuse)
    read = library(folder)
    read.sentences(task("new", 200), None)
    remember(read)


def test_keys_are_packed_and_unpacked():
    keys = frozenset({*map(sentence_key, "abc"), bytes(KEY_BYTES), b"a".ljust(KEY_BYTES, b"\0")})
    assert frozenset(keys_in(packed(keys))) == keys
    assert keys_in(packed(frozenset())) == []


def test_the_splits_of_a_cell_are_named_once():
    assert needed_splits(TASKS[0], None) == TASKS[0].scored
    assert set(needed_splits(TASKS[1], None)) == {*TASKS[1].scored, "train", "dev"}
    assert sorted(needed_splits(TASKS[1], "target")) == sorted(set(TASKS[1].splits))
