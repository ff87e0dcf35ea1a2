"""`harness list`: what there is, as rows for a person or a program.

Each kind of thing has a function that makes its rows. A row is a dictionary from the
names of columns to values. All kinds that a plug-in may register have a column that
names the plug-in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.assets.catalogue import Asset
from harness.assets.places import Places, every_asset, packaged, pinned_by
from harness.cli.options import (
    DataDir,
    Encoders,
    Folders,
    Json,
    Papers,
    Plugins,
    cell_text,
    note,
    say,
    say_rows,
    terminal_width,
)
from harness.core.errors import UsageError
from harness.core.interfaces import EncoderConfig, Hub, Packaged, Pooling, Trained
from harness.core.pairs import rows_digest
from harness.core.provenance import PLUGINS
from harness.core.terminal import text_table
from harness.plugins import PLUGIN_LISTS, registered
from harness.registry import Registry, look_up
from harness.resolve import Resolver
from harness.results.published import PublishedCell, Table
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
DEFAULT_WIDTH = 80  # columns of a list that goes into no terminal
LEAST_WIDTH = 20  # of a column that is cut
COLUMN_GAP = 2
BERT_BASE_LAYERS = 12  # the depth for which the layers of a pooling are named


def list_command(
    kind: Annotated[
        str, typer.Argument(metavar="what", help=f"{', '.join(LISTED_KINDS)}.")
    ] = "methods",
    name: Annotated[
        str,
        typer.Argument(
            help="Only those whose names hold this text or match this glob. For cells a table "
            "(harness list papers), for digests a task.",
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
    if as_json:
        say_rows(rows, as_json)
    elif len(rows) == 1:
        for column, value in rows[0].items():
            if cell_text(value):
                say(f"{column}: {cell_text(value)}")
    elif rows:
        say(fitting_table(rows, terminal_width() or DEFAULT_WIDTH))
    else:
        note("no plug-in is loaded: name a file by --plugin, or install one")


def fitting_table(rows: Sequence[ListedRow], width: int) -> str:
    """The first columns of rows that fit into a width; the last one may be cut.

    A column that says nothing in any row is left out.
    """
    columns: dict[str, list[str]] = {}
    for name in rows[0]:
        cells = [cell_text(row[name]) for row in rows]
        if set(cells) <= {"", "no"}:
            continue
        longest = max(len(cell) for cell in (name, *cells))
        if columns and width < min(longest, LEAST_WIDTH):
            break
        columns[name] = [shorten(cell, width) for cell in cells]
        width -= longest + COLUMN_GAP
    texts = list(zip(*columns.values(), strict=True))
    return text_table(texts, list(columns))


def shorten(text: str, width: int) -> str:
    """A text of `width` characters at most; one that is cut ends with an ellipsis."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def listed_rows(
    kind: str, name: str, resolver: Resolver, papers: Path
) -> list[ListedRow]:
    """The rows of one kind of thing.

    Args:
        kind: One of LISTED_KINDS.
        name: A table, for the kind `cells`, or a task, for `digests`; else a part of
            names, or a glob. Empty for all.
        resolver: Knows the registry, and where data and encoders are.
        papers: The folder of published tables.

    Raises:
        UsageError: There is no such kind, table or task, or no such name.
    """
    registry, places = resolver.registry, resolver.places
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
    rows = look_up("kind of thing", kind, rows_of_kind)()
    if not name or kind in ("cells", "digests"):
        return rows
    matching = [
        row for row in rows if fnmatchcase(str(next(iter(row.values()))), f"*{name}*")
    ]
    if not matching:
        raise UsageError(
            f"list {kind} {name}: none has such a name: harness list {kind}"
        )
    return matching


# Methods, encoders, tasks


def methods_rows(registry: Registry) -> list[ListedRow]:
    """The named methods: whether transductive or seeded, paper and note."""
    plugin_names = names_of_plugins()
    return [
        {
            "method": name,
            "transductive": method.transductive,
            "seeded": method.seeded,
            "cite": method.cite,
            "note": method.note,
            "plug-in": plugin_names.get(("METHODS", name), ""),
        }
        for name, method in registry.methods.items()
    ]


def encoders_rows(registry: Registry) -> list[ListedRow]:
    """The registered encoders: where they come from, training data and licence."""
    plugin_names = names_of_plugins()
    return [
        {
            "encoder": name,
            "source": str(encoder.source),
            "trained_on": encoder.trained_on,
            "licence": encoder.licence,
            "plug-in": plugin_names.get(("ENCODERS", name), ""),
        }
        for name, encoder in registry.encoders.items()
    ]


def tasks_rows(registry: Registry) -> list[ListedRow]:
    """The tasks: metric, text form, scored splits and data set."""
    plugin_names = names_of_plugins()
    return [
        {
            "task": name,
            "metric": task.metric,
            "text": task.text,
            "scored": "+".join(task.scored),
            "asset": task.asset,
            "note": task.note,
            "plug-in": plugin_names.get(("TASKS", name), ""),
        }
        for name, task in registry.tasks.items()
    ]


# Plug-ins


def names_of_plugins() -> dict[tuple[str, str], str]:
    """The name of the plug-in that registers a thing.

    Its keys are a list of PLUGIN_LISTS, such as METHODS, and the name of the thing.
    """
    plugin_names: dict[tuple[str, str], str] = {}
    for plugin in PLUGINS.values():
        for list_name, names in registered(plugin).items():
            for name in names:
                plugin_names[list_name, name] = plugin.name
    return plugin_names


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
        for list_name in PLUGIN_LISTS:
            row[list_name.lower()] = ", ".join(names.get(list_name, ()))
        rows.append(row)
    return rows


