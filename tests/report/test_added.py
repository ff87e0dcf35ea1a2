"""A published table or a task is added by its own file; pages and counts follow."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import FakeConfig, made_record, results_of, task
from fakes import registry as fake_registry

from harness.core.types import LeaderboardColumn
from harness.report.build import stale_files, write_files
from harness.report.leaderboard import encoder_page, leaderboard
from harness.report.paper_tables import CONTENTS
from harness.results.folder import ResultsFolder

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ROOT / "results" / "papers"
SPECIMEN = """
paper = "A paper that nobody knows"
table = "Table 1"
title = "Table 1: a specimen"
cite = "reimers2019sbert"
source = "nowhere"
metric = "spearman"
evidence = "code"
columns = [{ id = "sts-b", label = "STS-B", task = "sts-b" }]
[[row]]
id = "ours"
label = "Ours"
method = "minilm.mean"
backbone = "MiniLM"
fit = "none"
supervision = "none"
values = { sts-b = "58.40" }
"""


def test_a_published_table_needs_its_file_and_nothing_else(tmp_path):
    papers, readme = tmp_path / "papers", tmp_path / "README.md"
    papers.mkdir()
    for name in ("sif.t1.toml", "mteb.1-12-75.toml"):
        shutil.copy(PAPERS / name, papers)
    shutil.copy(ROOT / "README.md", readme)
    write_files(ResultsFolder(tmp_path), readme)
    assert "72 published numbers from 2 tables of 2 works" in readme.read_text()
    (papers / "specimen.t1.toml").write_text(SPECIMEN)
    pages = [tmp_path / "tables" / "papers" / f"specimen.t1.{kind}" for kind in ("md", "tex")]
    listed = tmp_path / "tables" / "papers" / CONTENTS
    due = {listed, *pages, tmp_path / "LEADERBOARD.md", tmp_path / "site" / "index.html", readme}
    assert set(stale_files(ResultsFolder(tmp_path), readme)) == due
    write_files(ResultsFolder(tmp_path), readme)
    assert stale_files(ResultsFolder(tmp_path), readme) == []
    assert "73 published numbers from 3 tables of 3 works" in readme.read_text()
    assert "A paper that nobody knows" in (tmp_path / "LEADERBOARD.md").read_text()
    assert "58.40" in pages[0].read_text()
    counts = [line.split()[1:] for line in listed.read_text().splitlines()[1:]]
    assert counts[-2:] == [["1", "specimen.t1"], ["73", "all"]]


@pytest.mark.parametrize(("section", "heading"), [("other", "Other"), ("embedded", "Embedded")])
def test_a_task_says_itself_on_which_section_of_the_leaderboard_it_stands(section, heading):
    columns = (
        LeaderboardColumn(section, "SPECIMEN", legend="Gold has {gold_score}."),
        LeaderboardColumn(section, "further", ("further",)),
    )
    specimen = task("specimen", columns=columns)
    found = fake_registry(FakeConfig())
    found = replace(found, tasks={**found.tasks, specimen.name: specimen})
    scores = {"spearman": {"all": 12.34}, "further": 5.0, "gold_score": 77.0}
    results = results_of(made_record("fake.mean", "specimen", scores))
    page = encoder_page(results, found, "fake", ["fake.mean"])
    part = page[page.index(f"## {heading} tasks") :]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines()]
    assert ["method", "SPECIMEN", "further"] in lines
    assert ["`fake.mean`", "12.34", "5.00"] in lines
    assert "Gold has 77.00." in part
    # A task that everybody can measure stands on the first page, too.
    assert ("SPECIMEN" in leaderboard(results, found, "", {})) == (section == "embedded")
