"""What `harness reproduce --profile first` adds: small public data before, a table at the end."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from harness.assets.catalogue import Asset
from harness.assets.fetch.batch import Fetcher
from harness.assets.fetch.http import switched_off
from harness.assets.places import asset_named
from harness.cli import options as opt
from harness.core.errors import AssetMissing, DataError
from harness.core.files import make_folder
from harness.core.terminal import text_table
from harness.core.types import Record
from harness.evaluation.select import FIRST_ASSETS
from harness.registry import Registry
from harness.report.paper_tables import printed
from harness.results.folder import ResultsFolder
from harness.results.reproduction import Reproduction
from harness.results.verdict import CellState

DATA_DIR = Path("data")  # unless an option or the environment names another
FIRST_RUN_HEADER = ("method", "task", "metric", "published", "measured", "verdict", "table")


def with_small_data(folders: opt.Folders, registry: Registry, offline: bool) -> opt.Folders:
    """Bring the small public data sets that are not here.

    Args:
        folders: Where data and encodings are; without a data folder, `data` is taken.
        registry: Says how the rows of each data set are checked.
        offline: Whether nothing may be downloaded.

    Returns:
        The folders with the data folder that holds them, as far as they could be had. What did not
        arrive is noted, with the files to place by hand.
    """
    data_dir = folders.data_dir or DATA_DIR
    placed = replace(folders, data_dir=data_dir) if data_dir.is_dir() else folders
    missing = [asset for asset in map(asset_named, FIRST_ASSETS) if _is_missing(asset, placed)]
    if not missing:
        return placed
    names = " ".join(asset.name for asset in missing)
    switch = "--offline" if offline else switched_off(os.environ)
    if switch:
        opt.note(f"not downloaded, since {switch} is set: {names}")
        return placed
    opt.note(f"downloading into {data_dir}: {', '.join(map(_named, missing))}")
    make_folder(data_dir, "--data-dir or HARNESS_DATA_DIR")
    _bring(missing, replace(folders, data_dir=data_dir), registry)
    with suppress(OSError):  # it holds what arrived
        data_dir.rmdir()
    return replace(folders, data_dir=data_dir) if data_dir.is_dir() else folders


def _is_missing(asset: Asset, folders: opt.Folders) -> bool:
    return not folders.places().has_data(asset.name)


def _named(asset: Asset) -> str:
    """The name of an asset with its first two sources."""
    sources = dict.fromkeys(source.name for part in asset.every_part for source in part.sources)
    return f"{asset.name} (from {' or '.join([*sources][:2])})"


def _bring(missing: Sequence[Asset], folders: opt.Folders, registry: Registry) -> None:
    """Bring each asset; after one for which no source could be reached, no other is tried."""
    fetcher = Fetcher(
        folders.places(), registry.tasks.values(), registry.corpora.values(), small_first=True
    )
    for asset in missing:
        try:
            fetcher.bring(asset)
        except DataError as error:
            opt.note(f"harness: {error}")
        except AssetMissing as error:
            opt.note(f"harness: {error}; get it later: {asset.get}")
            return


def reproduced_numbers(measured: ResultsFolder, records: Collection[Record]) -> list[str]:
    """The published numbers that the records answer: how many are reproduced, and a table."""
    methods = {record.method for record in records}
    judged = [
        one
        for one in measured.reproduced
        if one.state.is_verdict and str(one.cell.method) in methods
    ]
    if not judged:
        command = " ".join(("harness fetch", *FIRST_ASSETS, "--data-dir", str(DATA_DIR)))
        return ["", f"no published number was measured, for want of data: {command}"]
    exact = sum(one.state is CellState.EXACT for one in judged)
    rows = [_row(one) for one in judged]
    table = text_table(rows, FIRST_RUN_HEADER, opt.terminal_width())
    return ["", table, "", f"{exact} of {len(judged)} published numbers reproduced exactly"]


def _row(one: Reproduction) -> tuple[str, ...]:
    cell, score = one.cell, one.measured
    metric = " ".join(word for word in (cell.metric, cell.aggregation) if word)
    return (
        str(cell.method),
        cell.task or f"average of {len(cell.tasks)}",
        metric,
        printed(cell),
        "–" if score is None else f"{score:.2f}",
        str(one.state),
        cell.id.partition("/")[0],
    )
