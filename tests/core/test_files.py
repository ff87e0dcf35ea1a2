"""Files: whole or absent, locked while they are used; what JSON and TOML are read as."""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal

import pytest
from refusals import refused

from harness.core.errors import DataError
from harness.core.files import (
    parse_json,
    replacing,
    rewrite,
    write_atomically,
    write_json,
)
from harness.core.toml import read_rows, read_typed


def test_a_write_that_fails_leaves_the_old_file_and_names_it(tmp_path):
    write_atomically(tmp_path / "a.json", b"old")
    with (
        pytest.raises(OSError, match="No space left") as caught,
        replacing(tmp_path / "a.json"),
    ):
        raise OSError(28, "No space left on device")
    assert caught.value.filename == str(tmp_path / "a.json")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"old"


def test_no_change_is_lost_where_several_processes_rewrite_a_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"")

    def add(number):
        rewrite(path, lambda: path.read_bytes() + b"%d\n" % number)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(40)))
    assert sorted(map(int, path.read_text().split())) == [*range(40)]
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


# JSON

CONTENT = {"scores": {"a": 70.25, "b": [1, 2]}, "method": "é", "none": None}


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_read_where_other_programs_write_it_alone(word):
    with pytest.raises(ValueError, match=f"{word} is no number of JSON"):
        parse_json(f'{{"a": {word}}}')
    assert not math.isfinite(parse_json(f'{{"a": {word}}}', finite=False)["a"])


def test_bytes_are_utf_8_and_digits_may_be_kept():
    assert parse_json('{"a": "é"}'.encode()) == {"a": "é"}
    assert parse_json("1.10", parse_float=Decimal).as_tuple().digits == (1, 1, 0)
    with pytest.raises(ValueError, match="codec"):
        parse_json(b'"\xff"')


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_brackets_that_are_nested_too_deep_are_no_json(text):
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json(text)


def test_a_file_holds_what_was_written_and_is_left_alone_where_it_has_it(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, CONTENT)
    assert parse_json(path.read_bytes()) == CONTENT
    before = path.stat().st_mtime_ns
    write_json(path, CONTENT)
    assert path.stat().st_mtime_ns == before


# TOML; tests/refusals.toml has what is refused


@dataclass(frozen=True)
class Row:
    id: str
    n: int | None = None
    share: float = 1.0
    exact: bool = False


@dataclass(frozen=True)
class File:
    name: str
    title: str
    rows: tuple[Row, ...]
    columns: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    words: Mapping[str, Mapping[str, str]] | None = None
    sets: Mapping[str, tuple[Row, ...]] | None = None


WHOLE = """
title = "A title"
notes = ["one", "two"]
columns = [{ id = "first", n = 3 }]
words.a = { b = "c" }
sets.quick = [{ id = "x" }]
[[row]]
id = "ours"
share = 1
exact = true
"""


def test_a_file_is_a_dataclass_of_its_fields_types(tmp_path):
    path = tmp_path / "file.toml"
    path.write_text(WHOLE)
    found = read_typed(File, path, name="given")
    assert found == File(
        "given",
        "A title",
        rows=(Row("ours", share=1.0, exact=True),),
        columns=(Row("first", n=3),),
        notes=("one", "two"),
        words={"a": {"b": "c"}},
        sets={"quick": (Row("x"),)},
    )
    assert isinstance(found.rows[0].share, float)


def test_a_file_may_hold_nothing_but_rows(tmp_path):
    path = tmp_path / "rows.toml"
    path.write_text('[[row]]\nid = "a"\n[[row]]\nid = "b"\nn = 2\n')
    assert read_rows(Row, path) == (Row("a"), Row("b", n=2))
    for text, refusal in (
        ("", "Object missing required field `row`"),
        ("title = 'x'", "unknown key 'title'"),
    ):
        path.write_text(text)
        with refused(DataError, rf"^rows\.toml: {refusal}"):
            read_rows(Row, path)
