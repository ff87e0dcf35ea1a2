"""What `harness reproduce --profile first` adds to a reproduction.

Before the run it fetches the small public data sets that are missing. After the run it
prints a table of the published numbers that were reproduced, and names the download
that makes most of the others measurable.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from urllib.parse import urlsplit

from harness.assets.catalogue import Asset
from harness.assets.download import address_of, offline_switch
from harness.assets.fetch import Fetcher
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
from harness.report.papers import printed_number
from harness.results.folder import ResultsFolder
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction
from harness.results.verdict import CellState

FETCH = "harness fetch "
BYTES_OF_PARAMETER = 4  # in a file of float32
DATA_DIR = Path("data")  # unless an option or the environment names another
SECONDS_FOR_AN_ANSWER = 4.0  # of a host, before downloads
LONGEST_FAULT = 150  # of an error
FIRST_RUN_HEADER = ("task", "metric", "published", "measured", "verdict", "table")


def fetch_small_data(folders: opt.Folders, registry: Registry) -> opt.Folders:
    """Fetch the small public data sets that are missing.

    Args:
        folders: Where data and encodings are; without a data folder, `data` is taken.
        registry: Says how the rows of each data set are checked.

    Returns:
        The folders, with a data folder if there is one. If a data set did not arrive,
        notes say why, and how to place its files by hand.
    """
    data_dir = DATA_DIR if folders.data_dir is None else folders.data_dir
    folders_with_data = _with_data_dir(folders, data_dir)
    places = folders_with_data.places()
    missing_names = [name for name in FIRST_ASSETS if not places.has_data(name)]
    if not missing_names:
        return folders_with_data
    names = " ".join(missing_names)
    switch = offline_switch(os.environ)
    if switch:
        opt.note(f"not downloaded, since {switch} is set: {names}")
        return folders_with_data
    assets = [asset_named(name) for name in missing_names]
    opt.note(f"downloading into {data_dir}: {names}")
    silent_hosts = hosts_without_answer(hosts_of(assets))
    make_folder(data_dir, "--data-dir or HARNESS_DATA_DIR")
    missing_names = []
    with TemporaryDirectory(dir=data_dir, prefix=".fetch-") as scratch:
        fetcher = Fetcher(
            replace(folders, data_dir=data_dir).places(),
            registry.tasks.values(),
            registry.corpora.values(),
            Path(scratch),
            small_first=True,
            unreachable_hosts=set(silent_hosts),
        )
        for asset in assets:
            try:
                fetcher.bring(asset)
            except DataError as error:
                opt.note(
                    f"harness: {shorten(str(error), LONGEST_FAULT, placeholder=' ...')}"
                )
                missing_names.append(asset.name)
            except AssetMissing:
                missing_names.append(asset.name)
    if missing_names:
        names = " ".join(missing_names)
        hosts = ", ".join(sorted(fetcher.unreachable_hosts))
        opt.note(f"{names} did not arrive{f'; not reached: {hosts}' if hosts else ''}")
        opt.note(
            f"to place their files into {data_dir} by hand: harness fetch --dry-run {names} lists "
            "each with its addresses"
        )
    with suppress(OSError):  # a folder into which something was downloaded stays
        data_dir.rmdir()
    return _with_data_dir(folders, data_dir)


def _with_data_dir(folders: opt.Folders, data_dir: Path) -> opt.Folders:
    """The folders with this data folder, if it exists."""
    if not data_dir.is_dir():
        return folders
    return replace(folders, data_dir=data_dir)


def hosts_of(assets: Sequence[Asset]) -> set[str]:
    """The hosts of every source of some assets."""
    hosts: set[str] = set()
    for asset in assets:
        for part in asset.parts:
            for source in part.sources:
                downloads = part.downloads_of(source)
                hosts.update(urlsplit(address_of(each)).netloc for each in downloads)
    return hosts


def hosts_without_answer(hosts: Collection[str]) -> set[str]:
    """The hosts that do not answer within a few seconds; all are asked at once."""
    pool = ThreadPoolExecutor(max_workers=len(hosts))
    answers = {host: pool.submit(has_answer, host) for host in hosts}
    wait(answers.values(), timeout=SECONDS_FOR_AN_ANSWER)
    pool.shutdown(wait=False, cancel_futures=True)
    return {
        host
        for host, answer in answers.items()
        if not (answer.done() and answer.result())
    }


def has_answer(host: str) -> bool:
    """Whether a host gives any answer, an error included."""
    import requests

    try:
        requests.head(f"https://{host}", timeout=SECONDS_FOR_AN_ANSWER)
    except requests.RequestException:
        return False
    return True


def lines_of_methods(measured: ResultsFolder, records: Collection[Record]) -> list[str]:
    """A table of the published numbers of each method, and how many are reproduced.

    Args:
        measured: The run's own results.
        records: The records of the run, whose methods are shown.

    Returns:
        Lines to print.
    """
    methods_of_run = {record.method for record in records}
    rows_of_method: dict[str, list[tuple[str, ...]]] = {}
    exact_count = 0
    for reproduction in measured.all_reproductions:
        method = str(reproduction.cell.method)
        if not reproduction.state.is_verdict or method not in methods_of_run:
            continue
        rows_of_method.setdefault(method, []).append(_row(reproduction))
        if reproduction.state is CellState.EXACT:
            exact_count += 1
    rows = [row for rows in rows_of_method.values() for row in rows]
    if not rows:
        command = f"{FETCH}{' '.join(FIRST_ASSETS)} --data-dir {DATA_DIR}"
        return ["", f"no published number was measured, for want of data: {command}"]
    head, rule, *row_lines = text_table(rows, FIRST_RUN_HEADER).splitlines()
    lines = ["", head, rule]
    for method, method_rows in rows_of_method.items():
        lines.append(f"{method}:")
        lines += row_lines[: len(method_rows)]
        del row_lines[: len(method_rows)]
    count = f"{exact_count} of {len(rows)} published numbers reproduced exactly"
    return [*lines, "", count]


def _row(reproduction: Reproduction) -> tuple[str, ...]:
    """A row of the table, with the columns of FIRST_RUN_HEADER.

    The measured score has two decimals, or more if the published number has.
    """
    cell = reproduction.cell
    metric = " ".join(word for word in (cell.metric, cell.aggregation) if word)
    published = printed_number(cell)
    _, _, printed_decimals = published.partition(".")
    decimals = max(2, len(printed_decimals))
    score = "–"
    if reproduction.measured is not None:
        score = f"{reproduction.measured:.{decimals}f}"
    table, _, _ = cell.id.partition("/")
    return (
        cell.task if cell.task else f"average of {len(cell.tasks)}",
        metric,
        published,
        score,
        str(reproduction.state),
        table,
    )


def next_step(
    measured: ResultsFolder,
    committed: ResultsFolder,
    places: Places,
    registry: Registry,
) -> list[str]:
    """Lines that name the download which makes most published numbers measurable per byte.

    Args:
        measured: The run's own records, which say how fast this machine encodes.
        committed: The committed records, which say how many sentences the tasks have.
        places: Where data and weights are.
        registry: Methods and tasks by name.

    Returns:
        An empty line and two lines, with the time that the numbers take here. No lines
        if the run measured no published number, or nothing that can be downloaded is
        missing.
    """
    if not any(reproduction.scores for reproduction in measured.all_reproductions):
        return []
    names_here = {asset.name for asset in every_asset() if places.has_data(asset.name)}
    for name, config in registry.encoders.items():
        if places.has_encoder(config):
            names_here.add(name)
    step = best_next_step(measured.all_reproductions, registry, names_here)
    if step is None:
        return []
    names = " ".join(command.removeprefix(FETCH) for command in step.commands)
    data_dir = DATA_DIR if places.data_dir is None else places.data_dir
    download_line = (
        f"next: {FETCH}{names} --data-dir {data_dir} ({sized(step.bytes)}) makes "
        f"{len(step.cells)} more published numbers measurable"
    )
    seconds = _seconds_to_measure(step, measured, committed, registry)
    if seconds is not None:
        time = f"about {duration(seconds)}" if seconds >= 1 else "seconds"
        download_line += f", in {time} on this machine"
    encoders = dict.fromkeys(_encoder_of_number(cell) for cell in step.cells)
    patterns = " ".join(f"'{encoder}.*'" for encoder in encoders)
    run_line = f"then: harness reproduce -m {patterns} --data-dir {data_dir}"
    width = opt.terminal_width()
    return ["", wrapped(f"{download_line};", width), wrapped(run_line, width)]


def _encoder_of_number(cell: PublishedCell) -> str:
    """The encoder of a published number's method, with length and precision."""
    encoder, _, _ = str(cell.method).partition(".")
    return encoder


