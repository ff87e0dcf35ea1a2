"""The protocol of a score, ways to score the seven STS tasks, sections of the leaderboard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from harness.core.metrics import metric_of
from harness.core.metrics.similarity import CORRELATION_SCORES, COSINE, SIMILARITIES, score_name
from harness.core.types import LeaderboardColumn, MethodId, Section, Task
from harness.registry import Registry
from harness.results.index import Results, Value, average, methods_by_encoder
from harness.results.published import PublishedCell


@dataclass(frozen=True)
class Protocol:
    """Everything that one score depends on: the encoder and every choice of method and task.

    A choice that a method or task does not have is empty.
    """

    encoder: str
    max_length: str
    pooling: str
    post: str
    fit_on: str
    task: str
    text: str
    split: str
    scored_by: str
    metric: str
    aggregation: str

    @classmethod
    def of(cls, method: str, task: Task, metric: str, aggregation: str = "") -> Protocol | None:
        """The protocol of a method's score on a task; None for a text that is no method id.

        A metric such as `euclidean_spearman` is a correlation, and the similarity function that
        the pairs are scored by.
        """
        parts = MethodId.parse(method)
        if parts is None:
            return None
        similarity, correlation = CORRELATION_SCORES.get(metric, (COSINE, metric))
        encoder, _, max_length = parts.encoder.partition(":")
        return cls(
            encoder=encoder,
            max_length=max_length,
            pooling=parts.pooling,
            post="".join(f"+{name}" for name in parts.post),
            fit_on=parts.fit_on or "",
            task=task.name.partition(".")[0],
            text=task.text,
            split="+".join(task.scored),
            scored_by="regression" if task.metric == "regression" else similarity,
            metric=correlation,
            aggregation=aggregation,
        )

    @property
    def score(self) -> str:
        """The score in a record: `spearman`, or of another similarity `euclidean_spearman`."""
        return score_name(self.scored_by, self.metric) if self.has_similarity else self.metric

    @property
    def has_similarity(self) -> bool:
        """Whether pairs are scored by another similarity function than the cosine."""
        return self.scored_by in SIMILARITIES

    def differences(self, other: Protocol) -> tuple[str, ...]:
        """The names of the choices in which two protocols differ."""
        theirs = vars(other)
        return tuple(name for name, choice in vars(self).items() if choice != theirs[name])

    def procedure(self, subsets: int) -> Protocol:
        """What two programs have to do alike to give one number, whatever the encoder and data.

        Whitening to any dimension is one kind of post-processing, and a task of fewer than two
        `subsets` has no aggregation.
        """
        kinds = (post.partition(":")[0] for post in self.post.split("+"))
        same = {"encoder": "", "max_length": "", "fit_on": "", "task": "", "split": ""}
        return replace(
            self,
            **same,
            scored_by=self.scored_by if self.has_similarity else "",
            post="+".join(kinds),
            aggregation=self.aggregation if subsets > 1 else "",
        )


def protocols_of(cell: PublishedCell, registry: Registry) -> tuple[Protocol, ...]:
    """The protocol of a published cell on its task, or on each of those that it averages.

    None where nothing reproduces the cell, or it names a method or task that is not here.
    """
    tasks = [registry.tasks[name] for name in cell.tasks if name in registry.tasks]
    if cell.method is None or len(tasks) < len(cell.tasks):
        return ()
    protocols = (Protocol.of(cell.method, t, cell.metric, cell.aggregation or "") for t in tasks)
    return tuple(filter(None, protocols))


# The papers' own column order (SBERT, SimCSE).
SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
LABELS = {task: task.upper() for task in SEVEN}


@dataclass(frozen=True)
class Scoring:
    """A way to score the seven tasks: text form, correlation, aggregation."""

    text: str
    correlation: str
    aggregation: str

    @property
    def id(self) -> str:
        """As a file name: `senteval-spearman-all`."""
        return f"{self.text}-{self.correlation}-{self.aggregation}"

    @property
    def title(self) -> str:
        form = "SentEval text" if self.text == "senteval" else "raw text"
        return f"{self.correlation.capitalize()}, `{self.aggregation}`, {form}"

    def task(self, base: str) -> str:
        """The task's name in this text form."""
        return f"{base}.senteval" if self.text == "senteval" else base


# SBERT's and SimCSE's: SentEval's files, a year's subsets concatenated.
SIMCSE = Scoring("senteval", "spearman", "all")
# BERT-whitening's, whose released code reads SentEval's files too. BERT-flow's but for one column:
# its released code scores STS12-16 by SentEval and reads SICK from SentEval's file, and STS-B from
# GLUE's, which are raw text.
WHITENING = Scoring("senteval", "spearman", "wmean")
SCORINGS = (
    SIMCSE,
    WHITENING,
    Scoring("raw", "spearman", "all"),
    Scoring("raw", "spearman", "wmean"),
    Scoring("raw", "spearman", "mean"),
    Scoring("raw", "pearson", "all"),
)


MethodRow = tuple[str, list[Value]]


def columns_by_label(scoring: Scoring) -> Mapping[str, str]:
    """The seven tasks of a scoring, by the headings of their columns."""
    return {label: scoring.task(task) for task, label in LABELS.items()}


def row(results: Results, method: str, scoring: Scoring) -> list[Value]:
    """The seven values of a method, and their average, which exists only if all of them do."""
    path = (scoring.correlation, scoring.aggregation)
    values = [results.value(method, scoring.task(task), *path) for task in SEVEN]
    return [*values, average(values)]


def best_first(rows: Iterable[MethodRow], column: int) -> list[MethodRow]:
    """Rows by their value in a column; those without one stand after them, as they come."""
    means = ((row, row[1][column].mean) for row in rows)
    return [row for row, mean in sorted(means, key=lambda m: inf if m[1] is None else -m[1])]


def complete_encoders(results: Results) -> Mapping[str, Sequence[str]]:
    """The encoders of which a method has an average under SimCSE's or BERT-whitening's scoring."""
    return {
        encoder: methods
        for encoder, methods in methods_by_encoder(results.methods).items()
        if any(averages(results, methods, scoring) for scoring in (SIMCSE, WHITENING))
    }


def averages(results: Results, methods: Sequence[str], scoring: Scoring) -> dict[str, float]:
    """The averages of the methods that have one, best first."""
    means = ((method, row(results, method, scoring)[-1].mean) for method in methods)
    complete = [(method, mean) for method, mean in means if mean is not None]
    return dict(sorted(complete, key=lambda item: -item[1]))


Columns = Sequence[tuple[Task, LeaderboardColumn]]


def columns_of(section: Section, tasks: Iterable[Task]) -> Columns:
    """The columns that tasks ask for in a section: main scores first, then others."""
    columns = ((task, column) for task in tasks for column in task.columns)
    of_section = [(task, column) for task, column in columns if column.section == section]
    return sorted(of_section, key=lambda pair: bool(pair[1].score))


def rows_of(columns: Columns, results: Results, methods: Sequence[str]) -> list[MethodRow]:
    """Methods with their values; those that have none are left out."""
    paths = [(t.name, *(column.score or metric_of(t).main_score)) for t, column in columns]
    every = ((method, [results.value(method, *path) for path in paths]) for method in methods)
    return [row for row in every if any(value.mean is not None for value in row[1])]
