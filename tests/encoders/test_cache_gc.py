"""What the cache folder holds and clearing it: oldest first, never another's, never under a run."""

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import FakeConfig, FakeEncoder, numbered
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli import main
from harness.cli.cache import bytes_in
from harness.core import files
from harness.core.errors import UsageError
from harness.core.files import sized
from harness.encoders.cache import encodings
from harness.encoders.cache.encodings import EncoderCache, known_key, open_labelled
from harness.encoders.cache.gc import (
    SECONDS_TO_WRITE,
    Entry,
    choose,
    clear,
    entries,
    leftovers,
    shrink,
    size,
    tidy,
)
from harness.encoders.checkpoint import SEAL_SUFFIX
from harness.evaluation.fit_corpus import MomentsWriter, RowsWriter

NOW = 2e9
ONE, TWO = FakeConfig("one", "one"), FakeConfig("two", "two")
FORK = multiprocessing.get_context("fork")


HERE = Path(__file__)  # where the encoders would lie


def opened(root, config):
    """As a run opens it."""
    return open_labelled(root, config, HERE, config.identify(HERE))


def key_of(config):
    return config.identify(Path()).key


def fill(root, config, texts=4, used=NOW):
    """An encoder's entry as a run leaves it, last used at a given time."""
    cache = opened(root, config)
    cache.add(numbered(0, texts), FakeEncoder(cache.folder.name).encode(numbered(0, texts)), 2.0)
    for file in cache.folder.iterdir():
        os.utime(file, (used, used))
    return cache.folder


def add_rest(root, config):
    """Moments, rows and converted weights."""
    identity = config.identify(root)
    encoding = FakeEncoder(identity.key).encode(numbered(0, 5))
    for writer in (
        MomentsWriter(root / "moments" / identity.key / "corpus.mean.safetensors"),
        RowsWriter(root / "rows" / identity.key / "corpus.rows.safetensors"),
    ):
        writer.add(encoding.mean[:, 0])
        writer.finish(1.0)
    converted = root / "converted" / f"{identity.digests['weights']}.safetensors"
    converted.parent.mkdir(exist_ok=True)
    converted.write_text("{}")


def snapshot(root):
    return {p: p.lstat().st_size for p in sorted(root.rglob("*")) if not p.is_dir()}


def changes(root):
    return {p: (p.stat().st_mtime_ns, p.stat().st_ctime_ns) for p in root.rglob("*")}


def forced(root):
    return [clear(root, entry, dry_run=False) for entry in entries(root)]


# What there is


def test_an_entry_has_everything_of_its_encoder_and_all_of_it_is_counted(tmp_path):
    fill(tmp_path, ONE)
    add_rest(tmp_path, ONE)
    found = {entry.kind: entry for entry in entries(tmp_path)}
    one = found["encoder"]
    assert (one.names, one.key, one.sentences, one.seconds) == (("one",), key_of(ONE), 4, 2.0)
    assert min(one.moments, one.rows) > 0
    assert found["converted"].names == ("one",)
    assert sum(e.bytes for e in found.values()) == size(tmp_path)
    assert size(tmp_path) == sum(snapshot(tmp_path).values())


def test_looking_writes_nothing_not_even_where_there_is_nothing(tmp_path):
    fill(tmp_path, ONE)
    (tmp_path / "converted").mkdir()
    before = changes(tmp_path)
    assert entries(tmp_path)
    assert not leftovers(tmp_path, NOW)
    assert changes(tmp_path) == before
    assert (entries(tmp_path / "none"), size(tmp_path / "none")) == ([], 0)


def test_converted_weights_were_used_when_an_encoder_of_theirs_was(tmp_path):
    fill(tmp_path, ONE, used=NOW)
    add_rest(tmp_path, ONE)
    for path in (tmp_path / "converted").iterdir():
        os.utime(path, (1.0, 1.0))
    for part in ("moments", "rows"):
        for path in (tmp_path / part).rglob("*.safetensors"):
            os.utime(path, (1.0, 1.0))
    assert {e.last_used for e in entries(tmp_path)} == {NOW}


def test_a_run_marks_what_it_uses(tmp_path):
    folder = fill(tmp_path, ONE, used=1.0)
    opened(tmp_path, ONE)
    assert entries(tmp_path)[0].last_used > 1.0
    assert [p.suffix for p in sorted(folder.iterdir())] == [".safetensors", ".json"]


