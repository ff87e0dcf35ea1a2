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
from harness.assets.places import Places, asset_named, every_asset
from harness.cli import options as opt
from harness.core.errors import AssetMissing, DataError
from harness.core.files import make_folder, sized
from harness.core.hardware import base_name
from harness.core.terminal import duration, text_table, wrapped
from harness.core.types import Record
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.select import FIRST_ASSETS
from harness.registry import Registry
from harness.report.next_steps import NextStep, best_next_step
from harness.report.paper_tables import printed_number
from harness.results.folder import ResultsFolder
from harness.results.reproduction import Reproduction
from harness.results.verdict import CellState

FETCH = "harness fetch "
BYTES_OF_PARAMETER = 4  # in float32
DATA_DIR = Path("data")  # unless an option or the environment names another
FIRST_RUN_HEADER = ("task", "metric", "published", "measured", "verdict", "table")


def with_small_data(
    folders: opt.Folders, registry: Registry, offline: bool
) -> opt.Folders:
    """Bring the small public data sets that are not here.

    Args:
        folders: Where data and encodings are; without a data folder, `data` is taken.
        registry: Says how the rows of each data set are checked.
        offline: Whether nothing may be downloaded.

    Returns:
        The folders with the data folder that holds them, as far as they could be had.
        What did not arrive is noted, with the files to place by hand.
    """
    data_dir = folders.data_dir or DATA_DIR
    placed = replace(folders, data_dir=data_dir) if data_dir.is_dir() else folders
    missing = [
        asset for asset in map(asset_named, FIRST_ASSETS) if _is_missing(asset, placed)
    ]
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
    sources = dict.fromkeys(
        source.name for part in asset.every_part for source in part.sources
    )
    return f"{asset.name} (from {' or '.join([*sources][:2])})"


def _bring(missing: Sequence[Asset], folders: opt.Folders, registry: Registry) -> None:
    """Bring each asset; after one for which no source could be reached, no other is tried."""
    fetcher = Fetcher(
        folders.places(),
        registry.tasks.values(),
        registry.corpora.values(),
        small_first=True,
    )
    for asset in missing:
        try:
            fetcher.bring(asset)
        except DataError as error:
            opt.note(f"harness: {error}")
        except AssetMissing as error:
            opt.note(f"harness: {error}; get it later: {asset.get}")
            return


def reproduced_numbers(
    measured: ResultsFolder, records: Collection[Record]
) -> list[str]:
    """The published numbers that the records answer: a table a method, how many are reproduced."""
    methods = {record.method for record in records}
    judged = [
        one
        for one in measured.all_reproductions
        if one.state.is_verdict and str(one.cell.method) in methods
    ]
    if not judged:
        command = " ".join(
            ("harness fetch", *FIRST_ASSETS, "--data-dir", str(DATA_DIR))
        )
        return ["", f"no published number was measured, for want of data: {command}"]
    exact = sum(one.state is CellState.EXACT for one in judged)
    rows_of_method: dict[str, list[tuple[str, ...]]] = {}
    for one in judged:
        rows_of_method.setdefault(str(one.cell.method), []).append(_row(one))
    lines = []
    for method, rows in rows_of_method.items():
        lines += [
            "",
            f"{method}:",
            text_table(rows, FIRST_RUN_HEADER, opt.terminal_width()),
        ]
    return [
        *lines,
        "",
        f"{exact} of {len(judged)} published numbers reproduced exactly",
    ]


def next_step(
    measured: ResultsFolder,
    committed: ResultsFolder,
    places: Places,
    registry: Registry,
) -> list[str]:
    """The download that makes most published numbers measurable for each byte, and its time here.

    Args:
        measured: The run's own records, which say how fast this machine encodes.
        committed: The committed records, which say how many sentences the tasks have.
        places: Where data and weights are.
        registry: Methods and tasks by name.

    Returns:
        Two lines; none where the run measured no published number, which it says
        elsewhere.
    """
    if not any(reproduction.scores for reproduction in measured.all_reproductions):
        return []
    present = {asset.name for asset in every_asset() if places.has_data(asset.name)}
    present |= {
        name for name, config in registry.encoders.items() if places.has_encoder(config)
    }
    step = best_next_step(measured.all_reproductions, registry, present)
    if step is None:
        return []
    names = " ".join(command.removeprefix(FETCH) for command in step.commands)
    methods = dict.fromkeys(
        f"'{str(cell.method).partition('.')[0]}.*'" for cell in step.cells
    )
    data_dir = places.data_dir or DATA_DIR
    text = f"next: {FETCH}{names} --data-dir {data_dir} ({sized(step.bytes)}) makes "
    text += f"{len(step.cells)} more published numbers measurable"
    seconds = _seconds_to_measure(step, measured, committed, registry)
    if seconds is not None:
        time = f"about {duration(seconds)}" if seconds >= 1 else "seconds"
        text += f", in {time} on this machine"
    then = f"then: harness reproduce -m {' '.join(methods)} --data-dir {data_dir}"
    return ["", *(wrapped(line, opt.terminal_width()) for line in (f"{text};", then))]


def _seconds_to_measure(
    step: NextStep,
    measured: ResultsFolder,
    committed: ResultsFolder,
    registry: Registry,
) -> float | None:
    """What encoding takes at the rate of this run; None where it encoded nothing.

    The rate is in parameters times sentences: a model of as many more parameters takes
    as much longer, and a parameter is four bytes of a download.
    """
    rates = [
        (record.facts["parameters"], record.facts["sentences_per_second"])
        for records in measured.records.by_cell.values()
        for record in records
        if {"parameters", "sentences_per_second"} <= record.facts.keys()
    ]
    if not rates:
        return None
    known_parameters, _ = max(rates)
    rate = max(p * sentences for p, sentences in rates if p == known_parameters)
    tasks_of_encoders: dict[str, set[str]] = {}
    for cell in step.cells:
        encoder = base_name(str(cell.method).partition(".")[0])
        tasks_of_encoders.setdefault(encoder, set()).update(cell.tasks)
    seconds = 0.0
    for encoder, tasks in tasks_of_encoders.items():
        if not isinstance(registry.encoders[encoder], TransformerConfig):
            continue  # word vectors are looked up, in no time beside that of the download
        size = getattr(registry.encoders[encoder].source, "download_size", None)
        parameters = size / BYTES_OF_PARAMETER if size else known_parameters
        sentences = sum(_sentences(task, committed) for task in tasks)
        seconds += parameters * sentences / rate
    return seconds


def _sentences(task: str, committed: ResultsFolder) -> int:
    """How many distinct sentences a task has; 0 where no record says so."""
    facts = (record.facts for record in committed.records.any_records(task))
    return max((fact.get("distinct_sentences", 0) for fact in facts), default=0)


def _row(one: Reproduction) -> tuple[str, ...]:
    cell, score = one.cell, one.measured
    metric = " ".join(word for word in (cell.metric, cell.aggregation) if word)
    decimals = max(2, len(printed_number(cell).partition(".")[2]))
    return (
        cell.task or f"average of {len(cell.tasks)}",
        metric,
        printed_number(cell),
        "–" if score is None else f"{score:.{decimals}f}",
        str(one.state),
        cell.id.partition("/")[0],
    )
