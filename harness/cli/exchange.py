"""Commands that bring files in and export methods: fetch, export."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.assets.catalogue import BUNDLES
from harness.assets.fetch.addresses import (
    Address,
    addresses_of,
    listing,
    look,
    parts_without,
)
from harness.assets.fetch.batch import Fetched, Fetcher
from harness.assets.fetch.http import switched_off
from harness.assets.places import Places, asset_named, assets_of, every_asset
from harness.cli import options as opt
from harness.core.errors import HarnessError, UsageError
from harness.core.files import make_folder
from harness.core.interfaces import Hub
from harness.core.progress import progress_on
from harness.evaluation.cell import fit_cell
from harness.evaluation.evaluate import SMALL_TASK
from harness.evaluation.select import PlannedCell
from harness.registry import Registry, load_registry, look_up
from harness.report.bibtex import HARNESS_KEY, bibtex
from harness.resolve import Resolver, config_for
from harness.results.index import Results
from harness.results.records import Store
from harness.tasks.loader import TARGETS, TaskLoader

# fetch


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
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Only ask whether each address is there (HEAD); 1 if no source is.",
        ),
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Download data sets and encoders, and check their digests."""
    registry = load_registry()
    if all_assets and assets:
        raise UsageError(f"wanted --all or names, found --all and {assets[0]}")
    names = (
        every_asset_name(registry) if all_assets else assets or scored_assets(registry)
    )
    things_by_name = fetched_things(names, registry)
    switch = "--offline" if offline else switched_off(os.environ)
    if check:
        if switch:
            raise UsageError(f"--check asks the network, and {switch} is set")
        raise typer.Exit(say_which_are_there(_distinct(things_by_name), as_json))
    if dry_run:
        say_addresses(_distinct(things_by_name), as_json)
        return

    if data_dir is not None and not switch:
        make_folder(data_dir, "--data-dir or HARNESS_DATA_DIR")
    data_folder = data_dir if data_dir is not None and data_dir.is_dir() else None
    places = Places.from_environment({}, cache=cache, data_dir=data_folder)
    fetcher = Fetcher(
        places, registry.tasks.values(), registry.corpora.values(), switch
    )
    statuses = [
        _fetch(name, things, fetcher, as_json)
        for name, things in things_by_name.items()
    ]
    raise typer.Exit(min(filter(None, statuses), default=0))


def _distinct(things_by_name: Mapping[str, Sequence[Fetched]]) -> list[Fetched]:
    """The things of all names, each once."""
    distinct: dict[Fetched, None] = {}
    for things in things_by_name.values():
        distinct |= dict.fromkeys(things)
    return list(distinct)


def _fetch(
    name: str, things: Sequence[Fetched], fetcher: Fetcher, as_json: bool
) -> int:
    """Fetch the things of a name, and print where they are or why they are not; the exit status."""
    outcome = complaint = ""
    status = 0
    try:
        outcome = ", ".join(map(fetcher.bring, things))
    except HarnessError as error:
        complaint, status = str(error), error.exit_status
        opt.note(f"harness: {complaint}")
    if as_json:
        opt.say(json.dumps({"asset": name, "is": outcome, "error": complaint}))
    elif outcome:
        opt.say(f"{name}: {outcome}")
    return status


def say_addresses(things: Iterable[Fetched], as_json: bool) -> None:
    """Print what would be asked for each thing, in order."""
    if as_json:
        rows: list[dict[str, Any]] = []
        for thing in things:
            rows += map(asdict, addresses_of(thing))
        opt.say_rows(rows, as_json)
        return
    for thing in things:
        opt.say("\n".join(listing(thing)))


def say_which_are_there(things: Iterable[Fetched], as_json: bool) -> int:
    """Ask for each address and print which are there; 1 if a part has no source that is."""
    addresses: list[Address] = []
    for thing in things:
        addresses += addresses_of(thing)
    looked = look(addresses)
    rows = []
    for found in looked:
        answer = found.answer.replace(found.address.url, "")
        rows.append(asdict(found.address) | {"alive": found.alive, "found": answer})
    opt.say_rows(rows, as_json)
    missing = parts_without(looked)
    for asset, part in missing:
        opt.note(f"harness: {asset}, {part}: no source is there")
    return 1 if missing else 0


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
) -> dict[str, tuple[Fetched, ...]]:
    """What each name fetches: an asset, several in one download, an encoder, a repository."""
    assets = {asset.name: asset for asset in every_asset()}
    things: dict[str, tuple[Fetched, ...]] = {
        name: (asset,) for name, asset in assets.items()
    }
    for name, parts in BUNDLES.items():
        things[name] = tuple(asset for asset in assets.values() if asset.name in parts)
    for name, config in registry.encoders.items():
        things[name] = assets_of(config) or (config,)
    things_by_name: dict[str, tuple[Fetched, ...]] = {}
    for name in dict.fromkeys(names):
        if "/" in name and name not in things:  # a repository of the hub
            things_by_name[name] = (config_for(name, name, None),)
        else:
            things_by_name[name] = look_up("asset", name, things)
    return things_by_name


# export


def export_command(
    method: Annotated[
        str, typer.Argument(help="Method id, encoder, repository or model folder.")
    ],
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    folders: opt.Folders,
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", help="Task whose sentences @target fits on."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of fit and training.")] = 0,
    encoder: opt.Encoders = None,
    plugin: opt.Plugins = None,  # noqa: ARG001 - its callback loads them
    results: opt.Records = Path("results"),
    model_index: Annotated[
        bool,
        typer.Option(
            "--model-index", help="Put the scores into the card's front matter, too."
        ),
    ] = False,
    eval_results: Annotated[
        bool,
        typer.Option(
            "--eval-results", help="Write .eval_results/*.yaml of the scores, too."
        ),
    ] = False,
) -> None:
    """Export a method as a sentence-transformers folder.

    Its model card states the measured scores; on request, so do the hub's formats of
    results, with the protocol of each.
    """
    from harness.interop.exported import records_of, write_card, write_model
    from harness.interop.hub_results import (
        reported_scores,
        write_eval_results,
        write_model_index,
    )

    make_folder(folder.absolute().parent, "another path", to_write=True)
    resolver = Resolver.from_options(folders.places(), encoder or [])
    exported = resolver.method(method)
    registry, places = resolver.registry, resolver.places
    if (exported.fit_on in TARGETS) != (task is not None):
        raise UsageError(
            f"{method}: wanted -t TASK where a method is fitted on @target, and only there; "
            f"found {task or 'none'}"
        )
    fitted_on = look_up("task", task or SMALL_TASK, registry.tasks_by_name)
    planned = PlannedCell(exported, fitted_on, seed)
    with progress_on(sys.stderr) as bar:
        cell = fit_cell(planned, TaskLoader(places, registry.corpora), bar)
    write_model(planned, cell, places, folder)

    citations = bibtex(filter(None, (planned.encoder.cite, exported.cite, HARNESS_KEY)))
    folder_records = Results.read(Store(results))
    count = write_card(folder, planned, cell, registry.tasks, folder_records, citations)
    opt.say(f"{folder}: {exported.id}, seed {seed}, with {count} measured scores")
    records = records_of(planned, cell, registry.tasks, folder_records)
    reported = list(reported_scores(records, registry.tasks))
    if model_index:
        opt.say(
            f"{folder}: {write_model_index(folder, folder.name, reported)} in model-index"
        )
    if eval_results:
        today = datetime.now(UTC).date().isoformat()
        opt.say(
            f"{folder}: {write_eval_results(folder, reported, today)} in .eval_results"
        )
