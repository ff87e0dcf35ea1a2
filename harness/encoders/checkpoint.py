"""The files of a checkpoint folder: weights, tokenizer and configuration, read without trust.

Safetensors are read as they are. A folder with only `pytorch_model.bin` (SimCSE's) goes
through torch's restricted unpickler once, into safetensors in the cache; nothing else
is ever unpickled. What transformers or sentence-transformers would apply in a folder
and the harness does not is refused by name whenever its weights are read
(`NOT_APPLIED`). What a name pins besides its weights is at the end. Importing this
module costs no torch.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.core.digests import (
    NO_FILE,
    digest_of,
    digest_of_files,
    read_bytes,
    read_sha256,
    require_unchanged,
    sha256_of,
)
from harness.core.errors import CACHE_SETTING, AssetMissing, DataError, UsageError
from harness.core.files import make_folder, replacing, write_atomically
from harness.core.json_text import parse_json

SAFETENSORS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"
PICKLED_INDEX = "pytorch_model.bin.index.json"
LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/"  # how git-lfs begins in a file's place
)
MODULES_FILE = "modules.json"  # of sentence-transformers
STATIC_MODULE = "StaticEmbedding"  # its module of a table of vectors
# Of a model for other libraries, or under a name that transformers does not look for.
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
SEAL_SUFFIX = ".sha256"  # of the file with a converted file's digest

# Files that a vocabulary may be in, and what else an AutoTokenizer may read, whatever
# its class.
VOCABULARY_FILES = (
    "tokenizer.json", "vocab*", "merges*", "*.model", "*.codes", "*.vocab", "*.spm", "*.tiktoken",
)  # fmt: skip
TOKENIZER_FILES = (*VOCABULARY_FILES, "tokenizer*", "special_tokens*", "added_tokens*")
# Their tokens are bytes or code points: there is no vocabulary.
WITHOUT_VOCABULARY = frozenset(
    {"ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer"}
)

# Their positions start after the padding id: two of RoBERTa's 514 are never used.
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
    }
    | {"roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod"}
)
# sentence_bert_config.json and its kin, in the order in which the library looks for
# them.
SENTENCE_KINDS = (
    "bert",
    "roberta",
    "distilbert",
    "camembert",
    "albert",
    "xlm-roberta",
    "xlnet",
)
SANE_LENGTH = 1_000_000  # Hugging Face writes 1e30 for "no limit"

REMEDY = "fetch the pinned revision, or give this checkpoint a name of its own"


# What is applied elsewhere and not here


@dataclass(frozen=True)
class NotApplied:
    """A file that other programs apply, or a setting in it that is not null, and what to do.

    A setting is looked for at every depth of the file, whose name may be a pattern.
    """

    file: str
    setting: str
    remedy: str


PLAIN_LOADING = (
    "the transformer is opened without further arguments; merge them into its own files"
)
NOT_APPLIED = (
    NotApplied(
        file="adapter_config.json",
        setting="",
        remedy="adapters are not applied; merge it into its base with merge_and_unload of peft and "
        "save that model, or remove the adapter to read the base alone",
    ),
    NotApplied(
        file="shard-*-model-*-of-*.safetensors",
        setting="",
        remedy="a distributed checkpoint is not read; save the model with save_pretrained",
    ),
    NotApplied(
        file="config.json",
        setting="quantization_config",
        remedy="quantised weights are not read; take the model in float32, bfloat16 or float16",
    ),
    NotApplied(
        file="config.json",
        setting="transformers_weights",
        remedy="weights are read from model.safetensors or its shards; rename the file, and "
        "remove the setting",
    ),
    NotApplied(
        file="config.json",
        setting="configuration_files",
        remedy="settings are read from config.json alone; put them there, and remove the setting",
    ),
    *(
        NotApplied(file="sentence_*_config.json", setting=setting, remedy=PLAIN_LOADING)
        for setting in (
            "model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args",
            "config_kwargs", "tokenizer_name_or_path",
        )
    ),
)  # fmt: skip


def require_nothing_unapplied(folder: Path) -> None:
    """Refuse a folder whose vectors elsewhere are not those of its weights and settings alone."""
    for entry in NOT_APPLIED:
        for file in sorted(folder.glob(entry.file)):
            if not entry.setting:
                raise DataError(f"{file}: {entry.remedy}")
            for value in _values_of(entry.setting, read_settings(file)):
                if (
                    value not in (None, {}, [])
                    or entry.setting == "quantization_config"
                ):
                    raise DataError(
                        f"{file}: {entry.setting} = {value!r:.80}; {entry.remedy}"
                    )


def _values_of(setting: str, settings: Any) -> Iterator[Any]:
    """The values of a setting that are not null, at every depth of nested settings."""
    if not isinstance(settings, Mapping):
        return
    for name, value in settings.items():
        if name == setting and value is not None:
            yield value
        yield from _values_of(setting, value)


# Files


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON object from a file; an empty one if there is no such file."""
    if not path.is_file():
        require_unchanged(path, NO_FILE)
        return {}
    require_no_pointer(path)
    try:
        content = parse_json(read_bytes(path), finite=False)
    except ValueError as error:
        raise DataError(
            f"{path}: wanted JSON, found {error}; fetch the file again"
        ) from error
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: wanted a JSON object, found a {type(content).__name__}"
        )
    return content


