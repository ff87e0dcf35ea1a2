"""What the cache folder holds and clearing it: oldest first, never another's, never under a run."""

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import FakeConfig, FakeEncoder, numbered, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli import main
from harness.core.errors import UsageError
from harness.core.files import sized
from harness.encoders.cache.gc import (
    cache_size,
    cached_entries,
    clear,
    entries_named,
    shrink,
)
from harness.encoders.cache.labels import open_labelled
from harness.evaluation.fit_vectors import write_fit_corpus
from harness.transforms.affine import Moments

NOW = 2e9
ONE, TWO = FakeConfig("one", "one"), FakeConfig("two", "two")
FORK = multiprocessing.get_context("fork")
HERE = Path(__file__)  # where the encoders would lie


def open_entry(root, config):
    """As a run opens it."""
    return open_labelled(root, config.name, config.identify(HERE))


def key_of(config):
    return config.identify(HERE).key


def write_entry(root, config, texts=4, used=NOW):
    """An encoder's entry as a run leaves it, last used at a given time."""
    cache = open_entry(root, config)
    cache.add(
        numbered(0, texts),
        FakeEncoder(cache.folder.name).encode(numbered(0, texts)),
        2.0,
    )
    for file in cache.folder.iterdir():
        os.utime(file, (used, used))
    return cache.folder


def add_rest(root, config):
    """Moments, rows and converted weights."""
    identity = config.identify(root)
    rows = FakeEncoder(identity.key).encode(numbered(0, 5)).mean[:, 0]
    write_fit_corpus(
        root / "moments" / identity.key / "corpus.mean.safetensors",
        Moments.of(rows),
        1.0,
    )
    write_fit_corpus(
        root / "rows" / identity.key / "corpus.rows.safetensors", rows, 1.0
    )
    converted = root / "converted" / f"{identity.digests['weights']}.safetensors"
    converted.parent.mkdir(exist_ok=True)
    converted.write_text("{}")


def clear_every_entry(root):
    """Which entries went, and which were kept since they are in use."""
    return {entry.names: clear(root, entry) for entry in cached_entries(root)}


def test_an_entry_has_everything_of_its_encoder_and_looking_writes_nothing(tmp_path):
    write_entry(tmp_path, ONE)
    add_rest(tmp_path, ONE)
    before = snapshot(tmp_path)
    entries = {entry.kind: entry for entry in cached_entries(tmp_path)}
    one = entries["encoder"]
    assert (one.names, one.key, one.sentences, one.seconds) == (
        ("one",),
        key_of(ONE),
        4,
        2.0,
    )
    assert entries["converted"].names == ("one",)
    assert cache_size(tmp_path) == sum(len(content) for content, _ in before.values())
    assert snapshot(tmp_path) == before
    assert (cached_entries(tmp_path / "none"), (tmp_path / "none").exists()) == (
        [],
        False,
    )


def test_a_run_marks_what_it_uses(tmp_path):
    write_entry(tmp_path, ONE, used=1.0)
    open_entry(tmp_path, ONE)
    assert cached_entries(tmp_path)[0].last_used > 1.0


# Clearing


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True),
    st.integers(0, 5000),
)
def test_the_longest_unused_go_until_the_rest_fits(tmp_path_factory, times, most):
    root = tmp_path_factory.mktemp("cache")
    for time in times:
        write_entry(
            root, FakeConfig(f"e{time}", f"{time}"), texts=time, used=NOW + time
        )
    before = cached_entries(root)
    did = list(shrink(root, most))
    left = cached_entries(root)
    assert [entry for entry, _ in did] + left == before
    assert cache_size(root) <= most or not left
    # And no more than had to go.
    assert not did or cache_size(root) + did[-1][0].bytes > most


