"""`harness list`: what there is, as rows for a person or a program.

A row is a dictionary from the names of columns to values, of which a terminal shows the
first that fit; a pipe gets all of them, between tabs. Each kind of thing has a function
that makes its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options as opt
from harness.core.errors import UsageError
from harness.core.files import sized
from harness.core.interfaces import Hub, Packaged, Pooling, Trained
from harness.core.pairs import rows_digest
from harness.core.provenance import PLUGINS
from harness.core.terminal import text_table
from harness.data.places import Places, every_asset, packaged, pinned_by
from harness.data.tasks.loader import TARGETS
from harness.plugins import registered
from harness.registry import Registry, look_up, matches
from harness.resolve import resolve
from harness.results.layout import OWN, PAPERS, own_or_committed

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
LEAST_WIDTH = 20  # of a column that is cut
COLUMN_GAP = 2
HEAD_PADDING = 2  # blanks that tabulate adds to the name of a column
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
    encoder: opt.Encoders = None,
    plugin: opt.Plugins = None,  # noqa: ARG001 - its callback loads them
    data_dir: opt.DataDir = None,
    as_json: opt.Json = False,
) -> None:
    """List methods, encoders, tasks, published numbers and more."""
    known = resolve(opt.Folders(data_dir).places(), encoder)
    rows = listed_rows(kind, name, known.registry, known.places)
    if as_json:
        opt.say_rows(rows, as_json)
        return
    if not rows:
        opt.note("no plug-in is loaded: name a file by --plugin, or install one")
        return
    columns, width = opt.texts_by_column(rows), opt.terminal_width()
    if width is None:  # a file or a pipe, as for grep and cut
        for texts in [columns, *zip(*columns.values(), strict=True)]:
            opt.say("\t".join(" ".join(text.split()) for text in texts))
    elif len(rows) == 1:
        for column, [text] in columns.items():
            opt.say(f"{column}: {text}")
    else:
        columns = fitting(columns, width)
        opt.say(text_table(list(zip(*columns.values(), strict=True)), list(columns)))


def fitting(columns: Mapping[str, Sequence[str]], width: int) -> dict[str, list[str]]:
    """The first columns of a table that fit into a width; the last one may be cut."""
    fitting_columns: dict[str, list[str]] = {}
    for name, texts in columns.items():
        longest = max(len(name) + HEAD_PADDING, *map(len, texts))
        if fitting_columns and width < min(longest, LEAST_WIDTH):
            break
        fitting_columns[name] = [
            text if len(text) <= width else f"{text[: max(0, width - 1)]}…"
            for text in texts
        ]
        width -= longest + COLUMN_GAP
    return fitting_columns


def listed_rows(
    kind: str, name: str, registry: Registry, places: Places
) -> list[ListedRow]:
    """The rows of one kind of thing.

    Args:
        kind: One of LISTED_KINDS.
        name: A table, for the kind `cells`, or a task, for `digests`; else a part of
            names, or a glob. Empty for all.
        registry: What is registered.
        places: Where data and encoders are.

    Raises:
        UsageError: There is no such kind, table or task, or no such name.
    """
    look_up("kind of thing", kind, dict.fromkeys(LISTED_KINDS))
    match kind:
        case "methods" | "encoders" | "tasks":
            rows = registered_rows(kind.removesuffix("s"), getattr(registry, kind))
        case "assets":
            rows = assets_rows(registry, places)
        case "components":
            rows = components_rows(registry)
        case "papers":
            rows = papers_rows(registry)
        case "plugins":
            rows = plugins_rows()
        case "cells":
            return cells_rows(registry, name)
        case _:
            return digests_rows(registry, places, name)
    matching = []
    for row in rows:
        first_column, *_ = row.values()
        if matches(first_column, [f"*{name}*"]):
            matching.append(row)
    if name and not matching:
        raise UsageError(
            f"list {kind} {name}: none has such a name: harness list {kind}"
        )
    return matching


# What is registered

# The columns of a list, which are attributes of what is listed, by the first column.
ATTRIBUTES = {
    "method": ("cite", "transductive", "seeded", "note"),
    "encoder": ("source", "trained_on", "licence"),
    "task": ("metric", "text", "scored", "asset", "note"),
}


def registered_rows(noun: str, things: Mapping[str, Any]) -> list[ListedRow]:
    """Methods, encoders or tasks with their attributes."""
    rows: list[ListedRow] = []
    for name, thing in things.items():
        row: ListedRow = {noun: name}
        for attribute in ATTRIBUTES[noun]:
            value = getattr(thing, attribute)
            if isinstance(value, tuple):  # splits
                value = "+".join(value)
            row[attribute] = value if isinstance(value, bool) else str(value)
        rows.append(row)
    return rows


def components_rows(registry: Registry) -> list[ListedRow]:
    """Poolings, post-processors and fit corpora, as they are written in a method id."""
    meanings = {}
    for name, pooling in registry.poolings.items():
        meanings[name] = f"pooling: {_pooling_in_words(pooling)}"
    for name, make in registry.posts.items():
        words = _first_sentence(make)
        if isinstance(make, partial):  # a variant: a class with settings
            settings = [f"({key}={value})" for key, value in make.keywords.items()]
            words = " ".join([_first_sentence(make.func), *settings])
        meanings[f"+{name}"] = f"post-processor: {words}"
    for name, description in TARGETS.items():
        meanings[f"@{name}"] = f"fit corpus: {description}"
    for name, corpus in registry.corpora.items():
        meanings[f"@{name}"] = f"fit corpus: {corpus.note}"
    return [{"word": word, "is": meaning} for word, meaning in meanings.items()]


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


def _first_sentence(documented: Any) -> str:
    """The first sentence of a docstring, without its point; empty without a docstring."""
    first_line, _, _ = str(documented.__doc__ or "").partition("\n")
    sentence, _, _ = first_line.partition(". ")
    return sentence.rstrip(".")


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
        for list_name, names in registered(plugin).items():
            row[list_name.lower()] = ", ".join(names)
        rows.append(row)
    return rows


# Assets


def assets_rows(registry: Registry, places: Places) -> list[ListedRow]:
    """Every data set and encoder: whether it is here, its source, its pin, how to get it."""
    rows: list[ListedRow] = []
    for asset in every_asset():
        sources = [source.name for part in asset.parts for source in part.sources]
        row = _asset_row(
            asset.name,
            places.data(asset),
            asset.download_size,
            what=asset.what,
            source=asset.source,
            sources=", ".join(dict.fromkeys(sources)),
            pinned=asset.pinned,
            licence=asset.licence,
            cite=", ".join(asset.cite),
            get=asset.get,
        )
        rows.append(row)
    for encoder in registry.encoders.values():
        source = encoder.source
        origin = str(source)
        if isinstance(source, Hub | Packaged) and packaged(encoder):
            origin = f"package {source.package}"
        is_here = places.has_encoder(encoder)
        command = "train family" if isinstance(source, Trained) else "fetch"
        row = _asset_row(
            encoder.name,
            places.encoder(encoder.member(0)) if is_here else None,
            getattr(source, "download_size", None),
            what="encoder",
            source=origin,
            sources=", ".join(source.places) if isinstance(source, Hub) else "",
            pinned=pinned_by(encoder),
            licence=encoder.licence,
            cite=encoder.cite,
            get=f"harness {command} {encoder.name}",
        )
        rows.append(row)
    return rows


def _asset_row(
    name: str, path: Path | None, download_size: int | None, **facts: object
) -> ListedRow:
    """A row of `assets_rows`; `path` is where the asset is, None where it is not here."""
    size = download_size
    if path is not None:
        files = [path] if path.is_file() else path.rglob("*")
        size = sum(file.stat().st_size for file in files if file.is_file())
    return {
        "asset": name,
        "here": path is not None,
        "size": sized(size) if size else "",
        **facts,
        "bytes": size,
    }


# Published tables and their cells, whose modules are imported for these lists alone


def papers_rows(registry: Registry) -> list[ListedRow]:
    """Published tables: ids, sources, and how many numbers each holds."""
    from harness.results.published_tables import load_tables

    rows: list[ListedRow] = []
    for table in load_tables(own_or_committed(OWN / PAPERS), registry):
        row = {
            "table": table.id,
            "numbers": len(table.numbers),
            "paper": table.paper,
            "place": table.table,
            "cite": table.cite,
        }
        rows.append(row)
    return rows


def cells_rows(registry: Registry, name: str) -> list[ListedRow]:
    """The numbers of a published table, or of all tables without a name.

    Each has the method that reproduces it, or why none does, and its standing.
    """
    from harness.conclusions.folder import Conclusions
    from harness.report.sentences import standings_in_short

    folder = Conclusions(OWN, registry, own_or_committed(OWN / PAPERS))
    rows: list[ListedRow] = []
    for table in [folder.table(name)] if name else folder.tables:
        for number in table.numbers:
            row = {
                "cell": number.id,
                "published": number.value,
                "method": "" if number.why_not else str(number.method),
                "task": ", ".join(number.tasks),
                "why not": number.why_not.id if number.why_not else "",
                "standing": standings_in_short(folder.standings.get(number.id, ())),
            }
            rows.append(row)
    return rows


# Digests


def digests_rows(registry: Registry, places: Places, name: str) -> list[ListedRow]:
    """The number of rows and the digest of each split of a task.

    The file of the task in harness/data/tasks has to state them.
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
