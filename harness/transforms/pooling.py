"""Poolings: from an encoding to one vector a sentence.

Layers have the numbers of Hugging Face's `hidden_states`: 0 is the output of the
embedding layer, L the last layer. A pooling is named after what is computed, which may
differ from its name in a paper: BERT-flow's "last2avg" is `first-last` (its code takes
layer 1), and the "first-last avg." of SimCSE's Table 5 is `static-last` (layer 0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.core.arrays import Float
from harness.core.errors import UsageError
from harness.core.interfaces import Encoding, Pooling
from harness.core.metrics import unit_rows

NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
# What a statistic of an encoding is, in messages.
TOKENS_OF_STATISTICS = {
    "layer_cls": "summary token",
    "layer_max": "maximum over the tokens",
    "layer_sep": "special token at the end",
    "layer_weighted": "weighted mean over the tokens",
}
MIX_ARGUMENT = re.compile(rf"{NUMBER}(?:_{NUMBER})*(?:_g{NUMBER})?")


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
        numbers = [_counted_from_first(layer, depth) for layer in self.layers]
        is_repeated = len(set(numbers)) < len(numbers)
        if min(numbers) < 0 or max(numbers) > depth or is_repeated:
            raise UsageError(
                f"{self.name} averages hidden states {self.layers}; this encoder has only "
                f"0..{depth}, use mean"
            )
        return tuple(sorted(numbers))

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        means = layer_means(self.name, encoding, self.hidden_states(encoding.depth))
        return means[0] if len(means) == 1 else np.mean(means, axis=0)


def _counted_from_first(layer: int, depth: int) -> int:
    """The number of a layer of an encoder of this depth; -1 is the last layer."""
    return layer if layer >= 0 else depth + 1 + layer


def layer_means(
    name: str, encoding: Encoding, layers: tuple[int, ...]
) -> list[Float[np.ndarray, "N D"]]:
    """The means over tokens of layers; `name` is the pooling's, for the message."""
    missing = sorted(set(layers) - set(encoding.layers))
    if missing:
        raise UsageError(f"{name} needs layers {layers}; the encoding lacks {missing}")
    return [encoding.mean[:, encoding.layers.index(layer)] for layer in layers]


@dataclass(frozen=True)
class LayerMean(Mean):
    """The mean over the tokens of one layer, `layer:0`; without a number of the last."""

    def with_argument(self, argument: str) -> Mean:
        """The mean of the layer of this number."""
        number = _layer_number("layer", argument)
        return Mean(f"layer:{number}", (number,))


def _layer_number(word: str, argument: str) -> int:
    """The number of a layer in an id, after the word of its pooling."""
    if not argument.isdecimal():
        raise UsageError(
            f"{word}:{argument}: wanted the number of a layer, as in {word}:1"
        )
    return int(argument)


@dataclass(frozen=True)
class Mix:
    """ELMo's mixture of all layers, gamma sum_j softmax(s)_j h_j, `mix:0.2_1_-3_g0.5`.

    Equation 1 of Peters et al. (2018, arXiv 1802.05365). No layer is normalised before,
    as by default in AllenNLP. The mean over tokens of the mixture is the mixture of the
    layers' means.

    Attributes:
        argument: The s_j, from layer 0 on, with `_` between them, and `_g` before gamma
            if there is one: `0.2_1_-3_g0.5`. Empty for equal s_j, and gamma 1.
    """

    argument: str = ""

    @property
    def name(self) -> str:
        """`mix`, or `mix:0.2_1_-3_g0.5`."""
        return f"mix:{self.argument}" if self.argument else "mix"

    def with_argument(self, argument: str) -> Mix:
        """The mixture of these s_j and gamma."""
        if not MIX_ARGUMENT.fullmatch(argument):
            raise UsageError(
                f"mix:{argument}: wanted the s_j of all layers and then gamma, as in "
                "mix:0.2_1_-3_g0.5"
            )
        return Mix(argument)

    def weights(self, layers: int) -> Float[np.ndarray, " L"]:
        """gamma softmax(s), for an encoder of so many layers."""
        scores, _, gamma = self.argument.partition("_g")
        exponents = np.zeros(layers)
        if scores:
            exponents = np.array([float(number) for number in scores.split("_")])
        if len(exponents) != layers:
            raise UsageError(
                f"{self.name}: wanted {layers} numbers s_j, one a layer of this encoder, found "
                f"{len(exponents)}"
            )
        shares = np.exp(exponents - exponents.max())
        return float(gamma or 1) * shares / shares.sum()

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """All layers of an encoder of this depth."""
        self.weights(depth + 1)  # raises for another number of s_j
        return tuple(range(depth + 1))

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        layers = self.hidden_states(encoding.depth)
        means = layer_means(self.name, encoding, layers)
        mixed = np.tensordot(self.weights(len(layers)), means, axes=1)
        return mixed.astype(np.float32)


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

    def with_argument(self, argument: str) -> LayerCls:
        """The summary token of the layer of this number, `cls:11`."""
        number = _layer_number("cls", argument)
        return LayerCls(f"cls:{number}", number)


