"""What reports read and write quickly is what the slow and plain way reads and writes."""

from dataclasses import replace

import numpy as np
import pytest

from harness.core.types import Record
from harness.results.index import Results
from harness.results.records import SCHEMA, Store, seal

LETTERS = "ab |†≈±–-.:\\`*1 0é"
# As ids are in paths: some begin like others, and go on with what sorts around a separator.
NAMES = ("e", "e.mean", "e-1.mean", "e%3A64.mean", "e+sn", "e0")


def record(method="e.mean", task="sts-b", seed=0):
    return Record(SCHEMA, method, "", task, seed, {"auc": 50.0 + seed}, 3, {}, {}, {})


def test_records_are_read_in_the_order_of_their_paths(tmp_path):
    for method in NAMES:
        for task in ("sts-b", "sts-b.dev", "sts12"):
            for seed in (0, 1, 10):
                Store(tmp_path).write(record(method, task, seed), np.zeros(3), {})
    paths = sorted((tmp_path / "records").rglob("seed-*.json"))
    measured = list(Store(tmp_path).records())
    assert len(measured) == 9 * len(NAMES)
    assert [seal(one) for one in measured] == [path.read_bytes() for path in paths]
    Store(tmp_path / "committed").promote(reversed(measured))
    assert list(Store(tmp_path / "committed").records()) == measured


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_the_digest_is_of_the_records_however_they_were_read(tmp_path, ends):
    records = [record(seed=seed) for seed in range(3)]
    for one in records:
        Store(tmp_path).write(one, np.zeros(3), {})
    for path in tmp_path.rglob("*.json"):
        path.write_bytes(path.read_bytes().replace(b"\n", ends))
    held, read = Results({("e.mean", "sts-b"): records}), Results.read(Store(tmp_path))
    for results in (held, read, Results(read.by_cell)):
        results.value("e.mean", "sts-b", "auc")
    assert read.digest() == held.digest() == Results(read.by_cell, read.used).digest()
    path = tmp_path / "records" / "e" / "e.mean" / "sts-b" / "seed-1.json"
    path.write_bytes(seal(replace(records[1], scores={"auc": 51.5})))
    changed = Results.read(Store(tmp_path))
    changed.value("e.mean", "sts-b", "auc")
    assert changed.digest() != held.digest()
