"""Write the rows of published tables from a checkout of MTEB's results repository.

    python tools/mteb_rows.py path/to/embeddings-benchmark-results

`results/questions/mteb_rows.toml` declares the tables: for each row, the method that
reproduces it, or the reason why none does. The head of a table and its columns are in
its own file of `results/papers`. All rows of that file are written here, each number with
the digits of its result file. Other published numbers that the checkout has are compared
with it. mteb is not needed.
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

from harness.conclusions.mteb_files import SubsetScores, scores_of_subsets
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.files import parse_json, write_atomically
from harness.core.interfaces import Hub
from harness.core.toml import READING_ERRORS, read_typed
from harness.encoders.native import NativeConfig
from harness.registry import Registry, load_registry
from harness.results.layout import PAPERS, QUESTIONS
from harness.results.published import Table
from harness.results.published_tables import load_tables

DECLARATION = "mteb_rows.toml"
FOLDER = "results"  # the folder of the repository that has the models' folders
FIRST_ROW = "\n[[row]]\n"


@dataclass(frozen=True)
class DeclaredRow:
    """A row: a method, or a model that no method here is.

    Attributes:
        method: The id of the method that reproduces the row.
        model: The repository of the model, if there is no such method.
        revision: Its commit.
        why_not: Why there is no method.
        folder: The model's folder of results, if it is not named after the revision.
        evidence: How the protocol of the row is known, if otherwise than that of the table.
        without: The ids of columns whose task has no result there.
        note: A sentence on the row.
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
    """The rows of the file of `results/papers` that has this id."""

    id: str
    rows: tuple[DeclaredRow, ...]


@dataclass(frozen=True)
class Declaration:
    """The tables that are made of result files."""

    tables: tuple[DeclaredTable, ...]


@dataclass(frozen=True)
class MadeTable:
    """A table's file, its new text, and how many rows and numbers that has."""

    path: Path
    text: str
    rows: int
    numbers: int


def make_tables(
    results: Path, checkout: Path, registry: Registry
) -> Iterator[MadeTable]:
    """Make every declared table, with the rows of a checkout.

    Raises UsageError if the checkout has no folder of results, or a declared name is
    unknown. Raises DataError, which names model and file, for a number that is missing or
    not a number, and for one of other data than the column's.
    """
    if not (checkout / FOLDER).is_dir():
        raise UsageError(
            f"{checkout}: wanted a checkout of the results repository, found no folder {FOLDER}"
        )
    declared = read_typed(Declaration, results / QUESTIONS / DECLARATION)
    for table in declared.tables:
        path = results / PAPERS / f"{table.id}.toml"
        head, columns = _read_head(path)
        rows = [_make_row(row, columns, checkout, registry) for row in table.rows]
        rows.sort(key=lambda row: _release(row.get("group", "")))
        yield MadeTable(
            path=path,
            text="\n".join([head, *map(_row_in_toml, rows)]),
            rows=len(rows),
            numbers=sum(len(row["values"]) for row in rows),
        )


def compare(tables: tuple[Table, ...], checkout: Path) -> int:
    """Compare published numbers with their result files, where the checkout has these.

    Returns how many are equal. Raises DataError for one that is not.
    """
    count = 0
    for table in tables:
        for number in table.numbers:
            file = f"{number.row.table.removesuffix('/{file}')}/{number.column.file}"
            path = checkout / file
            is_there = file.startswith(f"{FOLDER}/") and path.is_file()
            if not is_there or str(number.task).endswith(".dev"):
                continue
            where = f"{number.row.label}: {path}"
            result = _read_result(where, path)
            column = {**vars(number.column), "metric": number.metric}
            score = _score(where, result, column)
            if Decimal(number.value) != Decimal(score):
                raise DataError(
                    f"{number.id}: wanted {score}, as {file} has it, found {number.value}"
                )
            count += 1
    return count


# Rows


def _read_head(path: Path) -> tuple[str, tuple[Mapping[str, str], ...]]:
    """The text before the first row of a table's file, and the columns in it."""
    try:
        head, _, _ = path.read_text(encoding="utf-8").partition(FIRST_ROW)
        head = f"{head.rstrip()}\n"
        return head, tuple(tomllib.loads(head)["columns"])
    except (*READING_ERRORS, KeyError) as error:
        raise DataError(
            f"{path}: wanted the head of a table with columns, found {error}"
        ) from None


