"""The files of a checkpoint folder: which hold weights and tokenizer, and their digests.

Weights are `model.safetensors`, its shards with their index, or a `pytorch_model.bin`;
`weights.py` reads their tensors, `checkpoint_settings.py` the JSON files. A folder of
sentence-transformers lists modules in `modules.json`: the first one is the checkpoint,
in the folder itself or in one below it. Importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.core.digests import digest_of, digest_of_files, sha256_of
from harness.core.errors import AssetMissing, DataError
from harness.core.files import require_no_pointer
from harness.core.json_text import parse_json
from harness.encoders.checkpoint_settings import (
    CONFIG_FILE,
    read_settings,
    require_nothing_unapplied,
)

SAFETENSORS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"
PICKLED_INDEX = "pytorch_model.bin.index.json"
# The suffixes of weights for other libraries, or under names that transformers does
# not look for: they are named in the message that no weights were found.
OTHER_WEIGHTS = (
    ".bin",
    ".gguf",
    ".h5",
    ".msgpack",
    ".onnx",
    ".ot",
    ".pt",
    ".pth",
    ".safetensors",
)

MODULES_FILE = "modules.json"  # of sentence-transformers
STATIC_MODULE = "StaticEmbedding"  # the module that is a table of vectors

# The files that may hold a vocabulary, and all files that an AutoTokenizer may read,
# whatever its class.
VOCABULARY_FILES = (
    "tokenizer.json",
    "vocab*",
    "merges*",
    "*.model",
    "*.codes",
    "*.vocab",
    "*.spm",
    "*.tiktoken",
)
TOKENIZER_FILES = (*VOCABULARY_FILES, "tokenizer*", "special_tokens*", "added_tokens*")
# The tokens of these classes are bytes or code points: they have no vocabulary.
WITHOUT_VOCABULARY = frozenset(
    {"ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer"}
)

FETCH_AGAIN = "fetch the whole checkpoint"
PIN_REMEDY = "fetch the pinned revision, or give this checkpoint a name of its own"


# Modules of sentence-transformers


@dataclass(frozen=True)
class ModuleEntry:
    """An entry of `modules.json`.

    Attributes:
        class_path: The class of the module, with its package.
        subfolder: Its folder, relative to the folder of `modules.json`; empty for that
            folder itself.
    """

    class_path: str
    subfolder: str


def module_entries(folder: Path) -> tuple[ModuleEntry, ...]:
    """The modules that `modules.json` lists, in order; empty where there is no such file.

    Raises DataError for a damaged file, a module outside the folder, and a folder in
    which other programs would apply more than the modules.
    """
    file = folder / MODULES_FILE
    if not file.is_file():
        return ()
    require_nothing_unapplied(folder)
    require_no_pointer(file)
    entries = []
    names = []
    try:
        for number, item in enumerate(parse_json(file.read_bytes())):
            entries.append(
                ModuleEntry(class_path=str(item["type"]), subfolder=str(item["path"]))
            )
            names.append(item.get("name", number))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{file}: wanted type and path of each module, found {error!r}"
        ) from error
    for entry in entries:
        path = Path(entry.subfolder)
        if path.is_absolute() or ".." in path.parts:
            raise DataError(f"{file}: wanted folders inside this one, found {path}")
    # sentence-transformers would keep the last module of a name only.
    distinct_names = {repr(name) for name in names}
    if len(distinct_names) < len(names):
        raise DataError(
            f"{file}: wanted a name of its own for each module, found {names}"
        )
    return tuple(entries)


def transformer_folder(folder: Path) -> Path:
    """The folder of the checkpoint itself: this one, or one below it that modules.json names.

    sentence-transformers wrote the checkpoint into a folder `0_Transformer` up to its
    version 1. Raises DataError for a folder whose first module is a table of vectors.
    """
    entries = module_entries(folder)
    if not entries:
        return folder
    first_module = entries[0]
    if first_module.class_path.endswith(f".{STATIC_MODULE}"):
        raise DataError(
            f"{folder / MODULES_FILE}: wanted a transformer as its first module, found a "
            f"{STATIC_MODULE}; take the pooling native"
        )
    return folder / first_module.subfolder


# Weights


def weights_files(folder: Path) -> tuple[Path, ...]:
    """The files that hold the weights; an index comes before its shards.

    Raises:
        AssetMissing: There is no such folder.
        DataError: It holds no weights that are read, or other programs would apply more
            in it than its weights.
    """
    if not folder.is_dir():
        raise AssetMissing(
            f"no checkpoint folder at {folder}; fetch it, or name another folder"
        )
    require_nothing_unapplied(folder)
    for name in (SAFETENSORS, INDEX, PICKLED):
        file = folder / name
        if not file.is_file():
            continue
        files = (file, *_shards(file)) if name == INDEX else (file,)
        for weights_file in files:
            require_no_pointer(weights_file)
        return files
    raise _no_weights(folder)


def _shards(index: Path) -> tuple[Path, ...]:
    """The files that an index names, sorted."""
    file_by_tensor = read_settings(index).get("weight_map")
    if not isinstance(file_by_tensor, dict) or not file_by_tensor:
        raise DataError(
            f"{index}: wanted a weight_map from tensors to files, found none"
        )
    names = {str(name) for name in file_by_tensor.values()}
    shards = tuple(index.parent / name for name in sorted(names))
    for shard in shards:
        is_in_folder = shard.parent == index.parent and shard.suffix == ".safetensors"
        if not is_in_folder or not shard.is_file():
            raise DataError(
                f"{index}: wanted {shard.name} in the same folder; {FETCH_AGAIN}"
            )
    return shards


def _no_weights(folder: Path) -> DataError:
    """The error of a folder without weights that are read; it names the other weights in it."""
    readable_weights = f"{SAFETENSORS}, {INDEX} or {PICKLED}"
    if (folder / PICKLED_INDEX).is_file():
        return DataError(
            f"{folder}: wanted {readable_weights}, found pickles in shards ({PICKLED_INDEX}), "
            "which are not read; save the model with save_pretrained, as safetensors"
        )
    other_weights = []
    for file in sorted(folder.iterdir()):
        if file.suffix in OTHER_WEIGHTS:
            other_weights.append(file.name)
    if other_weights:
        return DataError(
            f"{folder}: wanted {readable_weights}, found {', '.join(other_weights[:3])}, which is "
            "not read; save the model with save_pretrained, as safetensors"
        )
    return DataError(f"{folder}: no weights; wanted {readable_weights}; {FETCH_AGAIN}")


def require_weights(
    name: str, path: Path, pinned_digest: str | None, digest: str
) -> None:
    """Refuse weights whose sha256 is not the pinned one.

    Args:
        name: The name of the encoder, for the message.
        path: The file of weights.
        pinned_digest: The pinned sha256; None pins nothing.
        digest: The sha256 of the file.
    """
    if pinned_digest not in (None, digest):
        raise DataError(
            f"{name}: {path} has sha256 {digest}, wanted {pinned_digest}; {PIN_REMEDY}"
        )


# Tokenizer


def tokenizer_files(folder: Path) -> tuple[Path, ...]:
    """Every file of the folder that the tokenizer may depend on, sorted by name.

    Raises DataError where none holds a vocabulary: transformers would make an empty
    tokenizer.
    """
    settings = read_settings(folder / "tokenizer_config.json")
    needs_vocabulary = settings.get("tokenizer_class") not in WITHOUT_VOCABULARY
    if needs_vocabulary and not _matching(folder, VOCABULARY_FILES):
        raise DataError(
            f"{folder}: no tokenizer; wanted tokenizer.json or a vocabulary file"
        )
    files = tuple(sorted(_matching(folder, TOKENIZER_FILES)))
    for file in files:
        require_no_pointer(file)
    return files


def _matching(folder: Path, patterns: Iterable[str]) -> set[Path]:
    """The files of a folder whose names match one of the patterns."""
    paths: set[Path] = set()
    for pattern in patterns:
        paths.update(folder.glob(pattern))
    return {path for path in paths if path.is_file()}


@contextmanager
def settings_and_tokenizer(folder: Path) -> Iterator[Path]:
    """A temporary folder for libraries that read the files of a checkpoint themselves.

    It holds copies of config.json and the tokenizer's files, made of the bytes that are
    digested here, and links to all other files.
    """
    files_to_copy = {folder / CONFIG_FILE, *tokenizer_files(folder)}
    with TemporaryDirectory(prefix="harness-") as scratch:
        for file in folder.iterdir():
            target = Path(scratch) / file.name
            if file in files_to_copy:
                target.write_bytes(file.read_bytes())
            else:
                target.symlink_to(file.absolute())
        yield Path(scratch)


def require_no_sampling(file: Path, tokenizer: Any) -> None:
    """Refuse a `tokenizers.Tokenizer` that splits a text at random (dropout of byte pairs)."""
    dropout = getattr(tokenizer.model, "dropout", None)
    if dropout:
        raise DataError(
            f"{file}: dropout = {dropout:g} splits a text at random, and a text is encoded once; "
            "set dropout to null"
        )


# Digests


def checkpoint_digests(
    name: str, folder: Path, weights_sha256: str | None
) -> dict[str, str]:
    """The digests of a checkpoint's weights, tokenizer and config.json, by these words.

    Raises DataError for other weights than the pinned ones.
    """
    weights = weights_files(folder)
    config = folder / CONFIG_FILE
    if not config.is_file():
        raise DataError(f"{folder}: wanted a config.json in it; {FETCH_AGAIN}")
    weights_digest = digest_of_files(weights)
    tokenizer_digest = digest_of(
        {file.name: sha256_of(file) for file in tokenizer_files(folder)}
    )
    config_digest = sha256_of(config)
    require_weights(name, weights[0], weights_sha256, weights_digest)
    return {
        "weights": weights_digest,
        "tokenizer": tokenizer_digest,
        "config": config_digest,
    }
