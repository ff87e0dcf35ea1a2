"""The command line as a person or a program meets it: answers, one-line errors, exit statuses."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from fakes import BROKEN, NOT_HERE, TOY, snapshot
from processes import run

from baselines.whitening import Whitening
from harness import resolve
from harness.cli import listing
from harness.core.pairs import rows_digest
from harness.data.tasks.mini import SPLITS
from harness.registry import load_registry
from harness.results.records import encode_run, read_record
from harness.results.store import Store

ROOT = Path(__file__).resolve().parents[2]
ALONE = [kind for kind in listing.LISTED_KINDS if kind not in ("plugins", "digests")]
KINDS = (*ALONE, "digests mini-sts")
PUBLISHED = "simcse.issue-285.toml"


@pytest.fixture
def vectors(tmp_path):
    """A file of static vectors that covers a few words of the fakes' and of real sentences."""
    words = np.array(
        ["a", "the", "is", "man", "sentence", "number", "1", "2", "3", "4", "5", "6"]
    )
    values = np.random.default_rng(0).normal(size=(len(words), 6)).astype(np.float32)
    path = tmp_path / "tiny.npz"
    np.savez(path, words=words, vectors=values)
    return path


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
# folder that has published tables and no pages.
READING = {
    "--help": 0,
    **{f"list {kind}": 0 for kind in KINDS},
    "run --dry-run -m tiny.mean -t * --encoder tiny=tiny.npz": 0,
    "report --check": 1,  # the pages are missing
    "explain no/such/cell": 2,
    "train simcse-unsup --from bert-mini --corpus no --out out": 2,
    "train simcse-unsup --from bert-mimi --corpus mini-text --out out": 2,
    "train simcse-sup --from bert-mini --file no.csv --out out": 2,
    "train sbert-nli --from bert-mini --file no.csv --out out": 2,
}


def files_but_digests(folder):
    """Every file, but for those in which the cache notes what a plan found weights to be."""
    return {
        k: v for k, v in snapshot(folder).items() if not k.startswith("cache/digests/")
    }


