"""Scores as rows of a data frame, each with the number that is published for it.

The columns of a row are the fields of `ScoreRow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from harness.core.environment import extra
from harness.core.provenance import PLUGINS
from harness.core.types import (
    MethodId,
    Record,
    ScorePath,
    is_transductive,
    score_at,
    score_paths,
)
from harness.data.tasks.readers import release_of
from harness.registry import Registry
from harness.results.folder import ResultsFolder
from harness.results.index import Results, main_path
from harness.results.layout import is_packaged, papers_of
from harness.results.published import EVIDENCE, PublishedNumber, Table, score_path
from harness.results.published_tables import load_tables
from harness.results.reproduction import Reproduction, reproduce
from harness.results.verdict import CellState


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """One score of one method on one task with one seed.

    Attributes:
        method: The method's id.
        encoder: The encoder, with its maximum length where the id names one.
        pooling: The pooling.
        post: The post-processors in their order, joined by `+`; empty without any.
        fit_on: The corpus that they are fitted on; empty without any.
        transductive: Whether this corpus holds the very sentences that are scored.
        task: The task.
        seed: The seed of the fits; of a family, the seed of the training.
        metric: The metric: `spearman`, `pearson`, `auc`, `accuracy` and others.
        aggregation: `all`, `mean` or `wmean` over the subsets of a task, or the name of
            a subset; empty for a metric without any. A score by quartiles or by word
            frequency has the names of both parts, as in `lower/1` and `k=3/all`.
        state: `measured`; `stale` if the method has other settings now; or why the
            score is undefined.
        score: The score in points (x100); None is undefined. Alignment, uniformity and
            the numbers that describe word vectors or their spectrum are not in points.
        coverage: The share of tokens that have a word vector; None for encoders without
            word vectors.
        pairs: How many pairs, or labelled sentences, were scored.
        published: The number that is published under this protocol, in points. Of
            several numbers it is the one with the best evidence, and of these the first
            by the id of its table.
        published_in: Its TABLE/ROW/COLUMN, as `harness explain` takes it.
        evidence: How its protocol is known: a key of `EVIDENCE`.
        difference: Measured minus published, in points, over all seeds.
        verdict: The verdict on the difference, over all seeds.
        encode_seconds: Seconds of encoding the sentences, when they were first encoded.
        fit_seconds: Seconds of fitting.
        apply_seconds: Seconds of applying what was fitted.
        score_seconds: Seconds of scoring.
        sentences_per_second: Sentences that were encoded in a second.
        peak_memory_mb: The most memory that the process took, in MiB.
        device: Where the sentences were encoded.
        dtype: The type of numbers in which they were encoded, as `float32`.
        threads: Threads of the machine that the run used.
        harness: The version of the harness.
        commit: Its commit; None outside a checkout.
        data: The digest of the pairs.
        release: The public version of the data set that the pairs are of, if it has
            several: `senteval`, `retokenised` or `other data`; None if it has one.
        weights: The digest of the encoder's weights.
        plugin: The plug-ins whose code takes part in the score, with a note on those
            that are not loaded now.
        source: `packaged` for a record that comes with the harness, `own` for any
            other.
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
    release: str | None
    weights: str | None
    plugin: str | None
    source: str


def folder_rows(
    folder: ResultsFolder,
    every_score: bool = False,
    published_too: bool = False,
    methods: Sequence[str] = (),
) -> list[ScoreRow]:
    """The rows of the records that a `ResultsFolder` reads, folder by folder.

    `methods` are ids and globs of the methods that are read, by default all.

    The records of each folder are compared with the published tables of that folder.
    `score_rows` describes `every_score` and `published_too`.
    """
    rows: list[ScoreRow] = []
    records = folder.records_of_methods(methods)
    for path in folder.folders:
        tables = load_tables(papers_of(path), folder.registry)
        source = "packaged" if is_packaged(path) else "own"
        results = records.select(
            cell for cell in records.by_cell if records.folders[cell] == path
        )
        rows += score_rows(
            results,
            tables,
            folder.registry,
            every_score=every_score,
            source=source,
            published_too=published_too,
        )
    return rows


def score_rows(
    results: Results,
    tables: Iterable[Table],
    registry: Registry,
    every_score: bool = False,
    source: str = "own",
    published_too: bool = False,
) -> list[ScoreRow]:
    """The rows of records, in the order of the records.

    Args:
        results: The records.
        tables: The published tables that scores are compared with.
        registry: Methods and tasks by name.
        every_score: One row for each score of a record, and not for its main score
            alone.
        source: The value of the rows in the column `source`.
        published_too: In addition to the main score, each score for which a number is
            published has a row.
    """
    reproductions = _reproductions_by_score(results, tables, registry)
    rows = []
    for (method, task), records in results.by_cell.items():
        is_stale = (method, task) in results.stale
        for record in records:
            path_of_main = main_path(record.scores)
            for path in _paths(record, path_of_main):
                reproduction = reproductions.get((method, task, path))
                is_shown = every_score or path == path_of_main
                if published_too and reproduction is not None:
                    is_shown = True
                if is_shown:
                    rows.append(_row(record, path, reproduction, source, is_stale))
    return rows


