"""The forward pass of ELMo in PyTorch, over the arrays of AllenNLP's weights as they are published.

Characters of a word -> convolutions, their maximum over places -> highway layers -> a projection;
then two stacks of LSTMs with projected states, one over the words and one over them reversed. The
gates are in TensorFlow's order: input, new memory, forget, output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
WORDS_AT_ONCE = 256  # whose convolutions take 180 kB each at the widest
CELL = "RNN_{}/RNN/MultiRNNCell/Cell{}/LSTMCell"  # of a direction and a layer


def character_ids(letters: Sequence[int]) -> list[int]:
    """The ids of a word's bytes between its beginning and its end, padded; a long one is cut."""
    letters = letters[:LETTERS]
    return [WORD_BEGINS, *letters, WORD_ENDS, *[PADDING] * (LETTERS - len(letters))]


class BidirectionalNetwork:
    """Words of texts to the means of all layers over them.

    `tensors` are the arrays of the weights by their published paths, `clips` the largest absolute
    values of an LSTM's memory and of its projected state, 0 for none. Raises UsageError for a
    device that torch lacks.
    """

    def __init__(
        self, tensors: Mapping[str, Tensor], clips: tuple[float, float], device: str
    ) -> None:
        place = device_of(device)
        self.w = w = {name: tensor.to(place) for name, tensor in tensors.items()}
        self.clips = clips
        self.filters = [
            (w[f"CNN/W_cnn_{n}"][0].permute(2, 1, 0).contiguous(), w[f"CNN/b_cnn_{n}"])
            for n in range(self._count("CNN/W_cnn_{}"))
        ]
        self.highways = [f"CNN_high_{n}" for n in range(self._count("CNN_high_{}/W_carry"))]
        self.depth = self._count(CELL.format(0, "{}") + "/B")
        for cell in (CELL.format(side, layer) for side in (0, 1) for layer in range(self.depth)):
            w[f"{cell}/B"] = w[f"{cell}/B"].clone()
            w[f"{cell}/B"].chunk(4)[2].add_(FORGET_BIAS)

    def _count(self, name: str) -> int:
        return next(n for n in range(len(self.w) + 1) if name.format(n) not in self.w)

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
        width = max(lengths)
        x = self._embedded(batch, width)
        # For each place, the place that it takes when a text is reversed within its length.
        turned = [[*range(n - 1, -1, -1), *range(n, width)] for n in lengths]
        turn = torch.arange(len(x), device=x.device)[:, None], torch.tensor(turned, device=x.device)
        ahead, back, states = x, x[turn], [torch.cat([x, x], dim=-1)]
        for layer in range(self.depth):
            forward, backward = (
                self.lstm(CELL.format(side, layer), given, lengths)
                for side, given in ((0, ahead), (1, back))
            )
            # From the second layer on, a layer adds its input to its output.
            ahead, back = (forward + ahead, backward + back) if layer else (forward, backward)
            states.append(torch.cat([ahead, back[turn]], dim=-1))
        return states

    def _embedded(self, batch: Sequence[Sequence[str]], width: int) -> Float[Tensor, "B T P"]:
        """The vectors of words, each distinct one computed once; padding is the end's."""
        distinct = dict.fromkeys(word for words in batch for word in words)
        bytes_of = [[SENTENCE_BEGINS], [SENTENCE_ENDS]]
        bytes_of += [list(word.encode("utf-8", "ignore")) for word in distinct]
        ids = torch.tensor([character_ids(letters) for letters in bytes_of])
        ids = ids.to(self.w["char_embed"].device)
        vectors = torch.cat([self.word_vectors(part) for part in torch.split(ids, WORDS_AT_ONCE)])
        row = {word: number for number, word in enumerate(distinct, start=2)}
        places = [[0, *(row[word] for word in words)] for words in batch]
        padded = [[*rows, *[1] * (width - len(rows))] for rows in places]
        return vectors[torch.tensor(padded, device=vectors.device)]

    def word_vectors(self, ids: Int64[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        """A vector for each word, from the ids of its characters alone.

        A highway layer is c * relu(x W_t + b_t) + (1 - c) * x, where c = sigmoid(x W_c + b_c).
        """
        w = self.w
        letters = F.embedding(ids, w["char_embed"]).transpose(1, 2)  # (W, E, C)
        maxima = [F.conv1d(letters, kernel, b).amax(dim=-1) for kernel, b in self.filters]
        x = torch.relu(torch.cat(maxima, dim=-1))
        for part in self.highways:
            carry = torch.sigmoid(x @ w[f"{part}/W_carry"] + w[f"{part}/b_carry"])
            transformed = torch.relu(x @ w[f"{part}/W_transform"] + w[f"{part}/b_transform"])
            x = carry * transformed + (1 - carry) * x
        return x @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"]

    def lstm(
        self, name: str, x: Float[Tensor, "B T I"], lengths: Sequence[int]
    ) -> Float[Tensor, "B T P"]:
        """The projected states of texts, longest first; those behind the end of a text are zero."""
        weight, projection = self.w[f"{name}/W_0"], self.w[f"{name}/W_P_0"]
        inputs, recurrent = weight[: x.shape[2]], weight[x.shape[2] :]
        given = x @ inputs + self.w[f"{name}/B"]
        cell, size = projection.shape
        states = x.new_zeros(*x.shape[:2], size)
        memory, state = x.new_zeros(len(x), cell), x.new_zeros(len(x), size)
        for step in range(x.shape[1]):
            active = sum(length > step for length in lengths)
            gates = given[:active, step] + state[:active] @ recurrent
            admit, new, forget, out = gates.chunk(4, dim=-1)
            admitted = torch.sigmoid(admit) * torch.tanh(new)
            memory = torch.sigmoid(forget) * memory[:active] + admitted
            memory = _clipped(memory, self.clips[0])
            state = (torch.sigmoid(out) * torch.tanh(memory)) @ projection
            state = _clipped(state, self.clips[1])
            states[:active, step] = state
        return states


def _clipped(x: Tensor, most: float) -> Tensor:
    return x.clamp(-most, most) if most else x
