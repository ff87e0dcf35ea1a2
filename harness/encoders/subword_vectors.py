"""Static vectors of a tokenizer's sub-words, averaged over the pieces of a text.

Model2Vec (Tulkens & van Dongen 2024, github.com/MinishLab/model2vec): a folder holds
`tokenizer.json`, a table of vectors in `model.safetensors` and `config.json`. Its
vectors are those of the package's `StaticModel`, version 0.10: the tokenizer adds no
special token and no padding; the file's own truncation gives way to `max_length` of
`config.json` (512 where it states none, no cut where it is null), which cuts a text by
letters before the tokenizer cuts it by pieces; unknown pieces are left out after the
cut; the mean is taken in the table's own precision. In a table with shared rows,
`mapping` has the row of each sub-word and `weights` its factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load

from harness.core.arrays import Num
from harness.core.digests import digest_of, one_reading, read_bytes
from harness.core.errors import DataError
from harness.core.identity import NOT_IN_IDENTITY
from harness.core.interfaces import Encoding, Hub, Identity, LocalFiles, Source
from harness.core.json_text import parse_json
from harness.encoders.checkpoint import (
    SAFETENSORS,
    digests_of,
    read_settings,
    read_tensors,
    require_no_sampling,
)
from harness.encoders.config import BaseConfig
from harness.encoders.word_vectors import AverageEncoder

# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = (
    "2: as StaticModel.encode of model2vec 0.10, in the table's own precision"
)

MODEL_TYPE = "model2vec"  # in config.json, where the package's distillation made it
TABLE_TENSOR = "embeddings"  # in model.safetensors
MAX_LENGTH = 512  # where config.json states none


def is_subword_folder(folder: Path) -> bool:
    """Whether a folder is Model2Vec's: by its config.json, or by the name of its table."""
    config = folder / "config.json"
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

    @property
    def source(self) -> Source:
        """The hub repository that its files come from."""
        if self.repo:
            return Hub(
                self.repo,
                self.revision,
                self.weights_sha256,
                download_size=self.download_size,
            )
        return LocalFiles(self.weights_sha256)

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder."""
        if not is_subword_folder(path):
            config = path / "config.json"
            kind = read_settings(config).get("model_type")
            raise DataError(
                f"{config}: wanted model_type {MODEL_TYPE}, found {kind}; name a folder that "
                "Model2Vec wrote"
            )
        digests = digests_of(self.name, path, self.weights_sha256)
        length = self._length(path)
        facts = {"version": ENCODING_VERSION, "max_length": length}
        return Identity(digest_of({**facts, **digests}), digests, length)

    @one_reading()
    def load(self, path: Path, cache: Path) -> SubwordEncoder:  # noqa: ARG002
        """The encoder, ready. Raises DataError for files that are no Model2Vec folder's."""
        key, tokenizer, length = (
            self.identify(path).key,
            _tokenizer(path),
            self._length(path),
        )
        if length is None:
            tokenizer.no_truncation()
        else:
            tokenizer.enable_truncation(length)
        ids: Mapping[str, int] = tokenizer.get_vocab()
        median_piece = int(np.median([len(piece) for piece in ids]))
        vectors, dtype = _read_table(path / SAFETENSORS, ids)
        return SubwordEncoder(
            key=key,
            vectors=vectors,
            tokenizer=tokenizer,
            unknown=_unknown_id(tokenizer),
            letters=None if length is None else length * median_piece,
            dtype=dtype,
            unit=bool(read_settings(path / "config.json").get("normalize")),
        )

    def _length(self, folder: Path) -> int | None:
        """The sub-words that texts are cut to; None cuts nothing."""
        config = folder / "config.json"
        stated = read_settings(config).get("max_length", MAX_LENGTH)
        if stated is not None and (not isinstance(stated, int) or stated < 0):
            raise DataError(
                f"{config}: wanted a number of sub-words or null, found max_length = {stated!r}"
            )
        return stated if self.max_length is None else self.max_length


@dataclass(frozen=True, eq=False)
class SubwordEncoder:
    """A loaded table of sub-word vectors, a row for each id of the tokenizer.

    The tokenizer cuts texts to their maximum length. `unknown` is the id that is left
    out, `letters` the number of them that a text is cut to, `dtype` the precision of
    the means, and `unit` says that these are scaled to length 1. One kept layer, no
    summary token, no pooler.
    """

    key: str
    vectors: Num[np.ndarray, "V D"] = field(repr=False)
    tokenizer: Any = field(repr=False)  # tokenizers.Tokenizer
    unknown: int | None
    letters: int | None
    dtype: np.dtype[Any]
    unit: bool

    facts: ClassVar[Mapping[str, object]] = {}

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The mean over the vectors of each text's known pieces; the zero vector without any."""
        mean = np.zeros((len(texts), self.vectors.shape[1]), self.dtype)
        tokens = np.zeros((len(texts), 2), np.float32)
        cut = [text[: self.letters] for text in texts]
        for row, ids in enumerate(_pieces(self.tokenizer, cut)):
            known = [piece for piece in ids if piece != self.unknown]
            tokens[row] = len(ids), len(known)
            if known:
                mean[row] = self.vectors[known].mean(axis=0)
        if self.unit:
            single = mean.astype(np.float32)
            lengths = np.linalg.norm(single, axis=1, keepdims=True) + 1e-32
            mean = (single / lengths).astype(self.dtype)
        layer = mean.astype(np.float32)[:, None]
        return Encoding(layers=(0,), depth=0, mean=layer, tokens=tokens)