def test_clearing_touches_nothing_that_is_not_the_caches_own(tmp_path):
    root, other = tmp_path / "cache", tmp_path / "other"
    write_entry(root, ONE)
    add_rest(root, ONE)
    ours = snapshot(tmp_path)
    write_entry(other, TWO)  # another cache, which links lead to
    encodings_of_one, encodings_of_two = (
        folder / "encodings" / key_of(config)
        for folder, config in ((root, ONE), (other, TWO))
    )
    (root / "encodings" / ("b" * 64)).symlink_to(encodings_of_two)
    (root / "moments" / ("d" * 64)).symlink_to(encodings_of_two)
    linked = other / next(iter(snapshot(other)))
    (root / "converted" / f"{'c' * 64}.safetensors").symlink_to(linked)
    (encodings_of_one / "linked.safetensors").symlink_to(linked)
    for name in (
        "pins.json",
        "encodings/notes/a.safetensors",
        "converted/readme.md",
        "data/x.tmp",
    ):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("mine")
    (encodings_of_one / "notes.txt").write_text("mine")
    theirs = {
        path: file for path, file in snapshot(tmp_path).items() if path not in ours
    }
    for name in (
        ".writing-x.tmp",
        ".x.0.block",
        "x.damaged",
    ):  # what a killed run leaves
        (encodings_of_one / name).write_text("1")
    clear_every_entry(root)
    assert snapshot(tmp_path) == theirs


def read_and_wait(root, ready, done):
    cache = open_entry(root, ONE)
    ready.set()
    done.wait(30)
    cache.read(numbered(0, 4))
    os._exit(0)


@pytest.mark.parametrize("status", [0, -9], ids=["it ends", "it is killed"])
def test_what_another_process_uses_stays_until_it_ends(tmp_path, status):
    write_entry(tmp_path, ONE)
    write_entry(tmp_path, TWO)
    ready, done = FORK.Event(), FORK.Event()
    other = FORK.Process(target=read_and_wait, args=(tmp_path, ready, done))
    other.start()
    assert ready.wait(30)
    assert clear_every_entry(tmp_path) == {("one",): False, ("two",): True}
    if status:
        other.kill()
    else:
        done.set()
    other.join(30)
    assert other.exitcode == status
    assert clear_every_entry(tmp_path) == {("one",): True}
    assert not list((tmp_path / "encodings").iterdir())


def test_a_name_means_all_its_keys_and_their_weights(tmp_path):
    for config in (ONE, replace(TWO, name="one"), replace(ONE, name="other")):
        write_entry(tmp_path, config)
    add_rest(tmp_path, ONE)
    entries = cached_entries(tmp_path)
    assert [e.kind for e in entries_named(entries, ["one"])].count("encoder") == 2
    assert {e.kind for e in entries_named(entries, ["other"])} == {
        "encoder",
        "converted",
    }
    [entry] = entries_named(entries, [key_of(TWO)[:8]])
    assert (entry.key, entry.names) == (key_of(TWO), ("one",))


@pytest.mark.parametrize(
    "word", ["nobody", "", "../one", "*", key_of(ONE)[:5], "f" * 64]
)
def test_what_is_not_there_is_wrong_usage_and_says_what_is(tmp_path, word):
    write_entry(tmp_path, ONE)
    with pytest.raises(UsageError, match=r"one of one \(harness cache ls\)"):
        entries_named(cached_entries(tmp_path), ["one", word])


# The commands


@pytest.fixture
def call(capfd):
    def answer(root, *arguments):
        with pytest.raises(SystemExit) as ended:
            main(["cache", *arguments, "--cache", str(root)])
        answered = capfd.readouterr()
        return ended.value.code or 0, answered.out + answered.err

    return answer


def test_the_list_is_a_table_or_json(call, tmp_path):
    write_entry(tmp_path, ONE, used=0.0)
    add_rest(tmp_path, ONE)
    status, text = call(tmp_path, "ls")
    assert status == 0
    assert text.startswith(f"{sized(cache_size(tmp_path))} in {tmp_path}\n")
    assert {"one", key_of(ONE)[:12], "4", "converted weights of one"} <= {
        cell.strip() for line in text.splitlines() for cell in line.split("  ")
    }
    rows = json.loads(call(tmp_path, "ls", "--json")[1])
    assert [row["kind"] for row in rows].count("encoder") == 1
    assert call(tmp_path / "none", "ls") == (
        0,
        f"nothing is cached in {tmp_path / 'none'}\n",
    )


def test_what_is_in_use_is_kept_with_status_1(call, tmp_path):
    held = open_entry(tmp_path, ONE)
    status, text = call(tmp_path, "gc", "--max-size", "0")
    assert (status, "what is left is in use; run it again later" in text) == (1, True)
    assert call(tmp_path, "rm", "one")[0] == 1
    del held
    assert call(tmp_path, "rm", "one")[0] == 0
    assert cache_size(tmp_path) == 0
