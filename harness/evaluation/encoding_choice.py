"""Choices of the encoding that a model's card need not state: prompt, pooling, length ...

An `EncodingChoice` holds the settings that differ from the model's files. Two choices
are combined by `|`. The choices that are maps of vectors are `UnitLength` and
`FirstDimensions`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.errors import UsageError
from harness.core.hardware import FLOAT32
from harness.core.metrics import directions
from harness.transforms.pooling import POOLINGS

# Comes before the name of a pooling that replaces the pooling among the model's modules,
# as in `modules:max`.
MODULES_PREFIX = "modules:"


@dataclass(frozen=True)
class EncodingChoice:
    """The settings of an encoding that differ from the model's files.

    Attributes:
        prompt: The text before each sentence; None for the model's own prompt of the
            task.
        pooling: A pooling of hidden states, without the model's modules; or
            `modules:MODE`, a pooling of tokens that replaces the one among its modules;
            empty for the model's own pooling.
        max_length: The length that texts are cut to, in tokens; None for the model's
            own.
        dtype: The precision of weights and states.
        unit_length: Whether vectors are divided by their length; None for what the
            modules say.
        dimensions: How many of the first coordinates are kept; None for all that the
            modules give.
        lower_case: Whether texts are put into lower case, before anything else.
    """

    prompt: str | None = None
    pooling: str = ""
    max_length: int | None = None
    dtype: str = FLOAT32
    unit_length: bool | None = None
    dimensions: int | None = None
    lower_case: bool = False

    @property
    def token_mode(self) -> str:
        """The MODE of `modules:MODE`; empty for any other pooling."""
        if self.pooling.startswith(MODULES_PREFIX):
            return self.pooling.removeprefix(MODULES_PREFIX)
        return ""

    @property
    def encoding(self) -> EncodingChoice:
        """The choice without the settings that need no other encoding of the sentences.

        Choices with equal results read the same encoding. All poolings of hidden states
        are read from one encoding, and so are vectors that are not normalised. Vectors of
        length 1 and first dimensions are computed from the vectors.
        """
        pooling = self.pooling
        reads_hidden_states = self.unit_length is False or (
            pooling != "" and not self.token_mode
        )
        if reads_hidden_states:
            pooling = POOLINGS[0].name
        return replace(self, pooling=pooling, unit_length=None, dimensions=None)

    @property
    def words(self) -> tuple[str, ...]:
        """The differences from the model's files, a phrase each."""
        phrases = []
        if self.prompt:
            phrases.append(f"the prompt {self.prompt!r}")
        elif self.prompt is not None:
            phrases.append("no prompt")
        if self.pooling:
            phrases.append(f"pooling {self.pooling.removeprefix(MODULES_PREFIX)}")
        if self.max_length is not None:
            phrases.append(f"max length {self.max_length}")
        if self.dtype != FLOAT32:
            phrases.append(self.dtype)
        if self.unit_length:
            phrases.append("normalised vectors")
        elif self.unit_length is not None:
            phrases.append("vectors not normalised")
        if self.dimensions is not None:
            phrases.append(f"the first {self.dimensions} dimensions")
        if self.lower_case:
            phrases.append("lower-cased text")
        return tuple(phrases)

    def __or__(self, other: EncodingChoice) -> EncodingChoice:
        """Both choices together. A setting that both have is taken from `other`."""
        settings_of_other: dict[str, Any] = {}
        for setting in fields(other):
            value = getattr(other, setting.name)
            if value != setting.default:
                settings_of_other[setting.name] = value
        return replace(self, **settings_of_other)


OWN_CHOICE = EncodingChoice()


# Choices that are maps of vectors


@dataclass(frozen=True)
class UnitLength:
    """A map that divides vectors by their length."""

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m D"]:
        return directions(x)


@dataclass(frozen=True)
class FirstDimensions:
    """A map that keeps the first coordinates of vectors."""

    count: int

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]:
        if not self.count < x.shape[1]:
            raise UsageError(
                f"wanted fewer than {x.shape[1]} dimensions, found {self.count}"
            )
        return np.asarray(x[:, : self.count], np.float64)
