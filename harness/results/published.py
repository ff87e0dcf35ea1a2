"""Published tables, and their numbers with the protocol of each.

A `Table` has rows and columns as its file has them. Method, task, metric and aggregation
of a number may be stated at its row, its column or the table; a `PublishedNumber` is one
printed number with all of them. `harness.results.published_tables` reads tables from
files and checks them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path

from harness.core.errors import DataError
from harness.core.metrics.correlation import CORRELATION_SCORES, COSINE
from harness.core.toml import read_rows
from harness.core.types import AGGREGATIONS, Aggregation, ScorePath
from harness.registry import Registry, load_registry
from harness.results.protocols import UNKNOWN, Protocol, common_choice
from harness.results.records import CellName
from harness.results.verdict import CellState, Published


@dataclass(frozen=True)
class Reason:
    """A reason why no method or task here gives a number.

    Attributes:
        id: The id that rows and columns name in `why_not`.
        explanation: The reason in a sentence.
        state: The state that the numbers have in place of a verdict.
    """

    id: str
    explanation: str
    state: str = CellState.NO_METHOD

    def __post_init__(self) -> None:
        if self.state not in tuple(CellState):
            raise ValueError(f"state: {self.state!r} is no state of a cell")


@cache
def reasons() -> Mapping[str, Reason]:
    """All reasons by id; read once."""
    rows = read_rows(Reason, Path(__file__).with_name("reasons.toml"), "reason")
    return {reason.id: reason for reason in rows}


# The published metrics that are scores, under their names in a record, and with them all
# published metrics.
PUBLISHED_SCORES = (
    *CORRELATION_SCORES,
    "auc",
    "edit_distance",
    "gold_similarity",
    "accuracy",
)
PUBLISHED_METRICS = (*PUBLISHED_SCORES, "reciprocal_rank", "word statistic")

# The aggregation of a record's score for each aggregation that a table may name. A single
# set has no subsets.
AGGREGATION_OF: Mapping[str, Aggregation] = {
    **{name: name for name in AGGREGATIONS},
    "single set": "all",
}

# How the protocol of a row is known, that is, its method, pooling, text form, aggregation
# and fit corpus. If they are known in different ways, the least certain one counts.
EVIDENCE: Mapping[str, str] = {
    "confirmed": "our scores under the row's protocol equal those of the authors' own program",
    "code": "read from the code that the authors released",
    "measured": "the only choice here whose scores are those that the row prints",
    "paper": "stated in the paper",
    "inferred": "stated nowhere: concluded from the numbers, or from what others found",
}

MOST_DECIMALS = 4  # of a point that pages show
DATA_SETS_WITH_SUBSETS = re.compile(r"sts1\d")

TextByName = Mapping[str, str]
DataSets = tuple[str, ...]  # one data set, or those of an average


@dataclass(frozen=True)
class Column:
    """One column of a table: it has a task, or averages other columns, or has a `why_not`.

    Attributes:
        id: The column's id in the table.
        label: The printed heading.
        task: The task whose score the column prints.
        average_of: The ids of the columns that it averages.
        why_not: The id of the reason why no task of the harness gives its numbers.
        metric: The metric, if it is not the table's.
        aggregation: The aggregation, if it is not the row's or the table's.
        split: The split that the paper names.
        file: The file that the number was read from, for `source`.
        revision: The revision of the data set.
        subset: The subset of the data set, where it has several.
        note: A note on its numbers.
        verbatim: Words of the paper, by the key that they explain.
    """

    id: str
    label: str
    task: str | None = None
    average_of: tuple[str, ...] = ()
    why_not: str | None = None
    metric: str | None = None
    aggregation: str | None = None
    split: str = ""
    file: str = ""
    revision: str = ""
    subset: str = ""
    note: str = ""
    verbatim: TextByName = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One row of a table: it has a method, or a reason why no method reproduces it.

    The keys of mappings are ids of columns, but for `verbatim`.

    Attributes:
        id: The row's id in the table.
        label: The printed label.
        backbone: The checkpoint of the encoder.
        fit: The corpus that its post-processors are fitted on, or `none`.
        supervision: The kind of data that it was trained on.
        values: The printed numbers.
        method: The method that reproduces it.
        why_not: The id of the reason why none does.
        evidence: How its protocol is known, a key of `EVIDENCE`; by default the table's.
        group: The heading under which the paper prints the row.
        trained_on: The data that the encoder was trained on.
        model_free: Whether the numbers are of no model, but of human agreement.
        quoted: Whether the paper quotes it from another.
        transductive: Whether it is fitted on the sentences that are scored.
        pooling: The pooling that the paper names.
        dims: The dimensions that the paper names.
        aggregation: The aggregation, if it is not the table's.
        statistic: What the row prints over runs, such as `mean`, or one run's `score`.
        n: The number of runs.
        sd: The standard deviations over the runs, as printed.
        sd_row: The id of the row that prints them, if it is another one.
        median: The medians over the runs, as printed.
        methods: Methods for single columns, in place of the row's.
        tasks: Tasks for single columns, in place of the column's.
        table: The name of another table of the paper that prints the row.
        source: What the numbers were read from, if it is not the table's source.
        note: A note on the row.
        notes: Notes on its numbers.
        misprints: What is printed in the place of a number, in words: `the number of STS13`.
        differs: Why what was measured differs, as far as that is known, in a few words.
        verbatim: Words of the paper, by the key that they explain.
    """

    id: str
    label: str
    backbone: str
    fit: str
    supervision: str
    values: TextByName
    method: str | None = None
    why_not: str | None = None
    evidence: str | None = None
    group: str | None = None
    trained_on: str | None = None
    model_free: bool = False
    quoted: bool = False
    transductive: bool = False
    pooling: str | None = None
    dims: int | None = None
    aggregation: str | None = None
    statistic: str = "score"
    n: int | None = None
    sd: TextByName = field(default_factory=dict)
    sd_row: str | None = None
    median: TextByName = field(default_factory=dict)
    methods: TextByName = field(default_factory=dict)
    tasks: TextByName = field(default_factory=dict)
    table: str = ""
    source: str = ""
    note: str = ""
    notes: TextByName = field(default_factory=dict)
    misprints: TextByName = field(default_factory=dict)
    differs: str = ""
    verbatim: TextByName = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The label with the heading above it, which may tell it from another row."""
        return f"{self.label} ({self.group})" if self.group else self.label


@dataclass(frozen=True)
class Table:
    """One published table.

    Attributes:
        id: The stem of its file.
        paper: The paper.
        table: The table's name in the paper.
        title: What the table shows.
        cite: The key of the paper among the references.
        source: What the numbers were read from.
        work: Who measured its numbers, if it is not the authors of `cite`.
        metric: The metric of its numbers.
        columns: The columns.
        rows: The rows.
        aggregation: The aggregation of its numbers.
        evidence: How its protocols are known, a key of `EVIDENCE`.
        scale: 100 where points are printed, 1 for fractions.
        notes: Notes on the table.
        verbatim: Words of the paper, by the key that they explain.
        registry: The methods and tasks that it names.
    """

    id: str
    paper: str
    table: str
    title: str
    cite: str
    source: str
    metric: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    work: str = ""
    aggregation: str | None = None
    evidence: str | None = None
    scale: int = 100
    notes: tuple[str, ...] = ()
    verbatim: TextByName = field(default_factory=dict)
    registry: Registry = field(default_factory=load_registry, repr=False, compare=False)

    @cached_property
    def numbers(self) -> tuple[PublishedNumber, ...]:
        """Every printed number, row by row, in the order of the columns."""
        cells = []
        for row in self.rows:
            for column in self.columns:
                if column.id in row.values:
                    cells.append(self.number(row, column))
        return tuple(cells)

    def number(self, row: Row, column: Column) -> PublishedNumber:
        """A printed number with its protocol.

        For each part of the protocol the most specific entry counts: first the
        column's, then the row's, then the table's.
        """
        value = row.values[column.id]
        metric = column.metric or self.metric
        aggregation = column.aggregation or row.aggregation or self.aggregation
        why_not = row.why_not or column.why_not
        points = Decimal(value).scaleb(2 if self.scale == 1 else 0)
        sd = self._deviations(row).get(column.id)
        misprint = row.misprints.get(column.id)
        notes = (
            f"A misprint: {misprint} stands in its place." if misprint else "",
            row.notes.get(column.id),
            row.note,
            column.note,
        )
        tasks_of_average = [self._task(row, name) for name in column.average_of]
        source = row.source or self.source
        place = f"{self.paper}, {row.table or self.table}"
        return PublishedNumber(
            table=self,
            row=row,
            column=column,
            id=f"{self.id}/{row.id}/{column.id}",
            value=value,
            in_points=f"{points:f}" if metric in PUBLISHED_SCORES else None,
            task=self._task(row, column.id),
            average_of=tuple(task or "" for task in tasks_of_average),
            metric=metric,
            aggregation=AGGREGATION_OF[aggregation] if aggregation else None,
            method=None if why_not else row.methods.get(column.id, row.method),
            why_not=reasons()[why_not] if why_not else None,
            evidence=None if why_not else row.evidence or self.evidence,
            notes=tuple(note for note in notes if note),
            sd=None if sd is None else float(sd) * (100 // self.scale),
            source=source.replace("{file}", str(column.file)),
            place=place.replace("{file}", str(column.file)),
        )

    @cached_property
    def _task_of_column(self) -> Mapping[str, str | None]:
        return {column.id: column.task for column in self.columns}

    def _task(self, row: Row, column: str) -> str | None:
        """The task of a column, which a row may have in another text form."""
        return row.tasks.get(column, self._task_of_column[column])

    def _deviations(self, row: Row) -> TextByName:
        """The printed standard deviations of a row, which may be a row of their own."""
        for candidate in self.rows if row.sd_row else ():
            if candidate.id == row.sd_row:
                return candidate.values
        return row.sd

    def score(self, row: Row, column: Column) -> float:
        """A printed score in points. Raises DataError for a number that is no score."""
        return self.number(row, column).score


@dataclass(frozen=True, kw_only=True)
class PublishedNumber:
    """One printed number with the protocol that it belongs to.

    Attributes:
        table: Its table.
        row: Its row.
        column: Its column.
        id: `TABLE/ROW/COLUMN`.
        value: The printed digits.
        in_points: The digits in points; of a printed fraction the decimal point is
            moved. None for a number that is no score.
        task: The task; None in an average and where no task fits.
        average_of: The tasks that an average runs over, in this row's text form.
        metric: The name of a score in records, or a metric that no record has.
        aggregation: `all`, `mean` or `wmean`.
        method: The method that reproduces it.
        why_not: Why no method and task of the harness reproduce it.
        evidence: How its protocol is known, a key of `EVIDENCE`; None where nothing
            reproduces it.
        notes: That it is a misprint, and the notes of the number, its row and its column.
        sd: The published standard deviation over `row.n` runs, in points.
        source: What the number was read from.
        place: The paper and its table in which the number is printed.
    """

    table: Table
    row: Row
    column: Column
    id: str
    value: str
    in_points: str | None
    task: str | None
    average_of: tuple[str, ...]
    metric: str
    aggregation: str | None
    method: str | None
    why_not: Reason | None
    evidence: str | None
    notes: tuple[str, ...]
    sd: float | None
    source: str
    place: str

    @property
    def row_id(self) -> str:
        """The id of its row: `TABLE/ROW`."""
        return f"{self.table.id}/{self.row.id}"

    # The number

    @cached_property
    def points(self) -> float | None:
        """The number in points (x100), whatever the table's scale; None if it is no score."""
        return None if self.in_points is None else float(self.in_points)

    @property
    def score(self) -> float:
        """The number in points. Raises DataError for a number that is no score."""
        if self.points is None:
            raise DataError(f"{self.id}: wanted a score, found a statistic")
        return self.points

    @cached_property
    def decimals(self) -> int:
        """How many decimals of a point are printed."""
        return len((self.in_points or "").partition(".")[2])

    @cached_property
    def half_unit(self) -> float:
        """Half a unit of its last digit, in points."""
        return 0.5 * 10.0**-self.decimals

    @property
    def shown(self) -> str:
        """The printed digits in points; a long fraction is rounded to four decimals."""
        digits = self.in_points or self.value
        if len(digits.partition(".")[2]) > MOST_DECIMALS:
            return f"{float(digits):.{MOST_DECIMALS}f}"
        return digits

    @cached_property
    def published(self) -> Published | None:
        """The number as an argument of `verdict`; None where it is no score."""
        if self.in_points is None:
            return None
        if self.sd is None:
            return Published(self.in_points)
        return Published(self.in_points, sd=self.sd, n=self.row.n)

    @property
    def printed(self) -> Published:
        """The score in points with its digits. Raises DataError for a number that is none."""
        if self.published is None:
            raise DataError(f"{self.id}: wanted a score, found a statistic")
        return self.published

    @property
    def is_of_one_run(self) -> bool:
        """Whether it is the score of one run, and not a statistic over several."""
        return self.row.statistic == "score"

    # What it is a score of

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its task, or the tasks that it averages; none where no task fits."""
        if self.average_of:
            return self.average_of
        return (self.task,) if self.task else ()

    @cached_property
    def data_sets(self) -> DataSets:
        """Its tasks without their text form and split: `sts-b` of `sts-b.senteval`.

        A number that no task fits is of what its column is called.
        """
        names = self.tasks or (self.column.id,)
        return tuple(name.partition(".")[0] for name in names)

    @property
    def is_average(self) -> bool:
        """Whether it averages several tasks."""
        return len(self.tasks) > 1

    @property
    def is_misprint(self) -> bool:
        """Whether something else is printed in its place."""
        return self.column.id in self.row.misprints

    @property
    def measured_cells(self) -> tuple[CellName, ...]:
        """Method and task of each measured cell that reproduces it; none where no method does."""
        if not self.method:
            return ()
        return tuple((self.method, task) for task in self.tasks)

    # Its protocol

    @cached_property
    def protocols(self) -> tuple[Protocol, ...]:
        """The protocol on each of `tasks`, in their order.

        There are none if no method reproduces the number, or if one of its tasks is not
        registered.
        """
        registered = self.table.registry.tasks
        tasks = [registered[name] for name in self.tasks if name in registered]
        if self.method is None or len(tasks) < len(self.tasks):
            return ()
        protocols = []
        for task in tasks:
            protocol = Protocol.from_score(
                self.method, task, self.metric, self.aggregation or ""
            )
            if protocol is not None:
                protocols.append(protocol)
        return tuple(protocols)

    @cached_property
    def protocol(self) -> Protocol:
        """Its protocol, also of an average or of a row without a method.

        The tasks of an average may differ in text form and split, which are then
        `UNKNOWN`. So is the aggregation where no task of the number has subsets.
        """
        has_subsets = any(map(DATA_SETS_WITH_SUBSETS.match, self.data_sets))
        aggregation = (self.aggregation or UNKNOWN) if has_subsets else UNKNOWN
        if self.protocols:
            return replace(
                self.protocols[0],
                task="+".join(self.data_sets),
                text=common_choice(protocol.text for protocol in self.protocols),
                split=common_choice(protocol.split for protocol in self.protocols),
                aggregation=aggregation,
            )
        similarity, correlation = CORRELATION_SCORES.get(
            self.metric, (COSINE, self.metric)
        )
        words = re.findall(r"[a-z]+", self.row.label.lower())
        kinds = sorted(self.table.registry.posts.keys() & set(words))
        return Protocol(
            encoder=UNKNOWN,
            max_length=UNKNOWN,
            pooling=UNKNOWN,
            post="".join(f"+{kind}" for kind in kinds) + UNKNOWN,
            fit_on=UNKNOWN if self.row.fit == "none" else self.row.fit,
            task="+".join(self.data_sets),
            text=UNKNOWN,
            split=UNKNOWN,
            scored_by=UNKNOWN if similarity == COSINE else similarity,
            metric=correlation,
            aggregation=aggregation,
        )

    # Its encoder

    @cached_property
    def start(self) -> str:
        """The checkpoint of the encoder, or from which it was trained: `bert-base-uncased`.

        Organisation, revision and remarks are left out.
        """
        backbone = self.row.backbone.partition(" (")[0].partition("@")[0]
        return backbone.rpartition("/")[2].lower()

    def is_of_encoder(self, other: PublishedNumber) -> bool:
        """Whether two published numbers are of one encoder, as far as the rows state it."""
        if UNKNOWN not in (self.protocol.encoder, other.protocol.encoder):
            return self.protocol.encoder == other.protocol.encoder
        return self.is_of_recipe(other)

    @cached_property
    def recipe(self) -> tuple[str, str, str]:
        """What its encoder starts from, its supervision and its training data."""
        return self.start, self.row.supervision, self.row.trained_on or ""

    def is_of_recipe(self, other: PublishedNumber) -> bool:
        """Whether two numbers are of encoders with the same start and training data."""
        return self.recipe == other.recipe


def score_path(metric: str, aggregation: str | None) -> ScorePath:
    """The path of a score in a record; only correlations are stored for each aggregation."""
    if aggregation is None or metric not in CORRELATION_SCORES:
        return (metric,)
    return metric, AGGREGATION_OF[aggregation]
