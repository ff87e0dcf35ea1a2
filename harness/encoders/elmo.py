"""ELMo: a language model over the characters of words, read forwards and backwards.

Peters et al. 2018, arXiv 1802.05365. The files are AllenNLP's, as published: a folder
with one `*options.json` and one `*weights.hdf5`. The arrays of the weights have the
sizes of the model, and the options what else it takes. `bilm.py` is the forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.digests import digest_of, identity_text, sha256_of
from harness.core.errors import AssetMissing, DataError
from harness.core.interfaces import Encoding, Identity, LocalFiles, Source, VectorFile
from harness.encoders.checkpoint import read_settings, require_weights
from harness.encoders.config import BaseConfig, FunctionEncoder
from harness.encoders.library import library_errors
from harness.encoders.recurrent import encoding_by
from harness.encoders.word_tokenizer import PENN_TOKENISER, Tokeniser

# Part of the key of every encoding: change it with any change that moves a vector.
ENCODING_VERSION = "1: float32; each text from zeros; means over words, no boundaries"
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
        >>> from harness.encoders.elmo import ElmoConfig
        >>> str(ElmoConfig("elmo-small", "elmo/small").source)
        'elmo/small'
    """

    file: str | None = None
    tokeniser: Tokeniser = PENN_TOKENISER
    weights_sha256: str | None = None

    @property
    def source(self) -> Source:
        """The folder in the data folder, or files of the user."""
        if self.file:
            return VectorFile(self.file, self.weights_sha256)
        return LocalFiles(self.weights_sha256)

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder."""
        digests = {
            "weights": sha256_of(self._file(path, WEIGHTS_FILE)),
            "config": sha256_of(self._file(path, OPTIONS_FILE)),
        }
        require_weights(self.name, path, self.weights_sha256, digests["weights"])
        key = digest_of(
            {
                "version": ENCODING_VERSION,
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
            [probe] = network([["one", "sentence"]])
        layers, dimensions = probe.shape

        def encode(texts: Sequence[str]) -> Encoding:
            words = [self.tokeniser.words(text) for text in texts]
            return encoding_by(network, words, layers=layers, dimensions=dimensions)

        return FunctionEncoder(key, encode)

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
