"""Records on disk: whole or absent, left alone while their scores hold, refused where damaged.

Of a run, a file each; committed, a line each of their method's file.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from fakes import made_record, results_of, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import git

from harness.core.errors import DataError
from harness.registry import matches
from harness.results.index import Results
from harness.results.records import (
    SAME_PLATFORM,
    SCHEMA,
    Cell,
    cell_of,
    encode,
    encode_committed,
    encode_run,
    largest_move_of_scores,
    read_record,
)
from harness.results.store import Store

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


def test_scores_that_are_computed_since_move_no_record_and_complete_it(store):
    later = record(scores={**SCORES, "kendall": {"all": 61.0, "mean": 61.0}})
    committed = Store(store.folder / "committed")
    assert largest_move_of_scores(record(), later) == 0
    assert [committed.promote([made]) for made in (record(), later, later)] == [1, 1, 0]
    assert committed.read(CELL) == later
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


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_never_written(store, bad):
    with pytest.raises(ValueError, match="not JSON compliant"):
        written(store, record(scores=scores(bad)))
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.promote([record(scores=scores(bad))])
    assert not list(store.folder.rglob("*.json*"))


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
    for content in (whole[:-1], flipped):
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
    path, other = written(store), replace(CELL, seed=4)
    store.write(record(seed=4), COSINES, IDENTITY)
    sidecar, of_other = (
        p.with_suffix(".safetensors") for p in (path, store.path(other))
    )
    sidecar.write_bytes(of_other.read_bytes())
    assert not store.is_done(CELL, IDENTITY)
    refusal = rf"wanted .* {re.escape(str(other))};"
    with pytest.raises(DataError, match=rf"seed-3\.safetensors: {refusal}"):
        store.cosines(CELL)
    path.write_bytes(store.path(other).read_bytes())
    for use in (
        lambda: store.read(CELL),
        lambda: list(store.records()),
        lambda: store.is_done(CELL, IDENTITY),
        lambda: written(store, record(scores=scores(1.0))),
    ):
        with pytest.raises(DataError, match=rf"seed-3\.json: {refusal}"):
            use()


def test_a_record_of_another_run_is_not_done(store):
    """Of the same cell, on other data, beside the similarities of these."""
    path = written(store)
    older = record(
        digests={"data": "older", "weights": "w", "encoding": "e", "code": "c"}
    )
    assert store.is_done(CELL, IDENTITY)
    path.write_bytes(encode_run(older))
    assert not store.is_done(CELL, IDENTITY)
    path.write_bytes(
        encode_run(record(digests={**older.digests, "data": "d", "code": "older"}))
    )
    assert store.is_done(CELL, IDENTITY)


# Damage

RUN_FILE = encode_run(record())


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (RUN_FILE[: len(RUN_FILE) // 2], " is no record "),
        # Its reason has neither the content nor another line.
        (
            RUN_FILE[:-3] + b"\xff\n}\n",
            " is no record .{,120}; delete it and run again$",
        ),
        (RUN_FILE.replace(b"pairs", b"other"), ".* missing required field `pairs`"),
        (RUN_FILE.replace(b"70.0", b"NaN"), ".*invalid character"),
        (encode_run(record(schema=SCHEMA + 1)), ".* written by a newer version"),
        (encode_run(record(schema=SCHEMA - 1)), ": schema 1 is not read any more"),
    ],
)
def test_what_is_no_record_is_refused_by_name(store, content, complaint):
    written(store).write_bytes(content)
    for read in (lambda: store.read(CELL), lambda: list(store.records())):
        with pytest.raises(DataError, match=rf"seed-3\.json{complaint}"):
            read()


# Committed

CELLS = st.builds(
    Cell,
    st.builds("{}.{}".format, st.sampled_from(["a", "b:8", "con", "é"]), TEXT),
    TEXT,
    st.integers(0, 12),
)
RECORDS = st.lists(
    st.builds(
        lambda cell, **fields: record(**vars(cell), **fields),
        CELLS,
        identity=TEXT,
        scores=st.dictionaries(TEXT, TREES, max_size=3),
        facts=st.dictionaries(TEXT, NUMBERS | TEXT, max_size=3),
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
        copy = other.folder / path.relative_to(store.folder)
        assert path.read_bytes() == copy.read_bytes()
    wanted = sorted(made, key=lambda record: cell_of(record).names)
    # To the byte, and so the digests.
    assert [*map(encode, store.records())] == [*map(encode, wanted)]
    assert all(store.read(cell_of(record)) == record for record in made)
    assert store.promote(shuffled) == 0


@settings(deadline=None, max_examples=30)
@given(RECORDS, st.randoms(use_true_random=False), st.integers(0, 8))
def test_the_records_of_some_methods_are_those_among_all(
    tmp_path_factory, made, random, cut
):
    store = Store(tmp_path_factory.mktemp("results"))
    store.commit(made[:cut])
    for of_run in made[cut:]:
        store.write(of_run, COSINES, IDENTITY)
    methods = [record.method for record in random.sample(made, len(made) // 2)]
    for patterns in (methods, [*methods, "fake*"], [*methods, *methods]):
        wanted = [
            line
            for line in store.lines()
            if not patterns or matches(line.record.method, patterns)
        ]
        assert [*store.lines(patterns)] == wanted


@pytest.fixture
def lines(store):
    assert store.promote(seeds(0, 1, 2)) == 3
    lines = store.committed_path(CELL.method).read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
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


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda line: line[: len(line) // 2], ":2 is no record"),
        (lambda line: line.replace(b"fake:8", b"fake:9"), ":2: fake:9"),
        (lambda line: line + line, ":3: fake:8.mean+sn@target on sts-b.dev, seed 1 is"),
        (lambda line: b"<<<<<<< HEAD\n" + line, ":2 is no record"),
    ],
)
def test_a_damaged_committed_file_is_refused_by_name_and_line(
    store, lines, damage, complaint
):
    path = store.committed_path(CELL.method)
    path.write_bytes(lines[0] + damage(lines[1]) + lines[2])
    before = snapshot(store.folder)
    for use in (lambda: list(store.records()), lambda: store.promote(seeds(7))):
        with pytest.raises(DataError, match=re.escape(f"{path.name}{complaint}")):
            use()
    assert snapshot(store.folder) == before


@pytest.mark.parametrize(
    "place", ["fake%3A8/fake%3A8.cls.jsonl", "elsewhere/fake%3A8.mean+sn@target.jsonl"]
)
def test_a_file_that_was_copied_is_refused(store, lines, place):
    """Over that of another method, or into the folder of another encoder."""
    copy = store.folder / "records" / place
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(b"".join(lines))
    with pytest.raises(DataError, match=rf"{re.escape(copy.name)}.*belongs to another"):
        list(store.records())


# Merged by git: records of two branches, in the files of a repository


@pytest.fixture
def repository(tmp_path):
    """A repository with the committed records of three cells."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    Store(folder).promote(seeds(0, 3, 6))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "three cells")
    return folder


