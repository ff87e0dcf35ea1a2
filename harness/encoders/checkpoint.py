"""The files of a checkpoint folder: which hold weights and tokenizer, and their digests.

Weights are `model.safetensors`, its shards with their index, or a `pytorch_model.bin`;
`weights.py` reads their tensors, `checkpoint_settings.py` the JSON files. A folder of
sentence-transformers lists modules in `modules.json`: the first one is the checkpoint,
in the folder itself or in one below it. Importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.digests import digest_of, sha256_of
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
# The suffixes of weights: of this library and of others.
WEIGHTS_SUFFIXES = frozenset(
    {".bin", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".safetensors"}
)

MODULES_FILE = "modules.json"  # of sentence-transformers
TRAINING_FILE = "training.json"  # of `harness train`: how a checkpoint was made
TRANSFORMER = "Transformer"
STATIC_MODULE = "StaticEmbedding"  # the module that is a table of vectors

# The files that a tokenizer is saved in.
TOKENIZER_FILES = (
    "tokenizer*",
    "special_tokens*",
    "added_tokens*",
    "vocab*",
    "merges*",
    "*.model",
    "*.codes",
    "*.vocab",
    "*.spm",
    "*.tiktoken",
)

# What people read in a folder, and no program.
DOCUMENTATION = frozenset(
    {".gif", ".ipynb", ".jpeg", ".jpg", ".md", ".pdf", ".png", ".py", ".svg", ".webp"}
)
DOCUMENTS = ("CITATION", "LICENSE", "LICENCE", "NOTICE", "README")
# Folders of the same model for other programs.
OTHER_PROGRAMS = frozenset({"coreml", "onnx", "openvino"})

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

    @property
    def kind(self) -> str:
        """The name of its class."""
        return self.class_path.rpartition(".")[2]


def module_entries(folder: Path) -> tuple[ModuleEntry, ...]:
    """The modules that `modules.json` lists, in order; empty where there is no such file.

    Raises DataError for a damaged file, a module outside the folder, and a folder in
    which other programs would apply more than the modules.
    """
    file = folder / MODULES_FILE
    if not file.is_file():
        return ()
    require_nothing_unapplied(folder)
    try:
        entries = tuple(
            ModuleEntry(class_path=str(item["type"]), subfolder=str(item["path"]))
            for item in parse_json(file.read_bytes())
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{file}: wanted type and path of each module, found {error!r}; fetch it again"
        ) from error
    for entry in entries:
        path = Path(entry.subfolder)
        if path.is_absolute() or ".." in path.parts:
            raise DataError(f"{file}: wanted folders inside this one, found {path}")
    return entries


def transformer_folder(folder: Path) -> Path:
    """The folder of the checkpoint itself: this one, or one below it that modules.json names.

    sentence-transformers wrote the checkpoint into a folder `0_Transformer` up to its
    version 1. Raises DataError for a folder whose first module is no transformer.
    """
    entries = module_entries(folder)
    if not entries:
        return folder
    first = entries[0]
    if first.kind != TRANSFORMER:
        raise DataError(
            f"{folder / MODULES_FILE}: wanted a transformer as its first module, found a "
            f"{first.kind}; take the pooling native, or of a Router name the folder of a model in "
            "it and a pooling, as in FOLDER/document_0_Transformer.mean"
        )
    return folder / first.subfolder


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
    names = sorted(file.name for file in folder.iterdir())
    other_weights = [name for name in names if Path(name).suffix in WEIGHTS_SUFFIXES]
    wanted = f"{folder}: wanted {SAFETENSORS}, {INDEX} or {PICKLED}"
    if other_weights:
        raise DataError(
            f"{wanted}, found {', '.join(other_weights[:3])}, which is not read; save the model "
            "with save_pretrained, as safetensors"
        )
    raise DataError(f"{wanted}, found no weights; {FETCH_AGAIN}")


def _shards(index: Path) -> tuple[Path, ...]:
    """The files that an index names, sorted."""
    file_by_tensor = read_settings(index).get("weight_map")
    if not isinstance(file_by_tensor, dict) or not file_by_tensor:
        raise DataError(
            f"{index}: wanted a weight_map from tensors to files, found none; {FETCH_AGAIN}"
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
    """The files of a folder that its tokenizer was saved in, sorted by name."""
    paths: set[Path] = set()
    for pattern in TOKENIZER_FILES:
        paths.update(path for path in folder.glob(pattern) if path.is_file())
    return tuple(sorted(paths))


def require_no_sampling(file: Path, tokenizer: Any) -> None:
    """Refuse a `tokenizers.Tokenizer` that splits a text at random (dropout of byte pairs)."""
    dropout = getattr(tokenizer.model, "dropout", None)
    if dropout:
        raise DataError(
            f"{file}: dropout = {dropout:g} splits a text at random, and a text is encoded once; "
            "set dropout to null"
        )


# Digests


def folder_digests(
    name: str, folder: Path, checkpoint: Path, weights_sha256: str | None
) -> tuple[str, dict[str, str]]:
    """The digest over all files of a folder that a program may read, and those of its parts.

    The parts are `weights`, `tokenizer` and `config`.

    Args:
        name: The name of the encoder, for messages.
        folder: The folder, whose files identify it.
        checkpoint: The folder of weights, tokenizer and config.json in it, or itself.
        weights_sha256: The digest that the weights must have, if given.

    Raises:
        DataError: A file is missing, or the weights are not the pinned ones.
    """
    weights = weights_files(checkpoint)
    config = checkpoint / CONFIG_FILE
    if not config.is_file():
        raise DataError(f"{checkpoint}: wanted a config.json in it; {FETCH_AGAIN}")
    digests = {file: sha256_of(file) for file in identifying_files(folder)}
    by_name = {
        file.relative_to(folder).as_posix(): digest for file, digest in digests.items()
    }
    weights_digest = digests[weights[0]]
    if len(weights) > 1:
        weights_digest = digest_of({file.name: digests[file] for file in weights})
    require_weights(name, weights[0], weights_sha256, weights_digest)
    tokenizer = {file.name: digests[file] for file in tokenizer_files(checkpoint)}
    parts = {
        "weights": weights_digest,
        "tokenizer": digest_of(tokenizer),
        "config": digests[config],
    }
    return digest_of(by_name), parts


def identifying_files(folder: Path) -> list[Path]:
    """All files of a folder but documentation, and weights that are not read, sorted.

    A file of a folder below it counts if modules.json may name that folder.
    """
    folders = [folder]
    if (folder / MODULES_FILE).is_file():
        folders += _module_folders(folder)
    files: list[Path] = []
    for place in folders:
        is_checkpoint = any(
            (place / name).is_file() for name in (SAFETENSORS, INDEX, PICKLED)
        )
        weights = weights_files(place) if is_checkpoint else ()
        for path in place.iterdir():
            is_document = (
                path.suffix.lower() in DOCUMENTATION
                or path.name.upper().startswith(DOCUMENTS)
                or path.name.startswith(".")
                or path.name == TRAINING_FILE
            )
            is_unread = path.suffix in WEIGHTS_SUFFIXES and path not in weights
            if path.is_file() and not is_document and not is_unread:
                files.append(path)
    return sorted(files)


def _module_folders(folder: Path) -> Iterator[Path]:
    """The folders below a folder, at any depth, but those of other programs."""
    for path in folder.iterdir():
        is_module = not path.name.startswith(".") and path.name not in OTHER_PROGRAMS
        if path.is_dir() and is_module:
            yield path
            yield from _module_folders(path)
