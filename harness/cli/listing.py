"""`harness list`: what there is, as rows for a person or a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.assets.catalogue import HUB, Asset
from harness.assets.places import Places, every_asset, first_seen, packaged, pinned_by
from harness.cli.options import (
    DataDir,
    Json,
    beginning,
    completed_tables,
    flattened,
    say,
    tabled,
)
from harness.cli.selection import Folders, Sources
from harness.core.errors import UsageError
from harness.core.files import rows_digest
from harness.core.interfaces import EncoderConfig, Hub, Packaged, Pooling, Trained, VectorFile
from harness.registry import Registry, look_up
from harness.resolve import Resolver
from harness.results.index import Results as Index
from harness.results.index import main_path
from harness.results.published import Table, load_tables, published_table
from harness.results.records import Store
from harness.tasks.loader import TARGETS

Row = dict[str, Any]
LAYERS = 12  # of BERT-base, for which the layers of a pooling are named
TOO_LONG = {"places", "downloads"}  # for a table; a program gets them
KINDS = (
    "methods", "encoders", "tasks", "assets", "posts", "papers", "cells", "records", "digests",
)  # fmt: skip


@flattened
def list_(
    sources: Sources,
    what: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(KINDS[:-1])} or {KINDS[-1]}.",
            autocompletion=lambda incomplete: beginning(incomplete, KINDS),
        ),
    ] = "methods",
    of: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|TASK",
            help="Of cells, those of a table (harness list papers); of digests, a task's.",
            autocompletion=completed_tables,
            show_default=False,
        ),
    ] = "",
    as_json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List what there is: methods, encoders, tasks, published numbers, records and others."""
    resolver = Resolver.of(Folders(data_dir).places(), sources.encoder or [])
    say_rows(listed_rows(what, of, resolver.registry, resolver.places, sources), as_json)


def say_rows(rows: Sequence[Row], as_json: bool) -> None:
    """Print rows for a program, or for people: empty columns left out."""
    if as_json:
        say(json.dumps(rows, indent=1))
        return
    words = {True: "yes", False: "no"}
    columns = [
        name
        for name in rows[0]
        if name not in TOO_LONG and any(row[name] not in ("", False) for row in rows)
    ]
    say(tabled([[words.get(row[name], row[name]) for name in columns] for row in rows], columns))


def listed_rows(
    what: str, of: str, registry: Registry, places: Places, sources: Sources
) -> list[Row]:
    """Rows of one kind of thing: cells can be those `of` one table, digests those of one task.

    Raises UsageError for a kind or a table that there is not.
    """
    kinds: dict[str, Callable[[], list[Row]]] = {
        "methods": lambda: _fields("method", registry.methods, "transductive seeded cite note"),
        "encoders": lambda: _fields("encoder", registry.encoders, "source trained_on licence"),
        "tasks": lambda: _fields("task", registry.tasks, "metric text scored asset note"),
        "assets": lambda: assets_rows(registry, places),
        "posts": lambda: _posts(registry),
        "papers": lambda: _papers(load_tables(sources.papers, registry)),
        "cells": lambda: cells_rows(load_tables(sources.papers, registry), of),
        "records": lambda: _records(sources.results),
        "digests": lambda: _digests(registry, places, of),
    }
    if of and what not in ("cells", "digests"):
        raise UsageError(f"{of}: wanted harness list cells TABLE or digests TASK, found {what}")
    return look_up("kind of thing", what, kinds)()


def _fields(kind: str, things: Mapping[str, Any], names: str) -> list[Row]:
    """The name of each thing, and the fields that are listed of it; splits joined by `+`."""

    def shown(value: Any) -> str | bool | None:
        if isinstance(value, tuple):
            return "+".join(value)
        return value if isinstance(value, bool) or value is None else str(value)

    return [
        {kind: name, **{field: shown(getattr(thing, field)) for field in names.split()}}
        for name, thing in things.items()
    ]


def assets_rows(registry: Registry, places: Places) -> list[Row]:
    """All that is read: whence, whether it is here, how sure its content is, how to get it."""
    return [_data(asset, places) for asset in every_asset()] + [
        _weights(encoder, places) for encoder in registry.encoders.values()
    ]


def _data(asset: Asset, places: Places) -> Row:
    path = places.data(asset)
    return {
        "asset": asset.name,
        "what": asset.what,
        "here": path is not None,
        "source": asset.source,
        "pinned": _pinned(asset.pinned, places.data_pins.of(asset.name)),
        "bytes": _size(path) or asset.to_get,
        "licence": asset.licence,
        "cite": ", ".join(asset.cite),
        "get": asset.get,
        "places": list(asset.probe),
        "downloads": [_download(d.address, d.revision, d.sha256, d.size) for d in asset.downloads],
    }


