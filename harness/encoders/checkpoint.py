"""The files of a checkpoint folder: its settings, its weights and tokenizer, and their digests.

Weights are `model.safetensors`, its shards with their index, or a `pytorch_model.bin`;
`weights.py` reads their tensors. A folder may hold what other programs apply and the
harness does not: adapters, quantised weights, code of its own, arguments of loading.
`require_nothing_unapplied` refuses such a folder, because other programs would get other
vectors. Importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.core.digests import digest_of, sha256_of
from harness.core.errors import (
    AssetMissing,
    DataError,
    HarnessError,
    UsageError,
    first_line,
    is_library_error,
)
from harness.core.files import parse_json, require_no_pointer

CONFIG_FILE = "config.json"
SAFETENSORS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"
# The suffixes of weights: of this library and of others.
WEIGHTS_SUFFIXES = frozenset(
    {".bin", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".safetensors"}
)
MODULES_FILE = "modules.json"  # of sentence-transformers
SENTENCE_FILES = "sentence_*_config.json"  # of its transformers, named after their kind
TRAINING_FILE = "training.json"  # of `harness train`: how a checkpoint was made

FETCH_AGAIN = "fetch the whole checkpoint"


# Settings


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON object from a file; an empty one if there is no such file."""
    if not path.is_file():
        return {}
    try:
        content = parse_json(path.read_bytes(), finite=False)
    except ValueError as error:
        raise DataError(
            f"{path}: wanted JSON, found {error}; fetch the file again"
        ) from error
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: wanted a JSON object, found a {type(content).__name__}"
        )
    return content


def sentence_settings_file(folder: Path) -> Path:
    """The file in which sentence-transformers keeps a transformer's settings.

    One without settings is passed over; `sentence_bert_config.json` where there is none.
    """
    for path in sorted(folder.glob(SENTENCE_FILES)):
        if read_settings(path):
            return path
    return folder / "sentence_bert_config.json"


OWN_CODE = (
    "the model's own code is not run, and transformers' code of the same type may give other "
    "vectors; remove the setting to read the model with that"
)
# What is refused where it has a value: the pattern of a file, names of settings, and what
# the user can do.
NOT_APPLIED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        CONFIG_FILE,
        ("quantization_config",),
        "quantised weights are not read; take the model in float32, bfloat16 or float16",
    ),
    (
        CONFIG_FILE,
        ("transformers_weights",),
        "weights are read from model.safetensors or its shards; rename the file, and remove the "
        "setting",
    ),
    (CONFIG_FILE, ("auto_map",), OWN_CODE),
    ("tokenizer_config.json", ("auto_map",), OWN_CODE),
    (
        SENTENCE_FILES,
        (
            "model_args",
            "model_kwargs",
            "tokenizer_args",
            "processor_kwargs",
            "config_args",
            "config_kwargs",
            "tokenizer_name_or_path",
        ),
        "the transformer is opened without further arguments; merge them into its own files",
    ),
)


def require_nothing_unapplied(folder: Path) -> None:
    """Refuse a folder with files or settings that other programs apply and the harness does not."""
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise DataError(
            f"{adapter}: adapters are not applied; merge it into its base with merge_and_unload of "
            "peft and save that model, or remove the adapter to read the base alone"
        )
    for pattern, names, remedy in NOT_APPLIED:
        for file in sorted(folder.glob(pattern)):
            settings = read_settings(file)
            for name in names:
                if settings.get(name):
                    raise DataError(
                        f"{file}: {name} = {settings[name]!r:.80}; {remedy}"
                    )


# The maximum length

