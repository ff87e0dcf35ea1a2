"""The wheel and the source distribution, each installed alone: commands in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from processes import ROOT

from harness.core.provenance import code_digest

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
CELL = ["-m", "bert-mini.mean", "-t", "mini-sts"]
LARGEST = 15_000_000  # bytes

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installed:
    """An environment that holds the wheel, and for everything else this one's packages."""

    programs: Path
    folder: Path

    def __call__(self, program, *arguments, status=0):
        """What a program prints in the empty folder, which must end with this status."""
        own = {
            n: v
            for n, v in os.environ.items()
            if not n.startswith(("HARNESS", "PYTHON"))
        }
        environment = {**own, "HARNESS_CACHE_DIR": str(self.folder / "cache")}
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    pytest.importorskip("hatchling", reason="hatchling builds them: make setup")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", folder]
    subprocess.run(build, check=True, capture_output=True, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(distributions):
    [path] = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment of its own with the wheel in it."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False)
    scheme = {"base": str(place), "platbase": str(place)}
    programs = Path(sysconfig.get_path("scripts", "venv", vars=scheme))
    packages = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    # Paths in such a file are searched last, and the finders of editable packages stay
    # behind.
    (packages / "others.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n", encoding="utf-8"
    )
    options = ["--no-deps", "--no-index", "--no-build-isolation"]
    target = ["--python", programs / "python", "install", *options, wheel]
    subprocess.run([*PIP, *target], check=True, capture_output=True)
    return Installed(programs, tmp_path_factory.mktemp("empty"))


def test_the_wheel_is_the_folder_harness_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {
        "harness",
        "sentence_embedding_harness",
    }
    assert wheel.stat().st_size < LARGEST
    assert "harness/baselines/whitening.py" in names
    assert "harness/data/committed/papers/simcse.t5.toml" in names
    assert {"harness/contracts/laws.py", "harness/py.typed"} <= set(names)
    assert not [name for name in names if name.endswith((".tex", "LEADERBOARD.md"))]


def test_neither_distribution_holds_the_data_for_non_commercial_use(
    distributions, wheel
):
    [path] = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [*archive.getnames(), *zipfile.ZipFile(wheel).namelist()]
    assert not [name for name in names if "SICK" in name or "sick-subset" in name]


CODE = """
import harness
from harness.core import environment, provenance
print(harness.__file__, provenance.code_digest(), environment.commit()["commit"])
"""


def test_it_is_the_code_of_the_checkout_and_no_other_projects_commit(installed):
    """It measures the same."""
    file, digest, commit = installed("python", "-c", CODE).split()
    assert Path(file).is_relative_to(installed.programs.parent)
    assert (digest, commit) == (code_digest(), "None")
    assert "minilm.mean" in installed("harness", "list")
    assert "1 of 1 cell" in installed("harness", "run", "--dry-run", *CELL)
    assert "Spearman 43.97" in installed("harness", "run", *CELL)
    assert "agrees: 1 cell" in installed("harness", "check", *CELL)
    assert "1 of 1 agrees with" in installed("harness", "reproduce", *CELL)
    assert {path.name for path in installed.folder.iterdir()} == {"runs", "cache"}


def test_reading_commands_know_the_published_tables_and_the_committed_records(
    installed,
):
    assert "39.6956 (-0.0044, exact)" in installed(
        "harness", "explain", "simcse.t5/bert-base-first-last-avg/sts12"
    )
    assert "@inproceedings{gao2021simcse" in installed("harness", "cite", "simcse.t5")
    assert "@misc{sentence-embedding-harness" in installed("harness", "cite")


def test_the_how_to_on_plug_ins_runs_from_an_empty_folder(installed, tmp_path):
    """Its commands one after the other, as they stand on the page."""
    in_folder = replace(installed, folder=tmp_path)
    page = (ROOT / "docs" / "how-to" / "plugin.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert f"```sh\n{blocks[0]}```" in (ROOT / "README.md").read_text(encoding="utf-8")
    answers = []
    for line in "".join(blocks).splitlines():
        answers.append(in_folder(*shlex.split(line, comments=True)))
    [table] = [answer for answer in answers if "\\begin{table}" in answer]
    assert len(re.findall(r"^\\texttt\{bert-mini\.mean", table, re.MULTILINE)) == 3
    assert "\\approx" in table
    assert "bert-mini.mean+my-method@target" in answers[-1]


def test_an_encoder_that_a_wheel_leaves_out_is_named_in_a_line(installed):
    cell = ["-m", "glove-mini.mean", "-t", "mini-sts"]
    said = installed("harness", "run", *cell, status=3)
    assert "not in a wheel: --encoder glove-mini=PATH" in " ".join(said.split())
    copy = ROOT / "harness" / "data" / "embedded" / "glove-mini"
    of_copy = ["--encoder", f"glove-mini={copy / 'vectors.safetensors'}"]
    assert "Spearman 33.88" in installed("harness", "run", *cell, *of_copy)


def test_the_installed_results_are_never_written(installed):
    installed("harness", "reproduce", "--update", *CELL, status=2)
    installed("harness", "run", "--gate", "--update", status=2)
    installed("harness", "report", status=2)
