"""BERT in TensorFlow's files, converted once into a checkpoint folder of transformers.

Two layouts are read, without TensorFlow:

* an archive as Google released them from 2018 to 2020: `bert_config.json`, `vocab.txt`
  and a tensor bundle such as `bert_model.ckpt`;
* a SavedModel of TensorFlow 1: `variables/variables` is the bundle, `assets/vocab.txt`
  the vocabulary, and `assets/model.json`, where there is one, says by `doLowerCase`
  whether texts are put into lower case.

The variables are compared with those that a BERT of these settings has, by name and
shape. A linear layer is stored transposed there. The settings and the tokenizer are
written as Hugging Face wrote those of google-bert/bert-base-uncased@86b5e093, so that the
conversion of that model has the same config.json, tokenizer.json and vocab.txt, byte for
byte. Importing this module does not import torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import digest_of, sha256_of
from harness.core.errors import CACHE_SETTING, DataError
from harness.core.files import folder_made_whole, make_folder, parse_json
from harness.core.interfaces import EncoderConfig
from harness.data.places import Places
from harness.encoders.checkpoint import (
    CONFIG_FILE,
    INDEX,
    MODULES_FILE,
    PICKLED,
    SAFETENSORS,
    VOCABULARY_FILE,
    has_capitals,
    read_settings,
)
from harness.encoders.tensor_bundle import INDEX_SUFFIX, TensorBundle

SETTINGS_FILE = "bert_config.json"
SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")
SAVED_VARIABLES = Path("variables", "variables")
SAVED_VOCABULARY = Path("assets", VOCABULARY_FILE)
SAVED_CASE = Path("assets", "model.json")

# Part of the digest under which a conversion is kept: change it with any change that
# writes other files.
CONVERSION_VERSION = "1"

# Where a folder comes from


def is_tensorflow_folder(folder: Path) -> bool:
    """Whether a folder holds a model in TensorFlow's files, and none that transformers opens."""
    of_others = (SAFETENSORS, INDEX, PICKLED, MODULES_FILE)
    if not folder.is_dir() or any((folder / name).exists() for name in of_others):
        return False
    names = (SETTINGS_FILE, f"{SAVED_VARIABLES}{INDEX_SUFFIX}", *SAVED_MODEL_FILES)
    if any((folder / name).exists() for name in names):
        return True
    return any(folder.glob("*.ckpt*.*"))


def readable_files(config: EncoderConfig, places: Places) -> Path:
    """The folder or file of an encoder, as its configuration reads it.

    A folder of TensorFlow's files is converted at the first call; the cache keeps the
    conversion. Raises AssetMissing, and DataError for files that are not a whole BERT.
    """
    return readable_folder(places.encoder(config), places.cache)


def readable_folder(path: Path, cache: Path) -> Path:
    """The path itself, or the conversion of a folder of TensorFlow's files."""
    if not is_tensorflow_folder(path):
        return path
    conversion = _place_of_conversion(path, cache)
    if not conversion.exists():
        make_folder(cache, CACHE_SETTING)
        with folder_made_whole(conversion) as scratch:
            convert(path, scratch)
    return conversion


def read_before(path: Path, cache: Path) -> Path | None:
    """The path, or its conversion; None where that is not made yet. It writes nothing."""
    if not is_tensorflow_folder(path):
        return path
    conversion = _place_of_conversion(path, cache)
    return conversion if conversion.exists() else None


def _place_of_conversion(folder: Path, cache: Path) -> Path:
    """The folder of a conversion, which is named after the digests of what it is made of."""
    files = TensorflowFiles.of(folder)
    digests = {
        path.relative_to(folder).as_posix(): sha256_of(path) for path in files.paths
    }
    digest = digest_of({"version": CONVERSION_VERSION, "files": digests})
    return cache / "converted" / digest


