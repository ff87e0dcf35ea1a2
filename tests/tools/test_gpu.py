"""The command for a machine with a GPU: its file, and all of it on a CPU."""

import json
import subprocess
import sys

import pytest
from processes import ROOT

from harness.report.speed import gpu_rows


def test_what_was_measured_is_kept_when_a_step_fails(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import gpu

    file = tmp_path / "gpu.json"
    gpu.measure(file, {"tiny": True}, {"fails": lambda: 1 / 0, "measures": lambda: 2})
    assert json.loads(file.read_text()) == {
        "tiny": True,
        "steps": {
            "fails": {"state": "failed", "why": "ZeroDivisionError: division by zero"},
            "measures": {"state": "measured", "values": 2},
        },
    }


@pytest.mark.slow
def test_every_step_runs_on_a_cpu(tmp_path):
    command = [sys.executable, "benchmarks/gpu.py", "--tiny", "--output", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    measured = json.loads((tmp_path / "gpu.json").read_text())
    states = {step["state"] for step in measured["steps"].values()}
    assert states == {"measured"}, measured
    assert len(gpu_rows(measured)) == 4