def require_weights(name: str, path: Path, wanted: str | None, digest: str) -> None:
    """Refuse weights whose sha256 is not the pinned one."""
    if wanted not in (None, digest):
        raise DataError(
            f"{name}: {path} has sha256 {digest}, wanted {wanted}; {REMEDY}"
        )


def require_no_pointer(path: Path) -> None:
    """Refuse the text that git-lfs leaves in the place of a file that was not downloaded."""
    with path.open("rb") as file:
        if file.read(len(LFS_POINTER)) == LFS_POINTER:
            raise DataError(
                f"{path}: wanted the file itself, found a git-lfs pointer to it; get it with "
                "`git lfs pull`, or fetch the model again"
            )


def module_entries(folder: Path) -> tuple[tuple[str, str], ...]:
    """The type of each module that `modules.json` lists and its folder below this one.

    None where there is no such file.
    """
    file = folder / MODULES_FILE
    if not file.is_file():
        return ()
    require_no_pointer(file)
    try:
        listed = parse_json(read_bytes(file))
        entries = tuple((str(entry["type"]), str(entry["path"])) for entry in listed)
        names = [entry.get("name", number) for number, entry in enumerate(listed)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{file}: wanted type and path of each module, found {error!r}"
        ) from error
    for _, path in entries:
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise DataError(f"{file}: wanted folders inside this one, found {path}")
    if len(set(map(repr, names))) < len(
        names
    ):  # of which the library would keep the last
        raise DataError(
            f"{file}: wanted a name of its own for each module, found {names}"
        )
    return entries


def transformer_folder(folder: Path) -> Path:
    """The folder of the checkpoint itself: `0_Transformer` of a folder whose modules.json says so.

    sentence-transformers wrote such folders up to its version 1.
    """
    entries = module_entries(folder)
    if not entries:
        return folder
    type_, path = entries[0]
    if type_.endswith(f".{STATIC_MODULE}"):
        raise DataError(
            f"{folder / MODULES_FILE}: wanted a transformer as its first module, found a "
            f"{STATIC_MODULE}; take the pooling native"
        )
    return folder / path


def weights_files(folder: Path) -> tuple[Path, ...]:
    """The files that hold the weights, an index before its shards.

    Raises DataError where other programs would apply more than these weights, too.
    """
    if not folder.is_dir():
        raise AssetMissing(
            f"no checkpoint folder at {folder}; fetch it, or name another folder"
        )
    require_nothing_unapplied(folder)
    for name in (SAFETENSORS, INDEX, PICKLED):
        if (folder / name).is_file():
            require_unchanged(folder, name)
            files = (folder / name, *(_shards(folder / name) if name == INDEX else ()))
            for file in files:
                require_no_pointer(file)
            return files
    wanted = f"wanted {SAFETENSORS}, {INDEX} or {PICKLED}"
    if (folder / PICKLED_INDEX).is_file():
        raise DataError(
            f"{folder}: {wanted}, found pickles in shards ({PICKLED_INDEX}), which are not read; "
            "save the model with save_pretrained, as safetensors"
        )
    others = sorted(
        file.name for file in folder.iterdir() if file.suffix in OTHER_WEIGHTS
    )
    if others:
        raise DataError(
            f"{folder}: {wanted}, found {', '.join(others[:3])}, which is not read; save the model "
            "with save_pretrained, as safetensors"
        )
    raise DataError(f"{folder}: no weights; {wanted}; fetch the whole checkpoint")


