"""`harness list`: what there is, as rows for a person or a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.assets.catalogue import Asset
from harness.assets.places import Places, every_asset, first_seen, packaged, pinned_by
from harness.cli.options import DataDir, Encoders, Folders, Json, Papers, Plugins, note, say_rows
from harness.core.errors import UsageError
from harness.core.interfaces import EncoderConfig, Hub, Packaged, Trained
from harness.core.provenance import PLUGINS
from harness.core.types import rows_digest
from harness.plugins import KINDS as KINDS_OF_PLUGIN
from harness.plugins import registered
from harness.registry import Registry, look_up
from harness.resolve import Resolver
from harness.results.published import Table
from harness.results.published_tables import load_tables, published_table
from harness.tasks.loader import TARGETS

Row = dict[str, Any]
KINDS = (
    *("methods", "encoders", "tasks", "assets", "components", "papers", "plugins"),
    *("cells", "digests"),
)
LAYERS = 12  # of BERT-base, for which the layers of a pooling are named


def list_command(
    what: Annotated[str, typer.Argument(help=f"{', '.join(KINDS)}.")] = "methods",
    of: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|TASK",
            help="The table whose cells are listed (harness list papers), or the task of digests.",
            show_default=False,
        ),
    ] = "",
    papers: Papers = Path("results/papers"),
    encoder: Encoders = None,
    plugin: Plugins = None,  # noqa: ARG001 - its callback loads them
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """List methods, encoders, tasks, published numbers and more."""
    resolver = Resolver.of(Folders(data_dir).places(), encoder or [])
    rows = listed_rows(what, of, resolver, papers)
    if rows or as_json:
        say_rows(rows, as_json)
    else:
        note("no plug-in is loaded: name a file by --plugin, or install one")


def listed_rows(what: str, of: str, resolver: Resolver, papers: Path) -> list[Row]:
    """Rows of one kind of thing: cells can be `of` one table, digests are of one task."""
    registry, places = resolver.registry, resolver.places
    if of and what not in ("cells", "digests"):
        raise UsageError(f"{of}: wanted harness list cells TABLE or digests TASK, found {what}")
    rows: Mapping[str, Callable[[], list[Row]]] = {
        "methods": lambda: fields_of("method", registry.methods, "transductive seeded cite note"),
        "encoders": lambda: fields_of("encoder", registry.encoders, "source trained_on licence"),
        "tasks": lambda: fields_of("task", registry.tasks, "metric text scored asset note"),
        "assets": lambda: assets_rows(registry, places),
        "components": lambda: words_rows(registry),
        "papers": lambda: papers_rows(load_tables(papers, registry)),
        "plugins": plugins_rows,
        "cells": lambda: cells_rows(load_tables(papers, registry), of),
        "digests": lambda: digests_rows(registry, places, of),
    }
    return look_up("kind of thing", what, rows)()


def fields_of(kind: str, things: Mapping[str, Any], names: str) -> list[Row]:
    """The name of each thing, and the fields that are listed of it; splits joined by `+`."""

    def shown(value: Any) -> str | bool | None:
        if isinstance(value, tuple):
            return "+".join(value)
        return value if isinstance(value, bool) or value is None else str(value)

    added = names_of_plugins()
    return [
        {kind: name}
        | {field: shown(getattr(thing, field)) for field in names.split()}
        | {"plug-in": added.get((f"{kind.upper()}S", name), "")}
        for name, thing in things.items()
    ]


def names_of_plugins() -> dict[tuple[str, str], str]:
    """The plug-in that registers a name, by the tuple that holds it and the name."""
    return {
        (kind, name): plugin.name
        for plugin in PLUGINS.values()
        for kind, names in registered(plugin).items()
        for name in names
    }


def plugins_rows() -> list[Row]:
    """The loaded plug-ins: origin, version, digest, and what they register."""
    rows: list[Row] = []
    for plugin in PLUGINS.values():
        names = registered(plugin)
        row = {"plug-in": plugin.name, "from": plugin.origin, "version": plugin.version}
        kinds = {kind.lower(): ", ".join(names.get(kind, ())) for kind in KINDS_OF_PLUGIN}
        rows.append({**row, "sha256": plugin.sha256[:12], **kinds})
    return rows


def assets_rows(registry: Registry, places: Places) -> list[Row]:
    """Every data set and encoder: source, whether it is here, how it is pinned, how to get it."""
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
        "sources": _sources(asset),
        "pinned": _pinned(asset.pinned, places.data_pins.of(asset.name)),
        "bytes": _size(path) or asset.to_get,
        "licence": asset.licence,
        "cite": ", ".join(asset.cite),
        "get": asset.get,
    }


def _weights(encoder: EncoderConfig, places: Places) -> Row:
    here, source = places.has_encoder(encoder), encoder.source
    hub = source if isinstance(source, Hub) else None
    package = source.package if isinstance(source, Hub | Packaged) and packaged(encoder) else None
    command = "train family" if isinstance(source, Trained) else "fetch"
    return {
        "asset": encoder.name,
        "what": "encoder",
        "here": here,
        "source": f"package {package}" if package else str(source),
        "sources": f"hub {hub.repo}" if hub else "",
        "pinned": _pinned(pinned_by(encoder), places.encoder_pins.of(hub.repo) if hub else {}),
        "bytes": _size(places.encoder(encoder.member(0))) if here else hub and hub.download_size,
        "licence": encoder.licence,
        "cite": encoder.cite,
        "get": f"harness {command} {encoder.name}",
    }


def _sources(asset: Asset) -> str:
    """The sources of an asset in order, each once; of parts with others, all of them."""
    every = (source.name for part in asset.every_part for source in part.sources)
    return ", ".join(dict.fromkeys(every))


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
    """Poolings, post-processors and fit corpora: the words of a method id."""
    words: list[tuple[str, str, str]] = []
    for name, pooling in registry.poolings.items():
        layers = " and ".join(map(str, pooling.hidden_states(LAYERS)))
        meaning = f"pooling: {_sentence(type(pooling))}" + f" ({layers} of {LAYERS})" * bool(layers)
        words.append(("POOLINGS", name, meaning))
    for name, make in registry.posts.items():
        made_by, fixed = getattr(make, "func", make), getattr(make, "keywords", {})
        settings = "".join(f" ({field}={value})" for field, value in fixed.items())
        words.append(("POSTS", f"+{name}", f"post-processor: {_sentence(made_by)}{settings}"))
    words += [("", f"@{name}", f"fit corpus: {meaning}") for name, meaning in TARGETS.items()]
    words += [("CORPORA", f"@{n}", f"fit corpus: {c.note}") for n, c in registry.corpora.items()]
    added = names_of_plugins()
    return [
        {"word": word, "is": meaning, "plug-in": added.get((kind, word.lstrip("+@")), "")}
        for kind, word, meaning in words
    ]


def _sentence(thing: Any) -> str:
    """The first sentence of a docstring."""
    return (thing.__doc__ or "").partition("\n")[0].partition(". ")[0].rstrip(".")


def papers_rows(tables: tuple[Table, ...]) -> list[Row]:
    """Published tables: ids, sources, and how many numbers each holds."""
    return [
        {
            "table": table.id,
            "paper": table.paper,
            "place": table.table,
            "numbers": len(table.cells),
            "cite": table.cite,
        }
        for table in tables
    ]


def cells_rows(tables: tuple[Table, ...], of: str) -> list[Row]:
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
        for cell in table.cells
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
