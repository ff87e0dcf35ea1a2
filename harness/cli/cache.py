"""`harness cache`: what the cache folder holds, and clearing it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import CacheDir, Folders, Json, command_group, option, say, say_rows
from harness.core.errors import HarnessError, UsageError
from harness.core.files import sized
from harness.core.terminal import duration
from harness.encoders.cache.gc import (
    CacheEntry,
    cache_size,
    cached_entries,
    clear,
    entries_named,
    shrink,
)

SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]

caching = command_group(
    "Encodings and what else runs keep to be quick: how much there is, and clearing it."
)


@caching.command("ls")
def list_cache(cache: CacheDir = None, as_json: Json = False) -> None:
    """List the cache: encoders, sizes, last use."""
    root = Folders(cache=cache).places().cache
    entries = cached_entries(root)[::-1]
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
    max_size: Annotated[str, option(help="Keep no more than so much, as 5GB or 500MiB.")],
    cache: CacheDir = None,
    dry_run: DryRun = False,
) -> None:
    """Remove what was unused for longest, to fit a size."""
    root, most = Folders(cache=cache).places().cache, bytes_in(max_size)
    if _say_cleared(root, shrink(root, most, dry_run), dry_run) > most:
        raise HarnessError(f"--max-size {max_size}: what is left is in use; run it again later")


@caching.command("rm")
def remove(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME|KEY",
            help="Encoders by name, or what harness cache ls shows by the beginning of its key.",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is cached.")] = False,
    cache: CacheDir = None,
    dry_run: DryRun = False,
) -> None:
    """Remove encoders from the cache; what is in use stays."""
    if bool(names) == everything:
        raise UsageError("give encoders or keys (harness cache ls shows them), or --all")
    root = Folders(cache=cache).places().cache
    entries = cached_entries(root)
    chosen = entries if everything else entries_named(entries, names or ())
    cleared = [(entry, clear(root, entry, dry_run)) for entry in chosen]
    _say_cleared(root, cleared, dry_run)
    if used := sum(not free for _, free in cleared):
        raise HarnessError(f"{used} of {len(cleared)} are in use and were kept; run it again later")


def bytes_in(text: str) -> int:
    """Bytes in a size as people write it. Raises UsageError for what is none."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--max-size {text[:60]}: wanted a size as 5GB, 500MiB or 0")
    number, unit, binary = match.groups()
    power = " kmgt".index(unit.lower() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)


def _say_cleared(root: Path, cleared: Iterable[tuple[CacheEntry, bool]], dry_run: bool) -> int:
    """Say each entry as it is cleared, or kept; the bytes that are left, or would be."""
    would = 0
    for entry, free in cleared:
        did = "would remove" if dry_run else "removed"
        say(f"{did} {entry}" if free else f"{entry}: in use, kept")
        would += entry.bytes if free and dry_run else 0
    left = cache_size(root) - would
    say(f"{sized(left)} {'would be' if dry_run else 'are'} cached in {root}")
    return left


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
