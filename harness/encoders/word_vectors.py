"""Averages of word vectors: GloVe, fastText, word2vec, and any other table of words.

A `StaticConfig` names a file of vectors (`vector_files.py`) and the rule that splits a
text into words (`word_tokenizer.py`). `counted_vectors.py` has encoders whose vectors are
mapped before they are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import NOT_IN_IDENTITY, digest_of, identity_text, sha256_of
from harness.core.errors import AssetMissing, UsageError
from harness.core.files import require_no_pointer
from harness.core.interfaces import (
    Encoding,
    Hub,
    Identity,
    LocalFiles,
    Packaged,
    Source,
    VectorFile,
)
from harness.encoders.checkpoint import require_weights
from harness.encoders.config import BaseConfig
from harness.encoders.vector_files import ARRAY_SUFFIXES, read_vectors, write_vectors
from harness.encoders.weights import converted_once
from harness.encoders.word_tokenizer import PLAIN_TOKENISER, Tokeniser

# Part of the key of every encoding: change it with any change that moves a vector.
ENCODING_VERSION = (
    "1: mean over known words in float64; no known word is the zero vector"
)
# Settings of tokenisers and maps that are in keys even at their default, since keys are
# older than the rule that leaves defaults out.
SETTINGS_IN_KEYS = ("strip", "stop_words", "a", "by_count", "k", "centred")


@dataclass(frozen=True)
class StaticConfig(BaseConfig):
    """An average of word vectors: its name, the vector file, and the rule that splits text.

    Args:
        name: Its id in the grammar of methods.
        tokeniser: The rule that splits a text and looks up its words.
        file: The file's name in the data folder, package or repository; None where a
            path that is given by hand is the file itself.
        repo: Its repository on the hub, if it has one.
        revision: The pinned commit; None is unpinned.
        weights_sha256: The digest that the file must have, if given.
        package: A folder in an installed package that carries the file; its code is
            never imported.
        trained_on: The texts that the vectors were trained on.
        cite: The BibTeX key of their paper.
        licence: Their licence.

    Examples:
        >>> from harness import StaticConfig
        >>> str(StaticConfig("glove", file="vectors/glove.6B.300d.txt").source)
        'vectors/glove.6B.300d.txt'
    """

    tokeniser: Tokeniser = PLAIN_TOKENISER
    file: str | None = None
    repo: str | None = None
    revision: str | None = None
    weights_sha256: str | None = None
    package: str | None = field(default=None, repr=False, metadata=NOT_IN_IDENTITY)

    @property
    def source(self) -> Source:
        """The package, hub repository or data folder that the file comes from."""
        if self.repo:
            return Hub(
                repo=self.repo,
                revision=self.revision,
                sha256=self.weights_sha256,
                package=self.package,
            )
        if self.package:
            return Packaged(self.package, self.file, self.weights_sha256)
        if self.file:
            return VectorFile(self.file, self.weights_sha256)
        return LocalFiles(self.weights_sha256)

    def identify(self, path: Path) -> Identity:
        """The key and digests; `path` is the vector file, or the folder that holds it."""
        file = self.vector_file(path)
        weights_digest = sha256_of(file)
        require_weights(self.name, file, self.weights_sha256, weights_digest)
        key = digest_of(
            {
                "version": ENCODING_VERSION,
                "tokeniser": identity_text(self.tokeniser, SETTINGS_IN_KEYS),
                "weights": weights_digest,
            }
        )
        return Identity(key, digests={"weights": weights_digest})

    def load(self, path: Path, cache: Path) -> StaticEncoder:
        """The encoder, ready. A text file is parsed once; `cache` keeps it as safetensors."""
        key = self.identify(path).key
        file = self.vector_file(path)
        arrays = file
        if file.suffix not in ARRAY_SUFFIXES:
            arrays = converted_once(
                cache, file, lambda new: write_vectors(new, *read_vectors(file))
            )
        words, vectors = read_vectors(arrays)
        return StaticEncoder(
            key=key,
            vectors=vectors,
            tokeniser=self.tokeniser,
            row_by_word=first_rows(words),
        )

    def vector_file(self, path: Path) -> Path:
        """The vector file: `path` itself where it is a file, else the named file in that folder."""
        file = path
        if self.file is not None and not path.is_file():
            file = path / self.file
        if file.is_dir():
            raise UsageError(
                f"{self.name}: {file} is a folder; name the vector file in it"
            )
        return require_file(file, self.name, "vectors")


def require_file(path: Path, name: str, content: str) -> Path:
    """The path of an encoder's file.

    `name` is the encoder's and `content` what the file holds, for the message. Raises
    AssetMissing where there is no such file, DataError for a git-lfs pointer to it.
    """
    if not path.is_file():
        raise AssetMissing(
            f"{name}: no {content} at {path}; fetch them, or put them there"
        )
    require_no_pointer(path)
    return path


def first_rows(words: Sequence[str]) -> dict[str, int]:
    """The row of each word; the first of a repeated word, as files are sorted by frequency."""
    row_by_word: dict[str, int] = {}
    for row, word in enumerate(words):
        row_by_word.setdefault(word, row)
    return row_by_word


@dataclass(frozen=True, eq=False)
class StaticEncoder:
    """Loaded vectors of words. It keeps one layer, and has no summary token or pooler.

    Attributes:
        key: The digest of everything that changes its vectors.
        vectors: The table of V vectors.
        tokeniser: The rule that splits a text and looks up its words.
        row_by_word: The row of each word.
    """

    key: str
    vectors: Float32[np.ndarray, "V D"] = field(repr=False)
    tokeniser: Tokeniser
    row_by_word: Mapping[str, int] = field(repr=False)

    facts: ClassVar[Mapping[str, object]] = {}

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The mean over the vectors of each text, taken in float64.

        A text whose words have no vector is the zero vector, as in SentEval: it is a
        fact about the table, and its cosine counts as 0.
        """
        mean = np.zeros((len(texts), 1, self.vectors.shape[1]), np.float32)
        tokens = np.zeros((len(texts), 2), np.float32)
        for number, text in enumerate(texts):
            rows, word_count = self.tokeniser.token_rows(text, self.row_by_word)
            tokens[number] = word_count, len(rows)
            if rows:
                mean[number, 0] = self.vectors[rows].mean(axis=0, dtype=np.float64)
        return Encoding(layers=(0,), depth=0, mean=mean, tokens=tokens)
