"""Digests: records and caches hold them, so every value here is one that a former version gave."""

import hashlib
import os
import time
from itertools import product

import numpy as np
import pytest

from harness.core import digests
from harness.core.digests import (
    digest_of,
    digest_of_files,
    digest_of_repr,
    one_reading,
    open_bytes,
    read_bytes,
    remembering,
    sha256_of,
)
from harness.core.errors import DataError
from harness.core.pairs import Pairs, pairs_digest, rows_digest
from harness.core.texts import sentence_key, text_digest

PAIRS = Pairs(("a b", "é"), ("c", "d"), np.array([0.1, 5.0]), ("x", "y"))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_sentences_are_digested_as_lines():
    assert text_digest(["a b", "é"]) == sha256("a b\né\n")
    assert text_digest([]) == sha256("")


def test_pairs_are_digested_with_their_gold_and_group_published_rows_without_the_group():
    assert pairs_digest(PAIRS) == sha256("a b\tc\t0.1\tx\né\td\t5.0\ty\n")
    assert rows_digest(PAIRS) == sha256("a b\tc\t0.1\né\td\t5.0\n")


def test_facts_are_digested_whatever_their_order():
    assert digest_of({"b": 1, "a": "x"}) == sha256('{"a": "x", "b": 1}')
    assert digest_of_repr(("a", 1)) == sha256("('a', 1)")


def test_one_file_has_its_own_digest_several_one_over_their_names(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)
    a, b = tmp_path / "a", tmp_path / "b"
    assert digest_of_files((a,)) == sha256_of(a) == sha256("a")
    assert digest_of_files((a, b)) == digest_of({"a": sha256("a"), "b": sha256("b")})


@pytest.mark.parametrize("text", ["é", " é ", "É", "e\u0301", ""])
def test_a_sentence_is_keyed_by_sixteen_bytes_of_all_its_text(text):
    assert sentence_key(text).hex() == sha256(text)[:32]


@pytest.fixture
def noted_file(tmp_path, monkeypatch):
    """A file with a noted digest, the note, and the paths that are read from then on."""
    monkeypatch.setattr(digests, "LARGE_FILE", 8)
    file, folder, read, plainly = (
        tmp_path / "weights",
        tmp_path / "notes",
        [],
        digests.read_sha256,
    )
    file.write_text("12345678")
    with remembering(folder):
        assert sha256_of(file) == sha256("12345678")
    [note] = folder.iterdir()
    time.sleep(0.02)  # a tick of the file system's clock: a change after it shows
    monkeypatch.setattr(
        digests, "read_sha256", lambda path: read.append(path) or plainly(path)
    )
    return file, note, read


def test_an_unchanged_large_file_is_read_once_unless_all_shall_be(noted_file):
    file, note, read = noted_file
    with remembering(note.parent):
        assert sha256_of(file) == sha256("12345678")
        assert not read
        with remembering(note.parent, read_all=True):
            assert sha256_of(file) == sha256("12345678")
        sha256_of(file)
    assert read == [file]
    sha256_of(file)
    assert read == [file, file]


def test_a_small_file_is_not_noted(noted_file):
    file, note, _ = noted_file
    small = file.with_name("small")
    small.write_text("1234567")
    with remembering(note.parent):
        assert sha256_of(small) == sha256("1234567")
    assert [*note.parent.iterdir()] == [note]


@pytest.mark.parametrize("change", ["in place", "another file"])
def test_a_changed_file_is_read_again_whatever_its_size_and_time(noted_file, change):
    file, note, read = noted_file
    before = file.stat()
    if change == "another file":
        file.rename(file.with_name("old"))
    file.write_text("12345679")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with remembering(note.parent):
        assert [sha256_of(file), sha256_of(file)] == [sha256("12345679")] * 2
    assert read == [file]


def test_a_damaged_note_never_gives_a_digest(noted_file):
    file, note, _ = noted_file
    content = note.read_bytes()
    damaged = [content[:end] for end in range(0, len(content), 7)]
    for place in range(len(content)):
        flipped = bytes([content[place] ^ 1])
        damaged.append(content[:place] + flipped + content[place + 1 :])
    with remembering(note.parent):
        for wrong in damaged:
            note.write_bytes(wrong)
            assert sha256_of(file) == sha256("12345678")


# One reading


def test_a_file_that_changes_within_one_reading_is_refused(tmp_path):
    file = tmp_path / "weights"

    def opened():
        with open_bytes(file) as stream:
            stream.read(1)  # and the rest is read behind it

    readings = (lambda: sha256_of(file), lambda: read_bytes(file), opened)
    for first, then in product(readings, readings[1:]):
        file.write_text("one")
        with one_reading():
            first()
            then()
            file.write_text("two")
            with pytest.raises(
                DataError, match=f"{file} changed while it was read; run again"
            ):
                then()
        then()


def test_a_digest_of_a_reading_is_that_of_what_was_read(tmp_path):
    file = tmp_path / "weights"
    file.write_text("one")
    with one_reading():
        assert read_bytes(file) == b"one"
        file.write_text("two")
        assert sha256_of(file) == sha256("one")
        with one_reading(), pytest.raises(DataError):
            read_bytes(file)  # the inner reading is part of the outer
    assert sha256_of(file) == sha256("two")


def test_tensors_are_loaded_from_the_bytes_that_were_digested(tmp_path):
    """Whatever is in the file meanwhile, and also if it is put back."""
    file = tmp_path / "model.safetensors"
    file.write_text("one")
    with one_reading():
        assert sha256_of(file) == sha256("one")
        file.write_text("two")
        assert read_bytes(file) == b"one"
        with pytest.raises(DataError, match="changed while it was read"):
            read_bytes(file)


def test_no_note_is_taken_for_true_within_a_reading(noted_file):
    """A store through a memory map into a page that is already changed moves no time."""
    file, note, read = noted_file
    with remembering(note.parent), one_reading():
        sha256_of(file)
    assert read == [file]
