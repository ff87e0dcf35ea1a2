"""Every published table as a page: its groups, marks, notes and what a row holds."""

import re
from pathlib import Path

import pytest

from harness.registry import load_registry
from harness.report.build import generated
from harness.report.paper_tables import (
    EVIDENCE_MARKS,
    MARKS,
    WIDEST,
    latex,
    markdown,
    sheet,
)
from harness.report.sentences import fitted_on, trained_on
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.published import EVIDENCE, load_table, load_tables
from harness.results.records import Store
from harness.results.reproduction import composed, reproductions
from harness.results.verdict import VERDICTS

RESULTS = Path(__file__).resolve().parents[2] / "results"
TABLES = {table.id: table for table in load_tables(RESULTS / "papers")}
FOUND = load_registry()
COMMITTED = Results.read(Store(RESULTS)).by_cell
RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"

HEAD = """
paper = "A"
table = "Table 1"
title = "T"
cite = "gao2021simcse"
source = "made up"
metric = "spearman"
aggregation = "all"
evidence = "code"
columns = [{ id = "a", label = "STS-B", task = "sts-b" }]
"""
ROW = """
[[row]]
id = "{id}"
label = "{id}"
method = "minilm.mean"
backbone = "minilm"
fit = "none"
{keys}
supervision = "none"
values = {{ a = "58.40" }}
"""


def made(table):
    """The sheet of a table beside the committed records."""
    return sheet(table, reproductions(table, Results(COMMITTED), FOUND), FOUND)


def pages(table):
    cells = reproductions(table, Results(COMMITTED), FOUND)
    return [render(table, cells, FOUND, "0" * 64) for render in (markdown, latex)]


def test_every_verdict_and_every_kind_of_evidence_has_its_own_mark():
    assert set(MARKS) == set(VERDICTS)
    assert set(EVIDENCE_MARKS) == set(EVIDENCE)
    every = [*MARKS.values(), *EVIDENCE_MARKS.values()]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_rows_groups_and_columns_of_its_paper(name):
    table, shown = TABLES[name], made(TABLES[name])
    assert sum(len(block.columns) for block in shown.blocks) == len(table.columns)
    groups = [row.group for row in table.rows if row.group]
    for block in shown.blocks:
        assert [line.row for line in block.lines if line.kind == "published"] == [
            row.id for row in table.rows if any(c.id in row.values for c in table.columns)
        ]
        assert [line.label for line in block.lines if line.kind == "heading"] == [
            group for n, group in enumerate(groups) if n == 0 or groups[n - 1] != group
        ]
        widths = {len(line.texts()) for line in block.lines if line.kind != "heading"}
        assert widths == {len(block.head)}


@pytest.mark.parametrize("name", TABLES)
def test_every_mark_of_a_table_is_explained_below_it_and_no_other(name):
    shown = made(TABLES[name])
    lines = [line for block in shown.blocks for line in block.lines]
    texts = " ".join(text for line in lines for text in line.texts())
    notes = [match[0] for note in shown.notes if (match := re.match(rf"[{RAISED}]+", note))]
    assert set(re.findall(rf"[{RAISED}]+", texts)) == set(notes)
    assert len(notes) == len(set(notes))
    legend, verdicts = " ".join(shown.legend), " ".join(shown.verdicts)
    marked = {mark for mark in EVIDENCE_MARKS.values() if f"{mark} " in legend}
    assert {line.evidence for line in lines} - {""} == marked
    judged = {verdict for line in lines for verdict in line.verdicts()}
    assert judged == {v for v, mark in MARKS.items() if f"{mark} {v}" in verdicts}
    assert any("†" in line.label for line in lines) == ("† fitted on" in legend)


def method_of(row):
    """The method of a row's cells, but for those that name another."""
    return composed(row.method, FOUND) if row.method and not row.model_free else None


@pytest.mark.parametrize("name", TABLES)
def test_every_row_says_what_it_was_trained_on_and_why_it_was_not_run(name):
    table = TABLES[name]
    about = dict(zip((row.id for row in table.rows), made(table).rows, strict=True))
    for row in table.rows:
        text, method = about[row.id], method_of(row)
        assert text.startswith(row.label)
        assert row.model_free or f"trained on {trained_on(row, method)}" in text
        assert trained_on(row, method) not in ("", "none", "n/a")
        assert fitted_on(row, method) != "none"
        assert row.method is None or f"`{row.method}`" in text


def test_a_wide_table_is_one_table_a_metric():
    for table in TABLES.values():
        shown = made(table)
        assert (len(shown.blocks) > 1) == (len(table.columns) > WIDEST)
        assert all(len(block.head) <= WIDEST + 2 for block in shown.blocks)
    captions = [block.caption for block in made(TABLES["mteb.0-0-2"]).blocks]
    assert captions == ["Spearman x100 of cosine and gold", "Pearson x100 of cosine and gold"]


def test_measured_numbers_have_the_digits_of_the_published_ones_and_share_a_verdict():
    for block in made(TABLES["mteb.0-0-2"]).blocks:
        [ours] = [line for line in block.lines if line.kind == "measured"]
        above = block.lines[block.lines.index(ours) - 1]
        assert [len(n.text) for n in above.numbers] == [len(n.text) for n in ours.numbers]
        assert ours.texts()[0] == "↳\u00a0measured\u00a0="
        assert all(re.fullmatch(r"\d+\.\d{4}", number) for number in ours.texts()[2:])
    [ours] = [
        x for b in made(TABLES["bert-flow.t6"]).blocks for x in b.lines if x.kind == "measured"
    ]
    assert [number.text for number in ours.numbers] == ["-24.54", "100.00"]


def test_both_formats_head_the_groups():
    page, tex = pages(TABLES["simcse.t5"])
    for group in ("Unsupervised models", "Supervised models"):
        assert page.count(f"| *{group}* ") == 1
        assert tex.count(rf"\multicolumn{{10}}{{l}}{{\textit{{{group}}}}} \\") == 1


def table_of(tmp_path, *rows, columns=None):
    path = tmp_path / "toy.toml"
    head = HEAD.replace('{ id = "a", label = "STS-B", task = "sts-b" }', columns or "\\g<0>")
    text = head if columns else HEAD
    path.write_text(text + "".join(ROW.format(id=i, keys=keys) for i, keys in rows))
    return load_table(path)


@pytest.mark.slow
def test_links_between_the_pages_lead_somewhere():
    made_pages = generated(ResultsFolder(RESULTS), None)
    names = {path.resolve() for path in made_pages}
    for path, text in made_pages.items():
        for target in (
            re.findall(r"(?<!\\)\]\(([^)#]+)[^)]*\)", text) if path.suffix == ".md" else ()
        ):
            if "://" not in target:
                found = (path.parent / target).resolve()
                assert found in names or found.exists(), f"{path}: {target}"
