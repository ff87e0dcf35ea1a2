"""Rows of published tables, gathered from a checkout of MTEB's public results repository.

`results/questions/mteb_rows.toml` names the tables and, for each row, the method that
reproduces it or the reason why none does. Head and columns of a table stand in its own
file; all rows of that file are written here, each number with the digits of its result
file. mteb is not needed.

    python tools/mteb_rows.py path/to/embeddings-benchmark-results
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.files import write_atomically
from harness.core.interfaces import Hub
from harness.core.json_text import parse_json
from harness.core.toml import READING_ERRORS, read_typed
from harness.encoders.native import NativeConfig, PromptedConfig
from harness.registry import Registry, load_registry
from harness.results.layout import PAPERS, QUESTIONS
from harness.results.published import Table
from harness.results.published_tables import load_tables

DECLARATION = "mteb_rows.toml"
FOLDER = "results"  # of the repository, where the folders of models lie
FIRST_ROW = "\n[[row]]\n"


@dataclass(frozen=True)
class DeclaredRow:
    """One row: `method`, or `why_not` with the `model` and its revision.

    `folder` is the model's folder of results, if that is not named after the revision;
    `without` are columns whose task has no result there.
    """

    method: str = ""
    model: str = ""
    revision: str = ""
    why_not: str = ""
    folder: str = ""
    evidence: str = ""
    without: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class DeclaredTable:
    """The rows of one file of `results/papers`, which `id` names."""

    id: str
    rows: tuple[DeclaredRow, ...]


@dataclass(frozen=True)
class Declaration:
    """The tables that are made of result files."""

    tables: tuple[DeclaredTable, ...]


@dataclass(frozen=True)
class MadeTable:
    """The text of a table's file, and its numbers."""

    place: Path
    text: str
    rows: int
    numbers: int


def make_tables(
    results: Path, checkout: Path, registry: Registry
) -> Iterator[MadeTable]:
    """Every declared table with the rows that a checkout gives.

    Raises UsageError where the checkout has no such folder or a declared name is
    unknown, DataError by model and file for a number that is missing, or none, and for
    other data.
    """
    if not (checkout / FOLDER).is_dir():
        raise UsageError(
            f"{checkout}: wanted a checkout of the results repository, found no folder {FOLDER}"
        )
    declared = read_typed(Declaration, results / QUESTIONS / DECLARATION)
    for table in declared.tables:
        place = results / PAPERS / f"{table.id}.toml"
        head, columns = _head(place)
        rows = [_made(row, columns, checkout, registry) for row in table.rows]
        rows.sort(key=lambda row: _release(row.get("group", "")))
        text = "\n".join([head, *map(_written, rows)])
        yield MadeTable(place, text, len(rows), sum(len(row["values"]) for row in rows))


def compared(tables: tuple[Table, ...], checkout: Path) -> int:
    """How many published numbers a checkout holds, each of which must be that of its result file.

    Raises DataError for one that is another.
    """
    count = 0
    for cell in (cell for table in tables for cell in table.cells):
        place = f"{cell.row.table.removesuffix('/{file}')}/{cell.column.file}"
        known = place.startswith(f"{FOLDER}/") and (checkout / place).is_file()
        if not known or str(cell.task).endswith(".dev"):
            continue
        where = f"{cell.row.label}: {checkout / place}"
        result = _loaded(where, checkout / place)
        found = _score(where, result, cell.column.revision, cell.metric)
        if Decimal(cell.value) != Decimal(found):
            raise DataError(
                f"{cell.id}: wanted {found}, as {place} has it, found {cell.value}"
            )
        count += 1
    return count


def _head(place: Path) -> tuple[str, tuple[Mapping[str, str], ...]]:
    """What stands before the first row of a table's file, and its columns."""
    try:
        text = place.read_text(encoding="utf-8").partition(FIRST_ROW)[0].rstrip() + "\n"
        return text, tuple(tomllib.loads(text)["columns"])
    except (*READING_ERRORS, KeyError) as error:
        raise DataError(
            f"{place}: wanted the head of a table with columns, found {error}"
        ) from None


