"""CoVe: the encoder of a translation model over GloVe vectors, from the file of its authors.

McCann et al. 2017, arXiv 1708.00107, github.com/salesforce/cove (`MTLSTM`). The weights are a
two-layer bidirectional LSTM; the vectors of GloVe 840 B lie beside them. Layer 0 is GloVe, twice
side by side so that all layers have 600 dimensions; layer 1 is the first LSTM, layer 2 is CoVe. As
its authors advise, a word that GloVe lacks is a zero vector, which the network reads; all words
count in the means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float32
from harness.core.errors import DataError, UsageError
from harness.core.files import sha256_of
from harness.core.interfaces import Identity, Source, VectorFile
from harness.encoders.checkpoint import read_tensors, require_weights
from harness.encoders.elmo import UNKNOWN, RecurrentConfig, RecurrentEncoder
from harness.encoders.word_vectors import file_at, first_rows, read_cached

# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = "1: float32; unknown words are read as zeros; means over all words"


@dataclass(frozen=True)
class CoveConfig(RecurrentConfig):
    """A translation encoder over word vectors: its weights, and the vectors beside them.

    Args:
        vectors: The file of word vectors, in the data folder; beside weights given by hand.
        vectors_sha256: The digest that the vectors must have, if given.

    Raises:
        UsageError: The weights have no place in the data folder.

    Examples:
        >>> from harness.encoders.cove import CoveConfig
        >>> str(CoveConfig("cove", "vectors/lstm.pth", vectors="vectors/glove.txt").source)
        'vectors/lstm.pth and vectors/glove.txt'
    """

    vectors: str = field(kw_only=True)
    vectors_sha256: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file is None:
            raise UsageError(f"{self.name}: wanted a place of the weights in the data folder")

    @property
    def source(self) -> Source:
        """The weights and the vectors in the data folder."""
        return VectorFile(str(self.file), self.weights_sha256, self.vectors)

    def identify(self, path: Path) -> Identity:
        """The key and digests of the two files, without torch."""
        vectors = self._vectors(file_at(path, self.name, "weights"))
        digests = {"weights": sha256_of(path), "vectors": sha256_of(vectors)}
        require_weights(self.name, vectors, self.vectors_sha256, digests["vectors"])
        return self.identity(ENCODING_VERSION, path, digests)

    def load(self, path: Path, cache: Path) -> RecurrentEncoder:
        """The encoder, ready. The weights are unpickled, and text is parsed, once."""
        identity, tokeniser = self.identify(path), self.tokeniser
        words, vectors = read_cached(self._vectors(path), identity.digests["vectors"], cache)
        network = self._network(path, identity.digests["weights"], vectors, cache)
        row_of = first_rows(words)

        def read(text: str) -> list[int]:
            rows = (tokeniser.row(word, row_of) for word in tokeniser.words(text))
            return [UNKNOWN if row is None else row for row in rows]

        depth, size = len(network.layers), 2 * vectors.shape[1]
        return RecurrentEncoder(self, identity.key, read, network, depth, size)

    def _vectors(self, path: Path) -> Path:
        return file_at(path.parent / Path(self.vectors).name, self.name, "word vectors")

    def _network(
        self, path: Path, digest: str, vectors: Float32[np.ndarray, "V E"], cache: Path
    ) -> TranslationEncoder:
        """Two LSTMs of the published weights, on the device.

        Raises DataError for weights of another network, and UsageError for a device that torch
        lacks.
        """
        from torch import nn

        from harness.encoders.kernels.padded import device_of

        device, size = device_of(self.hardware.device), vectors.shape[1]
        tensors, layers = read_tensors((path,), digest, cache), []
        for number, inputs in enumerate((size, 2 * size)):
            lstm = nn.LSTM(inputs, size, bidirectional=True, batch_first=True)
            state = {}
            for key, parameter in lstm.state_dict().items():
                published = key.replace("_l0", f"_l{number}")
                shape = tuple(tensors[published].shape) if published in tensors else "none"
                if shape != tuple(parameter.shape):
                    raise DataError(
                        f"{self.name}: wanted {published} of shape {tuple(parameter.shape)} in "
                        f"{path}, found {shape}; wanted the weights of CoVe and the vectors under "
                        "them"
                    )
                state[key] = tensors[published].float()
            lstm.load_state_dict(state)
            layers.append(lstm.eval().to(device))
        return TranslationEncoder(vectors, tuple(layers), device)


@dataclass(frozen=True, eq=False)
class TranslationEncoder:
    """Rows of word vectors to the means of all layers; row UNKNOWN is a zero vector."""

    vectors: Float32[np.ndarray, "V E"]
    layers: tuple[Any, ...]  # torch.nn.LSTM
    device: Any

    def __call__(self, batch: Sequence[Sequence[int]]) -> Float32[np.ndarray, "B L D"]:
        import torch
        from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

        lengths = torch.tensor([len(rows) for rows in batch])
        padded = np.full((len(batch), int(lengths.max())), UNKNOWN)
        for row, rows in enumerate(batch):
            padded[row, : len(rows)] = rows
        words = self.vectors[padded] * (padded != UNKNOWN)[..., None]
        with torch.inference_mode():
            x = torch.from_numpy(words).to(self.device)
            states = [torch.cat([x, x], dim=-1)]
            packed = pack_padded_sequence(x, lengths, batch_first=True)
            for layer in self.layers:
                packed, _ = layer(packed)
                states.append(pad_packed_sequence(packed, batch_first=True)[0])
            # States behind the end of a text are zero.
            counts = lengths.to(self.device)[:, None]
            return torch.stack([s.sum(dim=1) / counts for s in states], dim=1).cpu().numpy()