def digests_of(name: str, folder: Path, weights_sha256: str | None) -> dict[str, str]:
    """The digests of a checkpoint's files. Raises DataError for other weights than the pinned."""
    weights, config = weights_files(folder), folder / "config.json"
    if not config.is_file():
        raise DataError(
            f"{folder}: wanted a config.json in it; fetch the whole checkpoint"
        )
    digests = {
        "weights": digest_of_files(weights),
        "tokenizer": digest_of(
            {file.name: sha256_of(file) for file in tokenizer_files(folder)}
        ),
        "config": sha256_of(config),
    }
    require_weights(name, weights[0], weights_sha256, digests["weights"])
    return digests


def parameters_of(folder: Path) -> int | None:
    """The number of parameters in a checkpoint, without integer buffers; None if it is pickled."""
    from safetensors import SafetensorError, safe_open

    files = [file for file in weights_files(folder) if file.suffix == ".safetensors"]
    try:
        opened: list[Any] = [safe_open(file, "numpy") for file in files]
    except SafetensorError:  # `load` says what is wrong with it
        return None
    tensors = [file.get_slice(name) for file in opened for name in file.keys()]  # noqa: SIM118
    return sum(prod(t.get_shape()) for t in tensors if "F" in t.get_dtype()) or None


def _shards(index: Path) -> tuple[Path, ...]:
    placed = read_settings(index).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise DataError(
            f"{index}: wanted a weight_map from tensors to files, found none"
        )
    shards = tuple(
        index.parent / name for name in sorted(set(map(str, placed.values())))
    )
    for shard in shards:
        if (
            shard.parent != index.parent
            or shard.suffix != ".safetensors"
            or not shard.is_file()
        ):
            raise DataError(
                f"{index}: wanted {shard.name} beside it; fetch the whole checkpoint"
            )
    return shards


def tokenizer_files(folder: Path) -> tuple[Path, ...]:
    """Every file of the folder that the tokenizer may depend on, by name.

    Raises DataError where none holds a vocabulary: transformers would make an empty
    tokenizer.
    """
    kind = read_settings(folder / "tokenizer_config.json").get("tokenizer_class")
    if kind not in WITHOUT_VOCABULARY and not _matching(folder, VOCABULARY_FILES):
        raise DataError(
            f"{folder}: no tokenizer; wanted tokenizer.json or a vocabulary file"
        )
    files = tuple(sorted(_matching(folder, TOKENIZER_FILES)))
    for file in files:
        require_no_pointer(file)
    require_unchanged(folder / "tokenizer files", repr([file.name for file in files]))
    return files


@contextmanager
def settings_and_tokenizer(folder: Path) -> Iterator[Path]:
    """A temporary folder for libraries that read one themselves.

    It holds copies of config.json and of the tokenizer's files as they are digested
    here, and links to all else.
    """
    copied = {folder / "config.json", *tokenizer_files(folder)}
    with TemporaryDirectory(prefix="harness-") as scratch:
        for file in folder.iterdir():
            place = Path(scratch) / file.name
            if file in copied:
                place.write_bytes(read_bytes(file))
            else:
                place.symlink_to(file.absolute())
        yield Path(scratch)


def vocabulary_of(folder: Path) -> dict[str, int]:
    """The tokens of a tokenizer and their ids; none where no file lists them as it should."""
    file, lines = folder / "tokenizer.json", folder / "vocab.txt"
    try:
        if not file.is_file():
            tokens = read_bytes(lines).decode().splitlines()
            return {token: number for number, token in enumerate(tokens)}
        settings = read_settings(file)
        added = {token["content"]: token["id"] for token in settings["added_tokens"]}
        return {**added, **settings["model"]["vocab"]}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


