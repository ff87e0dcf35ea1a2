"""`harness list`: what there is, as rows for a person or a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.assets.catalogue import HUB, Asset
from harness.assets.places import Places, every_asset, first_seen, packaged, pinned_by
from harness.cli.options import DataDir, Folders, Json, Sources, completed_tables, say_rows
from harness.core.errors import UsageError
from harness.core.files import rows_digest
from harness.core.interfaces import EncoderConfig, Hub, Packaged, Trained, VectorFile
from harness.registry import Registry, look_up
from harness.resolve import Resolver
from harness.results.index import Results, main_path
from harness.results.published import Table, load_tables, published_table
from harness.results.records import Store
from harness.tasks.loader import TARGETS

Row = dict[str, Any]
LAYERS = 12  # of BERT-base, for which the layers of a pooling are named
TOO_LONG = ("places", "downloads")  # for a table; a program gets them


def listed_rows(what: str, of: str, resolver: Resolver, sources: Sources) -> list[Row]:
    """Rows of one kind of thing: cells can be those `of` one table, digests those of one task.

    Raises UsageError for a kind, a table or a task that there is not.
    """
    if of and what not in ("cells", "digests"):
        raise UsageError(f"{of}: wanted harness list cells TABLE or digests TASK, found {what}")
    return look_up("kind of thing", what, LISTS)(resolver, sources, of)


def fields_of(kind: str, things: Mapping[str, Any], names: str) -> list[Row]:
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
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def words_rows(registry: Registry) -> list[Row]:
    """Post-processors, poolings and fit corpora: the words of a method id."""
    words = {}
    for name, pooling in registry.poolings.items():
        [sentence, *_] = (type(pooling).__doc__ or "").partition("\n")[0].rstrip(".").split(". ")
        layers = " and ".join(map(str, pooling.hidden_states(LAYERS)))
        of = f": {layers} of {LAYERS}" if layers else ""
        words[name] = f"pooling: {sentence[0].lower()}{sentence[1:]}{of}"
    words |= {f"+{name}": "post-processor" for name in registry.posts}
    words |= {f"@{name}": f"fit corpus: {meaning}" for name, meaning in TARGETS.items()}
    words |= {f"@{name}": f"fit corpus: {corpus.note}" for name, corpus in registry.corpora.items()}
    return [{"word": word, "is": meaning} for word, meaning in words.items()]


def papers_rows(tables: tuple[Table, ...]) -> list[Row]:
    """Published tables: their ids, whence, and how many numbers each holds."""
    return [
        {
            "table": table.id,
            "paper": table.paper,
            "place": table.table,
            "numbers": len(table.cells()),
            "cite": table.cite,
        }
        for table in tables
    ]


def cells_rows(tables: tuple[Table, ...], of: str = "") -> list[Row]:
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


def records_rows(folder: Path) -> list[Row]:
    """The records of a results folder: a row for each method and task, with its mean over seeds."""
    results = Results.read(Store(folder))
    if not results.by_cell:
        raise UsageError(f"{folder} holds no record: harness run makes them")
    return [
        {
            "method": method,
            "task": task,
            "seeds": ",".join(str(record.seed) for record in records),
            "metric": (path := main_path(records[0].scores))[0],
            "score": str(results.value(method, task, *path)),
            "harness": records[0].environment.get("harness"),
            "commit": (records[0].environment.get("commit") or "")[:12],
        }
        for (method, task), records in results.by_cell.items()
    ]


def digests_rows(registry: Registry, places: Places, name: str) -> list[Row]:
    """Number of rows and digest of each split of a task, which its file has to state."""
    task = look_up("task", name, registry.tasks_by_name)
    folder = places.require_data(task.asset)
    splits = {split: task.load(folder, split) for split in task.splits}
    return [
        {"task": task.name, "split": split, "rows": len(pairs), "sha256": rows_digest(pairs)}
        for split, pairs in splits.items()
    ]


LISTS: Mapping[str, Callable[[Resolver, Sources, str], list[Row]]] = {
    "methods": lambda resolver, *_: fields_of(
        "method", resolver.registry.methods, "transductive seeded cite note"
    ),
    "encoders": lambda resolver, *_: fields_of(
        "encoder", resolver.registry.encoders, "source trained_on licence"
    ),
    "tasks": lambda resolver, *_: fields_of(
        "task", resolver.registry.tasks, "metric text scored asset note"
    ),
    "assets": lambda resolver, *_: assets_rows(resolver.registry, resolver.places),
    "posts": lambda resolver, *_: words_rows(resolver.registry),
    "papers": lambda resolver, sources, _: papers_rows(
        load_tables(sources.papers, resolver.registry)
    ),
    "cells": lambda resolver, sources, of: cells_rows(
        load_tables(sources.papers, resolver.registry), of
    ),
    "records": lambda _, sources, __: records_rows(sources.results),
    "digests": lambda resolver, _, of: digests_rows(resolver.registry, resolver.places, of),
}


def list_command(
    sources: Sources,
    what: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(LISTS)}.",
            autocompletion=lambda incomplete: [n for n in LISTS if n.startswith(incomplete)],
        ),
    ] = "methods",
    of: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|TASK",
            help="Of cells, those of a table (harness list papers); of digests, the task.",
            autocompletion=completed_tables,
            show_default=False,
        ),
    ] = "",
    as_json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List what there is: methods, encoders, tasks, published numbers, records and others."""
    resolver = Resolver.of(Folders(data_dir).places(), sources.encoder or [])
    say_rows(listed_rows(what, of, resolver, sources), as_json, TOO_LONG)
