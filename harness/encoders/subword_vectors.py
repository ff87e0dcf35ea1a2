"""Static vectors of a tokenizer's sub-words, averaged over the pieces of a text.

Model2Vec (Tulkens & van Dongen 2024, github.com/MinishLab/model2vec): a folder holds
`tokenizer.json`, a table of vectors in `model.safetensors` and `config.json`. The
vectors of texts are equal to the package's (`StaticModel`, version 0.10):

* The tokenizer adds no special token and no padding.
* `max_length` of `config.json` takes the place of the tokenizer's own truncation: 512
  where it states none, no cut where it is null. A text is cut by characters before the
  tokenizer cuts it by pieces.
* Unknown pieces are left out after the cut.
* The mean is taken in the table's own precision.
* In a table with shared rows, `mapping` has the row of each sub-word and `weights` its
  factor.

The same table as a module of sentence-transformers (`StaticTable`) is at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from harness.core.arrays import Num
from harness.core.digests import digest_of
from harness.core.errors import DataError, first_line, is_library_error
from harness.core.files import require_no_pointer
from harness.core.identity import NOT_IN_IDENTITY
from harness.core.interfaces import Encoding, Hub, Identity, LocalFiles, Source
from harness.core.json_text import parse_json
from harness.encoders.average_encoder import AverageEncoder
from harness.encoders.checkpoint import (
    SAFETENSORS,
    checkpoint_digests,
    require_no_sampling,
    weights_files,
)
from harness.encoders.checkpoint_settings import CONFIG_FILE, read_settings
from harness.encoders.config import BaseConfig
from harness.encoders.weights import read_tensors

# Part of the key of every encoding: change it with any change that moves a vector.
ENCODING_VERSION = (
    "2: as StaticModel.encode of model2vec 0.10, in the table's own precision"
)

MODEL_TYPE = "model2vec"  # in config.json, if the package's distillation wrote it
TABLE_TENSOR = "embeddings"  # the table in model.safetensors
TOKENIZER_FILE = "tokenizer.json"
MAX_LENGTH = 512  # sub-words, where config.json states none
LEAST_NORM = 1e-32  # is added to the length of a vector, as in the package


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

    @property
    def source(self) -> Source:
        """The hub repository that its files come from."""
        if self.repo:
            return Hub(
                repo=self.repo,
                revision=self.revision,
                sha256=self.weights_sha256,
                download_size=self.download_size,
            )
        return LocalFiles(self.weights_sha256)

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder. Raises DataError for one of another program."""
        if not is_subword_folder(path):
            config = path / CONFIG_FILE
            model_type = read_settings(config).get("model_type")
            raise DataError(
                f"{config}: wanted model_type {MODEL_TYPE}, found {model_type}; name a folder that "
                "Model2Vec wrote"
            )
        digests = checkpoint_digests(self.name, path, self.weights_sha256)
        [file, *_] = weights_files(path)
        if file.name != SAFETENSORS:
            raise DataError(
                f"{path}: wanted the table in {SAFETENSORS}, as Model2Vec writes it, found "
                f"{file.name}; save it again with save_pretrained"
            )
        length = self._length(path)
        facts = {"version": ENCODING_VERSION, "max_length": length}
        return Identity(
            key=digest_of({**facts, **digests}), digests=digests, max_length=length
        )

    def load(self, path: Path, cache: Path) -> SubwordEncoder:  # noqa: ARG002
        """The encoder, ready. Raises DataError for files that Model2Vec would not read."""
        key = self.identify(path).key
        tokenizer = _tokenizer(path)
        id_by_piece: Mapping[str, int] = tokenizer.get_vocab()
        length = self._length(path)
        if length is None:
            tokenizer.no_truncation()
            max_characters = None
        else:
            tokenizer.enable_truncation(length)
            # As the package does, so that long texts are not tokenised as a whole.
            piece_lengths = [len(piece) for piece in id_by_piece]
            max_characters = length * int(np.median(piece_lengths))
        table = _read_table(path / SAFETENSORS, id_by_piece)
        return SubwordEncoder(
            key=key,
            vectors=table.vectors,
            tokenizer=tokenizer,
            unknown_id=_unknown_id(tokenizer),
            max_characters=max_characters,
            dtype=table.mean_dtype,
            normalizes=bool(read_settings(path / CONFIG_FILE).get("normalize")),
        )

    def _length(self, folder: Path) -> int | None:
        """The sub-words that texts are cut to; None cuts nothing."""
        config = folder / CONFIG_FILE
        stated_length = read_settings(config).get("max_length", MAX_LENGTH)
        is_length = isinstance(stated_length, int) and 0 <= stated_length <= sys.maxsize
        if stated_length is not None and not is_length:
            raise DataError(
                f"{config}: wanted a number of sub-words or null, found max_length = "
                f"{stated_length!r}"
            )
        return stated_length if self.max_length is None else self.max_length


