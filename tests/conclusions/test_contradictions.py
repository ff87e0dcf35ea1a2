"""Contradictions between files of mteb's results, in a repository with a history of two commits."""

import json
import math
import re
from pathlib import Path

import pytest
from processes import git

from harness.cli.check import check_published
from harness.conclusions.contradictions import PublicScores
from harness.conclusions.stored_scores import read_scores
from harness.core.errors import UsageError

SEVEN = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICK-R")


def commit(repository: Path) -> None:
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "results")


def write(file: Path, **subsets: float) -> None:
    """A file as mteb 1.18 writes it: the scores are those of the subsets, in points."""
    rows = [
        {
            "hf_subset": subset,
            "cosine_spearman": points / 100,
            "cosine_pearson": points / 100 + 0.01,
        }
        for subset, points in subsets.items()
    ]
    content = {
        "task_name": file.stem,
        "mteb_version": "1.18.0",
        "scores": {"test": rows},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def write_model(model: Path, first: float) -> None:
    """The scores of a model, each a point above the one before it."""
    for number, task in enumerate(SEVEN):
        write(model / f"1/{task}.json", default=first + number)
    twin = {"en": first + 5, "de": first - 3}
    write(model / "1/STSBenchmarkMultilingualSTS.json", **twin)


# The first scores of models, which are named after what is wrong with them in the end.
OLD = {
    "sound": 60.00,
    "rounded-card": 60.37,
    "card-in-points": 60.74,
    "other-card": 61.11,
    "other-sign": 61.48,
    "other-scale": 61.85,
    "changed": 62.22,
    "swapped": 62.59,
    "other-task": 62.96,
}
NEW = {"copy-of-sound": 60.00, "tiny": 70.37, "negative": 70.74, "twins": 71.11}
WRITTEN = {
    "rounded-card/external/STS12": 60.4,
    "other-card/external/STS12": 61.3,
    "other-sign/1/STS13": -62.48,
    "other-scale/1/STS13": 0.6285,
    "changed/1/STS13": 71.5,
    "swapped/1/STS12": 68.59,
    "swapped/1/SICK-R": 62.59,
    "tiny/1/STS13": 0.7137,
    "negative/1/STS13": -71.74,
    "twins/1/STSBenchmark": 40.0,
}
# As the first versions of mteb wrote it.
IN_POINTS = {"mteb_dataset_name": "STS12", "test": {"cos_sim": {"spearman": 60.74}}}


@pytest.fixture
def models(tmp_path, monkeypatch):
    """The folder of models in a repository without a commit."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_DATE", "2026-01-01T12:00:00Z")
    git(tmp_path, "init", "--quiet")
    return tmp_path / "results"


def test_contradictions_are_golden(tmp_path, models, approved):
    for name, first in OLD.items():
        write_model(models / f"org__{name}", first)
    commit(tmp_path)
    assert PublicScores.read(tmp_path).findings() == []
    for name, first in NEW.items():
        write_model(models / f"org__{name}", first)
    for name, points in WRITTEN.items():
        write(models / f"org__{name}.json", default=points)
    card = models / "org__card-in-points/external/STS12.json"
    card.parent.mkdir()
    card.write_text(json.dumps(IN_POINTS), encoding="utf-8")
    other = models / "org__other-task/1/STS12.json"
    other.write_text(other.read_text().replace('"STS12"', '"STS13"'))
    commit(tmp_path)
    assert check_published(tmp_path, page=tmp_path / "page.md", as_json=False) == 1
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    page = re.sub(r"\b[0-9a-f]{9}\b", "123456789", page)  # of authors and machines
    assert page == approved("golden/contradictions.md")


# One fault or harmless change each


def change(file: Path, **facts: object) -> None:
    """Change facts of a result file; those of its scores are changed in all subsets."""
    content = json.loads(file.read_text())
    rows = content["scores"]["test"]
    for name, value in facts.items():
        for holder in rows if name in rows[0] or name == "main_score" else [content]:
            holder[name] = value
    file.write_text(json.dumps(content))


def copy_model(models: Path, name: str, decimals: int, files: int = 7) -> None:
    """Another model with the figures of `one`, rounded."""
    for task in SEVEN[:files]:
        content = json.loads((models / f"org__one/1/{task}.json").read_text())
        [row] = content["scores"]["test"]
        for metric in ("cosine_spearman", "cosine_pearson"):
            row[metric] = round(row[metric] + 4e-6, decimals)
        file = models / f"{name}/1/{task}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))


def stored_as_chinese(models: Path) -> None:
    content = json.loads((models / "org__one/1/STSBenchmark.json").read_text())
    content["task_name"] = "STSB"
    (models / "org__one/1/STSB.json").write_text(json.dumps(content))


ONE = "org__one/1"
CHANGES = {
    "main score": (
        lambda models: change(models / ONE / "STS12.json", main_score=0.95),
        ["findings of today: main"],
    ),
    "equal main score": (
        lambda models: change(models / ONE / "STS12.json", main_score=0.6011),
        [],
    ),
    "null": (
        lambda models: change(models / ONE / "STS12.json", cosine_spearman=None),
        ["findings of today: null"],
    ),
    "NaN": (
        lambda models: change(models / ONE / "STS12.json", cosine_spearman=math.nan),
        ["findings of today: null"],
    ),
    "one subset in points": (
        lambda models: write(models / ONE / "STS17.json", a=80, b=81, c=8200),
        ["findings of today: scale"],
    ),
    "a copy": (
        lambda models: copy_model(models, "org__copy", 16),
        ["findings of today: models"],
    ),
    "a rounded copy": (
        lambda models: copy_model(models, "org__copy", 4),
        ["findings of today: models"],
    ),
    "a copy of three files": (
        lambda models: copy_model(models, "org__copy", 16, files=3),
        ["findings of today: models"],
    ),
    "two equal figures": (
        lambda models: copy_model(models, "org__copy", 16, files=2),
        [],
    ),
    "English as Chinese": (stored_as_chinese, ["findings of today: task"]),
    "a card": (
        lambda models: write(models / "org__one/external/STS12.json", default=61.0),
        ["findings of today: sources"],
    ),
    "a card with two decimals": (
        lambda models: write(models / "org__one/external/STS12.json", default=60.15),
        [],
    ),
    "changed in place": (
        lambda models: write(models / ONE / "STS12.json", default=61.0),
        ["findings of history: sources"],
    ),
    "run again": (lambda models: write(models / ONE / "STS12.json", default=60.15), []),
    "another revision of the model": (
        lambda models: write(models / "org__one/2/STS12.json", default=61.0),
        ["differs by revision: sources"],
    ),
    "another revision of the data": (
        lambda models: change(
            models / ONE / "STS12.json", cosine_spearman=0.7, dataset_revision="new"
        ),
        ["differs by revision: sources"],
    ),
    "the twin of another revision": (
        lambda models: write(models / "org__one/2/STSBenchmark.json", default=70.0),
        ["differs by revision: sources"],
    ),
    "the twin of this revision": (
        lambda models: write(
            models / ONE / "STSBenchmarkMultilingualSTS.json", en=70.0, de=57.11
        ),
        ["findings of history: sources", "findings of today: twins"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_on_its_list_and_those_before_are_not_told(
    models, tmp_path, name, capsys
):
    apply, wanted = CHANGES[name]
    write_model(models / "org__one", 60.11)
    change(models / ONE / "STS12.json", dataset_revision="old")
    write_model(models / "org__wrong", 70.11)
    write(models / "org__wrong/1/STSBenchmark.json", default=40.0)
    commit(tmp_path)
    assert check_published(tmp_path, since="HEAD", as_json=False) == 0
    apply(models)
    commit(tmp_path)
    capsys.readouterr()
    before = sorted(tmp_path.iterdir())
    status = check_published(tmp_path, since="HEAD^", as_json=True)
    answer = json.loads(capsys.readouterr().out)
    found = sorted(f"{each['list']}: {each['kind']}" for each in answer["findings"])
    assert found == wanted
    assert status == answer["status"] == any("findings" in each for each in wanted)
    assert sorted(tmp_path.iterdir()) == before  # nothing is written


# Versions of the packages that two results were made with


def write_settings(folder: Path, **versions: str) -> None:
    """The settings of a run of all tasks, a line each, as mteb writes them."""
    lines = [
        {
            "task": task,
            "splits": ["test"],
            "version": {"mteb": "1.18.0", "flash-attn": None, **versions},
            "encode_kwargs": {"batch_size": 32},
            "subsets": ["default"],
        }
        for task in SEVEN
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "run_settings.jsonl").write_text(text, encoding="utf-8")


def rewritten(folder: Path, **versions: str) -> None:
    write(folder / "STS12.json", default=61.0)
    write_settings(folder, **versions)


def malformed(folder: Path) -> None:
    rewritten(folder)
    (folder / "run_settings.jsonl").write_text('{"task": []}\n', encoding="utf-8")


SAME = {"torch": "2.8.0", "transformers": "4.57.1"}
REMADE = {
    "other versions": (
        lambda one, _: rewritten(one, torch="2.8.0", transformers="5.1.0"),
        "transformers 4.57.1, now 5.1.0",
    ),
    "the same versions": (lambda one, _: rewritten(one, **SAME), "nothing"),
    "a package that only one run had": (
        lambda one, _: rewritten(one, **SAME, **{"flash-attn": "2.8.1"}),
        "nothing",
    ),
    "a malformed file": (lambda one, _: malformed(one), "nothing"),
    "no file": (
        lambda one, _: (rewritten(one), (one / "run_settings.jsonl").unlink()),
        "nothing",
    ),
    "another revision": (
        lambda _, two: rewritten(two, **{**SAME, "torch": "2.9.0"}),
        "revision of the model; torch 2.8.0, now 2.9.0",
    ),
}


@pytest.mark.parametrize("name", REMADE)
def test_a_finding_says_the_versions_that_its_two_results_were_made_with(
    models, tmp_path, name
):
    remake, seen = REMADE[name]
    one, two = models / "org__one/1", models / "org__one/2"
    two.mkdir(parents=True)
    write_model(models / "org__one", 60.11)
    write_settings(one, **SAME)
    commit(tmp_path)
    remake(one, two)
    commit(tmp_path)
    [finding] = PublicScores.read(tmp_path).findings()
    assert finding.seen == seen


def test_an_unknown_commit_is_refused(models, tmp_path):
    write_model(models / "org__one", 60.11)
    commit(tmp_path)
    with pytest.raises(UsageError, match="nowhere"):
        check_published(tmp_path, since="nowhere", as_json=False)


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(UsageError, match="not a git repository"):
        read_scores(tmp_path)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "other").write_text("", encoding="utf-8")
    commit(tmp_path)
    with pytest.raises(UsageError, match="a clone of mteb's results"):
        read_scores(tmp_path)
