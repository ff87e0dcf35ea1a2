"""The JSON Schema of a record: made of the class, published as it is, and kept by every record."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from harness.core.types import Record
from harness.results.records import SCHEMA, Store, seal
from harness.results.score_rows import _of_type, record_schema

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = tuple(Store(ROOT / "results").records())


@pytest.fixture(scope="module")
def valid():
    module = pytest.importorskip("fastjsonschema", reason="holds records to the schema")
    check = module.compile(record_schema())

    def is_valid(fields):
        try:
            check(fields)
        except module.JsonSchemaValueException:
            return False
        return True

    return is_valid


def test_the_published_schema_is_that_of_the_class():
    published = (ROOT / "docs/reference/record.schema.json").read_text(encoding="utf-8")
    assert json.loads(published) == record_schema()
    assert published == json.dumps(record_schema(), indent=1) + "\n"


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


def test_every_field_is_described_and_a_type_without_a_schema_is_refused():
    properties = record_schema()["properties"]
    assert set(Record.__dataclass_fields__) < set(properties)
    assert all(about["description"].endswith(".") for about in properties.values())
    assert _of_type(int | None) == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert _of_type(Mapping[str, str])["additionalProperties"] == {"type": "string"}
    with pytest.raises(TypeError, match="wanted a type that JSON has"):
        _of_type(bytes)
