"""Files: whole or absent, and nothing left of a process that was killed."""

import os
import signal
import subprocess
import sys

import pytest

from harness.core.files import (
    HOST,
    SECONDS_TO_WRITE,
    remove_unfinished,
    replacing,
    write_atomically,
)

WRITES = """
import sys, time
from pathlib import Path
from harness.core.files import replacing

with replacing(Path(sys.argv[1]) / "a.json") as scratch:
    scratch.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """Another process in the middle of a write."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def scratches(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def test_what_another_process_writes_is_left_alone(tmp_path, writer):
    write_atomically(tmp_path / "b.json", b"whole")
    assert len(scratches(tmp_path)) == 1


def test_and_goes_at_the_next_write_once_it_was_killed(tmp_path, writer):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert len(scratches(tmp_path)) == 1
    write_atomically(tmp_path / "b.json", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.parametrize(("age", "left"), [(0, 1), (SECONDS_TO_WRITE + 60, 0)])
def test_on_another_host_age_tells(tmp_path, age, left):
    path = tmp_path / ".00000000-1-abcd_123.tmp"
    path.touch()
    os.utime(path, (path.stat().st_mtime - age,) * 2)
    remove_unfinished(tmp_path)
    assert len(scratches(tmp_path)) == left


def test_files_of_others_stay(tmp_path):
    for name in (".tmp", ".hidden", ".abcd1234.tmp", f"{HOST}-1-abcd1234.tmp", f".{HOST}-x-a.tmp"):
        (tmp_path / name).touch()
    before = set(tmp_path.iterdir())
    remove_unfinished(tmp_path)
    assert set(tmp_path.iterdir()) == before


def test_an_error_of_the_system_names_the_file_and_not_its_scratch(tmp_path):
    with pytest.raises(OSError, match="No space left") as caught, replacing(tmp_path / "a.json"):
        raise OSError(28, "No space left on device")
    assert caught.value.filename == str(tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_makes_the_file_anew_is_no_dead_one(tmp_path):
    with replacing(tmp_path / "a.json") as scratch:
        scratch.unlink()
        scratch.write_text("anew")
        write_atomically(tmp_path / "b.json", b"whole")
    assert (tmp_path / "a.json").read_text() == "anew"
