"""The page of conformance, and the files that it is made of."""

import json
import shutil
from pathlib import Path

import pytest

from harness.core.errors import DataError
from harness.report.build import stale_files, write_files
from harness.report.pages import PAGE
from harness.results.folder import ResultsFolder

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
NEW = {
    "program": "a program",
    "version": "2.0",
    "what": "Spearman x100",
    "command": "score it",
    "tolerance": 0.01,
    "reason": "it prints two digits",
    "cells": [
        {"method": "bert-mini.mean", "task": "sts-b.senteval", "scores": {"all": 42.66}},
        {"method": "bert-mini.mean", "task": "sick-r.senteval", "scores": {"all": 42.66}},
        {"method": "bert-mini.mean", "task": "no-task", "scores": {"accuracy": 80.0}},
        {"method": "bert-mini:65.mean", "task": "sts-b", "scores": {"all": 40.0}},
    ],
}


@pytest.fixture
def results(tmp_path):
    """A results folder with the records of one encoder and without references."""
    folder = tmp_path / "results"
    (folder / "records").mkdir(parents=True)
    shutil.copy(RESULTS / "records" / "bert-mini.jsonl", folder / "records")
    (folder / "papers").mkdir()
    shutil.copy(RESULTS / "papers" / "sif.t1.toml", folder / "papers")
    return folder


def send(results, **changes):
    """Put a reference into the results."""
    (results / "references").mkdir()
    (results / "references" / "sent.json").write_text(json.dumps(NEW | changes), encoding="utf-8")


def test_a_reference_is_shown_beside_the_records(results):
    send(results)
    page = results / "tables" / PAGE
    assert page in stale_files(ResultsFolder(results), None)
    write_files(ResultsFolder(results), None)
    lines = [
        line.split("|")[1:-1] for line in page.read_text().splitlines() if "`bert-mini" in line
    ]
    shown = [[cell.strip() for cell in line][3:] for line in lines]
    assert shown == [
        ["42.6600", "42.6671", "+0.0071", "0.01", "match"],
        ["42.6600", "51.8473", "+9.1873", "0.01", "differs, beyond the tolerance"],
        ["80.0000", "task not in the matrix", "", "0.01", ""],
        ["40.0000", "not run", "", "0.01", ""],
    ]
    assert "a program (2.0)" in page.read_text()
    assert "it prints two digits" in page.read_text()
    assert (
        "| `sent.json` | a library    |        4 |          2 |       1 |               9.1873 |"
        in page.read_text()
    )


def test_a_wrong_reference_is_refused_and_no_page_written(results):
    send(results, program="")
    with pytest.raises(DataError, match=r"sent.json: program: wanted a text, found none"):
        write_files(ResultsFolder(results), None)
    assert not (results / "tables").exists()
