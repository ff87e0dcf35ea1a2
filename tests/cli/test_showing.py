"""`harness show` and `compare` on measured scores."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from committed import RESULTS
from scipy.stats import rankdata

from harness.cli.show import say_csv
from harness.results.records import Cell
from harness.results.score_rows import ScoreRow
from harness.results.store import Store

CELL = ("-m", "minilm.mean", "-t", "sts-b")

pytestmark = pytest.mark.usefixtures("few_packaged_results")


def test_a_table_has_the_first_columns_and_a_program_gets_all(call):
    answer = call("show", *CELL)
    assert answer.status == 0
    assert answer.out.split("\n")[2].split() == [
        *("minilm.mean", "sts-b", "0", "spearman", "all", "82.03", "82.03", "exact")
    ]
    [row] = json.loads(call("show", *CELL, "--format", "json").out)
    assert list(row) == list(ScoreRow.__dataclass_fields__)
    assert row["score"] == pytest.approx(82.03246731235654, abs=1e-9)
    [same] = csv.DictReader(io.StringIO(call("show", *CELL, "--format", "csv").out))
    assert float(same["score"]) == row["score"]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1"]
)
def test_a_text_is_no_formula_of_a_spreadsheet(text, capsys):
    say_csv([{"method": text, "score": -1.5}])
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    shown = text.replace("\r", " ")
    assert row == {"method": f"'{shown}", "score": "-1.5"}


def test_columns_and_scores_are_chosen(call):
    columns = ("--columns", "aggregation,score")
    out = call("show -m minilm.mean -t sts12 --every-score", *columns).out
    assert out.split("\n")[0].split() == ["aggregation", "score"]
    assert "\nMSRvid" in out


def test_every_component_says_what_it_is(call):
    rows = json.loads(call("list components --json").out)
    assert len(rows) > 25
    assert all(len(row["is"].partition(": ")[2]) > 20 for row in rows)


def test_two_methods_are_compared_where_they_were_measured(call, tmp_path):
    chosen, runs = ("-t", "mini-kind"), ("--results", tmp_path / "runs")
    methods = ("glove-mini.mean", "glove-mini.mean+sn@target")
    assert call("run", "-m", *methods, *chosen, "-o", tmp_path / "runs").status == 0
    answer = call("compare", *methods, *runs, "--json")
    [test] = json.loads(answer.out)
    assert answer.status == 0
    assert test["task"] == "mini-kind"
    assert test["metric"] == "accuracy"
    assert test["low"] <= test["difference"] <= test["high"]
    table = call("compare", *methods, *runs, *chosen).out
    assert table.rstrip().endswith(
        "differs" if test["differs"] else "not distinguishable"
    )
    run = f"harness run -m glove-mini.cls -t mini-kind -o {tmp_path / 'runs'}"
    for other, words in (
        ("glove-mini.cls", f"no record of glove-mini.cls on mini-kind, seed 0; {run}"),
        ("glove-mini", "wanted two methods, found glove-mini.mean twice"),
    ):
        answer = call("compare", methods[0], other, *runs, *chosen)
        assert answer.status == 2
        assert words in answer.err


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("minlim.cls", "no encoder 'minlim'; did you mean minilm"),
        (
            "my-model:64.cls+sn@target",
            "harness run --encoder my-model=PATH -m my-model:64.cls",
        ),
        (
            "ours-bfloat16.mean",
            "harness run --encoder ours=PATH -m ours-bfloat16.mean -t mini-kind",
        ),
    ],
)
def test_a_method_of_an_unknown_encoder_is_told_how_to_measure_it(call, method, words):
    answer = call("compare", method, "glove-mini.mean", "-t", "mini-kind")
    assert answer.status == 2
    assert len(answer.err.splitlines()) == 1
    assert words in answer.err


def test_ones_own_method_is_compared_with_a_packaged_one(call):
    mine, packaged, chosen = (
        "glove-mini.mean+sn@target",
        "glove-mini.mean",
        ("-t", "mini-kind"),
    )
    assert call("run -m", mine, *chosen).status == 0
    answer = call("compare", mine, packaged, *chosen)
    assert answer.out.rstrip().split("\n")[-1].split()[-3:] == [
        "not",
        "tested",
        packaged,
    ]
    command = f"harness run -m {packaged} {chosen[0]} mini-kind -o runs"
    assert " ".join(answer.err.split()).endswith(f"are missing: {command} makes them")
    [row] = json.loads(call("compare", mine, packaged, *chosen, "--json").out)
    assert (row["low"], row["differs"], row["packaged"]) == (None, None, [packaged])
    assert call(*command.split()[1:]).status == 0
    [row] = json.loads(call("compare", mine, packaged, *chosen, "--json").out)
    assert (row["differs"], row["missing"], row["packaged"]) == (True, [], [])


def test_the_pairs_whose_rank_differs_most_are_shown_with_their_sentences(call):
    methods, chosen = (
        ("glove-mini.mean", "glove-mini.mean+sn@target"),
        ("-t", "mini-sts"),
    )
    assert call("run -m", *methods, *chosen).status == 0
    [row] = json.loads(call("compare", *methods, *chosen, "--pairs", "3", "--json").out)
    columns = [
        Store(Path("runs")).cosines(Cell(method, "mini-sts")) for method in methods
    ]
    moves = np.abs(np.subtract(*map(rankdata, columns)))
    shown = [pair["pair"] for pair in row["pairs"]]
    assert moves[np.array(shown) - 1].tolist() == sorted(moves, reverse=True)[:3]
    table = call("compare", *methods, *chosen, "--pairs", "1").out
    assert "mini-sts: pairs whose rank differs most" in table
    assert row["pairs"][0]["first sentence"] in table
    assert row["pairs"][1]["first sentence"] not in table
    assert (
        "pairs" not in json.loads(call("compare", *methods, *chosen, "--json").out)[0]
    )


@pytest.fixture
def call_with_own_results(call):
    """The command line in a folder with results of its own: one cell, which is packaged, too."""
    assert call("run -m glove-mini.mean -t mini-kind -o results").status == 0
    return call


def test_ones_own_results_are_shown_with_the_packaged_ones(call_with_own_results):
    chosen = ("-m", "glove-mini.mean*", "-t", "mini-kind")
    answer = call_with_own_results("show", *chosen)
    head, _, first, *others = answer.out.rstrip().split("\n")
    assert answer.status == 0
    assert head.split()[-1] == "source"
    assert first.endswith("own")
    assert others
    assert {line.split()[-1] for line in others} == {"packaged"}
    assert "glove-mini.mean " not in "".join(others)
    assert (
        call_with_own_results("show", *chosen, "--only-own").out.count("glove-mini")
        == 1
    )
    assert "source" not in call_with_own_results("show", *chosen, "--only-own").out
    rows = json.loads(call_with_own_results("show", *chosen, "--format", "json").out)
    assert [row["source"] for row in rows] == ["own", *["packaged"] * len(others)]


def test_only_own_results_need_some(call):
    answer = call("show --only-own")
    assert answer.status == 2
    assert "--only-own: " in answer.complaint


@pytest.mark.slow
def test_a_report_shows_own_results_and_the_packaged_ones(call_with_own_results):
    assert call_with_own_results("report").status == 0
    page = Path("results/LEADERBOARD.md").read_text()
    assert "Measured here, at least in part: `glove-mini.mean`. All others come" in page
    assert "| `minilm.mean`" in page
    assert call_with_own_results("report --check").status == 0
    assert call_with_own_results("report --only-own").status == 0
    assert (
        "minilm"
        not in Path("results/LEADERBOARD.md").read_text().partition("## Measured")[2]
    )


def test_runs_stand_before_the_packaged_results(call_with_own_results):
    shown = ("show", "--columns", "method,source", "--format", "csv")
    Path("results").rename("runs")
    assert call_with_own_results(*shown).out.splitlines()[1] == "glove-mini.mean,own"


def test_a_published_table_is_printed_for_a_paper(call):
    whole = ("--results", RESULTS)
    markdown = call("table --paper mteb.1-12-75", *whole).out
    page = RESULTS / "tables" / "papers" / "mteb.1-12-75.md"
    assert markdown == page.read_text()
    latex = call("table --paper mteb.1-12-75 --latex", *whole).out
    assert latex.startswith("% MTEB results repo")
    assert r"\begin{tabular}{llr" in latex
    assert latex.count("measured") > 0
    answer = call("table --paper mteb.1-12-75 -t sts-b")
    assert answer.status == 2
    assert "leave out -m, -t, --beside and --aggregation" in answer.err
