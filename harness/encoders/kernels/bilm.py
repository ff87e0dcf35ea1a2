"""The forward pass of ELMo in PyTorch, over the arrays of AllenNLP's weights as they are published.

Characters of a word -> convolutions, their maximum over places -> highway layers -> a projection;
then two stacks of LSTMs with projected states, one over the words and one over them reversed. Gates
lie in TensorFlow's order: input, new memory, forget, output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Float32, Int64
from harness.core.errors import DataError, UsageError
from harness.encoders.bilm_options import LETTERS_OF_A_WORD, Options

# Ids 0 to 255 are bytes of UTF-8.
SENTENCE_BEGINS, SENTENCE_ENDS, WORD_BEGINS, WORD_ENDS, PADDING = range(256, 261)
CHARACTERS = 261
PARTS = ("CNN", "RNN", "char")  # an array of these that the options do not know is not left out
FORGET_BIAS = 1.0  # TensorFlow adds it in the cell, so that it is in no file
WORDS_AT_ONCE = 256  # whose convolutions take 180 kB each at the widest


def character_ids(word: str) -> list[int]:
    """The ids of a word's bytes between its beginning and its end, padded; a long one is cut."""
    return _word_of(list(word.encode("utf-8", "ignore")[: LETTERS_OF_A_WORD - 2]))


def _word_of(ids: list[int]) -> list[int]:
    padding = [PADDING] * (LETTERS_OF_A_WORD - 2 - len(ids))
    return [WORD_BEGINS, *ids, WORD_ENDS, *padding]


FIRST, LAST = _word_of([SENTENCE_BEGINS]), _word_of([SENTENCE_ENDS])


