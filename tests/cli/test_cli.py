"""The command line as a program meets it: what it imports, reads, writes, and its JSON."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from fakes import snapshot
from processes import ROOT, run

from harness.cli import listing, options
from harness.core.pairs import rows_digest
from harness.data.tasks.mini import SPLITS
from harness.registry import load_registry
from harness.results.store import Store

KINDS = [kind for kind in listing.LISTED_KINDS if kind not in ("plugins", "digests")]


HEAVY = {
    "torch",
    "transformers",
    "scipy",
    "sklearn",
    "datasets",
    "mteb",
    "sentence_transformers",
}
# Commands that answer from what they read, with the status that each ends with in a
# folder that has published tables, and no pages.
READING = {
    "--help": 0,  # imports the modules of all commands
    **{f"list {kind}": 0 for kind in (*KINDS, "digests mini-sts")},
    "run --dry-run -m tiny.mean -t * --encoder tiny=tiny.npz": 0,
    "report --check": 1,  # the pages are missing
    "table -m minilm.mean": 0,
    "check": 2,  # nothing was measured
    "cite simcse.t5": 0,
    "explain no/such/cell": 2,
    "train simcse-unsup --from bert-mini --corpus no --out out": 2,
    "train simcse-unsup --from bert-mimi --corpus mini-text --out out": 2,
    "train simcse-sup --from bert-mini --file no.csv --out out": 2,
    "train sbert-nli --from bert-mini --file no.csv --out out": 2,
}


def test_reading_imports_nothing_heavy_and_writes_nothing(tmp_path):
    words = {"words": np.array(["a", "the"]), "vectors": np.eye(2, dtype=np.float32)}
    np.savez(tmp_path / "tiny.npz", **words)
    shutil.copytree(ROOT / "results" / "papers", tmp_path / "results" / "papers")
    before = snapshot(tmp_path)
    code = f"""
import sys
from harness.cli import main
for arguments in {[*READING]}:
    try:
        main(arguments.split())
    except SystemExit as end:
        loaded = sorted({HEAVY} & set(sys.modules))
        print(arguments, end.code or 0, *loaded, sep="|", file=sys.stderr)
"""
    answer = run(cwd=tmp_path, code=code)
    ended = [line for line in answer.err.splitlines() if "|" in line]
    assert ended == [f"{command}|{status}" for command, status in READING.items()]
    # But for what the cache notes of the weights that a plan found.
    after = snapshot(tmp_path).items()
    assert {k: v for k, v in after if not k.startswith("cache/digests/")} == before


# Lists


@pytest.mark.parametrize("kind", [*KINDS, "digests mini-sts", "encoders bert-base"])
def test_a_list_is_a_table_of_80_columns_or_json(call, kind, tmp_path, monkeypatch):
    """And in a pipe whole, a line a row."""
    (tmp_path / "results").symlink_to(ROOT / "results")
    rows = json.loads(call("list", *kind.split(), "--json").out)
    names = [str(next(iter(row.values()))) for row in rows]
    piped = call("list", *kind.split()).out.splitlines()
    for row, line in zip(rows, piped[1:], strict=True):
        shown = [str(value) for value in row.values() if isinstance(value, str)]
        assert {" ".join(value.split()) for value in shown} - {""} <= {
            *line.split("\t")
        }
    monkeypatch.setattr(options, "terminal_width", lambda stream=None: 80)
    answer = call("list", *kind.split())
    assert (answer.status, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert len(lines) == len(rows) + 2
    assert max(map(len, lines)) <= 80
    for name, line in zip(names, lines[2:], strict=True):
        assert line.startswith(name[:70])
        assert "bert-base" in name or kind != "encoders bert-base"


def test_the_digests_of_a_task_are_those_that_its_file_states(call):
    rows = json.loads(call("list digests mini-sts --json").out)
    assert {row["split"]: row["rows"] for row in rows} == SPLITS["mini-sts"]
    task = load_registry().tasks["mini-sts"]
    digests = {split: rows_digest(task.load(Path(), split)) for split in task.splits}
    assert {row["split"]: row["sha256"] for row in rows} == digests
    away = call("list digests STSBenchmark")
    assert away.status == 3
    assert "harness fetch" in away.complaint


# Runs


def test_json_is_an_object_a_cell_and_nothing_else(toys, tmp_path):
    answer = toys("run -m fake.* -t toy sts-b --seeds 2 --json")
    cells = [json.loads(line) for line in answer.out.splitlines()]
    records = list(Store(tmp_path / "runs").records())
    assert len(cells) == len(records) == 10
    for record in records:
        names = ("method", "task", "seed", "scores", "pairs", "timings")
        assert {name: getattr(record, name) for name in names} in cells


BREAKS = """
from harness.cli import listing, main

def broken(*_):
    raise IndexError("first\\nsecond")

listing.listed_rows = broken
main()
"""


@pytest.mark.parametrize("where", [("--debug", "list"), ("list",)])
def test_an_unexpected_error_is_one_line_and_its_traceback_on_demand(tmp_path, where):
    answer = run(*where, cwd=tmp_path, code=BREAKS)
    line = "harness: unexpected IndexError: first (--debug shows where)"
    assert answer.status == 1
    assert answer.err.splitlines()[0] == line
    assert ("in broken" in answer.err) == ("--debug" in where)