@dataclass(frozen=True, kw_only=True)
class TensorflowFiles:
    """The files of a BERT in TensorFlow's layout.

    Attributes:
        folder: The folder.
        variables: The tensor bundle, without the suffix of its index.
        vocabulary: The word pieces, one a line.
        settings: `bert_config.json`, where there is one.
        case: The file that says whether texts are put into lower case, where there is one.
    """

    folder: Path
    variables: Path
    vocabulary: Path
    settings: Path | None
    case: Path | None

    @classmethod
    def of(cls, folder: Path) -> TensorflowFiles:
        """The files of a folder. Raises DataError, which says which file is missing."""
        is_saved_model = (folder / SAVED_VARIABLES.parent).is_dir() or any(
            (folder / name).exists() for name in SAVED_MODEL_FILES
        )
        settings: Path | None = folder / SETTINGS_FILE
        case: Path | None = None
        if is_saved_model:
            variables = folder / SAVED_VARIABLES
            vocabulary = folder / SAVED_VOCABULARY
            if settings is not None and not settings.is_file():
                settings = None
            if (folder / SAVED_CASE).is_file():
                case = folder / SAVED_CASE
        else:
            variables = _bundle_in(folder)
            vocabulary = folder / VOCABULARY_FILE
        wanted = {
            "variables": variables.with_name(variables.name + INDEX_SUFFIX),
            "vocabulary": vocabulary,
            "settings": settings,
        }
        for content, file in wanted.items():
            if file is not None and not file.is_file():
                raise DataError(
                    f"{folder}: wanted {file.relative_to(folder)}, the {content} of a BERT in "
                    "TensorFlow's files, found no such file; take all files of its archive"
                )
        return cls(
            folder=folder,
            variables=variables,
            vocabulary=vocabulary,
            settings=settings,
            case=case,
        )

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every file that a conversion is made of."""
        bundle = self.variables.parent.glob(f"{self.variables.name}.*")
        read = [path for path in sorted(bundle) if path.suffix != ".meta"]
        others = (self.vocabulary, self.settings, self.case)
        return (*read, *(path for path in others if path is not None))


def _bundle_in(folder: Path) -> Path:
    """The only tensor bundle of a folder, without the suffix of its index."""
    indices = sorted(folder.glob(f"*{INDEX_SUFFIX}"))
    if len(indices) > 1:
        names = ", ".join(path.name for path in indices[:3])
        raise DataError(
            f"{folder}: wanted one checkpoint of TensorFlow, found {len(indices)}: {names}; leave "
            "the files of one in the folder"
        )
    return indices[0].with_suffix("") if indices else folder / "bert_model.ckpt"


# Settings

SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
# Those with which Google's programs trained, and their values without a file.
OTHER_SETTINGS: Mapping[str, Any] = {
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}
# What multilingual models state of a pooler and a direction that the code does not read.
UNREAD_SETTINGS = re.compile(r"directionality|pooler_(\w+)")
ACTIVATIONS = ("gelu", "relu", "tanh")  # that transformers computes by the same name
HEAD_WIDTH = 64  # of every BERT that Google released


def _settings_of_file(file: Path) -> dict[str, Any]:
    """The settings in a `bert_config.json`. Raises DataError for one that is not understood."""
    stated = read_settings(file)
    settings: dict[str, Any] = {}
    for name in SIZES:
        value = stated.pop(name, None)
        if type(value) is not int or value < 1:
            raise DataError(
                f"{file}: wanted a number of 1 or more as {name}, found {value!r:.40}; take the "
                "file of the checkpoint's archive"
            )
        settings[name] = value
    for name, usual in OTHER_SETTINGS.items():
        settings[name] = stated.pop(name, usual)
    for name in stated:
        if not UNREAD_SETTINGS.fullmatch(name):
            raise DataError(
                f"{file}: wanted settings of a BERT, found {name!r:.40} = {stated[name]!r:.40}; "
                "only BERT is read from TensorFlow's files: save another model with transformers"
            )
    if settings["hidden_act"] not in ACTIVATIONS:
        raise DataError(
            f"{file}: wanted hidden_act {', '.join(ACTIVATIONS)}, found "
            f"{settings['hidden_act']!r:.40}; save the model with transformers"
        )
    if settings["hidden_size"] % settings["num_attention_heads"]:
        raise DataError(
            f"{file}: wanted a hidden_size that is a multiple of num_attention_heads, found "
            f"{settings['hidden_size']} and {settings['num_attention_heads']}; take the file of "
            "the checkpoint's archive"
        )
    return settings


def _settings_of_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The settings that the shapes of variables tell; a head has 64 dimensions.

    Raises ValueError where the variables are not those of a BERT.
    """
    matrices = {
        "word_embeddings": "bert/embeddings/word_embeddings",
        "position_embeddings": "bert/embeddings/position_embeddings",
        "token_type_embeddings": "bert/embeddings/token_type_embeddings",
        "intermediate": "bert/encoder/layer_0/intermediate/dense/kernel",
    }
    sizes = {}
    for key, name in matrices.items():
        shape = shapes.get(name, ())
        if len(shape) != 2:
            raise ValueError(f"no matrix {name}")
        sizes[key] = shape
    width = sizes["word_embeddings"][1]
    if not width or width % HEAD_WIDTH:
        raise ValueError(
            f"{width} dimensions, no multiple of the {HEAD_WIDTH} of a head, and no "
            f"{SETTINGS_FILE} that states the number of heads"
        )
    layer = re.compile(r"bert/encoder/layer_(\d+)/")
    layers = {int(match[1]) for name in shapes if (match := layer.match(name))}
    return {
        "vocab_size": sizes["word_embeddings"][0],
        "hidden_size": width,
        "num_hidden_layers": max(layers) + 1,
        "num_attention_heads": width // HEAD_WIDTH,
        "intermediate_size": sizes["intermediate"][1],
        "max_position_embeddings": sizes["position_embeddings"][0],
        "type_vocab_size": sizes["token_type_embeddings"][0],
        **OTHER_SETTINGS,
    }