@dataclass(frozen=True, eq=False)
class SubwordEncoder:
    """A loaded table of sub-word vectors. It keeps one layer, and has no summary token or pooler.

    Attributes:
        key: The digest of everything that changes its vectors.
        vectors: A row for each id of the tokenizer.
        tokenizer: A `tokenizers.Tokenizer`, which cuts texts to their maximum length.
        unknown_id: The id that is left out of a mean; None leaves none out.
        max_characters: The characters that a text is cut to before it is tokenised.
        dtype: The precision of the means.
        normalizes: Whether means are divided by their length.
    """

    key: str
    vectors: Num[np.ndarray, "V D"] = field(repr=False)
    tokenizer: Any = field(repr=False)
    unknown_id: int | None
    max_characters: int | None
    dtype: np.dtype[Any]
    normalizes: bool

    facts: ClassVar[Mapping[str, object]] = {}

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The mean over the vectors of each text's known pieces; the zero vector without any."""
        mean = np.zeros((len(texts), self.vectors.shape[1]), self.dtype)
        tokens = np.zeros((len(texts), 2), np.float32)
        cut_texts = [text[: self.max_characters] for text in texts]
        for row, ids in enumerate(_piece_ids(self.tokenizer, cut_texts)):
            known_ids = [piece_id for piece_id in ids if piece_id != self.unknown_id]
            tokens[row] = len(ids), len(known_ids)
            if known_ids:
                mean[row] = self.vectors[known_ids].mean(axis=0)
        vectors = mean.astype(np.float32)
        if self.normalizes:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True) + LEAST_NORM
            # Rounded to the precision of the means, as in the package.
            vectors = (vectors / lengths).astype(self.dtype).astype(np.float32)
        return Encoding(layers=(0,), depth=0, mean=vectors[:, None], tokens=tokens)


# The tokenizer


def tokenizer_file(folder: Path) -> Path:
    """The tokenizer's file in a folder. Raises DataError where it is missing or a pointer."""
    file = folder / TOKENIZER_FILE
    if not file.is_file():
        raise DataError(
            f"{folder}: wanted a {TOKENIZER_FILE} in it; fetch the whole folder"
        )
    require_no_pointer(file)
    return file


def _tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder, without padding."""
    from tokenizers import Tokenizer

    file = tokenizer_file(folder)
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except BaseException as error:  # tokenizers raises no narrower class, and panics
        if not is_library_error(error):
            raise
        reason = first_line(error) or type(error).__name__
        raise DataError(
            f"{file}: wanted a tokenizer, found {reason}; fetch it again"
        ) from error
    require_no_sampling(file, tokenizer)
    tokenizer.no_padding()
    return tokenizer


def _unknown_id(tokenizer: Any) -> int | None:
    """The id of the unknown piece; None for a tokenizer that has none."""
    if not hasattr(tokenizer.model, "unk_token"):
        # A Unigram model keeps the id in its JSON only.
        settings = parse_json(tokenizer.to_str())
        unknown_id: int | None = settings["model"].get("unk_id")
        return unknown_id
    unknown_piece = tokenizer.model.unk_token
    return None if unknown_piece is None else tokenizer.token_to_id(unknown_piece)


def _piece_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text. Raises DataError for one that the tokenizer cannot split."""
    try:
        encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [pieces.ids for pieces in encoded]
    except BaseException as error:  # tokenizers raises no narrower class, and panics
        if not is_library_error(error):
            raise
        reason = first_line(error) or type(error).__name__
        raise DataError(
            f"wanted a tokenizer that splits every text, found one that says: {reason}; name an "
            f"unknown piece in its {TOKENIZER_FILE}"
        ) from error


# The table


@dataclass(frozen=True, eq=False)
class SubwordTable:
    """Vectors of sub-words, a row for each id, and the precision of a mean over them."""

    vectors: Num[np.ndarray, "V D"]
    mean_dtype: np.dtype[Any]


def _read_table(path: Path, id_by_piece: Mapping[str, int]) -> SubwordTable:
    """The vector of each id, mapping and weights applied.

    The types are the package's: the vectors of pieces have the wider type of table and
    weights, and a mean has the precision of the table, but float32 for a table of bytes.
    """
    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise DataError(
            f"{path}: wanted safetensors, found {error}; fetch it again"
        ) from error
    except (TypeError, KeyError) as error:  # NumPy lacks the type
        raise DataError(
            f"{path}: wanted numbers of a type that NumPy has, found {error}; save them in float32"
        ) from error
    vectors = tensors.get(TABLE_TENSOR)
    if vectors is None or vectors.ndim != 2 or not vectors.size:
        raise DataError(
            f"{path}: wanted a table `{TABLE_TENSOR}`, found {_names_of(tensors)}; fetch it again"
        )
    if vectors.dtype.kind not in "fiu":
        raise DataError(
            f"{path}: wanted vectors of real numbers, found {vectors.dtype}"
        )
    mean_dtype = vectors.dtype
    if mean_dtype == np.int8:
        mean_dtype = np.dtype(np.float32)

    id_count = max(id_by_piece.values(), default=-1) + 1
    is_whole = len(vectors) == len(id_by_piece) and len(vectors) >= id_count
    if "mapping" not in tensors and not is_whole:
        raise DataError(
            f"{path}: wanted a vector for each of the {len(id_by_piece)} sub-words of the "
            f"tokenizer, whose largest id is {id_count - 1}, found {len(vectors)}"
        )
    vectors = _vectors_of_ids(path, tensors, id_count)
    if not np.isfinite(vectors).all():
        raise DataError(f"{path}: wanted finite numbers, found others; fetch it again")
    return SubwordTable(vectors, mean_dtype)


