"""The JSON Schema of a record: its fields are those of the class, and every record keeps it."""

import json
from dataclasses import asdict

import pytest
from committed import committed_records
from processes import ROOT

from harness.core.types import Record
from harness.results.records import encode_run

PUBLISHED = (ROOT / "docs/reference/record.schema.json").read_text(encoding="utf-8")
SCHEMA = json.loads(PUBLISHED)


def test_every_committed_record_keeps_it_as_a_runs_file_does():
    reason = "holds records to the schema"
    validate = pytest.importorskip("fastjsonschema", reason=reason).compile(SCHEMA)
    records = committed_records()
    for record in records:
        validate(asdict(record))
    validate(json.loads(encode_run(records[0])))


def test_every_field_of_a_record_is_described_and_it_has_no_other():
    properties = SCHEMA["properties"]
    assert [*properties] == [*Record.__dataclass_fields__]
    assert all(about["description"].endswith(".") for about in properties.values())
    assert not SCHEMA["additionalProperties"]
