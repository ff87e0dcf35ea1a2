"""Records on disk: whole or absent, left alone while their scores hold, refused where damaged."""

import json
from dataclasses import asdict, fields, replace
from urllib.parse import unquote

import numpy as np
import pytest
from fakes import snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import DataError
from harness.core.files import file_name
from harness.core.types import Record
from harness.results.records import (
    SAME_PLATFORM,
    SCHEMA,
    Cell,
    Store,
    encode,
    largest_move,
    read_record,
)

SCORES = {"spearman": {"all": 70.0, "wmean": 69.5, "groups": {"a": 60.0}}, "alignment": None}
IDENTITY = {"method": "Method(...)", "data": "d", "encoding": "e", "code": "c"}
COSINES = np.linspace(-1, 1, 5)
CELL = Cell("fake:8.mean+sn@target", "sts-b.dev", 3)

# No surrogates: UTF-8 has none.
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ODD = st.one_of(TEXT, st.sampled_from([".", "..", "...", "a/b", "../../x", "C:\\x", "%2E", "~"]))


def record(**change):
    made = Record(
        schema=SCHEMA,
        method=CELL.method,
        repr="Method(...)",
        task=CELL.task,
        seed=CELL.seed,
        scores=SCORES,
        pairs=5,
        timings={"encode": 1.0},
        digests={"data": "d", "weights": "w", "code": "c"},
        environment={"system": "Linux", "threads": 2},
        facts={"dimensions": 4},
    )
    return replace(made, **change)


def scores(value):
    return {**SCORES, "spearman": {**SCORES["spearman"], "all": value}}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def written(store, made=None):
    store.write(made or record(), COSINES, IDENTITY)
    return store.path(CELL)


# Written once


def test_a_record_reads_back_whole(store):
    written(store)
    assert store.read(CELL) == record()
    assert list(store.records()) == [record()]


def test_a_record_is_a_file_for_people_too(store):
    path = written(store)
    assert path.relative_to(store.folder).as_posix() == (
        "records/fake%3A8/fake%3A8.mean+sn@target/sts-b.dev/seed-3.json"
    )
    assert list(json.loads(path.read_text())) == [field.name for field in fields(Record)]
    assert path.read_text().count("\n") > len(asdict(record()))


def test_a_rerun_that_agrees_leaves_the_file_as_it_is(store):
    path = written(store)
    before = snapshot(path.parent)[path.name]
    rerun = record(
        scores=scores(70.0 + SAME_PLATFORM / 2),
        timings={"encode": 9.0},
        environment={"system": "Darwin"},
        digests={"data": "d", "weights": "w", "code": "other"},
    )
    assert store.write(rerun, COSINES, IDENTITY) is False
    assert snapshot(path.parent)[path.name] == before


@settings(max_examples=25, deadline=None)
@given(st.floats(-1, 1) | st.floats(-2e-3, 2e-3))
def test_a_score_has_moved_beyond_a_thousandth_of_a_point(tmp_path_factory, move):
    store = Store(tmp_path_factory.mktemp("store"))
    path = written(store)
    moved = abs(70.0 + move - 70.0) > SAME_PLATFORM
    assert store.write(record(scores=scores(70.0 + move)), COSINES, IDENTITY) is moved
    assert (read_record(path).scores["spearman"]["all"] == 70.0 + move) or not moved


@pytest.mark.parametrize(
    "change",
    [
        {"digests": {"data": "other", "weights": "w", "code": "c"}},
        {"digests": {"data": "d", "weights": "w", "code": "c", "fit": "f"}},
        {"repr": "Method(other)"},
        {"pairs": 6},
        {"scores": scores(None)},
        {"scores": {"auc": 70.0}},
        {"scores": {**SCORES, "spearman": 70.0}},
    ],
    ids=str,
)
def test_another_measurement_replaces_the_record(store, change):
    path = written(store)
    assert store.write(record(**change), COSINES, IDENTITY) is True
    assert read_record(path) == record(**change)


def test_a_number_that_is_none_is_never_written(store):
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            written(store, record(scores=scores(bad)))
    assert snapshot(store.folder) == {}


