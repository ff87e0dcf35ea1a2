"""Signals: a command ends within two seconds, whatever it is doing, and says what is kept."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_models import rest_slow

ROOT = Path(__file__).resolve().parents[2]

# What holds the interpreter: steps of Python, one long step that gives way to other
# threads, and a cleaning up that takes long.
WORK = {
    "steps": "while True: pass",
    "a long step": "import time\nwhile True:\n    try: time.sleep(60)\n    except Exception: pass",
    "arithmetic": "import numpy as np; a = np.ones((6000, 6000)); a @ a @ a @ a @ a @ a",
    "a long cleaning up": "import time\ntry: time.sleep(60)\nfinally: time.sleep(60)",
}
COMMAND = """
import sys
import harness.cli

def work(*_):
    print("working", flush=True)
    exec({work!r})

harness.cli.app = lambda *_, **__: work()
harness.cli.main(["list"])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "work", rest_slow(WORK, "steps", "a long step", "a long cleaning up")
)
def test_a_signal_ends_a_command_within_two_seconds(work, number):
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND.format(work=WORK[work])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "working\n"
    time.sleep(0.2)
    process.send_signal(number)
    began = time.monotonic()
    time.sleep(0.3)
    process.send_signal(number)  # as an impatient person does
    _, err = process.communicate()
    assert time.monotonic() - began < 4  # 2 on a quiet machine
    assert process.returncode == 128 + number
    assert "harness: stopped; measured cells" in err
    assert "Traceback" not in err


# Workers that are at their work for ten minutes, each of which says so in a file.
CROWD = """
import time
from functools import partial
from pathlib import Path

import harness.cli
from harness.evaluation.processes import results_of

def busy(number):
    Path(f"busy-{number}").touch()
    time.sleep(600)

def crowd(*_, **__):
    calls = [partial(busy, number) for number in (1, 2)]
    list(results_of(calls, 2))

harness.cli.app = crowd
harness.cli.main(["list"])
"""


@pytest.mark.parametrize("of", ["the command", "its group"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_workers_too(number, of, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", CROWD],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    began = time.monotonic()
    while len([*tmp_path.glob("busy-*")]) < 2:
        assert process.poll() is None
        assert time.monotonic() - began < 60
        time.sleep(0.05)
    (os.kill if of == "the command" else os.killpg)(process.pid, number)
    began = time.monotonic()
    _, err = process.communicate(
        timeout=60
    )  # its workers hold the other end: until all are gone
    assert time.monotonic() - began < 4  # 2 on a quiet machine
    if number == signal.SIGKILL:
        assert process.returncode == -number
        return
    assert process.returncode == 128 + number
    [line] = (
        err.strip().splitlines()
    )  # of the tracker of what was left there is no word
    assert line.startswith("harness: stopped; measured cells")