# Variables

# The names of TensorFlow's scopes around a model.
SCOPES = re.compile(r"^(module(_\d+)?/)+")
# The states of optimisers, and the heads of Google's programs for tasks: left out.
LEFT_OUT = re.compile(
    r"(^|/)(global_step|adam_[mv]|lamb_[mv]|Adam(_\d+)?|beta[12]_power)$"
    r"|^(output_weights|output_bias)$|^cls/squad/"
)
HINTS = {  # words in the names of other models' variables
    "_CHECKPOINTABLE_OBJECT_GRAPH": "a model of TensorFlow 2",
    ".ATTRIBUTES": "a model of TensorFlow 2",
    "encoder/transformer/group_": "ALBERT",
    "embedding_hidden_mapping_in": "ALBERT",
    "electra/": "ELECTRA",
    "model/transformer/": "XLNet",
}


def bert_variables(
    settings: Mapping[str, Any],
) -> tuple[dict[str, tuple[int, ...]], tuple[dict[str, tuple[int, ...]], ...]]:
    """The variables of a BERT by name, and their shapes: of its encoder, and of optional parts.

    The parts are the pooler, the head of masked words, and that of the next sentence.
    """
    width, inner = settings["hidden_size"], settings["intermediate_size"]
    vocabulary = settings["vocab_size"]

    def linear(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}

    def norm(name: str) -> dict[str, tuple[int, ...]]:
        return {f"{name}/LayerNorm/{part}": (width,) for part in ("gamma", "beta")}

    embeddings = "bert/embeddings"
    encoder: dict[str, tuple[int, ...]] = {
        f"{embeddings}/word_embeddings": (vocabulary, width),
        f"{embeddings}/position_embeddings": (
            settings["max_position_embeddings"],
            width,
        ),
        f"{embeddings}/token_type_embeddings": (settings["type_vocab_size"], width),
        **norm(embeddings),
    }
    for number in range(settings["num_hidden_layers"]):
        layer = f"bert/encoder/layer_{number}"
        for part in ("query", "key", "value"):
            encoder |= linear(f"{layer}/attention/self/{part}", width, width)
        encoder |= linear(f"{layer}/attention/output/dense", width, width)
        encoder |= norm(f"{layer}/attention/output")
        encoder |= linear(f"{layer}/intermediate/dense", width, inner)
        encoder |= linear(f"{layer}/output/dense", inner, width)
        encoder |= norm(f"{layer}/output")
    masked_words = {
        **linear("cls/predictions/transform/dense", width, width),
        **norm("cls/predictions/transform"),
        "cls/predictions/output_bias": (vocabulary,),
    }
    next_sentence = {
        "cls/seq_relationship/output_weights": (2, width),
        "cls/seq_relationship/output_bias": (2,),
    }
    parts = (linear("bert/pooler/dense", width, width), masked_words, next_sentence)
    return encoder, parts


