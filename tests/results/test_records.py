"""Records on disk: whole or absent, left alone while their scores hold, refused where damaged.

Of a run, a file each; committed, a line each of their encoder's file.
"""

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pytest
from fakes import made_record, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import DataError
from harness.core.files import file_name
from harness.results.records import (
    FIRST_SCHEMA,
    SAME_PLATFORM,
    SCHEMA,
    Cell,
    Store,
    cell_of,
    encode,
    encode_committed,
    read_record,
    seal,
)

SCORES = {"spearman": {"all": 70.0, "wmean": 69.5, "groups": {"a": 60.0}}, "alignment": None}
IDENTITY = {"method": "Method(...)", "data": "d", "encoding": "e", "code": "c"}
COSINES = np.linspace(-1, 1, 5)
CELL = Cell("fake:8.mean+sn@target", "sts-b.dev", 3)

# No surrogates: UTF-8 has none.
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
NUMBERS = st.one_of(st.none(), st.floats(0, 100))
TREES = st.recursive(NUMBERS, lambda inner: st.dictionaries(TEXT, inner, max_size=3))
# One group, which all aggregates equal or not, and two.
GROUPED = st.builds(
    lambda wmean, groups: {"all": 70.0, "mean": 70.0, "wmean": wmean, "groups": groups},
    st.sampled_from([70.0, 69.9]),
    st.sampled_from([{"a": 70.0}, {"a": 70.0, "b": 70.0}]),
)
ODD = st.one_of(TEXT, st.sampled_from([".", "..", "...", "a/b", "../../x", "C:\\x", "%2E", "~"]))


