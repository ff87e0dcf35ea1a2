"""`harness cache`: what the cache folder holds, and clearing it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import CacheDir, Folders, Json, command_group, option, say, say_rows
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
    entries = gc.cached_entries(root)[::-1]
    if as_json:
        say_rows([{**asdict(e), "last_used": _date(e.last_used)} for e in entries], as_json)
        return
    total = sized(sum(entry.bytes for entry in entries))
    say(f"{total} in {root}\n" if entries else f"nothing is cached in {root}")
    rows = [
        {
            "cached": entry.called,
            "key": entry.key[:12],
            "sentences": f"{entry.sentences:,}" if entry.kind == "encoder" else "",
            "took": duration(entry.seconds) if entry.kind == "encoder" else "",
            "bytes": sized(entry.bytes),
            "last used, UTC": _date(entry.last_used),
        }
        for entry in entries
    ]
    if rows:
        say_rows(rows)


@caching.command("gc")
def collect(
    max_size: Annotated[
        float, option(min=0, max=1e6, metavar="GB", help="Maximum size of the cache.")
    ],
    cache: CacheDir = None,
) -> None:
    """Remove the least recently used encodings, to fit a size."""
    root, most = Folders(cache=cache).places().cache, int(max_size * GIGABYTE)
    if _say_cleared(root, gc.shrink(root, most)) > most:
        raise HarnessError(f"--max-size {max_size}: what is left is in use; run it again later")


@caching.command("rm")
def remove(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|KEY", help="Names of encoders, or prefixes of keys (harness cache ls)."
        ),
    ],
    cache: CacheDir = None,
) -> None:
    """Remove encoders from the cache, except those in use."""
    root = Folders(cache=cache).places().cache
    chosen = gc.entries_named(gc.cached_entries(root), names)
    cleared = [(entry, gc.clear(root, entry)) for entry in chosen]
    _say_cleared(root, cleared)
    if used := sum(not free for _, free in cleared):
        raise HarnessError(f"{used} of {len(cleared)} are in use and were kept; run it again later")


def _say_cleared(root: Path, cleared: Iterable[tuple[gc.CacheEntry, bool]]) -> int:
    """Say each entry as it is removed, or kept; the bytes that are left."""
    for entry, free in cleared:
        say(f"removed {entry}" if free else f"{entry}: in use, kept")
    left = gc.cache_size(root)
    say(f"{sized(left)} are cached in {root}")
    return left


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