def _make_row(
    row: DeclaredRow,
    columns: tuple[Mapping[str, str], ...],
    checkout: Path,
    registry: Registry,
) -> dict[str, Any]:
    """The keys of a row in its table's file; those that are empty are left out."""
    if bool(row.method) == bool(row.why_not and row.model and row.revision):
        raise UsageError(
            f"{DECLARATION}, row {row.method or row.model}: wanted a method, or why_not with model "
            "and revision"
        )
    source, prompt = _source(row, registry)
    model, revision = source.repo, str(source.revision)
    folder = f"{FOLDER}/{model.replace('/', '__')}/{row.folder or revision}"
    values: dict[str, str] = {}
    versions: set[str] = set()
    missing_columns: list[str] = []
    for column in columns:
        path = checkout / folder / column["file"]
        where = f"{model}: {path}"
        if column.get("why_not"):  # of a task that is not here: taken where it is
            result = _read_result(where, path) if path.is_file() else {}
            has_revision = result.get("dataset_revision") == column["revision"]
            if has_revision and _subset_of(column, result) is not None:
                values[column["id"]] = _score(where, result, column)
            continue
        if path.is_file() == (column["id"] in row.without):
            wanted, found = ("no", "one") if path.is_file() else ("a", "none")
            raise DataError(
                f"{where}: the declaration wants {wanted} result, found {found}; get the whole "
                f"checkout, or correct `without` in {DECLARATION}"
            )
        if not path.is_file():
            missing_columns.append(column["label"])
            continue
        result = _read_result(where, path)
        values[column["id"]] = _score(where, result, column)
        versions.add(str(result.get("mteb_version") or ""))
    if not values:
        raise DataError(f"{model}: {checkout / folder}: wanted results, found none")
    label = model.rpartition("/")[2]
    encoder = row.method.partition(".")[0]
    notes = [row.note] if row.note else []
    if missing_columns:
        notes.insert(0, f"Not among its results: {', '.join(missing_columns)}.")
    programs = [f"mteb {v}" for v in sorted(versions, key=_release) if v]
    keys = {
        "id": encoder or re.sub(r"[^a-z0-9]+", "-", label.lower()),
        "label": label,
        "group": " and ".join(programs),
        "method": row.method,
        "why_not": row.why_not,
        "evidence": row.evidence,
        "backbone": f"{model}@{revision}",
        "fit": "none",
        "supervision": "n/a",
        "pooling": prompt,
        "table": folder,
        "note": " ".join(notes),
        "values": values,
    }
    return {key: value for key, value in keys.items() if value}


def _source(row: DeclaredRow, registry: Registry) -> tuple[Hub, str]:
    """The repository and commit of a row's model, and its pooling and prompt in words."""
    if row.why_not:
        return Hub(row.model, row.revision), ""
    encoder = registry.parse(row.method).encoder
    source = encoder.source
    words = ""
    if isinstance(encoder, NativeConfig):
        words = "the folder's modules"
        texts = dict(getattr(encoder.of, "prompts", ()))
        if encoder.prompt in texts:
            words += f", after the prompt {texts[encoder.prompt]!r}"
        elif encoder.prompt:
            words += f", after the folder's prompt {encoder.prompt}"
    if not isinstance(source, Hub) or not source.revision:
        raise UsageError(
            f"{row.method}: wanted an encoder of the hub at a revision, found {source}"
        )
    return source, words


# Result files


def _read_result(where: str, path: Path) -> dict[str, Any]:
    """A result file, whose numbers keep their digits; `where` names it in errors."""
    try:
        result = parse_json(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except READING_ERRORS as error:
        raise DataError(
            f"{where}: wanted a result file of mteb, found {error}"
        ) from None
    if not isinstance(result, dict):
        raise DataError(f"{where}: wanted a JSON object, found {type(result).__name__}")
    return result


def _subset_of(
    column: Mapping[str, Any], result: Mapping[str, Any]
) -> SubsetScores | None:
    """The scores of a column's subset in the test split; None without any of that name."""
    rows = [row for row in scores_of_subsets(result) if row.split == "test"]
    if column.get("subset"):
        rows = [row for row in rows if row.subset == column["subset"]]
    return rows[0] if len(rows) == 1 else None


def _score(where: str, result: Mapping[str, Any], column: Mapping[str, Any]) -> str:
    """A correlation of cosines on the test split, with the digits of its file."""
    metric, revision = column.get("metric", "spearman"), column["revision"]
    found_revision = result.get("dataset_revision")
    if found_revision != revision:
        raise DataError(
            f"{where}: wanted data of revision {revision}, found {found_revision}"
        )
    row = _subset_of(column, result)
    if row is None:
        raise DataError(f"{where}: wanted one subset of test, found none or several")
    score = row.cosine(metric)
    if not isinstance(score, Decimal) or abs(score) > 1:
        raise DataError(
            f"{where}: wanted cosine_{metric} as a fraction, found {score!r}"
        )
    spearman = row.cosine("spearman")
    main_score = row.metrics.get("main_score", spearman)
    if main_score != spearman:
        raise DataError(
            f"{where}: wanted Spearman's correlation of cosines as the main score ({spearman}), "
            f"found {main_score}; its similarity is another"
        )
    return f"{score:f}"


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version of mteb, to sort by."""
    return tuple(map(int, re.findall(r"\d+", version)))


def _row_in_toml(row: Mapping[str, Any]) -> str:
    """A row in TOML, its numbers on one line, which is the last."""
    lines = ["[[row]]"]
    for key, value in row.items():
        if key != "values":
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    values = ", ".join(f'{name} = "{value}"' for name, value in row["values"].items())
    lines.append(f"values = {{ {values} }}")
    return "\n".join([*lines, ""])


def main(arguments: list[str] | None = None) -> None:
    """Write the declared tables, and compare all published numbers with the checkout."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "checkout", type=Path, help="a clone of embeddings-benchmark/results"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="the folder to write"
    )
    options = parser.parse_args(arguments)
    for table in list(make_tables(options.results, options.checkout, load_registry())):
        outcome = "unchanged"
        if table.path.read_text(encoding="utf-8") != table.text:
            write_atomically(table.path, table.text.encode())
            outcome = "written"
        print(f"{table.path}: {table.rows} rows, {table.numbers} numbers, {outcome}")
    count = compare(load_tables(options.results / PAPERS), options.checkout)
    print(f"{count} published numbers are in {options.checkout} and equal")


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
