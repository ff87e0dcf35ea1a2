"""`harness fetch`: download data sets and encoders, or say where they would come from.

`harness.resolve.things_to_fetch` says what the words mean, and `harness.data.fetch` brings
and checks it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.core.errors import HarnessError
from harness.core.files import make_folder
from harness.data.download import offline_switch
from harness.data.fetch import Fetcher, listing
from harness.data.places import Places, asset_named
from harness.encoders.tensorflow_bert import convert
from harness.registry import Registry, load_registry
from harness.resolve import things_to_fetch


def fetch_command(
    assets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Assets, encoders or OWNER/NAME[@REVISION] on the hub; by default the data sets "
            "that tasks score.",
            show_default=False,
        ),
    ] = None,
    plugin: opt.Plugins = None,  # noqa: ARG001 - its callback loads them
    data_dir: opt.DataDir = None,
    cache: opt.CacheDir = None,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Download nothing, only check what is here."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only list the addresses that would be asked."),
    ] = False,
) -> None:
    """Download data sets and encoders, and check their digests."""
    registry = load_registry()
    things_by_name = things_to_fetch(assets or scored_assets(registry), registry)
    if dry_run:
        for thing in dict.fromkeys(chain.from_iterable(things_by_name.values())):
            opt.say("\n".join(listing(thing)))
        return

    switch = "--offline" if offline else offline_switch(os.environ)
    if data_dir is not None and not switch:
        make_folder(data_dir, "--data-dir or HARNESS_DATA_DIR")
    if data_dir is not None and not data_dir.is_dir():
        data_dir = None
    places = Places.from_environment({}, cache=cache, data_dir=data_dir)
    places = replace(places, included=False)  # a data folder is complete by itself
    tasks, corpora = registry.tasks.values(), registry.corpora.values()
    statuses = []
    scratch_place = None if switch else data_dir
    with TemporaryDirectory(dir=scratch_place, prefix=".fetch-") as scratch:
        fetcher = Fetcher(
            places=places,
            tasks=tasks,
            corpora=corpora,
            scratch=Path(scratch),
            convert=convert,
            offline_switch=switch,
        )
        for name, things in things_by_name.items():
            try:
                location = ", ".join(fetcher.bring(thing) for thing in things)
                opt.say(f"{name}: {location}")
            except HarnessError as error:
                opt.note(f"harness: {error}")
                statuses.append(error.exit_status)
    raise typer.Exit(opt.worst_status(statuses))


def scored_assets(registry: Registry) -> tuple[str, ...]:
    """The data sets that tasks score and that are not included."""
    names = dict.fromkeys(task.asset for task in registry.tasks.values())
    return tuple(name for name in names if not asset_named(name).embedded)