# Transformers takes BERT's rules from the second file and others' from the first.
RULES = {
    "tokenizer.json": ("normalizer", "pre_tokenizer", "post_processor"),
    "tokenizer_config.json": (
        "do_lower_case",
        "strip_accents",
        "tokenize_chinese_chars",
    ),
}


def rules_digest(folder: Path) -> str:
    """The digest of case, accents, splitting and special tokens; empty without tokenizer.json."""
    if not (folder / "tokenizer.json").is_file():
        return ""
    files = {name: read_settings(folder / name) for name in RULES}
    return digest_of(
        {key: files[name].get(key) for name, keys in RULES.items() for key in keys}
    )


def require_no_sampling(file: Path, tokenizer: Any) -> None:
    """Refuse a tokenizer of the library tokenizers that splits a text at random."""
    if dropout := getattr(tokenizer.model, "dropout", None):  # of byte pairs
        raise DataError(
            f"{file}: dropout = {dropout:g} splits a text at random, and a text is encoded once; "
            "set dropout to null"
        )


def _matching(folder: Path, patterns: Iterable[str]) -> set[Path]:
    return {
        file for pattern in patterns for file in folder.glob(pattern) if file.is_file()
    }


def read_tensors(folder: Path, cache: Path) -> dict[str, Any]:
    """Every tensor of the checkpoint in a folder, by its name there."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    files = weights_files(folder)
    if files[0].name == PICKLED:
        files = (convert_once(cache, files[0], _unpickle),)
    tensors: dict[str, Any] = {}
    for file in files:
        if file.name == INDEX:
            continue
        try:
            tensors |= load(read_bytes(file))  # a memory map would show later changes
        except SafetensorError as error:
            raise DataError(
                f"{file}: wanted safetensors, found {error}; fetch it again"
            ) from error
    return tensors


def convert_once(
    cache: Path, file: Path, convert: Callable[[Path, Path], None]
) -> Path:
    """The safetensors form of a file, in the cache under its digest: complete or absent.

    `convert` writes a scratch file. A seal next to the form holds the digests of file
    and form, and is compared each time: a damaged one, and one of another file, is made
    again. Of two processes the last wins, with equal bytes.
    """
    make_folder(cache, CACHE_SETTING)
    source = sha256_of(file)
    target = cache / "converted" / f"{source}.safetensors"
    seal = target.with_suffix(SEAL_SUFFIX)
    form = read_sha256(target) if target.exists() and seal.exists() else ""
    if not form or seal.read_bytes() != _seal(source, form):
        with replacing(target) as scratch:
            convert(file, scratch)
            form = read_sha256(scratch)
            write_atomically(seal, _seal(source, form))
    require_unchanged(target, form)
    return target


def _seal(source: str, form: str) -> bytes:
    return digest_of({"source": source, "form": form}).encode()


# What torch raises, by experiment, over a pickle that it cannot or must not load.
UNREADABLE_PICKLE = (
    pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, TypeError,
    AttributeError, AssertionError,
)  # fmt: skip


def _unpickle(path: Path, new: Path) -> None:
    import torch
    from safetensors.torch import save_file

    try:
        content = torch.load(
            BytesIO(read_bytes(path)), map_location="cpu", weights_only=True
        )
    except UNREADABLE_PICKLE as error:
        # Nothing of torch's own words: they advise to trust the file, and quote it.
        named = re.search(r"GLOBAL ([A-Za-z_][\w.]*) ", str(error), re.ASCII)
        found = f"a use of {named[1]}" if named else "something else, or a damaged file"
        raise DataError(
            f"{path}: wanted a pickle of nothing but tensors, found {found}; it was not loaded: "
            "take a safetensors checkpoint, or fetch it again"
        ) from error
    if not isinstance(content, Mapping) or not all(
        map(torch.is_tensor, content.values())
    ):
        raise DataError(
            f"{path}: wanted tensors by name, found a {type(content).__name__}"
        )
    # Clones, because safetensors stores no views, and checkpoints tie weights to each
    # other.
    save_file(
        {str(name): tensor.clone().contiguous() for name, tensor in content.items()},
        new,
    )


def sentence_config(folder: Path) -> Path:
    """The file in which sentence-transformers keeps a transformer's settings, under any name."""
    named = (folder / f"sentence_{kind}_config.json" for kind in SENTENCE_KINDS)
    file = next(filter(Path.is_file, named), folder / "sentence_bert_config.json")
    require_unchanged(folder / "sentence settings", file.name)
    return file


