"""Records on disk: whole or absent, left alone while their scores hold, refused where damaged.

Of a run, a file each; committed, a line each of their method's file.
"""

import hashlib
import json
import os
import re
import subprocess
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
    cell_of,
    encode,
    encode_committed,
    read_record,
    seal,
)
from harness.results.store import GIT_ATTRIBUTES, Store

SCORES = {
    "spearman": {"all": 70.0, "wmean": 69.5, "groups": {"a": 60.0}},
    "alignment": None,
}
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
ODD = st.one_of(
    TEXT, st.sampled_from([".", "..", "...", "a/b", "../../x", "C:\\x", "%2E", "~"])
)


def record(**change):
    digests = {"data": "d", "weights": "w", "encoding": "e", "code": "c"}
    environment = {"system": "Linux", "threads": 2}
    made = made_record(
        CELL.method,
        CELL.task,
        SCORES,
        CELL.seed,
        digests=digests,
        environment=environment,
    )
    return replace(made, **change)


def scores(value):
    return {**SCORES, "spearman": {**SCORES["spearman"], "all": value}}


def seeds(*numbers, **change):
    return [record(seed=seed, **change) for seed in numbers]


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
    assert not store.is_done(CELL, IDENTITY)
    written(store)
    assert store.is_done(CELL, IDENTITY)
    for name in IDENTITY:
        assert not store.is_done(CELL, {**IDENTITY, name: "other"})
        assert not store.is_done(CELL, {k: v for k, v in IDENTITY.items() if k != name})
    assert not store.is_done(replace(CELL, seed=4), IDENTITY)


