"""Files: whole or absent, locked while they are used, and nothing left of a killed process."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.core.files import replacing, rewrite, write_atomically


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