def _vectors_of_ids(
    path: Path, tensors: Mapping[str, np.ndarray], id_count: int
) -> Num[np.ndarray, "V D"]:
    """The vector of each id: the row that `mapping` names, times its factor in `weights`.

    `path` is named in messages; `id_count` is one more than the largest id.
    """
    vectors = tensors[TABLE_TENSOR]
    rows = tensors.get("mapping")
    if rows is not None:
        _require_rows(path, rows, id_count, len(vectors))
        vectors = vectors[rows]
    factors = tensors.get("weights")
    if factors is not None:
        _require_numbers("weight", path, factors, id_count, kinds="fiu")
        # Both may have more rows than there are sub-words; these are not used.
        row_count = min(len(vectors), len(factors))
        vectors = vectors[:row_count] * factors[:row_count, None]
    return vectors


def _names_of(tensors: Mapping[str, np.ndarray]) -> str:
    """The names and shapes of tensors, for a message."""
    return (
        ", ".join(f"{name} {tensors[name].shape}" for name in sorted(tensors))
        or "nothing"
    )


def _require_rows(
    path: Path, rows: Num[np.ndarray, "..."], id_count: int, table_rows: int
) -> None:
    """Refuse a `mapping` that lacks the row of a sub-word, or has one outside the table."""
    _require_numbers("row", path, rows, id_count, kinds="iu")
    if not len(rows) or rows.min() < 0 or rows.max() >= table_rows:
        raise DataError(
            f"{path}: wanted a row for each of the {id_count} sub-words in `mapping`, found rows "
            f"outside the table of {table_rows}"
        )


def _require_numbers(
    content: str, path: Path, numbers: Num[np.ndarray, "..."], id_count: int, kinds: str
) -> None:
    """Refuse a `mapping` or `weights` that has no number for each sub-word.

    Args:
        content: What a number is, for the message: a row or a weight.
        path: The file, for the message.
        numbers: The mapping or the weights.
        id_count: One more than the largest id of a sub-word.
        kinds: The kinds of NumPy types that are allowed, as in `dtype.kind`.
    """
    is_vector = numbers.ndim == 1 and numbers.dtype.kind in kinds
    if not is_vector or len(numbers) < id_count:
        raise DataError(
            f"{path}: wanted a {content} for each of the {id_count} sub-words of the tokenizer, "
            f"found an array of shape {numbers.shape} and type {numbers.dtype}"
        )


# The same table as a module of sentence-transformers


@dataclass(frozen=True, eq=False)
class StaticTable(AverageEncoder):
    """The table of sentence-transformers' StaticEmbedding: all pieces of whole texts count."""

    tokenizer: Any = field(repr=False)  # tokenizers.Tokenizer

    def token_rows(self, texts: Sequence[str]) -> Iterator[tuple[list[int], int]]:
        """For each text the rows of its pieces, and their number."""
        for ids in _piece_ids(self.tokenizer, texts):
            yield ids, len(ids)


def open_table(key: str, folder: Path, cache: Path) -> StaticTable:
    """The table of a StaticEmbedding: `embedding.weight`, or one that Model2Vec wrote.

    Args:
        key: The key of the encoder.
        folder: The folder of the module.
        cache: The cache folder, which keeps the safetensors form of pickled weights.

    Raises:
        DataError: There is no such table, or it has too few rows or other numbers than
            finite ones.
    """
    tokenizer = _tokenizer(folder)
    tensors = {}
    for name, tensor in read_tensors(folder, cache).items():
        # In float32, as NumPy lacks bfloat16.
        if tensor.is_floating_point():
            tensor = tensor.float()
        tensors[name] = tensor.numpy()
    id_count = max(tokenizer.get_vocab().values(), default=-1) + 1
    vectors = tensors.get("embedding.weight")
    if vectors is None and TABLE_TENSOR in tensors:
        vectors = _vectors_of_ids(folder, tensors, id_count)
    if vectors is None or vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise DataError(
            f"{folder}: wanted a table `embedding.weight` or `{TABLE_TENSOR}` of finite numbers in "
            f"its weights, found {_names_of(tensors)}; fetch it again"
        )
    if len(vectors) < id_count:
        raise DataError(
            f"{folder}: wanted a vector for each of the {id_count} sub-words of the tokenizer, "
            f"found {len(vectors)}"
        )
    return StaticTable(key, np.asarray(vectors, np.float32), tokenizer)
