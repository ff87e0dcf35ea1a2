import re
from dataclasses import fields
from decimal import Decimal
from pathlib import Path

import pytest
from committed import FOLDER, TABLES
from processes import ROOT
from refusals import REFUSALS

from harness.core.errors import DataError
from harness.results.layout import tables_naming
from harness.results.published import (
    AGGREGATION_OF,
    EVIDENCE,
    PUBLISHED_METRICS,
    Column,
    Row,
    Table,
    reasons,
)
from harness.results.published_tables import load_table, load_tables
from harness.results.reproduction import count
from harness.results.verdict import CellState

CELLS = {cell.id: cell for table in TABLES for cell in table.numbers}

# Averages that are not the mean of their row, as printed (SBERT 74.89, copied by SimCSE
# twice; in its transfer table the average is SBERT's, and one of the cells is copied
# with an error).
WRONG_AVERAGES = {
    "sbert.t1/sbert-nli-base/avg": "74.89",
    "simcse.t5/sbert-base/avg": "74.89",
    "simcse.b2/sbert-from-reimers-and-gurevych-2019/avg": "74.89",
    "simcse.e1/avg-bert-embeddings/avg": "84.94",
    "promptbert.readme/promptbert-unsup-bert-base/avg": "78.54",
}

SMALL = REFUSALS["files"]["published"]["whole"]


def read_small_table(folder: Path, text: str = SMALL) -> Table:
    path = folder / "small.t1.toml"
    path.write_text(text, encoding="utf-8")
    return load_table(path)


def test_a_row_average_is_the_mean_of_its_printed_cells():
    rows = {}
    for cell in CELLS.values():
        rows.setdefault((cell.table.id, cell.row.id), {})[cell.column.id] = cell
    for cells in rows.values():
        average = cells.pop("avg", None)
        if cells and average and average.row.statistic in ("score", "mean"):
            # Half a unit for rounding the average, half for its rounded parts.
            mean = sum(Decimal(cell.value) for cell in cells.values()) / len(cells)
            close = abs(mean - Decimal(average.value)) <= Decimal("0.01")
            assert close == (average.id not in WRONG_AVERAGES), average.id


def test_errors_of_the_papers_are_noted_where_they_stand():
    copied = {
        "bert-flow.t2/bert-cls-vector-quoted/sts16": "38.03",
        "bert-flow.t3/infersent-glove-quoted/sts16": "66.86",
        "simcse.e1/avg-bert-embeddings/mrpc": "69.54",
    }
    for cell, printed in (WRONG_AVERAGES | copied).items():
        assert CELLS[cell].value == printed
        assert re.search("error|misprint", CELLS[cell].notes[0])
    for row in ("bert-base-whiten-nli", "sbert-large-nli-whiten-384-nli"):
        assert "swaps" in CELLS[f"bert-whitening-pytorch.readme/{row}/sts-b"].notes[0]


@pytest.mark.parametrize(
    ("cell", "state"),
    [
        # The definition was chosen by it; gold against itself.
        ("bert-flow.t6/gold-similarity/edit-distance", CellState.NO_EVIDENCE),
        ("bert-flow.t6/gold-similarity/gold", CellState.NO_EVIDENCE),
        # Fitted on part of what the paper fits on.
        ("bert-flow.t4/bert-base-nli-flow-target/qnli", CellState.OTHER_CORPUS),
        ("bert-flow.t4/bert-large-nli-flow-target/qnli", CellState.OTHER_CORPUS),
    ],
)
def test_a_number_that_tests_nothing_is_not_measured_and_says_so(cell, state):
    found = FOLDER.reproductions(CELLS[cell].table)[cell]
    assert (found.state, found.scores) == (state, ())
    assert count([found]) == {"published": 1}, "neither runnable nor run"


def test_every_reason_of_the_closed_list_is_explained_and_in_use():
    used = {cell.why_not for cell in CELLS.values()} - {None}
    assert used == set(reasons().values())
    assert all(reason.explanation.strip(" .") == reason.explanation for reason in used)


def test_a_set_without_subsets_has_one_aggregation_whatever_its_row_says():
    assert CELLS["simcse.b2/sbert-wmean/sts12"].aggregation == "wmean"
    assert CELLS["simcse.b2/sbert-wmean/sts-b"].aggregation == "all"


def test_a_spread_comes_from_the_row_itself_or_from_another_row():
    itself = CELLS["sbert.t2/sbert-stsb-base/sts-b"]
    other = CELLS["simple-simcse.bert-base/mean/avg"]
    assert (itself.points, itself.sd, itself.row.n) == (84.67, 0.19, 10)
    assert (other.points, other.sd, other.row.n) == (75.11, 0.84, 50)


def test_every_score_is_fit_for_a_verdict():
    none = {
        "bert-flow.t1",
        "bert-whitening-pytorch.faiss",
    }  # statistics of words, and ranks
    for cell in CELLS.values():
        assert (cell.published is None) == (cell.table.id in none)
        assert cell.published is None or cell.published.points == cell.points


def test_every_key_of_a_table_is_documented():
    page = (ROOT / "docs" / "how-to" / "published-table.md").read_text(encoding="utf-8")
    keys = {field.name for level in (Table, Column, Row) for field in fields(level)}
    assert not {
        key for key in keys - {"rows", "columns", "registry"} if f"`{key}`" not in page
    }
    words = (*PUBLISHED_METRICS, *AGGREGATION_OF, *EVIDENCE)
    assert not {word for word in words if f"`{word}`" not in page}


def test_a_row_says_how_its_protocol_is_known_or_its_table_does(tmp_path):
    cells = {cell.row.id: cell for cell in read_small_table(tmp_path).numbers}
    assert cells["ours"].evidence == "paper"
    assert cells["theirs"].evidence is None  # nothing reproduces it
    at_table = read_small_table(tmp_path, SMALL.replace('evidence = "paper"\n', ""))
    assert at_table.numbers[0].evidence == "code"
    neither = SMALL.replace('evidence = "code"\n', "").replace(
        'evidence = "paper"\n', ""
    )
    with pytest.raises(
        DataError, match="row ours: evidence: wanted here or in the table"
    ):
        read_small_table(tmp_path, neither)


def test_a_folder_without_tables_and_a_table_in_two_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="found none"):
        load_tables(tmp_path)
    read_small_table(tmp_path)
    assert load_tables(tmp_path)
    (tmp_path / "other.toml").write_text(SMALL, encoding="utf-8")
    with pytest.raises(DataError, match="is also in other"):
        load_tables(tmp_path)


def test_the_tables_of_a_method_are_found_however_their_files_quote_it(tmp_path):
    for quoted in ('"fake.mean"', "'fake.mean'", '"""fake.mean"""', '"fake.mean+sn"'):
        (tmp_path / "small.toml").write_text(f"method = {quoted}\n", encoding="utf-8")
        assert tables_naming(tmp_path, ["fake.mean"]) == [tmp_path / "small.toml"]
    assert tables_naming(tmp_path, ["fake.cls"]) == []
