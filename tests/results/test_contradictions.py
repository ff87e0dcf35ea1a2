"""Contradictions between files of mteb's results, in a repository with a history of two commits."""

import json
from pathlib import Path

import pytest
from processes import git

from harness.core.errors import UsageError
from harness.report.contradictions import contradictions_page
from harness.results.contradictions import Contradiction, PublicScores
from harness.results.stored_scores import read_scores

SEVEN = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICK-R")


def commit(repository: Path) -> None:
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "results")


def write(repository: Path, model: str, folder: str, task: str, **subsets: float):
    """A file as mteb 1.18 writes it: the scores are those of the subsets, in points."""
    rows = [
        {
            "hf_subset": subset,
            "cosine_spearman": points / 100,
            "cosine_pearson": points / 100 + 0.01,
        }
        for subset, points in subsets.items()
    ]
    content = {"task_name": task, "mteb_version": "1.18.0", "scores": {"test": rows}}
    path = repository / "results" / model / folder / f"{task}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def write_model(repository: Path, model: str, first: float) -> None:
    for number, task in enumerate(SEVEN):
        write(repository, model, "1", task, default=first + number)
    twin = {"en": first + 5, "de": first - 3}
    write(repository, model, "1", "STSBenchmarkMultilingualSTS", **twin)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three models without a contradiction."""
    git(tmp_path, "init", "--quiet")
    for number, model in enumerate(("org__a", "org__b", "org__c")):
        write_model(tmp_path, model, 60 + 0.37 * number)
    commit(tmp_path)
    return tmp_path


def found(repository: Path) -> dict[str, Contradiction]:
    """The findings after one more commit, the largest of each kind."""
    commit(repository)
    findings = PublicScores.read(repository).findings()
    return {finding.kind: finding for finding in reversed(findings)}


def test_files_that_agree_have_no_finding(repository):
    assert PublicScores.read(repository).findings() == []


@pytest.mark.parametrize(
    ("model", "folder", "task", "scores", "kind", "seen"),
    [
        (
            "a",
            "external",
            "STS12",
            {"default": 60.2},
            "sources",
            "copied from the model's",
        ),
        ("a", "1", "STS13", {"default": -61}, "sources", "the sign"),
        ("a", "1", "STS13", {"default": 0.61}, "sources", "the scale"),
        # Of a new model, without another source.
        ("d", "1", "STS13", {"default": 0.61}, "scale", "near 0"),
        ("d", "1", "STS13", {"default": -61}, "scale", "negative"),
        ("d", "1", "STSBenchmark", {"default": 40}, "twins", ""),
    ],
)
def test_a_contradiction_is_found_once_and_its_kind_is_named(
    repository, model, folder, task, scores, kind, seen
):
    write_model(repository, "org__d", 70)
    write(repository, "org__b", "external", "STS14", default=62.40)  # rounded
    write(repository, f"org__{model}", folder, task, **scores)
    finding = found(repository)[kind]
    assert finding.first.cell.model == f"org__{model}"
    assert finding.seen.startswith(seen)


def test_a_file_that_was_changed_is_compared_with_what_it_was(repository):
    write(repository, "org__a", "1", "STS13", default=71.5)
    finding = found(repository)["sources"]
    assert (finding.first.until, finding.second.until) == ("", finding.first.since)
    assert "git show HEAD:" in finding.first.command
    assert f"git show {finding.first.since[:9]}^:" in finding.second.command


def test_files_in_points_are_files_in_fractions(repository):
    path = repository / "results/org__a/external/STS12.json"
    path.parent.mkdir()
    old_form = {"mteb_dataset_name": "STS12", "test": {"cos_sim": {"spearman": 60.0}}}
    path.write_text(json.dumps(old_form), encoding="utf-8")
    assert found(repository) == {}


def test_swapped_tasks_are_named(repository):
    write(repository, "org__a", "1", "STS12", default=66)
    write(repository, "org__a", "1", "SICK-R", default=60)
    commit(repository)
    seen = {finding.seen for finding in PublicScores.read(repository).findings()}
    assert seen == {"the other is its SICK-R test", "the other is its STS12 test"}


def test_models_with_the_same_figures_are_found(repository):
    write_model(repository, "org__d", 60)
    finding = found(repository)["models"]
    assert {finding.first.cell.model, finding.second.cell.model} == {"org__a", "org__d"}
    assert finding.seen == "9 of 9 figures are the same"


def test_a_file_of_another_task_is_found(repository):
    path = repository / "results/org__a/1/STS12.json"
    text = path.read_text(encoding="utf-8").replace('"STS12"', '"STS13"')
    path.write_text(text, encoding="utf-8")
    assert found(repository)["task"].seen == "the file says that it is of STS13"


def test_the_page_has_each_finding_with_its_commands(repository):
    write(repository, "org__a", "external", "STS12", default=60.2)
    commit(repository)
    store = PublicScores.read(repository)
    page = contradictions_page(store, store.findings())
    assert f"at {store.commit[:9]}\n({store.date})" in page
    assert "### org/a, STS12 test: 60.20, and 60.00 (+0.20)" in page
    for folder in ("1", "external"):
        assert f"`git show HEAD:results/org__a/{folder}/STS12.json`" in page


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(UsageError, match="not a git repository"):
        read_scores(tmp_path)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "other").write_text("", encoding="utf-8")
    commit(tmp_path)
    with pytest.raises(UsageError, match="a clone of mteb's results"):
        read_scores(tmp_path)
