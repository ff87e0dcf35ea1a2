"""A published table, a reference or a task is added by its own file; pages and counts follow."""

import shutil
from pathlib import Path

from fakes import FakeConfig, made_record, results_folder, results_of, task
from fakes import registry as fake_registry
from own_tables import TABLE
from processes import ROOT
from refusals import REFUSALS

from harness.conclusions.folder import Conclusions
from harness.core.types import LeaderboardColumn
from harness.report.build import stale_files, write_files
from harness.report.leaderboard import encoder_page

PAPERS = ROOT / "results" / "papers"
SPECIMEN = TABLE.replace("mine.mean", "minilm.mean").replace(
    "mine2026", "reimers2019sbert"
)


def test_a_published_table_and_a_reference_need_their_files_and_nothing_else(tmp_path):
    papers, tables = tmp_path / "papers", tmp_path / "tables"
    readme = tmp_path / "README.md"
    papers.mkdir()
    for name in ("sif.t1.toml", "mteb.1-12-75.toml"):
        shutil.copy(PAPERS / name, papers)
    shutil.copy(ROOT / "README.md", readme)
    before = Conclusions(tmp_path)
    write_files(before, readme)
    numbers = len(before.all_reproductions)
    line = "| published numbers from {} tables of {} works | {} "
    assert line.format(2, 2, numbers) in readme.read_text()
    (papers / "specimen.t1.toml").write_text(SPECIMEN)
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "theirs.json").write_text(
        REFUSALS["files"]["reference"]["whole"]
    )
    paper, conformance = tables / "papers" / "specimen.t1.md", tables / "conformance.md"
    board, site = tmp_path / "LEADERBOARD.md", tmp_path / "site" / "index.html"
    due = {paper, board, conformance, site, readme}
    assert set(stale_files(Conclusions(tmp_path), readme)) == due
    write_files(Conclusions(tmp_path), readme)
    assert stale_files(Conclusions(tmp_path), readme) == []
    assert line.format(3, 3, numbers + 1) in readme.read_text()
    assert "Mine (2026)" in board.read_text()
    assert "58.40" in paper.read_text()
    assert "not run" in conformance.read_text()


def test_a_task_says_itself_on_which_section_of_the_leaderboard_it_stands():
    column = LeaderboardColumn("other", "SPECIMEN", legend="Gold has {gold_score}.")
    registry = fake_registry(FakeConfig())
    registry.tasks["specimen"] = task("specimen", columns=(column,))
    scores = {"spearman": {"all": 12.34}, "gold_score": 77.0}
    results = results_of(made_record("fake.mean", "specimen", scores))
    page = encoder_page("fake", results_folder(Path("nowhere"), registry, results))
    part = page[page.index("## Other tasks") :]
    for words in ("| SPECIMEN |", "12.34 |", "Gold has 77.00."):
        assert words in " ".join(part.split())
