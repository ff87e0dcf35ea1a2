"""What commands say, as a person reads it: each journey's screens are an approved file."""

import math
import re
import shutil

import pytest
from fakes import BROKEN, NOT_HERE, snapshot
from processes import ROOT

from harness import resolve
from harness.cli import options
from harness.core import terminal
from harness.report.reproductions import HEAD, LOG
from harness.results.records import encode_run, read_record
from harness.results.store import Store


@pytest.fixture
def screens(toys, tmp_path, monkeypatch):
    """Runs commands, and gives their screens of 80 columns, each with its exit status."""
    monkeypatch.setattr(options, "terminal_width", lambda stream=None: 80)
    # A slow machine shows lines of progress.
    monkeypatch.setattr(terminal, "LINE_INTERVAL", math.inf)
    # Lines break in the same place, however long the name of the test's folder is.
    monkeypatch.setenv("HARNESS_DATA_DIR", "data")

    def text_of(*commands):
        screens = []
        for command in commands:
            answer = toys(command)
            said = f"{answer.out}{answer.err}".replace(str(tmp_path), "~")
            screens.append(f"$ harness {command}\n{said}[{answer.status}]\n")
        return "\n".join([*screens, ""])

    return text_of


def moved(folder, method):
    """Raise the score of a record by a point."""
    [path] = (folder / "records").rglob(f"{method}/*/seed-0.json")
    record = read_record(path)
    record.scores["spearman"]["all"] += 1
    path.write_bytes(encode_run(record))


def test_a_measurement(screens, approved):
    """Also of what fails: the exit status is the worst, and other cells are measured."""
    resolve.load_registry().tasks.update(away=NOT_HERE, broken=BROKEN)
    assert screens(
        "run -m fake.* -t toy --seeds 2 --dry-run",
        "run -m fake.* -t toy --seeds 2",
        "run -m fake.* -t toy --seeds 2 --dry-run",
        "run -m fake.cls -t toy away --dry-run",
        "run -m fake.cls -t toy away",
        "run -m fake.cls -t toy away broken --quiet",
        "run -m fake.cls -t toy --limit 12",
        "run -m fake.cls -t toy --shard 2/2",
        "table -m fake.* -t toy",
        "table --test fake.mean fake.cls -t toy",
        "table --test fake.mean fake.mean+centre@target -t toy",
    ) == approved("screens/measurement.txt")


def test_a_reproduction(screens, approved, tmp_path, monkeypatch):
    """It is promoted, measured again, moved, and limited; data are missing at last."""
    command = "reproduce -m fake.mean -t toy"
    text = screens(f"{command} --update", f"{command} --update --quiet")
    before = snapshot(tmp_path / "results")
    text += screens(f"{command} --update --quiet")
    assert snapshot(tmp_path / "results") == before
    committed = Store(tmp_path / "results")
    [record] = committed.records()
    record.scores["spearman"]["all"] += 0.01
    assert committed.promote([record]) == 1
    text += screens(command, f"{command} --limit 12")
    monkeypatch.delenv("HARNESS_DATA_DIR")
    text += screens(
        "reproduce -m fake.cls -t toy", "reproduce -m fake.cls -t toy --strict"
    )
    assert text == approved("screens/reproduction.txt")


def test_a_signed_reproduction_is_a_line_of_the_log(toys, tmp_path):
    log = tmp_path / "results" / "reproductions.md"
    command = "reproduce -q -m fake.mean -t toy"
    unpublished = toys(f"{command} --sign Nobody")
    assert "measured none" in unpublished.complaint
    assert not log.exists()
    toys(f"{command} --update")
    for name in ("Nobody", "No | body"):
        assert toys(f"{command} --sign '{name}'").status == 0
    *head, first, second = log.read_text().splitlines()
    assert head == HEAD.splitlines()
    name, date, commit, numbers, records = first.strip("| ").split(" | ")
    assert (name, numbers, records) == ("Nobody", "none", "1 cell, 0 moved")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert commit.startswith("`")
    assert second.startswith(r"| No \| body | ")
    assert "on one line" in toys(f"{command} --sign ' '").complaint


def test_the_committed_log_begins_with_its_head():
    assert (ROOT / "results" / LOG).read_text().startswith(HEAD)


def test_a_gate(screens, approved, tmp_path):
    (tmp_path / "results" / "gate.toml").write_text(
        'quick = [{ method = "fake.mean", task = "toy" },\n'
        '{ method = "fake.mean+stretch@target", task = "toy", seeds = 3 }]\n'
    )
    text = screens(
        "check",
        "run --gate --update",
        "run --gate -o second -q",
        "check --results second",
    )
    moved(tmp_path / "second", "fake.mean")
    text += screens("check --results second", "check --results third")
    assert text == approved("screens/gate.txt")


def test_a_report(screens, approved, tmp_path):
    """Pages are written once, found to be stale where one was edited, and written again."""
    text = screens("run -m fake.mean -t sts-b -o results", "report", "report --check")
    before = snapshot(tmp_path / "results")
    text += screens("report")
    page = tmp_path / "results" / "LEADERBOARD.md"
    page.write_text(f"{page.read_text()} ")
    text += screens("report --check", "report")
    assert page.read_bytes() == before["LEADERBOARD.md"][0]
    readme = tmp_path / "README.md"
    bare = "# Toys\n\n<!-- leaderboard -->\n<!-- /leaderboard -->\n"
    readme.write_text(bare)
    text += screens("run -m fake.mean -t toy -q", "report --results runs")
    assert readme.read_text() == bare
    text += screens("report --results runs --readme README.md")
    assert readme.read_text() != bare
    assert text == approved("screens/report.txt")


@pytest.mark.parametrize("command", ["run --gate", "reproduce"])
def test_nothing_is_promoted_to_results_that_come_with_the_harness(
    toys, tmp_path, command, one_packaged_table
):
    """Not even where the current folder has an empty `results`, and the harness is a checkout."""
    shutil.rmtree(tmp_path / "results")
    (tmp_path / "results").mkdir()
    before = snapshot(one_packaged_table)
    answer = toys(*command.split(), "--update", "-m", "fake.mean", "-t", "toy")
    assert answer.status == 2
    assert snapshot(one_packaged_table) == before