def present_name(variable: str) -> str:
    """The name that transformers has today for a variable of Google's BERT.

    Examples:
        >>> present_name("bert/encoder/layer_0/output/LayerNorm/gamma")
        'bert.encoder.layer.0.output.LayerNorm.weight'
    """
    name = variable.replace("/", ".").replace("layer_", "layer.")
    name = re.sub(r"_embeddings$", "_embeddings.weight", name)
    name = re.sub(r"\.(kernel|gamma|output_weights)$", ".weight", name)
    return re.sub(r"\.(beta|output_bias)$", ".bias", name)


def _variables(bundle: TensorBundle) -> dict[str, str]:
    """The names in a bundle of what may be variables of a BERT, by their names without scope.

    Raises ValueError for a name that stands there twice.
    """
    stored_names: dict[str, str] = {}
    for stored_name in bundle.tensors:
        name = SCOPES.sub("", stored_name)
        if LEFT_OUT.search(name):
            continue
        if name in stored_names:
            raise ValueError(f"{name} twice")
        stored_names[name] = stored_name
    return stored_names


def _require_bert(
    shapes: Mapping[str, tuple[int, ...]], settings: Mapping[str, Any]
) -> None:
    """Raise ValueError unless the variables are those of a BERT of these settings."""
    if settings["num_hidden_layers"] > len(shapes):
        raise ValueError(
            f"{len(shapes)} variables for {settings['num_hidden_layers']} layers"
        )
    encoder, parts = bert_variables(settings)
    wanted = dict(encoder)
    for part in parts:
        if shapes.keys() & part.keys():  # a part is there as a whole
            wanted |= part
    foreign = sorted(shapes.keys() - wanted.keys())
    if foreign:
        hints = [hint for word, hint in HINTS.items() if word in " ".join(foreign)]
        description = f", of {hints[0]}," if hints else ""
        raise ValueError(
            f"{foreign[0]}{description} and {len(foreign) - 1} more that it has not"
        )
    for name, shape in wanted.items():
        if name not in shapes:
            raise ValueError(f"no {name}")
        if shapes[name] != shape:
            raise ValueError(
                f"{name} of shape {shapes[name]}, where its settings give {shape}"
            )


# The tokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _read_vocabulary(file: Path) -> list[str]:
    """The word pieces of a file, in their order. Raises DataError for another kind of file."""
    try:
        lines = file.read_bytes().decode().split("\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}: wanted a word piece of UTF-8 on each line, found {error.reason}; get the "
            "file again"
        ) from None
    if lines[-1] == "":
        lines.pop()
    pieces = [line.strip() for line in lines]
    missing = [token for token in SPECIAL_TOKENS if token not in pieces]
    if missing:
        raise DataError(
            f"{file}: wanted the word pieces of a BERT, found no {', '.join(missing)} among "
            f"{len(pieces):,}; take the file of the checkpoint's archive"
        )
    return pieces


def _lower_cases(case: Path | None, pieces: Iterable[str]) -> bool:
    """Whether texts are put into lower case: as a file says, else as the vocabulary shows.

    A vocabulary of texts with capitals has pieces with capitals.
    """
    if case is not None:
        try:
            stated = parse_json(case.read_bytes()).get("doLowerCase")
        except (ValueError, AttributeError):
            stated = None
        if not isinstance(stated, bool):
            raise DataError(
                f"{case}: wanted doLowerCase = true or false, found {stated!r:.40}; correct it, or "
                "remove the file"
            )
        return stated
    return not has_capitals(pieces)


