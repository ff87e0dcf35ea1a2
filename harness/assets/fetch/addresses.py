"""The addresses that `harness fetch` would ask, in their order.

`harness fetch --dry-run` lists them without a network, for somebody with a browser.
With `--check` it asks each of them by HEAD, and says which of them have a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.assets.catalogue import KNOWN_FILES, Asset, AssetPart, Source
from harness.assets.fetch.download import Answer, address_of, ask_for
from harness.assets.fetch.models import model_address
from harness.core.interfaces import EncoderConfig, Hub

CONCURRENT_REQUESTS = 16


@dataclass(frozen=True, kw_only=True)
class Address:
    """An address of one source of a part of an asset, or of an encoder's repository."""

    asset: str
    part: str
    source: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True)
class CheckedAddress:
    """An address and the answer of its host."""

    address: Address
    answer: Answer


# The addresses


def addresses_of(item: Asset | EncoderConfig) -> tuple[Address, ...]:
    """The addresses that fetching an item may ask, in order; none if it is not public."""
    if isinstance(item, Asset):
        return tuple(_addresses_of_asset(item))
    source = item.source
    if not isinstance(source, Hub):
        return ()
    repository = Address(
        asset=item.name,
        part="model",
        source=f"hub {source.repo}",
        url=model_address(source),
    )
    return (repository,)


def _addresses_of_asset(asset: Asset) -> Iterator[Address]:
    """The addresses of all parts of an asset at all their sources."""
    for part in asset.every_part:
        for source in part.sources:
            yield from _addresses_at_source(asset, part, source)


def _addresses_at_source(
    asset: Asset, part: AssetPart, source: Source
) -> Iterator[Address]:
    """The addresses of a part at one source, each once."""
    listed_urls: set[str] = set()
    for download in part.downloads_of(source):
        url = address_of(download)
        if url in listed_urls:
            continue
        listed_urls.add(url)
        yield Address(
            asset=asset.name,
            part=part.name,
            source=source.name,
            url=url,
            sha256=download.sha256,
        )


# Asking for them


def ask_addresses(addresses: Iterable[Address]) -> list[CheckedAddress]:
    """Ask for each address once, many at the same time."""
    addresses = list(addresses)
    urls = list(dict.fromkeys(address.url for address in addresses))
    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        answers = dict(zip(urls, pool.map(ask_for, urls), strict=True))
    return [CheckedAddress(address, answers[address.url]) for address in addresses]


def parts_without_source(
    checked_addresses: Sequence[CheckedAddress],
) -> list[tuple[str, str]]:
    """The parts that no source has all files of, each as the names of asset and part."""
    # Of each part, whether its sources have all files, by the names of the sources.
    sources_by_part: dict[tuple[str, str], dict[str, bool]] = {}
    for checked in checked_addresses:
        address = checked.address
        sources = sources_by_part.setdefault((address.asset, address.part), {})
        has_earlier_files = sources.get(address.source, True)
        sources[address.source] = has_earlier_files and checked.answer.alive
    return [
        part for part, sources in sources_by_part.items() if not any(sources.values())
    ]


# The lines of `--dry-run`


def listing(item: Asset | EncoderConfig) -> list[str]:
    """The addresses of an item, and the files that are made of the downloads, as lines."""
    if not isinstance(item, Asset):
        addresses = addresses_of(item)
        lines = [f"  1. {address.source}: {address.url}" for address in addresses]
        return [f"{item.name}: {item.source}", *lines]
    if not item.every_part:
        return [f"{item.name}: no address; {item.source}: {item.get}"]
    lines = [f"{item.name}: {item.what} ({item.pinned})"]
    for part in item.every_part:
        lines.append(f"  {part.name}")
        for number, source in enumerate(part.sources, start=1):
            lines.append(f"    {number}. {source.name}")
            for address in _addresses_at_source(item, part, source):
                lines.append(f"       {address.url}{_digest_suffix(address.sha256)}")
        for path in part.paths:
            sha256 = KNOWN_FILES[path].sha256 if path in KNOWN_FILES else None
            lines.append(f"    -> {path}{_digest_suffix(sha256)}")
    return lines


def _digest_suffix(sha256: str | None) -> str:
    """The end of a line with an address or a path: the digest, if it is known."""
    return f" sha256 {sha256}" if sha256 else ""
