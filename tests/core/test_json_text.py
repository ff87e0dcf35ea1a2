"""JSON: a key that is there twice is refused, and a sealed file is taken as it was written."""

import ast
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import DataError
from harness.core.json_text import parse_json, parse_sealed, sealed, write_sealed
from harness.core.toml import read_sealed

ROOT = Path(__file__).resolve().parents[2]
CONTENT = {"scores": {"a": 70.25, "b": [1, 2]}, "method": "é", "none": None}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"a": 1, "b": 2, "a": {}}',
        '[{"b": {"a": 1, "a": 2}}]',
        b'{"":1,"":1}',
    ],
)
def test_a_key_that_is_there_twice_is_refused(text):
    for how in ({}, {"finite": False}, {"parse_float": Decimal}):
        with pytest.raises(ValueError, match=r"the key '.*' is there twice"):
            parse_json(text, **how)


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


def test_no_other_module_reads_json():
    """json.loads takes the last of two equal keys, so that no module may call it."""
    readers = {"loads", "load", "JSONDecoder"}
    own = {
        "harness/core/json_text.py": {"JSONDecoder"},
        "harness/training/loop.py": {"loads"},  # what it has just written
        "harness/training/finetune.py": {"loads"},  # the same
    }
    found: dict[str, set[str]] = {}
    for folder in ("harness", "baselines", "tools", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Attribute(value=ast.Name(id="json"), attr=name) if (
                        name in readers
                    ):
                        found.setdefault(path.relative_to(ROOT).as_posix(), set()).add(
                            name
                        )
    assert found == own


# Sealed files


def test_a_sealed_file_holds_what_was_written(tmp_path):
    path = tmp_path / "a.json"
    write_sealed(path, CONTENT)
    assert parse_sealed(path, path.read_text()) == CONTENT
    assert read_sealed(dict[str, Any], path) == CONTENT
    before = path.stat().st_mtime_ns
    write_sealed(path, CONTENT)
    assert path.stat().st_mtime_ns == before


@given(st.integers(0, 10_000), st.characters(codec="ascii", min_codepoint=32))
def test_a_sealed_file_with_one_letter_changed_is_refused(place, letter):
    path, text = Path("a.json"), sealed("a.json", '{\n "a": 70.25,\n "b": "x"\n}')
    place %= len(text)
    changed = text[:place] + letter + text[place + 1 :]
    if changed == text:
        assert parse_sealed(path, changed) == {"a": 70.25, "b": "x"}
        return
    with pytest.raises(
        DataError, match=r"^a\.json: wanted .*; restore it, or delete it and measure"
    ):
        parse_sealed(path, changed)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("\n}\n", ',\n "a": 71.25\n}\n'),  # behind the seal
        lambda text: text + " ",
        lambda text: text.rpartition(",")[0] + "\n}\n",  # without a seal
        lambda text: "",
        lambda text: "[]",
        lambda text: "{}",
    ],
)
def test_what_is_not_sealed_whole_is_refused(damage):
    text = sealed("a.json", '{\n "a": 70.25\n}')
    with pytest.raises(DataError, match="restore it"):
        parse_sealed(Path("a.json"), damage(text))


def test_a_sealed_file_is_of_its_own_place(tmp_path):
    write_sealed(tmp_path / "a.json", CONTENT)
    text = (tmp_path / "a.json").read_text()
    with pytest.raises(DataError, match=r"b\.json: wanted"):
        parse_sealed(tmp_path / "b.json", text)


def test_a_key_twice_is_refused_in_a_sealed_file_too():
    text = sealed("a.json", '{\n "a": 1,\n "a": 2\n}')
    with pytest.raises(DataError, match="the key 'a' is there twice"):
        parse_sealed(Path("a.json"), text)