def promoting(records):
    return lambda folder: Store(folder).promote(records)


def withdraw(folder):
    """Delete the middle one of three lines."""
    path = Store(folder).committed_path(CELL.method)
    first, _, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + last)


HIGHER = seeds(3, scores=scores(71.0))


@pytest.mark.parametrize(
    ("ours", "theirs", "kept"),
    [
        (promoting(HIGHER), promoting(seeds(8)), {0: 70.0, 3: 71.0, 6: 70.0, 8: 70.0}),
        (withdraw, promoting(seeds(9)), {0: 70.0, 6: 70.0, 9: 70.0}),
        (promoting(seeds(7)), promoting(seeds(8)), None),
    ],
)
def test_a_merge_keeps_what_both_branches_did_or_leaves_a_conflict_that_is_named(
    repository, ours, theirs, kept
):
    """Where lines touch, the file is refused until somebody has chosen."""
    for branch, change in (("theirs", theirs), ("ours", ours)):
        git(repository, "checkout", "-q", "-b", branch, "main")
        change(repository)
        git(repository, "commit", "-qam", branch)
    git(repository, "merge", "-q", "--no-edit", "theirs", status=int(kept is None))
    if kept is None:
        with pytest.raises(DataError, match=r":\d+ is no record .*lines of both sides"):
            list(Store(repository).records())
    else:
        merged = Store(repository).records()
        assert {r.seed: r.scores["spearman"]["all"] for r in merged} == kept


# Promoted by many, and to one place


def test_everybody_who_promotes_at_once_is_heard(tmp_path):
    every = [record(seed=seed) for seed in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda made: Store(tmp_path).promote([made]), every))
    path = Store(tmp_path).committed_path(CELL.method)
    assert path.read_bytes() == encode_committed(every)
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
    path.write_bytes(encode_run(record(seed=1)))
    with pytest.raises(
        DataError, match=r"seed-1\.json: .*seed 1 has another record here; delete"
    ):
        list(store.records())


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_the_digest_is_of_the_records_however_they_were_read(store, ends):
    records = seeds(0, 1, 10)
    for made in records:
        store.write(made, COSINES, IDENTITY)
        path = store.path(cell_of(made))
        path.write_bytes(path.read_bytes().replace(b"\n", ends))
    held, read = results_of(*records), Results.read(store)
    assert read.digest == held.digest == Results(read.by_cell).digest
    path.write_bytes(encode_run(replace(made, scores=scores(51.5))))
    assert Results.read(store).digest != held.digest


# Names


@given(ODD, ODD, ODD)
def test_a_record_stays_in_its_folder_and_no_two_cells_share_a_file(
    encoder, rest, task
):
    cell = Cell(f"{encoder.replace('.', '') or 'e'}.{rest}", task)
    folder, *names, _ = Store(Path("results")).path(cell).parts[1:]
    assert folder == "records"
    assert [unquote(name) for name in names] == [cell.encoder, cell.method, cell.task]
    for name in names:
        assert name not in ("", ".", "..")
        assert name.isascii()
        assert not set(name) & set('/\\:*?"<>| \0\n')
