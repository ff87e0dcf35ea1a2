"""The forward pass of ELMo in PyTorch, over the arrays of AllenNLP's weights as they are published.

Characters of a word -> convolutions, their maximum over places -> highway layers -> a projection;
then two stacks of LSTMs with projected states, one over the words and one over them reversed. The
gates are in TensorFlow's order: input, new memory, forget, output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Float32, Int64
from harness.encoders.kernels.padded import device_of

# Ids 0 to 255 are bytes of UTF-8.
SENTENCE_BEGINS, SENTENCE_ENDS, WORD_BEGINS, WORD_ENDS, PADDING = range(256, 261)
LETTERS = 48  # bytes of a word that are read
FORGET_BIAS = 1.0  # TensorFlow adds it in the cell, so that it is in no file
HIGHWAY = ("W_transform", "b_transform", "W_carry", "b_carry")
WORDS_AT_ONCE = 256  # whose convolutions take 180 kB each at the widest


def character_ids(word: str) -> list[int]:
    """The ids of a word's bytes between its beginning and its end, padded; a long one is cut."""
    return _word_of(list(word.encode("utf-8", "ignore")[:LETTERS]))


def _word_of(ids: list[int]) -> list[int]:
    return [WORD_BEGINS, *ids, WORD_ENDS, *[PADDING] * (LETTERS - len(ids))]


FIRST, LAST = _word_of([SENTENCE_BEGINS]), _word_of([SENTENCE_ENDS])


@dataclass(frozen=True, eq=False)
class CharacterNetwork:
    """A vector for each word, from its characters alone.

    A highway layer is c * relu(x W_t + b_t) + (1 - c) * x, where c = sigmoid(x W_c + b_c).
    """

    vectors: Tensor  # (261, E)
    convolutions: tuple[tuple[Tensor, Tensor], ...]  # (F, E, width), (F,)
    highways: tuple[tuple[Tensor, ...], ...]  # W_t, b_t, W_c, b_c of each
    projection: tuple[Tensor, Tensor]  # (F, P), (P,)
    activation: str

    def __call__(self, ids: Int64[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        act = torch.relu if self.activation == "relu" else torch.tanh
        letters = F.embedding(ids, self.vectors).transpose(1, 2)  # (W, E, C)
        maxima = [act(F.conv1d(letters, w, b).amax(dim=-1)) for w, b in self.convolutions]
        x = torch.cat(maxima, dim=-1)
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
            admitted = torch.sigmoid(admit) * torch.tanh(new)
            memory = torch.sigmoid(forget) * memory[:active] + admitted
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
            ends = [1 + len(words) for words in batch]  # places of the words: 1 to the end
            means = [
                torch.stack([x[1:end].mean(dim=0) for x, end in zip(states, ends, strict=True)])
                for states in self.layers(batch)
            ]
            return torch.stack(means, dim=1).cpu().numpy()

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
    tensors: Mapping[str, Tensor], activation: str, clips: tuple[float, float], device: str
) -> BidirectionalNetwork:
    """The network of published weights, on a device.

    `clips` are those of the memory and of the projected state, 0 for none. Raises UsageError for a
    device that torch lacks.
    """
    place = device_of(device)
    w = {key: tensor.to(place) for key, tensor in tensors.items()}

    def count(pattern: str) -> int:
        return next(n for n in range(len(w) + 1) if pattern.format(n) not in w)

    convolutions = tuple(
        (w[f"CNN/W_cnn_{n}"][0].permute(2, 1, 0).contiguous(), w[f"CNN/b_cnn_{n}"])
        for n in range(count("CNN/W_cnn_{}"))
    )
    characters = CharacterNetwork(
        w["char_embed"],
        convolutions,
        tuple(
            tuple(w[f"CNN_high_{n}/{part}"] for part in HIGHWAY)
            for n in range(count("CNN_high_{}/W_carry"))
        ),
        (w["CNN_proj/W_proj"], w["CNN_proj/b_proj"]),
        activation,
    )
    cells = "RNN_{}/RNN/MultiRNNCell/Cell{}/LSTMCell"
    layers = range(count(cells.format(0, "{}") + "/B"))
    stacks = [
        tuple(_lstm(w, cells.format(direction, layer), clips) for layer in layers)
        for direction in (0, 1)
    ]
    return BidirectionalNetwork(characters, *stacks)


def _lstm(w: Mapping[str, Tensor], cell: str, clips: tuple[float, float]) -> ProjectedLstm:
    bias = w[f"{cell}/B"].clone()
    bias.chunk(4)[2].add_(FORGET_BIAS)
    return ProjectedLstm(w[f"{cell}/W_0"], bias, w[f"{cell}/W_P_0"], *clips)
