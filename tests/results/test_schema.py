"""The JSON Schema of a record: its fields are those of the class, and every record keeps it."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from committed import committed_records

from harness.core.types import Record
from harness.results.records import SCHEMA, encode_run

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = (ROOT / "docs/reference/record.schema.json").read_text(encoding="utf-8")
SCHEMA_OF_RECORDS = json.loads(PUBLISHED)
COMMITTED = committed_records()


@pytest.fixture(scope="module")
def validate_record():
    """Holds the fields of a record to the schema."""
    module = pytest.importorskip("fastjsonschema", reason="holds records to the schema")
    return module.compile(SCHEMA_OF_RECORDS)


def test_every_committed_record_keeps_it_as_a_runs_file_does(validate_record):
    for record in COMMITTED:
        validate_record(asdict(record))
    validate_record(json.loads(encode_run(COMMITTED[0])))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": SCHEMA + 1},
        {"pairs": 0},
        {"scores": {}},
        {"scores": {"spearman": {"all": "82.03"}}},
        {"timings": {"encode": None}},
        {"other": 1},
        {"identity": ...},  # left out
    ],
    ids=str,
)
def test_what_is_no_record_is_refused(validate_record, change):
    fields = asdict(COMMITTED[0]) | change
    with pytest.raises(ValueError, match=next(iter(change))):
        validate_record(
            {name: value for name, value in fields.items() if value is not ...}
        )


def test_every_field_of_a_record_is_described():
    properties = SCHEMA_OF_RECORDS["properties"]
    assert [*properties] == [*Record.__dataclass_fields__]
    assert all(about["description"].endswith(".") for about in properties.values())
