"""`harness cache`: what the cache folder holds, and clearing it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import CacheDir, Folders, Json, command_group, option, say, say_rows
from harness.core.errors import HarnessError, UsageError
from harness.core.files import sized
from harness.core.terminal import duration
from harness.encoders.cache.gc import (
    Cleared,
    Entry,
    choose,
    clear,
    entries,
    leftovers,
    shrink,
    size,
    tidy,
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
    cached, crashed = entries(root)[::-1], leftovers(root, time.time())
    if as_json:
        rows = [{**asdict(entry), "last_used": _date(entry.last_used)} for entry in cached]
        rows += [{"kind": e.kind, "path": str(root / e.key), "bytes": e.bytes} for e in crashed]
        say_rows(rows, as_json)
        return
    total = sized(sum(entry.bytes for entry in cached))
    say(f"{total} in {root}" if cached else f"nothing is cached in {root}")
    for encoders in (True, False):
        if rows := [_row(entry) for entry in cached if (entry.kind == "encoder") == encoders]:
            say()
            say_rows(rows)
    if crashed:
        wasted = sized(sum(leftover.bytes for leftover in crashed))
        say(f"\n{len(crashed)} leftovers of crashes, {wasted}: harness cache gc")


def _row(entry: Entry) -> dict[str, str]:
    used = {"last used, UTC": _date(entry.last_used)}
    if entry.kind != "encoder":
        return {"beside": entry.called, "key": entry.key[:12], "bytes": sized(entry.bytes), **used}
    encodings = entry.bytes - entry.moments - entry.rows
    parts = {"encodings": encodings, "moments": entry.moments, "rows": entry.rows}
    return {
        "encoder": ", ".join(entry.names) or "unknown",
        "key": entry.key[:12],
        "sentences": f"{entry.sentences:,}",
        "took": duration(entry.seconds),
        **{part: sized(count) if count else "" for part, count in parts.items()},
        **used,
    }


@caching.command("gc")
def collect(
    max_size: Annotated[
        str | None, option(help="Keep no more than so much, as 5GB or 500MiB.")
    ] = None,
    cache: CacheDir = None,
    dry_run: DryRun = False,
) -> None:
    """Remove what crashes left and, to fit a size, what was unused for longest."""
    root = Folders(cache=cache).places().cache
    most = None if max_size is None else bytes_in(max_size)
    shrunk = () if most is None else shrink(root, most, dry_run)
    _, left = _say_cleared(root, chain(tidy(root, time.time(), dry_run), shrunk), dry_run)
    if most is not None and left > most:
        raise HarnessError(
            f"--max-size {max_size}: {sized(left)} are left, since what else is there is in use; "
            "run it again later"
        )


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
    cached = entries(root)
    chosen = cached if everything else choose(cached, names or ())
    cleared = (clear(root, entry, dry_run) for entry in chosen)
    crashed = tidy(root, time.time(), dry_run) if everything else ()
    done, _ = _say_cleared(root, chain(cleared, crashed), dry_run)
    if used := sum(entry.in_use for entry in done):
        raise HarnessError(f"{used} of {len(done)} are in use and were kept; run it again later")


def bytes_in(text: str) -> int:
    """Bytes in a size as people write it. Raises UsageError for what is none."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--max-size {text[:60]}: wanted a size as 5GB, 500MiB or 0")
    number, unit, binary = match.groups()
    power = " kmgt".index(unit.lower() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)


def _say_cleared(
    root: Path, cleared: Iterable[Cleared], dry_run: bool
) -> tuple[list[Cleared], int]:
    """Say each as it is done, and how many bytes are left, or would be; return both."""
    done = []
    for entry in cleared:
        did = "would remove" if dry_run else "removed"
        say(f"{entry.what}: in use, kept" if entry.in_use else f"{did} {entry.what}")
        done.append(entry)
    would = [d.what for d in done if dry_run and not d.in_use and d.what.kind != "leftover"]
    left = size(root) - sum(entry.bytes for entry in would)
    nothing = "" if done else "nothing to remove; "
    say(f"{nothing}{sized(left)} {'would be' if would else 'are'} cached in {root}")
    return done, left


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
