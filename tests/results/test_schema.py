"""The JSON Schema of a record: its fields are those of the class, and every record keeps it."""

import contextlib
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from harness.core.types import Record
from harness.results.records import SCHEMA, SEAL, Store, seal

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = (ROOT / "docs/reference/record.schema.json").read_text(encoding="utf-8")
SCHEMA_OF_RECORDS = json.loads(PUBLISHED)
COMMITTED = tuple(Store(ROOT / "results").records())


@pytest.fixture(scope="module")
def valid():
    module = pytest.importorskip("fastjsonschema", reason="holds records to the schema")
    check = module.compile(SCHEMA_OF_RECORDS)

    def is_valid(fields):
        with contextlib.suppress(module.JsonSchemaValueException):
            check(fields)
            return True
        return False

    return is_valid


def test_every_committed_record_keeps_it_as_a_runs_file_does(valid):
    assert all(valid(asdict(record)) for record in COMMITTED)
    assert valid(json.loads(seal(COMMITTED[0])))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": SCHEMA + 1},
        {"seed": "0"},
        {"pairs": 0},
        {"scores": {}},
        {"scores": {"spearman": {"all": "82.03"}}},
        {"timings": {"encode": None}},
        {"digests": {"data": 1}},
    ],
    ids=str,
)
def test_what_is_no_record_is_refused(valid, change):
    assert not valid(asdict(COMMITTED[0]) | change)
    assert not valid({**asdict(COMMITTED[0]), "other": 1})
    assert not valid({k: v for k, v in asdict(COMMITTED[0]).items() if k != "repr"})


def test_every_field_of_a_record_is_described():
    properties = SCHEMA_OF_RECORDS["properties"]
    assert [*properties] == [*Record.__dataclass_fields__, SEAL]
    assert all(about["description"].endswith(".") for about in properties.values())