def _seconds_to_measure(
    step: NextStep,
    measured: ResultsFolder,
    committed: ResultsFolder,
    registry: Registry,
) -> float | None:
    """The seconds that encoding takes at the rate of this run; None if it encoded nothing.

    The rate is in parameters times sentences a second: a model with twice the parameters
    is taken to need twice the time. The parameters follow from the size of a download.
    """
    measured_rate = _rate_of_largest_encoder(measured)
    if measured_rate is None:
        return None
    rate = measured_rate.parameters * measured_rate.sentences_per_second
    tasks_of_encoders: dict[str, set[str]] = {}
    for cell in step.cells:
        encoder = base_name(_encoder_of_number(cell))
        tasks_of_encoders.setdefault(encoder, set()).update(cell.tasks)
    seconds = 0.0
    for encoder, tasks in tasks_of_encoders.items():
        config = registry.encoders[encoder]
        if not isinstance(config, TransformerConfig):
            continue  # looking up word vectors takes next to no time
        parameters: float = measured_rate.parameters
        size = getattr(config.source, "download_size", None)
        if size:
            parameters = size / BYTES_OF_PARAMETER
        sentences = sum(_distinct_sentences(task, committed) for task in tasks)
        seconds += parameters * sentences / rate
    return seconds


@dataclass(frozen=True, order=True)
class EncodingRate:
    """How fast an encoder was; of two rates the one with more parameters is the larger."""

    parameters: int
    sentences_per_second: float


def _rate_of_largest_encoder(measured: ResultsFolder) -> EncodingRate | None:
    """The best rate of a run's largest encoder; small ones say little about large ones."""
    rates = []
    for records in measured.records.by_cell.values():
        for record in records:
            if {"parameters", "sentences_per_second"} <= record.facts.keys():
                rates.append(
                    EncodingRate(
                        parameters=record.facts["parameters"],
                        sentences_per_second=record.facts["sentences_per_second"],
                    )
                )
    return max(rates, default=None)


def _distinct_sentences(task: str, committed: ResultsFolder) -> int:
    """How many distinct sentences a task has; 0 if no record says so."""
    counts = [
        record.facts.get("distinct_sentences", 0)
        for record in committed.records.any_records(task)
    ]
    return max(counts, default=0)