@dataclass(frozen=True)
class LayerCls:
    """The summary token of one layer, before any pooler.

    Attributes:
        name: Its name in ids.
        layer: The layer; a negative number counts from the last, as in Python.

    Raises:
        UsageError: The encoder does not have the layer, or has no summary token.

    Examples:
        >>> mean, cls = np.zeros((1, 2, 2), np.float32), np.float32([[[1, 0], [3, 2]]])
        >>> encoding = Encoding((0, 1), 1, mean, layer_cls=cls)
        >>> LayerCls("second-last-cls", -2)(encoding).tolist()
        [[1.0, 0.0]]
    """

    name: str
    layer: int

    statistics: ClassVar[tuple[str, ...]] = ("layer_cls",)

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The layer, in an encoder of this depth."""
        return _one_layer(self.name, self.layer, depth)

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        [layer] = self.hidden_states(encoding.depth)
        return _of_layer(self.name, encoding, "layer_cls", layer)


@dataclass(frozen=True)
class LayerMax:
    """The largest value of each coordinate over the tokens of one layer, `max:11`.

    [CLS] and [SEP] are included, as in sentence-transformers' max pooling.

    Attributes:
        name: Its name in ids.
        layer: The layer; a negative number counts from the last, as in Python.
    """

    name: str
    layer: int

    statistics: ClassVar[tuple[str, ...]] = ("layer_max",)

    def with_argument(self, argument: str) -> LayerMax:
        """The maximum of the layer of this number."""
        number = _layer_number(self.name, argument)
        return LayerMax(f"{self.name}:{number}", number)

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The layer, in an encoder of this depth."""
        return _one_layer(self.name, self.layer, depth)

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        [layer] = self.hidden_states(encoding.depth)
        return _of_layer(self.name, encoding, "layer_max", layer)


@dataclass(frozen=True)
class LayerWeightedMean:
    """The mean over the tokens of one layer, each weighted by its place, `weighted-mean:11`.

    The first token, [CLS], counts once and the last most, as in SGPT (Muennighoff, 2022,
    arXiv 2202.08904) and in sentence-transformers' `weightedmean`.

    Attributes:
        name: Its name in ids.
        layer: The layer; a negative number counts from the last, as in Python.
    """

    name: str
    layer: int

    statistics: ClassVar[tuple[str, ...]] = ("layer_weighted",)

    def with_argument(self, argument: str) -> LayerWeightedMean:
        """The weighted mean of the layer of this number."""
        number = _layer_number(self.name, argument)
        return LayerWeightedMean(f"{self.name}:{number}", number)

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The layer, in an encoder of this depth."""
        return _one_layer(self.name, self.layer, depth)

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        [layer] = self.hidden_states(encoding.depth)
        return _of_layer(self.name, encoding, "layer_weighted", layer)


@dataclass(frozen=True)
class MeanWithout:
    """The mean over the tokens of one layer without [CLS], [SEP] or both.

    A text without other tokens has a vector of zeros.

    Attributes:
        name: Its name in ids.
        left_out: The statistics of an encoding that are these tokens.
        layer: The layer; a negative number counts from the last, as in Python.
    """

    name: str
    left_out: tuple[str, ...]
    layer: int

    @property
    def statistics(self) -> tuple[str, ...]:
        """The mean over all tokens, their number, and the tokens that are left out."""
        return ("mean", "lengths", *self.left_out)

    def with_argument(self, argument: str) -> MeanWithout:
        """The mean of the layer of this number."""
        number = _layer_number(self.name, argument)
        return MeanWithout(f"{self.name}:{number}", self.left_out, number)

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The layer, in an encoder of this depth."""
        return _one_layer(self.name, self.layer, depth)

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        [layer] = self.hidden_states(encoding.depth)
        [mean] = layer_means(self.name, encoding, (layer,))
        if encoding.lengths is None:
            raise UsageError(
                f"{self.name}: this encoder does not tell the tokens of a text; use mean"
            )
        sums = encoding.lengths * mean.astype(np.float64)
        for statistic in self.left_out:
            sums = sums - _of_layer(self.name, encoding, statistic, layer)
        counts = encoding.lengths - len(self.left_out)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), 0.0)
        return means.astype(np.float32)


def _one_layer(name: str, layer: int, depth: int) -> tuple[int]:
    """The number of a layer of an encoder of this depth; UsageError if it has none such."""
    number = _counted_from_first(layer, depth)
    if not 0 <= number <= depth:
        raise UsageError(
            f"{name} reads the hidden state {layer}; this encoder has only 0..{depth}, use "
            f"{name.partition(':')[0]}"
        )
    return (number,)