def record(**change):
    digests = {"data": "d", "weights": "w", "encoding": "e", "code": "c"}
    environment = {"system": "Linux", "threads": 2}
    made = made_record(
        CELL.method, CELL.task, SCORES, CELL.seed, digests=digests, environment=environment
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


def test_a_rerun_that_agrees_leaves_the_file_as_it_is(store):
    path = written(store)
    before = snapshot(path.parent)[path.name]
    digests = {"data": "d", "weights": "w", "encoding": "e", "code": "other"}
    rerun = record(scores=scores(70.0 + SAME_PLATFORM / 2), timings={}, digests=digests)
    assert store.write(rerun, COSINES, IDENTITY) is False
    assert snapshot(path.parent)[path.name] == before


LATER = {"dot_spearman": {"all": 61.0, "mean": 61.0, "wmean": 61.0}}


def test_scores_that_are_computed_since_move_no_record_and_complete_a_runs_own(store):
    later = record(scores={**SCORES, **LATER})
    committed = Store(store.folder / "committed")
    assert committed.promote([record()]) == 1
    assert committed.promote([later]) == 0
    path = written(store)
    assert store.write(later, COSINES, IDENTITY) is False
    assert read_record(path) == later
    # A score that is gone is another measurement.
    assert store.write(record(), COSINES, IDENTITY) is True


def test_a_line_holds_equal_aggregations_of_another_similarity_once(store):
    unequal = {"dot_pearson": {"all": 61.0, "mean": 60.0, "wmean": 61.0}}
    made = record(scores={**SCORES, **LATER, **unequal, "own": {"all": 3.0}})
    store.promote([made])
    [line] = store.committed_path("fake:8").read_text().splitlines()[-1:]
    assert '"dot_spearman": {"all": 61.0}' in line
    assert store.read(CELL) == made


@pytest.mark.parametrize(
    "change",
    [
        {"digests": {"data": "other", "weights": "w", "code": "c"}},
        {"digests": {"data": "d", "weights": "w", "code": "c", "fit": "f"}},
        {"identity": "Method(other)"},
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
        for write in (written, lambda store, made: store.promote([made])):
            with pytest.raises(ValueError, match="not JSON compliant"):
                write(store, record(scores=scores(bad)))
    assert not [path for path in store.folder.rglob("*.json*") if path.is_file()]


# Done


def test_done_means_the_same_identity(store):
    assert not store.done(CELL, IDENTITY)
    written(store)
    assert store.done(CELL, IDENTITY)
    for name in IDENTITY:
        assert not store.done(CELL, {**IDENTITY, name: "other"})
        assert not store.done(CELL, {k: v for k, v in IDENTITY.items() if k != name})
    assert not store.done(replace(CELL, seed=4), IDENTITY)


def test_a_record_whose_similarities_are_gone_or_damaged_is_not_done(store):
    """A committed one, or a run that was killed between the two files."""
    sidecar = written(store).with_suffix(".safetensors")
    whole = sidecar.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    for content in (whole[:-1], b"", b"\x05\0\0\0\0\0\0\0[1,2]", flipped):
        sidecar.write_bytes(content)
        assert not store.done(CELL, IDENTITY)
        with pytest.raises(DataError, match=r"seed-3\.safetensors was changed or cut; .*run again"):
            store.cosines(CELL)
    sidecar.unlink()
    assert not store.done(CELL, IDENTITY)
    assert store.cosines(CELL) is None
    assert store.read(CELL) == record()


def test_a_file_of_another_cell_is_refused_by_whoever_reads_it(store):
    """Of another seed, method or task, in a folder that its cell has or in any other."""
    other = [
        replace(CELL, seed=4),
        replace(CELL, task="sick-r"),
        replace(CELL, method="fake:8.cls"),
    ]
    for cell in other:
        store.write(record(**vars(cell)), COSINES, IDENTITY)
    target = store.path(CELL)
    target.parent.mkdir(parents=True, exist_ok=True)
    store.write(record(), COSINES, IDENTITY)
    for cell in other:
        before = target.read_bytes()
        target.write_bytes(store.path(cell).read_bytes())
        uses = [
            lambda: store.read(CELL),
            lambda: list(store.records()),
            lambda: store.done(CELL, IDENTITY),
            lambda: store.write(record(scores=scores(1.0)), COSINES, IDENTITY),
        ]
        for use in uses:
            with pytest.raises(
                DataError, match=rf"seed-3\.json: wanted .*that of {re.escape(str(cell))};"
            ):
                use()
        target.write_bytes(before)
        sidecar = target.with_suffix(".safetensors")
        sidecar.write_bytes(store.path(cell).with_suffix(".safetensors").read_bytes())
        assert not store.done(CELL, IDENTITY)
        with pytest.raises(
            DataError, match=rf"seed-3\.safetensors: wanted .* {re.escape(str(cell))};"
        ):
            store.cosines(CELL)
        store.write(record(), COSINES, IDENTITY)
    stray = store.folder / "records" / "elsewhere" / "seed-3.json"
    stray.parent.mkdir()
    target.rename(stray)
    with pytest.raises(DataError, match=r"elsewhere/seed-3\.json: wanted"):
        list(store.records())


def test_a_record_of_another_run_is_not_done(store):
    """Of the same cell, on other data, beside the similarities of these."""
    path = written(store)
    older = record(digests={"data": "older", "weights": "w", "encoding": "e", "code": "c"})
    assert store.done(CELL, IDENTITY)
    path.write_bytes(seal(older))
    assert not store.done(CELL, IDENTITY)
    path.write_bytes(seal(record(digests={**older.digests, "data": "d", "code": "older"})))
    assert store.done(CELL, IDENTITY)


# Damage

SEALED = seal(record())
NO_RECORD = " is no record .*; delete it and run again$"


@settings(deadline=None)
@given(st.integers(0, len(SEALED) - 3))
def test_a_record_that_was_cut_is_refused_by_name(tmp_path_factory, length):
    path = tmp_path_factory.getbasetemp() / "seed-0.json"
    path.write_bytes(SEALED[:length])
    with pytest.raises(DataError, match=rf"seed-0\.json{NO_RECORD}"):
        read_record(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[]", NO_RECORD),
        (b"null", NO_RECORD),
        (b"{}", NO_RECORD),
        (b'"x"', NO_RECORD),
        (b"\xff\xfe", NO_RECORD),
        (SEALED.replace(b"pairs", b"other"), NO_RECORD),
        (encode(record()), r" is no record \(KeyError\('sha256'\)\)"),
        (SEALED.replace(b"70.0", b"70.1"), ": wanted content with sha256 .*run again"),
        (seal(record(schema=SCHEMA + 1)), f": wanted schema 1 or {SCHEMA}, found"),
        (SEALED.replace(b"{", b'{"pairs": 6, ', 1), " is no record .*'pairs' is there twice"),
        (SEALED.replace(b'"\n}', b'",\n "scores": {}}'), " is no record .*'scores' is there twice"),
    ],
)
def test_what_is_no_record_of_this_schema_is_refused_by_name(store, content, complaint):
    written(store).write_bytes(content)
    for read in (lambda: store.read(CELL), lambda: list(store.records())):
        with pytest.raises(DataError, match=rf"seed-3\.json{complaint}"):
            read()


def test_a_record_of_the_first_schema_is_read_and_written_by_its_own_names(store):
    """It holds `repr` where later ones hold `identity`, and its digest is over that name."""
    old = record(schema=FIRST_SCHEMA, identity="Method(post=(Whitening(k=None),))")
    fields = {"schema": 1, "method": CELL.method, "repr": old.identity, "task": CELL.task}
    fields |= {
        name: value for name, value in vars(old).items() if name not in (*fields, "identity")
    }
    digest = hashlib.sha256(f"{json.dumps(fields)}\n".encode()).hexdigest()
    file = f"{json.dumps({**fields, 'sha256': digest}, indent=1)}\n".encode()
    assert seal(old) == file
    path = written(store)
    path.write_bytes(file)
    assert store.read(CELL) == old
    committed = Store(store.folder / "committed")
    assert committed.promote([record(seed=4), old]) == 2
    assert committed.read(CELL) == old
    lines = committed.committed_path(CELL.encoder).read_text()
    assert '"repr": "Method(post=(Whitening(k=None),))"' in lines
    assert '"schema": 1' in lines
    assert '"schema": 2' in lines


# Committed

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(TEXT, VALUES, max_size=3)
CELLS = st.builds(
    Cell,
    st.builds("{}.{}".format, st.sampled_from(["a", "b:8", "con", "é"]), TEXT),
    TEXT,
    st.integers(0, 12),
)
RECORDS = st.lists(
    st.builds(
        lambda cell, identity, **fields: record(**vars(cell), identity=identity, **fields),
        CELLS,
        TEXT,
        schema=st.sampled_from([FIRST_SCHEMA, SCHEMA]),
        scores=st.dictionaries(TEXT, TREES | GROUPED, max_size=3),
        digests=st.sampled_from([{"data": "d"}, {"data": "e"}, {}]),
        environment=FIELDS,
        facts=FIELDS,
    ),
    unique_by=cell_of,
    max_size=8,
)


@settings(deadline=None, max_examples=30)
@given(RECORDS, st.randoms(use_true_random=False), st.integers(0, 8))
def test_records_survive_promotion_and_their_files_know_no_order(
    tmp_path_factory, made, random, cut
):
    store, other = (Store(tmp_path_factory.mktemp("results")) for _ in "ab")
    assert store.promote(made) == len(made)
    shuffled = random.sample(made, len(made))
    assert other.promote(shuffled[:cut]) + other.promote(shuffled[cut:]) == len(made)
    for path in store.folder.glob("records/*.jsonl"):
        assert path.read_bytes() == (other.folder / "records" / path.name).read_bytes()
    read = list(store.records())
    assert sorted(map(encode, read)) == sorted(map(encode, made))  # to the byte, and so the digests
    assert [cell_of(record).names for record in read] == sorted(cell_of(r).names for r in made)
    assert all(store.read(cell_of(record)) == record for record in made)
    assert store.promote(shuffled) == 0


def seeds(*numbers, **change):
    return [record(seed=seed, **change) for seed in numbers]


@pytest.fixture
def lines(store):
    """The lines of a committed file: the count, four values that are shared, three cells."""
    assert store.promote(seeds(0, 1, 2)) == 3
    return store.committed_path("fake:8").read_bytes().splitlines(keepends=True)


def test_committed_cells_that_agree_stay_as_they_are_and_others_are_replaced(store, lines):
    path = store.committed_path("fake:8")
    before = snapshot(path.parent)
    agrees = record(seed=1, timings={"encode": 9.0}, environment={"system": "Darwin"})
    assert store.promote([agrees]) == 0
    assert snapshot(path.parent) == before
    assert store.promote([replace(agrees, scores=scores(71.0)), *seeds(2)]) == 1
    assert [r.scores["spearman"]["all"] for r in store.records()] == [70.0, 71.0, 70.0]


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_committed_file_that_was_cut_is_refused_by_name_and_line(store, lines, number, part):
    path, kept = store.committed_path("fake:8"), lines[number][: int(part * len(lines[number]))]
    whole = number == 7 and part == 1.0
    path.write_bytes(b"".join(lines[:number]) + kept)
    place = (
        rf"fake%3A8\.jsonl(:{number + 1} is damaged|: wanted (3|a count of) rows, as line 1 says,)"
    )
    for read in (lambda: store.read(CELL), lambda: list(store.records())):
        if whole:
            read()
            continue
        with pytest.raises(DataError, match=rf"{place}.*; restore the file$"):
            read()


def changed(line, old, new):
    """A row that says something else, with a digest that fits."""
    text = line.decode().replace(old, new).rpartition(', "sha256"')[0]
    return f'{text}, "sha256": "{hashlib.sha256(text.encode()).hexdigest()[:12]}"}}\n'.encode()


def last(change):
    """Damage to the last row alone."""
    return lambda rows: [*rows[:7], change(rows[7])]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda rows: [*rows, rows[5]], ":9: fake:8.mean+sn@target on sts-b.dev, seed 0"),
        (lambda rows: rows[:6] + rows[7:], ": wanted 3 rows, as line 1 says, found 2; restore"),
        (lambda rows: [rows[0][:-2] + b', "rows": 3}\n', *rows[1:]], ":1 is damaged"),
        (lambda rows: [rows[0][:-2] + b', "x": 3}\n', *rows[1:]], ":1 is damaged"),
        (lambda rows: [rows[0], rows[1].replace(b'{"', b'{ "', 1), *rows[2:]], ":2 is damaged"),
        (last(lambda row: row.replace(b"}\n", b', "scores": {"auc": 87.0}}\n')), ":8 is damaged"),
        (last(lambda row: row.replace(b"}\n", b', "note": 1}\n')), ":8 is damaged"),
        (last(lambda row: row.replace(b"}\n", b" }\n")), ":8 is damaged"),
        (last(lambda row: changed(row, '{"schema"', '{"seed": 4, "schema"')), ":8 is damaged"),
        (lambda rows: rows[:2] + rows[3:], ":5 is damaged"),  # a shared value is gone
        (lambda rows: [rows[0], rows[1].replace(b"d", b"e"), *rows[2:]], ":2 is damaged"),
        (lambda rows: rows[1:], ":1 is damaged"),
        (lambda rows: [*rows, b"\n"], ":9 is damaged"),
        (
            lambda rows: [*rows[:5], b"<<<<<<< HEAD\n", *rows[5:]],
            ":6: wanted the lines of a merged",
        ),
        (last(lambda row: b"[]\n"), ":8 is damaged"),
        (last(lambda row: b"\xff\n"), ":8 is damaged"),
        (last(lambda row: re.sub(rb'"identity": "\w+"', b'"identity": []', row)), ":8 is damaged"),
        (last(lambda row: re.sub(rb', "sha256": "\w+"', b"", row)), ":8 is damaged"),
        (last(lambda row: row.replace(b"70.0", b"NaN")), ":8 is damaged"),
        (last(lambda row: row.replace(b"70.0", b"70.1")), ":8 is damaged"),
        (last(lambda row: row.replace(b"groups", b"wroups")), ":8 is damaged"),
        (last(lambda row: changed(row, "pairs", "other")), ":8 is no record"),
        (last(lambda row: changed(row, "fake:8", "fake:9")), ":8: fake:9"),
        (last(lambda row: changed(row, '"schema": 2', '"schema": 3')), ":8: wanted schema 1 or 2"),
    ],
)
def test_a_damaged_committed_file_is_refused_by_name_and_line(store, lines, damage, complaint):
    path = store.committed_path("fake:8")
    path.write_bytes(b"".join(damage(lines)))
    before = snapshot(store.folder)
    for use in (lambda: list(store.records()), lambda: store.promote(seeds(7))):
        with pytest.raises(DataError, match=re.escape(f"fake%3A8.jsonl{complaint}")):
            use()
    assert snapshot(store.folder) == before


