"""Files: whole or absent; what JSON is read as."""

import math

import pytest

from harness.core.files import parse_json, replacing, write_atomically, write_json


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


# JSON


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_read_where_other_programs_write_it_alone(word):
    with pytest.raises(ValueError, match=f"{word} is no number of JSON"):
        parse_json(f'{{"a": {word}}}')
    assert not math.isfinite(parse_json(f'{{"a": {word}}}', finite=False)["a"])


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_brackets_that_are_nested_too_deep_are_no_json(text):
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json(text)


def test_a_file_holds_what_was_written_and_is_left_alone_where_it_has_it(tmp_path):
    path = tmp_path / "a.json"
    content = {"scores": {"a": 70.25, "b": [1, 2]}, "method": "é", "none": None}
    write_json(path, content)
    assert parse_json(path.read_bytes()) == content
    before = path.stat().st_mtime_ns
    write_json(path, content)
    assert path.stat().st_mtime_ns == before
