"""The forward pass of ELMo, over the arrays of AllenNLP's weights as they are published.

The characters of a word pass convolutions, their maximum over places, highway layers and
a projection. Then two stacks of LSTMs with projected states read the words, one of them
backwards. Their gates are in TensorFlow's order: input, new memory, forget, output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harness.core.arrays import Float, Float32

# The ids of characters after the 256 bytes.
SENTENCE_BEGINS, SENTENCE_ENDS, WORD_BEGINS, WORD_ENDS, PADDING = range(256, 261)
# Words that AllenNLP reads as the boundaries of a sentence, wherever they are.
BOUNDARIES = {"<S>": [SENTENCE_BEGINS], "</S>": [SENTENCE_ENDS]}
FORGET_BIAS = 1.0  # TensorFlow adds it, so that it is in no file
# Words that are convolved at a time; each takes 180 kB in the widest models.
CONVOLVED_WORDS = 256
ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}  # those of AllenNLP's reader


def character_ids(word: str, length: int) -> list[int]:
    """The ids of a word's bytes between its boundaries, cut or padded to a length."""
    letters = BOUNDARIES.get(word, list(word.encode("utf-8", "ignore")))
    ids = [WORD_BEGINS, *letters[: length - 2], WORD_ENDS]
    return ids + [PADDING] * (length - len(ids))


class LanguageModel:
    """The means of all layers over the words of texts, all of one length.

    Layer 0 has no context: the vector of a word's characters, twice. The others have the
    states of the forward and of the backward LSTM.

    Args:
        arrays: The arrays of the weights by name.
        characters: The options of the layers that read characters.
        lstm: The options of the LSTMs.
    """

    def __init__(
        self,
        arrays: Mapping[str, Float32[np.ndarray, ...]],
        characters: Mapping[str, Any],
        lstm: Mapping[str, Any],
    ) -> None:
        self.weights = {name: torch.from_numpy(a) for name, a in arrays.items()}
        self.letters = int(characters["max_characters_per_token"])
        self.activation = ACTIVATIONS[characters["activation"]]
        # The largest absolute values of a memory and of a state; 0 in a file is no limit.
        self.cell_clip = float(lstm["cell_clip"] or math.inf)
        self.state_clip = float(lstm["proj_clip"] or math.inf)

    def numbered(self, name: str, part: str = "") -> list[str]:
        """The names of layers of a kind, which the weights number from 0 on."""
        names: list[str] = []
        while f"{name}{len(names)}{part}" in self.weights:
            names.append(f"{name}{len(names)}")
        return names

    @torch.inference_mode()
    def __call__(self, texts: Sequence[Sequence[str]]) -> Float32[np.ndarray, "N L D"]:
        layers = self.states([["<S>", *words, "</S>"] for words in texts])
        return layers[:, :, 1:-1].mean(dim=2).numpy()

    def states(self, sentences: Sequence[Sequence[str]]) -> Float[Tensor, "N L T D"]:
        """The states of every word in every layer, boundaries included."""
        x = self.without_context(sentences)
        forward = x
        backward = x.flip(1)  # the words in reverse
        layers = [torch.cat([x, x], dim=2)]
        stacks = [
            self.numbered(f"RNN_{direction}/RNN/MultiRNNCell/Cell", "/LSTMCell/W_0")
            for direction in (0, 1)
        ]
        for forward_cell, backward_cell in zip(*stacks, strict=True):
            next_forward = self.lstm(f"{forward_cell}/LSTMCell", forward)
            next_backward = self.lstm(f"{backward_cell}/LSTMCell", backward)
            if len(layers) > 1:  # the residual connection
                next_forward = next_forward + forward
                next_backward = next_backward + backward
            forward = next_forward
            backward = next_backward
            layers.append(torch.cat([forward, backward.flip(1)], dim=2))
        return torch.stack(layers, dim=1)

    def without_context(
        self, sentences: Sequence[Sequence[str]]
    ) -> Float[Tensor, "N T P"]:
        """The vectors of words from their characters alone; each distinct word is read once."""
        words = sorted({word for sentence in sentences for word in sentence})
        row_of = {word: row for row, word in enumerate(words)}
        ids = torch.tensor([character_ids(word, self.letters) for word in words])
        blocks = torch.split(ids, CONVOLVED_WORDS)
        vectors = torch.cat([self.of_characters(block) for block in blocks])
        rows = [[row_of[word] for word in sentence] for sentence in sentences]
        return vectors[torch.tensor(rows)]

    def of_characters(self, ids: Tensor) -> Float[Tensor, "W P"]:
        """The vectors of words, given the ids of their characters.

        A highway layer is c relu(x T + t) + (1 - c) x with c = sigmoid(x C + c0), where
        the file's carry opens the transformed part.
        """
        w = self.weights
        characters = functional.embedding(ids, w["char_embed"]).transpose(1, 2)
        maxima = []
        for number, name in enumerate(self.numbered("CNN/W_cnn_")):
            kernel = w[name][0].permute(2, 1, 0)
            places = functional.conv1d(characters, kernel, w[f"CNN/b_cnn_{number}"])
            maxima.append(self.activation(places.amax(dim=2)))
        x = torch.cat(maxima, dim=1)
        for name in self.numbered("CNN_high_", "/W_carry"):
            carry = torch.sigmoid(x @ w[f"{name}/W_carry"] + w[f"{name}/b_carry"])
            new = torch.relu(x @ w[f"{name}/W_transform"] + w[f"{name}/b_transform"])
            x = carry * new + (1 - carry) * x
        return x @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"]

    def lstm(self, name: str, x: Float[Tensor, "N T P"]) -> Float[Tensor, "N T P"]:
        """The projected states of an LSTM."""
        kernel = self.weights[f"{name}/W_0"]
        projection = self.weights[f"{name}/W_P_0"]
        input_size = x.shape[2]
        from_inputs = x @ kernel[:input_size] + self.weights[f"{name}/B"]
        state_kernel = kernel[input_size:]
        state = x.new_zeros(len(x), projection.shape[1])
        memory = x.new_zeros(len(x), projection.shape[0])
        states = []
        for gates_of_word in from_inputs.unbind(dim=1):
            gates = gates_of_word + state @ state_kernel
            admit, new, forget, emit = gates.chunk(4, dim=1)
            memory = torch.sigmoid(forget + FORGET_BIAS) * memory
            memory = memory + torch.sigmoid(admit) * torch.tanh(new)
            memory = memory.clamp(-self.cell_clip, self.cell_clip)
            state = (torch.sigmoid(emit) * torch.tanh(memory)) @ projection
            state = state.clamp(-self.state_clip, self.state_clip)
            states.append(state)
        return torch.stack(states, dim=1)
