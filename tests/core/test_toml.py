"""TOML files as dataclasses: what is read (tests/refusals.toml has what is refused)."""

from collections.abc import Mapping
from dataclasses import dataclass

from refusals import refused

from harness.core.errors import DataError
from harness.core.toml import read_rows, read_typed


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
