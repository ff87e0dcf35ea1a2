"""`harness table`: scores of cells, a table for a paper, and a test of two methods."""

import csv
import io
import json
from pathlib import Path

import pytest
from committed import RESULTS

from harness.results.score_rows import ScoreRow

pytestmark = pytest.mark.usefixtures("few_packaged_results")


def test_a_list_has_the_first_columns_and_a_program_gets_all(call):
    cell = ("table", "-m", "minilm.mean", "-t", "sts-b")
    assert call(*cell).out.split("\n")[2].split() == [
        *("minilm.mean", "sts-b", "0", "spearman", "all", "82.03", "82.03", "exact")
    ]
    [row] = json.loads(call(*cell, "--json").out)
    assert list(row) == list(ScoreRow.__dataclass_fields__)
    assert row["score"] == pytest.approx(82.03246731235654, abs=1e-9)
    [same] = csv.DictReader(io.StringIO(call(*cell, "--csv").out))
    assert float(same["score"]) == row["score"]


def test_every_score_has_a_row_where_it_is_asked_for(call):
    assert "MSRvid" not in call("table -m minilm.mean -t sts12").out
    assert "MSRvid" in call("table -m minilm.mean -t sts12 --every-score").out


def test_two_methods_are_tested_once_their_similarities_are_here(call):
    """A test of packaged scores names the command that makes what it lacks."""
    mine, packaged = "glove-mini.mean+sn@target", "glove-mini.mean"
    test = ("table", "--test", mine, packaged, "-t", "mini-kind")
    assert call("run -m", mine, "-t", "mini-kind").status == 0
    command = f"harness run -m {packaged} -t mini-kind -o runs"
    lacking = call(*test)
    assert f"similarities of {packaged} are not stored. Run: {command}" in " ".join(
        lacking.err.split()
    )
    [row] = json.loads(call(*test, "--json").out)
    assert (row["low"], row["differs"], row["missing"]) == (None, None, [packaged])
    assert call(*command.split()[1:]).status == 0
    [row] = json.loads(call(*test, "--json").out)
    assert (row["metric"], row["differs"], row["missing"]) == ("accuracy", True, [])
    assert row["low"] <= row["difference"] <= row["high"]
    unknown = call("table --test", packaged, "glove-mini.cls", "-t", "mini-kind")
    assert unknown.status == 2
    assert "glove-mini.cls: not run; harness run -m glove-mini.cls" in unknown.err


def test_runs_stand_before_own_results_and_these_before_the_packaged_ones(call):
    shown = ("table", "-m", "glove-mini.mean*", "-t", "mini-kind", "--json")
    assert {row["source"] for row in json.loads(call(*shown).out)} == {"packaged"}
    assert call("run -m glove-mini.mean -t mini-kind -o results").status == 0
    for folder in ("results", "runs"):
        first, *others = json.loads(call(*shown).out)
        assert (first["method"], first["source"]) == ("glove-mini.mean", "own"), folder
        assert {row["source"] for row in others} == {"packaged"}
        if folder == "results":
            Path("results").rename("runs")


def test_a_table_for_a_paper_has_the_published_rows_below_the_paper_s_name(call):
    shown = ("table -m minilm.mean --beside simcse.t5", "--results", RESULTS)
    head, _, row, paper, *_ = call(*shown, "-t", "sts-b", "sts12.senteval").out.split(
        "\n"
    )
    assert head.split()[:4] == ["method", "STS-B", "STS12", "Avg."]
    assert row.split() == ["minilm.mean", "82.03", "72.37", "77.20"]
    assert paper == "SimCSE (Gao et al. 2021), Table 5"
    latex = call(*shown, "--latex").out
    assert r"\usepackage{booktabs}" in latex
    assert r"\multicolumn" in latex


@pytest.mark.slow
def test_a_report_shows_own_results_and_the_packaged_ones(call):
    assert call("run -m glove-mini.mean -t mini-kind -o results").status == 0
    assert call("report").status == 0
    page = Path("results/LEADERBOARD.md").read_text()
    assert "Measured here, at least in part: `glove-mini.mean`. All others come" in page
    assert "| `minilm.mean`" in page
    assert call("report --check").status == 0
    assert call("report --only-own").status == 0
    text = Path("results/LEADERBOARD.md").read_text()
    assert "minilm" not in text.partition("## Measured")[2]