# Clearing


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True), st.integers(0, 5000))
def test_the_longest_unused_go_until_the_rest_fits(tmp_path_factory, times, most):
    root = tmp_path_factory.mktemp("cache")
    for time in times:
        fill(root, FakeConfig(f"e{time}", f"{time}"), texts=time, used=NOW + time)
    before = entries(root)
    told = list(shrink(root, most, dry_run=True))
    assert list(entries(root)) == before
    done = list(shrink(root, most, dry_run=False))
    left = entries(root)
    assert done == told
    assert [one.what for one in done] + left == before
    assert size(root) <= most or not left
    # And no more than had to go.
    assert not done or size(root) + done[-1].what.bytes > most


def test_what_was_cleared_is_encoded_again(tmp_path):
    fill(tmp_path, ONE)
    forced(tmp_path)
    assert EncoderCache.open(tmp_path, key_of(ONE)).missing(numbered(0, 4)) == list(numbered(0, 4))
    fill(tmp_path, ONE)
    assert EncoderCache.open(tmp_path, key_of(ONE)).missing(numbered(0, 4)) == []


def test_clearing_touches_nothing_that_is_not_the_caches_own(tmp_path):
    root, other = tmp_path / "cache", tmp_path / "other"
    fill(root, ONE)
    add_rest(root, ONE)
    ours = snapshot(tmp_path)
    fill(other, TWO)  # another cache, which links lead to
    (root / "encodings" / ("b" * 64)).symlink_to(other / "encodings" / key_of(TWO))
    (root / "converted" / f"{'c' * 64}.safetensors").symlink_to(next(iter(snapshot(other))))
    (root / "encodings" / key_of(ONE) / "linked.safetensors").symlink_to(
        next(iter(snapshot(other)))
    )
    for name in ("pins.json", "encodings/notes/a.safetensors", "converted/readme.md", "data/x.tmp"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("mine")
    (root / "encodings" / key_of(ONE) / "notes.txt").write_text("mine")
    theirs = {path: n for path, n in snapshot(tmp_path).items() if path not in ours}
    forced(root)
    list(tidy(root, NOW + 2 * SECONDS_TO_WRITE, dry_run=False))
    assert snapshot(tmp_path) == theirs


def test_a_cache_that_is_a_link_as_a_whole_part_is_left_alone(tmp_path):
    fill(tmp_path / "other", ONE)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "encodings").symlink_to(tmp_path / "other" / "encodings")
    before = snapshot(tmp_path)
    forced(tmp_path / "cache")
    assert snapshot(tmp_path) == before


# In use


def use(root, ready, done):
    cache = opened(root, ONE)
    ready.set()
    done.wait(30)
    cache.read(numbered(0, 4))
    os._exit(0)


@pytest.mark.parametrize("end", ["it ends", "it is killed"])
def test_what_another_process_uses_stays_until_it_ends(tmp_path, end):
    fill(tmp_path, ONE)
    fill(tmp_path, TWO)
    ready, done = FORK.Event(), FORK.Event()
    other = FORK.Process(target=use, args=(tmp_path, ready, done))
    other.start()
    assert ready.wait(30)
    crashed = tmp_path / "encodings" / key_of(ONE) / ".x.tmp"
    crashed.write_bytes(b"1")
    os.utime(crashed, (1.0, 1.0))
    assert [c.in_use for c in tidy(tmp_path, NOW, dry_run=False)] == [True]
    assert crashed.exists()
    found = {c.what.names: c.in_use for c in forced(tmp_path)}
    assert found == {("one",): True, ("two",): False}
    if end == "it ends":
        done.set()
    else:
        other.kill()
    other.join(30)
    assert other.exitcode == (0 if end == "it ends" else -9)
    assert [c.in_use for c in forced(tmp_path)] == [False]
    assert not list((tmp_path / "encodings").iterdir())


def test_where_one_is_in_use_the_next_goes(tmp_path):
    for time, config in enumerate((ONE, TWO)):
        fill(tmp_path, config, used=NOW + time)
    held = EncoderCache.open(tmp_path, key_of(ONE))
    done = list(shrink(tmp_path, size(tmp_path) - 1, dry_run=False))
    assert [(c.what.names, c.in_use) for c in done] == [(("one",), True), (("two",), False)]
    assert held.missing(numbered(0, 4)) == []


def test_a_cache_that_is_dropped_is_free(tmp_path):
    cache = EncoderCache.open(tmp_path, key_of(ONE))
    cache.add(["a"], FakeEncoder(key_of(ONE)).encode(["a"]), 1.0)
    assert forced(tmp_path)[0].in_use
    del cache
    assert not forced(tmp_path)[0].in_use


def test_who_waited_for_a_clearing_shares_the_folder_that_is_there_then(tmp_path, monkeypatch):
    folder, flock = tmp_path / "folder", files.fcntl.flock
    folder.mkdir()

    def cleared_first(handle, kind):
        monkeypatch.setattr(files.fcntl, "flock", flock)
        folder.rename(tmp_path / "away")  # not removed: a number of its own stays taken
        folder.mkdir()
        flock(handle, kind)

    monkeypatch.setattr(files.fcntl, "flock", cleared_first)
    handle = files.share(folder)
    with files.alone(folder) as free:
        assert not free
    os.close(handle)
    with files.alone(folder) as free:
        assert free


