"""TOML files as dataclasses: what is read, and what is refused by file, row and key."""

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
        notes=("one", "two"),
        words={"a": {"b": "c"}},
        sets={"quick": (Row("x"),)},
    )
    assert isinstance(read(tmp_path, WHOLE).rows[0].share, float)


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ('title = "A title"', "title =", ": wanted a TOML table, found: "),
        ('title = "A title"', "", ": Object missing required field `title`"),
        ('title = "A title"', "title = 3", ": title: Expected `str`, got `int`"),
        ('title = "A title"', 'title = ""\nname = ""', ": unknown key 'name'"),
        ("[[row]]", "[row]", ": rows: Expected `array`, got `object`"),
        ('["one", "two"]', '"one"', ": notes: Expected `array`, got `str`"),
        ('b = "c"', "b = 1", ": words[...][...]: Expected `str`, got `int`"),
        ("n = 3", "n = 3.5", ", column first: n: Expected `int | null`, got `float`"),
        ("n = 3", "n = true", ", column first: n: Expected `int | null`, got `bool`"),
        ("share = 1", "share = 2", ", row ours: share: wanted at most 1, found 2.0"),
        ("exact = true", "exact = 1", ", row ours: exact: Expected `bool`, got `int`"),
        ('id = "ours"', "", ", row 1: Object missing required field `id`"),
        ("exact = true", "exakt = true", ", row ours: unknown key 'exakt'; known"),
        ('[{ id = "first", n = 3 }]', "[3]", ", column 1: Expected `object`"),
        ('{ id = "x" }', "{ ids = 3 }", ", sets.quick 1: unknown key 'ids'"),
    ],
)
def test_another_file_is_refused_by_file_row_and_key(tmp_path, old, new, refusal):
    assert old in WHOLE
    with pytest.raises(DataError) as error:
        read(tmp_path, WHOLE.replace(old, new, 1))
    assert str(error.value).startswith(f"file.toml{refusal}")
    assert "\n" not in str(error.value)


def test_a_file_may_hold_nothing_but_rows(tmp_path):
    path = tmp_path / "rows.toml"
    path.write_text('[[row]]\nid = "a"\n[[row]]\nid = "b"\nn = 2\n')
    assert read_rows(Row, path) == (Row("a"), Row("b", n=2))
    for text, refusal in (
        ("", "Object missing required field `row`"),
        ("title = 'x'", "unknown key 'title'"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=rf"^rows\.toml: {refusal}"):
            read_rows(Row, path)
