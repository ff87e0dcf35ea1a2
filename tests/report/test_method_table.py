"""A table of methods for a paper, beside published tables: each row of these can be whole."""

import pytest
from committed import FOLDER

from harness.core.types import AGGREGATIONS
from harness.report.method_table import NOISE, columns_of, method_table
from harness.results.differences import BestTests

TABLES = {table.id: table for table in FOLDER.tables}
WHITENING = TABLES["bert-whitening.t1"]
METHOD = "mpnet-base.mean"


def published_rows(columns, published):
    """The published rows: their label and the number in each column."""
    made = method_table([METHOD], columns, FOLDER, [published])
    head = [column.heading for column in made.columns]
    return [
        dict(zip(head, (cell.plain for cell in row.cells), strict=True))
        for row in made.rows
        if row.kind == "published"
    ]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_number_that_fits_a_task_is_shown_beside_the_methods(name):
    table = TABLES[name]
    columns = columns_of(FOLDER, tables=[table])
    if not columns:
        return
    rows = published_rows(columns, table)
    shown = " ".join(number for row in rows for number in row.values())
    for cell in table.numbers:
        if cell.tasks and cell.points is not None:
            assert cell.shown in shown, cell.id


def test_named_tasks_keep_their_order_and_have_the_protocol_of_the_table():
    """STS12 to STS16 by the weighted mean of their subsets; a single set has one score."""
    names = ("sts-b.senteval", "sts12.senteval", "sick-r.senteval")
    tasks = [FOLDER.registry.tasks[name] for name in names]
    columns = columns_of(FOLDER, tasks, [WHITENING])
    assert [*columns] == ["STS-B", "STS12 (wmean)", "SICK-R"]
    rows = {row["method"]: row for row in published_rows(columns, WHITENING)}
    assert rows["BERTbase-whitening-256 (target)"] == {
        "method": "BERTbase-whitening-256 (target)",
        "STS-B": "71.43",
        "STS12 (wmean)": "63.89",
        "SICK-R": "62.2",
        NOISE: "STS-B\N{NO-BREAK SPACE}≈, STS12 (wmean)\N{NO-BREAK SPACE}≈",
    }
    assert rows["BERTbase-flow (target)"]["STS-B"] == "70.72 §"  # on raw text


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_number_of_another_aggregation_is_not_put_into_a_column(aggregation):
    tasks = [
        FOLDER.registry.tasks[name] for name in ("sts12.senteval", "sick-r.senteval")
    ]
    columns = columns_of(FOLDER, tasks, aggregation=aggregation)
    rows = published_rows(columns, WHITENING)
    year = "STS12" if aggregation == "all" else f"STS12 ({aggregation})"
    has_year = any(row[year] != "–" for row in rows)
    assert has_year == (aggregation == "wmean")
    assert any(row["SICK-R"] != "–" for row in rows)  # a single set


def test_what_was_not_tested_and_what_is_packaged_have_marks(monkeypatch):
    methods = ("minilm.mean", METHOD, "bert-mini.mean")
    columns = columns_of(FOLDER, [FOLDER.registry.tasks["sts-b"]])
    [heading] = columns
    tested = BestTests(
        tied=frozenset(["minilm.mean"]), untested=frozenset(["bert-mini.mean"])
    )

    def shown():
        made = method_table(methods, columns, FOLDER, ties={heading: tested})
        marks = [tuple(cell.mark.strip() for cell in row.cells) for row in made.rows]
        return marks, " ".join(made.notes)

    marks, notes = shown()
    assert marks == [("", "≈"), ("", ""), ("", "?")]
    assert "?: not tested" in notes
    assert "¶" not in notes  # all are of one source
    type_of_folder = type(FOLDER)
    monkeypatch.setattr(
        type_of_folder, "is_packaged", lambda _, name, __: name == METHOD
    )
    marks, notes = shown()
    assert [mark for mark, _ in marks] == ["", "¶", ""]
    assert "¶: measured by others" in notes
