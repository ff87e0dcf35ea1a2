"""The order of records, and the digest of those behind a page."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from fakes import made_record

from harness.results.index import Results
from harness.results.records import Cell, encode_run
from harness.results.store import Store

# As ids are in paths: some begin like others, and go on with what sorts around a
# separator.
METHODS = ("e", "e.mean", "e-1.mean", "e%3A64.mean", "e+sn", "e0")


def test_records_are_read_in_the_order_of_their_paths(tmp_path):
    store = Store(tmp_path)
    for method, task, seed in product(
        METHODS, ("sts-b", "sts-b.dev", "sts12"), (0, 1, 10)
    ):
        store.write(made_record(method, task, {"auc": 50.0}, seed), np.zeros(3), {})
    paths = sorted((tmp_path / "records").rglob("seed-*.json"))
    assert [encode_run(record) for record in store.records()] == [
        path.read_bytes() for path in paths
    ]


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_the_digest_is_of_the_records_however_they_were_read(tmp_path, ends):
    store = Store(tmp_path)
    records = [
        made_record("e.mean", "sts-b", {"auc": 50.0 + seed}, seed) for seed in range(3)
    ]
    for record in records:
        store.write(record, np.zeros(3), {})
        path = store.path(Cell("e.mean", "sts-b", record.seed))
        path.write_bytes(path.read_bytes().replace(b"\n", ends))

    held, read = Results({("e.mean", "sts-b"): records}), Results.read(store)
    assert read.digest() == held.digest() == Results(read.by_cell).digest()
    path.write_bytes(encode_run(replace(records[2], scores={"auc": 51.5})))
    assert Results.read(store).digest() != held.digest()