def _made(
    row: DeclaredRow,
    columns: tuple[Mapping[str, str], ...],
    checkout: Path,
    registry: Registry,
) -> dict[str, Any]:
    """A row as its file shows it, without the keys that are empty."""
    if bool(row.method) == bool(row.why_not and row.model and row.revision):
        raise UsageError(
            f"{DECLARATION}, row {row.method or row.model}: wanted a method, or why_not with model "
            "and revision"
        )
    source, prompt = _source(row, registry)
    model, revision = source.repo, str(source.revision)
    folder = f"{FOLDER}/{model.replace('/', '__')}/{row.folder or revision}"
    values, versions = {}, set()
    for column in columns:
        path = checkout / folder / column["file"]
        where = f"{model}: {path}"
        if path.is_file() == (column["id"] in row.without):
            wanted, found = ("no", "one") if path.is_file() else ("a", "none")
            raise DataError(
                f"{where}: the declaration wants {wanted} result, found {found}; get the whole "
                f"checkout, or correct `without` in {DECLARATION}"
            )
        if path.is_file():
            result, metric = _loaded(where, path), column.get("metric", "spearman")
            values[column["id"]] = _score(where, result, column["revision"], metric)
            versions.add(str(result.get("mteb_version") or ""))
    if not values:
        raise DataError(f"{model}: {checkout / folder}: wanted results, found none")
    label = model.rpartition("/")[2]
    missing = [column["label"] for column in columns if column["id"] in row.without]
    lacking = f"Not among its results: {', '.join(missing)}." if missing else ""
    made = {
        "id": row.method.partition(".")[0] or re.sub(r"[^a-z0-9]+", "-", label.lower()),
        "label": label,
        "group": " and ".join(f"mteb {v}" for v in sorted(versions, key=_release) if v),
        "method": row.method,
        "why_not": row.why_not,
        "evidence": row.evidence,
        "backbone": f"{model}@{revision}",
        "fit": "none",
        "supervision": "n/a",
        "pooling": prompt,
        "table": folder,
        "note": " ".join(filter(None, (lacking, row.note))),
        "values": values,
    }
    return {key: value for key, value in made.items() if value}


def _source(row: DeclaredRow, registry: Registry) -> tuple[Hub, str]:
    """The repository and commit of a row's model, and its pooling and prompt in words."""
    if row.why_not:
        return Hub(row.model, row.revision), ""
    encoder = registry.parse(row.method).encoder
    source, words = encoder.source, ""
    if isinstance(encoder, NativeConfig):
        words = "the folder's modules"
        if isinstance(encoder.of, PromptedConfig):
            words += f", after the prompt {dict(encoder.of.prompts)[encoder.prompt]!r}"
        elif encoder.prompt:
            words += f", after the folder's prompt {encoder.prompt}"
    if not isinstance(source, Hub) or not source.revision:
        raise UsageError(
            f"{row.method}: wanted an encoder of the hub at a revision, found {source}"
        )
    return source, words


def _loaded(where: str, path: Path) -> dict[str, Any]:
    """A result file, its numbers as they are written."""
    try:
        found = parse_json(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except READING_ERRORS as error:
        raise DataError(
            f"{where}: wanted a result file of mteb, found {error}"
        ) from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: wanted a JSON object, found {type(found).__name__}")
    return found


def _score(where: str, result: Mapping[str, Any], revision: str, metric: str) -> str:
    """A correlation of cosines on the test split, with the digits of its file."""
    data = result.get("dataset_revision")
    if data != revision:
        raise DataError(f"{where}: wanted data of revision {revision}, found {data}")
    scores, key = _of_test(result), f"cosine_{metric}"
    score, first = scores.get(key), scores["cosine_spearman"]
    if not isinstance(score, Decimal) or abs(score) > 1:
        raise DataError(f"{where}: wanted {key} as a fraction, found {score!r}")
    main = scores.get("main_score", first)
    if main != first:
        raise DataError(
            f"{where}: wanted Spearman's correlation of cosines as the main score ({first}), found "
            f"{main}; its similarity is another"
        )
    return f"{score:f}"


def _of_test(result: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of the only subset of the test split; `cosine_spearman` is among its keys."""
    found: Any = result.get("scores", result)  # mteb 0 has none around its splits
    found = found.get("test") if isinstance(found, dict) else None
    if isinstance(found, list):
        found = found[0] if len(found) == 1 else None
    elif isinstance(found, dict):
        cosines = found.get("cos_sim")
        names = cosines if isinstance(cosines, dict) else {}
        found = {f"cosine_{name}": score for name, score in names.items()}
    return {"cosine_spearman": None, **(found if isinstance(found, dict) else {})}


def _release(version: str) -> tuple[int, ...]:
    """A version of mteb as numbers, to sort by."""
    return tuple(map(int, re.findall(r"\d+", version)))


def _written(row: Mapping[str, Any]) -> str:
    """A row in TOML, its numbers on one line."""
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in row.items()
        if key != "values"
    ]
    values = ", ".join(f'{name} = "{value}"' for name, value in row["values"].items())
    return "\n".join(["[[row]]", *lines, f"values = {{ {values} }}", ""])


def main(arguments: list[str] | None = None) -> None:
    """Write the declared tables, and compare every other published number that stands there."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "checkout", type=Path, help="a clone of embeddings-benchmark/results"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="the folder to write"
    )
    options = parser.parse_args(arguments)
    for table in list(make_tables(options.results, options.checkout, load_registry())):
        changed = table.place.read_text(encoding="utf-8") != table.text
        if changed:
            write_atomically(table.place, table.text.encode())
        outcome = "written" if changed else "unchanged"
        print(f"{table.place}: {table.rows} rows, {table.numbers} numbers, {outcome}")
    count = compared(load_tables(options.results / PAPERS), options.checkout)
    print(f"{count} published numbers stand in {options.checkout} and are equal")


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
