"""`harness fetch`: download data sets and encoders, or say where they would come from.

A name on the command line is an asset of the catalogue, several assets in one download,
an encoder, or a repository of the hub. `fetched_things` makes of each name the things
to fetch, which harness.assets.fetch brings and checks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from harness.assets.catalogue import BUNDLES
from harness.assets.download import offline_switch
from harness.assets.fetch import Fetchable, Fetcher, addresses_of, listing
from harness.assets.places import Places, asset_named, assets_of, every_asset
from harness.cli import options as opt
from harness.core.errors import HarnessError, UsageError
from harness.core.files import make_folder
from harness.core.interfaces import Hub
from harness.registry import Registry, load_registry, look_up
from harness.resolve import config_for


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
    all_assets: Annotated[
        bool,
        typer.Option("--all", help="Every data set, corpus and encoder that is known."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only list the addresses that would be asked."),
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Download data sets and encoders, and check their digests."""
    registry = load_registry()
    names = _names_to_fetch(assets or [], all_assets, registry)
    things_by_name = fetched_things(names, registry)
    switch = "--offline" if offline else offline_switch(os.environ)
    if dry_run:
        distinct = dict.fromkeys(chain.from_iterable(things_by_name.values()))
        say_addresses(distinct, as_json)
        return

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
        fetcher = Fetcher(places, tasks, corpora, Path(scratch), switch)
        for name, things in things_by_name.items():
            statuses.append(_fetch(name, things, fetcher, as_json))
    raise typer.Exit(opt.worst_status(statuses))


# What names mean


def _names_to_fetch(
    named: Sequence[str], all_assets: bool, registry: Registry
) -> Sequence[str]:
    """The names of a command line: `named`, or every asset, or the data sets that tasks score."""
    if all_assets and named:
        raise UsageError(f"wanted --all or names, found --all and {named[0]}")
    if all_assets:
        return every_asset_name(registry)
    if named:
        return named
    return scored_assets(registry)


def every_asset_name(registry: Registry) -> tuple[str, ...]:
    """Every asset that is not included, and every encoder of the hub."""
    names = [asset.name for asset in every_asset() if not asset.embedded]
    for name, config in registry.encoders.items():
        if isinstance(config.source, Hub):
            names.append(name)
    return tuple(names)


def scored_assets(registry: Registry) -> tuple[str, ...]:
    """The data sets that tasks score and that are not included."""
    names = dict.fromkeys(task.asset for task in registry.tasks.values())
    return tuple(name for name in names if not asset_named(name).embedded)


def fetched_things(
    names: Iterable[str], registry: Registry
) -> dict[str, tuple[Fetchable, ...]]:
    """The things that each name fetches. Raises UsageError for an unknown name.

    Most names fetch one thing; a bundle fetches the assets of one download.
    """
    assets = {asset.name: asset for asset in every_asset()}
    things_by_name: dict[str, tuple[Fetchable, ...]] = {}
    for name, asset in assets.items():
        things_by_name[name] = (asset,)
    for name, members in BUNDLES.items():
        things_by_name[name] = tuple(
            asset for asset in assets.values() if asset.name in members
        )
    for name, config in registry.encoders.items():
        assets_of_encoder = assets_of(config)
        things_by_name[name] = assets_of_encoder if assets_of_encoder else (config,)
    requested_things: dict[str, tuple[Fetchable, ...]] = {}
    for name in dict.fromkeys(names):
        if "/" in name and name not in things_by_name:  # a repository of the hub
            requested_things[name] = (config_for(name, name, None),)
        else:
            requested_things[name] = look_up("asset", name, things_by_name)
    return requested_things


# What is done with them


def _fetch(
    name: str, things: Sequence[Fetchable], fetcher: Fetcher, as_json: bool
) -> int:
    """Fetch the things of a name, and print where they are, or why they did not arrive.

    Returns the exit status.
    """
    location = ""
    error_text = ""
    status = 0
    try:
        location = ", ".join(fetcher.bring(thing) for thing in things)
    except HarnessError as error:
        error_text = str(error)
        status = error.exit_status
        opt.note(f"harness: {error_text}")
    if as_json:
        opt.say(json.dumps({"asset": name, "is": location, "error": error_text}))
    elif location:
        opt.say(f"{name}: {location}")
    return status


def say_addresses(things: Iterable[Fetchable], as_json: bool) -> None:
    """Print the addresses that would be asked for each thing, in order."""
    if as_json:
        rows: list[dict[str, Any]] = []
        for thing in things:
            rows += [dict(address) for address in addresses_of(thing)]
        opt.say_rows(rows, as_json)
        return
    for thing in things:
        opt.say("\n".join(listing(thing)))
