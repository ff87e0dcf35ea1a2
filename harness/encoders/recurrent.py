"""Encoders that read the words of a text in context: ELMo and CoVe.

ELMo (Peters et al. 2018, arXiv 1802.05365) is a language model over the characters of
words, read forwards and backwards. The files are AllenNLP's, as published: a folder with
one `*options.json` and one `*weights.hdf5`. The arrays of the weights have the sizes of
the model, and the options what else it takes. `bilm.py` is the forward pass.

CoVe (McCann et al. 2017, arXiv 1708.00107) is the encoder of a translation model over
GloVe vectors. The weights are those of the authors, the state of a two-layer
bidirectional LSTM; GloVe's vectors are in a file of their own. A word is [GloVe(w);
CoVe(w)], as in the paper's classifiers, so that it begins with GloVe alone. A word that
GloVe lacks is a vector of zeros, which the network reads, as the authors advise, and
which counts in the mean.

The rule on states: a network starts from zeros for each text, in both directions. So what
a text gets depends on no text before it, nor on its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import digest_of, identity_text, sha256_of
from harness.core.errors import AssetMissing, DataError
from harness.core.interfaces import Encoding, Identity, Source, VectorFile
from harness.encoders.checkpoint import library_errors, read_settings, require_weights
from harness.encoders.config import BaseConfig, FunctionEncoder
from harness.encoders.kernels.choose import batches
from harness.encoders.weights import unpickled
from harness.encoders.word_tokenizer import PENN_TOKENISER, Tokeniser
from harness.encoders.word_vectors import StaticConfig, require_file

# Words of a batch; the gates of 1,024 words of the largest ELMo take 67 MB.
BATCH_WORDS = 1024

# From the words of texts, all of one length, to the mean of each layer over the words of
# each text.
Network = Callable[[Sequence[Sequence[str]]], Float32[np.ndarray, "N L D"]]


def means_by(
    network: Network, tokeniser: Tokeniser
) -> Callable[[Sequence[str]], Encoding]:
    """The function that gives the encodings of texts by a network; zeros for one without words.

    Args:
        network: The network, which is tried on two words.
        tokeniser: The rule that splits a text into words.
    """
    [probe] = network([["one", "sentence"]])
    layers = tuple(range(len(probe)))

    def encode(texts: Sequence[str]) -> Encoding:
        words = [tokeniser.words(text) for text in texts]
        mean = np.zeros((len(texts), *probe.shape), np.float32)
        filled_rows = [row for row in range(len(texts)) if words[row]]
        lengths = [len(words[row]) for row in filled_rows]
        for batch in batches(lengths, BATCH_WORDS, equal=True):
            rows = [filled_rows[number] for number in batch]
            mean[rows] = network([words[row] for row in rows])
        return Encoding(layers=layers, depth=layers[-1], mean=mean)

    return encode


# ELMo

# Part of the key of every encoding: change it with any change that moves a vector.
ELMO_VERSION = "1: float32; each text from zeros; means over words, no boundaries"
OPTIONS_FILE = "*options.json"
WEIGHTS_FILE = "*weights.hdf5"


@dataclass(frozen=True)
class ElmoConfig(BaseConfig):
    """An ELMo model in a folder of AllenNLP's two files.

    Args:
        name: Its id in the grammar of methods.
        file: The folder in the data folder; None where a path is given by hand.
        tokeniser: The rule that splits a text into words.
        weights_sha256: The digest that the weights must have, if given.

    Examples:
        >>> from harness.encoders.recurrent import ElmoConfig
        >>> str(ElmoConfig("elmo-small", "elmo/small").source)
        'elmo/small'
    """

    file: str | None = None
    tokeniser: Tokeniser = PENN_TOKENISER
    weights_sha256: str | None = None

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder."""
        digests = {
            "weights": sha256_of(self._file(path, WEIGHTS_FILE)),
            "config": sha256_of(self._file(path, OPTIONS_FILE)),
        }
        require_weights(self.name, path, self.weights_sha256, digests["weights"])
        key = digest_of(
            {
                "version": ELMO_VERSION,
                "tokeniser": identity_text(self.tokeniser),
                **digests,
            }
        )
        return Identity(key, digests)

    def load(self, path: Path, cache: Path) -> FunctionEncoder:  # noqa: ARG002
        """The encoder, ready: the mean of each layer over the words of a text.

        It has no summary token and no pooler. Raises DataError for files of another model.
        """
        import h5py

        from harness.encoders.bilm import LanguageModel

        key = self.identify(path).key
        with library_errors(
            f"{self.name}: wanted the options and weights of an ELMo model in {path}",
            "fetch both files again",
        ):
            options = read_settings(self._file(path, OPTIONS_FILE))
            if options["lstm"]["use_skip_connections"] is not True:
                raise ValueError("use_skip_connections is not true")
            arrays: dict[str, Any] = {}

            def keep(name: str, item: Any) -> None:
                if isinstance(item, h5py.Dataset):  # and no group of them
                    arrays[name] = np.asarray(item, np.float32)

            with h5py.File(self._file(path, WEIGHTS_FILE), "r") as file:
                file.visititems(keep)
            network = LanguageModel(arrays, options["char_cnn"], options["lstm"])
            return FunctionEncoder(key, means_by(network, self.tokeniser))

    def _file(self, folder: Path, pattern: str) -> Path:
        """The only file of a folder with such a name."""
        files = sorted(folder.glob(pattern))
        if len(files) != 1:
            error = DataError if files else AssetMissing
            raise error(
                f"{self.name}: wanted one file {pattern} in {folder}, found {len(files)}; "
                "put both files of one model into a folder of their own"
            )
        return files[0]


def is_elmo_folder(folder: Path) -> bool:
    """Whether a folder has both files of AllenNLP's ELMo models."""
    return any(folder.glob(OPTIONS_FILE)) and any(folder.glob(WEIGHTS_FILE))


# CoVe

# Part of the key of every encoding: change it with any change that moves a vector.
COVE_VERSION = "1: float32; [GloVe; CoVe]; unknown words are zeros; means over all"
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
            {"version": COVE_VERSION, "static": static.key, "weights": weights}
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
        with library_errors(
            f"{path}: wanted a bidirectional LSTM of {LSTM_LAYERS} layers over vectors of {size} "
            "numbers",
            "take CoVe's weights and GloVe's vectors",
        ):
            hidden = state["weight_hh_l0"].shape[1]
            lstm = nn.LSTM(
                size, hidden, LSTM_LAYERS, bidirectional=True, batch_first=True
            )
            lstm.load_state_dict(state)
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

        encode = means_by(means, self.tokeniser)

        def encode_and_count(texts: Sequence[str]) -> Encoding:
            return replace(encode(texts), tokens=static.encode(texts).tokens)

        return FunctionEncoder(self.identify(path).key, encode_and_count)
