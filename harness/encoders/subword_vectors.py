"""Static vectors of a tokenizer's sub-words, averaged over the pieces of a text.

Model2Vec (Tulkens & van Dongen 2024, github.com/MinishLab/model2vec): a folder holds
`tokenizer.json`, a table of vectors in `model.safetensors` and `config.json`, which says whether
averages are scaled to length 1. Frequency weights are part of the vectors. In a table with shared
rows, `mapping` has the row of each sub-word and `weights` its factor. As in the package, special
tokens are not added, unknown sub-words are left out, and long texts are cut by letters before they
are cut by pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from harness.core.arrays import Float32
from harness.core.errors import DataError
from harness.core.files import digest_of, one_reading, read_bytes
from harness.core.interfaces import Hub, Identity, LocalFiles, Source
from harness.encoders.checkpoint import digests_of, read_settings, weights_files
from harness.encoders.config import BaseConfig
from harness.encoders.word_vectors import AverageEncoder

# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = "1: mean over known sub-words in float64; no known sub-word is the zero vector"

MODEL_TYPE = "model2vec"  # in config.json


@dataclass(frozen=True)
class SubwordConfig(BaseConfig):
    """An average of sub-word vectors: its name and the Model2Vec folder that it reads.

    Args:
        name: Its id in the grammar of methods.
        repo: Its repository on the hub; empty where it has none.
        revision: The pinned commit; None is unpinned.
        max_length: Sub-words that texts are cut to.
        weights_sha256: The digest that `model.safetensors` must have, if given.
        about: Roughly the bytes that are fetched.

    Raises:
        UsageError: The maximum length is below 1.

    Examples:
        >>> from harness.encoders.subword_vectors import SubwordConfig
        >>> str(SubwordConfig("potion", "minishlab/potion-base-2M").source)
        'minishlab/potion-base-2M, unpinned'
    """

    repo: str = ""
    revision: str | None = None
    max_length: int = 512
    weights_sha256: str | None = None
    about: int | None = field(default=None, repr=False)

    @property
    def source(self) -> Source:
        """The hub repository that its files come from."""
        if self.repo:
            return Hub(self.repo, self.revision, self.weights_sha256, about=self.about)
        return LocalFiles(self.weights_sha256)

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder."""
        config = path / "config.json"
        kind = read_settings(config).get("model_type")
        if kind != MODEL_TYPE:
            raise DataError(
                f"{config}: wanted model_type {MODEL_TYPE}, found {kind}; name a folder that "
                "Model2Vec wrote"
            )
        digests = digests_of(self.name, path, self.weights_sha256)
        facts = {"version": ENCODING_VERSION, "max_length": self.max_length}
        return Identity(digest_of({**facts, **digests}), digests, self.max_length)

    @one_reading()
    def load(self, path: Path, cache: Path) -> SubwordEncoder:  # noqa: ARG002
        """The encoder, ready. Raises DataError for files that are no Model2Vec folder's."""
        identity, tokenizer = self.identify(path), _tokenizer(path)
        unknown = read_settings(path / "tokenizer.json").get("model", {}).get("unk_token")
        vocabulary: Mapping[str, int] = tokenizer.get_vocab()
        return SubwordEncoder(
            key=identity.key,
            tokenizer=tokenizer,
            unknown=None if unknown is None else vocabulary.get(unknown),
            letters=self.max_length * int(np.median([len(piece) for piece in vocabulary])),
            max_length=self.max_length,
            vectors=_read_table(weights_files(path)[0], len(vocabulary)),
            unit=bool(read_settings(path / "config.json").get("normalize", False)),
        )


@dataclass(frozen=True, eq=False)
class SubwordEncoder(AverageEncoder):
    """A loaded table of sub-word vectors.

    Texts are cut to `letters`, then to `max_length` pieces other than `unknown`; None cuts nothing.
    """

    tokenizer: Any = field(repr=False)  # tokenizers.Tokenizer
    unknown: int | None = None
    letters: int | None = None
    max_length: int | None = None

    def look_up(self, texts: Sequence[str]) -> Iterator[tuple[list[int], int]]:
        cut = [text[: self.letters] for text in texts]
        for pieces in self.tokenizer.encode_batch(cut, add_special_tokens=False):
            rows = [row for row in pieces.ids if row != self.unknown]
            unknown = len(pieces.ids) - len(rows)
            rows = rows[: self.max_length]
            yield rows, len(rows) + unknown


def open_table(key: str, folder: Path) -> SubwordEncoder:
    """The table of sentence-transformers' StaticEmbedding: all sub-words of whole texts count."""
    tokenizer = _tokenizer(folder)
    tokenizer.no_padding()
    vectors = _read_table(weights_files(folder)[0], tokenizer.get_vocab_size())
    return SubwordEncoder(key, vectors, tokenizer)


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    if not (folder / "tokenizer.json").is_file():
        raise DataError(f"{folder}: wanted a tokenizer.json in it; fetch the whole folder")
    return Tokenizer.from_buffer(read_bytes(folder / "tokenizer.json"))


def _read_table(path: Path, count: int) -> Float32[np.ndarray, "V D"]:
    """The vector of each of so many sub-words, its mapping and weight applied."""
    try:
        tensors = load(read_bytes(path))
    except SafetensorError as error:
        raise DataError(f"{path}: wanted safetensors, found {error}; fetch it again") from error
    table = tensors.get("embeddings", tensors.get("embedding.weight"))
    if table is None or table.ndim != 2:
        raise DataError(f"{path}: wanted a table `embeddings`, found {', '.join(sorted(tensors))}")
    rows = tensors.get("mapping", np.arange(len(table)))
    factors = tensors.get("weights", np.ones(len(rows), np.float32))
    outside = not len(rows) or rows.min() < 0 or rows.max() >= len(table)
    if len(rows) != count or len(factors) != count or outside:
        raise DataError(
            f"{path}: wanted a vector for each of the {count} sub-words of the tokenizer, found "
            f"{len(table)} vectors for {len(rows)}"
        )
    vectors = table[rows].astype(np.float32) * factors[:, None].astype(np.float32)
    if not np.isfinite(vectors).all():
        raise DataError(f"{path}: wanted finite numbers, found others; fetch it again")
    return np.asarray(vectors, np.float32)
