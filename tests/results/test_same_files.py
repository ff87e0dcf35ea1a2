"""An encoder with the files of a registered one has its published numbers beside its scores."""

from dataclasses import replace

import pytest

from harness.cli.summary import numbers_beside, same_encoders, score_table
from harness.registry import load_registry
from harness.results.index import Results
from harness.results.layout import COMMITTED, papers_of
from harness.results.published_tables import load_tables
from harness.results.reproduction import reproduce
from harness.results.same_files import MEASURED_AS, add_registered_ids, as_registered
from harness.results.score_rows import score_rows
from harness.results.store import Store

REGISTRY = load_registry()
ID, TASK = "minilm.mean", "sts-b"


@pytest.fixture(scope="module")
def committed():
    [record] = (
        r for r in Store(COMMITTED).records() if (r.method, r.task) == (ID, TASK)
    )
    return record


@pytest.fixture(scope="module")
def tables():
    return load_tables(papers_of(COMMITTED), REGISTRY)


@pytest.fixture
def copy(committed):
    """The record of a copy of the folder under another name."""
    return replace(committed, method="mine.mean", identity="of another name")


def published(tables):
    return [
        cell
        for table in tables
        for cell in table.cells
        if (cell.method, cell.task) == (ID, TASK)
    ]


def test_a_copy_stands_for_the_registered_encoder(copy, committed):
    renamed = as_registered(copy, REGISTRY)
    assert renamed == replace(
        committed, facts={**committed.facts, MEASURED_AS: "mine.mean"}
    )
    for method, wanted in (
        ("mine:64.mean+sn@target", "minilm:64.mean+sn@target"),
        ("mine-float16.cls", "minilm-float16.cls"),
        ("mine.native", "minilm.native"),
    ):
        assert as_registered(replace(copy, method=method), REGISTRY).method == wanted


def test_another_file_or_length_is_another_encoder(copy, committed):
    others = [
        replace(copy, digests={**copy.digests, name: "0" * 64})
        for name in ("weights", "tokenizer")
    ]
    others += [replace(copy, facts={**copy.facts, "max_length": 99})]
    others += [
        replace(copy, digests={}),
        replace(copy, method="mine.mean+nothing@target"),
    ]
    others += [
        committed,
        replace(copy, method="bert-mini.mean"),
    ]  # which have names of their own
    assert [as_registered(record, REGISTRY) for record in others] == [None] * len(
        others
    )


def test_records_of_its_own_stay_the_encoders(copy, committed):
    own = replace(committed, pairs=1)
    both = Results({(ID, TASK): [own], ("mine.mean", TASK): [copy]})
    assert add_registered_ids(both, REGISTRY) is both


def test_each_published_number_is_judged_by_the_copy(copy, tables):
    results = add_registered_ids(Results({("mine.mean", TASK): [copy]}), REGISTRY)
    judged = [reproduce(cell, results, REGISTRY) for cell in published(tables)]
    assert judged
    for reproduction in judged:
        assert reproduction.state == "exact"
        assert reproduction.measured_as == ("mine.mean",)


def test_rows_and_a_run_show_what_is_published(copy, tables):
    [row] = score_rows(Results({("mine.mean", TASK): [copy]}), tables, REGISTRY)
    assert (row.method, row.verdict) == ("mine.mean", "exact")
    numbers = numbers_beside([copy], tables, REGISTRY)
    assert len(numbers) == len(published(tables))
    assert {number.state for number in numbers} == {"exact"}
    table = score_table({}, numbers).splitlines()
    assert table[2] == "mine.mean:"
    assert len(table) == 3 + len(numbers)
    [note] = same_encoders(numbers)
    assert note.startswith("mine has the weights and tokenizer of minilm: ")
