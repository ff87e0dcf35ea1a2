"""The addresses that a fetch would ask, in order: listed without a network, or looked at.

`harness fetch --dry-run` lists them for somebody with a browser; `--check` asks for
each by HEAD and says which of them are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.assets.catalogue import KNOWN_FILES, Asset, AssetPart, Source
from harness.assets.fetch import hub
from harness.assets.fetch.http import look_at
from harness.core.errors import HarnessError
from harness.core.files import sized
from harness.core.interfaces import EncoderConfig, Hub

CONCURRENT_REQUESTS = 16  # addresses that are asked for at the same time


@dataclass(frozen=True, kw_only=True)
class Address:
    """An address of one source of a part of an asset, or of an encoder's repository."""

    asset: str
    part: str
    source: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Looked:
    """An answer to the question whether a file is at an address.

    Attributes:
        address: The address that was asked.
        alive: Whether a file is there.
        answer: The size of the file, or the error.
    """

    address: Address
    alive: bool
    answer: str


def addresses_of(thing: Asset | EncoderConfig) -> tuple[Address, ...]:
    """What fetching a thing may ask, in order; nothing for what is not public."""
    if isinstance(thing, Asset):
        return tuple(_of_asset(thing))
    source = thing.source
    if not isinstance(source, Hub):
        return ()
    repository = Address(
        asset=thing.name,
        part="model",
        source=f"hub {source.repo}",
        url=hub.model_address(source),
    )
    return (repository,)


def _of_asset(asset: Asset) -> Iterator[Address]:
    for part in asset.every_part:
        for source in part.sources:
            yield from _of_source(asset, part, source)


def _of_source(asset: Asset, part: AssetPart, source: Source) -> Iterator[Address]:
    """The addresses of a part at one source, each once."""
    asked: set[str] = set()
    for download in part.downloads_of(source):
        url = hub.address_of(download)
        if url in asked:
            continue
        asked.add(url)
        yield Address(
            asset=asset.name,
            part=part.name,
            source=source.name,
            url=url,
            sha256=download.sha256,
        )


def look(addresses: Iterable[Address]) -> list[Looked]:
    """Ask for each address once, many at the same time."""
    asked = list(addresses)
    urls = list(dict.fromkeys(address.url for address in asked))
    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        answers = dict(zip(urls, pool.map(_look_at, urls), strict=True))
    looked = []
    for address in asked:
        alive, answer = answers[address.url]
        looked.append(Looked(address=address, alive=alive, answer=answer))
    return looked


def _look_at(url: str) -> tuple[bool, str]:
    """Whether a file is at an address, and its size or the error."""
    try:
        seen = look_at(url, hub.headers() if hub.is_of_hub(url) else None)
    except HarnessError as error:
        return False, str(error)
    return True, sized(seen.size) if seen.size else "there"


def parts_without(looked: Iterable[Looked]) -> list[tuple[str, str]]:
    """The parts of assets of which no source has all files, by asset and part."""
    sources: dict[tuple[str, str], dict[str, bool]] = {}
    for one in looked:
        address = one.address
        alive_by_source = sources.setdefault((address.asset, address.part), {})
        alive_by_source[address.source] = (
            alive_by_source.get(address.source, True) and one.alive
        )
    return [part for part, alive in sources.items() if not any(alive.values())]


def listing(thing: Asset | EncoderConfig) -> list[str]:
    """What would be asked for a thing, and the files that come of it, in lines for people."""
    if not isinstance(thing, Asset):
        lines = [
            f"  1. {address.source}: {address.url}" for address in addresses_of(thing)
        ]
        return [f"{thing.name}: {thing.source}", *lines]
    if not thing.every_part:
        return [f"{thing.name}: no address; {thing.source}: {thing.get}"]
    lines = [f"{thing.name}: {thing.what} ({thing.pinned})"]
    for part in thing.every_part:
        lines += [f"  {part.name}", *_sources(thing, part), *_files(part)]
    return lines


def _sources(asset: Asset, part: AssetPart) -> Iterator[str]:
    for number, source in enumerate(part.sources, start=1):
        yield f"    {number}. {source.name}"
        for address in _of_source(asset, part, source):
            yield f"       {address.url}{_digest(address.sha256)}"


def _files(part: AssetPart) -> Iterator[str]:
    for path in part.paths:
        known_file = KNOWN_FILES.get(path)
        yield f"    -> {path}{_digest(known_file.sha256 if known_file else None)}"


def _digest(sha256: str | None) -> str:
    return f" sha256 {sha256}" if sha256 else ""
