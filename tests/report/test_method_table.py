"""A table of methods for a paper, beside published tables: each row of these can be whole."""

import re
from pathlib import Path

import committed
import pytest
from fakes import made_record, results_of

from harness.core.types import AGGREGATIONS
from harness.registry import load_registry
from harness.report.method_table import MethodTable
from harness.report.score_columns import AVERAGE, columns_of_published, columns_of_tasks
from harness.report.sheets import printed_number
from harness.results.index import Results
from harness.results.store import Store

RESULTS = Path(__file__).resolve().parents[2] / "results"
REGISTRY = load_registry()
TABLES = {table.id: table for table in committed.TABLES}
WHITENING = TABLES["bert-whitening.t1"]
METHOD = "mpnet-base.mean"
BAR = re.compile(r"(?<!\\)\|")  # between cells


@pytest.fixture(scope="module")
def measured():
    """All records of a method."""
    records = Store(RESULTS).records()
    return results_of(*(record for record in records if record.method == METHOD))


def cells(lines):
    """The cells of each line of a table in Markdown."""
    return [[text.strip(" *") for text in BAR.split(line.strip("|"))] for line in lines]


def table_of(columns, results, *published):
    return MethodTable(
        methods=(METHOD,),
        columns=columns,
        results=results,
        registry=REGISTRY,
        paper_tables=published,
    )


def head_and_rows(published, columns, results):
    """The heading of a table, the row of the method, and each row of a published table."""
    made = table_of(columns, results, published)
    lines = [line for line in made.markdown().splitlines() if line.startswith("|")]
    head, _, ours, *rows = cells(lines)
    return head[1:], ours[1:], [row[1:] for row in rows]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_row_of_every_published_table_is_shown_whole(name, measured):
    table = TABLES[name]
    head, ours, rows = head_and_rows(
        table, columns_of_published([table], REGISTRY), measured
    )
    wanted = [
        [
            printed_number(cell)
            for cell in table.cells
            if cell.row == row and cell.points is not None
        ]
        for row in table.rows
    ]
    found = [[text for text in row if text != "–"] for row in rows]
    assert [sorted(row) for row in found] == [sorted(row) for row in wanted if row]
    assert len(head) == len(ours) == len({*head})


@pytest.mark.parametrize("aggregation", [None, "wmean"])
def test_a_row_of_whitening_is_beside_the_scores_of_its_protocol(aggregation, measured):
    """STS12 to STS16 by the weighted mean of their subsets; a single set has one score."""
    columns = columns_of_published([WHITENING], REGISTRY)
    if aggregation:
        tasks = dict.fromkeys(scores[0][0] for scores in columns.values())
        columns = columns_of_tasks([*tasks], aggregation)
    head, ours, rows = head_and_rows(WHITENING, columns, measured)
    tasks = [column.task for column in WHITENING.columns]
    at = [head.index(task) for task in tasks]
    own = next(
        row for row in WHITENING.rows if row.id == "bert-base-whitening-256-target"
    )
    row = rows[[row.id for row in WHITENING.rows].index(own.id)]
    assert [row[n] for n in at] == [
        own.values[column.id] for column in WHITENING.columns
    ]
    scores = [measured.records(METHOD, task)[0].scores["spearman"] for task in tasks]
    assert [ours[n] for n in at] == [f"{score['wmean']:.2f}" for score in scores]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_number_of_another_protocol_is_not_put_into_a_column(aggregation, measured):
    """Without records it is not known which tasks are single sets."""
    tasks = [
        REGISTRY.tasks[name] for name in ("sts12.senteval", "sick-r.senteval", "sick-r")
    ]
    columns = columns_of_tasks(tasks, aggregation)
    head, _, rows = head_and_rows(WHITENING, columns, measured)
    columns_with_numbers = {
        heading for n, heading in enumerate(head) if any(row[n] != "–" for row in rows)
    }
    of_the_year = {"sts12.senteval"} if aggregation == "wmean" else set()
    assert columns_with_numbers - {AVERAGE} == {"sick-r.senteval"} | of_the_year
    _, ours, rows = head_and_rows(
        WHITENING, columns_of_tasks(tasks[:1], aggregation), Results({})
    )
    assert bool(rows) == (aggregation == "wmean")
    assert ours == ["not run"]


def test_of_the_tasks_that_are_named_each_has_its_protocol(measured):
    tasks = [
        REGISTRY.tasks[name] for name in ("sick-r.senteval", "sts12.senteval", "qnli")
    ]
    table = TABLES["bert-flow.t2"]
    columns = columns_of_published([table], REGISTRY, tasks)
    assert [*columns] == [
        "sick-r.senteval",
        "sts12.senteval",
        "sts12.senteval (wmean)",
        "qnli",
    ]
    made = table_of(columns, measured, table)
    assert "Spearman (`wmean`) ×100 on sts12.senteval" in made.markdown()
    averages = columns_of_published([TABLES["simcse.t5"]], REGISTRY)
    text = table_of(averages, measured).markdown()
    assert "Avg(7): the mean of sts12.senteval all, sts13.senteval all," in text
    assert "Avg(7) #2: the mean of" in text


def test_two_numbers_of_one_protocol_in_a_row_are_both_shown(measured):
    """The columns of SBERT's Table 6 are of one task and score, and of different trainings."""
    table = TABLES["sbert.t6"]
    head, _, [row, *_] = head_and_rows(
        table, columns_of_published([table], REGISTRY), measured
    )
    assert dict(zip(head, row, strict=True)) == {
        "sts-b.dev (NLI)": "80.78",
        "sts-b.dev (STSb)": "87.44",
    }
    one_column = columns_of_tasks([REGISTRY.tasks["sts-b.dev"]], "all")
    _, _, [row, *_] = head_and_rows(table, one_column, measured)
    assert row == ["80.78 / 87.44"]


def test_a_corpus_of_a_plug_in_that_is_not_loaded_is_said_to_be_unknown():
    method = "fake.mean+whitening@mine"
    results = results_of(
        made_record(method, "sts-b", {"spearman": {"all": 60.0, "groups": {}}})
    )
    made = MethodTable(
        methods=(method,),
        columns=columns_of_tasks([REGISTRY.tasks["sts-b"]], "all"),
        results=results,
        registry=REGISTRY,
    )
    assert (
        "`@mine`: fitted on a corpus that no loaded plug-in defines." in made.caption()
    )
