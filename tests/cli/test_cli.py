"""The command line as a person or a program meets it: answers, one-line errors, exit statuses."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from fakes import (
    BROKEN,
    NOT_HERE,
    TOY,
    snapshot,
)
from processes import run

from baselines.natsv import Natsv
from baselines.whitening import Whitening
from harness import resolve
from harness.assets.places import Places
from harness.cli import listing
from harness.core.files import rows_digest
from harness.evaluation.evaluate import measure
from harness.registry import load_registry
from harness.results.records import Store, read_record, seal
from harness.tasks.mini import SPLITS

ROOT = Path(__file__).resolve().parents[2]
KINDS = (*listing.KINDS[:-1], "digests mini-sts")
PUBLISHED = "simcse.issue-285.toml"


@pytest.fixture
def vectors(tmp_path):
    """A file of static vectors that covers a few words of the fakes' and of real sentences."""
    words = np.array(["a", "the", "is", "man", "sentence", "number", "1", "2", "3", "4", "5", "6"])
    values = np.random.default_rng(0).normal(size=(len(words), 6)).astype(np.float32)
    path = tmp_path / "tiny.npz"
    np.savez(path, words=words, vectors=values)
    return path


HEAVY = {"torch", "transformers", "scipy", "sklearn", "datasets", "mteb", "sentence_transformers"}
READING = (
    "--help",
    *(f"list {kind}" for kind in KINDS),
    "plan -m tiny.mean -t * --encoder tiny=tiny.npz",
    "report --check",
    "explain no/such/cell",
)


def test_reading_imports_nothing_heavy_and_writes_nothing(tmp_path, vectors):
    shutil.copytree(ROOT / "results" / "papers", tmp_path / "results" / "papers")
    before = snapshot(tmp_path)
    code = f"""
import sys
from harness.cli import listing, main
for arguments in {READING}:
    try:
        main(arguments.split())
    except SystemExit as end:
        loaded = sorted({HEAVY} & set(sys.modules))
        print(arguments, end.code or 0, *loaded, sep="|", file=sys.stderr)
"""
    answer = run(cwd=tmp_path, code=code)
    found = [line.split("|") for line in answer.err.splitlines() if "|" in line]
    # No pages there yet, and no such cell; and nothing loaded behind the status.
    status = dict.fromkeys(READING, "0") | {"report --check": "1", "explain no/such/cell": "2"}
    assert found == [[arguments, status[arguments]] for arguments in READING]
    assert snapshot(tmp_path) == before


# Lists


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_is_a_table_or_json(call, kind, tmp_path):
    (tmp_path / "results").symlink_to(ROOT / "results")
    rows = json.loads(call("list", *kind.split(), "--json").out)
    first = next(iter(rows[0].values()))
    answer = call("list", *kind.split())
    assert (answer.status, answer.err) == (0, "")
    assert any(line.startswith(first) for line in answer.out.splitlines())


def test_the_cells_of_a_table_can_be_explained(call, tmp_path):
    (tmp_path / "results").symlink_to(ROOT / "results")
    papers = {
        row["table"]: row["numbers"] for row in json.loads(call("list", "papers", "--json").out)
    }
    cells = json.loads(call("list", "cells", "simcse.t5", "--json").out)
    assert len(cells) == papers["simcse.t5"]
    assert sum(papers.values()) == len(json.loads(call("list", "cells", "--json").out))
    assert call("explain", cells[0]["cell"]).out.startswith(cells[0]["cell"])
    assert "did you mean simcse.t5" in call("list", "cells", "simcse.t55").complaint


def test_the_digests_of_a_task_are_those_that_its_file_states(call):
    rows = json.loads(call("list", "digests", "mini-sts", "--json").out)
    assert {row["split"]: row["rows"] for row in rows} == SPLITS["mini-sts"]
    task, places = load_registry().tasks["mini-sts"], Places(Path())
    read = {s: task.load(places.require_data(task.asset), s) for s in task.splits}
    assert {row["split"]: row["sha256"] for row in rows} == {
        split: rows_digest(pairs) for split, pairs in read.items()
    }
    away = call("list", "digests", "STSBenchmark")
    assert (away.status, "harness fetch" in away.complaint) == (3, True)


# A run


