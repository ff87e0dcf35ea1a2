"""The options and the weights of an ELMo model, in the files that AllenNLP published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float32
from harness.core.errors import DataError
from harness.encoders.checkpoint_settings import read_settings

# Rows of the table of characters: 256 bytes, the boundaries of sentences and words,
# padding. AllenNLP shifts the ids by 1 for a mask of zeros, which no word reads.
CHARACTERS = 261


@dataclass(frozen=True)
class Options:
    """The sizes of a model, as AllenNLP's `options.json` states them.

    Attributes:
        character: The size of the vectors of characters.
        letters: The characters of a word, with its two boundaries and padding.
        filters: The width and the number of the convolutions of each kind.
        activation: The function after them, `relu` or `tanh`.
        highways: The number of highway layers.
        layers: The number of LSTMs in each direction.
        cell: The size of an LSTM's memory.
        projection: The size of its state.
        cell_clip: The largest absolute value of a memory; 0 for none.
        state_clip: That of a state.
    """

    character: int
    letters: int
    filters: tuple[tuple[int, int], ...]
    activation: str
    highways: int
    layers: int
    cell: int
    projection: int
    cell_clip: float
    state_clip: float

    @classmethod
    def read(cls, path: Path) -> Options:
        """The options of a file. Raises DataError for a model of another kind."""
        content = read_settings(path)
        try:
            cnn = content["char_cnn"]
            lstm = content["lstm"]
            options = cls(
                character=int(cnn["embedding"]["dim"]),
                letters=int(cnn["max_characters_per_token"]),
                filters=tuple((int(w), int(number)) for w, number in cnn["filters"]),
                activation=cnn["activation"],
                highways=int(cnn["n_highway"]),
                layers=int(lstm["n_layers"]),
                cell=int(lstm["dim"]),
                projection=int(lstm["projection_dim"]),
                cell_clip=float(lstm["cell_clip"] or 0),
                state_clip=float(lstm["proj_clip"] or 0),
            )
            adds_input = lstm["use_skip_connections"] is True
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}: wanted the options of an ELMo model, found {error!r}; fetch it again"
            ) from error
        if not adds_input or options.activation not in ("relu", "tanh"):
            raise DataError(
                f"{path}: wanted use_skip_connections true and an activation of relu or tanh, "
                f"found {lstm['use_skip_connections']} and {options.activation}; take a model "
                "that AllenNLP reads"
            )
        return options

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The name and the shape of each array of the weights."""
        yield "char_embed", (CHARACTERS, self.character)
        for number, (width, count) in enumerate(self.filters):
            yield f"CNN/W_cnn_{number}", (1, width, self.character, count)
            yield f"CNN/b_cnn_{number}", (count,)
        size = sum(count for _, count in self.filters)
        for number in range(self.highways):
            for part in ("transform", "carry"):
                yield f"CNN_high_{number}/W_{part}", (size, size)
                yield f"CNN_high_{number}/b_{part}", (size,)
        yield "CNN_proj/W_proj", (size, self.projection)
        yield "CNN_proj/b_proj", (self.projection,)
        for direction in (0, 1):
            for layer in range(self.layers):
                cell = cell_name(direction, layer)
                yield f"{cell}/W_0", (2 * self.projection, 4 * self.cell)
                yield f"{cell}/B", (4 * self.cell,)
                yield f"{cell}/W_P_0", (self.cell, self.projection)


def cell_name(direction: int, layer: int) -> str:
    """The group of an LSTM in the weights; direction 0 is forwards."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def read_arrays(path: Path, options: Options) -> Mapping[str, Float32[np.ndarray, ...]]:
    """The arrays of the weights by name.

    Raises DataError for a file that is damaged, or whose arrays have other shapes than
    the options say.
    """
    import h5py

    arrays: dict[str, Any] = {}
    try:
        with h5py.File(path, "r") as file:
            for name, shape in options.shapes():
                stored_shape = file[name].shape
                if stored_shape != shape:
                    raise DataError(
                        f"{path}: wanted {name} of shape {shape}, found {stored_shape}; take "
                        "options and weights of one model"
                    )
                arrays[name] = np.asarray(file[name], np.float32)
    except (OSError, KeyError, AttributeError, ValueError) as error:
        raise DataError(
            f"{path}: wanted the weights of an ELMo model in HDF5, found {error}; fetch it again"
        ) from error
    return arrays