def test_reading_imports_nothing_heavy_and_writes_nothing(tmp_path, vectors):
    shutil.copytree(ROOT / "results" / "papers", tmp_path / "results" / "papers")
    before = snapshot(tmp_path)
    code = f"""
import sys
from harness.cli import listing, main
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
    assert files_but_digests(tmp_path) == before


# Lists


def test_a_list_is_filtered_and_fits_80_columns(call):
    rows = json.loads(call("list encoders bert-base --json").out)
    assert rows
    assert all("bert-base" in row["encoder"] for row in rows)
    lines = call("list encoders bert-base").out.splitlines()
    assert len(lines) == len(rows) + 2
    assert max(map(len, lines)) <= 80
    assert call("list encoders glove-mini").out.startswith(
        "encoder: glove-mini\nsource: "
    )
    refused = call("list encoders nonsense")
    assert (refused.status, refused.out) == (2, "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_is_a_table_or_json(call, kind, tmp_path):
    (tmp_path / "results").symlink_to(ROOT / "results")
    rows = json.loads(call("list", *kind.split(), "--json").out)
    first = next(iter(rows[0].values()))
    answer = call("list", *kind.split())
    assert answer.status == 0
    assert answer.err == ""
    assert any(line.startswith(first) for line in answer.out.splitlines())


def test_the_digests_of_a_task_are_those_that_its_file_states(call):
    rows = json.loads(call("list digests mini-sts --json").out)
    assert {row["split"]: row["rows"] for row in rows} == SPLITS["mini-sts"]
    task = load_registry().tasks["mini-sts"]
    digests = {split: rows_digest(task.load(Path(), split)) for split in task.splits}
    assert {row["split"]: row["sha256"] for row in rows} == digests
    away = call("list digests STSBenchmark")
    assert away.status == 3
    assert "harness fetch" in away.complaint


# A run


def test_a_run_measures_says_and_keeps(toys, tmp_path):
    answer = toys("run", "-m", "fake.*", "-t", "toy", "--seeds", 2)
    assert answer.status == 0
    measured, table = answer.out.split("\n\n")
    lines = measured.splitlines()
    assert len(lines) == 5  # mean, cls, centre, and stretch with two seeds
    assert lines[0].startswith("fake.cls on toy, seed 0: Spearman ")
    _, _, *rows, folder = table.splitlines()
    assert len(rows) == 4 * 2  # the name of a method, and its score
    assert folder == "records: runs"
    assert len(list(Store(tmp_path / "runs").records())) == 5


def test_json_is_an_object_a_cell_and_nothing_else(toys, tmp_path):
    answer = toys(
        "run", "-m", "fake.*", "-t", "toy", "-t", "sts-b", "--seeds", 2, "--json"
    )
    cells = [json.loads(line) for line in answer.out.splitlines()]
    assert len(cells) == 10
    assert {tuple(cell) for cell in cells} == {
        ("method", "task", "seed", "scores", "pairs", "timings")
    }
    records = {
        (r.method, r.task, r.seed): r for r in Store(tmp_path / "runs").records()
    }
    assert {
        (c["method"], c["task"], c["seed"]): c["scores"]["spearman"]["all"]
        for c in cells
    } == {
        address: record.scores["spearman"]["all"] for address, record in records.items()
    }


@pytest.mark.parametrize(
    ("tasks", "status"),
    [(("toy",), 0), (("toy", "away"), 3), (("toy", "away", "broken"), 1)],
)
def test_the_exit_status_is_the_worst_that_happened(toys, tasks, status):
    found = resolve.load_registry()
    found.tasks.update(away=NOT_HERE, broken=BROKEN)
    answer = toys(
        "run -m fake.mean", *(part for task in tasks for part in ("-t", task))
    )
    assert answer.status == status
    assert answer.out.startswith("fake.mean on toy, seed 0: ")
    assert answer.err.count("harness: ") == len(tasks) - 1


# Mistakes


@pytest.mark.parametrize(
    ("method", "status", "complaint"),
    [("x.cls", 2, "cls: "), ("x.mean+whitening:9@target", 1, "(1 cell)")],
)
def test_what_an_encoder_cannot_give_is_told(toys, vectors, method, status, complaint):
    resolve.load_registry().posts.update(whitening=Whitening)
    answer = toys("run", "-m", method, "-t", "toy", "--encoder", f"x={vectors}")
    assert answer.status == status
    assert answer.out == ""
    assert complaint in answer.complaint


def test_data_that_are_not_there_are_named_with_what_gets_them(toys, monkeypatch):
    monkeypatch.delenv("HARNESS_DATA_DIR")
    answer = toys("run -m fake.mean -t toy -t sts-b")
    assert answer.status == 3
    assert answer.out == ""
    assert (
        "set HARNESS_DATA_DIR, or get it: harness fetch qnli (2 cells)"
        in answer.complaint
    )


# Plans


def test_a_plan_says_what_a_run_would_do_and_writes_nothing(toys, tmp_path):
    chosen = ("-m", "fake.*", "-t", "toy", "--seeds", 2, "-o", "mine")
    before = snapshot(tmp_path)
    plan = json.loads(toys("run", "--dry-run", *chosen, "--json").out)
    assert (plan["cells"], plan["runnable"], plan["missing"]) == (5, 5, {})
    splits = [TOY.load(tmp_path, split) for split in TOY.splits]
    texts = {text for pairs in splits for text in pairs.sentences}
    assert (plan["sentences"], plan["measured"]) == (len(texts), 0)
    assert files_but_digests(tmp_path) == before
    toys("run", *chosen)
    plan = json.loads(toys("run", "--dry-run", *chosen, "--json").out)
    assert (plan["sentences"], plan["seconds"], plan["measured"]) == (0, 0, 5)


# Reports


@pytest.fixture
def reported(toys):
    """Records, and everything that is generated from them."""
    assert toys("run", "-m", "fake.*", "-t", "sts-b", "-o", "results").status == 0
    assert toys("report").status == 0
    return toys


def test_a_fresh_report_is_up_to_date_and_writing_it_again_changes_nothing(
    reported, tmp_path
):
    def content():
        found = snapshot(tmp_path)
        return {
            name: file for name, file in found.items() if not name.startswith("cache/")
        }

    before = content()
    for _ in "ab":  # made and compared, then known to be up to date
        answer = reported("report --check")
        assert answer.status == 0
        assert "would change" not in answer.out
    assert reported("report").status == 0
    assert content() == before


@pytest.mark.parametrize("name", ["LEADERBOARD.md", "tables/fake.md"])
def test_an_edited_page_is_stale(reported, tmp_path, name):
    path = tmp_path / "results" / name
    whole = path.read_text()
    path.write_text(whole + " ")
    answer = reported("report --check")
    assert answer.status == 1
    assert answer.out == f"would change: results/{name}\n"
    assert answer.complaint.endswith("harness report")
    assert (path.read_text(), reported("report").status) == (whole + " ", 0)
    assert path.read_text() == whole


BREAKS = """
import sys
from harness.cli import listing, main