def _pieces(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text. Raises DataError for one that the tokenizer cannot split."""
    try:
        return [
            pieces.ids
            for pieces in tokenizer.encode_batch_fast(
                list(texts), add_special_tokens=False
            )
        ]
    except Exception as error:
        raise DataError(
            f"wanted a tokenizer that splits every text, found one that says: "
            f"{_reason(error)}; name an unknown piece in its tokenizer.json"
        ) from error


def _reason(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _unknown_id(tokenizer: Any) -> int | None:
    """The id of the unknown piece; None for a tokenizer that has none."""
    if hasattr(tokenizer.model, "unk_token"):
        unknown = tokenizer.model.unk_token
        return None if unknown is None else tokenizer.token_to_id(unknown)
    model = parse_json(tokenizer.to_str())[
        "model"
    ]  # a Unigram model's has no attribute
    unknown_id: int | None = model.get("unk_id")
    return unknown_id


def _tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder, without padding."""
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if not file.is_file():
        raise DataError(
            f"{folder}: wanted a tokenizer.json in it; fetch the whole folder"
        )
    try:
        tokenizer = Tokenizer.from_buffer(read_bytes(file))
    except Exception as error:
        raise DataError(
            f"{file}: wanted a tokenizer, found {_reason(error)}; fetch it again"
        ) from error
    require_no_sampling(file, tokenizer)
    tokenizer.no_padding()
    return tokenizer


def _read_table(
    path: Path, ids: Mapping[str, int]
) -> tuple[Num[np.ndarray, "V D"], np.dtype[Any]]:
    """The vector of each id, its mapping and weight applied, and the precision of a mean.

    The package's rules of types: weights may widen the vectors of pieces, and the mean
    is returned in the precision of the table, that of a table of bytes in float32.
    """
    try:
        tensors = load(read_bytes(path))
    except (SafetensorError, TypeError) as error:  # TypeError: NumPy lacks the type
        raise DataError(
            f"{path}: wanted safetensors, found {error}; fetch it again"
        ) from error
    vectors = tensors.get(TABLE_TENSOR)
    if vectors is None or vectors.ndim != 2:
        raise DataError(
            f"{path}: wanted a table `{TABLE_TENSOR}`, found "
            f"{', '.join(sorted(tensors)) or 'nothing'}"
        )
    if vectors.dtype.kind not in "fiu":
        raise DataError(
            f"{path}: wanted vectors of real numbers, found {vectors.dtype}"
        )
    dtype = np.dtype(np.float32) if vectors.dtype == np.int8 else vectors.dtype
    count = max(ids.values(), default=-1) + 1
    rows, factors = tensors.get("mapping"), tensors.get("weights")
    if rows is not None:
        _require_entry("row", path, rows, count, "iu")
        if not len(rows) or rows.min() < 0 or rows.max() >= len(vectors):
            raise DataError(
                f"{path}: wanted a row for each of the {count} sub-words in `mapping`, found rows "
                f"outside the table of {len(vectors)}"
            )
        vectors = vectors[rows]
    elif len(vectors) != len(ids) or len(vectors) < count:
        raise DataError(
            f"{path}: wanted a vector for each of the {len(ids)} sub-words of the tokenizer, the "
            f"last of which is number {count - 1}, found {len(vectors)}"
        )
    if factors is not None:
        _require_entry("weight", path, factors, count, "fiu")
        both = min(
            len(vectors), len(factors)
        )  # more of either than there are sub-words are unused
        vectors = vectors[:both] * factors[:both, None]
    if not np.isfinite(vectors).all():
        raise DataError(f"{path}: wanted finite numbers, found others; fetch it again")
    return vectors, dtype


def _require_entry(
    what: str, path: Path, entries: Num[np.ndarray, "..."], count: int, kinds: str
) -> None:
    """Refuse a `mapping` or `weights` that has no number for each sub-word."""
    if entries.ndim != 1 or len(entries) < count or entries.dtype.kind not in kinds:
        raise DataError(
            f"{path}: wanted a {what} for each of the {count} sub-words of the tokenizer, found "
            f"an array of shape {entries.shape} and type {entries.dtype}"
        )


# The same table under sentence-transformers


@dataclass(frozen=True, eq=False)
class StaticTable(AverageEncoder):
    """The table of sentence-transformers' StaticEmbedding: all pieces of whole texts count."""

    tokenizer: Any = field(repr=False)  # tokenizers.Tokenizer

    def token_rows(self, texts: Sequence[str]) -> Iterator[tuple[list[int], int]]:
        for ids in _pieces(self.tokenizer, texts):
            yield ids, len(ids)


def open_table(key: str, folder: Path, cache: Path) -> StaticTable:
    """The table of a StaticEmbedding: `embedding.weight`, or one that Model2Vec wrote."""
    tokenizer = _tokenizer(folder)
    tensors = {
        name: tensor.numpy() for name, tensor in read_tensors(folder, cache).items()
    }
    vectors = tensors.get("embedding.weight")
    if vectors is None and TABLE_TENSOR in tensors:
        vectors = tensors[TABLE_TENSOR]
        if (rows := tensors.get("mapping")) is not None:
            vectors = vectors[rows]
        vectors = vectors.astype(np.float32)
        if (factors := tensors.get("weights")) is not None:
            vectors = vectors * factors[:, None].astype(np.float32)
    if vectors is None or vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise DataError(
            f"{folder}: wanted a table `embedding.weight` or `{TABLE_TENSOR}` of finite numbers in "
            f"its weights, found {', '.join(sorted(tensors)) or 'nothing'}; fetch it again"
        )
    count = max(tokenizer.get_vocab().values(), default=-1) + 1
    if len(vectors) < count:
        raise DataError(
            f"{folder}: wanted a vector for each of the {count} sub-words of the tokenizer, found "
            f"{len(vectors)}"
        )
    return StaticTable(key, np.asarray(vectors, np.float32), tokenizer)
