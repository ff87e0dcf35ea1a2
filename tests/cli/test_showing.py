"""`harness show` and `compare` on measured scores."""

import csv
import io
import json
from pathlib import Path

import pytest

from harness.cli.read import say_csv
from harness.results.score_rows import ScoreRow

ROOT = Path(__file__).resolve().parents[2]
CELL = ("-m", "minilm.mean", "-t", "sts-b")
RUN = "harness run -m glove-mini.cls -t mini-kind"


@pytest.fixture
def call(call, monkeypatch):
    monkeypatch.chdir(ROOT)
    return call


def test_a_table_has_the_first_columns_and_a_program_gets_all(call):
    status, out, _ = call("show", *CELL)
    assert status == 0
    assert out.split("\n")[2].split() == [
        *("minilm.mean", "sts-b", "0", "spearman", "all", "82.03", "82.03", "exact")
    ]
    [row] = json.loads(call("show", *CELL, "--format", "json")[1])
    assert list(row) == list(ScoreRow.__dataclass_fields__)
    assert row["score"] == pytest.approx(82.03246731235654, abs=1e-9)
    [same] = csv.DictReader(io.StringIO(call("show", *CELL, "--format", "csv")[1]))
    assert float(same["score"]) == row["score"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1"])
def test_a_text_is_no_formula_of_a_spreadsheet(text, capsys):
    say_csv([{"method": text, "score": -1.5}])
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    shown = text.replace("\r", " ")
    assert row == {"method": f"'{shown}", "score": "-1.5"}


def test_columns_and_scores_are_chosen(call):
    columns = ("--columns", "aggregation,score")
    out = call("show", "-m", "minilm.mean", "-t", "sts12", "--every-score", *columns)[1]
    assert out.split("\n")[0].split() == ["aggregation", "score"]
    assert "\nMSRvid" in out
    status, _, err = call("show", "--columns", "scor")
    assert (status, "did you mean score" in err) == (2, True)
    status, _, err = call("show", *CELL, "--format", "xls")
    assert (status, "unknown format 'xls'" in err) == (2, True)
    status, _, err = call("show", "-m", "nobody.*")
    assert (status, "harness show --results" in err) == (2, True)


def test_two_methods_are_compared_where_they_were_measured(call, tmp_path):
    runs, cache = ("--results", tmp_path / "runs"), ("--cache", tmp_path / "cache")
    methods = ("glove-mini.mean", "glove-mini.mean+sn@target")
    chosen = ("-t", "mini-kind")
    assert call("run", "-m", methods[0], "-m", methods[1], *chosen, *runs, *cache)[0] == 0
    status, out, _ = call("compare", *methods, *runs, *cache, "--json")
    [one] = json.loads(out)
    assert (status, one["task"], one["metric"]) == (0, "mini-kind", "accuracy")
    assert one["low"] <= one["difference"] <= one["high"]
    table = call("compare", *methods, *runs, *cache, *chosen)[1]
    assert table.rstrip().endswith("differs" if one["differs"] else "not distinguishable")
    status, _, err = call("compare", methods[0], "glove-mini.cls", *runs, *chosen)
    lacking = f"lacks a record of glove-mini.cls on mini-kind, seed 0; {RUN} -o {tmp_path / 'runs'}"
    assert (status, lacking in err) == (2, True)
    status, _, err = call("compare", methods[0], "glove-mini", *runs, *chosen)
    assert (status, "wanted two methods, found glove-mini.mean twice" in err) == (2, True)


def test_a_folder_that_does_not_exist_is_named(call, tmp_path):
    folder = tmp_path / "nowhere"
    for command in (("show",), ("compare", "glove-mini", "glove-mini.mean+sn@target")):
        status, _, err = call(*command, "--results", folder)
        assert (status, err) == (2, f"harness: --results {folder}: there is no such folder\n")


RUN_OWN = ("-m", "glove-mini.mean", "-t", "mini-kind")


@pytest.fixture
def own(call, tmp_path, monkeypatch):
    """The command line in a folder with results of its own: one cell, which is packaged, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    assert call("run", *RUN_OWN, "-o", "results")[0] == 0
    return call


def test_ones_own_results_are_shown_with_the_packaged_ones(own):
    chosen = ("-m", "glove-mini.mean*", "-t", "mini-kind")
    status, out, _ = own("show", *chosen)
    head, _, first, *others = out.rstrip().split("\n")
    assert (status, head.split()[-1]) == (0, "source")
    assert first.endswith("own")
    assert others
    assert {line.split()[-1] for line in others} == {"packaged"}
    assert "glove-mini.mean " not in "".join(others)
    assert own("show", *chosen, "--only-own")[1].count("glove-mini") == 1
    assert "source" not in own("show", *chosen, "--only-own")[1]
    rows = json.loads(own("show", *chosen, "--format", "json")[1])
    assert [row["source"] for row in rows] == ["own", *["packaged"] * len(others)]


def test_only_own_results_need_some(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err = call("show", "--only-own")
    assert (status, "--only-own: wanted a results folder of your own" in err) == (2, True)


def test_a_report_of_ones_own_results_says_that_the_packaged_ones_are_not_in_it(own):
    _, out, err = own("report")
    assert "files changed under results" in out
    assert err.count("\n") == 1
    assert "harness show prints the packaged ones too" in err
    assert own("report", "--check") == (0, "all generated files are up to date\n", "")
