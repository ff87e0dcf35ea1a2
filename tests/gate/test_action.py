"""The GitHub action and the workflow that uses it: what they would run is run here.

In a folder of its own, over the fakes: the installation is a stub that notes what it
was asked, the command `harness` is the real one with a registry of fakes.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from fakes import PROBE

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / ".ci/check/action.yml").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load(
    (ROOT / ".ci/workflow-example.yml").read_text(encoding="utf-8")
)
STEPS = ACTION["runs"]["steps"]
SCRIPTS = [step for step in STEPS if "run" in step]
[JOB] = WORKFLOW["jobs"].values()
[USE] = [step for step in JOB["steps"] if "/.ci/check@" in step.get("uses", "")]

GATE = """
quick = [{ method = "mine.mean", task = "toy" }, { method = "mine.cls", task = "no-train" }]
"""

# The real command line over a registry of fakes; WEIGHTS are the bytes of their
# encoder.
HARNESS = f"""#!{sys.executable}
import os, sys
sys.path[:0] = {[str(ROOT), str(ROOT / "tests" / "support")]!r}
from fakes import FakeConfig, registry
from harness.cli import main
import harness.resolve as resolve
found = registry(FakeConfig("mine", os.environ.get("WEIGHTS", "one")))
resolve.load_registry = lambda: found
main()
"""
NOTE = '#!/bin/sh\nfor word in "$0" "$@"; do echo "$word"; done >> "$NOTED"\n'


def stub(folder, name, text):
    (folder / "bin" / name).write_text(text)
    (folder / "bin" / name).chmod(0o755)


def words_of_stub_calls(folder):
    """Every word that stubs were called with."""
    return (folder / "noted").read_text().splitlines()


def run_step(folder, step, inputs, **environment):
    """Run a step's script the way GitHub's runner does, with its expressions filled in."""
    values = {f"inputs.{name}": value for name, value in inputs.items()}
    values["runner.temp"] = str(folder / "temp")
    filled = {
        name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text)
        for name, text in step.get("env", {}).items()
    }
    own = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(ROOT / ".ci/check"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "NOTED": str(folder / "noted"),
    }
    clean = {name: value for name, value in os.environ.items() if "HARNESS" not in name}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={**clean, **own, **environment, **filled},
        capture_output=True,
        text=True,
        check=False,
    )


def action(folder, weights="one", **given):
    """All scripts of the action in order, until one fails; the last one's answer."""
    inputs = {
        name: about.get("default") for name, about in ACTION["inputs"].items()
    } | given
    assert None not in inputs.values(), "a required input is missing"
    for step in SCRIPTS:
        done = run_step(folder, step, inputs, WEIGHTS=weights)
        if done.returncode:
            break
    return done


def repository(folder):
    """A repository with data, an encoder and a quick set of its own, and no baseline yet."""
    for name in ("bin", "temp", "model", "results", Path("data", PROBE).parent):
        (folder / name).mkdir(parents=True)
    (folder / "data" / PROBE).touch()
    (folder / "results/gate.toml").write_text(GATE)
    stub(folder, "python", NOTE)
    stub(folder, "harness", HARNESS)
    return folder


@pytest.fixture
def folder(tmp_path):
    return repository(tmp_path)


OWN = {"data-dir": "data", "results": "results", "encoder": "mine=model"}


@pytest.fixture(scope="module")
def promoted(tmp_path_factory):
    """Results with a baseline, made by the command that the workflow's first lines state."""
    folder = repository(tmp_path_factory.mktemp("baseline"))
    text = (ROOT / ".ci/workflow-example.yml").read_text()
    [command] = re.findall(r"^#   (harness .*)$", text, re.MULTILINE)
    done = run_step(folder, {"run": command}, {})
    assert done.returncode == 0
    assert "promoted: 5 records" in done.stdout
    return folder / "results"


@pytest.fixture
def baseline(folder, promoted):
    shutil.copytree(promoted, folder / "results", dirs_exist_ok=True)
    return folder


