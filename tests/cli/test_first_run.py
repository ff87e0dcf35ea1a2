"""The first run: what it brings, when it gives up, and the table that it ends with."""

import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from committed import TABLES
from fakes import FakeConfig, registry, results_folder

from harness.cli import first_run
from harness.cli.first_run import (
    DATA_DIR,
    fetch_small_data,
    hosts_without_answer,
    next_step,
)
from harness.cli.options import Folders
from harness.core.errors import AssetMissing, DataError
from harness.data.places import Places
from harness.evaluation.select import FIRST_ASSETS
from harness.registry import load_registry
from harness.results.index import Results

REGISTRY = registry(FakeConfig())
NOT_HERE = [
    name for name in FIRST_ASSETS if not Places(cache=Path("cache")).has_data(name)
]


@pytest.fixture
def downloads(monkeypatch, tmp_path):
    """The assets that were asked for; each arrives unless there is an error for it."""
    monkeypatch.chdir(tmp_path)
    for switch in ("HF_HUB_OFFLINE", "HARNESS_OFFLINE", "HARNESS_DATA_DIR"):
        monkeypatch.delenv(switch, raising=False)
    downloads = SimpleNamespace(asked=[], errors={})

    def bring(fetcher, asset):
        downloads.asked.append(asset.name)
        if asset.name in downloads.errors:
            raise downloads.errors[asset.name]
        (fetcher.places.data_dir / asset.probe[0]).mkdir(parents=True)
        return "here"

    monkeypatch.setattr(first_run.Fetcher, "bring", bring)
    monkeypatch.setattr(requests, "head", lambda url, timeout: None)
    return downloads


def test_a_run_without_a_data_folder_brings_the_small_data_sets_into_one(
    downloads, capsys
):
    folders = fetch_small_data(Folders(cache=Path("cache")), REGISTRY)
    assert downloads.asked == NOT_HERE
    assert folders.data_dir == DATA_DIR
    said = capsys.readouterr().err
    assert all(name in said for name in NOT_HERE)
    fetch_small_data(Folders(cache=Path("cache")), REGISTRY)
    assert downloads.asked == NOT_HERE, "what is there was asked for again"


def test_an_offline_run_asks_for_nothing(downloads, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folders = fetch_small_data(Folders(cache=Path("cache")), REGISTRY)
    assert (downloads.asked, folders.data_dir) == ([], None)
    assert "sts-raw" in capsys.readouterr().err
    assert not DATA_DIR.exists()


def test_what_no_host_gives_is_told_in_two_lines_within_seconds(
    downloads, capsys, monkeypatch
):
    """One host answers after the time that is given, and the others never."""
    asked = []

    def ask(url, timeout):
        asked.append(url)
        if "huggingface" in url:
            time.sleep(0.5)
            return
        raise requests.ConnectionError(url)

    monkeypatch.setattr(requests, "head", ask)
    monkeypatch.setattr(first_run, "SECONDS_FOR_AN_ANSWER", 0.1)
    silent = hosts_without_answer({"huggingface.co", "ixa2.si.ehu.eus"})
    assert silent == {"huggingface.co", "ixa2.si.ehu.eus"}
    downloads.errors = {name: AssetMissing("no source") for name in NOT_HERE}
    folders = fetch_small_data(Folders(cache=Path("cache")), REGISTRY)
    assert (downloads.asked, folders.data_dir) == (NOT_HERE, None)
    assert not DATA_DIR.exists()
    assert len(asked) == len(set(asked)) + 2
    _, *told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert all(len(line) <= 160 for line in told)
    assert told[0].startswith(f"{' '.join(NOT_HERE)} did not arrive; not reached: ")
    assert "huggingface.co" in told[0]
    assert f"harness fetch --dry-run {' '.join(NOT_HERE)} lists" in told[1]


def test_wrong_data_of_one_asset_do_not_keep_the_others_away(downloads):
    downloads.errors[NOT_HERE[0]] = DataError("other rows " * 100)
    folders = fetch_small_data(Folders(cache=Path("cache")), REGISTRY)
    assert downloads.asked == NOT_HERE
    assert folders.data_dir == DATA_DIR


def test_the_end_names_one_download_with_its_size(tmp_path):
    found = load_registry()
    measured = results_folder(tmp_path, found, Results({}), *TABLES)
    (tmp_path / "data").mkdir()
    places = Places(tmp_path / "cache", data_dir=tmp_path / "data")
    empty, next_line, then_line = next_step(measured, places, found)
    assert empty == ""
    assert re.fullmatch(
        r"next: harness fetch [\w-]+.* --data-dir \S+ \([\d.]+ [kM]B, for \d+ more published "
        r"numbers\)",
        next_line,
    )
    assert then_line.startswith("then: harness reproduce -m '")
