"""`harness cache`: what the cache folder holds, and clearing it. `harness reference`: scores of
other programs beside ours."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import (
    CacheDir,
    Json,
    Results,
    option,
    say,
    tabled,
)
from harness.cli.selection import Folders
from harness.core.errors import HarnessError, UsageError
from harness.core.files import sized, write_atomically
from harness.core.terminal import duration
from harness.results.conformance import compare_all, read_reference
from harness.results.layout import REFERENCES

SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)
ENCODERS = (
    "encoder", "key", "sentences", "took", "encodings", "moments", "rows", "last used, UTC",
)  # fmt: skip
CONVERTED = ("beside", "key", "bytes", "last used, UTC")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]

caching = typer.Typer(
    help="Encodings and what else runs keep to be quick: how much there is, and clearing it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
reference = typer.Typer(
    help="Scores of other programs beside ours: results/references, shown by harness report.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


# The cache


@caching.command("ls")
def list_cache(cache: CacheDir = None, as_json: Json = False) -> None:
    """List the cache: encoders, sizes, last use."""
    from harness.encoders.cache.gc import entries, leftovers

    root = Folders(cache=cache).places().cache
    cached, crashed = entries(root)[::-1], leftovers(root, time.time())
    if as_json:
        rows = [{**asdict(entry), "last_used": _date(entry.last_used)} for entry in cached]
        rows += [{"kind": e.kind, "path": str(root / e.key), "bytes": e.bytes} for e in crashed]
        say(json.dumps(rows, indent=1))
        return
    total = sized(sum(entry.bytes for entry in cached))
    say(f"{total} in {root}" if cached else f"nothing is cached in {root}")
    encoders = [
        [
            ", ".join(e.names) or "unknown",
            e.key[:12],
            f"{e.sentences:,}",
            duration(e.seconds),
            *(sized(n) if n else "" for n in (e.bytes - e.moments - e.rows, e.moments, e.rows)),
            _date(e.last_used),
        ]
        for e in cached
        if e.kind == "encoder"
    ]
    others = [
        [e.called, e.key[:12], sized(e.bytes), _date(e.last_used)]
        for e in cached
        if e.kind != "encoder"
    ]
    for cells, head in ((encoders, ENCODERS), (others, CONVERTED)):
        if cells:
            say("\n" + tabled(cells, head, ["left", "left", *["right"] * (len(head) - 3), "left"]))
    if crashed:
        wasted = sized(sum(leftover.bytes for leftover in crashed))
        say(f"\n{len(crashed)} leftovers of crashes, {wasted}: harness cache gc")


@caching.command("gc")
def collect(
    max_size: Annotated[
        str | None, option(help="Keep no more than so much, as 5GB or 500MiB.")
    ] = None,
    cache: CacheDir = None,
    dry_run: DryRun = False,
) -> None:
    """Remove what crashes left and, to fit a size, what was unused for longest."""
    from harness.encoders.cache.gc import shrink, tidy

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
    from harness.encoders.cache.gc import choose, clear, entries, tidy

    if bool(names) == everything:
        raise UsageError("give encoders or keys (harness cache ls shows them), or --all")
    root = Folders(cache=cache).places().cache
    cached = entries(root)
    chosen = cached if everything else choose(cached, names or ())
    cleared = (clear(root, entry, dry_run) for entry in chosen)
    leftovers = tidy(root, time.time(), dry_run) if everything else ()
    done, _ = _say_cleared(root, chain(cleared, leftovers), dry_run)
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


def _say_cleared(root: Path, cleared: Iterable[Any], dry_run: bool) -> tuple[list[Any], int]:
    """Say each as it is done, and how many bytes are left, or would be; return both."""
    from harness.encoders.cache.gc import size

    done = []
    for one in cleared:
        did = "would remove" if dry_run else "removed"
        say(f"{one.what}: in use, kept" if one.in_use else f"{did} {one.what}")
        done.append(one)
    would = [d.what for d in done if dry_run and not d.in_use and d.what.kind != "leftover"]
    left = size(root) - sum(entry.bytes for entry in would)
    nothing = "" if done else "nothing to remove; "
    say(f"{nothing}{sized(left)} {'would be' if would else 'are'} cached in {root}")
    return done, left


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


# References


@reference.command()
def add(
    file: Annotated[Path, typer.Argument(help="A reference in JSON (docs/how-to/reference.md).")],
    results: Results = Path("results"),
) -> None:
    """Check a reference, show it beside our records, and take it into results/references."""
    from harness.report.pages import comparison_table

    given, place = read_reference(file), results / REFERENCES / file.name
    if place.exists() and place.read_bytes() != file.read_bytes():
        raise UsageError(f"{place} holds another reference; rename {file}, or remove that one")
    say(comparison_table(compare_all([given], results)[0][1]))
    write_atomically(place, file.read_bytes())
    scores = sum(len(cell.scores) for cell in given.cells)
    say(f"{place}: {scores} scores; harness report shows it")