# Assets


def assets_rows(registry: Registry, places: Places) -> list[ListedRow]:
    """Every data set and encoder: source, whether it is here, how it is pinned, how to get it."""
    data_sets = [_data_row(asset, places) for asset in every_asset()]
    encoders = [_encoder_row(encoder, places) for encoder in registry.encoders.values()]
    return data_sets + encoders


def _data_row(asset: Asset, places: Places) -> ListedRow:
    """A row of `assets_rows` for a data set."""
    path = places.data(asset)
    return {
        "asset": asset.name,
        "what": asset.what,
        "here": path is not None,
        "source": asset.source,
        "sources": _sources(asset),
        "pinned": asset.pinned,
        "bytes": _size(path) or asset.download_size,
        "licence": asset.licence,
        "cite": ", ".join(asset.cite),
        "get": asset.get,
    }


def _encoder_row(encoder: EncoderConfig, places: Places) -> ListedRow:
    """A row of `assets_rows` for an encoder."""
    source = encoder.source
    origin = str(source)
    if isinstance(source, Hub | Packaged) and packaged(encoder):
        origin = f"package {source.package}"
    download_source = ""
    size: int | None = None
    if isinstance(source, Hub):
        download_source = f"hub {source.repo}"
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
        "sources": download_source,
        "pinned": pinned_by(encoder),
        "bytes": size,
        "licence": encoder.licence,
        "cite": encoder.cite,
        "get": f"harness {command} {encoder.name}",
    }


def _sources(asset: Asset) -> str:
    """The names of the sources that the parts of an asset have, each once."""
    names: list[str] = []
    for part in asset.parts:
        names += [source.name for source in part.sources]
    return ", ".join(dict.fromkeys(names))


def _size(path: Path | None) -> int:
    """Bytes of a file, or of a folder's files."""
    if path is None:
        return 0
    if path.is_file():
        return path.stat().st_size
    sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
    return sum(sizes)


# Components of a method id


def components_rows(registry: Registry) -> list[ListedRow]:
    """Poolings, post-processors and fit corpora, as they are written in a method id."""
    plugin_names = names_of_plugins()
    rows: list[ListedRow] = []
    for name, pooling in registry.poolings.items():
        meaning = f"pooling: {_pooling_in_words(pooling)}"
        plugin_name = plugin_names.get(("POOLINGS", name), "")
        rows.append(_component_row(name, meaning, plugin_name))
    for name, post_processor in registry.posts.items():
        meaning = f"post-processor: {_post_processor_in_words(post_processor)}"
        plugin_name = plugin_names.get(("POSTS", name), "")
        rows.append(_component_row(f"+{name}", meaning, plugin_name))
    for name, description in TARGETS.items():
        rows.append(_component_row(f"@{name}", f"fit corpus: {description}"))
    for name, corpus in registry.corpora.items():
        plugin_name = plugin_names.get(("CORPORA", name), "")
        meaning = f"fit corpus: {corpus.note}"
        rows.append(_component_row(f"@{name}", meaning, plugin_name))
    return rows


def _component_row(word: str, meaning: str, plugin_name: str = "") -> ListedRow:
    """A component; `word` is how a method id writes it, with its sign."""
    return {"word": word, "is": meaning, "plug-in": plugin_name}


def _pooling_in_words(pooling: Pooling) -> str:
    """What a pooling is, and the layers that it averages in BERT-base."""
    sentence = _first_sentence(type(pooling))
    layers = [str(layer) for layer in pooling.hidden_states(BERT_BASE_LAYERS)]
    if not layers:
        return sentence
    words = " and ".join(layers)
    if len(layers) > 2:
        words = f"{layers[0]} to {layers[-1]}"
    return f"{sentence} ({words} of {BERT_BASE_LAYERS})"


def _post_processor_in_words(post_processor: Any) -> str:
    """What a post-processor is, and the settings of a variant.

    A variant is a `functools.partial` of the class of the post-processor.
    """
    if not isinstance(post_processor, partial):
        return _first_sentence(post_processor)
    words = [_first_sentence(post_processor.func)]
    for setting, value in post_processor.keywords.items():
        words.append(f"({setting}={value})")
    return " ".join(words)


def _first_sentence(documented: Any) -> str:
    """The first sentence of a docstring, without its point; empty without a docstring."""
    first_line, _, _ = str(documented.__doc__ or "").partition("\n")
    sentence, _, _ = first_line.partition(". ")
    return sentence.rstrip(".")


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
    """Published numbers, with the method that reproduces each, or why none does.

    Args:
        tables: All published tables.
        name: The id of one of them, whose numbers are listed; empty for all.
    """
    listed_tables = tables
    if name:
        listed_tables = (published_table(name, tables),)
    rows: list[ListedRow] = []
    for table in listed_tables:
        rows += [_published_row(cell) for cell in table.cells]
    return rows


def _published_row(cell: PublishedCell) -> ListedRow:
    """A published number with its method, or the reason why no method reproduces it."""
    method = str(cell.method)
    reason = ""
    if cell.why_not:
        method = ""
        reason = cell.why_not.id
    return {
        "cell": cell.id,
        "published": cell.value,
        "method": method,
        "task": ", ".join(cell.tasks),
        "why not": reason,
    }


# Digests


def digests_rows(registry: Registry, places: Places, name: str) -> list[ListedRow]:
    """The number of rows and the digest of each split of a task.

    The file of the task in harness/tasks has to state them.
    """
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