def test_a_record_whose_similarities_are_gone_or_damaged_is_not_done(store):
    """A committed one, or a run that was killed between the two files."""
    sidecar = written(store).with_suffix(".safetensors")
    whole = sidecar.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    for content in (whole[:-1], b"", b"\x05\0\0\0\0\0\0\0[1,2]", flipped):
        sidecar.write_bytes(content)
        assert not store.is_done(CELL, IDENTITY)
        with pytest.raises(
            DataError, match=r"seed-3\.safetensors was changed or cut; .*run again"
        ):
            store.cosines(CELL)
    sidecar.unlink()
    assert not store.is_done(CELL, IDENTITY)
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
            lambda: store.is_done(CELL, IDENTITY),
            lambda: store.write(record(scores=scores(1.0)), COSINES, IDENTITY),
        ]
        for use in uses:
            with pytest.raises(
                DataError,
                match=rf"seed-3\.json: wanted .*record of {re.escape(str(cell))};",
            ):
                use()
        target.write_bytes(before)
        sidecar = target.with_suffix(".safetensors")
        sidecar.write_bytes(store.path(cell).with_suffix(".safetensors").read_bytes())
        assert not store.is_done(CELL, IDENTITY)
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
    older = record(
        digests={"data": "older", "weights": "w", "encoding": "e", "code": "c"}
    )
    assert store.is_done(CELL, IDENTITY)
    path.write_bytes(seal(older))
    assert not store.is_done(CELL, IDENTITY)
    path.write_bytes(
        seal(record(digests={**older.digests, "data": "d", "code": "older"}))
    )
    assert store.is_done(CELL, IDENTITY)


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
        # Its reason has neither the content nor another line.
        (SEALED[:-3] + b"\xff\n}\n", " is no record .{,120}; delete it and run again$"),
        (
            SEALED.replace(b"pairs", b"other"),
            ": wanted the fields of a record, found 'other', no 'pairs'; delete it and run again$",
        ),
        (encode(record()), r" is no record \(KeyError: 'sha256'\)"),
        (SEALED.replace(b"70.0", b"70.1"), ": wanted content with sha256 .*run again"),
        (seal(record(schema=SCHEMA + 1)), f": wanted schema 1 or {SCHEMA}, found"),
        (
            SEALED.replace(b"{", b'{"pairs": 6, ', 1),
            " is no record .*'pairs' is there twice",
        ),
        (
            SEALED.replace(b'"\n}', b'",\n "scores": {}}'),
            " is no record .*'scores' is there twice",
        ),
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
    fields = {
        "schema": 1,
        "method": CELL.method,
        "repr": old.identity,
        "task": CELL.task,
    }
    fields |= {
        name: value
        for name, value in vars(old).items()
        if name not in (*fields, "identity")
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
    lines = committed.committed_path(CELL.method).read_text()
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
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
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
        lambda cell, identity, **fields: record(
            **vars(cell), identity=identity, **fields
        ),
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
    for path in store.folder.glob("records/*/*.jsonl"):
        assert (
            path.read_bytes()
            == (other.folder / path.relative_to(store.folder)).read_bytes()
        )
    read = list(store.records())
    assert sorted(map(encode, read)) == sorted(
        map(encode, made)
    )  # to the byte, and so the digests
    assert [cell_of(record).names for record in read] == sorted(
        cell_of(r).names for r in made
    )
    assert all(store.read(cell_of(record)) == record for record in made)
    assert store.promote(shuffled) == 0


# The lines of a committed file of three cells: a heading, a record and three empty
# lines of each, and the end.
HEADING, ROW, LAST_ROW, END = 0, 1, 11, 15


@pytest.fixture
def lines(store):
    assert store.promote(seeds(0, 1, 2)) == 3
    lines = store.committed_path(CELL.method).read_bytes().splitlines(keepends=True)
    assert len(lines) == END + 1
    return lines


def test_committed_cells_that_agree_stay_as_they_are_and_others_are_replaced(
    store, lines
):
    path = store.committed_path(CELL.method)
    before = snapshot(path.parent)
    agrees = record(seed=1, timings={"encode": 9.0}, environment={"system": "Darwin"})
    assert store.promote([agrees]) == 0
    assert snapshot(path.parent) == before
    assert store.promote([replace(agrees, scores=scores(71.0)), *seeds(2)]) == 1
    assert [r.scores["spearman"]["all"] for r in store.records()] == [70.0, 71.0, 70.0]


@pytest.mark.parametrize("number", range(END + 1))
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_committed_file_that_was_cut_is_refused_by_name_and_line(
    store, lines, number, part
):
    path, kept = (
        store.committed_path(CELL.method),
        lines[number][: int(part * len(lines[number]))],
    )
    path.write_bytes(b"".join(lines[:number]) + kept)
    place = re.escape(f"{path.name}:")
    for read in (lambda: store.read(CELL), lambda: list(store.records())):
        if number == END and part == 1.0:
            read()
            continue
        with pytest.raises(
            DataError, match=rf"{place}\d+(:| is damaged).*; .*restore the file"
        ):
            read()


def line_with_other_text(line, old, new):
    """A record's line that says something else, with a digest that fits."""
    fields = line.decode().replace(old, new).rpartition(', "sha256"')[0]
    digest = hashlib.sha256(f"{fields}}}\n".encode()).hexdigest()
    return f'{fields}, "sha256": "{digest}"}}\n'.encode()


def damage_to_line(number, change):
    """Damage to one line."""
    return lambda lines: [*lines[:number], change(lines[number]), *lines[number + 1 :]]


OTHER_SCORE = record(seed=1, scores=scores(71.0))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (
            damage_to_line(ROW, lambda row: row.replace(b"70.0", b"70.1")),
            ":2 is damaged",
        ),
        (
            damage_to_line(ROW, lambda row: row.replace(b"70.0", b"NaN")),
            ":2 is damaged",
        ),
        (
            damage_to_line(ROW, lambda row: row.replace(b"groups", b"wroups")),
            ":2 is damaged",
        ),
        (
            damage_to_line(ROW, lambda row: row.replace(b'{"', b'{ "', 1)),
            ":2 is damaged",
        ),
        (
            damage_to_line(ROW, lambda row: row.replace(b"}\n", b" }\n")),
            ":2 is damaged",
        ),
        (
            damage_to_line(ROW, lambda row: row.replace(b"}\n", b', "note": 1}\n')),
            ":2 is damaged",
        ),
        (
            damage_to_line(
                ROW, lambda row: row.replace(b"}\n", b', "scores": {"auc": 87.0}}\n')
            ),
            ":2 is damaged",
        ),
        (
            damage_to_line(ROW, lambda row: re.sub(rb', "sha256": "\w+"', b"", row)),
            ":2 is damaged",
        ),
        (
            damage_to_line(
                ROW, lambda row: re.sub(rb'"sha256": "\w', b'"sha256": "g', row)
            ),
            ":2 is damaged",
        ),
        (damage_to_line(ROW, lambda row: b"[]\n"), ":2 is damaged"),
        (damage_to_line(ROW, lambda row: b"\xff\n"), ":2 is damaged"),
        (
            damage_to_line(
                ROW,
                lambda row: line_with_other_text(
                    row, '{"schema"', '{"seed": 4, "schema"'
                ),
            ),
            ":2 is damaged",
        ),
        (
            damage_to_line(
                ROW, lambda row: line_with_other_text(row, "pairs", "other")
            ),
            ":2: wanted the fields of a record, found 'other', no 'pairs'; restore",
        ),
        (
            damage_to_line(
                ROW, lambda row: line_with_other_text(row, "fake:8", "fake:9")
            ),
            ":2: fake:9",
        ),
        (
            damage_to_line(
                ROW, lambda row: line_with_other_text(row, "mean+sn", "mean+nn")
            ),
            ":2: fake:8.mean+nn",
        ),
        (
            damage_to_line(
                ROW, lambda row: line_with_other_text(row, '"seed": 0', '"seed": 9')
            ),
            ":2: wanted the line",
        ),
        (
            damage_to_line(
                ROW, lambda row: line_with_other_text(row, '"schema": 2', '"schema": 3')
            ),
            ":2: wanted schema 1 or 2",
        ),
        (
            damage_to_line(HEADING, lambda line: line.replace(b"seed 0", b"seed 7")),
            ":2: wanted the line",
        ),
        (
            damage_to_line(HEADING, lambda line: line.replace(b"{", b"{ ")),
            ":1 is damaged",
        ),
        (damage_to_line(HEADING, lambda line: b"\xff" + line), ":1 is damaged"),
        (lambda lines: lines[:ROW] + lines[ROW + 1 :], ":1: wanted a record of"),
        (lambda lines: lines[1:], ":1: wanted the line"),
        (lambda lines: [*lines, b"\n"], ":17: wanted"),
        (lambda lines: [*lines, lines[ROW]], ":17: wanted"),
        (lambda lines: [*lines, b"{}\n"], ":17 is damaged"),
        (lambda lines: lines[:END], ":15: wanted"),
        (lambda lines: [b"<<<<<<< HEAD\n", *lines], ":1: wanted the lines of a merged"),
        (
            lambda lines: [*lines[:3], b"=======\n", *lines[3:]],
            ":4: wanted the lines of a merged",
        ),
        (
            lambda lines: [seal_line(OTHER_SCORE), *lines],
            ":8: fake:8.mean+sn@target on sts-b.dev, seed 1 ",
        ),
    ],
)
def test_a_damaged_committed_file_is_refused_by_name_and_line(
    store, lines, damage, complaint
):
    path = store.committed_path(CELL.method)
    path.write_bytes(b"".join(damage(lines)))
    before = snapshot(store.folder)
    for use in (lambda: list(store.records()), lambda: store.promote(seeds(7))):
        with pytest.raises(DataError, match=re.escape(f"{path.name}{complaint}")):
            use()
    assert snapshot(store.folder) == before


