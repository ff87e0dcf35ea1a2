"""`harness cache`: what the cache folder holds, and clearing it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import CacheDir, Folders, Json, option, say, say_rows
from harness.cli.parsing import command_group
from harness.core.errors import HarnessError
from harness.core.files import sized
from harness.core.terminal import duration
from harness.encoders.cache import gc

GIGABYTE = 10**9

caching = command_group("Show or clear the cache of encodings.")


@caching.command("ls")
def list_cache(cache: CacheDir = None, as_json: Json = False) -> None:
    """List the cache: encoders, sizes, last use."""
    root = Folders(cache=cache).places().cache
    entries = list(reversed(gc.cached_entries(root)))  # the most recently used first
    if as_json:
        say_rows([_entry_facts(entry) for entry in entries], as_json)
        return
    if not entries:
        say(f"nothing is cached in {root}")
        return
    say(f"{sized(sum(entry.bytes for entry in entries))} in {root}\n")
    say_rows([_entry_row(entry) for entry in entries])


def _entry_facts(entry: gc.CacheEntry) -> dict[str, Any]:
    """An entry for a program."""
    facts = asdict(entry)
    facts["last_used"] = _utc_time(entry.last_used)
    return facts


def _entry_row(entry: gc.CacheEntry) -> dict[str, str]:
    """An entry as a row for people."""
    is_encoder = entry.kind == "encoder"
    return {
        "cached": entry.description,
        "key": entry.key[:12],
        "sentences": f"{entry.sentences:,}" if is_encoder else "",
        "took": duration(entry.seconds) if is_encoder else "",
        "bytes": sized(entry.bytes),
        "last used, UTC": _utc_time(entry.last_used),
    }


@caching.command("gc")
def collect(
    max_size: Annotated[
        float, option(min=0, max=1e6, metavar="GB", help="Maximum size of the cache.")
    ],
    cache: CacheDir = None,
) -> None:
    """Remove the least recently used encodings, to fit a size."""
    root = Folders(cache=cache).places().cache
    most_bytes = int(max_size * GIGABYTE)
    _say_cleared(root, gc.shrink(root, most_bytes))
    if gc.cache_size(root) > most_bytes:
        raise HarnessError(
            f"--max-size {max_size}: what is left is in use; run it again later"
        )


@caching.command("rm")
def remove(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|KEY",
            help="Names of encoders, or prefixes of keys (harness cache ls).",
        ),
    ],
    cache: CacheDir = None,
) -> None:
    """Remove encoders from the cache, except those in use."""
    root = Folders(cache=cache).places().cache
    entries = gc.entries_named(gc.cached_entries(root), names)
    outcomes = [(entry, gc.clear(root, entry)) for entry in entries]
    _say_cleared(root, outcomes)
    kept_count = sum(not is_removed for _, is_removed in outcomes)
    if kept_count:
        raise HarnessError(
            f"{kept_count} of {len(entries)} are in use and were kept; run it again later"
        )


def _say_cleared(root: Path, outcomes: Iterable[tuple[gc.CacheEntry, bool]]) -> None:
    """Print each entry as it is removed, or kept; then how much is cached."""
    for entry, is_removed in outcomes:
        say(f"removed {entry}" if is_removed else f"{entry}: in use, kept")
    say(f"{sized(gc.cache_size(root))} are cached in {root}")


def _utc_time(seconds: float) -> str:
    """Seconds since the epoch as date and minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
