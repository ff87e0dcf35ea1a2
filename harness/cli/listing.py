"""The rows of `harness list`, for a table or for a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.assets.catalogue import HUB, Asset
from harness.assets.places import Places, every_asset, first_seen, packaged, pinned_by
from harness.core.errors import UsageError
from harness.core.files import rows_digest
from harness.core.interfaces import EncoderConfig, Hub, Packaged, Pooling, Trained, VectorFile
from harness.registry import Registry, known, load_registry
from harness.results.layout import OWN
from harness.results.published import Table
from harness.results.published_files import load_tables, published_table
from harness.tasks.loader import TARGETS

Row = dict[str, Any]
PAPERS = Path("results/papers")
DEEP = 12  # layers of BERT-base, for which layers are named
TOO_LONG = {"by_hand", "places", "downloads"}  # for a table; a program gets them


def listing(
    what: str,
    places: Places,
    of: str = "",
    folder: Path = PAPERS,
    results: Path = OWN,
    registry: Registry | None = None,
) -> list[Row]:
    """Rows of one kind of thing: published cells can be those `of` one table, digests of one task.

    Raises UsageError for a kind or a table that there is not.
    """
    found = registry or load_registry()
    kinds: dict[str, Callable[[], list[Row]]] = {
        "methods": lambda: _rows("method", found.methods, "transductive seeded cite note"),
        "encoders": lambda: _rows("encoder", found.encoders, "source trained_on licence"),
        "tasks": lambda: _rows("task", found.tasks, "metric text scored asset note"),
        "assets": lambda: assets(found, places),
        "posts": lambda: posts(found),
        "papers": lambda: papers(load_tables(folder, found)),
        "cells": lambda: cells(load_tables(folder, found), of),
        "records": lambda: records(results),
        "digests": lambda: digests(found, places, of),
    }
    if of and what not in ("cells", "digests"):
        raise UsageError(f"{of}: wanted harness list cells TABLE or digests TASK, found {what}")
    return known("kind of thing", what, kinds)()


def _rows(kind: str, things: Mapping[str, Any], fields: str) -> list[Row]:
    """The name of each thing, and the fields that are listed of it."""
    return [
        {kind: name, **{field: _shown(getattr(thing, field)) for field in fields.split()}}
        for name, thing in things.items()
    ]


def _shown(value: Any) -> str | bool | None:
    """A field in a row: splits joined by `+`, the source of an encoder in words."""
    if isinstance(value, tuple):
        return "+".join(value)
    return value if isinstance(value, bool) or value is None else str(value)


def assets(found: Registry, places: Places) -> list[Row]:
    """All that is read: whence, whether it is here, how sure its content is, how to get it."""
    return [_data(asset, places) for asset in every_asset()] + [
        _weights(encoder, places) for encoder in found.encoders.values()
    ]


def _data(asset: Asset, places: Places) -> Row:
    return {
        "asset": asset.name,
        "what": asset.what,
        "here": places.data(asset) is not None,
        "source": asset.source,
        "pinned": _pinned(asset.pinned, places.data_pins.of(asset.name)),
        "bytes": _size(places.data(asset)) or asset.to_get,
        "licence": asset.licence,
        "cite": ", ".join(asset.cite),
        "get": asset.get,
        "by_hand": asset.by_hand,
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
        "by_hand": f"--encoder {encoder.name}=PATH",
        "places": [file] if file else [],
        "downloads": [_download(f"{HUB}/{hub.repo}", hub.revision, hub.sha256)] if hub else [],
    }


def _download(
    address: str, revision: str | None, sha256: str | None, size: int | None = None
) -> Row:
    """A download and its pins; None where they are not known."""
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


def posts(found: Registry) -> list[Row]:
    """Post-processors, poolings and fit corpora: the words of a method id."""
    words = {
        **{name: f"pooling: {_pooled(pooling)}" for name, pooling in found.poolings.items()},
        **{f"+{name}": "post-processor" for name in found.posts},
        **{f"@{name}": f"fit corpus: {said}" for name, said in TARGETS.items()},
        **{f"@{name}": f"fit corpus: {corpus.note}" for name, corpus in found.corpora.items()},
    }
    return [{"word": word, "is": meaning} for word, meaning in words.items()]


def _pooled(pooling: Pooling) -> str:
    """What a pooling takes: the first sentence on its class, and its layers in a deep encoder."""
    [sentence, *_] = (type(pooling).__doc__ or "").partition("\n")[0].rstrip(".").split(". ")
    layers = pooling.hidden_states(DEEP)
    of = f": {' and '.join(map(str, layers))} of {DEEP}" if layers else ""
    return f"{sentence[0].lower()}{sentence[1:]}{of}"


def papers(tables: Sequence[Table]) -> list[Row]:
    """Published tables: their ids, whence, and how many numbers each holds."""
    return [
        {
            "table": t.id,
            "paper": t.paper,
            "place": t.table,
            "numbers": len(t.cells()),
            "cite": t.cite,
        }
        for t in tables
    ]


def cells(tables: Sequence[Table], of: str) -> list[Row]:
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


def digests(found: Registry, places: Places, of: str) -> list[Row]:
    """Number of rows and digest of each split of a task, or of all tasks, as read on this machine.

    What a task's file states; of one task that cannot be read the error says why.
    """
    chosen = [known("task", of, found.tasks_by_name)] if of else [*found.tasks.values()]
    splits = {(repr(task.load), split): task for task in chosen[::-1] for split in task.splits}
    rows: list[Row] = []
    for (_, split), task in reversed(splits.items()):
        row: Row = {
            "task": task.name,
            "split": split,
            "rows": None,
            "sha256": "asset missing",
        }
        if of or places.has_data(task.asset):
            pairs = task.load(places.require_data(task.asset), split)
            row |= {"rows": len(pairs), "sha256": rows_digest(pairs)}
        rows.append(row)
    return rows


def records(results: Path) -> list[Row]:
    """The records of a results folder: a row for each method and task, with its mean over seeds."""
    from harness.results.index import Results, main_path
    from harness.results.records import Store

    found = Results.read(Store(results))
    if not found.by_cell:
        raise UsageError(f"{results} holds no record: harness run makes them")
    return [
        {
            "method": method,
            "task": task,
            "seeds": ",".join(str(record.seed) for record in of_cell),
            "metric": (path := main_path(of_cell[0].scores))[0],
            "score": str(found.value(method, task, *path)),
            "harness": of_cell[0].environment.get("harness"),
            "commit": (of_cell[0].environment.get("commit") or "")[:12],
        }
        for (method, task), of_cell in found.by_cell.items()
    ]


def table(rows: Sequence[Row]) -> str:
    """Rows for people: columns that fit their content, empty columns left out."""
    from harness.cli.options import tabled

    words = {True: "yes", False: "no"}
    columns = [
        name
        for name in rows[0]
        if name not in TOO_LONG and any(row[name] not in ("", False) for row in rows)
    ]
    cells = [[words.get(row[name], row[name]) for name in columns] for row in rows]
    return tabled(cells, columns)