def test_a_run_measures_says_and_keeps(toys, tmp_path):
    answer = toys("run", "-m", "fake.*", "-t", "toy", "--seeds", 2)
    assert answer.status == 0
    measured, table = answer.out.split("\n\n")
    lines = measured.splitlines()
    assert len(lines) == 5  # mean, cls, centre, and stretch with two seeds
    assert lines[0].startswith("fake.cls on toy, seed 0: Spearman ")
    assert lines[0].endswith(" -> runs/records/fake/fake.cls/toy/seed-0.json")
    assert all(Path(tmp_path, line.partition(" -> ")[2]).is_file() for line in lines)
    assert len(table.splitlines()) == 2 + 4 + 1  # a head, a row a method, and where they lie
    assert len(list(Store(tmp_path / "runs").records())) == 5


def test_json_is_an_object_a_cell_and_nothing_else(toys, tmp_path):
    answer = toys("run", "-m", "fake.*", "-t", "toy", "-t", "sts-b", "--seeds", 2, "--json")
    cells = [json.loads(line) for line in answer.out.splitlines()]
    assert len(cells) == 10
    assert {tuple(cell) for cell in cells} == {
        ("method", "task", "seed", "scores", "pairs", "timings")
    }
    records = {(r.method, r.task, r.seed): r for r in Store(tmp_path / "runs").records()}
    assert {(c["method"], c["task"], c["seed"]): c["scores"]["spearman"]["all"] for c in cells} == {
        address: record.scores["spearman"]["all"] for address, record in records.items()
    }


@pytest.mark.parametrize(
    ("tasks", "status"),
    [(("toy",), 0), (("toy", "away"), 3), (("toy", "away", "broken"), 1)],
)
def test_the_exit_status_is_the_worst_that_happened(toys, tasks, status):
    found = resolve.load_registry()
    found.tasks.update(away=NOT_HERE, broken=BROKEN)
    answer = toys("run", "-m", "fake.mean", *(part for task in tasks for part in ("-t", task)))
    assert answer.status == status
    assert answer.out.startswith("fake.mean on toy, seed 0: ")
    assert answer.err.count("harness: ") == len(tasks) - 1


# Mistakes


def test_a_pooling_that_the_encoder_lacks_is_wrong_usage(toys, vectors):
    answer = toys("run", "-m", "x.cls", "-t", "toy", "--encoder", f"x={vectors}")
    assert (answer.status, answer.out) == (2, "")
    assert answer.complaint == (
        "harness: cls: this encoder has no summary token; use mean (1 cell)"
    )


@pytest.mark.parametrize("post", ["whitening:9", "natsv:9"])
def test_more_directions_than_there_are_is_a_failed_cell(toys, vectors, post):
    resolve.load_registry().posts.update(whitening=Whitening, natsv=Natsv)
    encoder = ("--encoder", f"x={vectors}")
    answer = toys("run", "-m", f"x.mean+{post}@target", "-t", "toy", *encoder)
    assert (answer.status, answer.out) == (1, "")
    assert "take a smaller k (1 cell)" in answer.complaint


def test_data_that_are_not_there_are_named_with_what_gets_them(toys, monkeypatch):
    monkeypatch.delenv("HARNESS_DATA_DIR")
    answer = toys("run", "-m", "fake.mean", "-t", "toy", "-t", "sts-b")
    assert (answer.status, answer.out) == (3, "")
    assert "set HARNESS_DATA_DIR, or get it: harness fetch qnli (2 cells)" in answer.complaint


