"""What a row's own encoder was measured to score, compared with all of a reader's columns.

Every stored score of the encoder is a candidate: each method, text form, similarity,
correlation and aggregation. Hundreds of candidates meet any one figure by chance, so that
a candidate counts only if it gives three columns or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from harness.conclusions.numbers import (
    ACCIDENTAL_CHOICES,
    COLUMNS_OF_A_MODEL,
    ReportedNumber,
    accident_rank,
)
from harness.conclusions.readings import MOST_CHANGES, Evidence, Suggestion, names
from harness.core.metrics.correlation import CORRELATION_SCORES
from harness.core.types import AGGREGATIONS, MethodId, Task
from harness.registry import Registry
from harness.results.index import Results
from harness.results.protocols import UNKNOWN, Protocol
from harness.results.verdict import TOLERANCES

OWN_TEXT = "own"  # the text form that each column of the row has


@dataclass(frozen=True, kw_only=True)
class MeasuredRow:
    """One method of the encoder under one protocol, beside the reader's numbers.

    Attributes:
        method: The method.
        changes: The choices in which it differs from the published row, by name.
        scores: Its scores in points, in the order of the reader's numbers.
        numbers: The reader's numbers that it has scores for.
    """

    method: str
    changes: Mapping[str, str]
    scores: Sequence[float]
    numbers: Sequence[ReportedNumber]

    @property
    def given(self) -> tuple[str, ...]:
        """The columns in which it gives the reader's number, as another processor would."""
        return tuple(
            number.published.column.id
            for number, score in zip(self.numbers, self.scores, strict=True)
            if abs(number.points - score)
            <= max(TOLERANCES.match, number.given.half_unit)
        )


def measured_readings(
    numbers: Sequence[ReportedNumber], results: Results, registry: Registry
) -> list[Suggestion]:
    """The measured methods of the row's encoder that give the reader's numbers.

    The one that gives most columns with the fewest changes comes first; only the best is
    returned, with those that give as many. A method that changes nothing shows that the
    reader's numbers are the row's own, and the published ones are not.
    """
    rows = [
        row
        for row in measured_rows(numbers, results, registry)
        if len(row.given) >= COLUMNS_OF_A_MODEL
        and 3 * len(row.given) >= 2 * len(row.numbers)
    ]
    rows.sort(key=lambda row: (-len(row.given), len(row.changes), _rank(row.changes)))
    suggestions = []
    for row in rows:
        if (len(row.given), len(row.changes)) != (
            len(rows[0].given),
            len(rows[0].changes),
        ):
            break
        misfits = tuple(name for name in names(numbers) if name not in row.given)
        suggestions.append(
            Suggestion(
                about=tuple(row.changes) or ("published",),
                evidence=Evidence(
                    kind="digits", fits=len(row.given), columns=len(numbers)
                ),
                columns=row.given,
                misfits=misfits,
                method=row.method,
                changes=row.changes,
            )
        )
    return suggestions


def _rank(changes: Mapping[str, str]) -> int:
    """The most frequent accident among changes; smaller is more frequent."""
    return min((accident_rank(choice) for choice in changes), default=0)


def measured_rows(
    numbers: Sequence[ReportedNumber], results: Results, registry: Registry
) -> Iterator[MeasuredRow]:
    """Every measured method and protocol of the row's encoder, beside the reader's numbers.

    Only choices that are made by accident differ from the row's; a row that has
    post-processors may have others, or another fit corpus.
    """
    single = [number for number in numbers if number.published.task]
    protocols = [number.published.protocol for number in single]
    if len(single) < COLUMNS_OF_A_MODEL or protocols[0].encoder == UNKNOWN:
        return
    encoder, own = protocols[0].encoder, protocols[0]
    tasks_of_columns = [_forms_of_task(number, registry) for number in single]
    own_texts = {protocol.text for protocol in protocols}
    texts = [OWN_TEXT]
    texts += [text for text in ("raw", "senteval") if own_texts != {text}]
    is_processed = bool(own.post.removesuffix(UNKNOWN))
    allowed = {*ACCIDENTAL_CHOICES} | ({"post", "fit_on"} if is_processed else set())
    for method in results.methods:
        parts = MethodId.parse(method)
        if parts is None or parts.encoder.partition(":")[0] != encoder:
            continue
        for text, metric, aggregation in product(
            texts, CORRELATION_SCORES, AGGREGATIONS
        ):
            measured: list[ReportedNumber] = []
            scores: list[float] = []
            changes: dict[str, str] = {}
            for number, own_protocol, forms in zip(
                single, protocols, tasks_of_columns, strict=True
            ):
                task = forms.get(own_protocol.text if text == OWN_TEXT else text)
                if task is None or (method, task.name) not in results.by_cell:
                    continue
                score = results.value(method, task.name, metric, aggregation).mean
                protocol = Protocol.from_score(method, task, metric, aggregation)
                if score is None or protocol is None:
                    continue
                changes |= own_protocol.changes(protocol)
                if not changes.keys() <= allowed or len(changes) > MOST_CHANGES:
                    break
                measured.append(number)
                scores.append(score)
            else:
                if len(measured) >= COLUMNS_OF_A_MODEL:
                    yield MeasuredRow(
                        method=method, changes=changes, scores=scores, numbers=measured
                    )


def _forms_of_task(number: ReportedNumber, registry: Registry) -> Mapping[str, Task]:
    """The test sets of a column's data set, by their text form."""
    [data_set] = number.published.data_sets
    own = registry.tasks.get(number.published.task or "")
    forms: dict[str, Task] = {}
    for task in registry.tasks.values():
        is_scored_so = own is not None and task.metric == own.metric
        is_split = own is not None and task.scored == own.scored
        if task.name.partition(".")[0] == data_set and is_scored_so and is_split:
            forms.setdefault(task.text, task)
    return forms
