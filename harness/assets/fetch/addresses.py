"""The addresses that a fetch would ask, in order: listed without a network, or looked at.

`harness fetch --dry-run` lists them for somebody with a browser; `--check` asks for each by HEAD
and says which of them are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.assets.catalogue import FILES, Asset, AssetPart
from harness.assets.fetch import hub
from harness.assets.fetch.http import look_at
from harness.core.errors import HarnessError
from harness.core.files import sized
from harness.core.interfaces import EncoderConfig, Hub

AT_ONCE = 16  # addresses that are asked for at the same time


@dataclass(frozen=True)
class Address:
    """An address of one source of a part of an asset, or of an encoder's repository."""

    asset: str
    part: str
    source: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True)
class Looked:
    """What was found at an address: whether a file is there, and its size or what is wrong."""

    address: Address
    alive: bool
    found: str


def addresses_of(thing: Asset | EncoderConfig) -> tuple[Address, ...]:
    """What fetching a thing may ask, in order; nothing for what is not public."""
    if isinstance(thing, Asset):
        return tuple(_of_asset(thing))
    source = thing.source
    if not isinstance(source, Hub):
        return ()
    return (Address(thing.name, "model", f"hub {source.repo}", hub.model_address(source)),)


def _of_asset(asset: Asset) -> Iterator[Address]:
    for part in asset.every_part:
        for source in part.sources:
            asked: set[str] = set()
            for download in part.downloads_of(source):
                url = hub.address_of(download)
                if url not in asked:
                    asked.add(url)
                    yield Address(asset.name, part.name, source.name, url, download.sha256)


def look(addresses: Iterable[Address]) -> list[Looked]:
    """Ask for each address once, many at the same time."""
    asked = list(addresses)
    urls = list(dict.fromkeys(address.url for address in asked))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(urls, pool.map(_look_at, urls), strict=True))
    return [Looked(address, *found[address.url]) for address in asked]


def _look_at(url: str) -> tuple[bool, str]:
    try:
        seen = look_at(url, hub.headers() if hub.is_of_hub(url) else None)
    except HarnessError as error:
        return False, str(error)
    return True, sized(seen.size) if seen.size else "there"


def parts_without(looked: Iterable[Looked]) -> list[tuple[str, str]]:
    """The parts of assets of which no source has all files, by asset and part."""
    sources: dict[tuple[str, str], dict[str, bool]] = {}
    for found in looked:
        of_part = sources.setdefault((found.address.asset, found.address.part), {})
        source = found.address.source
        of_part[source] = of_part.get(source, True) and found.alive
    return [part for part, alive in sources.items() if not any(alive.values())]


def listing(thing: Asset | EncoderConfig) -> list[str]:
    """What would be asked for a thing, and the files that come of it, in lines for people."""
    if not isinstance(thing, Asset):
        of_hub = [f"  1. {address.source}: {address.url}" for address in addresses_of(thing)]
        return [f"{thing.name}: {thing.source}", *of_hub]
    if not thing.every_part:
        return [f"{thing.name}: no address; {thing.source}: {thing.get}"]
    lines = [f"{thing.name}: {thing.what} ({thing.pinned})"]
    for part in thing.every_part:
        lines += [f"  {part.name}", *_sources(thing, part), *_files(part)]
    return lines


def _sources(asset: Asset, part: AssetPart) -> Iterator[str]:
    for number, source in enumerate(part.sources, start=1):
        yield f"    {number}. {source.name}"
        every = (address for address in _of_asset(asset) if address.part == part.name)
        for address in every:
            if address.source == source.name:
                yield f"       {address.url}" + f" sha256 {address.sha256}" * bool(address.sha256)


def _files(part: AssetPart) -> Iterator[str]:
    for path in part.paths:
        yield f"    -> {path}" + (f" sha256 {FILES[path].sha256}" if path in FILES else "")
