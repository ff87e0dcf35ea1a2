"""The command that downloads: fetch, and its ways to and from a machine without a network."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import CacheDir, DataDir, Json, note, say, say_folded
from harness.core.errors import UsageError


def fetch(
    assets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Assets, encoders or OWNER/NAME[@REVISION] on the hub; by default the data sets "
            "that tasks score.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Download nothing, only check what is here.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Show every asset, as harness list assets does.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="Write assets that are here to a folder; by default all that are."),
    ] = None,
    bring_in: Annotated[
        Path | None, typer.Option("--import", help="Take assets from such a folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Download assets and check them; or carry them to a machine without a network."""
    from rich.progress import DownloadColumn

    from harness.assets.fetch.batch import Jobs, export_all, fetch_all, import_all, portable
    from harness.assets.fetch.http import switched_off
    from harness.assets.places import Places
    from harness.cli import fetch_names
    from harness.cli.listing import listing, table
    from harness.core.progress import Bar
    from harness.registry import load_registry

    if sum(map(bool, (offline, listed, export, bring_in))) > 1:
        raise UsageError("one of --offline, --list, --export and --import at a time")
    # A data folder that does not exist yet is made when something is put into it.
    here = data_dir if data_dir is not None and data_dir.is_dir() else None
    places = Places.from_environment({}, cache=cache, data_dir=here)
    if listed:
        rows = listing("assets", places)
        say(json.dumps(rows, indent=1) if as_json else table(rows))
        return
    found, worst = load_registry(), 0
    resolve = partial(fetch_names.resolve, found=found)
    with Bar(sys.stderr, DownloadColumn()) as bar:
        jobs = Jobs(places, bar, tuple(found.tasks.values()), tuple(found.corpora.values()))
        if export is not None:
            things = chain.from_iterable(resolve(assets or fetch_names.all_names(found)).values())
            outcomes = export_all(
                (t for t in things if assets or portable(t, places)), jobs, export
            )
        elif bring_in is not None:
            outcomes = import_all(resolve, jobs, bring_in, data_dir)
        else:
            switch = "--offline" if offline else switched_off(os.environ)
            wanted = resolve(assets or fetch_names.default_names(found))
            outcomes = fetch_all(wanted, jobs, data_dir, switch)
        for fetched in outcomes:
            error = str(fetched.error or "")
            if as_json:
                say(json.dumps({"asset": fetched.name, "is": fetched.line, "error": error}))
            elif not error:
                say_folded(f"{fetched.name}: {fetched.line}")
            if fetched.error is not None:
                note(f"harness: {error}")
                worst = min(filter(None, (worst, fetched.error.exit_status)))
    sys.exit(worst)
