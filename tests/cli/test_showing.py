"""`harness table`: scores of cells, a table for a paper, and a test of two methods."""

import csv
import io
import json
from pathlib import Path

import pytest
from committed import RESULTS

from harness.results.score_rows import ScoreRow

CELL = ("-m", "minilm.mean", "-t", "sts-b")

pytestmark = pytest.mark.usefixtures("few_packaged_results")


def test_a_list_has_the_first_columns_and_a_program_gets_all(call):
    answer = call("table", *CELL)
    assert answer.status == 0
    assert answer.out.split("\n")[2].split() == [
        *("minilm.mean", "sts-b", "0", "spearman", "all", "82.03", "82.03", "exact")
    ]
    [row] = json.loads(call("table", *CELL, "--json").out)
    assert list(row) == list(ScoreRow.__dataclass_fields__)
    assert row["score"] == pytest.approx(82.03246731235654, abs=1e-9)
    [same] = csv.DictReader(io.StringIO(call("table", *CELL, "--csv").out))
    assert float(same["score"]) == row["score"]


def test_every_score_has_a_row_where_it_is_asked_for(call):
    assert "MSRvid" not in call("table -m minilm.mean -t sts12").out
    assert "MSRvid" in call("table -m minilm.mean -t sts12 --every-score").out


def test_every_component_says_what_it_is(call):
    rows = json.loads(call("list components --json").out)
    assert len(rows) > 25
    assert all(len(row["is"].partition(": ")[2]) > 20 for row in rows)


def test_two_methods_are_tested_where_they_were_measured(call, tmp_path):
    chosen, runs = ("-t", "mini-kind"), ("--results", tmp_path / "runs")
    methods = ("glove-mini.mean", "glove-mini.mean+sn@target")
    assert call("run", "-m", *methods, *chosen, "-o", tmp_path / "runs").status == 0
    answer = call("table", "--test", *methods, *runs, "--json")
    [test] = json.loads(answer.out)
    assert answer.status == 0
    assert (test["task"], test["metric"]) == ("mini-kind", "accuracy")
    assert test["low"] <= test["difference"] <= test["high"]
    shown = call("table", "--test", *methods, *runs, *chosen).out.rstrip()
    assert shown.endswith("differs" if test["differs"] else "not distinguishable")
    run = f"harness run -m glove-mini.cls -t mini-kind -o {tmp_path / 'runs'}"
    answer = call("table", "--test", methods[0], "glove-mini.cls", *runs, *chosen)
    assert answer.status == 2
    assert f"glove-mini.cls: not run; {run}" in answer.err


def test_what_a_test_lacks_is_said_with_the_command_that_makes_it(call):
    mine, packaged = "glove-mini.mean+sn@target", "glove-mini.mean"
    test = ("table", "--test", mine, packaged, "-t", "mini-kind")
    assert call("run -m", mine, "-t", "mini-kind").status == 0
    answer = call(*test)
    command = f"harness run -m {packaged} -t mini-kind -o runs"
    words = (
        f"No test: per-pair similarities of {packaged} are not stored. Run: {command}"
    )
    assert " ".join(answer.err.split()).endswith(words)
    [row] = json.loads(call(*test, "--json").out)
    assert (row["low"], row["differs"]) == (None, None)
    assert call(*command.split()[1:]).status == 0
    [row] = json.loads(call(*test, "--json").out)
    assert (row["differs"], row["missing"]) == (True, [])


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
    chosen = ("-t", "sts-b", "sts12.senteval", "--results", RESULTS)
    answer = call("table -m minilm.mean --beside simcse.t5", *chosen)
    lines = answer.out.splitlines()
    assert lines[0].split() == ["method", "STS-B", "STS12", "Avg."]
    assert lines[2].split() == ["minilm.mean", "82.03", "72.37", "77.20"]
    assert lines[3] == "SimCSE (Gao et al. 2021), Table 5"
    latex = call(
        "table -m minilm.mean --beside simcse.t5 --latex", "--results", RESULTS
    )
    assert r"\usepackage{booktabs}" in latex.out
    assert r"\multicolumn" in latex.out


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
