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
from harness.core.json_text import SEAL_KEY, SEAL_START, sealed
from harness.core.toml import read_rows
from harness.gate.failures import read_failures
from harness.gate.rules import read_rules
from harness.results.claims import read_claims
from harness.results.comparisons import read_comparisons
from harness.results.conformance import read_references
from harness.results.intervals import read_intervals
from harness.results.published_tables import load_table, load_tables
from harness.results.questions import Trap, read_searches
from harness.results.records import (
    encode_committed,
    encode_run,
    read_committed,
    read_record,
)

ATTACK = "types"
RESULTS = Path(__file__).parents[2] / "results"
GLOVE = "glove-mini/glove-mini.mean.jsonl"  # the committed records of a method
RECORD = next(iter(read_committed(RESULTS / "records" / GLOVE).values()))
DEEP = "[" * 100_000
DIGITS = "9" * 5_000

published = cache(lambda: load_tables(RESULTS / "papers"))


def trials(path):
    """The trials of a search, beside that search."""
    searches = path.parents[2] / "questions" / "searches"
    searches.mkdir(parents=True, exist_ok=True)
    shutil.copy(
        RESULTS / "questions" / "searches" / path.with_suffix(".toml").name, searches
    )
    return read_searches(searches)


# Of each kind: where a file of it lies in a folder of results, and its parser.
FILES = {
    "gate": ("gate.toml", lambda path: read_rules(path.parent)),
    "table": ("papers/sif.t1.toml", load_table),
    "claims": ("questions/claims.toml", lambda path: read_claims(path, published())),
    "traps": ("questions/traps.toml", lambda path: read_rows(Trap, path, "trap")),
    "reference": (
        "references/mteb.json",
        lambda path: read_references(path.parents[1]),
    ),
    "record": ("seed-0.json", read_record),
    "records": (GLOVE, read_committed),
    "notes": ("not-run.json", lambda path: read_failures(path.parent)),
    "comparisons": (
        "records/comparisons/bert-mini.senteval-spearman-all.json",
        lambda path: read_comparisons(path.parents[2]),
    ),
    "intervals": ("records/claims.json", lambda path: read_intervals(path.parents[1])),
    "search": (
        "questions/searches/2-dropout.toml",
        lambda path: read_searches(path.parent),
    ),
    "trials": ("records/searches/2-dropout.json", trials),
    "pins": ("pins.json", lambda path: Pins(path).read()),
}
# A good file of the kinds that are not committed as they are read here.
MADE = {
    "record": encode_run(RECORD),
    "records": encode_committed([RECORD]),
    "notes": b'{"a on b, seed 0": "why"}',
    "pins": b'{"schema": 1, "pins": {"a": {"sha256": "00"}}}',
}


def good_file(name, folder):
    """A good file of this kind in the folder, and its parser."""
    place, parser = FILES[name]
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(MADE[name] if name in MADE else (RESULTS / place).read_bytes())
    return path, parser


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1e999", "", "../x", "a" * 300, 10**400, -1, 0, 1 << 63]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


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
        return (
            "nan"
            if math.isnan(value)
            else repr(value)
            if math.isfinite(value)
            else "inf"
        )
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps("null" if value is None else value)


SEALED = {
    "comparisons",
    "intervals",
    "trials",
}  # whose seal is made to fit what they say


def written(path, tree):
    if path.suffix == ".toml":
        if not isinstance(tree, dict):
            return f"x = {toml(tree)}\n"
        return "".join(f"{json.dumps(k)} = {toml(v)}\n" for k, v in tree.items())
    return json.dumps(tree)


def read_or_refuse(attacked, parser, path):
    """Accepted, or one line; anything else is an error of the test."""
    complaint = None
    try:
        parser(path)
    except HarnessError as error:
        complaint = str(error)
    assert "\n" not in (complaint or "")
    attacked.count("right" if complaint is None else "refused")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        f"a = {DEEP}",
        f'{{"a": {DEEP}',
        f"a = {DIGITS}",
        f'{{"a": {DIGITS}}}',
        "\0",
        "\udcff",
    ],
    ids=[
        "deep",
        "deep table",
        "deep object",
        "digits",
        "digits in JSON",
        "NUL",
        "no UTF-8",
    ],
)
def test_what_no_parser_takes_is_refused(attacked, name, text, tmp_path):
    path, parser = good_file(name, tmp_path)
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError) as caught:
        parser(path)
    assert "\n" not in str(caught.value).strip()
    attacked.count("refused")


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_one_place_changed_is_accepted_or_refused(attacked, name, tmp_path):
    path, parser = good_file(name, tmp_path)
    parser(path)
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    place = 1 if path.suffix == ".jsonl" else 0  # of the first record, or of all
    tree = tomllib.loads(text) if path.suffix == ".toml" else json.loads(lines[place])
    if name in SEALED:
        del tree[SEAL_KEY]
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
    def outcome_of_change(number, how, junk):
        bad = written(path, changed(tree, every[number], how, junk))
        bad = sealed(path.name, bad) if name in SEALED else bad
        lines[place] = bad
        path.write_text("\n".join(lines), "utf-8", "replace")
        read_or_refuse(attacked, parser, path)

    outcome_of_change()


def test_a_file_of_random_bytes_is_accepted_or_refused(attacked, tmp_path):
    dice = random.Random(0)
    for name in FILES:
        path, parser = good_file(name, tmp_path / name)
        good = path.read_bytes()
        for _ in range(attacked.times(10, 1000)):
            text = bytearray(good)
            for _ in range(dice.randint(1, 5)):
                text[dice.randrange(len(text))] = dice.randrange(256)
            if name in SEALED:
                body = bytes(text).decode(errors="replace").rpartition(SEAL_START)[0]
                text = sealed(path.name, f"{body}}}").encode()
            path.write_bytes(text)
            read_or_refuse(attacked, parser, path)
        shutil.rmtree(tmp_path / name)
