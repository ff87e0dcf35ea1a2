"""`harness cache`: what the cache folder holds, and clearing it."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import CacheDir, Json, say, tabled
from harness.core.errors import HarnessError, UsageError

caching = typer.Typer(
    help="Encodings and what else runs keep to be quick: how much there is, and clearing it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)
LONGEST = 20  # digits of a size
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]


@caching.command("ls")
def list_(cache: CacheDir = None, as_json: Json = False) -> None:
    """List the cache: encoders, sizes, last use."""
    from harness.encoders.cache.gc import entries, leftovers

    root = _root(cache)
    cached, unfinished = entries(root)[::-1], leftovers(root, time.time())
    if not as_json:
        say(_table(root, cached, unfinished))
        return
    rows = [{**asdict(entry), "last_used": _date(entry.last_used)} for entry in cached]
    rest = [{"kind": e.kind, "path": str(root / e.key), "bytes": e.bytes} for e in unfinished]
    say(json.dumps(rows + rest, indent=1))


@caching.command("gc")
def collect(
    max_size: Annotated[
        str | None,
        typer.Option(help="Keep no more than so much, as 5GB or 500MiB.", show_default=False),
    ] = None,
    cache: CacheDir = None,
    dry_run: DryRun = False,
) -> None:
    """Remove what crashes left and, to fit a size, what was unused for longest."""
    from harness.core.files import sized
    from harness.encoders.cache.gc import shrink, tidy

    root, most = _root(cache), None if max_size is None else bytes_in(max_size)
    shrunk = () if most is None else shrink(root, most, dry_run)
    _, left = _tell(root, chain(tidy(root, time.time(), dry_run), shrunk), dry_run)
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
    from harness.encoders.cache.gc import choose, clear, entries, tidy

    if bool(names) == everything:
        raise UsageError("give encoders or keys (harness cache ls shows them), or --all")
    root = _root(cache)
    every = entries(root)
    chosen = every if everything else choose(every, names or ())
    cleared = (clear(root, entry, dry_run) for entry in chosen)
    tidied = tidy(root, time.time(), dry_run) if everything else ()
    done, _ = _tell(root, chain(cleared, tidied), dry_run)
    if used := sum(one.in_use for one in done):
        raise HarnessError(f"{used} of {len(done)} are in use and were kept; run it again later")


def bytes_in(text: str) -> int:
    """Bytes in a size as people write it. Raises UsageError for what is none."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--max-size {text}: wanted a size as 5GB, 500MiB or 0")
    number, unit, binary = match.groups()
    if len(number) > LONGEST:
        raise UsageError(f"--max-size: wanted a number of {LONGEST} digits at most, found more")
    power = " kmgt".index(unit.lower() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)


def _root(cache: Path | None) -> Path:
    from harness.assets.places import Places

    return Places.from_environment(os.environ, cache=cache).cache


def _tell(root: Path, cleared: Iterable[Any], dry_run: bool) -> tuple[list[Any], int]:
    """Say each as it is done, and how many bytes are left, or would be; return both."""
    from harness.core.files import sized
    from harness.encoders.cache.gc import size

    done = []
    for one in cleared:
        did = "would remove" if dry_run else "removed"
        say(f"{one.what}: in use, kept" if one.in_use else f"{did} {one.what}")
        done.append(one)
    would = [d.what for d in done if dry_run and not d.in_use and d.what.kind != "leftover"]
    left = size(root) - sum(entry.bytes for entry in would)
    said = "" if done else "nothing to remove; "
    say(f"{said}{sized(left)} {'would be' if would else 'are'} cached in {root}")
    return done, left


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _table(root: Path, found: list[Any], crashed: list[Any]) -> str:
    """The entries of the cache as a table, the last used first."""
    from harness.core.files import sized
    from harness.core.terminal import duration

    total = sum(entry.bytes for entry in found)
    lines = [f"{sized(total)} in {root}" if found else f"nothing is cached in {root}"]
    head = ["encoder", "key", "sentences", "took", "encodings", "moments", "rows", "last used, UTC"]
    encoders = [
        [
            ", ".join(e.names) or "unknown",
            e.key[:12],
            f"{e.sentences:,}",
            duration(e.seconds),
            *(sized(n) if n else "" for n in (e.bytes - e.moments - e.rows, e.moments, e.rows)),
            _date(e.last_used),
        ]
        for e in found
        if e.kind == "encoder"
    ]
    others = [
        [e.called, e.key[:12], sized(e.bytes), _date(e.last_used)]
        for e in found
        if e.kind != "encoder"
    ]
    for rows, names in ((encoders, head), (others, ["beside", "key", "bytes", head[-1]])):
        if rows:
            sides = ["left", "left", *["right"] * (len(names) - 3), "left"]
            lines += ["", tabled(rows, names, sides)]
    if crashed:
        wasted = sized(sum(leftover.bytes for leftover in crashed))
        lines += ["", f"{len(crashed)} leftovers of crashes, {wasted}: harness cache gc"]
    return "\n".join(lines)
