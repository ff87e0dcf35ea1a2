"""Commands that bring files in and export methods: fetch, export."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.assets.catalogue import TOGETHER
from harness.assets.fetch.addresses import addresses_of, listing, look, parts_without
from harness.assets.fetch.batch import Fetcher, Thing
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
from harness.report.bibtex import HARNESS, bibtex
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
        bool, typer.Option("--offline", help="Download nothing, only check what is here.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every data set, corpus and encoder that is known.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the addresses that would be asked.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Only ask whether each address is there (HEAD); 1 if no source is."
        ),
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Download data sets and encoders, and check their digests."""
    registry, worst = load_registry(), 0
    if every and assets:
        raise UsageError(f"wanted --all or names, found --all and {assets[0]}")
    names = every_asset_name(registry) if every else assets or scored_assets(registry)
    wanted = fetched_things(names, registry)
    switch = "--offline" if offline else switched_off(os.environ)
    if dry_run or check:
        if check and switch:
            raise UsageError(f"--check asks the network, and {switch} is set")
        distinct = dict.fromkeys(thing for things in wanted.values() for thing in things)
        say = say_alive if check else say_addresses
        raise typer.Exit(say(distinct, as_json))
    if data_dir is not None and not switch:
        make_folder(data_dir, "--data-dir or HARNESS_DATA_DIR")
    here = data_dir if data_dir is not None and data_dir.is_dir() else None
    places = Places.from_environment({}, cache=cache, data_dir=here)
    fetcher = Fetcher(places, registry.tasks.values(), registry.corpora.values(), switch)
    for name, things in wanted.items():
        line = complaint = ""
        try:
            line = ", ".join(map(fetcher.bring, things))
        except HarnessError as error:
            complaint = str(error)
            opt.note(f"harness: {complaint}")
            worst = min(filter(None, (worst, error.exit_status)))
        if as_json:
            opt.say(json.dumps({"asset": name, "is": line, "error": complaint}))
        elif line:
            opt.say(f"{name}: {line}")
    raise typer.Exit(worst)


def say_addresses(things: Iterable[Thing], as_json: bool) -> int:
    """Print what would be asked for each thing, in order; the exit status."""
    if as_json:
        opt.say_rows([asdict(a) for thing in things for a in addresses_of(thing)], as_json)
    for thing in () if as_json else things:
        opt.say("\n".join(listing(thing)))
    return 0


def say_alive(things: Iterable[Thing], as_json: bool) -> int:
    """Ask for each address and print which are there; 1 if a part has no source that is."""
    looked = look(address for thing in things for address in addresses_of(thing))
    rows = [
        {
            **asdict(one.address),
            "alive": one.alive,
            "found": one.answer.replace(one.address.url, ""),
        }
        for one in looked
    ]
    opt.say_rows(rows, as_json)
    without = parts_without(looked)
    for asset, part in without:
        opt.note(f"harness: {asset}, {part}: no source is there")
    return 1 if without else 0


def every_asset_name(registry: Registry) -> tuple[str, ...]:
    """Every asset that is not included, and every encoder of the hub."""
    data = (asset.name for asset in every_asset() if not asset.embedded)
    encoders = (name for name, e in registry.encoders.items() if isinstance(e.source, Hub))
    return (*data, *encoders)


def scored_assets(registry: Registry) -> tuple[str, ...]:
    """The data sets that tasks score and that are not included."""
    names = dict.fromkeys(task.asset for task in registry.tasks.values())
    return tuple(name for name in names if not asset_named(name).embedded)


def fetched_things(names: Iterable[str], registry: Registry) -> dict[str, tuple[Thing, ...]]:
    """What each name fetches: an asset, several in one download, an encoder, a repository."""
    assets = {asset.name: asset for asset in every_asset()}
    things: dict[str, tuple[Thing, ...]] = {name: (asset,) for name, asset in assets.items()}
    for name, parts in TOGETHER.items():
        things[name] = tuple(asset for asset in assets.values() if asset.name in parts)
    for name, config in registry.encoders.items():
        things[name] = assets_of(config) or (config,)
    wanted: dict[str, tuple[Thing, ...]] = {}
    for name in dict.fromkeys(names):
        by_hand = "/" in name and name not in things
        wanted[name] = (
            (config_for(name, name, None),) if by_hand else look_up("asset", name, things)
        )
    return wanted


# export


def export_command(
    method: Annotated[str, typer.Argument(help="Method id, encoder, repository or model folder.")],
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    folders: opt.Folders,
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Task whose sentences @target fits on.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of fit and training.")] = 0,
    encoder: opt.Encoders = None,
    plugin: opt.Plugins = None,  # noqa: ARG001 - its callback loads them
    results: opt.Records = Path("results"),
    model_index: Annotated[
        bool,
        typer.Option("--model-index", help="Put the scores into the card's front matter, too."),
    ] = False,
    eval_results: Annotated[
        bool, typer.Option("--eval-results", help="Write .eval_results/*.yaml of the scores, too.")
    ] = False,
) -> None:
    """Export a method as a sentence-transformers folder.

    Its model card states the measured scores; on request, so do the hub's formats of results, with
    the protocol of each.
    """
    from harness.interop.exported import records_of, write_card, write_model
    from harness.interop.hub_results import reported_scores, write_eval_results, write_model_index

    make_folder(folder.absolute().parent, "another path", to_write=True)
    resolver = Resolver.from_options(folders.places(), encoder or [])
    chosen, registry, places = resolver.method(method), resolver.registry, resolver.places
    if (chosen.fit_on in TARGETS) != (task is not None):
        raise UsageError(
            f"{method}: wanted -t TASK where a method is fitted on @target, and only there; "
            f"found {task or 'none'}"
        )
    target = look_up("task", task or SMALL_TASK, registry.tasks_by_name)
    planned = PlannedCell(chosen, target, seed)
    with progress_on(sys.stderr) as bar:
        cell = fit_cell(planned, TaskLoader(places, registry.corpora), bar)
    write_model(planned, cell, places, folder)
    keys = (key for key in (planned.encoder.cite, chosen.cite, HARNESS) if key)
    measured = Results.read(Store(results))
    count = write_card(folder, planned, cell, registry.tasks, measured, bibtex(keys))
    opt.say(f"{folder}: {chosen.id}, seed {seed}, with {count} measured scores")
    records = records_of(planned, cell, registry.tasks, measured)
    reported = [*reported_scores(records, registry.tasks)]
    if model_index:
        opt.say(f"{folder}: {write_model_index(folder, folder.name, reported)} in model-index")
    if eval_results:
        today = datetime.now(UTC).date().isoformat()
        opt.say(f"{folder}: {write_eval_results(folder, reported, today)} in .eval_results")
