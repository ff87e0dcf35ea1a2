"""`harness list`: what there is, as rows for a person or a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.assets.catalogue import Asset
from harness.assets.places import Places, every_asset, first_seen, packaged, pinned_by
from harness.cli.options import (
    DataDir,
    Encoders,
    Folders,
    Json,
    Papers,
    Plugins,
    note,
    say_rows,
)
from harness.core.errors import UsageError
from harness.core.interfaces import EncoderConfig, Hub, Packaged, Pooling, Trained
from harness.core.provenance import PLUGINS
from harness.core.types import rows_digest
from harness.plugins import PLUGIN_LISTS, registered
from harness.registry import Registry, look_up
from harness.resolve import Resolver
from harness.results.published import Table
from harness.results.published_tables import load_tables, published_table
from harness.tasks.loader import TARGETS

ListedRow = dict[str, Any]
LISTED_KINDS = (
    "methods",
    "encoders",
    "tasks",
    "assets",
    "components",
    "papers",
    "plugins",
    "cells",
    "digests",
)
BERT_BASE_LAYERS = 12  # the depth for which the layers of a pooling are named


def list_command(
    kind: Annotated[
        str, typer.Argument(metavar="what", help=f"{', '.join(LISTED_KINDS)}.")
    ] = "methods",
    name: Annotated[
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
    resolver = Resolver.from_options(Folders(data_dir).places(), encoder or [])
    rows = listed_rows(kind, name, resolver, papers)
    if rows or as_json:
        say_rows(rows, as_json)
    else:
        note("no plug-in is loaded: name a file by --plugin, or install one")


def listed_rows(
    kind: str, name: str, resolver: Resolver, papers: Path
) -> list[ListedRow]:
    """Rows of one kind of thing: the cells of the named table or of all, or a task's digests."""
    registry, places = resolver.registry, resolver.places
    if name and kind not in ("cells", "digests"):
        raise UsageError(
            f"{name}: wanted harness list cells TABLE or digests TASK, found {kind}"
        )
    rows_of_kind: Mapping[str, Callable[[], list[ListedRow]]] = {
        "methods": lambda: methods_rows(registry),
        "encoders": lambda: encoders_rows(registry),
        "tasks": lambda: tasks_rows(registry),
        "assets": lambda: assets_rows(registry, places),
        "components": lambda: components_rows(registry),
        "papers": lambda: papers_rows(load_tables(papers, registry)),
        "plugins": plugins_rows,
        "cells": lambda: cells_rows(load_tables(papers, registry), name),
        "digests": lambda: digests_rows(registry, places, name),
    }
    return look_up("kind of thing", kind, rows_of_kind)()


# Methods, encoders, tasks


def methods_rows(registry: Registry) -> list[ListedRow]:
    """The named methods: marks, paper and note."""
    plugins = names_of_plugins()
    return [
        {
            "method": name,
            "transductive": method.transductive,
            "seeded": method.seeded,
            "cite": method.cite,
            "note": method.note,
            "plug-in": plugins.get(("METHODS", name), ""),
        }
        for name, method in registry.methods.items()
    ]


def encoders_rows(registry: Registry) -> list[ListedRow]:
    """The registered encoders: where they come from, training data and licence."""
    plugins = names_of_plugins()
    return [
        {
            "encoder": name,
            "source": str(encoder.source),
            "trained_on": encoder.trained_on,
            "licence": encoder.licence,
            "plug-in": plugins.get(("ENCODERS", name), ""),
        }
        for name, encoder in registry.encoders.items()
    ]


def tasks_rows(registry: Registry) -> list[ListedRow]:
    """The tasks: metric, text form, scored splits and data set."""
    plugins = names_of_plugins()
    return [
        {
            "task": name,
            "metric": task.metric,
            "text": task.text,
            "scored": "+".join(task.scored),
            "asset": task.asset,
            "note": task.note,
            "plug-in": plugins.get(("TASKS", name), ""),
        }
        for name, task in registry.tasks.items()
    ]


# Plug-ins


def names_of_plugins() -> dict[tuple[str, str], str]:
    """The plug-in that registers a name, by the tuple that holds it and the name."""
    return {
        (kind, name): plugin.name
        for plugin in PLUGINS.values()
        for kind, names in registered(plugin).items()
        for name in names
    }


def plugins_rows() -> list[ListedRow]:
    """The loaded plug-ins: origin, version, digest, and what they register."""
    rows: list[ListedRow] = []
    for plugin in PLUGINS.values():
        row = {
            "plug-in": plugin.name,
            "from": plugin.origin,
            "version": plugin.version,
            "sha256": plugin.sha256[:12],
        }
        names = registered(plugin)
        for kind in PLUGIN_LISTS:
            row[kind.lower()] = ", ".join(names.get(kind, ()))
        rows.append(row)
    return rows


# Assets


def assets_rows(registry: Registry, places: Places) -> list[ListedRow]:
    """Every data set and encoder: source, whether it is here, how it is pinned, how to get it."""
    data_sets = [_data_row(asset, places) for asset in every_asset()]
    encoders = [_encoder_row(encoder, places) for encoder in registry.encoders.values()]
    return data_sets + encoders


