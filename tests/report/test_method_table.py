"""A table of methods for a paper, beside published tables: each row of these can be whole."""

from pathlib import Path

import committed
import pytest
from fakes import results_folder, results_of

from harness.core.types import AGGREGATIONS
from harness.registry import load_registry
from harness.report.method_table import columns_of, method_table
from harness.results.store import Store

RESULTS = Path(__file__).resolve().parents[2] / "results"
REGISTRY = load_registry()
TABLES = {table.id: table for table in committed.TABLES}
WHITENING = TABLES["bert-whitening.t1"]
METHOD = "mpnet-base.mean"


@pytest.fixture(scope="module")
def measured():
    """All records of a method."""
    records = Store(RESULTS).records()
    return results_of(*(record for record in records if record.method == METHOD))


def folder_of(results):
    return results_folder(Path("nowhere"), REGISTRY, results)


def table_of(columns, results, *published):
    return method_table([METHOD], columns, folder_of(results), published)


def published_rows(columns, results, published):
    """The published rows: their label and the number in each column."""
    made = table_of(columns, results, published)
    head = [column.heading for column in made.columns]
    return [
        dict(zip(head, (cell.plain for cell in row.cells), strict=True))
        for row in made.rows
        if row.kind == "published"
    ]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_number_that_fits_a_task_is_shown_beside_the_methods(name, measured):
    table = TABLES[name]
    columns = columns_of(folder_of(measured), tables=[table])
    if not columns:
        return
    rows = published_rows(columns, measured, table)
    shown = " ".join(number for row in rows for number in row.values())
    for cell in table.cells:
        if cell.tasks and cell.points is not None:
            assert cell.shown in shown, cell.id


def test_named_tasks_keep_their_order_and_have_the_protocol_of_the_table(measured):
    """STS12 to STS16 by the weighted mean of their subsets; a single set has one score."""
    names = ("sts-b.senteval", "sts12.senteval", "sick-r.senteval")
    tasks = [REGISTRY.tasks[name] for name in names]
    columns = columns_of(folder_of(measured), tasks, [WHITENING])
    assert [*columns] == ["STS-B", "STS12 (wmean)", "SICK-R"]
    rows = {row["method"]: row for row in published_rows(columns, measured, WHITENING)}
    assert rows["BERTbase-whitening-256 (target)"] == {
        "method": "BERTbase-whitening-256 (target)",
        "STS-B": "71.43",
        "STS12 (wmean)": "63.89",
        "SICK-R": "62.2",
    }
    assert rows["BERTbase-flow (target)"]["STS-B"] == "70.72 §"  # on raw text


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_number_of_another_aggregation_is_not_put_into_a_column(
    aggregation, measured
):
    tasks = [REGISTRY.tasks[name] for name in ("sts12.senteval", "sick-r.senteval")]
    columns = columns_of(folder_of(measured), tasks, aggregation=aggregation)
    rows = published_rows(columns, measured, WHITENING)
    year = "STS12" if aggregation == "all" else f"STS12 ({aggregation})"
    has_year = any(row[year] != "–" for row in rows)
    assert has_year == (aggregation == "wmean")
    assert any(row["SICK-R"] != "–" for row in rows)  # a single set