def _paths(record: Record, path_of_main: ScorePath) -> list[ScorePath]:
    """The paths of a record's scores, with the path of its main score even if it lacks one."""
    paths = [*score_paths(record.scores)]
    if path_of_main in paths:
        return paths
    return [path_of_main, *paths]


def _reproductions_by_score(
    results: Results, tables: Iterable[Table], registry: Registry
) -> Mapping[tuple[str, str, ScorePath], Reproduction]:
    """The reproduction of a published number by each score, by method, task and path.

    If a score has several published numbers, the one with the best evidence is taken.
    """
    numbers: list[PublishedNumber] = []
    for table in tables:
        numbers += table.numbers
    best_evidence_first = [*EVIDENCE, None]
    numbers.sort(key=lambda number: best_evidence_first.index(number.evidence))
    reproductions: dict[tuple[str, str, ScorePath], Reproduction] = {}
    for number in numbers:
        records = results.records(str(number.method), str(number.task))
        if not records or not number.published:
            continue
        path = score_path(number.metric, number.aggregation)
        score = (str(number.method), str(number.task), path)
        if score not in reproductions:
            reproductions[score] = reproduce(number, results, registry)
    return reproductions


def plugins_in_words(record: Record) -> str | None:
    """The plug-ins of a record by name and version, with a note on those that are not loaded.

    `harness.core.provenance.PLUGINS` has the plug-ins that this process has loaded. None
    for a record without plug-ins.
    """
    plugins = []
    for name, version in record.facts.get("plugins", {}).items():
        plugin = f"{name} {version}".strip()
        if name not in PLUGINS:
            plugin += " (not loaded)"
        plugins.append(plugin)
    return ", ".join(plugins) or None


def _row(
    record: Record,
    path: ScorePath,
    reproduction: Reproduction | None,
    source: str,
    is_stale: bool,
) -> ScoreRow:
    """The row of one score of a record, with the number that is published for it."""
    parts = MethodId.parse(record.method) or MethodId(record.method, "")
    score = score_at(record.scores, path)
    facts, timings, environment = record.facts, record.timings, record.environment
    dtypes = [encoding["dtype"] for encoding in facts.get("encoding", [])]
    row = ScoreRow(
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
        state=_state(record, path, score, is_stale),
        score=score,
        coverage=facts.get("coverage"),
        pairs=record.pairs,
        published=None,
        published_in=None,
        evidence=None,
        difference=None,
        verdict=None,
        encode_seconds=timings.get("encode"),
        fit_seconds=timings.get("fit"),
        apply_seconds=timings.get("apply"),
        score_seconds=timings.get("score"),
        sentences_per_second=facts.get("sentences_per_second"),
        peak_memory_mb=facts.get("peak_memory_mb"),
        device=environment.get("device"),
        dtype=", ".join(dict.fromkeys(dtypes)) or None,
        threads=environment.get("threads"),
        harness=environment.get("harness"),
        commit=environment.get("commit"),
        data=record.digests.get("data"),
        release=release_of(record.task, record.digests.get("data")),
        weights=record.digests.get("weights"),
        plugin=plugins_in_words(record),
        source=source,
    )
    if reproduction is None:
        return row
    return replace(
        row,
        published=reproduction.number.points,
        published_in=reproduction.number.id,
        evidence=reproduction.number.evidence,
        difference=reproduction.verdict.difference,
        verdict=str(reproduction.state),
    )


def _state(record: Record, path: ScorePath, score: float | None, is_stale: bool) -> str:
    """`measured`, or why the score cannot be used."""
    if score is not None and is_stale:
        return str(CellState.STALE)
    if score is not None:
        return "measured"
    reason = record.facts.get("undefined")  # why the main score is undefined
    if reason and path == main_path(record.scores):
        return f"{CellState.UNDEFINED}: {reason}"
    return str(CellState.UNDEFINED)


# The pandas type of a column by the type of its field; `Int64` can hold missing values.
COLUMN_TYPES = {"str": "string", "bool": "bool", "int": "Int64", "float": "float64"}


def to_frame(rows: Sequence[ScoreRow]) -> Any:
    """A `pandas.DataFrame` with a column for each field, whose type it has even without rows.

    Raises UsageError if pandas is not installed.
    """
    with extra("pandas"):
        import pandas
    columns = {}
    for field in fields(ScoreRow):
        field_type = str(field.type).removesuffix(" | None")
        column_type = COLUMN_TYPES[field_type]
        values = [getattr(row, field.name) for row in rows]
        columns[field.name] = pandas.array(values, dtype=column_type)
    return pandas.DataFrame(columns)