def test_a_file_system_without_locks_serves_and_clears_nothing(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files.fcntl, "flock", refuse)
    fill(tmp_path, ONE)
    assert EncoderCache.open(tmp_path, key_of(ONE)).missing(numbered(0, 4)) == []
    assert [c.in_use for c in forced(tmp_path)] == [True]


# Leftovers


def test_leftovers_go_once_nobody_can_be_writing_them(tmp_path):
    folder = fill(tmp_path, ONE)
    before = snapshot(tmp_path)
    (tmp_path / "converted" / ".unfinished-x").mkdir(parents=True)
    for name, age in (
        (folder / ".old.tmp", SECONDS_TO_WRITE + 1),
        (folder / ".old.0.block", SECONDS_TO_WRITE + 1),
        (folder / ".young.tmp", SECONDS_TO_WRITE - 1),
        (folder / "x.damaged", 0),
        (tmp_path / "converted" / ".unfinished-x" / "w.safetensors", SECONDS_TO_WRITE + 1),
    ):
        name.write_bytes(b"12345")
        os.utime(name, (NOW - age, NOW - age))
        os.utime(name.parent, (NOW - age, NOW - age))
    assert size(tmp_path) == sum(before.values())
    would = list(tidy(tmp_path, NOW, dry_run=True))
    assert sum(c.what.bytes for c in would) == 20
    assert list(tidy(tmp_path, NOW, dry_run=False)) == would
    assert set(snapshot(tmp_path)) - set(before) == {folder / ".young.tmp"}
    assert list((tmp_path / "converted").iterdir()) == []


def test_converted_weights_go_with_their_digest(tmp_path):
    fill(tmp_path, ONE)
    add_rest(tmp_path, ONE)
    [weights] = (tmp_path / "converted").iterdir()
    weights.with_suffix(SEAL_SUFFIX).write_text("0" * 64)
    [entry] = [entry for entry in entries(tmp_path) if entry.kind == "converted"]
    clear(tmp_path, entry, dry_run=True)
    assert len(list((tmp_path / "converted").iterdir())) == 2
    clear(tmp_path, entry, dry_run=False)
    assert list((tmp_path / "converted").iterdir()) == []


# Names


def test_a_name_means_all_its_keys_and_the_weights_that_nobody_else_needs(tmp_path):
    same = replace(TWO, name="one")
    for config in (ONE, same):
        fill(tmp_path, config)
    add_rest(tmp_path, ONE)
    every = entries(tmp_path)
    assert {e.kind for e in choose(every, ["one"])} == {"encoder", "converted"}
    assert len(choose(every, ["one"])) == 3
    [entry] = choose(every, [key_of(TWO)[:8]])
    assert (entry.key, entry.names) == (key_of(TWO), ("one",))
    fill(tmp_path, replace(ONE, name="other"))
    assert [e.kind for e in choose(entries(tmp_path), [key_of(TWO)])] == ["encoder"]
    assert choose(entries(tmp_path), ["other"])[0].names == ("one", "other")


def test_weights_stay_while_another_key_needs_them():
    short = Entry("encoder", "a" * 32, ("e:64",), 1, NOW, weights="c" * 32)
    whole = Entry("encoder", "b" * 32, ("e",), 1, NOW, weights="c" * 32)
    weights = Entry("converted", "c" * 32, ("e", "e:64"), 1, NOW)
    every = [short, whole, weights]
    assert choose(every, ["e"]) == [whole]
    assert choose(every, ["e", "e:64"]) == [whole, short, weights]


@pytest.mark.parametrize(
    "word", ["nobody", "", "..", "../one", "/", "*", key_of(ONE)[:5], "f" * 64]
)
def test_what_is_not_there_is_wrong_usage_and_says_what_is(tmp_path, word):
    fill(tmp_path, ONE)
    with pytest.raises(UsageError, match=r"one of one \(harness cache ls\)"):
        choose(entries(tmp_path), ["one", word])


# Labels


def test_a_plan_knows_the_key_of_files_that_did_not_change(tmp_path):
    root, path = tmp_path / "cache", tmp_path / "weights"
    path.mkdir()
    (path / "model").write_bytes(b"12345678")
    assert known_key(root, ONE, path) is None
    open_labelled(root, ONE, path, ONE.identify(path))
    open_labelled(root, replace(ONE, name="other"), path, ONE.identify(path))
    assert known_key(root, ONE, path) == key_of(ONE)
    assert not root.with_name("none").exists()


