"""Signals: a command ends within two seconds, whatever it is doing, and says what is kept."""

import signal
import subprocess
import sys
import time

import pytest

# What holds the interpreter: steps of Python, one long step that gives way to other threads, and
# a cleaning up that takes long.
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
@pytest.mark.parametrize("work", WORK)
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
    _, err = process.communicate()
    assert time.monotonic() - began < 4  # 2 on a quiet machine
    assert process.returncode == 128 + number
    assert "harness: stopped; measured cells" in err
    assert "Traceback" not in err