# The model types whose positions start after the padding id: two of RoBERTa's 514
# positions are never used.
OFFSET_POSITIONS = frozenset(
    {
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "longformer",
        "luke",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)
UNLIMITED_LENGTH = 1_000_000  # tokens; Hugging Face writes 1e30 for "no limit"


def maximum_length(name: str, folder: Path, requested_length: int | None = None) -> int:
    """The length that texts are cut to, in tokens, special tokens included.

    Args:
        name: The name of the encoder, for messages.
        folder: The checkpoint folder.
        requested_length: The length that the user asks for; None takes the one that
            the checkpoint states.

    Raises:
        DataError: The folder has no config.json, or a setting is no length.
        UsageError: The checkpoint has too few positions for the requested length; or
            no length is requested, and the checkpoint states none.
    """
    config = folder / CONFIG_FILE
    if not config.is_file():
        raise DataError(f"{folder}: wanted a {CONFIG_FILE} in it; {FETCH_AGAIN}")
    limit = _position_limit(read_settings(config))
    if requested_length is not None:
        if limit is not None and requested_length > limit:
            raise UsageError(
                f"{name}: wanted {requested_length} tokens, the checkpoint takes {limit} at most"
            )
        return requested_length
    stated_lengths = (
        _stated_length(sentence_settings_file(folder), "max_seq_length"),
        _stated_length(folder / "tokenizer_config.json", "model_max_length", "max_len"),
        limit,
    )
    for length in stated_lengths:  # the first that limits anything decides
        if length is not None:
            return length if limit is None else min(length, limit)
    raise UsageError(
        f"{name}: the checkpoint states no maximum length; give one, as in {name}:512"
    )


def _stated_length(file: Path, *names: str) -> int | None:
    """The length that a file states, in tokens; None where it states none, or no limit.

    `names` are the names of the setting: the first that the file has decides. Raises
    DataError for a value that is no length.
    """
    settings = read_settings(file)
    for name in names:
        length = settings.get(name)
        if length is None:
            continue
        if type(length) not in (int, float) or not length >= 1:
            raise DataError(
                f"{file}: wanted a number of tokens, found {name} = {length!r}; correct it"
            )
        return int(length) if length < UNLIMITED_LENGTH else None
    return None


def _position_limit(config: Mapping[str, Any]) -> int | None:
    """How many tokens a model has positions for; None where its settings do not say."""
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if not isinstance(positions, int) or positions < 1:
        return None
    if config.get("model_type") not in OFFSET_POSITIONS:
        return positions
    padding_id = config.get("pad_token_id")
    first_position = 2 if padding_id is None else int(padding_id) + 1
    return positions - first_position


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
    files = _weights_in(folder)
    for file in files:
        require_no_pointer(file)
    if not files:
        paths = sorted(folder.iterdir())
        others = [path.name for path in paths if path.suffix in WEIGHTS_SUFFIXES]
        content, remedy = "no weights", FETCH_AGAIN
        if others:
            content = f"{', '.join(others[:3])}, which is not read"
            remedy = "save the model with save_pretrained, as safetensors"
        raise DataError(
            f"{folder}: wanted {SAFETENSORS}, {INDEX} or {PICKLED}, found {content}; {remedy}"
        )
    return files


def _weights_in(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that its weights are read from; none where it has none."""
    for name in (SAFETENSORS, INDEX, PICKLED):
        file = folder / name
        if file.is_file():
            return (file, *_shards(file)) if name == INDEX else (file,)
    return ()


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
            f"{name}: {path} has sha256 {digest}, wanted {pinned_digest}; fetch the pinned "
            "revision, or give this checkpoint a name of its own"
        )


# Digests

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


def tokenizer_files(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that its tokenizer was saved in, sorted by name."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return tuple(file for file in files if any(map(file.match, TOKENIZER_FILES)))


def folder_digests(
    name: str, folder: Path, checkpoint: Path, weights_sha256: str | None
) -> tuple[str, dict[str, str]]:
    """The digest over all files of a folder that a program may read, and those of its parts.

    The parts are `weights`, `tokenizer`, and `config` where there is a config.json.

    Args:
        name: The name of the encoder, for messages.
        folder: The folder, whose files identify it.
        checkpoint: The folder of weights and tokenizer in it, or itself.
        weights_sha256: The digest that the weights must have, if given.

    Raises:
        DataError: The weights are missing, or not the pinned ones.
    """
    weights = weights_files(checkpoint)
    digests = {file: sha256_of(file) for file in identifying_files(folder)}
    weights_digest = digests[weights[0]]
    if len(weights) > 1:
        weights_digest = digest_of({file.name: digests[file] for file in weights})
    require_weights(name, weights[0], weights_sha256, weights_digest)
    tokenizer = {file.name: digests[file] for file in tokenizer_files(checkpoint)}
    parts = {"weights": weights_digest, "tokenizer": digest_of(tokenizer)}
    config = checkpoint / CONFIG_FILE
    if config in digests:
        parts["config"] = digests[config]
    by_name = {
        file.relative_to(folder).as_posix(): digest for file, digest in digests.items()
    }
    return digest_of(by_name), parts


def identifying_files(folder: Path) -> list[Path]:
    """All files of a folder but documentation, and weights that are not read, sorted.

    A file of a folder below it counts if modules.json may name that folder.
    """
    pattern = "**/*" if (folder / MODULES_FILE).is_file() else "*"
    files: list[Path] = []
    for path in sorted(folder.glob(pattern)):
        folders = path.relative_to(folder).parts[:-1]
        is_of_others = any(
            name.startswith(".") or name in OTHER_PROGRAMS for name in folders
        )
        is_document = (
            path.suffix.lower() in DOCUMENTATION
            or path.name.upper().startswith(DOCUMENTS)
            or path.name.startswith(".")
            or path.name == TRAINING_FILE
        )
        is_unread = path.suffix in WEIGHTS_SUFFIXES and path not in _weights_in(
            path.parent
        )
        if path.is_file() and not (is_of_others or is_document or is_unread):
            files.append(path)
    return files


# Libraries that open a folder: long errors, and splitting at random


@contextmanager
def library_errors(wanted: str, remedy: str) -> Iterator[None]:
    """Context whose errors of a library become a DataError of one line.

    Args:
        wanted: What the library was to do: `bert: wanted ...`.
        remedy: What the user can do.
    """
    try:
        yield
    except HarnessError:
        raise
    except BaseException as error:  # of any class, and tokenizers panics
        if not is_library_error(error):
            raise
        reason = first_line(error) or type(error).__name__
        raise DataError(f"{wanted}, found: {reason}; {remedy}") from error


def require_no_sampling(file: Path, tokenizer: Any) -> None:
    """Refuse a `tokenizers.Tokenizer` that splits a text at random, by dropout of byte pairs."""
    dropout = getattr(tokenizer.model, "dropout", None)
    if dropout:
        raise DataError(
            f"{file}: dropout = {dropout:g} splits a text at random, and a text is encoded once; "
            "set dropout to null"
        )