def seal_line(made):
    return encode_committed(made.method, [made]).splitlines(keepends=True)[ROW]


def test_a_file_that_was_copied_over_another_is_refused(store, lines):
    """Over that of another method, or into the folder of another encoder."""
    content = store.committed_path(CELL.method).read_bytes()
    for name in ("fake:8.cls", "fake:9.mean+sn@target"):
        path = store.committed_path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        with pytest.raises(DataError, match=re.escape(path.name)):
            list(store.records())
        path.unlink()
    stray = (
        store.folder / "records" / "elsewhere" / store.committed_path(CELL.method).name
    )
    stray.parent.mkdir()
    stray.write_bytes(content)
    with pytest.raises(DataError, match=r"elsewhere/.*belongs to another file"):
        list(store.records())


# Merged by git: records of two branches, in the files of a repository


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with the committed records of three cells."""
    for name, value in {"NAME": "A", "EMAIL": "a@example.org"}.items():
        for role in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{role}_{name}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    Store(folder).promote(seeds(0, 3, 6))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "three cells")
    return folder


def git(folder, *words, status=0):
    done = subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr


def merged(folder, ours, theirs):
    """A store in which one branch promoted these records, another those, and one merged both."""
    for branch, made in (("theirs", theirs), ("ours", ours)):
        git(folder, "checkout", "-q", "-b", branch, "main")
        Store(folder).promote(made)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", branch)
    git(folder, "merge", "-q", "--no-edit", "theirs")
    return Store(folder)


def seeds_and_scores(store):
    return {made.seed: made.scores["spearman"]["all"] for made in store.records()}


CHANGED = scores(71.0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (seeds(1), seeds(2)),
        (seeds(1, 2, 7), seeds(4, 5, 8, 9)),
        (seeds(7, 8), seeds(9)),
        (seeds(1, 2, 4), seeds(1, 2, 5)),
        (seeds(1, 2), seeds(1, timings={"encode": 9.0})),
        (seeds(0, scores=CHANGED), seeds(1)),
        (seeds(3, scores=CHANGED), seeds(1, 2, 4)),
        (seeds(0, 6, scores=CHANGED), [*seeds(1, 5, 7), *seeds(3, scores=CHANGED)]),
        (seeds(0, scores=CHANGED), seeds(0, 1, scores=CHANGED)),
        (seeds(0, method="fake:8.cls"), seeds(1, method="fake:8.cls")),
        (seeds(0, method="other.cls"), seeds(0, method="another.cls")),
    ],
)
def test_a_merge_of_two_branches_has_the_records_of_both(repository, ours, theirs):
    store = merged(repository, ours, theirs)
    wanted = {cell_of(made): made.scores for made in [*seeds(0, 3, 6), *ours, *theirs]}
    assert {cell_of(made): made.scores for made in store.records()} == wanted
    made = record(seed=99)
    assert store.promote([made]) == 1
    committed = store.committed_path(CELL.method)
    records = [made for made in store.records() if made.method == CELL.method]
    assert committed.read_bytes() == encode_committed(CELL.method, records)


@settings(deadline=None, max_examples=5)
@given(st.data())
def test_any_merge_of_different_cells_has_the_records_of_both(tmp_path_factory, data):
    cells = st.sets(st.integers(0, 15), min_size=1, max_size=6)
    ours, theirs = data.draw(cells), data.draw(cells)
    with pytest.MonkeyPatch.context() as patch:
        folder = repository.__wrapped__(tmp_path_factory.mktemp("merge"), patch)
        store = merged(
            folder,
            seeds(*ours, scores=CHANGED),
            seeds(*(theirs - ours), scores=CHANGED) if theirs - ours else seeds(16),
        )
        found = seeds_and_scores(store)
    assert {seed for seed, score in found.items() if score == 71.0} == ours | theirs


def test_a_merge_of_two_scores_of_a_cell_names_both_lines(repository):
    store = merged(repository, seeds(3, scores=CHANGED), seeds(3, scores=scores(72.0)))
    path = store.committed_path(CELL.method)
    with pytest.raises(
        DataError, match=r":\d+: .* seed 3 has another record in line \d+"
    ) as caught:
        list(store.records())
    line = int(re.search(r":(\d+):", str(caught.value))[1])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[: line - 1], *lines[line:]]))
    assert seeds_and_scores(store)[3] in (71.0, 72.0)


def test_a_merge_without_the_rules_leaves_a_conflict_that_is_named(repository):
    (repository / "records" / GIT_ATTRIBUTES).write_text("")
    git(repository, "commit", "-qam", "no rules")
    with pytest.raises(AssertionError, match="CONFLICT"):
        merged(repository, seeds(1), seeds(2))
    with pytest.raises(
        DataError, match=r":\d+: wanted the lines of a merged file, found a conflict"
    ):
        list(Store(repository).records())


# Promoted by many, and to one place


def test_everybody_who_promotes_at_once_is_heard(tmp_path):
    every = [record(seed=seed) for seed in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda made: Store(tmp_path).promote([made]), every))
    path = Store(tmp_path).committed_path(CELL.method)
    assert path.read_bytes() == encode_committed(CELL.method, every)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_cell_has_one_place(store, lines):
    """A line that is measured again is that line; a file that is promoted becomes a line."""
    assert (
        store.write(replace(record(seed=1), scores=scores(71.0)), COSINES, IDENTITY)
        is True
    )
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
    with pytest.raises(
        DataError, match=r"seed-1\.json: .*seed 1 has another record here; delete"
    ):
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
