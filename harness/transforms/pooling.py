"""Poolings: from an encoding to one vector a sentence.

Layers have the numbers of Hugging Face's `hidden_states`: 0 is the output of the
embedding layer, L the last layer. A pooling is named after what is computed, which may
differ from its name in a paper: BERT-flow's "last2avg" is `first-last` (its code takes
layer 1), and the "first-last avg." of SimCSE's Table 5 is `static-last` (layer 0).
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
    """The mean over tokens, then over layers.

    [CLS] and [SEP] are included and nothing is normalised, as in Li et al. (2020, arXiv
    2011.05864), Su et al. (2021, arXiv 2103.15316) and sentence-transformers' mean
    pooling.

    Attributes:
        name: Its name in ids.
        layers: The layers; a negative number counts from the last, as in Python.

    Raises:
        UsageError: The encoder or the encoding does not have one of the layers.

    Examples:
        >>> encoding = Encoding((0, 2), 2, np.array([[[1, 0], [3, 2]]], np.float32))
        >>> Mean("static-last", (0, -1))(encoding).tolist()
        [[2.0, 1.0]]
    """

    name: str
    layers: tuple[int, ...]

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The hidden states to average in an encoder of this depth, ascending."""
        numbers = []
        for layer in self.layers:
            numbers.append(layer if layer >= 0 else depth + 1 + layer)
        is_repeated = len(set(numbers)) < len(numbers)
        if min(numbers) < 0 or max(numbers) > depth or is_repeated:
            raise UsageError(
                f"{self.name} averages hidden states {self.layers}; this encoder has only "
                f"0..{depth}, use mean"
            )
        return tuple(sorted(numbers))

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        layers = self.hidden_states(encoding.depth)
        missing = sorted(set(layers) - set(encoding.layers))
        if missing:
            raise UsageError(
                f"{self.name} needs layers {layers}; the encoding lacks {missing}"
            )
        means = [encoding.mean[:, encoding.layers.index(layer)] for layer in layers]
        return means[0] if len(means) == 1 else np.mean(means, axis=0)


class _Part:
    """The base of poolings that return an array of the encoding as it is.

    Attributes:
        part: The attribute of the encoding.
        refusal: The end of the message for an encoding without it.
    """

    part: ClassVar[str]
    refusal: ClassVar[str]

    def hidden_states(self, depth: int) -> tuple[int, ...]:  # noqa: ARG002 - whatever the depth
        return ()

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        vectors: Float[np.ndarray, "N D"] | None = getattr(encoding, self.part)
        if vectors is None:
            raise UsageError(f"{self.name}: {self.refusal}")  # type: ignore[attr-defined]
        return vectors


@dataclass(frozen=True)
class Cls(_Part):
    """The last layer's summary token before any pooler: [CLS], or the last token of XLNet."""

    name: str = "cls"

    part = "cls"
    refusal = "this encoder has no summary token; use mean"


@dataclass(frozen=True)
class Pooler(_Part):
    """The output of the checkpoint's trained head over [CLS], in BERT a dense layer and tanh."""

    name: str = "pooler"

    part = "pooler"
    refusal = (
        "the checkpoint holds no pooler weights, and newly initialised ones are never scored; use "
        "cls or mean"
    )


@dataclass(frozen=True)
class Native(_Part):
    """The sentence vector of a model under its own modules.

    The encoder (`harness/encoders/native.py`) applies the prompt, the pooling and the
    dense layers of the model, so that nothing is left to compute.

    Attributes:
        prompt: The name of the prompt; empty for the model's default.
    """

    prompt: str = ""

    part = "native"
    refusal = "these encodings are not of a model under its own modules; open it as a NativeConfig"

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
# The default of bert-as-service, which SBERT probably used for its row "Avg. BERT
# embeddings".
SECOND_LAST = Mean("second-last", (-2,))

NATIVE = Native()

# The poolings of encoders that give hidden states.
POOLINGS = (CLS, POOLER, MEAN, FIRST_LAST, STATIC_LAST, LAST2, SECOND_LAST)