def test_a_merge_that_keeps_the_rows_of_both_sides_says_how_to_go_on(store, lines, tmp_path):
    """Each branch adds one row and counts 4, which git merges to 4; all five are there."""
    path = store.committed_path("fake:8")
    sides = []
    for seed in (3, 4):
        branch = Store(tmp_path / str(seed))
        branch.promote([*seeds(0, 1, 2), record(seed=seed)])
        sides.append(branch.committed_path("fake:8").read_bytes().splitlines(keepends=True))
    merged = [*sides[0], sides[1][-1]]
    path.write_bytes(b"".join(merged))
    with pytest.raises(DataError, match=r"wanted 4 rows.*found 5; all of them whole.*") as caught:
        list(store.records())
    line = re.search(r'write (\{"rows": 5\}) as line 1', str(caught.value))[1]
    path.write_bytes(b"".join([f"{line}\n".encode(), *merged[1:]]))
    assert [made.seed for made in store.records()] == [0, 1, 2, 3, 4]
    assert store.promote([record(seed=5)]) == 1


def test_everybody_who_promotes_at_once_is_heard(tmp_path):
    every = [record(seed=seed) for seed in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda made: Store(tmp_path).promote([made]), every))
    path = Store(tmp_path).committed_path("fake:8")
    assert path.read_bytes() == encode_committed(every)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_cell_has_one_place(store, lines):
    """A line that is measured again is that line; a file that is promoted becomes a line."""
    assert store.write(replace(record(seed=1), scores=scores(71.0)), COSINES, IDENTITY) is True
    assert not store.path(replace(CELL, seed=1)).exists()
    assert store.write(record(seed=4), COSINES, IDENTITY) is True
    assert store.promote(seeds(4, scores=scores(72.0))) == 1
    assert not store.path(replace(CELL, seed=4)).exists()
    committed = {r.seed: r.scores["spearman"]["all"] for r in store.records()}
    assert committed == {0: 70.0, 1: 71.0, 2: 70.0, 4: 72.0}


def test_a_cell_in_two_places_is_refused_by_name(store, lines):
    path = store.path(replace(CELL, seed=1))
    path.parent.mkdir(parents=True)
    path.write_bytes(seal(record(seed=1)))
    with pytest.raises(DataError, match=r"seed-1\.json: .*seed 1 has another record here; delete"):
        list(store.records())


# Names


@given(ODD)
def test_any_id_is_one_path_component_and_no_two_share_it(identifier):
    name = file_name(identifier)
    assert unquote(name) == identifier
    assert name not in ("", ".", "..")
    assert name.isascii()
    assert not set(name) & set('/\\:*?"<>| \0\n')


@given(ODD, ODD, ODD, st.integers(0, 99))
def test_a_record_never_leaves_its_folder(tmp_path_factory, encoder, rest, task, seed):
    folder = tmp_path_factory.getbasetemp() / "results"
    encoder = encoder.replace(".", "") or "e"
    path = Store(folder).path(Cell(f"{encoder}.{rest}", task, seed))
    inside = path.resolve().relative_to(folder.resolve())
    assert (inside.parts[0], len(inside.parts)) == ("records", 5)
