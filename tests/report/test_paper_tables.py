"""Every published table as a page: its groups, marks, notes and what a row holds."""

import re

import committed
import pytest

from harness.registry import load_registry
from harness.report.paper_tables import paper_latex
from harness.report.sheets import EVIDENCE_MARKS, VERDICT_MARKS, make_sheet
from harness.results.published import EVIDENCE
from harness.results.reproduction import reproductions
from harness.results.verdict import VERDICTS

TABLES = {table.id: table for table in committed.TABLES}
FOUND = load_registry()
COMMITTED = committed.committed_results()
RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def sheet_of(table):
    """The sheet of a table beside the committed records."""
    return make_sheet(table, reproductions(table, COMMITTED, FOUND), FOUND)


def test_every_verdict_and_every_kind_of_evidence_has_its_own_mark():
    assert set(VERDICT_MARKS) == set(VERDICTS)
    assert set(EVIDENCE_MARKS) == set(EVIDENCE)
    every = [*VERDICT_MARKS.values(), *EVIDENCE_MARKS.values()]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("name", TABLES)
def test_every_mark_of_a_table_is_explained_below_it_and_no_other(name):
    shown = sheet_of(TABLES[name])
    lines = [line for block in shown.blocks for line in block.lines]
    texts = " ".join(text for line in lines for text in line.cells())
    notes = [
        match[0] for note in shown.notes if (match := re.match(rf"[{RAISED}]+", note))
    ]
    assert set(re.findall(rf"[{RAISED}]+", texts)) == set(notes)
    assert len(notes) == len(set(notes))
    legend, verdicts = " ".join(shown.legend), " ".join(shown.verdicts)
    marked = {mark for mark in EVIDENCE_MARKS.values() if f"{mark} " in legend}
    assert {line.evidence for line in lines} - {""} == marked
    judged = {verdict for line in lines for verdict in line.verdicts()}
    assert judged == {
        v for v, mark in VERDICT_MARKS.items() if f"{mark} {v}" in verdicts
    }
    assert any("†" in line.label for line in lines) == ("† fitted on" in legend)


def test_measured_numbers_have_the_digits_of_the_published_ones_and_share_a_verdict():
    for block in sheet_of(TABLES["mteb.0-0-2"]).blocks:
        [ours] = [line for line in block.lines if line.kind == "measured"]
        above = block.lines[block.lines.index(ours) - 1]
        assert [len(n.text) for n in above.numbers] == [
            len(n.text) for n in ours.numbers
        ]
        assert ours.cells()[0] == "↳\u00a0measured\u00a0="
        assert all(re.fullmatch(r"\d+\.\d{4}", number) for number in ours.cells()[2:])
    ours = [
        x
        for b in sheet_of(TABLES["sif.t1"]).blocks
        for x in b.lines
        if x.kind == "measured"
    ]
    assert [line.numbers[4].text for line in ours] == ["65.89", "71.83"]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_same_cells_in_latex(name):
    table = TABLES[name]
    cells = reproductions(table, COMMITTED, FOUND)
    text = paper_latex(table, cells, FOUND, COMMITTED)
    ends = [line for line in text.splitlines() if line.endswith(r" \\")]
    printed = [
        line.count(" & ") + 1 for line in ends if not line.startswith(r"\multicolumn")
    ]
    wanted = []
    for block in make_sheet(table, cells, FOUND).blocks:
        wanted.append(block.head)
        wanted += [line.cells() for line in block.lines if line.kind != "heading"]
    assert printed == [len(texts) for texts in wanted]
    for texts in wanted:
        for number in re.findall(r"\d+\.\d+", " ".join(texts[2:])):
            assert number in text
