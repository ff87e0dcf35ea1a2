"""TOML files as dataclasses: what is read, and what is refused by file, row and key."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from harness.core.errors import DataError
from harness.core.toml import read_rows, read_typed


@dataclass(frozen=True)
class Row:
    id: str
    n: int | None = None
    share: float = 1.0
    exact: bool = False

    def __post_init__(self) -> None:
        if self.share > 1:
            raise ValueError(f"share: wanted at most 1, found {self.share}")


@dataclass(frozen=True)
class Link:
    to: str
    name: str = "unnamed"


@dataclass(frozen=True)
class File:
    name: str
    title: str
    rows: tuple[Row, ...]
    columns: tuple[Row, ...] = ()
    cells: tuple[Row | Link, ...] = ()
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
[[cell]]
id = "a"
[[cell]]
to = "b"
name = "bee"
"""


def read(folder, text):
    path = folder / "file.toml"
    path.write_text(text)
    return read_typed(File, path, name="given")


def test_a_file_is_a_dataclass_of_its_fields_types(tmp_path):
    assert read(tmp_path, WHOLE) == File(
        "given",
        "A title",
        rows=(Row("ours", share=1.0, exact=True),),
        columns=(Row("first", n=3),),
        cells=(Row("a"), Link("b", "bee")),
        notes=("one", "two"),
        words={"a": {"b": "c"}},
        sets={"quick": (Row("x"),)},
    )
    assert isinstance(read(tmp_path, WHOLE).rows[0].share, float)


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ('title = "A title"', "title =", "file.toml: wanted a TOML table, found: "),
        ('title = "A title"', "", "file.toml: the key 'title' is missing"),
        ('title = "A title"', "title = 3", "file.toml: title: wanted text, found 3"),
        (
            'title = "A title"',
            'title = ""\nname = ""',
            "file.toml: unknown key 'name'; known are",
        ),
        ("[[row]]", "[row]", "file.toml: row: wanted one table or more, found {'id'"),
        ('["one", "two"]', '"one"', "file.toml: notes: wanted a list, found 'one'"),
        ('b = "c"', "b = 1", "file.toml: words.a.b: wanted text, found 1"),
        (
            "n = 3",
            "n = 3.0",
            "file.toml, column first: n: wanted a whole number, found 3.0",
        ),
        (
            "n = 3",
            "n = true",
            "file.toml, column first: n: wanted a whole number, found True",
        ),
        (
            "share = 1",
            "share = 2",
            "file.toml, row ours: share: wanted at most 1, found 2.0",
        ),
        (
            "exact = true",
            "exact = 1",
            "file.toml, row ours: exact: wanted true or false, found 1",
        ),
        ('id = "ours"', "", "file.toml, row 1: the key 'id' is missing"),
        (
            '[{ id = "first", n = 3 }]',
            "[3]",
            "file.toml, column 1: wanted a table, found 3",
        ),
        ('to = "b"', "to = 3", "file.toml, cell bee: to: wanted text, found 3"),
        (
            'to = "b"',
            "",
            "file.toml, cell bee: unknown key 'name'; known are id, n, share, exact",
        ),
        ('{ id = "x" }', "{ }", "file.toml, sets.quick 1: the key 'id' is missing"),
        (
            '{ id = "x" }',
            "",
            "file.toml: sets.quick: wanted one table or more, found []",
        ),
    ],
)
def test_another_file_is_refused_by_file_row_and_key(tmp_path, old, new, refusal):
    assert old in WHOLE
    with pytest.raises(DataError) as error:
        read(tmp_path, WHOLE.replace(old, new, 1))
    assert str(error.value).startswith(refusal)
    assert "\n" not in str(error.value)


def test_a_file_may_hold_nothing_but_rows(tmp_path):
    path = tmp_path / "rows.toml"
    path.write_text('[[row]]\nid = "a"\n[[row]]\nid = "b"\nn = 2\n')
    assert read_rows(Row, path) == (Row("a"), Row("b", n=2))
    for text, refusal in (
        ("", "the key 'row' is missing"),
        ("title = 'x'", "unknown key 'title'"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=rf"^rows\.toml: {refusal}"):
            read_rows(Row, path)


@pytest.mark.parametrize(
    ("kind", "content", "refusal"),
    [
        *(
            (Link, {"to": text}, "to: wanted text without control characters, found ")
            for text in ("a\x1b[2J", "a\rb", "\x9b0m", "a\u202eb")
        ),
        *(
            (
                Mapping[str, float],
                {key: {}},
                f"rows.{ascii(key)[1:-1]}: wanted a number, found ",
            )
            for key in ("a\nb", "a\r\x1b[31mb", "a\u2028b")
        ),
        (
            Mapping[str, float],
            {"a": 10**400},
            "rows.a: wanted a number of less than 309 digits",
        ),
    ],
)
def test_what_commands_a_terminal_is_refused_in_one_line(
    tmp_path, kind, content, refusal
):
    path = tmp_path / "given.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_typed(kind, path)
    assert str(error.value).startswith(f"given.json: {refusal}")
    assert str(error.value).isprintable()
