"""Ways to score the seven STS tasks.

The papers score STS12-16, STS-B and SICK-R, and print an average of the seven. They
differ in text form, correlation and aggregation: a `Scoring` names the three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.core.types import ScorePath
from harness.results.index import Results, TaskScore, Value, average

# In the order of the columns of the papers (SBERT, SimCSE).
SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
TASK_LABELS = {task: task.upper() for task in SEVEN}


@dataclass(frozen=True)
class Scoring:
    """A way to score the seven tasks: text form, correlation, aggregation."""

    text: str
    correlation: str
    aggregation: str

    @property
    def id(self) -> str:
        """The scoring as a file name: `senteval-spearman-all`."""
        return f"{self.text}-{self.correlation}-{self.aggregation}"

    @property
    def path(self) -> ScorePath:
        """The path of the score in a record."""
        return self.correlation, self.aggregation

    @cached_property
    def task_scores(self) -> tuple[TaskScore, ...]:
        """Task, in this text form, and path of the seven scores."""
        form = ".senteval" if self.text == "senteval" else ""
        return tuple((f"{task}{form}", self.path) for task in SEVEN)


# The scoring of SBERT and SimCSE: SentEval's files, a year's subsets concatenated.
SIMCSE = Scoring("senteval", "spearman", "all")
# The scoring of BERT-whitening, whose released code reads SentEval's files too. BERT-flow
# has it in all columns but STS-B, which its released code reads from GLUE's files, in raw
# text.
WHITENING = Scoring("senteval", "spearman", "wmean")
COMPARED_SCORINGS = (
    SIMCSE,
    WHITENING,
)  # neighbouring rows of their tables are compared
SCORINGS = (
    *COMPARED_SCORINGS,
    Scoring("raw", "spearman", "all"),
    Scoring("raw", "spearman", "wmean"),
    Scoring("raw", "spearman", "mean"),
    Scoring("raw", "pearson", "all"),
)


def seven_values(results: Results, method: str, scoring: Scoring) -> list[Value]:
    """The seven values of a method, and their average, which is missing if one of them is."""
    values = [results.value(method, task, *path) for task, path in scoring.task_scores]
    return [*values, average(values)]


def averages(
    results: Results, methods: Sequence[str], scoring: Scoring
) -> dict[str, float]:
    """The averages of the methods that have one, best first."""
    means: dict[str, float] = {}
    for method in methods:
        mean = seven_values(results, method, scoring)[-1].mean
        if mean is not None:
            means[method] = mean
    return dict(sorted(means.items(), key=lambda item: -item[1]))
