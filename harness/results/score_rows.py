"""The JSON Schema of a record, made from its dataclass: for programs that read a run's files.

A run's file is the record and the digest of it. A committed file holds the same fields, some of
them by reference (`harness.results.records`).
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from harness.core.types import MethodId, Record, is_transductive
from harness.registry import Registry
from harness.results.index import Results, main_path, score_at
from harness.results.layout import COMMITTED, OWN, is_packaged, own_or_committed, papers_of
from harness.results.published import EVIDENCE, Table, score_path
from harness.results.published_files import load_tables
from harness.results.records import SCHEMA, SEAL, Store
from harness.results.reproduction import Reproduction, reproduce
from harness.results.verdict import CellState

DIALECT = "http://json-schema.org/draft-07/schema#"
SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}

# What the types of the fields do not say.
FURTHER: Mapping[str, Mapping[str, Any]] = {
    "schema": {"const": SCHEMA},
    "seed": {"minimum": 0},
    "pairs": {"minimum": 1},
    "scores": {"additionalProperties": {"$ref": "#/definitions/score"}, "minProperties": 1},
}
SCORE = {
    "description": "Points (x100); null is undefined. Correlations by aggregation and subset.",
    "anyOf": [
        {"type": ["number", "null"]},
        {"type": "object", "additionalProperties": {"$ref": "#/definitions/score"}},
    ],
}


def record_schema() -> dict[str, Any]:
    """The schema of a run's file, `records/<encoder>/<method>/<task>/seed-<n>.json`."""
    types, told = get_type_hints(Record), _attributes(Record.__doc__ or "")
    properties: dict[str, Any] = {
        field.name: {"description": told[field.name], **_of_type(types[field.name])}
        | dict(FURTHER.get(field.name, {}))
        for field in fields(Record)
    }
    needed = [f.name for f in fields(Record) if f.default_factory is MISSING]
    seal = "The sha256 of the record as one line of JSON; files of 0.2.0 and before lack it."
    return {
        "$schema": DIALECT,
        "title": "Record",
        "description": (Record.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": properties
        | {SEAL: {"description": seal, "type": "string", "pattern": "^[0-9a-f]{64}$"}},
        "required": needed,
        "additionalProperties": False,
        "definitions": {"score": SCORE},
    }


def _of_type(kind: Any) -> dict[str, Any]:
    """The schema of a field's type; a type that has none yet is refused."""
    if kind is Any:
        return {}
    if kind in SIMPLE:
        return {"type": SIMPLE[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [_of_type(one) for one in arguments]}
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        values = _of_type(arguments[1])
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    raise TypeError(f"wanted a type that JSON has, found {kind}")


def _attributes(docstring: str) -> dict[str, str]:
    """The sentence on each attribute of a docstring, on one line."""
    block = docstring.partition("Attributes:\n")[2]
    found = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", block, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


Path = tuple[str, ...]


@dataclass(frozen=True)
class ScoreRow:
    """One score of one method on one task with one seed.

    Attributes:
        method: The method's id.
        encoder: The encoder, with its maximum length where the id names one.
        pooling: The pooling.
        post: The post-processors in their order, joined by `+`; empty without any.
        fit_on: The corpus that they are fitted on; empty without any.
        transductive: Whether that holds the very sentences that are scored.
        task: The task.
        seed: The seed of the fits; of a family, that of the training.
        metric: The metric: `spearman`, `pearson`, `auc`, `accuracy` and others.
        aggregation: `all`, `mean` or `wmean` over the subsets of a task, or the name of a subset;
            empty for a metric without any. Of quartiles and word frequency the names of both
            parts, as in `lower/1` and `k=3/all`.
        state: `measured`, or why the score is undefined.
        score: In points (x100), but for alignment and uniformity, and what describes the vectors
            of words or their spectrum; None is undefined.
        coverage: The share of tokens that have a vector, of word vectors; None for other encoders.
        pairs: How many pairs, or labelled sentences, were scored.
        published: The number that is published under this protocol, in points. Where there are
            several, the one whose protocol is known best, then the first by its table's name.
        published_in: Where it stands: TABLE/ROW/COLUMN, as `harness explain` takes it.
        evidence: How its protocol is known: confirmed, code, paper or inferred.
        difference: Measured minus published, in points, over all seeds.
        verdict: The verdict on it, over all seeds.
        encode_seconds: Seconds of encoding the sentences, when they were first encoded.
        fit_seconds: Seconds of fitting.
        apply_seconds: Seconds of applying what was fitted.
        score_seconds: Seconds of scoring.
        sentences_per_second: Of encoding.
        peak_memory_mb: The most memory that the process took, in MiB.
        device: Where the sentences were encoded.
        dtype: In which numbers they were encoded, as `float32`.
        threads: Threads of the machine that the run used.
        harness: The version of the harness.
        commit: Its commit; None outside a checkout.
        data: The digest of the pairs.
        weights: The digest of the encoder's weights.
        source: `packaged` for a record that comes with the harness, `own` for any other.
    """

    method: str
    encoder: str
    pooling: str
    post: str
    fit_on: str
    transductive: bool
    task: str
    seed: int
    metric: str
    aggregation: str
    state: str
    score: float | None
    coverage: float | None
    pairs: int
    published: float | None
    published_in: str | None
    evidence: str | None
    difference: float | None
    verdict: str | None
    encode_seconds: float | None
    fit_seconds: float | None
    apply_seconds: float | None
    score_seconds: float | None
    sentences_per_second: float | None
    peak_memory_mb: int | None
    device: str | None
    dtype: str | None
    threads: int | None
    harness: str | None
    commit: str | None
    data: str | None
    weights: str | None
    source: str


def folder_rows(
    folder: pathlib.Path, registry: Registry, every_score: bool = False, only_own: bool = False
) -> list[ScoreRow]:
    """The rows of a results folder; behind those of one's own `results`, the packaged ones.

    A cell that both hold is one's own alone.
    """
    place = own_or_committed(folder)
    both = folder == OWN and not only_own and not is_packaged(place)
    rows: list[ScoreRow] = []
    seen: set[tuple[str, str]] = set()
    for one in (place, COMMITTED) if both else (place,):
        by_cell = Results.read(Store(one)).by_cell
        results = Results({cell: by_cell[cell] for cell in by_cell if cell not in seen})
        seen |= by_cell.keys()
        tables = load_tables(papers_of(one), registry)
        source = "packaged" if is_packaged(one) else "own"
        rows += score_rows(results, tables, registry, every_score, source)
    return rows


def score_rows(
    results: Results,
    tables: Iterable[Table],
    registry: Registry,
    every_score: bool = False,
    source: str = "own",
) -> list[ScoreRow]:
    """The main score of every record, or every score of it, in the order of the records."""
    published = _published(results, tables, registry)
    return [
        _row(record, path, published.get((record.method, record.task, *path)), source)
        for records in results.by_cell.values()
        for record in records
        for path in (paths(record.scores) if every_score else [main_path(record.scores)])
    ]


def paths(scores: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    """The path of every score: (spearman, all), (spearman, groups, MSRpar), (auc,)."""
    for name, value in scores.items():
        if isinstance(value, Mapping):
            yield from paths(value, (*above, name))
        else:
            yield (*above, name)


def _published(
    results: Results, tables: Iterable[Table], registry: Registry
) -> dict[Path, Reproduction]:
    """The published numbers of single tasks, by method, task and path of the score."""
    order = {word: place for place, word in enumerate([*EVIDENCE, None])}
    cells = [cell for table in tables for cell in table.cells()]
    found: dict[Path, Reproduction] = {}
    for cell in sorted(cells, key=lambda cell: order[cell.evidence]):
        if cell.method is None or cell.task is None or cell.row.model_free:
            continue
        address = (cell.method, cell.task)
        if address in results.by_cell and cell.published is not None:
            path = (*address, *score_path(cell.metric, cell.aggregation))
            found.setdefault(path, reproduce(cell, results, registry))
    return found


def _row(record: Record, path: Path, published: Reproduction | None, source: str) -> ScoreRow:
    parts = MethodId.parse(record.method) or MethodId(record.method, "")
    timings, facts, made = record.timings, record.facts, record.environment
    passes = facts.get("encoding", [])
    found = score_at(record.scores, path)
    return ScoreRow(
        method=record.method,
        encoder=parts.encoder,
        pooling=parts.pooling,
        post="+".join(parts.post),
        fit_on=parts.fit_on or "",
        transductive=is_transductive(record.method),
        task=record.task,
        seed=record.seed,
        metric=path[0],
        aggregation="/".join(name for name in path[1:] if name != "groups"),
        state=_state(record, path, found),
        score=found,
        coverage=facts.get("coverage"),
        pairs=record.pairs,
        published=published.cell.points if published else None,
        published_in=published.cell.id if published else None,
        evidence=published.cell.evidence if published else None,
        difference=published.verdict.difference if published else None,
        verdict=str(published.state) if published else None,
        encode_seconds=timings.get("encode"),
        fit_seconds=timings.get("fit"),
        apply_seconds=timings.get("apply"),
        score_seconds=timings.get("score"),
        sentences_per_second=facts.get("sentences_per_second"),
        peak_memory_mb=facts.get("peak_memory_mb"),
        device=made.get("device"),
        dtype=", ".join(dict.fromkeys(how["dtype"] for how in passes)) or None,
        threads=made.get("threads"),
        harness=made.get("harness"),
        commit=made.get("commit"),
        data=record.digests.get("data"),
        weights=record.digests.get("weights"),
        source=source,
    )


def _state(record: Record, path: Path, score: float | None) -> str:
    """`measured`, or why a score is undefined: the record says it of its main score."""
    if score is not None:
        return "measured"
    why = record.facts.get("undefined") if path == main_path(record.scores) else None
    return f"{CellState.UNDEFINED}: {why}" if why else str(CellState.UNDEFINED)