@dataclass(frozen=True, eq=False)
class CharacterNetwork:
    """A vector for each word, from its characters alone.

    A highway layer is c * relu(x W_t + b_t) + (1 - c) * x, where c = sigmoid(x W_c + b_c).
    """

    vectors: Tensor  # (261, E)
    convolutions: tuple[tuple[Tensor, Tensor], ...]  # (F, E, width), (F,)
    highways: tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...]  # W_t, b_t, W_c, b_c
    projection: tuple[Tensor, Tensor]  # (F, P), (P,)
    activation: str

    def __call__(self, ids: Int64[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        act = torch.relu if self.activation == "relu" else torch.tanh
        letters = F.embedding(ids, self.vectors).transpose(1, 2)  # (W, E, C)
        found = [act(F.conv1d(letters, w, b).amax(dim=-1)) for w, b in self.convolutions]
        x = torch.cat(found, dim=-1)
        for transform, transform_bias, carry, carry_bias in self.highways:
            share = torch.sigmoid(x @ carry + carry_bias)
            x = share * torch.relu(x @ transform + transform_bias) + (1 - share) * x
        return x @ self.projection[0] + self.projection[1]


@dataclass(frozen=True, eq=False)
class ProjectedLstm:
    """An LSTM whose state is a projection of its output; memory and state are clipped."""

    weight: Tensor  # (I + P, 4 C): of the input, then of the state
    bias: Tensor  # (4 C,), the forget gate's included
    projection: Tensor  # (C, P)
    cell_clip: float
    state_clip: float

    def __call__(self, x: Float[Tensor, "B T I"], lengths: Sequence[int]) -> Float[Tensor, "B T P"]:
        """The states of texts, longest first; those behind the end of a text are zero."""
        cell, size = self.projection.shape
        inputs, recurrent = self.weight[: x.shape[2]], self.weight[x.shape[2] :]
        given = x @ inputs + self.bias
        states = x.new_zeros(*x.shape[:2], size)
        memory, state = x.new_zeros(len(x), cell), x.new_zeros(len(x), size)
        for step in range(x.shape[1]):
            active = sum(length > step for length in lengths)
            gates = given[:active, step] + state[:active] @ recurrent
            admit, new, forget, out = gates.chunk(4, dim=-1)
            memory = torch.sigmoid(forget) * memory[:active] + torch.sigmoid(admit) * torch.tanh(
                new
            )
            memory = _clipped(memory, self.cell_clip)
            state = (torch.sigmoid(out) * torch.tanh(memory)) @ self.projection
            state = _clipped(state, self.state_clip)
            states[:active, step] = state
        return states


def _clipped(x: Tensor, most: float) -> Tensor:
    return x.clamp(-most, most) if most else x


@dataclass(frozen=True, eq=False)
class BidirectionalNetwork:
    """Words of texts to the means of all layers over them."""

    characters: CharacterNetwork
    forward: tuple[ProjectedLstm, ...]
    backward: tuple[ProjectedLstm, ...]

    def __call__(self, batch: Sequence[Sequence[str]]) -> Float32[np.ndarray, "B L D"]:
        with torch.inference_mode():
            lengths = [len(words) + 2 for words in batch]
            means = [
                [
                    state[1 : length - 1].mean(dim=0)
                    for state, length in zip(x, lengths, strict=True)
                ]
                for x in self.layers(batch)
            ]
            return torch.stack([torch.stack(rows) for rows in means], dim=1).cpu().numpy()

    def layers(self, batch: Sequence[Sequence[str]]) -> list[Float[Tensor, "B T D"]]:
        """The states of all layers, those of the sentence's beginning and end included."""
        lengths = [len(words) + 2 for words in batch]
        x = self._words(batch, max(lengths))
        ahead = [*self._stack(self.forward, x, lengths)]
        turned = _turned(x.shape[1], lengths, x.device)
        rows = torch.arange(len(x), device=x.device)[:, None]
        back = [
            state[rows, turned] for state in self._stack(self.backward, x[rows, turned], lengths)
        ]
        states = [torch.cat(both, dim=-1) for both in zip(ahead, back, strict=True)]
        return [torch.cat([x, x], dim=-1), *states]

    def _words(self, batch: Sequence[Sequence[str]], width: int) -> Float[Tensor, "B T P"]:
        """The vectors of words, each distinct one computed once; padding is the end's."""
        distinct = {
            word: row for row, word in enumerate(dict.fromkeys(w for t in batch for w in t), 2)
        }
        ids = torch.tensor([FIRST, LAST, *map(character_ids, distinct)])
        ids = ids.to(self.characters.vectors.device)
        vectors = torch.cat([self.characters(part) for part in torch.split(ids, WORDS_AT_ONCE)])
        places = [[0, *(distinct[word] for word in words)] for words in batch]
        padded = [[*rows, *[1] * (width - len(rows))] for rows in places]
        return vectors[torch.tensor(padded, device=vectors.device)]

    def _stack(
        self, stack: Sequence[ProjectedLstm], x: Tensor, lengths: Sequence[int]
    ) -> list[Float[Tensor, "B T P"]]:
        """The states of each layer; from the second on, a layer adds its input to its output."""
        states: list[Tensor] = []
        for lstm in stack:
            found = lstm(x, lengths)
            x = found + x if states else found
            states.append(x)
        return states


def _turned(width: int, lengths: Sequence[int], device: torch.device) -> Int64[Tensor, "B T"]:
    """For each place, the place that it takes when a text is reversed within its length."""
    places = [[*range(n - 1, -1, -1), *range(n, width)] for n in lengths]
    return torch.tensor(places, device=device)


def read_network(
    name: str, path: Path, tensors: Mapping[str, Tensor], options: Options, device: str
) -> BidirectionalNetwork:
    """The network of published weights, on a device.

    Raises DataError for arrays that are missing, too many, or of other sizes than the options say,
    and UsageError for a device that torch lacks.
    """
    shapes = _shapes(options)
    unlike = sorted(key for key in shapes if key in tensors and tensors[key].shape != shapes[key])
    more = (key for key in set(tensors) - set(shapes) if key.startswith(PARTS))
    unlike = unlike or sorted(set(shapes) - set(tensors)) or sorted(more)
    if unlike:
        found = tuple(tensors[unlike[0]].shape) if unlike[0] in tensors else "none"
        wanted = shapes.get(unlike[0], "none")
        raise DataError(
            f"{name}: wanted {unlike[0]} of shape {wanted} in {path}, found {found}; options and "
            "weights do not belong together: fetch both again"
        )
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        w = {key: tensor.to(torch.device(device)) for key, tensor in tensors.items()}
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"wanted a device that torch has, found {device!r}: {reason}") from error
    characters = CharacterNetwork(
        w["char_embed"],
        tuple(
            (w[f"CNN/W_cnn_{n}"][0].permute(2, 1, 0).contiguous(), w[f"CNN/b_cnn_{n}"])
            for n in range(len(options.filters))
        ),
        tuple(_highway(w, f"CNN_high_{n}") for n in range(options.highways)),
        (w["CNN_proj/W_proj"], w["CNN_proj/b_proj"]),
        options.activation,
    )
    stacks = [
        tuple(_lstm(w, _cell(direction, layer), options) for layer in range(options.layers))
        for direction in (0, 1)
    ]
    return BidirectionalNetwork(characters, *stacks)


def _highway(w: Mapping[str, Tensor], layer: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    transform, carry = (
        (w[f"{layer}/W_{part}"], w[f"{layer}/b_{part}"]) for part in ("transform", "carry")
    )
    return *transform, *carry


def _cell(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _lstm(w: Mapping[str, Tensor], cell: str, options: Options) -> ProjectedLstm:
    bias = w[f"{cell}/B"].clone()
    bias[2 * options.cell : 3 * options.cell] += FORGET_BIAS
    clips = (options.cell_clip, options.state_clip)
    return ProjectedLstm(w[f"{cell}/W_0"], bias, w[f"{cell}/W_P_0"], *clips)


def _shapes(options: Options) -> dict[str, tuple[int, ...]]:
    """The shape of every array of the weights."""
    size, all_filters = options.projection, sum(number for _, number in options.filters)
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (CHARACTERS, options.characters)}
    for n, (width, number) in enumerate(options.filters):
        shapes[f"CNN/W_cnn_{n}"] = (1, width, options.characters, number)
        shapes[f"CNN/b_cnn_{n}"] = (number,)
    for n in range(options.highways):
        for part in ("transform", "carry"):
            shapes[f"CNN_high_{n}/W_{part}"] = (all_filters, all_filters)
            shapes[f"CNN_high_{n}/b_{part}"] = (all_filters,)
    shapes |= {"CNN_proj/W_proj": (all_filters, size), "CNN_proj/b_proj": (size,)}
    for direction in (0, 1):
        for layer in range(options.layers):
            cell = _cell(direction, layer)
            shapes[f"{cell}/W_0"] = (2 * size, 4 * options.cell)
            shapes[f"{cell}/B"] = (4 * options.cell,)
            shapes[f"{cell}/W_P_0"] = (options.cell, size)
    return shapes