def test_pair_similarities_lie_beside_the_record(store):
    assert store.cosines(CELL) is None
    written(store)
    np.testing.assert_array_equal(store.cosines(CELL), COSINES.astype(np.float32))


# Done


def test_done_means_the_same_identity(store):
    assert not store.done(CELL, IDENTITY)
    written(store)
    assert store.done(CELL, IDENTITY)
    for name in IDENTITY:
        assert not store.done(CELL, {**IDENTITY, name: "other"})
        assert not store.done(CELL, {k: v for k, v in IDENTITY.items() if k != name})
    assert not store.done(replace(CELL, seed=4), IDENTITY)


def test_a_record_that_came_without_its_sidecar_is_not_done(store):
    """A committed one, or a run that was killed between the two files."""
    path = written(store)
    sidecar = path.with_suffix(".safetensors")
    for content in (sidecar.read_bytes()[:-1], b"", b"\x05\0\0\0\0\0\0\0[1,2]"):
        sidecar.write_bytes(content)
        assert not store.done(CELL, IDENTITY)
    sidecar.unlink()
    assert not store.done(CELL, IDENTITY)
    assert store.read(CELL) == record()


def test_a_sidecar_without_a_record_is_not_done(store):
    written(store).unlink()
    assert not store.done(CELL, IDENTITY)


# Damage


@settings(deadline=None)
@given(st.integers(0, len(encode(record())) - 3))
def test_a_record_that_was_cut_is_refused_by_name(tmp_path_factory, length):
    path = tmp_path_factory.getbasetemp() / "seed-0.json"
    path.write_bytes(encode(record())[:length])
    with pytest.raises(DataError, match=r"seed-0\.json is no record .*; delete it and run again$"):
        read_record(path)


@pytest.mark.parametrize(
    "content",
    [b"[]", b"null", b"{}", b'"x"', b"\xff\xfe", encode(record()).replace(b"pairs", b"other")],
)
def test_what_is_no_record_is_refused_by_name(store, content):
    path = written(store)
    path.write_bytes(content)
    for read in (lambda: store.read(CELL), lambda: list(store.records())):
        with pytest.raises(DataError, match=r"seed-3\.json is no record"):
            read()


def test_a_record_with_a_number_that_is_none_is_refused(store):
    path = written(store)
    path.write_bytes(path.read_bytes().replace(b"70.0", b"NaN"))
    with pytest.raises(DataError, match=r"seed-3\.json"):
        store.read(CELL)


def test_a_record_of_another_schema_is_refused(store):
    path = written(store, record(schema=SCHEMA + 1))
    with pytest.raises(DataError, match=rf"seed-3\.json: wanted schema {SCHEMA}, found"):
        read_record(path)


# Names


@given(ODD)
def test_any_id_is_one_path_component_and_no_two_share_it(identifier):
    name = file_name(identifier)
    assert unquote(name) == identifier
    assert name not in ("", ".", "..")
    assert not set(name) & set('/\\:*?"<>| \0\n')
    assert name.isascii()


@given(ODD, ODD, ODD, st.integers(0, 99))
def test_a_record_never_leaves_its_folder(tmp_path_factory, encoder, rest, task, seed):
    folder = tmp_path_factory.getbasetemp() / "results"
    encoder = encoder.replace(".", "") or "e"
    path = Store(folder).path(Cell(f"{encoder}.{rest}", task, seed))
    inside = path.resolve().relative_to(folder.resolve())
    assert (inside.parts[0], len(inside.parts)) == ("records", 5)


# What moved

NUMBERS = st.one_of(st.none(), st.floats(0, 100))
TREES = st.recursive(NUMBERS, lambda inner: st.dictionaries(TEXT, inner, max_size=3))


@given(TREES, TREES)
def test_the_largest_move_is_symmetric_and_none_from_itself(one, other):
    assert largest_move(one, one) == 0
    assert largest_move(one, other) == largest_move(other, one)


@given(st.floats(0, 100), st.none() | st.just({"all": 1.0}))
def test_a_score_against_a_hole_has_moved_without_bound(number, hole):
    assert largest_move(number, hole) == float("inf")