@pytest.mark.parametrize("asset", ["qnli", "senteval", "bert-large", "glove-6b"])
def test_offline_a_download_is_refused_at_once(call, monkeypatch, asset):
    def never(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("socket.create_connection", never)
    answer = call("fetch", asset, "--data-dir", "data")
    assert (answer.status, answer.out) == (3, "")
    assert answer.complaint.endswith(": HF_HUB_OFFLINE is set, so nothing is downloaded")


def test_what_has_no_download_says_where_to_put_it(call):
    answer = call("fetch", "snli-18k", "--data-dir", "data")
    assert answer.status == 3
    assert answer.complaint.endswith("put snli_18k/train.csv into DATA_DIR/nli")


# Plans


def test_a_plan_says_what_a_run_would_do_and_writes_nothing(toys, tmp_path):
    before = snapshot(tmp_path)
    answer = toys("plan", "-m", "fake.*", "-t", "toy", "--seeds", 2, "--json")
    found = json.loads(answer.out)
    assert (found["cells"], found["runnable"], found["missing"]) == (5, 5, {})
    [encoder] = found["encoders"]
    splits = [TOY.load(tmp_path, split) for split in TOY.splits]
    assert encoder["sentences"] == len({text for pairs in splits for text in pairs.sentences})
    assert (encoder["cached"], snapshot(tmp_path)) == (0, before)
    toys("run", "-m", "fake.*", "-t", "toy", "--seeds", 2)
    [encoder] = json.loads(toys("plan", "-m", "fake.*", "-t", "toy", "--json").out)["encoders"]
    assert encoder["cached"] == encoder["sentences"]
    assert encoder["seconds"] == 0


def test_a_plan_for_people_names_what_is_missing(toys, monkeypatch):
    monkeypatch.delenv("HARNESS_DATA_DIR")
    answer = toys("plan", "-m", "fake.mean", "-t", "toy")
    assert answer.status == 0
    assert "0 of 1 cells can run here" in answer.out
    assert "get it: harness fetch qnli" in answer.out


def test_a_plan_names_the_places_of_what_is_here(toys):
    found = json.loads(toys("plan", "-m", "fake.mean", "-t", "toy", "--json").out)
    assert [entry["where"] for entry in found["encoders"]] == ["by hand, unpinned"]
    assert found["data"] == {"qnli": "data folder"}
    assert re.search(
        r"^qnli +data folder +1 MB$", toys("plan", "-m", "*", "-t", "toy").out, re.MULTILINE
    )


# Reports


@pytest.fixture
def reported(toys):
    """Records, and everything that is generated from them."""
    assert toys("run", "-m", "fake.*", "-t", "sts-b", "--results", "results").status == 0
    assert toys("report").status == 0
    return toys


def test_a_fresh_report_is_up_to_date_and_writing_it_again_changes_nothing(reported, tmp_path):
    def content():
        found = snapshot(tmp_path)
        return {name: file for name, file in found.items() if not name.startswith("cache/")}

    before = content()
    for _ in "ab":  # made and compared, then known to be up to date
        answer = reported("report", "--check")
        assert (answer.status, answer.out) == (0, "all generated files are up to date\n")
    assert reported("report").status == 0
    assert content() == before


@pytest.mark.parametrize(
    "name", ["LEADERBOARD.md", "tables/fake.md", f"tables/papers/{PUBLISHED[:-5]}.tex"]
)
def test_an_edited_page_is_stale(reported, tmp_path, name):
    path = tmp_path / "results" / name
    whole = path.read_text()
    path.write_text(whole + " ")
    answer = reported("report", "--check")
    assert (answer.status, answer.out) == (1, f"would change: results/{name}\n")
    assert answer.complaint.endswith("1 generated files are stale: run harness report")
    assert (path.read_text(), reported("report").status) == (whole + " ", 0)
    assert path.read_text() == whole


def test_an_edited_readme_is_stale_only_between_its_markers(reported, tmp_path):
    path = tmp_path / "README.md"
    path.write_text("Mine.\n" + path.read_text())
    assert reported("report", "--check").status == 0
    path.write_text(path.read_text().replace("<!-- /lead", "more\n<!-- /lead"))
    answer = reported("report", "--check")
    assert (answer.status, answer.out) == (1, "would change: README.md\n")


def raise_score(record):
    record.scores["spearman"]["all"] += 1


def change_machine(record):
    record.environment["processor"] = "another"


EDITS = [raise_score, change_machine]


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
    assert (answer.status, answer.err.splitlines()[0]) == (1, line)
    assert ("in broken" in answer.err) == ("--debug" in where)


def test_a_report_of_a_run_leaves_the_readme_and_the_results_alone(reported, tmp_path):
    reported("run", "-m", "fake.mean", "-t", "toy")
    (tmp_path / "README.md").write_text("# Toys\n\n<!-- leaderboard -->\n<!-- /leaderboard -->\n")
    mine = (tmp_path / "README.md", tmp_path / "results" / "LEADERBOARD.md")
    before = [path.read_bytes() for path in mine]
    assert reported("report", "--results", "runs").status == 0
    assert [path.read_bytes() for path in mine] == before
    assert reported("report", "--results", "runs", "--check").status == 0
    assert reported("report", "--results", "runs", "--readme", "README.md").status == 0
    assert mine[0].read_bytes() != before[0]


@pytest.mark.parametrize("folder", ["results", "other"])
def test_promotion_elsewhere_leaves_the_readme_alone(toys, tmp_path, folder):
    if folder != "results":
        shutil.copytree(tmp_path / "results", tmp_path / folder)
    before = (tmp_path / "README.md").read_bytes()
    run = ("reproduce", "-m", "fake.mean", "-t", "toy", "--update", "--baseline", folder)
    assert toys(*run).status == 0
    assert ((tmp_path / "README.md").read_bytes() == before) == (folder != "results")


@pytest.mark.parametrize("edit", EDITS)
def test_another_record_makes_its_pages_stale(reported, tmp_path, edit):
    path = next((tmp_path / "results" / "records").rglob("seed-0.json"))
    record = read_record(path)
    edit(record)
    path.write_bytes(seal(record))
    answer = reported("report", "--check")
    assert answer.status == 1
    assert "would change: results/tables/fake.md" in answer.out


def test_a_page_that_no_record_calls_for_is_stale_and_goes(reported, tmp_path):
    extra = tmp_path / "results" / "tables" / "gone.md"
    extra.write_text("once there was a method")
    assert reported("report", "--check").out == "would change: results/tables/gone.md\n"
    reported("report")
    assert not extra.exists()


# Reproductions


def test_a_second_reproduction_measures_nothing_and_changes_no_file(toys, tmp_path):
    arguments = ("reproduce", "-m", "fake.*", "-t", "*", "--seeds", 2)
    first = toys(*arguments)
    assert (first.status, "cells: 15 measured" in first.out) == (0, True)
    assert (tmp_path / "runs" / "LEADERBOARD.md").exists()
    before = snapshot(tmp_path)
    second = toys(*arguments)
    assert (second.status, "cells: 15 done" in second.out) == (0, True)
    assert snapshot(tmp_path) == before


def test_a_reproduction_that_agrees_with_the_committed_records_says_so(toys, tmp_path):
    arguments = ("reproduce", "-m", "fake.mean", "-t", "toy")
    assert "promoted: 1 records" in toys(*arguments, "--update").out
    shutil.rmtree(tmp_path / "runs")
    answer = toys(*arguments)
    assert (answer.status, "1 of 1 agree with results/records" in answer.out) == (0, True)
    before = snapshot(tmp_path / "results")
    assert "promoted: 0 records, 0 generated files" in toys(*arguments, "--update").out
    assert snapshot(tmp_path / "results") == before


def test_a_committed_record_that_moved_is_status_1_and_named(toys, tmp_path):
    arguments = ("reproduce", "-m", "fake.mean", "-t", "toy")
    toys(*arguments, "--update")
    committed = Store(tmp_path / "results")
    [record] = committed.records()
    record.scores["spearman"]["all"] += 0.01
    assert committed.promote([record]) == 1
    answer = toys(*arguments)
    assert answer.status == 1
    assert "moved: fake.mean on toy, seed 0: 0.0100 points, tolerance 0.001" in answer.out


@pytest.mark.parametrize(("strict", "status"), [((), 0), (("--strict",), 3)])
def test_a_missing_asset_fails_a_reproduction_only_if_strict(toys, monkeypatch, strict, status):
    assert toys("reproduce", "-m", "fake.mean", "-t", "toy", *strict).status == 0
    monkeypatch.delenv("HARNESS_DATA_DIR")
    answer = toys("reproduce", "-m", "fake.mean", "-t", "toy", *strict)
    assert (answer.status, "cells: 1 asset missing" in answer.out) == (status, True)


def test_an_interrupted_reproduction_says_so_and_goes_on_where_it_was(toys, monkeypatch):
    arguments, begun = ("reproduce", "-m", "fake.*", "-t", "toy", "--seeds", 2), []

    def interrupted(*given):
        begun.append(given)
        if len(begun) > 2:
            raise KeyboardInterrupt
        return measure(*given)

    with monkeypatch.context() as patch:
        patch.setattr("harness.evaluation.runner.measure", interrupted)
        answer = toys(*arguments)
    assert (answer.status, "Traceback" in answer.err) == (130, False)
    again = toys(*arguments)
    assert (again.status, "cells: 2 done, 3 measured" in again.out) == (0, True)


# The real tasks


@pytest.mark.data
def test_from_a_vector_file_to_a_score_on_the_real_tasks(data_dir, tmp_path, vectors):
    arguments = ("-m", "tiny.mean", "-m", "tiny.mean+sn@target", "-t", "sick-r", "-t", "sts12")
    given = (*arguments, "--encoder", f"tiny={vectors}", "--data-dir", data_dir)
    before = snapshot(tmp_path)
    plan = run("plan", *given, "--json", cwd=tmp_path)
    assert (json.loads(plan.out)["runnable"], snapshot(tmp_path)) == (4, before)
    measured = run("run", *given, "--json", cwd=tmp_path)
    cells = [json.loads(line) for line in measured.out.splitlines()]
    assert (measured.status, [cell["pairs"] for cell in cells]) == (0, [4927, 3108, 4927, 3108])
    assert all(-100 < cell["scores"]["spearman"]["all"] < 100 for cell in cells)