def _data_row(asset: Asset, places: Places) -> ListedRow:
    path = places.data(asset)
    return {
        "asset": asset.name,
        "what": asset.what,
        "here": path is not None,
        "source": asset.source,
        "sources": _sources(asset),
        "pinned": _pin_in_words(asset.pinned, places.data_pins.pin_of(asset.name)),
        "bytes": _size(path) or asset.to_get,
        "licence": asset.licence,
        "cite": ", ".join(asset.cite),
        "get": asset.get,
    }


def _encoder_row(encoder: EncoderConfig, places: Places) -> ListedRow:
    source = encoder.source
    origin = str(source)
    if isinstance(source, Hub | Packaged) and packaged(encoder):
        origin = f"package {source.package}"
    seen: Mapping[str, str] = {}
    size: int | None = None
    if isinstance(source, Hub):
        seen = places.encoder_pins.pin_of(source.repo)
        size = source.download_size
    is_here = places.has_encoder(encoder)
    if is_here:
        size = _size(places.encoder(encoder.member(0)))
    command = "train family" if isinstance(source, Trained) else "fetch"
    return {
        "asset": encoder.name,
        "what": "encoder",
        "here": is_here,
        "source": origin,
        "sources": f"hub {source.repo}" if isinstance(source, Hub) else "",
        "pinned": _pin_in_words(pinned_by(encoder), seen),
        "bytes": size,
        "licence": encoder.licence,
        "cite": encoder.cite,
        "get": f"harness {command} {encoder.name}",
    }


def _sources(asset: Asset) -> str:
    """The names of the sources that the parts of an asset have, each once."""
    names: list[str] = []
    for part in asset.every_part:
        names += [source.name for source in part.sources]
    return ", ".join(dict.fromkeys(names))


def _pin_in_words(pin: str, seen: Mapping[str, str]) -> str:
    """How a thing is pinned; of an unpinned one, the digest that its first copy had, if it came."""
    return first_seen(seen) if pin == "unpinned" and seen else pin


def _size(path: Path | None) -> int:
    """Bytes of a file, or of a folder's files."""
    if path is None:
        return 0
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


# Components of a method id


def components_rows(registry: Registry) -> list[ListedRow]:
    """Poolings, post-processors and fit corpora, as they are written in a method id."""
    plugins = names_of_plugins()
    rows: list[ListedRow] = []

    def add(sign: str, kind: str, name: str, meaning: str) -> None:
        plugin = plugins.get((kind, name), "")
        rows.append({"word": f"{sign}{name}", "is": meaning, "plug-in": plugin})

    for name, pooling in registry.poolings.items():
        add("", "POOLINGS", name, f"pooling: {_pooling_in_words(pooling)}")
    for name, make in registry.posts.items():
        add("+", "POSTS", name, f"post-processor: {_post_in_words(make)}")
    for name, meaning in TARGETS.items():
        add("@", "", name, f"fit corpus: {meaning}")
    for name, corpus in registry.corpora.items():
        add("@", "CORPORA", name, f"fit corpus: {corpus.note}")
    return rows


def _pooling_in_words(pooling: Pooling) -> str:
    """What a pooling is, and the layers that it averages in BERT-base."""
    layers = " and ".join(map(str, pooling.hidden_states(BERT_BASE_LAYERS)))
    sentence = _first_sentence(type(pooling))
    return f"{sentence} ({layers} of {BERT_BASE_LAYERS})" if layers else sentence


def _post_in_words(make: Any) -> str:
    """What a post-processor is; the settings of a variant, which `functools.partial` makes."""
    words = [_first_sentence(getattr(make, "func", make))]
    for field, value in getattr(make, "keywords", {}).items():
        words.append(f"({field}={value})")
    return " ".join(words)


def _first_sentence(thing: Any) -> str:
    """The first sentence of a docstring."""
    return (thing.__doc__ or "").partition("\n")[0].partition(". ")[0].rstrip(".")


# Published tables and their cells


def papers_rows(tables: tuple[Table, ...]) -> list[ListedRow]:
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


def cells_rows(tables: tuple[Table, ...], name: str) -> list[ListedRow]:
    """Published numbers by their ids, with what reproduces each, or why nothing does.

    Those of the table with that id; of all tables where the name is empty.
    """
    listed_tables = [published_table(name, tables)] if name else tables
    return [
        {
            "cell": cell.id,
            "published": cell.value,
            "method": "" if cell.why_not else str(cell.method),
            "task": ", ".join(cell.tasks),
            "why not": cell.why_not.id if cell.why_not else "",
        }
        for table in listed_tables
        for cell in table.cells
    ]


def digests_rows(registry: Registry, places: Places, name: str) -> list[ListedRow]:
    """Number of rows and digest of each split of a task, which its file has to state."""
    task = look_up("task", name, registry.tasks_by_name)
    folder = places.require_data(task.asset)
    rows = []
    for split in task.splits:
        pairs = task.load(folder, split)
        digest = rows_digest(pairs)
        rows.append(
            {"task": task.name, "split": split, "rows": len(pairs), "sha256": digest}
        )
    return rows