def maximum_length(name: str, folder: Path, given: int | None = None) -> int:
    """The length that texts are cut to, special tokens included: as given, else as configured."""
    config = read_settings(folder / "config.json")
    limit = config.get("max_position_embeddings", config.get("n_positions"))
    if not isinstance(limit, int) or limit < 1:
        limit = None
    elif config.get("model_type") in OFFSET_POSITIONS:
        padding = config.get("pad_token_id")
        limit -= (1 if padding is None else int(padding)) + 1
    if given is not None:
        if limit is None or given <= limit:
            return given
        raise UsageError(
            f"{name}: wanted {given} tokens, the checkpoint takes {limit} at most"
        )
    stated = (
        read_settings(sentence_config(folder)).get("max_seq_length"),
        read_settings(folder / "tokenizer_config.json").get("model_max_length"),
        limit,
    )
    length = next(
        (n for n in stated if isinstance(n, int) and 0 < n < SANE_LENGTH), None
    )
    if length is None:
        raise UsageError(
            f"{name}: the checkpoint states no maximum length; give one, as in {name}:512"
        )
    return length if limit is None else min(length, limit)


# Of a config.json: what names and stores a model, and changes nothing that it computes.
HARMLESS_SETTINGS = frozenset(
    {"_name_or_path", "architectures", "dtype", "gradient_checkpointing", "torch_dtype"}
    | {"transformers_version", "use_cache"}
)


def config_digest(config: Mapping[str, Any]) -> str:
    """The digest of a config.json, whatever its order, without what changes no vector."""
    return digest_of(
        {name: value for name, value in config.items() if name not in HARMLESS_SETTINGS}
    )


@dataclass(frozen=True)
class Fingerprint:
    """What a checkpoint's other files than its weights must be; None is not pinned.

    Args:
        vocabulary: The digest of its tokens and their ids.
        config: The digest of its settings, as `config_digest` takes it.
        max_length: The maximum length that the checkpoint states itself, in tokens.
        rules: The digest of how its tokenizer splits text, as `rules_digest` takes it;
            it is not compared in a folder without a tokenizer.json.
    """

    vocabulary: str
    config: str | None = None
    max_length: int | None = None
    rules: str | None = None

    def require(self, name: str, folder: Path) -> None:
        """Refuse a folder with other tokens, settings, rules, or another maximum length."""
        settings = config_digest(read_settings(folder / "config.json"))
        for what, wanted, actual in (
            (
                "a vocabulary with digest",
                self.vocabulary,
                digest_of(vocabulary_of(folder)),
            ),
            ("settings with digest", self.config, settings),
            ("a maximum length of", self.max_length, maximum_length(name, folder)),
            (
                "tokenizer rules with digest",
                self.rules,
                rules_digest(folder) or self.rules,
            ),
        ):
            if wanted not in (None, actual):
                raise DataError(
                    f"{name}: {folder} has {what} {str(actual)[:12]}, wanted {str(wanted)[:12]}; "
                    f"{REMEDY}"
                )


# bert-base-uncased, and every encoder with its vocabulary: SimCSE's and SBERT's of
# BERT, MiniLM.
BERT_UNCASED = Fingerprint(
    "f21ba7d9e039a58203c4dcbab3b89aacd44946d8dba15c12b61666cf93b786c1"
)

# Case, accents, a clitic, digits, currency, a dash, scripts, an emoji, and a rare word
# that splits.
GOLDEN_SENTENCE = (
    "Zoë's naïve CAFÉ-owner didn't pay $1,234.50 — for 東京 sushi 🙂 "
    "(antidisestablishmentarianism)!"
)
