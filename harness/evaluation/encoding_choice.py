"""Choices that a model's card need not state: prompt, pooling, length, precision.

An `EncodingChoice` says what differs from the model's files. Choices combine by `|`.
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

# Before a pooling of tokens among the model's modules, as in `modules:max`.
MODULES_PREFIX = "modules:"


@dataclass(frozen=True)
class EncodingChoice:
    """How sentences are encoded, where it is not as the model's files say.

    Attributes:
        prompt: The text before each sentence; None is the model's own for the task.
        pooling: A pooling of hidden states, which leaves the model's modules out; or
            `modules:MODE`, a pooling of tokens among its other modules; empty is its
            own.
        max_length: Tokens that a text is cut to; None is the model's own.
        dtype: The precision of weights and states.
        unit_length: Whether vectors are divided by their length; None as the modules
            say.
        dimensions: How many of the first coordinates are kept; None keeps as many as
            the modules do.
        lower_case: Whether texts are put into lower case before all else.
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
        """The pooling of tokens among the model's other modules; empty without that choice."""
        if self.pooling.startswith(MODULES_PREFIX):
            return self.pooling.removeprefix(MODULES_PREFIX)
        return ""

    @property
    def encoding(self) -> EncodingChoice:
        """The choice as far as the sentences are encoded once more for it.

        All poolings of hidden states are read from one encoding, and so are vectors
        that are not normalised. Lengths and first dimensions of vectors are computed
        from the vectors.
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
        """What differs from the model's files, a phrase each."""
        phrases = []
        if self.prompt is not None:
            phrases.append(
                f"the prompt {self.prompt!r}" if self.prompt else "no prompt"
            )
        if self.pooling:
            phrases.append(f"pooling {self.pooling.removeprefix(MODULES_PREFIX)}")
        if self.max_length is not None:
            phrases.append(f"max length {self.max_length}")
        if self.dtype != FLOAT32:
            phrases.append(self.dtype)
        if self.unit_length is not None:
            phrases.append(
                "normalised vectors" if self.unit_length else "vectors not normalised"
            )
        if self.dimensions is not None:
            phrases.append(f"the first {self.dimensions} dimensions")
        if self.lower_case:
            phrases.append("lower-cased text")
        return tuple(phrases)

    def __or__(self, other: EncodingChoice) -> EncodingChoice:
        """Both choices together. Where both differ from the files, `other` counts."""
        chosen: dict[str, Any] = {}
        for setting in fields(other):
            value = getattr(other, setting.name)
            if value != setting.default:
                chosen[setting.name] = value
        return replace(self, **chosen)


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
