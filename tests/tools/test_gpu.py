"""The command for a machine with a GPU: its file, and all of it on a CPU."""

import json
import re
import subprocess
import sys

import pytest
from measurements import commit_gpu
from processes import ROOT

from harness.core.errors import UsageError
from harness.report.speed import gpu_rows, read_gpus


def test_what_was_measured_is_kept_when_a_step_fails(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import gpu

    report = gpu.Report(tmp_path / "gpu.json", {"steps": {}})
    with report.step("fails") as values:
        values["before"] = 1
        raise ValueError("a reason")
    with report.step("measures") as values:
        values["speed"] = 2
    steps = json.loads(report.path.read_text())["steps"]
    why = "ValueError: a reason"
    assert steps == {
        "fails": {"state": "failed", "values": {"before": 1}, "why": why},
        "measures": {"state": "measured", "values": {"speed": 2}},
    }


def test_every_package_that_is_carried_has_its_version():
    def names(text):
        return {
            re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in text
        }

    carried = (ROOT / ".ci/gpu-packages.txt").read_text().splitlines()
    constraints = (ROOT / ".ci/constraints.txt").read_text().splitlines()
    wanted = names(line for line in carried if line and not line.startswith("#"))
    assert wanted <= names(constraints)


def test_the_page_of_speed_has_a_section_for_each_card_and_none_without(tmp_path):
    assert read_gpus(tmp_path) == []
    (tmp_path / "records").mkdir()
    case = {"harness": {"sentences_per_second": 1234.5, "share_of_matrix_rate": 0.5}}
    done = {"state": "measured", "values": {}}
    steps = {"tests": done, "gate": done}
    values = {"a": case | {"times_as_fast": 1.5}}
    encoding = {"state": "measured", "values": values}
    content = {"tiny": False, "environment": {"device": "Some Card 80GB"}}
    file = tmp_path / "gpu.json"
    for wrong, found in (
        ({"tiny": True, "steps": steps | {"encoding": encoding}}, "found a trial"),
        ({"steps": steps | {"encoding": {"state": "failed"}}}, "only .*'gate'"),
    ):
        file.write_text(json.dumps(content | wrong))
        with pytest.raises(UsageError, match=found):
            commit_gpu(file, tmp_path)
    file.write_text(json.dumps(content | {"steps": steps | {"encoding": encoding}}))
    assert commit_gpu(file, tmp_path).name == "some-card-80gb.json"
    [(card, measured)] = read_gpus(tmp_path)
    assert card == "Some Card 80GB"
    assert "1,23" in str(gpu_rows(measured))


@pytest.mark.slow
def test_every_step_runs_on_a_cpu(tmp_path):
    command = [sys.executable, "benchmarks/gpu.py", "--tiny", "--output", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "gpu.json").read_text())["steps"]
    assert {step["state"] for step in steps.values()} == {"measured"}, steps
    assert len(steps["encoding"]["values"]) == 8