def _tokenizer(pieces: Iterable[str], lower_cases: bool) -> dict[str, Any]:
    """The content of tokenizer.json: BERT's rules, and [CLS] text [SEP] around a text."""
    ids = {piece: number for number, piece in enumerate(pieces)}
    added = []
    for token in sorted(SPECIAL_TOKENS, key=ids.__getitem__):
        added.append(
            {
                "id": ids[token],
                "special": True,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            }
        )

    def special(token: str, type_id: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": type_id}}

    first = [special("[CLS]", 0), {"Sequence": {"id": "A", "type_id": 0}}]
    first.append(special("[SEP]", 0))
    second = [{"Sequence": {"id": "B", "type_id": 1}}, special("[SEP]", 1)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,  # as the next rule says
            "lowercase": lower_cases,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": first,
            "pair": [*first, *second],
            "special_tokens": {
                token: {"id": token, "ids": [ids[token]], "tokens": [token]}
                for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
    }


# The conversion


def convert(folder: Path, target: Path) -> None:
    """Write the checkpoint folder of transformers for a folder of TensorFlow's files.

    Args:
        folder: An archive of Google, or a SavedModel. Without `bert_config.json` the
            settings are those that the shapes tell, and the number of heads is the
            width divided by 64, as in every BERT that Google released.
        target: An empty folder, which gets `config.json`, `model.safetensors`,
            `tokenizer.json`, `tokenizer_config.json` and `vocab.txt`.

    Raises:
        DataError: A file is missing, damaged, or of another model.
    """
    from safetensors.numpy import save_file

    files = TensorflowFiles.of(folder)
    pieces = _read_vocabulary(files.vocabulary)
    lower_cases = _lower_cases(files.case, pieces)
    stated_settings = _settings_of_file(files.settings) if files.settings else None
    bundle = TensorBundle.open(files.variables)
    try:
        stored_names = _variables(bundle)
        shapes = {
            name: bundle.tensors[stored_name].shape
            for name, stored_name in stored_names.items()
        }
        settings = stated_settings or _settings_of_shapes(shapes)
        _require_bert(shapes, settings)
    except ValueError as error:
        of_settings = f" with the settings of {SETTINGS_FILE}" if files.settings else ""
        raise DataError(
            f"{files.variables}{INDEX_SUFFIX}: wanted the variables of a BERT{of_settings}, found "
            f"{error}; take all files of one archive, or save another model with transformers"
        ) from None
    if len(pieces) != settings["vocab_size"]:
        raise DataError(
            f"{files.vocabulary}: wanted {settings['vocab_size']:,} word pieces, one for each row "
            f"of the embeddings, found {len(pieces):,}; take the file of the checkpoint's archive"
        )
    tensors: dict[str, Float32[np.ndarray, "..."]] = {}
    for name, stored_name in stored_names.items():
        array = bundle.read(stored_name)
        if name.endswith("/kernel"):
            array = np.ascontiguousarray(array.T)
        tensors[present_name(name)] = array
    save_file(tensors, target / SAFETENSORS, metadata={"format": "pt"})
    config = {
        "architectures": [_class_of(shapes)],
        "model_type": "bert",
        **settings,
        "layer_norm_eps": 1e-12,
        "pad_token_id": pieces.index("[PAD]"),
        # What transformers wrote besides into the config.json of bert-base-uncased.
        "gradient_checkpointing": False,
        "position_embedding_type": "absolute",
        "transformers_version": "4.6.0.dev0",
        "use_cache": True,
    }
    config_text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    tokenizer = _tokenizer(pieces, lower_cases)
    tokenizer_text = json.dumps(tokenizer, separators=(",", ":"), ensure_ascii=False)
    limit = settings["max_position_embeddings"]
    case = {"do_lower_case": lower_cases, "model_max_length": limit}
    texts = {
        CONFIG_FILE: config_text.encode(),
        "tokenizer.json": tokenizer_text.encode(),
        "tokenizer_config.json": json.dumps(case).encode(),
        VOCABULARY_FILE: files.vocabulary.read_bytes(),
    }
    for name, content in texts.items():
        (target / name).write_bytes(content)


def _class_of(variables: Iterable[str]) -> str:
    """The class of transformers that has the heads among some variables."""
    names = " ".join(variables)
    if "cls/predictions" not in names:
        return "BertModel"
    has_both = "cls/seq_relationship" in names
    return "BertForPreTraining" if has_both else "BertForMaskedLM"
