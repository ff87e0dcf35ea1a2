"""What grows with the numbers and records of a results folder, and what does not.

The folders are made up here. Their tables have a row for each of many methods, so that
ten times the numbers are of ten times as many methods, as in ten times as many papers.
"""

from functools import partial
from itertools import islice, product

import numpy as np

from harness.conclusions.folder import Conclusions
from harness.core.types import Record
from harness.encoders.transformer import TransformerConfig
from harness.registry import load_registry
from harness.report.build import write_files
from harness.report.cite import cite_method
from harness.results.records import SCHEMA
from harness.results.reproduction import compose_method
from harness.results.store import Store

REGISTRY = load_registry()
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
POOLINGS = ("cls", "mean", "first-last", "last2", "static-last")
ROWS_OF_A_TABLE = 10
TIMES = 10  # as many numbers or records

REPORT = 1 / 1.1  # of ten reports' time for one tenth of the numbers
UNREGISTERED = 0.8  # of the time for as many registered methods
ONE_CELL = 0.8  # of the time in a folder with a tenth of the records

TABLE = """
paper = "Made up {table}"
table = "Table 1"
title = "Made-up numbers"
cite = "gao2021simcse"
source = "a generator"
metric = "spearman"
aggregation = "all"
evidence = "code"
columns = [{columns}]
"""
COLUMN = '{{ id = "{0}", label = "{0}", task = "{0}.senteval" }}'
ROW = """
[[row]]
id = "row-{row}"
label = "Row {row}"
method = "{method}"
backbone = "{method}"
fit = "none"
supervision = "none"
values = {{ {values} }}
"""


def methods_of_encoders(count):
    """So many methods, those of an encoder next to each other."""
    encoders = [
        name
        for name, config in REGISTRY.encoders.items()
        if isinstance(config, TransformerConfig)
    ]
    names = [f"{name}.{pooling}" for name, pooling in product(encoders, POOLINGS)]
    assert len(names) >= count, f"{len(names)} methods are fewer than {count}"
    return names[:count]


def write_tables(folder, methods):
    """A folder of published tables with seven numbers for each method."""
    random = np.random.default_rng(0)
    names = iter(methods)
    columns = ", ".join(map(COLUMN.format, TASKS))
    folder.mkdir(parents=True)
    table = 0
    while rows := [*islice(names, ROWS_OF_A_TABLE)]:
        table += 1
        text = TABLE.format(table=table, columns=columns)
        for row, method in enumerate(rows):
            points = random.uniform(40, 80, len(TASKS))
            values = [
                f'{task} = "{point:.2f}"'
                for task, point in zip(TASKS, points, strict=True)
            ]
            text += ROW.format(row=row, method=method, values=", ".join(values))
        (folder / f"made-up.t{table}.toml").write_text(text)


def write_records(folder, methods):
    """A record of each method on each of the seven tasks, committed."""
    scores = {"all": 60.0, "mean": 60.0, "wmean": 60.0, "groups": {"all": 60.0}}
    empty = {"timings": {}, "digests": {}, "environment": {}}
    identities = {}
    for name in methods:
        method = compose_method(name, REGISTRY)
        identities[name] = "" if method is None else method.identity
    records = [
        Record(
            SCHEMA,
            method=method,
            task=f"{task}.senteval",
            seed=0,
            identity=identities[method],
            pairs=1000,
            scores={"spearman": scores, "pearson": scores},
            **empty,
        )
        for method, task in product(methods, TASKS)
    ]
    Store(folder).commit(records)


def folder_of(path):
    """The folder, none of whose files is read yet."""
    return Conclusions(path, REGISTRY, path / "papers", folders=[path])


def test_a_report_takes_as_long_as_it_has_numbers(side_by_side, tmp_path):
    few = 40 if side_by_side.on else 2
    folders = {"few": tmp_path / "few", "many": tmp_path / "many"}
    for name, count in (("few", few), ("many", TIMES * few)):
        methods = methods_of_encoders(count)
        write_tables(folders[name] / "papers", methods)
        write_records(folders[name], methods)

    def report(name):
        write_files(folder_of(folders[name]), None)

    seconds = side_by_side.seconds({name: partial(report, name) for name in folders})
    ratios = TIMES * seconds["few"] / seconds["many"]
    side_by_side.require("report-x10", ratios, REPORT, numbers=TIMES * few * len(TASKS))


def test_methods_that_nothing_registers_cost_no_suggestion(side_by_side, tmp_path):
    count = 500 if side_by_side.on else 5
    registered = [f"bert-base.mean+natsv:{k}@target" for k in range(1, count + 1)]
    unregistered = [f"mine{k}.mean+natsv:1@target" for k in range(1, count + 1)]
    folders = {"registered": registered, "unregistered": unregistered}
    for name, methods in folders.items():
        write_records(tmp_path / name, methods)

    def read(name):
        found = folder_of(tmp_path / name).records
        assert len(found.methods) == count

    programs = {name: partial(read, name) for name in folders}
    seconds = side_by_side.seconds(programs)
    ratios = seconds["registered"] / seconds["unregistered"]
    side_by_side.require("unregistered", ratios, UNREGISTERED, methods=count)


def test_a_cell_is_shown_from_its_own_records(side_by_side, tmp_path):
    count = 1000 if side_by_side.on else 20
    methods = [f"bert-base.mean+natsv:{k}@target" for k in range(1, count + 1)]
    folders = {"few": methods[: count // TIMES], "many": methods}
    for name, chosen in folders.items():
        write_tables(tmp_path / name / "papers", methods_of_encoders(ROWS_OF_A_TABLE))
        write_records(tmp_path / name, chosen)

    def cite(name):
        folder = folder_of(tmp_path / name)
        sentences, _ = cite_method(methods[0], folder)
        assert len(sentences) > 1

    seconds = side_by_side.seconds({name: partial(cite, name) for name in folders})
    ratios = seconds["few"] / seconds["many"]
    facts = {"records": count * len(TASKS)}
    side_by_side.require("one-cell", ratios, ONE_CELL, **facts)