def broken(*_):
    raise IndexError("first\\nsecond")

listing.listed_rows = broken
main(sys.argv[1:])
"""


@pytest.mark.parametrize("where", [("--debug", "list"), ("list",)])
def test_an_unexpected_error_is_one_line_and_its_traceback_on_demand(tmp_path, where):
    answer = run(*where, cwd=tmp_path, code=BREAKS)
    line = "harness: unexpected IndexError: first (--debug shows where)"
    assert answer.status == 1
    assert answer.err.splitlines()[0] == line
    assert ("in broken" in answer.err) == ("--debug" in where)


def test_a_report_of_a_run_leaves_the_readme_and_the_results_alone(reported, tmp_path):
    reported("run -m fake.mean -t toy")
    (tmp_path / "README.md").write_text(
        "# Toys\n\n<!-- leaderboard -->\n<!-- /leaderboard -->\n"
    )
    mine = (tmp_path / "README.md", tmp_path / "results" / "LEADERBOARD.md")
    before = [path.read_bytes() for path in mine]
    assert reported("report --results runs").status == 0
    assert [path.read_bytes() for path in mine] == before
    assert reported("report --results runs --check").status == 0
    assert reported("report --results runs --readme README.md").status == 0
    assert mine[0].read_bytes() != before[0]


def raise_score(record):
    record.scores["spearman"]["all"] += 1


def edit_record(folder, method, edit):
    [path] = (folder / "records").rglob(f"{method}/*/seed-0.json")
    record = read_record(path)
    edit(record)
    path.write_bytes(encode_run(record))


# Reproductions


def test_a_reproduction_says_what_agrees_with_the_committed_records_and_what_moved(
    toys, tmp_path
):
    arguments = ("reproduce", "-m", "fake.mean", "-t", "toy")
    assert "promoted: 1 records" in toys(*arguments, "--update").out
    shutil.rmtree(tmp_path / "runs")
    answer = toys(*arguments)
    assert answer.status == 0
    assert "1 of 1 agree with results/records" in answer.out
    before = snapshot(tmp_path / "results")
    assert "promoted: 0 records, 0 generated files" in toys(*arguments, "--update").out
    assert snapshot(tmp_path / "results") == before
    committed = Store(tmp_path / "results")
    [record] = committed.records()
    record.scores["spearman"]["all"] += 0.01
    assert committed.promote([record]) == 1
    answer = toys(*arguments)
    assert answer.status == 1
    assert (
        "moved: fake.mean on toy, seed 0: 0.0100 points, tolerance 0.001" in answer.out
    )
    answer = toys(*arguments, "-m", "gone.mean", "--encoder", "gone=me/gone")
    assert answer.status == 1
    assert "1 asset missing" in answer.out


@pytest.mark.parametrize(("strict", "status"), [((), 0), (("--strict",), 3)])
def test_a_missing_asset_fails_a_reproduction_only_if_strict(
    toys, monkeypatch, strict, status
):
    assert toys("reproduce -m fake.mean -t toy", *strict).status == 0
    monkeypatch.delenv("HARNESS_DATA_DIR")
    answer = toys("reproduce -m fake.mean -t toy", *strict)
    assert answer.status == status
    assert "cells: 1 asset missing" in answer.out


@pytest.mark.parametrize("command", ["reproduce --limit 12 --jobs 1", "reproduce"])
def test_a_limited_reproduction_is_kept_apart_and_says_what_it_lacks(
    toys, tmp_path, command
):
    answer = toys(f"{command} -m fake.mean -t toy")
    assert answer.status == 0
    assert "cells: 1 measured" in answer.out
    assert "The measured cell has no published number." in answer.out
    is_limited = "--limit" in command
    assert (tmp_path / "runs" / "LEADERBOARD.md").exists() == (not is_limited)
    limited = tmp_path / "runs/limit-12/records/fake/fake.mean/toy.limit-12"
    assert limited.is_dir() == is_limited


def test_a_second_reproduction_of_what_is_carried_changes_no_file_and_says_so(
    call, tmp_path, monkeypatch, few_packaged_results
):
    shutil.copytree(few_packaged_results / "papers", tmp_path / "results" / "papers")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    command = (
        "reproduce -m glove-mini.mean glove-mini.mean+sn@target -t mini-qnli sts-b"
    )
    first = call(command)
    assert first.status == 0
    assert "cells: 2 asset missing, 2 measured" in first.out
    assert "  2 asset missing: harness fetch sts-raw" in first.out
    before = snapshot(tmp_path)
    second = call(command)
    assert second.status == 0
    assert "cells: 2 done, 2 asset missing" in second.out
    tables = "tables: runs/LEADERBOARD.md, runs/tables, runs/site"
    assert second.out.endswith(f"{tables}\n")
    assert snapshot(tmp_path) == before


# The gate


QUICK = """
quick = [
  { method = "fake.mean", task = "toy" },
  { method = "fake.mean+stretch@target", task = "toy", seeds = 3 },
]
"""


def test_quick_run_promotion_and_check_by_command(toys, tmp_path):
    (tmp_path / "results" / "gate.toml").write_text(QUICK)
    answer = toys("check")
    assert (answer.status, "harness run --gate" in answer.out) == (3, True), (
        "no baseline yet"
    )
    answer = toys("run --gate --update")
    assert answer.status == 0
    assert "promoted: 5 records" in answer.out
    assert toys("run --gate -o second").status == 0
    answer = toys("check --results second --json")
    report = json.loads(answer.out)
    assert answer.status == 0
    assert report["status"] == 0
    assert len(report["cells"]) == 4
    edit_record(tmp_path / "second", "fake.mean", raise_score)
    answer = toys("check --results second --json")
    [moved] = [
        cell for cell in json.loads(answer.out)["cells"] if cell["state"] != "agrees"
    ]
    assert answer.status == 1
    assert (moved["state"], moved["distance"]) == ("scorer moved", pytest.approx(1))
    assert toys("check --results third").status == 3


@pytest.mark.parametrize("command", ["run --gate", "reproduce"])
def test_nothing_is_promoted_to_results_that_come_with_the_harness(
    toys, tmp_path, command
):
    """Not even where the current folder has an empty `results`, and the harness is a checkout."""
    shutil.rmtree(tmp_path / "results")
    (tmp_path / "results").mkdir()
    before = snapshot(ROOT / "results" / "records" / "golden")
    answer = toys(*command.split(), "--update", "-m", "fake.mean", "-t", "toy")
    assert answer.status == 2
    assert snapshot(ROOT / "results" / "records" / "golden") == before
