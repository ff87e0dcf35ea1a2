"""The files of a checkpoint folder: its settings, its weights and tokenizer, and their digests.

Weights are `model.safetensors`, its shards with their index, or a `pytorch_model.bin`;
`weights.py` reads their tensors. A folder may hold what other programs apply and the
harness does not: adapters, quantised weights, code of its own, arguments of loading.
`require_nothing_unapplied` refuses such a folder, because other programs would get other
vectors. Importing this module does not import torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
VOCABULARY_FILE = "vocab.txt"  # of BERT: the word pieces, one a line
SAFETENSORS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"
# The suffixes of weights: of this library and of others.
WEIGHTS_SUFFIXES = frozenset(
    {".bin", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".safetensors"}
)
MODULES_FILE = "modules.json"  # of sentence-transformers
# Of its transformers, in the order in which the library looks for one.
SENTENCE_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in (
        "bert",
        "roberta",
        "distilbert",
        "camembert",
        "albert",
        "xlm-roberta",
        "xlnet",
    )
)
ROUTER_FILE = "router_config.json"  # names folders, as modules.json does
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
    for name in SENTENCE_FILES:
        if read_settings(folder / name):
            return folder / name
    return folder / SENTENCE_FILES[0]


def sentence_settings(folder: Path) -> dict[str, Any]:
    """A transformer's settings, as sentence-transformers reads them; empty without any.

    The library reads them only where a modules.json is in the folder or names it.
    """
    listings = (folder.parent / MODULES_FILE, folder.parent / ROUTER_FILE)
    if not (folder / MODULES_FILE).is_file() and not any(
        file.is_file() and folder.name in file.read_text("utf-8") for file in listings
    ):
        return {}
    return read_settings(sentence_settings_file(folder))


OWN_CODE = (
    "the model's own code is not run, and transformers' code of the same type may give other "
    "vectors; remove the setting to read the model with that"
)
# What is refused where it has a value: a file, names of settings, and what the user can do.
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
)
# The settings of sentence_bert_config.json that are arguments of loading, those that are
# read, and those that move no vector of a text alone. The library refuses any other.
LOADING_ARGUMENTS = (
    "model_args",
    "model_kwargs",
    "tokenizer_args",
    "processor_kwargs",
    "config_args",
    "config_kwargs",
    "tokenizer_name_or_path",
)
# Under the pooling native they are the library's, and other poolings pass over them.
LIBRARY_SETTINGS = (
    "modality_config",
    "module_output_name",
    "processing_kwargs",
    "transformer_task",
)
SENTENCE_SETTINGS = frozenset(
    {
        *LOADING_ARGUMENTS,
        *LIBRARY_SETTINGS,
        "max_seq_length",
        "do_lower_case",
        "unpad_inputs",
        "query_length",
        "document_length",
        "query_expansion",
    }
)


def require_nothing_unapplied(folder: Path) -> None:
    """Refuse a folder with files or settings that other programs apply and the harness does not."""
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise DataError(
            f"{adapter}: adapters are not applied; merge it into its base with merge_and_unload of "
            "peft and save that model, or remove the adapter to read the base alone"
        )
    for name, settings_names, remedy in NOT_APPLIED:
        file = folder / name
        settings = read_settings(file)
        for setting in settings_names:
            if settings.get(setting):
                raise DataError(
                    f"{file}: {setting} = {settings[setting]!r:.80}; {remedy}"
                )
    file = sentence_settings_file(folder)
    for setting, value in sentence_settings(folder).items():
        if setting in LOADING_ARGUMENTS and value:
            raise DataError(
                f"{file}: {setting} = {value!r:.80}; the transformer is opened without further "
                "arguments; merge them into its own files"
            )
        if setting not in SENTENCE_SETTINGS:
            raise DataError(
                f"{file}: {setting} = {value!r:.80} is no setting of sentence-transformers 6, "
                "which opens no folder with it; remove it"
            )


# A BERT of 2018 or 2019, whose settings do not name what they are of.
UNNAMED_BERT_SETTINGS = frozenset(
    {
        *("hidden_act", "hidden_size", "intermediate_size", "max_position_embeddings"),
        *("num_attention_heads", "num_hidden_layers", "type_vocab_size", "vocab_size"),
    }
)
CAPITAL = re.compile(r"[A-Z]")


def is_unnamed_bert(folder: Path) -> bool:
    """Whether a folder holds a BERT as it was saved before config.json named a model type.

    Its settings have BERT's names, it names no other class, and its vocabulary is
    `vocab.txt`. Raises DataError for a vocabulary with capital letters where no file says
    whether texts are put into lower case: transformers would do that.
    """
    settings = read_settings(folder / CONFIG_FILE)
    classes = settings.get("architectures") or ["Bert"]
    vocabulary = folder / VOCABULARY_FILE
    is_bert = settings.keys() >= UNNAMED_BERT_SETTINGS and all(
        str(name).startswith("Bert") for name in classes
    )
    if "model_type" in settings or not is_bert or not vocabulary.is_file():
        return False
    stated = read_settings(folder / "tokenizer_config.json")
    has_rules = "do_lower_case" in stated or (folder / "tokenizer.json").is_file()
    if not has_rules and has_capitals(vocabulary.read_text("utf-8").split("\n")):
        raise DataError(
            f"{folder / 'tokenizer_config.json'}: wanted do_lower_case, since {vocabulary.name} "
            'has pieces with capital letters, found none; write {"do_lower_case": false} into it'
        )
    return True


def has_capitals(pieces: Iterable[str]) -> bool:
    """Whether a vocabulary is of texts with capitals; special tokens, in brackets, do not count."""
    return any(CAPITAL.search(piece) for piece in pieces if not piece.startswith("["))


# The maximum length

# The model types with a vector for each position, learned or of sines, so that a text
# has no more tokens than that. Others have relative or rotary positions or ALiBi, and
# `max_position_embeddings` or `n_positions` is the length that they were trained with.
POSITION_TABLES = frozenset(
    {
        "albert",
        "bart",
        "bert",
        "bert-generation",
        "big_bird",
        "bigbird_pegasus",
        "biogpt",
        "blenderbot",
        "blenderbot-small",
        "bros",
        "camembert",
        "clip_text_model",
        "codegen",
        "convbert",
        "ctrl",
        "data2vec-text",
        "deberta",
        "deberta-v2",
        "distilbert",
        "dpr",
        "electra",
        "ernie",
        "esm",
        "flaubert",
        "fnet",
        "gpt-sw3",
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "gptj",
        "ibert",
        "layoutlm",
        "lilt",
        "longformer",
        "luke",
        "marian",
        "markuplm",
        "mbart",
        "megatron-bert",
        "mobilebert",
        "mpnet",
        "mra",
        "mvp",
        "nystromformer",
        "openai-gpt",
        "opt",
        "pegasus",
        "plbart",
        "prophetnet",
        "rembert",
        "roberta",
        "roberta-prelayernorm",
        "roc_bert",
        "roformer",
        "splinter",
        "squeezebert",
        "tapas",
        "visual_bert",
        "xlm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
        "yoso",
    }
)
# The endings of model types with relative positions, without any number of them.
RELATIVE = ("t5", "switch_transformers", "udop")
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
    settings = read_settings(config)
    limit = _position_limit(settings)
    if requested_length is not None:
        if limit is not None and requested_length > limit:
            raise UsageError(
                f"{name}: wanted {requested_length} tokens, the checkpoint takes {limit} at most"
            )
        return requested_length
    # As sentence-transformers reads them: its own setting stands alone, the tokenizer's is
    # never longer than the positions that config.json states.
    length = _stated_length(
        sentence_settings_file(folder), sentence_settings(folder), "max_seq_length"
    )
    if length is None:
        file = folder / "tokenizer_config.json"
        stated_lengths = (
            _stated_length(file, read_settings(file), "model_max_length", "max_len"),
            limit or _positions(settings),
        )
        length = min((n for n in stated_lengths if n is not None), default=None)
    if length is None or (length >= UNLIMITED_LENGTH and limit is None):
        raise UsageError(
            f"{name}: the checkpoint states no maximum length; give one, as in {name}:512"
        )
    return length if limit is None else min(length, limit)


def _stated_length(file: Path, settings: Mapping[str, Any], *names: str) -> int | None:
    """The length that the settings of a file state, in tokens; None where they state none.

    `names` are the names of the setting: the first that the file has decides. Raises
    DataError for a value that is no length.
    """
    for name in names:
        length = settings.get(name)
        if length is None:
            continue
        if type(length) not in (int, float) or not length >= 1:
            raise DataError(
                f"{file}: wanted a number of tokens, found {name} = {length!r}; correct it"
            )
        return int(min(length, UNLIMITED_LENGTH))
    return None


def _positions(config: Mapping[str, Any]) -> int | None:
    """The number of positions that config.json states; None where it states none.

    The `n_positions` of T5 and its like is passed over, as by transformers.
    """
    positions = config.get("max_position_embeddings")
    if positions is None and not str(config.get("model_type")).endswith(RELATIVE):
        positions = config.get("n_positions")
    return positions if isinstance(positions, int) and positions >= 1 else None


def _position_limit(config: Mapping[str, Any]) -> int | None:
    """How many tokens a model has positions for; None where it has no such limit."""
    positions = _positions(config)
    model_type = config.get("model_type")
    has_table = model_type in POSITION_TABLES
    if model_type in ("deberta", "deberta-v2"):
        has_table = bool(config.get("position_biased_input", True))
    if model_type == "esm":
        has_table = config.get("position_embedding_type", "absolute") == "absolute"
    if positions is None or not has_table:
        return None
    if model_type not in OFFSET_POSITIONS:
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
    return _digest_by_name(folder, digests), parts


def files_digest(folder: Path) -> str:
    """The digest over all files of a folder that a program may read, which has no weights."""
    return _digest_by_name(
        folder, {file: sha256_of(file) for file in identifying_files(folder)}
    )


def _digest_by_name(folder: Path, digests: Mapping[Path, str]) -> str:
    """The digest over the digests of files by their names in a folder."""
    return digest_of(
        {
            file.relative_to(folder).as_posix(): digest
            for file, digest in digests.items()
        }
    )


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
