"""Committed records of version 0.3.0: refused with the command that writes them anew, and read."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.errors import DataError
from harness.core.files import file_name
from harness.results.former_records import read_former, write_anew
from harness.results.records import Cell, cell_of
from harness.results.store import Store

# As that version wrote it.
FORMER = Path(__file__).parent / "former_records" / "glove-840b-sick-nltk.jsonl"
CELL = Cell("glove-840b-sick-nltk.mean", "sick-r.all")


@pytest.fixture
def folder_with_former_records(tmp_path):
    """A results folder with former records."""
    (tmp_path / "records").mkdir()
    return Path(shutil.copy(FORMER, tmp_path / "records"))


def test_former_records_are_refused_with_the_command_that_writes_them_anew(
    folder_with_former_records,
):
    store = Store(folder_with_former_records.parents[1])
    for read in (lambda: store.read(CELL), lambda: list(store.records())):
        with pytest.raises(
            DataError, match=rf"former_records {folder_with_former_records}$"
        ):
            read()
    command = [
        sys.executable,
        "-m",
        "harness.results.former_records",
        str(folder_with_former_records),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "2 records written\n"
    assert not folder_with_former_records.exists()
    assert tuple(store.records()) == read_former(FORMER)
    made = store.read(CELL)
    assert made is not None
    assert made.identity.startswith("Method(")
    assert made.digests["data"]
    tables = [score for score in made.scores.values() if isinstance(score, dict)]
    assert tables
    assert all(score.keys() >= {"all", "mean", "wmean"} for score in tables)


@pytest.mark.parametrize("number", range(len(FORMER.read_bytes().splitlines())))
def test_damage_to_any_former_line_is_refused(folder_with_former_records, number):
    lines = FORMER.read_bytes().splitlines(keepends=True)
    for kept in (b"", lines[number][:-3] + b"0}\n", lines[number] * 2):
        folder_with_former_records.write_bytes(
            b"".join([*lines[:number], kept, *lines[number + 1 :]])
        )
        if number and kept == lines[number] * 2 and kept.startswith(b'{"id"'):
            continue  # a shared value may be there twice
        with pytest.raises(DataError, match=file_name(FORMER.name)):
            write_anew([folder_with_former_records])
    assert folder_with_former_records.exists()


def test_another_record_of_a_cell_is_not_replaced(folder_with_former_records):
    store = Store(folder_with_former_records.parents[1])
    shutil.copy(FORMER, folder_with_former_records.parents[1])
    write_anew([folder_with_former_records])
    [record, *_] = store.records()
    before = store.committed_path(record.method).read_bytes()
    shutil.copy(FORMER, folder_with_former_records)
    write_anew([folder_with_former_records])
    assert store.committed_path(record.method).read_bytes() == before
    store.commit([type(record)(**{**vars(record), "pairs": record.pairs + 1})])
    shutil.copy(FORMER, folder_with_former_records)
    other = store.committed_path(record.method).name
    with pytest.raises(
        DataError, match=f"{folder_with_former_records.name}: .*{other}"
    ):
        write_anew([folder_with_former_records])
    assert folder_with_former_records.exists()


def test_a_former_file_elsewhere_is_refused(tmp_path):
    stray = Path(shutil.copy(FORMER, tmp_path))
    with pytest.raises(
        DataError, match="wanted a file in a folder records; move it there"
    ):
        write_anew([stray])
    assert cell_of(read_former(stray)[0]).encoder == "glove-840b-sick-nltk"
