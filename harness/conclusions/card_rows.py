"""The numbers of a card as rows, and the model whose card it is.

The numbers of one document on one score are a row, such as a reader pastes: it is compared
with the rows of published tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property

from harness.conclusions.cards import CardNumber, parse_metric, plain_model_name
from harness.conclusions.owners import AVERAGE
from harness.core.hardware import base_name
from harness.core.metrics.correlation import score_name
from harness.core.types import MethodId
from harness.registry import Registry
from harness.results.published import PublishedNumber
from harness.results.published_tables import plain_name
from harness.results.verdict import readings_in_points

NAME_OF_AVERAGE = re.compile(r"(?<![a-z])(avg|average|mean)(?![a-z])", re.IGNORECASE)


# The model


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """The names of a model, by which published rows are told to be its own.

    Attributes:
        names: Its names without owners and in lower case.
        encoders: The registered encoders that it is, by name, repository or weights.
        is_pinned: Whether one of them has the digest of its weights.
    """

    names: frozenset[str] = frozenset()
    encoders: frozenset[str] = frozenset()
    is_pinned: bool = False

    @classmethod
    def find(
        cls, names: Iterable[str], encoder: str, weights: str, registry: Registry
    ) -> ModelIdentity:
        """What a model is known to be.

        Args:
            names: Its names, with or without the owner's: `me/model@revision`.
            encoder: The name of its encoder.
            weights: The digest of its weights.
            registry: The registered encoders, of which some have the digests of weights.
        """
        plain = {plain_model_name(name.partition("@")[0]) for name in names} - {""}
        pinned = {
            name
            for name, config in registry.encoders.items()
            if weights and getattr(config, "weights_sha256", None) == weights
        }
        of_repository = {
            name
            for name, config in registry.encoders.items()
            if plain_model_name(getattr(config.source, "repo", "")) in plain
        }
        return cls(
            names=frozenset(plain),
            encoders=frozenset({base_name(encoder), *pinned, *of_repository}),
            is_pinned=bool(pinned),
        )

    def has(self, number: PublishedNumber) -> bool:
        """Whether a published number is of this model."""
        method = MethodId.parse(number.method or "")
        if method is not None and base_name(method.encoder) in self.encoders:
            return True
        return plain_model_name(number.row.label) in self.names


# The rows of a card


@dataclass(frozen=True)
class CardRow:
    """The numbers that a document states of one score, as a row of a table.

    Attributes:
        label: The document.
        score: The name of the score in a record.
        numbers: The numbers by the plain names of their columns.
    """

    label: str
    score: str
    numbers: Mapping[str, CardNumber]

    @cached_property
    def as_stated(self) -> Mapping[str, Decimal]:
        """The stated numbers, as far as they are numbers."""
        values = {}
        for column, number in self.numbers.items():
            text = number.statement.value.strip().removesuffix("%")
            try:
                value = Decimal(text)
            except InvalidOperation:
                continue
            is_hundredfold = value.is_finite() and 100 < abs(value) <= 100 * 100
            if is_hundredfold or readings_in_points(text):
                values[column] = value
        return values


def card_rows(numbers: Iterable[CardNumber]) -> list[CardRow]:
    """The rows of a card: of each document and score, what is of a task here or an average.

    Of numbers that a document repeats, as under an old and a new name of a score, the first
    is taken.
    """
    rows: dict[tuple[str, str, str], dict[str, CardNumber]] = {}
    for number in numbers:
        statement = number.statement
        score = parse_metric(statement.metric)
        is_average = bool(NAME_OF_AVERAGE.search(statement.data_set))
        is_of_task = bool(number.task) and (
            not number.why_not or number.is_no_correlation
        )
        if score is None or not (is_of_task or is_average):
            continue
        is_result_file = statement.source.endswith(".json")
        document = "result files" if is_result_file else statement.source
        column = column_of_task(number.task) if is_of_task else AVERAGE
        key = (document, statement.model, score_name(*score))
        rows.setdefault(key, {}).setdefault(column, number)
    return [
        CardRow(document, score, columns)
        for (document, _, score), columns in rows.items()
    ]


def column_of_task(task: str) -> str:
    """The plain name of the column that papers have for a task: `stsbdev` of `sts-b.dev`."""
    data_set, *parts = task.split(".")
    kept = [part for part in parts if part not in ("senteval", "all")]
    return plain_name("".join((data_set, *kept)))


# Published rows

# Published numbers by row and the plain name of their column.
Rows = Mapping[str, Mapping[str, PublishedNumber]]


def rows_of_score(rows: Rows, score: str) -> Rows:
    """The published numbers of one score; columns of Pearson's are named as Spearman's are."""
    found = {}
    for row_id, numbers in rows.items():
        of_score = {
            column.removesuffix(score): number
            for column, number in numbers.items()
            if number.metric == score
        }
        if of_score:
            found[row_id] = of_score
    return found