def _weights(encoder: EncoderConfig, places: Places) -> Row:
    here, source = places.has_encoder(encoder), encoder.source
    hub = source if isinstance(source, Hub) else None
    package = source.package if isinstance(source, Hub | Packaged) and packaged(encoder) else None
    file = source.file if isinstance(source, Packaged | VectorFile) else None
    command = "train family" if isinstance(source, Trained) else "fetch"
    return {
        "asset": encoder.name,
        "what": "encoder",
        "here": here,
        "source": f"package {package}" if package else str(source),
        "pinned": _pinned(pinned_by(encoder), places.encoder_pins.of(hub.repo) if hub else {}),
        "bytes": _size(places.encoder(encoder.member(0))) if here else hub and hub.about,
        "licence": encoder.licence,
        "cite": encoder.cite,
        "get": f"harness {command} {encoder.name}",
        "places": [file] if file else [],
        "downloads": [_download(f"{HUB}/{hub.repo}", hub.revision, hub.sha256)] if hub else [],
    }


def _download(
    address: str, revision: str | None, sha256: str | None, size: int | None = None
) -> Row:
    return {"address": address, "revision": revision, "sha256": sha256, "bytes": size}


def _pinned(word: str, seen: Mapping[str, str]) -> str:
    """The word, and for what is unpinned the digest that its first copy had, if one came."""
    return first_seen(seen) if word == "unpinned" and seen else word


def _size(path: Path | None) -> int:
    """Bytes of a file, or of a folder's files."""
    if path is None:
        return 0
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _posts(registry: Registry) -> list[Row]:
    """Post-processors, poolings and fit corpora: the words of a method id."""
    words = {
        **{name: f"pooling: {_pooled(pooling)}" for name, pooling in registry.poolings.items()},
        **{f"+{name}": "post-processor" for name in registry.posts},
        **{f"@{name}": f"fit corpus: {meaning}" for name, meaning in TARGETS.items()},
        **{f"@{name}": f"fit corpus: {corpus.note}" for name, corpus in registry.corpora.items()},
    }
    return [{"word": word, "is": meaning} for word, meaning in words.items()]


def _pooled(pooling: Pooling) -> str:
    """What a pooling takes: the first sentence on its class, and its layers in a deep encoder."""
    [sentence, *_] = (type(pooling).__doc__ or "").partition("\n")[0].rstrip(".").split(". ")
    layers = pooling.hidden_states(LAYERS)
    of = f": {' and '.join(map(str, layers))} of {LAYERS}" if layers else ""
    return f"{sentence[0].lower()}{sentence[1:]}{of}"


def _papers(tables: Sequence[Table]) -> list[Row]:
    """Published tables: their ids, whence, and how many numbers each holds."""
    names = ("table", "paper", "place", "numbers", "cite")
    values = ((t.id, t.paper, t.table, len(t.cells()), t.cite) for t in tables)
    return [dict(zip(names, row, strict=True)) for row in values]


def cells_rows(tables: Sequence[Table], of: str = "") -> list[Row]:
    """Published numbers by their ids, with what reproduces each, or why nothing does."""
    chosen = [published_table(of, tables)] if of else tables
    return [
        {
            "cell": cell.id,
            "published": cell.value,
            "method": "" if cell.why_not else str(cell.method),
            "task": ", ".join(cell.tasks),
            "why not": cell.why_not.id if cell.why_not else "",
        }
        for table in chosen
        for cell in table.cells()
    ]


def _records(results: Path) -> list[Row]:
    """The records of a results folder: a row for each method and task, with its mean over seeds."""
    records = Index.read(Store(results))
    if not records.by_cell:
        raise UsageError(f"{results} holds no record: harness run makes them")
    return [
        {
            "method": method,
            "task": task,
            "seeds": ",".join(str(record.seed) for record in of_cell),
            "metric": (path := main_path(of_cell[0].scores))[0],
            "score": str(records.value(method, task, *path)),
            "harness": of_cell[0].environment.get("harness"),
            "commit": (of_cell[0].environment.get("commit") or "")[:12],
        }
        for (method, task), of_cell in records.by_cell.items()
    ]


def _digests(registry: Registry, places: Places, of: str) -> list[Row]:
    """Number of rows and digest of each split of a task, or of all tasks, as read on this machine.

    What a task's file states; of one task that cannot be read the error says why.
    """
    chosen = [look_up("task", of, registry.tasks_by_name)] if of else [*registry.tasks.values()]
    splits = {(repr(task.load), split): task for task in chosen[::-1] for split in task.splits}
    rows: list[Row] = []
    for (_, split), task in reversed(splits.items()):
        count, digest = None, "asset missing"
        if of or places.has_data(task.asset):
            pairs = task.load(places.require_data(task.asset), split)
            count, digest = len(pairs), rows_digest(pairs)
        rows.append({"task": task.name, "split": split, "rows": count, "sha256": digest})
    return rows