def _of_layer(
    name: str, encoding: Encoding, statistic: str, layer: int
) -> Float[np.ndarray, "N D"]:
    """A statistic of a layer; `name` is the pooling's, for the message."""
    array: Float[np.ndarray, "N L D"] | None = getattr(encoding, statistic)
    if array is None:
        raise UsageError(
            f"{name}: this encoder has no {TOKENS_OF_STATISTICS[statistic]} of a layer; use "
            f"layer:{layer}"
        )
    return array[:, encoding.layers.index(layer)]


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

    def with_argument(self, argument: str) -> Native:
        """The vectors of the prompt of this name."""
        return Native(argument)

    @property
    def name(self) -> str:
        """`native`, or `native:query` with a prompt that is not the default."""
        return f"native:{self.prompt}" if self.prompt else "native"


@dataclass(frozen=True)
class FirstDimensions:
    """The first coordinates of another pooling's vectors, as Matryoshka models are cut.

    Attributes:
        of: The pooling.
        count: How many coordinates are kept.

    Raises:
        UsageError: The vectors have no more coordinates than are kept.

    Examples:
        >>> encoding = Encoding((0,), 0, np.array([[[3, 4, 5]]], np.float32))
        >>> FirstDimensions(MEAN, 2)(encoding).tolist()
        [[3.0, 4.0]]
    """

    of: Pooling
    count: int

    @property
    def name(self) -> str:
        """`mean-first-64`."""
        return f"{self.of.name}-first-{self.count}"

    @property
    def statistics(self) -> tuple[str, ...]:
        """What the pooling reads."""
        return statistics_of(self.of)

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The hidden states of the pooling."""
        return self.of.hidden_states(depth)

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N K"]:
        vectors = self.of(encoding)
        if vectors.shape[1] <= self.count:
            raise UsageError(
                f"{self.name}: wanted vectors of more than {self.count} dimensions, found "
                f"{vectors.shape[1]}; take {self.of.name}"
            )
        return vectors[:, : self.count]


@dataclass(frozen=True)
class UnitLength:
    """Another pooling's vectors, each divided by its length; zeros stay.

    The cosine of two vectors does not change, the other similarity functions do.

    Attributes:
        of: The pooling.

    Examples:
        >>> encoding = Encoding((0,), 0, np.array([[[3, 4]]], np.float32))
        >>> UnitLength(MEAN)(encoding).round(4).tolist()
        [[0.6, 0.8]]
    """

    of: Pooling

    @property
    def name(self) -> str:
        """`mean-unit`."""
        return f"{self.of.name}-unit"

    @property
    def statistics(self) -> tuple[str, ...]:
        """What the pooling reads."""
        return statistics_of(self.of)

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The hidden states of the pooling."""
        return self.of.hidden_states(depth)

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        return unit_rows(self.of(encoding))


CLS = Cls()
POOLER = Pooler()
MEAN = Mean("mean", (-1,))
FIRST_LAST = Mean("first-last", (1, -1))
STATIC_LAST = Mean("static-last", (0, -1))
LAST2 = Mean("last2", (-2, -1))
LAST4 = Mean("last4", (-4, -3, -2, -1))
# The default of bert-as-service, which SBERT probably used for its row "Avg. BERT
# embeddings".
SECOND_LAST = Mean("second-last", (-2,))
# [CLS] where bert-as-service reads it: SBERT's row "BERT CLS-vector".
SECOND_LAST_CLS = LayerCls("second-last-cls", -2)

# These are computed and stored only where a method reads them: all layers in one pass.
MAX = LayerMax("max", -1)
WEIGHTED_MEAN = LayerWeightedMean("weighted-mean", -1)
MEAN_WITHOUT_CLS = MeanWithout("mean-without-cls", ("layer_cls",), -1)
MEAN_WITHOUT_SEP = MeanWithout("mean-without-sep", ("layer_sep",), -1)
MEAN_WITHOUT_SPECIAL = MeanWithout(
    "mean-without-special", ("layer_cls", "layer_sep"), -1
)
ON_REQUEST = (
    MAX,
    WEIGHTED_MEAN,
    MEAN_WITHOUT_CLS,
    MEAN_WITHOUT_SEP,
    MEAN_WITHOUT_SPECIAL,
)

LAYER = LayerMean("layer", (-1,))
MIX = Mix()
NATIVE = Native()

# The poolings of encoders that give hidden states.
POOLINGS = (
    CLS,
    POOLER,
    MEAN,
    FIRST_LAST,
    STATIC_LAST,
    LAST2,
    LAST4,
    SECOND_LAST,
    SECOND_LAST_CLS,
)


def statistics_of(pooling: Pooling) -> tuple[str, ...]:
    """The statistics over the tokens of its layers that a pooling reads; by default the mean."""
    return getattr(pooling, "statistics", ("mean",))
