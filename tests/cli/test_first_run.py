"""The first run: what it brings, when it gives up, and the table that it ends with."""

import re
import time
from pathlib import Path
from unittest.mock import Mock

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


@pytest.fixture
def told(monkeypatch, tmp_path, capsys):
    """Fetches the small data sets, of which some fail, and returns what the terminal shows."""
    monkeypatch.chdir(tmp_path)
    for switch in ("HF_HUB_OFFLINE", "HARNESS_OFFLINE", "HARNESS_DATA_DIR"):
        monkeypatch.delenv(switch, raising=False)

    def answer(what, **errors):
        asked = []

        def bring(fetcher, asset):
            asked.append(asset.name)
            if asset.name in errors:
                raise errors[asset.name]
            (fetcher.places.data_dir / asset.probe[0]).mkdir(parents=True)

        monkeypatch.setattr(first_run.Fetcher, "bring", bring)
        folders = fetch_small_data(Folders(cache=Path("cache")), REGISTRY)
        said = capsys.readouterr().err
        place = (
            f"asked for: {' '.join(asked) or 'none'}\ndata folder: {folders.data_dir}"
        )
        return f"# {what}\n\n{said}{place}\n\n"

    return answer


def test_what_is_said_of_small_data_sets_is_golden(told, monkeypatch, approved):
    """Each time in the folder as the time before left it."""
    missing = dict.fromkeys(FIRST_ASSETS, AssetMissing("no source"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    page = told("Without a network")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(requests, "head", Mock(side_effect=requests.ConnectionError))
    page += told("No host answers", **missing)
    assert not DATA_DIR.exists()
    monkeypatch.setattr(requests, "head", Mock())
    wrong = {"sts-raw": DataError("other rows " * 100)}
    page += told("The data of one are wrong, and the others arrive", **wrong)
    page += told("That one arrives")
    page += told("All are here")
    assert page == approved("screens/first_run.txt")


def test_a_host_that_answers_late_or_never_has_no_answer(monkeypatch):
    def ask(url, timeout):
        if "late" in url:
            time.sleep(0.5)
        if "never" in url:
            raise requests.ConnectionError(url)

    monkeypatch.setattr(requests, "head", ask)
    monkeypatch.setattr(first_run, "SECONDS_FOR_AN_ANSWER", 0.1)
    assert hosts_without_answer({"late", "never", "soon"}) == {"late", "never"}


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
