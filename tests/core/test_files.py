"""Files: whole or absent, locked while they are used, and nothing left of a killed process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.core import files
from harness.core.files import (
    SCRATCH,
    SECONDS_TO_WRITE,
    naming,
    replacing,
    rewrite,
    write_atomically,
)


def test_an_old_scratch_file_goes_at_the_next_write_and_another_stays(tmp_path):
    kept = (f"{SCRATCH}young.tmp", ".hidden.tmp", f"{SCRATCH}notes.txt")
    for name in (f"{SCRATCH}old.tmp", *kept):
        (tmp_path / name).touch()
        age = 0 if "young" in name else SECONDS_TO_WRITE + 60
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    write_atomically(tmp_path / "b.json", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"b.json", *kept}


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


@pytest.mark.parametrize("named", [None, "other.json"])
def test_an_error_of_the_system_keeps_the_file_that_it_names(tmp_path, named):
    with pytest.raises(OSError, match="No such") as caught, naming(tmp_path / "a.json"):
        raise FileNotFoundError(2, "No such file", named)
    assert caught.value.filename == (named or str(tmp_path / "a.json"))


def test_a_writer_may_make_the_file_anew(tmp_path):
    with replacing(tmp_path / "a.json") as scratch:
        scratch.unlink()
        scratch.write_text("anew")
        write_atomically(tmp_path / "b.json", b"whole")
    assert (tmp_path / "a.json").read_text() == "anew"


def is_stopped(process):
    """Whether a process is stopped; waits for it."""
    while process.poll() is None:
        state = (
            Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        )
        if state == "T":
            return True
        time.sleep(0.01)
    return False


# Adds a word to a file; the first time it stops between reading and writing.
ADD = """
import os, pathlib, signal, sys
from harness.core import files

files.LEASE, path, starts = float(sys.argv[2]), pathlib.Path(sys.argv[1]), []

def content():
    read = path.read_bytes()
    starts.append(read)
    if len(starts) == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    return read + b" stopped"

files.rewrite(path, content)
print(len(starts))
"""


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="asks Linux for a state"
)
@pytest.mark.parametrize("others", [0, 1])
def test_a_process_that_was_stopped_while_it_held_the_lock_starts_over(
    tmp_path, monkeypatch, others
):
    lease = 0.5
    monkeypatch.setattr(files, "LEASE", lease)
    path = tmp_path / "a.txt"
    path.write_bytes(b"there")
    command = [sys.executable, "-c", ADD, str(path), str(lease)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert is_stopped(process)
        for _ in range(others):
            rewrite(path, lambda: path.read_bytes() + b" other")
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out.strip()) == (0, str(1 + others))
    assert path.read_bytes() == b"there" + b" other" * others + b" stopped"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
