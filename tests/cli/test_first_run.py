"""The first run: what it brings, when it gives up, and the table that it ends with."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes import (
    FakeConfig,
    made_record,
    published_row,
    published_table,
    registry,
    results_folder,
)

from harness.assets.places import Places, asset_named
from harness.cli import first_run
from harness.cli.first_run import (
    DATA_DIR,
    fetch_small_data,
    lines_of_methods,
    next_step,
)
from harness.cli.options import Folders
from harness.core.errors import AssetMissing, DataError
from harness.evaluation.select import FIRST_ASSETS
from harness.registry import load_registry
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.published import Column

REGISTRY = registry(FakeConfig())
NOT_HERE = [
    name for name in FIRST_ASSETS if not Places(cache=Path("cache")).has_data(name)
]


@dataclass
class Downloads:
    """The assets that were asked for; each arrives unless there is an error for it."""

    asked: list[str] = field(default_factory=list)
    errors: dict[str, Exception] = field(default_factory=dict)


@pytest.fixture
def downloads(monkeypatch, tmp_path):
    """The assets that a command downloads in an empty folder; no network is used."""
    monkeypatch.chdir(tmp_path)
    for switch in ("HF_HUB_OFFLINE", "HARNESS_OFFLINE", "HARNESS_DATA_DIR"):
        monkeypatch.delenv(switch, raising=False)
    downloads = Downloads()

    def bring(fetcher, asset):
        downloads.asked.append(asset.name)
        if asset.name in downloads.errors:
            raise downloads.errors[asset.name]
        (fetcher.places.data_dir / asset.probe[0]).mkdir(parents=True)
        return "here"

    monkeypatch.setattr(first_run.Fetcher, "bring", bring)
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


def test_the_first_asset_without_a_reachable_source_ends_the_downloads(
    downloads, capsys
):
    downloads.errors[FIRST_ASSETS[0]] = AssetMissing("no source of it was reached")
    folders = fetch_small_data(Folders(cache=Path("cache")), REGISTRY)
    assert (downloads.asked, folders.data_dir) == ([FIRST_ASSETS[0]], None)
    assert not DATA_DIR.exists()
    said = " ".join(capsys.readouterr().err.split())
    assert (
        f"no source of it was reached; get it later: {asset_named(FIRST_ASSETS[0]).get}"
        in said
    )


def test_wrong_data_of_one_asset_do_not_keep_the_others_away(downloads):
    downloads.errors[FIRST_ASSETS[0]] = DataError("other rows")
    folders = fetch_small_data(Folders(cache=Path("cache")), REGISTRY)
    assert downloads.asked == NOT_HERE
    assert folders.data_dir == DATA_DIR


def test_the_end_shows_each_published_number_of_the_run_with_its_verdict(tmp_path):
    scores = {"spearman": {"all": 50.0, "groups": {"a": 50.0}}}
    identity = REGISTRY.methods["fake.mean"].identity
    record = made_record("fake.mean", "toy", scores, identity=identity)
    values = {"toy": "50.00", "other": "12.00"}
    rows = (
        published_row("mean", values, method="fake.mean"),
        published_row("cls", values, method="fake.cls"),
    )
    columns = (Column("toy", "Toy", task="toy"), Column("other", "Other", task="sts-b"))
    table = published_table(columns, rows)
    measured = results_folder(
        tmp_path, REGISTRY, Results({("fake.mean", "toy"): [record]}), table
    )
    lines = lines_of_methods(measured, [record])
    assert lines[-1] == "1 of 1 published numbers reproduced exactly"
    assert lines[1] == "fake.mean:"
    [row] = [line for line in lines[2].splitlines() if line.startswith("toy")]
    assert row.split() == ["toy", "spearman", "all", "50.00", "50.00", "exact", "toys"]
    _, without_data = lines_of_methods(measured, [])
    assert "harness fetch sts-raw sick-raw sts-senteval --data-dir data" in without_data


def test_the_end_names_one_download_with_its_size_and_time_on_this_machine(tmp_path):
    found, root = load_registry(), Path(__file__).resolve().parents[2]
    committed = ResultsFolder(root / "results", found)
    minilm = {
        cell: rows
        for cell, rows in committed.records.by_cell.items()
        if "minilm" in cell[0]
    }
    measured = results_folder(tmp_path, found, Results(minilm), *committed.tables)
    (tmp_path / "data").mkdir()
    places = Places(tmp_path / "cache", data_dir=tmp_path / "data")
    _, *lines = next_step(measured, committed, places, found)
    text = " ".join(" ".join(lines).split())
    assert re.match(
        r"next: harness fetch [\w-]+.* --data-dir \S+ \([\d.]+ [kM]B\) makes \d+ more published "
        r"numbers measurable, in about \d+ (s|min) on this machine; then: harness reproduce -m '",
        text,
    )
    nothing_measured = results_folder(tmp_path, found, Results({}), *committed.tables)
    assert next_step(nothing_measured, committed, places, found) == []  # it lacks data
