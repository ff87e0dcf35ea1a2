"""CoVe: the encoder of a translation model over GloVe vectors.

McCann et al. 2017, arXiv 1708.00107. The weights are those of the authors, the state of
a two-layer bidirectional LSTM; GloVe's vectors are in a file of their own. A word is
[GloVe(w); CoVe(w)], as in the paper's classifiers, so that it begins with GloVe alone. A
word that GloVe lacks is a vector of zeros, which the network reads, as the authors
advise, and which counts in the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import digest_of, sha256_of
from harness.core.errors import DataError
from harness.core.interfaces import Encoding, Identity, Source, VectorFile
from harness.encoders.checkpoint import require_weights
from harness.encoders.config import BaseConfig, FunctionEncoder
from harness.encoders.recurrent import encoding_by
from harness.encoders.weights import unpickled
from harness.encoders.word_tokenizer import Tokeniser
from harness.encoders.word_vectors import StaticConfig, require_file

# Part of the key of every encoding: change it with any change that moves a vector.
ENCODING_VERSION = "1: float32; [GloVe; CoVe]; unknown words are zeros; means over all"
LSTM_LAYERS = 2


@dataclass(frozen=True)
class CoveConfig(BaseConfig):
    """A translation encoder over word vectors, in two files of one folder.

    Args:
        name: Its id in the grammar of methods.
        file: The weights, in the data folder.
        vectors: The word vectors, in the folder of the weights.
        tokeniser: The rule that splits a text and looks up its words.
        weights_sha256: How the digest of the weights begins, if it is known. PyTorch
            writes the first digits into the names of its files.
    """

    file: str = field(kw_only=True)
    vectors: str = field(kw_only=True)
    tokeniser: Tokeniser = field(kw_only=True)
    weights_sha256: str = field(kw_only=True, default="")

    @property
    def source(self) -> Source:
        """The weights and the vectors in the data folder."""
        return VectorFile(file=self.file, companion=self.vectors)

    def static(self, path: Path) -> tuple[StaticConfig, Path]:
        """The word vectors by themselves, and the place of their file."""
        config = StaticConfig(self.name, self.tokeniser)
        vectors = path.parent / Path(self.vectors).name
        return config, require_file(vectors, self.name, "word vectors")

    def identify(self, path: Path) -> Identity:
        """The key and digests of the two files; `path` is that of the weights."""
        weights = sha256_of(require_file(path, self.name, "weights"))
        if not weights.startswith(self.weights_sha256):
            require_weights(self.name, path, self.weights_sha256, weights)
        config, vectors = self.static(path)
        static = config.identify(vectors)
        key = digest_of(
            {"version": ENCODING_VERSION, "static": static.key, "weights": weights}
        )
        digests = {"weights": weights, "vectors": static.digests["weights"]}
        return Identity(key, digests)

    def load(self, path: Path, cache: Path) -> FunctionEncoder:
        """The encoder, ready; it has one layer, and counts the words that have vectors.

        Raises DataError for weights of another network.
        """
        import torch
        from torch import nn

        config, vectors = self.static(path)
        static = config.load(vectors, cache)
        size = static.vectors.shape[1]
        state = {}
        for name, tensor in unpickled(path).items():
            # Of the authors' module the LSTM is `rnn`, and their file is of the LSTM alone.
            state[name.removeprefix("rnn.")] = tensor.float()
        try:
            hidden = state["weight_hh_l0"].shape[1]
            lstm = nn.LSTM(
                size, hidden, LSTM_LAYERS, bidirectional=True, batch_first=True
            )
            lstm.load_state_dict(state)
        except (LookupError, RuntimeError) as error:
            raise DataError(
                f"{path}: wanted a bidirectional LSTM of {LSTM_LAYERS} layers over vectors of "
                f"{size} numbers, found other tensors; take CoVe's weights and GloVe's vectors"
            ) from error
        # A word that GloVe lacks has the last row, which is zeros.
        table = torch.from_numpy(
            np.vstack([static.vectors, np.zeros_like(static.vectors[:1])])
        )

        @torch.inference_mode()
        def means(texts: Sequence[Sequence[str]]) -> Float32[np.ndarray, "N 1 D"]:
            rows = []
            for words in texts:
                rows_of_words = [
                    self.tokeniser.row(word, static.row_by_word) for word in words
                ]
                rows.append([-1 if row is None else row for row in rows_of_words])
            glove = table[torch.tensor(rows)]
            cove, _ = lstm(glove)
            return torch.cat([glove, cove], dim=2).mean(dim=1, keepdim=True).numpy()

        def encode(texts: Sequence[str]) -> Encoding:
            words = [self.tokeniser.words(text) for text in texts]
            encoding = encoding_by(means, words, layers=1, dimensions=size + 2 * hidden)
            return replace(encoding, tokens=static.encode(texts).tokens)

        return FunctionEncoder(self.identify(path).key, encode)
