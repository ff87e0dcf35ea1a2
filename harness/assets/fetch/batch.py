"""Downloads, and nothing else downloads: models and files from their hub or publisher.

Models go to the hub cache, rows to that of `datasets`, files into the data folder in the layout
that the tasks read. What arrives is compared with every digest that is known: of the bytes, of the
hub's blobs, of the rows that are read, or of what came the first time. What is here and passes is
not asked for again. Offline, or without a network, the answer comes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.assets.asset import Asset
from harness.assets.catalogue import TOGETHER
from harness.assets.fetch import offline as carry
from harness.assets.fetch.jobs import Jobs, Thing
from harness.assets.fetch.network import hub_address, silent
from harness.assets.places import Places, asset_named, every_asset, packaged, vectors_of
from harness.core.types import AssetMissing, Family, HarnessError, UsageError
from harness.evaluation.embeddings import Progress
from harness.evaluation.select import config_for
from harness.registry import Registry, known, registry


@dataclass(frozen=True)
class Fetched:
    """What became of one name: a line about it, or why it is not here."""

    name: str
    line: str = ""
    error: HarnessError | None = None


def fetch_all(
    names: Sequence[str],
    places: Places,
    told: Progress,
    into: Path | None = None,
    switch: str | None = None,
) -> Iterator[Fetched]:
    """Fetch assets and encoders by name; by default the data sets that tasks score.

    `into` is the data folder, made when something is downloaded into it; `switch` is what forbids
    downloads, if anything does. Raises UsageError, before anything is asked for, for a name that
    there is not or a folder that is not named.
    """
    found = registry()
    wanted = resolve(names or default_names(found), found)
    require_folder(wanted, into or places.data_dir)
    jobs = Jobs(places, told, found)
    missing: dict[str, tuple[Thing, ...]] = {}
    for name, things in wanted.items():
        said = [jobs.here(thing) for thing in things]
        if None in said:
            missing[name] = things
        else:
            yield Fetched(name, f"already here: {', '.join(map(str, said))}")
    hosts = {name: hosts_of(things) for name, things in missing.items()}
    mute = {} if switch else silent(host for several in hosts.values() for host in several)
    for name, things in missing.items():
        error = refusal(name, things, hosts[name], switch, mute, jobs)
        if error is not None:
            yield Fetched(name, error=error)
            continue
        if into is not None and hosts[name]:
            into.mkdir(parents=True, exist_ok=True)
            jobs.places = replace(places, data_dir=into)
        try:
            line = ", ".join(jobs.bring(thing) for thing in things)
        except HarnessError as refused:
            yield Fetched(name, error=refused)
        else:
            yield Fetched(name, line)


def export_all(
    names: Sequence[str], places: Places, told: Progress, folder: Path
) -> Iterator[Fetched]:
    """Write assets that are here into a folder, by default all but those of packages.

    Raises UsageError for a name that there is not, AssetMissing for one that is not here.
    """
    found = registry()
    things = resolve(names or all_names(found), found).values()
    wanted = dict.fromkeys(thing for several in things for thing in several)
    parts = [carry.parts_of(thing, places) for thing in wanted if names or portable(thing, places)]
    if not parts:
        raise AssetMissing("nothing is here to export: harness fetch --list shows what there is")
    for name, line in carry.export(parts, folder, told):
        yield Fetched(name, line)


def import_all(
    places: Places, told: Progress, folder: Path, into: Path | None
) -> Iterator[Fetched]:
    """Put what such a folder holds into its places here, and check it.

    Raises UsageError for a folder that is none, DataError for one that is damaged.
    """
    found = registry()
    entries = carry.read_index(folder)
    if not entries:
        raise UsageError(f"--import {folder}: wanted a folder that harness fetch --export wrote")
    wanted = resolve((entry.name for entry in entries), found)
    require_folder(wanted, into)
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
    jobs = Jobs(replace(places, data_dir=into), told, found)
    for entry in entries:
        try:
            line = carry.bring_in(entry, wanted[entry.name][0], folder, jobs)
        except HarnessError as error:
            yield Fetched(entry.name, error=error)
        else:
            yield Fetched(entry.name, line)


def all_names(found: Registry) -> list[str]:
    """Every asset and every encoder."""
    return [*(asset.name for asset in every_asset()), *found.encoders]


def portable(thing: Thing, places: Places) -> bool:
    """Whether it is here, not trained, and not in a package: that is on the other machine too."""
    if isinstance(thing, Asset):
        return not thing.embedded and places.data(thing) is not None
    if isinstance(thing, Family):
        return False
    return places.has_encoder(thing) and packaged(thing) is None


def default_names(found: Registry) -> tuple[str, ...]:
    """The data sets that tasks score."""
    names = dict.fromkeys(task.asset for task in found.tasks.values())
    return tuple(name for name in names if not asset_named(name).embedded)


def resolve(names: Iterable[str], found: Registry) -> dict[str, tuple[Thing, ...]]:
    """What each name stands for: an asset, several in one download, an encoder, a repository.

    Raises UsageError for a name that is none of them.
    """
    assets = {asset.name: asset for asset in every_asset()}
    things: dict[str, tuple[Thing, ...]] = {name: (asset,) for name, asset in assets.items()}
    for name, parts in TOGETHER.items():
        things[name] = tuple(asset for asset in assets.values() if asset.name in parts)
    things |= {name: (vectors_of(config) or config,) for name, config in found.encoders.items()}
    wanted: dict[str, tuple[Thing, ...]] = {}
    for name in dict.fromkeys(names):
        by_hand = "/" in name and name not in things
        wanted[name] = (config_for(name, name, None),) if by_hand else known("asset", name, things)
    return wanted


def require_folder(wanted: Mapping[str, Iterable[Thing]], data_dir: Path | None) -> None:
    """Raise UsageError if something goes into a data folder and none is named."""
    for name, things in wanted.items():
        for thing in things:
            if isinstance(thing, Asset) and thing.probe and thing.downloads and data_dir is None:
                raise UsageError(f"fetch {name}: into which folder? give --data-dir DIR")


def hosts_of(things: Iterable[Thing]) -> list[str]:
    """The addresses that must answer; none for what has no download."""
    found: list[str] = []
    for thing in things:
        if isinstance(thing, Asset):
            found += [hub_address() if d.repo else d.address for d in thing.downloads]
        elif getattr(thing, "repo", None):
            found.append(hub_address())
    return found


def refusal(
    name: str,
    things: Sequence[Thing],
    hosts: Sequence[str],
    switch: str | None,
    mute: Mapping[str, str],
    jobs: Jobs,
) -> HarnessError | None:
    """Why nothing can be asked for: a switch, or hosts that do not answer."""
    reasons = [mute[host] for host in hosts if host in mute]
    if hosts and switch:
        offline = AssetMissing(f"{name}: {switch} is set, so nothing is downloaded")
        return next((jobs.complaints[t.name] for t in things if t.name in jobs.complaints), offline)
    if not reasons:
        return None
    first = things[0]
    by_hand = f"copy its files here and name them: --encoder {name}=PATH"
    if isinstance(first, Asset):
        several = len(hosts) > 1
        by_hand = "see by_hand in `harness list assets --json`" if several else first.by_hand
    return AssetMissing(
        f"{name} could not be downloaded ({reasons[0]}); check the network, carry it here with "
        f"--export and --import, or by hand: {by_hand}"
    )
