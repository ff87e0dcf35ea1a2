"""Static vectors of a tokenizer's sub-words, averaged over the pieces of a text.

Model2Vec (Tulkens & van Dongen 2024, github.com/MinishLab/model2vec): a folder holds
`tokenizer.json`, a table of vectors in `model.safetensors` and `config.json`. The package
reads it and averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from harness.core.digests import NOT_IN_IDENTITY, digest_of
from harness.core.interfaces import Encoding, Identity
from harness.encoders.checkpoint import (
    CONFIG_FILE,
    SAFETENSORS,
    folder_digests,
    library_errors,
    read_settings,
    require_no_sampling,
)
from harness.encoders.config import BaseConfig, FunctionEncoder

# Part of the key of every encoding: change it with any change that moves a vector.
ENCODING_VERSION = "3: StaticModel.encode of model2vec 0.10"

MODEL_TYPE = "model2vec"  # in config.json, if the package's distillation wrote it
TABLE_TENSOR = "embeddings"  # the table in model.safetensors
MAX_LENGTH = 512  # sub-words, where config.json states none


def is_subword_folder(folder: Path) -> bool:
    """Whether a folder is Model2Vec's: by its config.json, or by the name of its table."""
    config = folder / CONFIG_FILE
    if not config.is_file():
        return False
    if read_settings(config).get("model_type") == MODEL_TYPE:
        return True
    try:
        with safe_open(folder / SAFETENSORS, "numpy") as tensors:
            return TABLE_TENSOR in tensors.keys()  # noqa: SIM118 - it is no mapping
    except (OSError, SafetensorError):
        return False


@dataclass(frozen=True)
class SubwordConfig(BaseConfig):
    """An average of sub-word vectors: its name and the Model2Vec folder that it reads.

    Args:
        name: Its id in the grammar of methods.
        repo: Its repository on the hub; empty where it has none.
        revision: The pinned commit; None is unpinned.
        max_length: Sub-words that texts are cut to; None is the folder's own
            (`config.json`).
        weights_sha256: The digest that `model.safetensors` must have, if given.
        download_size: Roughly the bytes that are downloaded.

    Raises:
        UsageError: The maximum length is below 1.

    Examples:
        >>> from harness.encoders.subword_vectors import SubwordConfig
        >>> str(SubwordConfig("potion", "minishlab/potion-base-2M").source)
        'minishlab/potion-base-2M, unpinned'
    """

    repo: str = ""
    revision: str | None = None
    max_length: int | None = None
    weights_sha256: str | None = None
    download_size: int | None = field(
        default=None, repr=False, metadata=NOT_IN_IDENTITY
    )

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder."""
        files, parts = folder_digests(self.name, path, path, self.weights_sha256)
        length = self._length(path)
        facts = {"version": ENCODING_VERSION, "max_length": length, "files": files}
        return Identity(key=digest_of(facts), digests=parts, max_length=length)

    def load(self, path: Path, cache: Path) -> FunctionEncoder:  # noqa: ARG002
        """The encoder, ready. Raises DataError for files that Model2Vec does not read.

        It keeps one layer: the mean over the vectors of each text's known pieces, or the
        zero vector of a text without any.
        """
        from model2vec import StaticModel

        def encode(texts: Sequence[str]) -> Encoding:
            with library_errors(
                f"{self.name}: wanted a tokenizer that splits every text",
                "name an unknown piece in its tokenizer.json",
            ):
                vectors = model.encode(list(texts), use_multiprocessing=False)
                pieces = model.tokenizer.encode_batch_fast(
                    list(texts), add_special_tokens=False
                )
            tokens = np.zeros((len(texts), 2), np.float32)
            for row, encoded in enumerate(pieces):
                known_pieces = [
                    piece for piece in encoded.ids if piece != model.unk_token_id
                ]
                tokens[row] = len(encoded.ids), len(known_pieces)
            mean = np.asarray(vectors, np.float32)[:, None]
            return Encoding(layers=(0,), depth=0, mean=mean, tokens=tokens)

        key = self.identify(path).key
        with library_errors(
            f"{self.name}: wanted a table that Model2Vec opens at {path}",
            "fetch the whole folder, or save it again with save_pretrained",
        ):
            model = StaticModel.from_pretrained(path, force_download=False)
            require_no_sampling(path / "tokenizer.json", model.tokenizer)
            model.max_length = self._length(path)
            model.encode(["one sentence"])
        return FunctionEncoder(key, encode)

    def _length(self, folder: Path) -> int | None:
        """The sub-words that texts are cut to; None cuts nothing."""
        if self.max_length is not None:
            return self.max_length
        settings = read_settings(folder / CONFIG_FILE)
        length: int | None = settings.get("max_length", MAX_LENGTH)
        return length
