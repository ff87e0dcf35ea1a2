"""JSON: what is no number is refused, and a file is written whole."""

import math
from decimal import Decimal

import pytest

from harness.core.files import parse_json, write_json

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
