"""Assets fetched, exported and imported by name, each with a line about it or an error.

Models go to the hub cache, rows to that of `datasets`, files into the data folder in the layout
that the tasks read. What arrives is compared with every digest that is known: of the bytes, of the
hub's blobs, of the rows that are read, or of what came the first time. What is here and passes is
not asked for again. Offline, or without a network, the answer comes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.assets.asset import Asset
from harness.assets.fetch import offline
from harness.assets.fetch.jobs import Jobs, Thing
from harness.assets.fetch.network import hub_address, silent
from harness.assets.places import Places, packaged
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.sources import Hub, VectorFile


@dataclass(frozen=True)
class Fetched:
    """The outcome for one name: a line about it, or the error that kept it away."""

    name: str
    line: str = ""
    error: HarnessError | None = None


def fetch_all(
    wanted: Mapping[str, tuple[Thing, ...]],
    jobs: Jobs,
    into: Path | None = None,
    switch: str | None = None,
) -> Iterator[Fetched]:
    """Fetch the assets and encoders that each name stands for.

    `into` is the data folder, made when something is downloaded into it; `switch` is what forbids
    downloads, if anything does. Raises UsageError, before anything is asked for, where something
    goes into a data folder and none is named.
    """
    require_folder(wanted, into or jobs.places.data_dir)
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
        try:
            refuse(name, things, hosts[name], switch, mute, jobs)
            if into is not None and hosts[name]:
                into.mkdir(parents=True, exist_ok=True)
                jobs.places = replace(jobs.places, data_dir=into)
            yield Fetched(name, ", ".join(jobs.bring(thing) for thing in things))
        except HarnessError as error:
            yield Fetched(name, error=error)


def export_all(things: Iterable[Thing], jobs: Jobs, folder: Path) -> Iterator[Fetched]:
    """Write assets into a folder, from which another machine imports them.

    Raises AssetMissing for one that is not here, and where there is none at all.
    """
    files = {thing: offline.files_of(thing, jobs.places) for thing in things}
    if not files:
        raise AssetMissing("nothing is here to export: harness fetch --list shows what there is")
    for thing in files:
        yield Fetched(thing.name, offline.export(thing, files[thing], folder, jobs))


def import_all(
    resolve: Callable[[Iterable[str]], Mapping[str, tuple[Thing, ...]]],
    jobs: Jobs,
    folder: Path,
    into: Path | None,
) -> Iterator[Fetched]:
    """Put what an exported folder holds into its places here, and check it.

    `resolve` gives what names stand for. Raises UsageError for a folder that was not exported,
    DataError for one that is damaged.
    """
    entries = offline.read_index(folder)
    if not entries:
        raise UsageError(f"--import {folder}: wanted a folder that harness fetch --export wrote")
    wanted = resolve(entry.name for entry in entries)
    require_folder(wanted, into)
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
    jobs.places = replace(jobs.places, data_dir=into)
    for entry in entries:
        try:
            line = offline.bring_in(entry, wanted[entry.name][0], folder, jobs)
            yield Fetched(entry.name, line)
        except HarnessError as error:
            yield Fetched(entry.name, error=error)


def portable(thing: Thing, places: Places) -> bool:
    """Whether it is here, not trained, and not in a package: that is on the other machine too."""
    if isinstance(thing, Asset):
        return not thing.embedded and places.data(thing) is not None
    downloaded = isinstance(thing.source, Hub | VectorFile)
    return downloaded and places.has_encoder(thing) and packaged(thing) is None


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
        elif isinstance(thing.source, Hub):
            found.append(hub_address())
    return found


def refuse(
    name: str,
    things: Sequence[Thing],
    hosts: Sequence[str],
    switch: str | None,
    mute: Mapping[str, str],
    jobs: Jobs,
) -> None:
    """Raise the error that nothing can be asked for: a switch, or hosts that do not answer."""
    if hosts and switch:
        offline = AssetMissing(f"{name}: {switch} is set, so nothing is downloaded")
        raise next((jobs.complaints[t.name] for t in things if t.name in jobs.complaints), offline)
    reason = next((mute[host] for host in hosts if host in mute), None)
    if reason is None:
        return
    first = things[0]
    by_hand = f"copy its files here and name them: --encoder {name}=PATH"
    if isinstance(first, Asset):
        several = len(hosts) > 1
        by_hand = "see by_hand in `harness list assets --json`" if several else first.by_hand
    raise AssetMissing(
        f"{name} could not be downloaded ({reason}); check the network, carry it here with "
        f"--export and --import, or by hand: {by_hand}"
    )
