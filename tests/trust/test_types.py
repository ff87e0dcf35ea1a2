"""Every file that people write or a disk may damage: accepted, or refused in one line."""

import json
import math
import random
import shutil
import tomllib
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.assets.places import Pins
from harness.core.errors import DataError, HarnessError
from harness.core.toml import read_rows, read_typed
from harness.gate.check import read_failures
from harness.gate.drift import read_rules
from harness.results.claims import read_claims, read_intervals
from harness.results.comparisons import read_comparisons
from harness.results.conformance import read_references
from harness.results.published import load_table, load_tables
from harness.results.questions import Maps, Trap, read_searches
from harness.results.records import encode_committed, read_committed, read_record, seal

ATTACK = "types"
RESULTS = Path(__file__).parents[2] / "results"
RECORD = next(iter(read_committed(RESULTS / "records" / "glove-mini.jsonl").values()))
DEEP = "[" * 100_000
DIGITS = "9" * 5_000

published = cache(lambda: load_tables(RESULTS / "papers"))


def searches_beside(folder):
    """The search to which trials belong, with them."""
    beside = folder / "questions" / "searches" / "2-dropout.toml"
    beside.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(RESULTS / "questions" / "searches" / beside.name, beside)
    return read_searches(beside.parent)


# Of each parser: where its file lies in a folder, a good file, and the parser of the folder.
FILES = {
    "gate": ("gate.toml", RESULTS / "gate.toml", read_rules),
    "table": ("t.toml", RESULTS / "papers" / "sif.t1.toml", lambda f: load_table(f / "t.toml")),
    "claims": (
        "c.toml",
        RESULTS / "questions" / "claims.toml",
        lambda f: read_claims(f / "c.toml", published()),
    ),
    "flows": (
        "f.toml",
        RESULTS / "questions" / "flows.toml",
        lambda f: read_typed(Maps, f / "f.toml"),
    ),
    "traps": (
        "t.toml",
        RESULTS / "questions" / "traps.toml",
        lambda f: read_rows(Trap, f / "t.toml", "trap"),
    ),
    "reference": (
        "references/r.json",
        next((RESULTS / "references").glob("*.json")),
        read_references,
    ),
    "record": ("seed-0.json", seal(RECORD), lambda f: read_record(f / "seed-0.json")),
    "records": (
        "glove-mini.jsonl",
        encode_committed([RECORD]),
        lambda f: read_committed(f / "glove-mini.jsonl"),
    ),
    "notes": ("not-run.json", b'{"a on b, seed 0": "why"}', read_failures),
    "comparisons": (
        "records/comparisons/c.json",
        next((RESULTS / "records" / "comparisons").glob("*.json")),
        read_comparisons,
    ),
    "intervals": (
        "records/claims.json",
        RESULTS / "records" / "claims.json",
        read_intervals,
    ),
    "search": (
        "questions/searches/s.toml",
        RESULTS / "questions" / "searches" / "2-dropout.toml",
        lambda f: read_searches(f / "questions" / "searches"),
    ),
    "trials": (
        "records/searches/2-dropout.json",
        RESULTS / "records" / "searches" / "2-dropout.json",
        searches_beside,
    ),
    "pins": (
        "pins.json",
        b'{"schema": 1, "pins": {"a": {"sha256": "00"}}}',
        lambda f: Pins(f / "pins.json").read(),
    ),
}

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1e999", "", "../x", "a" * 300, 10**400, -1, 0, 1 << 63]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def content(given):
    return given if isinstance(given, bytes) else given.read_bytes()


def places(tree, way=()):
    """Every place in a tree of tables and lists."""
    yield way
    lists = enumerate(tree) if isinstance(tree, list) else ()
    for key, value in tree.items() if isinstance(tree, dict) else lists:
        yield from places(value, (*way, key))


def changed(tree, way, how, junk):
    """The tree with one place replaced, removed or called otherwise."""
    if not way:
        return junk
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    if len(way) > 1:
        copy[way[0]] = changed(copy[way[0]], way[1:], how, junk)
    elif how == "remove":
        del copy[way[0]]
    elif how == "rename" and isinstance(copy, dict):
        copy[f"w{way[0]}"] = copy.pop(way[0])
    else:
        copy[way[0]] = junk
    return copy


def toml(value):
    """A value as TOML writes it in a line; TOML has no null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value) if math.isfinite(value) else "inf"
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps("null" if value is None else value)


def written(name, tree):
    if name.endswith(".toml"):
        if not isinstance(tree, dict):
            return f"x = {toml(tree)}\n"
        return "".join(f"{json.dumps(k)} = {toml(v)}\n" for k, v in tree.items())
    return json.dumps(tree)


def look(attacked, parser, folder):
    """Accepted, or one line; anything else is an error of the test."""
    complaint = None
    try:
        parser(folder)
    except HarnessError as error:
        complaint = str(error)
    assert "\n" not in (complaint or "")
    attacked.count("right" if complaint is None else "refused")


@pytest.mark.parametrize("name", FILES)
def test_a_good_file_is_accepted(name, tmp_path):
    place, good, parser = FILES[name]
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_bytes(content(good))
    parser(tmp_path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "text",
    [DEEP, f"a = {DEEP}", f'{{"a": {DEEP}', f"a = {DIGITS}", f'{{"a": {DIGITS}}}', "\0", "\udcff"],
    ids=["deep", "deep table", "deep object", "digits", "digits in JSON", "NUL", "no UTF-8"],
)
def test_what_no_parser_takes_is_refused(attacked, name, text, tmp_path):
    place, _, parser = FILES[name]
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError) as caught:
        parser(tmp_path)
    assert "\n" not in str(caught.value).strip()
    attacked.count("refused")


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_one_place_changed_is_accepted_or_refused(attacked, name, tmp_path):
    place, good, parser = FILES[name]
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    text = content(good).decode()
    first, *lines = text.splitlines() if place.endswith(".jsonl") else [text]
    tree = tomllib.loads(first) if place.endswith(".toml") else json.loads(first)
    every = list(places(tree))

    @settings(
        max_examples=attacked.times(40, 10_000),
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(
        number=st.integers(0, len(every) - 1),
        how=st.sampled_from(["replace", "replace", "remove", "rename"]),
        junk=JUNK,
    )
    def tried(number, how, junk):
        bad = written(place, changed(tree, every[number], how, junk))
        (tmp_path / place).write_text("\n".join([bad, *lines]), "utf-8", "replace")
        look(attacked, parser, tmp_path)

    tried()


def test_a_file_of_random_bytes_is_accepted_or_refused(attacked, tmp_path):
    dice = random.Random(0)
    for name, (place, good, parser) in FILES.items():
        folder = tmp_path / name
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        for _ in range(attacked.times(10, 1000)):
            text = bytearray(content(good))
            for _ in range(dice.randint(1, 5)):
                text[dice.randrange(len(text))] = dice.randrange(256)
            (folder / place).write_bytes(text)
            look(attacked, parser, folder)
        shutil.rmtree(folder)
