"""Checks of an asset on this machine: its rows, their number, and the digests seen first."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path

from harness.assets.asset import Asset
from harness.assets.places import Places
from harness.core.digests import sha256_of
from harness.core.errors import DataError
from harness.core.types import Corpus, Task


def verified(
    asset: Asset, places: Places, tasks: Collection[Task], corpora: Collection[Corpus]
) -> str:
    """Read all that tasks and corpora take from an asset, which checks it; says what was checked.

    Raises DataError, or AssetMissing for a part that is not here.
    """
    path = places.data(asset)
    data_dir = path if asset.embedded else places.data_dir
    if data_dir is None or path is None or not (asset.probe or asset.embedded):
        return "kept by datasets"
    if asset.sha256 is not None and (digest := sha256_of(path)) != asset.sha256:
        raise DataError(f"{path}: wanted sha256 {asset.sha256}, found {digest}; get it again")
    files = {name: data_dir / name for name in places.data_pins.of(asset.name)}
    digests = {name: sha256_of(file) for name, file in files.items() if file.is_file()}
    places.data_pins.check(asset.name, digests)
    counts = {"pairs": _pairs(asset, data_dir, tasks)}
    counts["sentences"] = sum(
        sum(1 for _ in corpus.sentences(data_dir))
        for corpus in corpora
        if corpus.asset == asset.name
    )
    counts["records"] = _records(asset, path) if asset.records else 0
    checked = [f"{count:,} {what} checked" for what, count in counts.items() if count]
    return ", ".join(checked) or "stored"


def _pairs(asset: Asset, data_dir: Path, tasks: Collection[Task]) -> int:
    """Every split of every task that reads the asset, each once."""
    read = {
        (repr(task.load), split): task
        for task in tasks
        if task.asset == asset.name
        for split in task.splits
    }
    return sum(len(task.load(data_dir, split)) for (_, split), task in read.items())


def _records(asset: Asset, path: Path) -> int:
    """The records of a CSV file after the first, which names the columns."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = tuple(next(rows, []))
        count = sum(1 for _ in rows)
    if (header, count) != (asset.columns, asset.records):
        raise DataError(
            f"{path}: wanted {asset.records:,} records of {','.join(asset.columns)}, found "
            f"{count:,} of {','.join(header)}; this is not the published file: get it again"
        )
    return count