def test_the_inputs_are_known_and_used_and_never_text_of_a_script():
    given, text = USE["with"], (ROOT / ".ci/check/action.yml").read_text()
    required = {
        name for name, about in ACTION["inputs"].items() if about.get("required")
    }
    assert required <= given.keys() <= ACTION["inputs"].keys()
    assert set(re.findall(r"\$\{\{ inputs\.(\S+) \}\}", text)) == set(ACTION["inputs"])
    assert not [step["name"] for step in SCRIPTS if "${{" in step["run"]]


def test_what_is_installed_is_there(folder):
    install = next(step for step in SCRIPTS if "pip install" in step["run"])
    assert run_step(folder, install, {}).returncode == 0
    command, *words = words_of_stub_calls(folder)
    assert (Path(command).name, words[:4]) == (
        "python",
        ["-m", "pip", "install", "--constraint"],
    )
    constraints, (source, _, extra) = Path(words[4]), words[5].partition("[")
    assert constraints.samefile(ROOT / ".ci/constraints.txt")
    assert Path(source).samefile(ROOT)
    assert f"\n{extra.rstrip(']')} = [" in (ROOT / "pyproject.toml").read_text()


def test_the_cache_is_of_these_versions(folder):
    step = next(step for step in SCRIPTS if step.get("id") == "versions")
    assert run_step(folder, step, {}).returncode == 0
    assert re.fullmatch(r"digest=[0-9a-f]{40}\n", (folder / "output").read_text())
    [cached] = [step["with"] for step in STEPS if "cache@" in step.get("uses", "")]
    assert "steps.versions.outputs.digest" in cached["key"]
    assert cached["path"] == SCRIPTS[-1]["env"]["HARNESS_CACHE_DIR"]


def test_the_action_passes_where_nothing_moved(baseline):
    done = action(baseline, **{**USE["with"], "fetch": ""})
    said = "runs against results: agrees: 1 encoder, 2 cells"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, said)


@pytest.mark.slow
def test_the_action_fails_where_the_encoder_is_another(baseline):
    done = action(baseline, "two", **OWN)
    assert done.returncode == 1
    assert "encoder moved: mine.mean on toy, seed 0: other weights; " in done.stdout
    done = action(baseline, "two", **OWN, **{"fail-below": "100"})
    assert (done.returncode, "encoder moved: mine" in done.stdout) == (0, True)


def test_the_action_says_what_has_no_baseline_and_what_could_not_run(baseline):
    """With the status of the run, and with the comparison all the same."""
    done = action(baseline, **OWN, method="mine.mean mine.cls", task="toy")
    assert done.returncode == 3
    assert "no baseline: mine.cls on toy, seed 0" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(
        "agrees: 1 encoder, 1 cell; no baseline: 1 cell"
    )
    (baseline / "data" / PROBE).unlink()
    done = action(baseline, **OWN)
    assert done.returncode == 3
    assert "could not run: mine.mean on toy, seed 0: qnli" in done.stdout


def test_the_harness_is_asked_for_exactly_what_the_inputs_say(folder):
    """Several of each, a glob that stays one, and the harness's own results by default."""
    stub(folder, "harness", NOTE)
    (folder / "a.toy").touch()
    given = {
        "data-dir": "my data",
        "encoder": "a=x b=y",
        "method": "*.toy",
        "task": "t u",
    }
    given["fail-below"] = "1"
    done = action(folder, **given, fetch="sts-raw sick-raw", runs="my runs")
    words = " ".join(
        w if "/" not in w else Path(w).name for w in words_of_stub_calls(folder)
    )
    assert done.returncode == 0
    chosen = "--method *.toy --task t --task u"
    assert words.endswith(
        "harness fetch sts-raw harness fetch sick-raw "
        f"harness run --gate --encoder a=x --encoder b=y {chosen} --output my runs --baseline "
        f"results harness check --results my runs {chosen} --fail-below 1 "
        "--baseline results"
    )
    own = [
        Path(word) for word in words_of_stub_calls(folder) if word.endswith("/results")
    ]
    assert all(path.samefile(ROOT / "results") for path in own)
