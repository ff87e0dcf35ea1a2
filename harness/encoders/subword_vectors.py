"""Static vectors of a tokenizer's sub-words, averaged over the pieces of a text.

Model2Vec (Tulkens & van Dongen 2024, github.com/MinishLab/model2vec): a folder holds
`tokenizer.json`, a table of vectors in `model.safetensors` and `config.json`, which says whether
averages are scaled to length 1. Frequency weights are part of the vectors. In a table with shared
rows, `mapping` has the row of each sub-word and `weights` its factor. As in the package, special
tokens are not added, unknown sub-words are left out, and long texts are cut by letters before they
are cut by pieces.

`bert-base.input`: the input embedding matrix of a transformer as a table of word vectors. Row i is
the vector of token i before position, segment and layer norm are added. A word that the tokenizer
splits into pieces has no row, as a word that a file of word vectors lacks. So Li et al. (2020,
arXiv 2011.05864, Table 1) look at BERT's word embeddings; what they do with words that BERT splits,
they do not say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from harness.core.arrays import Float32
from harness.core.errors import DataError, UsageError
from harness.core.files import digest_of
from harness.core.hardware import Hardware, require_float32
from harness.core.interfaces import Encoding, Hub, Identity, LocalFiles, Source
from harness.encoders.checkpoint import digests_of, read_settings, weights_files
from harness.encoders.config import BaseConfig, DerivedConfig
from harness.encoders.transformer import TransformerConfig
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
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _read_table(path: Path, count: int) -> Float32[np.ndarray, "V D"]:
    """The vector of each of so many sub-words, its mapping and weight applied."""
    try:
        tensors = load_file(path)
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


# Part of every key: raise it with any change that moves a vector.
INPUT_VERSION = "1: mean over the rows of whole words in float64; no whole word is the zero vector"


@dataclass(frozen=True)
class InputConfig(DerivedConfig):
    """An average of the rows of a transformer's input embedding matrix.

    Args:
        of: The transformer.

    Examples:
        >>> from harness import load_registry
        >>> load_registry().parse("bert-mini.input").encoder.of.name
        'bert-mini'
    """

    def on(self, hardware: Hardware) -> InputConfig:
        """This encoder, on the processor and in float32 whatever the device."""
        require_float32(f"{self.name}.input", hardware)
        return self

    def identify(self, path: Path) -> Identity:
        """The digests of the transformer's files, and a key of its own."""
        if not isinstance(self.of, TransformerConfig):
            raise UsageError(
                f"{self.name}.input: wanted a transformer, found a {type(self.of).__name__}, whose "
                "input embeddings are not read; take mean"
            )
        name, _, length = self.name.partition(":")
        if length:
            raise UsageError(f"{self.name}.input: whole texts are averaged; take {name}.input")
        require_float32(f"{self.name}.input", self.of.hardware)
        base = self.of.identify(path)
        key = digest_of({"version": INPUT_VERSION, "encoder": base.key})
        return replace(base, key=key, max_length=None)

    def load(self, path: Path, cache: Path) -> InputEncoder:
        """The encoder, ready. Raises UsageError for a tokenizer that does not tell words apart."""
        key, of = self.identify(path).key, cast(TransformerConfig, self.of)
        whole: Any = replace(of.on(Hardware()), plain_pass=True).load(path, cache)
        tokenizer, matrix = whole.tokenizer.tokenizer, whole.plain.model.get_input_embeddings()
        if not tokenizer.is_fast:
            raise UsageError(
                f"{self.name}.input: wanted a tokenizer that tells words apart, found a "
                f"{type(tokenizer).__name__}; take mean"
            )
        return InputEncoder(key, matrix.weight.detach().float().numpy(), tokenizer)


@dataclass(frozen=True, eq=False)
class InputEncoder(AverageEncoder):
    """A loaded input embedding matrix, with the tokenizer that numbers its rows."""

    tokenizer: Any = field(repr=False)

    def look_up(self, texts: Sequence[str]) -> Iterator[tuple[list[int], int]]:
        """The rows of the words that are one token and known, and how many words there are."""
        if not texts:
            return
        unknown = self.tokenizer.unk_token_id
        tokens = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        for number, ids in enumerate(tokens["input_ids"]):
            words: dict[int, list[int]] = {}
            for word, token in zip(tokens.word_ids(number), ids, strict=True):
                words.setdefault(word, []).append(token)
            yield [w[0] for w in words.values() if len(w) == 1 and w[0] != unknown], len(words)

    def encode(self, texts: Sequence[str]) -> Encoding:
        """One vector a text, in order."""
        averaged = super().encode(texts)
        vectors = np.ascontiguousarray(averaged.mean[:, 0])
        return replace(averaged, layers=(), mean=averaged.mean[:, :0], native=vectors)
