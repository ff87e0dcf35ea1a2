"""The sizes of an ELMo model, as AllenNLP's `options.json` states them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import DataError
from harness.encoders.checkpoint import read_json

LETTERS_OF_A_WORD = 50  # bytes, its beginning and end included


@dataclass(frozen=True)
class Options:
    """The sizes of a model, from its `options.json`.

    Attributes:
        filters: Width and number of the filters of each convolution over characters.
        highways: The number of highway layers.
        activation: Of the convolutions: `relu` or `tanh`.
        characters: The dimensions of a character's vector.
        cell: The dimensions of an LSTM's memory.
        projection: The dimensions of its state.
        layers: The number of LSTM layers.
        cell_clip: The largest absolute value of a memory; 0 for none.
        state_clip: The largest absolute value of a projected state; 0 for none.
    """

    filters: tuple[tuple[int, int], ...]
    highways: int
    activation: str
    characters: int
    cell: int
    projection: int
    layers: int
    cell_clip: float
    state_clip: float

    @classmethod
    def read(cls, path: Path) -> Options:
        """The options of a file. Raises DataError for a model that is none of AllenNLP's."""
        content = read_json(path)
        try:
            lstm, cnn = content["lstm"], content["char_cnn"]
            found = cls(
                filters=tuple((int(width), int(number)) for width, number in cnn["filters"]),
                highways=int(cnn["n_highway"]),
                activation=str(cnn["activation"]),
                characters=int(cnn["embedding"]["dim"]),
                cell=int(lstm["dim"]),
                projection=int(lstm["projection_dim"]),
                layers=int(lstm["n_layers"]),
                cell_clip=float(lstm["cell_clip"] or 0),
                state_clip=float(lstm["proj_clip"] or 0),
            )
            wanted: dict[str, tuple[object, object]] = {
                "lstm.use_skip_connections": (bool(lstm["use_skip_connections"]), True),
                "char_cnn.max_characters_per_token": (
                    cnn["max_characters_per_token"],
                    LETTERS_OF_A_WORD,
                ),
            }
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}: wanted the options of an ELMo model, found {error!r}; fetch it again"
            ) from error
        if found.activation not in ("relu", "tanh"):
            wanted["char_cnn.activation"] = (found.activation, "relu")
        for name, (value, only) in wanted.items():
            if value != only:
                raise DataError(f"{path}: wanted {name} = {only!r}, found {value!r}")
        return found
