"""Poolings: Encoding -> one vector a sentence. Each is a frozen dataclass with its name in ids.

Layers count as in Hugging Face's `hidden_states`: 0 is the embedding layer's output, L
the last layer. Names follow what was computed, not what papers called it: BERT-flow's
"last2avg" is `first-last` (its code takes layer 1), and the printed "first-last avg."
of SimCSE's Table 5 is `static-last` (it takes layer 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.core.arrays import Float
from harness.core.errors import UsageError
from harness.core.interfaces import Encoding


@dataclass(frozen=True)
class Mean:
    """The mean over tokens, then over layers. A negative layer counts from the last, as in Python.

    [CLS] and [SEP] are included and nothing is normalised, as in Li et al. (2020, arXiv
    2011.05864), Su et al. (2021, arXiv 2103.15316) and sentence-transformers' mean pooling. Raises
    UsageError for a layer that the encoder or the encoding does not have.

    Examples:
        >>> encoding = Encoding((0, 2), 2, np.array([[[1, 0], [3, 2]]], np.float32))
        >>> Mean("static-last", (0, -1))(encoding).tolist()
        [[2.0, 1.0]]
    """

    name: str
    layers: tuple[int, ...]

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The hidden states to average in an encoder of this depth, ascending."""
        layers = self.layers
        absolute = tuple(
            sorted(layer if layer >= 0 else depth + 1 + layer for layer in layers)
        )
        if (
            min(absolute) < 0
            or max(absolute) > depth
            or len(set(absolute)) < len(absolute)
        ):
            raise UsageError(
                f"{self.name} averages hidden states {layers}; this encoder has only 0..{depth}, "
                "use mean"
            )
        return absolute

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        layers = self.hidden_states(encoding.depth)
        missing = sorted(set(layers) - set(encoding.layers))
        if missing:
            raise UsageError(
                f"{self.name} needs layers {layers}; the encoding lacks {missing}"
            )
        chosen = [encoding.mean[:, encoding.layers.index(layer)] for layer in layers]
        return chosen[0] if len(chosen) == 1 else np.mean(chosen, axis=0)


class _Part:
    """A pooling that hands on a part of an encoding, which is no mean of layers."""

    part: ClassVar[str]
    lacking: ClassVar[str]  # what to say where the encoding does not have it

    def hidden_states(self, depth: int) -> tuple[int, ...]:  # noqa: ARG002 - whatever the depth
        return ()

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        vectors: Float[np.ndarray, "N D"] | None = getattr(encoding, self.part)
        if vectors is None:
            raise UsageError(f"{self.name}: {self.lacking}")  # type: ignore[attr-defined]
        return vectors


@dataclass(frozen=True)
class Cls(_Part):
    """The last layer's summary token before any pooler: [CLS], or the last token of XLNet."""

    name: str = "cls"

    part = "cls"
    lacking = "this encoder has no summary token; use mean"


@dataclass(frozen=True)
class Pooler(_Part):
    """The checkpoint's own head over [CLS] (BERT: dense and tanh), if it has its weights."""

    name: str = "pooler"

    part = "pooler"
    lacking = (
        "the checkpoint holds no pooler weights, and newly initialised ones are never scored; use "
        "cls or mean"
    )


@dataclass(frozen=True)
class Native(_Part):
    """The vector that a model's own modules give; `prompt` names what is put before a sentence.

    It goes with an encoder that applies them (`harness/encoders/native.py`): prompt,
    pooling and dense layers are the encoder's, and nothing is left to do here.
    """

    prompt: str = ""

    part = "native"
    lacking = "these encodings are not of a model under its own modules; open it as a NativeConfig"

    @property
    def name(self) -> str:
        """`native`, or `native:query` with a prompt that is not the default."""
        return f"native:{self.prompt}" if self.prompt else "native"


CLS = Cls()
POOLER = Pooler()
MEAN = Mean("mean", (-1,))
FIRST_LAST = Mean("first-last", (1, -1))
STATIC_LAST = Mean("static-last", (0, -1))
LAST2 = Mean("last2", (-2, -1))
# What bert-as-service does by default, and with it probably SBERT's "Avg. BERT
# embeddings" row.
SECOND_LAST = Mean("second-last", (-2,))

NATIVE = Native()

# Those of the hidden states.
POOLINGS = (CLS, POOLER, MEAN, FIRST_LAST, STATIC_LAST, LAST2, SECOND_LAST)
