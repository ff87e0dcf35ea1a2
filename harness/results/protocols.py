"""The sections of the leaderboard beside the seven STS tasks: columns that tasks ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from harness.core.metrics import metric_of
from harness.core.types import LeaderboardColumn, Section, Task, is_transductive
from harness.results.index import Results, Value, average, by_encoder
from harness.transforms.pooling import INPUT

Columns = Sequence[tuple[Task, LeaderboardColumn]]


def columns_of(section: Section, tasks: Iterable[Task]) -> Columns:
    """The columns that tasks ask for in a section: main scores first, then others."""
    every = ((task, column) for task in tasks for column in task.columns)
    own = [(task, column) for task, column in every if column.section == section]
    return sorted(own, key=lambda pair: bool(pair[1].score))


def rows_of(
    columns: Columns, results: Results, methods: Sequence[str], best_first: bool
) -> list[tuple[str, list[Value]]]:
    """Methods with their values; those that have none are left out.

    `best_first` sorts them by the first column; a method without a value there stands last.
    """
    paths = [(t.name, *(column.score or metric_of(t).main_score)) for t, column in columns]
    every = [(method, [results.value(method, *path) for path in paths]) for method in methods]
    rows = [row for row in every if any(value.mean is not None for value in row[1])]
    if best_first:
        rows.sort(key=lambda row: -inf if (mean := row[1][0].mean) is None else mean, reverse=True)
    return rows


def legend_of(results: Results, task: Task, column: LeaderboardColumn) -> str:
    """A legend with the scores of the first method that has all of them; empty without one."""
    for method in results.methods if column.legend else ():
        values = {name: results.value(method, task.name, name) for name in column.legend_scores}
        if all(value.mean is not None for value in values.values()):
            return column.legend.format(**values)
    return ""


def fitted_on_task(method: str) -> bool:
    """Whether it has no fitted post-processors, or they see the text of the task itself."""
    return "@" not in method or is_transductive(method)


def encodings(results: Results, task: str) -> Mapping[str, Sequence[str]]:
    """The methods to show beside each other, by plain method, `minilm.mean`; plain first.

    Of an encoder it is the plain method with most variants that were measured on the task, in the
    order of records where two have as many; its input embeddings stand apart. Post-processors are
    fitted on the task's own text.
    """
    variants: dict[str, list[str]] = {}
    for method in results.by_task.get(task, ()):
        if fitted_on_task(method):
            variants.setdefault(method.partition("+")[0], []).append(method)
    of_encoder: dict[str, str] = {}
    for plain, methods in variants.items():
        if plain in methods:
            encoder, _, pooling = plain.partition(".")
            encoder = plain if pooling == INPUT.name else encoder
            most = len(variants[of_encoder[encoder]]) if encoder in of_encoder else 0
            of_encoder[encoder] = plain if len(methods) > most else of_encoder[encoder]
    return {
        plain: [plain, *(one for one in variants[plain] if one != plain)]
        for plain in of_encoder.values()
    }


# The papers' own column order (SBERT, SimCSE).
SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
LABELS = {task: task.upper() for task in SEVEN}


@dataclass(frozen=True)
class Protocol:
    """One way to score the seven tasks: text form, correlation, aggregation."""

    text: str
    correlation: str
    aggregation: str

    @property
    def id(self) -> str:
        """As a file name: `senteval-spearman-all`."""
        return f"{self.text}-{self.correlation}-{self.aggregation}"

    @property
    def title(self) -> str:
        """In words."""
        form = "SentEval text" if self.text == "senteval" else "raw text"
        return f"{self.correlation.capitalize()}, `{self.aggregation}`, {form}"

    def task(self, base: str) -> str:
        """The task's name in this text form."""
        return f"{base}.senteval" if self.text == "senteval" else base


# SBERT's and SimCSE's: SentEval's files, a year's subsets concatenated.
SIMCSE = Protocol("senteval", "spearman", "all")
# BERT-whitening's, whose released code reads SentEval's files too. BERT-flow's but for one column:
# its released code scores STS12-16 by SentEval and reads SICK from SentEval's file, and STS-B from
# GLUE's, which are raw text.
WHITENING = Protocol("senteval", "spearman", "wmean")
PROTOCOLS = (
    SIMCSE,
    WHITENING,
    Protocol("raw", "spearman", "all"),
    Protocol("raw", "spearman", "wmean"),
    Protocol("raw", "spearman", "mean"),
    Protocol("raw", "pearson", "all"),
)


def columns_by_label(protocol: Protocol) -> Mapping[str, str]:
    """The seven tasks of a protocol, by the headings of their columns."""
    return {label: protocol.task(task) for task, label in LABELS.items()}


def row(results: Results, method: str, protocol: Protocol) -> list[Value]:
    """The seven values of a method, and their average, which exists only if all of them do."""
    path = (protocol.correlation, protocol.aggregation)
    values = [results.value(method, protocol.task(task), *path) for task in SEVEN]
    return [*values, average(values)]


def ranked(results: Results, methods: Sequence[str], protocol: Protocol) -> list[str]:
    """Methods by their average, best first; those without one after them, as they come."""
    known = averages(results, methods, protocol)
    return [*known, *(method for method in methods if method not in known)]


def complete_encoders(results: Results) -> Mapping[str, Sequence[str]]:
    """The encoders of which a method has an average under SimCSE's or BERT-whitening's protocol."""
    return {
        encoder: methods
        for encoder, methods in by_encoder(results.methods).items()
        if any(averages(results, methods, protocol) for protocol in (SIMCSE, WHITENING))
    }


def averages(results: Results, methods: Sequence[str], protocol: Protocol) -> dict[str, float]:
    """The averages of the methods that have one, best first."""
    means = ((method, row(results, method, protocol)[-1].mean) for method in methods)
    known = [(method, mean) for method, mean in means if mean is not None]
    return dict(sorted(known, key=lambda item: -item[1]))
