"""Contradictions between files of mteb's results, in a repository with a history of two commits."""

import json
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


def test_contradictions_are_golden(tmp_path, monkeypatch, approved):
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_DATE", "2026-01-01T12:00:00Z")
    git(tmp_path, "init", "--quiet")
    models = tmp_path / "results"
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
    check_published(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    page = re.sub(r"\b[0-9a-f]{9}\b", "123456789", page)  # of authors and machines
    assert page == approved("golden/contradictions.md")


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(UsageError, match="not a git repository"):
        read_scores(tmp_path)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "other").write_text("", encoding="utf-8")
    commit(tmp_path)
    with pytest.raises(UsageError, match="a clone of mteb's results"):
        read_scores(tmp_path)
