"""The command for a machine with a GPU: its file, its order, its texts, and all of it on a CPU."""

import json
import re

import pytest
from measurements import commit_gpu
from processes import ROOT

from harness.core.errors import UsageError
from harness.report.speed import gpu_table, read_gpus


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import gpu

    return gpu


def test_what_was_measured_is_kept_when_a_step_fails_or_time_runs_out(gpu, tmp_path):
    report = gpu.Report(tmp_path / "gpu.json", 100.0, {"steps": {}})

    def fails(values):
        values["before"] = 1
        raise ValueError("a reason\nand more")

    report.run("fails", 0, fails)
    report.run("measures", 0, lambda values: values.update(speed=2))
    report.run("needs more than is left", 1000, fails)
    steps = json.loads(report.path.read_text())["steps"]
    assert [step["state"] for step in steps.values()] == [
        "failed",
        "measured",
        "left out",
    ]
    assert steps["fails"]["why"] == "ValueError: a reason"
    assert steps["fails"]["values"] == {"before": 1}
    assert steps["measures"]["values"] == {"speed": 2}


def test_every_package_that_is_carried_has_its_version():
    def names(text):
        return {
            re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in text
        }

    carried = (ROOT / ".ci/gpu-packages.txt").read_text().splitlines()
    constraints = (ROOT / ".ci/constraints.txt").read_text().splitlines()
    wanted = names(line for line in carried if line and not line.startswith("#"))
    assert wanted <= names(constraints)


def test_the_page_of_speed_has_a_section_for_each_card_and_none_without(gpu, tmp_path):
    assert read_gpus(tmp_path) == []
    (tmp_path / "records").mkdir()
    case = {"harness": {"sentences_per_second": 1234.5, "share_of_matrix_rate": 0.5}}
    steps = {
        "encoding": {
            "state": "measured",
            "values": {"a": case | {"times_as_fast": 1.5}},
        }
    }
    packages = {"torch": "1", "transformers": "2"}
    content = {"tiny": True, "steps": steps}
    content["environment"] = {"device": "Some Card 80GB", "packages": packages}
    file = tmp_path / "gpu.json"
    file.write_text(json.dumps(content))
    with pytest.raises(UsageError, match="found a trial"):
        commit_gpu(file, tmp_path)
    file.write_text(json.dumps(content | {"tiny": False}))
    assert commit_gpu(file, tmp_path).name == "some-card-80gb.json"
    [(card, measured)] = read_gpus(tmp_path)
    assert card == "Some Card 80GB"
    assert "1,23" in str(gpu_table(measured))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_every_step_runs_on_a_cpu(tmp_path):
    import subprocess
    import sys

    command = [sys.executable, "benchmarks/gpu.py", "--tiny", "--output", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "gpu.json").read_text())["steps"]
    assert {
        name: s["state"] for name, s in steps.items() if s["state"] != "measured"
    } == {}
    assert len(steps["encoding"]["values"]) == 8
