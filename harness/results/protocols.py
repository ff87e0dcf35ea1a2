"""The ways to score the seven tasks of the papers' main tables, and the order of rows under one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.results.index import Results, Value, average, by_encoder

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
