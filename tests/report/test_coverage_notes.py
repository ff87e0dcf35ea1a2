"""Word vectors that lack words: every table says of how many tokens a score is."""

from itertools import product

import pytest
from fakes import FakeConfig, made_record, registry, results_of

from harness.report.leaderboard import encoder_page, leaderboard
from harness.report.paper_tables import latex, markdown
from harness.report.sentences import render_explanation
from harness.results.explain import explain
from harness.results.protocols import SEVEN, SIMCSE
from harness.results.published import load_table
from harness.results.reproduction import LOW, coverage_note, reproductions

REGISTRY = registry(FakeConfig())
METHOD, OTHER = "fake.mean", "fake.cls"
TABLE = """
paper = "P"
table = "Table 1"
title = "T"
cite = "k"
source = "s"
metric = "spearman"
aggregation = "all"
evidence = "code"
columns = [
  { id = "a", label = "STS12", task = "sts12.senteval" },
  { id = "b", label = "STS-B", task = "sts-b.senteval" },
  { id = "avg", label = "Avg.", average_of = ["a", "b"] },
]

[[row]]
id = "r"
label = "R"
method = "fake.mean"
backbone = "b"
fit = "none"
supervision = "none"
values = { a = "50.00", b = "50.00", avg = "50.00" }
"""
LEFT = ": a score is of what is left of the sentences"


def results(**shares):
    """The seven tasks, with the shares of some; of the other method nothing was counted."""
    scores = {"spearman": {"all": 50.0, "wmean": 50.0}}
    records = []
    for method, task in product((METHOD, OTHER), SEVEN):
        share = shares.get(task.replace("-", "_")) if method == METHOD else None
        facts = {} if share is None else {"coverage": share}
        written = repr(REGISTRY.parse(method))
        name = SIMCSE.task(task)
        records.append(made_record(method, name, scores, repr=written, facts=facts))
    return results_of(*records)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.toml"
    path.write_text(TABLE, encoding="utf-8")
    return load_table(path)


@pytest.mark.parametrize(
    ("shares", "note"),
    [
        ({}, ""),
        ({"a": 1.0, "b": 1.0}, ""),
        ({"a": 0.97}, "97 % of the tokens have a vector"),
        ({"a": 0.97, "b": 0.9701}, "97 % of the tokens have a vector"),
        ({"a": 1.0, "b": 0.9996}, "over 99 % (b) to 100 % of the tokens have a vector"),
        ({"a": 0.9, "b": 0.46}, f"46 % (b) to 90 % of the tokens have a vector{LEFT}"),
        ({"a": LOW}, "85 % of the tokens have a vector"),
    ],
)
def test_a_note_names_the_task_of_which_least_is_known(shares, note):
    assert coverage_note(shares) == note


def test_a_paper_table_has_a_footnote_in_both_formats(table):
    low = results(sts12=0.46, sts_b=0.98)
    cells = reproductions(table, low, REGISTRY)
    assert [cell.coverage for cell in cells.values()] == [0.46, 0.98, 0.46]
    page = markdown(table, cells, REGISTRY, "0" * 64)
    assert "| ↳\N{NO-BREAK SPACE}measured\N{NO-BREAK SPACE}=¹ |" in page
    assert f"- ¹ 46 % (STS12) to 98 % of the tokens have a vector{LEFT}.\n" in page
    tex = latex(table, cells, REGISTRY, "0" * 64)
    assert r"\quad{}~measured~=\textsuperscript{1}" in tex
    assert f"% ¹ 46 % (STS12) to 98 % of the tokens have a vector{LEFT}.\n" in tex


def test_explanation_leaderboard_and_encoders_page_say_it_too(table):
    low, note = results(sts12=0.46, sts_b=0.98), f"of the tokens have a vector{LEFT}"
    explained = explain(table.cells[0], low, REGISTRY, {})
    assert f"\nword vectors: 46 % {note}\n" in render_explanation(explained)
    pages = leaderboard(low, REGISTRY, "", {}), encoder_page(low, REGISTRY, "fake", low.methods)
    for page in pages:  # below a table of each protocol that was run
        assert page.count(f"\n\n`fake`: 46 % (STS12) to 98 % {note}.\n") == 2
    assert "tokens have" not in leaderboard(results(), REGISTRY, "", {})
