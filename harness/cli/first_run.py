"""What `harness reproduce --profile first` adds to a reproduction.

Before the run it fetches the small public data sets that are missing. After the run it
names the download that makes most of the other published numbers measurable.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from urllib.parse import urlsplit

from harness.cli import options as opt
from harness.conclusions.folder import Conclusions
from harness.core.errors import AssetMissing, DataError
from harness.core.files import make_folder, sized
from harness.data.download import offline_switch
from harness.data.fetch import Fetcher
from harness.data.places import Places, asset_named, every_asset
from harness.evaluation.select import FIRST_ASSETS
from harness.registry import Registry
from harness.report.next_steps import DOWNLOAD, best_downloads
from harness.results.index import encoder_of_method

DATA_DIR = Path("data")  # unless an option or the environment names another
SECONDS_FOR_AN_ANSWER = 4.0  # of a host, before downloads
LONGEST_FAULT = 150  # of an error


def fetch_small_data(options: opt.Run, registry: Registry) -> opt.Run:
    """Fetch the small public data sets that are missing.

    Args:
        options: Where data and encodings are; without a data folder, `data` is taken.
        registry: Says how the rows of each data set are checked.

    Returns:
        The options, with a data folder if there is one. If a data set did not arrive,
        notes say why, and how to place its files by hand.
    """
    data_dir = DATA_DIR if options.data_dir is None else options.data_dir
    with_data_dir = replace(options, data_dir=data_dir)
    places = (with_data_dir if data_dir.is_dir() else options).places()
    assets = [asset_named(name) for name in FIRST_ASSETS if not places.has_data(name)]
    names = " ".join(asset.name for asset in assets)
    switch = offline_switch(os.environ)
    if assets and switch:
        opt.note(f"not downloaded, since {switch} is set: {names}")
    elif assets:
        opt.note(f"downloading into {data_dir}: {names}")
        downloads = [download for asset in assets for download in asset.downloads]
        hosts = {urlsplit(download.url).netloc for download in downloads}
        silent_hosts = hosts_without_answer(hosts)
        make_folder(data_dir, "--data-dir or HARNESS_DATA_DIR")
        missing_names = []
        with TemporaryDirectory(dir=data_dir, prefix=".fetch-") as scratch:
            fetcher = Fetcher(
                with_data_dir.places(),
                registry.tasks.values(),
                registry.corpora.values(),
                Path(scratch),
                unreachable_hosts=silent_hosts,
            )
            for asset in assets:
                try:
                    fetcher.bring(asset)
                except (AssetMissing, DataError) as error:
                    missing_names.append(asset.name)
                    if isinstance(error, DataError):
                        fault = shorten(str(error), LONGEST_FAULT, placeholder=" ...")
                        opt.note(f"harness: {fault}")
        if missing_names:
            names = " ".join(missing_names)
            unreached = ", ".join(sorted(fetcher.unreachable_hosts))
            hosts_note = f"; not reached: {unreached}" if unreached else ""
            opt.note(f"{names} did not arrive{hosts_note}")
            opt.note(
                f"to place their files into {data_dir} by hand: harness fetch --dry-run {names} "
                "lists each with its addresses"
            )
        with suppress(OSError):  # a folder into which something was downloaded stays
            data_dir.rmdir()
    return with_data_dir if data_dir.is_dir() else options


def hosts_without_answer(hosts: Collection[str]) -> set[str]:
    """The hosts that give no answer within a few seconds, not even an error.

    All are asked at once.
    """
    import requests

    pool = ThreadPoolExecutor(max_workers=len(hosts))
    ask = partial(requests.head, timeout=SECONDS_FOR_AN_ANSWER)
    answers = {host: pool.submit(ask, f"https://{host}") for host in hosts}
    wait(answers.values(), timeout=SECONDS_FOR_AN_ANSWER)
    pool.shutdown(wait=False)
    silent_hosts = set()
    for host, answer in answers.items():
        if not answer.done() or answer.exception() is not None:
            silent_hosts.add(host)
    return silent_hosts


def next_step(measured: Conclusions, places: Places, registry: Registry) -> list[str]:
    """Lines that name the download which makes most published numbers measurable per byte.

    Args:
        measured: The run's own results.
        places: Where data and weights are.
        registry: Methods and tasks by name.

    Returns:
        An empty line and two lines; none if nothing that can be downloaded is missing.
    """
    names_here = {asset.name for asset in every_asset() if places.has_data(asset.name)}
    for name, config in registry.encoders.items():
        if places.has_encoder(config):
            names_here.add(name)
    downloads = best_downloads(measured.all_reproductions, registry, names_here)
    if downloads is None:
        return []
    commands, size, cells = downloads
    names = " ".join(command.removeprefix(DOWNLOAD) for command in commands)
    data_dir = DATA_DIR if places.data_dir is None else places.data_dir
    encoders = dict.fromkeys(encoder_of_method(str(cell.method)) for cell in cells)
    patterns = " ".join(f"'{encoder}.*'" for encoder in encoders)
    return [
        "",
        f"next: {DOWNLOAD}{names} --data-dir {data_dir} ({sized(size)}, for "
        f"{len(cells)} more published numbers)",
        f"then: harness reproduce -m {patterns} --data-dir {data_dir}",
    ]