@pytest.mark.parametrize("change", ["content", "another file", "configuration", "code", "label"])
def test_and_forgets_it_when_anything_changes(tmp_path, monkeypatch, change):
    root, path, config = tmp_path / "cache", tmp_path / "weights", ONE
    path.mkdir()
    file = path / "model"
    file.write_bytes(b"12345678")
    folder = open_labelled(root, ONE, path, ONE.identify(path)).folder
    if change == "content":  # of the same length, with the time of the old one
        before = file.stat()
        file.write_bytes(b"12345679")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "another file":
        (path / "tokenizer").write_bytes(b"")
    elif change == "configuration":
        config = replace(ONE, weights="other")
    elif change == "code":
        monkeypatch.setattr(encodings, "code_digest", lambda: "other")
    else:
        (folder / encodings.FILE).write_text("[]")
    assert known_key(root, config, path) is None


def test_a_cache_that_may_only_be_read_is_opened(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    fill(tmp_path, ONE)
    monkeypatch.setattr(encodings, "write_atomically", refuse)
    cache = opened(tmp_path, replace(ONE, name="other"))
    assert cache.missing(numbered(0, 4)) == []


# The commands


@pytest.fixture
def call(capfd):
    def answer(root, *arguments):
        with pytest.raises(SystemExit) as ended:
            main(["cache", *arguments, "--cache", str(root)])
        found = capfd.readouterr()
        return ended.value.code or 0, found.out + found.err

    return answer


def test_the_list_is_a_table_or_json(call, tmp_path):
    fill(tmp_path, ONE, used=0.0)
    add_rest(tmp_path, ONE)
    status, text = call(tmp_path, "ls")
    assert status == 0
    assert text.startswith(f"{sized(size(tmp_path))} in {tmp_path}\n")
    assert {"one", key_of(ONE)[:12], "4", "converted weights of one"} <= {
        cell.strip() for line in text.splitlines() for cell in line.split("  ")
    }
    found = json.loads(call(tmp_path, "ls", "--json")[1])
    assert [row["kind"] for row in found].count("encoder") == 1
    assert call(tmp_path / "none", "ls") == (0, f"nothing is cached in {tmp_path / 'none'}\n")


def test_collecting_says_what_went_and_a_dry_run_says_the_same(call, tmp_path):
    for time, config in enumerate((ONE, TWO)):
        fill(tmp_path, config, used=NOW + time)
    before = snapshot(tmp_path)
    limit = str(size(tmp_path) - 1)
    status, would = call(tmp_path, "gc", "--max-size", limit, "--dry-run")
    assert (status, snapshot(tmp_path)) == (0, before)
    status, did = call(tmp_path, "gc", "--max-size", limit)
    assert would == did.replace("removed", "would remove").replace(" are ", " would be ")
    assert (status, [e.names for e in entries(tmp_path)]) == (0, [("two",)])
    assert call(tmp_path, "gc")[1].startswith("nothing to remove; ")


def test_a_size_that_cannot_be_reached_is_status_1(call, tmp_path):
    held = opened(tmp_path, ONE)
    status, text = call(tmp_path, "gc", "--max-size", "0")
    assert (status, "are left, since what else is there is in use" in text) == (1, True)
    assert call(tmp_path, "rm", "one")[0] == 1
    del held
    assert call(tmp_path, "rm", "one")[0] == 0
    assert size(tmp_path) == 0


def test_removing_wants_names_or_all(call, tmp_path):
    fill(tmp_path, ONE)
    for wrong in (["rm"], ["rm", "--all", "one"], ["rm", "nobody"], ["gc", "--max-size", "lots"]):
        assert call(tmp_path, *wrong)[0] == 2
    assert call(tmp_path, "rm", "--all", "--dry-run")[0] == 0
    assert len(entries(tmp_path)) == 1
    assert call(tmp_path, "rm", "--all")[0] == 0
    assert entries(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("0", 0), ("5GB", 5 * 10**9), ("1.5 gb", 15 * 10**8), ("2MiB", 2 * 2**20), ("7k", 7000)],
)
def test_sizes_are_read_as_people_write_them(text, bytes_):
    assert bytes_in(text) == bytes_


@pytest.mark.parametrize("text", ["", "GB", "-1", "5 apples", "1e9", "5PB"])
def test_what_is_no_size_is_wrong_usage(text):
    with pytest.raises(UsageError, match="wanted a size"):
        bytes_in(text)


def test_sizes_are_said_as_people_do():
    said = [sized(n) for n in (0, 999, 1000, 999_999, 12_345_678, 3_140_000_000, 10**15)]
    assert said == ["0 bytes", "999 bytes", "1 kB", "1000 kB", "12 MB", "3.1 GB", "1000.0 TB"]
