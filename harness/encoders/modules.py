"""The modules of a sentence-transformers folder, as its files describe them.

`modules.json` names modules and their folders, each with a `config.json`; prompts and
similarity function are in `config_sentence_transformers.json`. `SETTINGS` lists what
these files may say: everything that sentence-transformers would obey is read here or
refused by name. `kernels/modules.py` computes with the modules, `module_writer.py`
writes them. Importing this module does not import torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.digests import digest_of, digest_of_files
from harness.core.errors import DataError, UsageError
from harness.encoders.architectures import own_pooling_is
from harness.encoders.checkpoint import (
    MODULES_FILE,
    STATIC_MODULE,
    ModuleEntry,
    module_entries,
    weights_files,
)
from harness.encoders.checkpoint_settings import (
    CONFIG_FILE,
    read_settings,
    sentence_settings_file,
)
from harness.encoders.subword_vectors import is_subword_folder
from harness.transforms.pooling import MEAN, NATIVE

MODEL_FILE = "config_sentence_transformers.json"
# The package whose modules are read; modules of another package are foreign code.
LIBRARY = "sentence_transformers."

TRANSFORMER = "Transformer"
WEIGHTED_LAYERS = "WeightedLayerPooling"
POOLING = "Pooling"
DENSE = "Dense"
LAYER_NORM = "LayerNorm"
NORMALIZE = "Normalize"
DROPOUT = "Dropout"
WITH_WEIGHTS = (WEIGHTED_LAYERS, DENSE, LAYER_NORM)
NEED_SETTINGS = (WEIGHTED_LAYERS, POOLING, DENSE, LAYER_NORM)
# The sequences of modules that are read: a transformer with its pooling, or a table of
# vectors, and then maps of vectors.
MODULE_SEQUENCE = re.compile(
    rf"({TRANSFORMER}( {WEIGHTED_LAYERS})? {POOLING}|{STATIC_MODULE})"
    rf"( ({DENSE}|{LAYER_NORM}|{NORMALIZE}|{DROPOUT}))*"
)

# The settings that switch the ways of pooling on, in the order in which
# sentence-transformers concatenates their vectors.
POOLING_MODES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
LINEAR = "torch.nn.modules.linear.Identity"
TANH = "torch.nn.modules.activation.Tanh"
ACTIVATIONS = (
    LINEAR,
    TANH,
    "torch.nn.modules.activation.ReLU",
    "torch.nn.modules.activation.GELU",
    "torch.nn.modules.activation.SiLU",
    "torch.nn.modules.activation.Sigmoid",
    "torch.nn.modules.activation.LeakyReLU",
)

# Kinds of values that settings have.


def _is_flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_size(value: Any) -> bool:
    return _is_count(value) and value > 0


def _is_size_or_null(value: Any) -> bool:
    return value is None or _is_size(value)


def _is_name(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_one_or_more_names(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    is_list = isinstance(names, list) and len(names) > 0
    return is_list and all(isinstance(name, str) and name for name in names)


def _is_prompts(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and all(map(_is_name, value.values()))


# What a setting may be: one of these values, what a function accepts, or any value.
Allowed = tuple[Any, ...] | Callable[[Any], bool] | None
ANY_VALUE = None
SIZE_SETTINGS: Mapping[str, Allowed] = {
    "embedding_dimension": _is_size,
    "word_embedding_dimension": _is_size,
}
SENTENCE_SETTINGS = {
    "module_input_name": ("sentence_embedding",),
    "module_output_name": ("sentence_embedding", None),
}
TEXT_MODALITY = {
    "text": {"method": "forward", "method_output_name": "last_hidden_state"}
}
EMPTY: tuple[Mapping[str, Any], ...] = ({},)

# The settings that the file of each module may hold, with their values.
SETTINGS: Mapping[str, Mapping[str, Allowed]] = {
    TRANSFORMER: {
        "max_seq_length": _is_size_or_null,
        "do_lower_case": _is_flag,
        "unpad_inputs": ANY_VALUE,  # it changes no vector
        "transformer_task": ("feature-extraction",),
        "modality_config": (TEXT_MODALITY,),
        "module_output_name": ("token_embeddings",),
        "tokenizer_name_or_path": (None,),
        "model_args": EMPTY,
        "model_kwargs": EMPTY,
        "tokenizer_args": EMPTY,
        "processor_kwargs": EMPTY,
        "config_args": EMPTY,
        "config_kwargs": EMPTY,
        "processing_kwargs": EMPTY,
    },
    STATIC_MODULE: {},
    WEIGHTED_LAYERS: {
        **SIZE_SETTINGS,
        "layer_start": _is_count,
        "num_hidden_layers": _is_size,
    },
    POOLING: {
        **SIZE_SETTINGS,
        "pooling_mode": _is_one_or_more_names,
        "include_prompt": _is_flag,
        **dict.fromkeys(POOLING_MODES.values(), _is_flag),
    },
    DENSE: {
        "in_features": _is_size,
        "out_features": _is_size,
        "bias": _is_flag,
        "use_residual": _is_flag,
        "activation_function": ACTIVATIONS,
        **SENTENCE_SETTINGS,
    },
    LAYER_NORM: {"dimension": _is_size},
    NORMALIZE: SENTENCE_SETTINGS,
    DROPOUT: {"dropout": ANY_VALUE},
    MODEL_FILE: {
        "__version__": ANY_VALUE,
        "model_type": ("SentenceTransformer",),
        "prompts": _is_prompts,
        "default_prompt_name": _is_name,
        "similarity_fn_name": ("cosine", "dot", None),
        "truncate_dim": _is_size_or_null,
    },
}


@dataclass(frozen=True)
class Module:
    """A module of a folder.

    Attributes:
        kind: Its class in sentence-transformers.
        folder: The folder of its files.
        settings: What its file says.
    """

    kind: str
    folder: Path
    settings: Mapping[str, Any]

    @property
    def weights_digest(self) -> str:
        """The digest of its weights; empty for a kind that has none."""
        if self.kind not in WITH_WEIGHTS:
            return ""
        return digest_of_files(weights_files(self.folder))


@dataclass(frozen=True)
class Modules:
    """All modules of a folder in order, and the settings of the model as a whole.

    Attributes:
        chain: The modules; the first turns texts into tokens or a vector.
        prompts: Texts that are put before a sentence, by name.
        prompt_name: The name of the prompt that is used by default; None uses none.
        dimensions: How many of the first coordinates are kept; None keeps all.
    """

    chain: tuple[Module, ...]
    prompts: Mapping[str, str]
    prompt_name: str | None
    dimensions: int | None

    def find(self, kind: str) -> Module | None:
        """The first module of a kind; None where there is none."""
        for module in self.chain:
            if module.kind == kind:
                return module
        return None

    @property
    def reader(self) -> Module:
        """The first module, which reads texts: a transformer or a table of vectors."""
        return self.chain[0]

    @property
    def lower_cases(self) -> bool:
        """Whether texts are put into lower case before they are tokenised."""
        return bool(self.reader.settings.get("do_lower_case"))

    @property
    def pooling_settings(self) -> Mapping[str, Any]:
        """The settings of the pooling; empty for a table of vectors."""
        pooling = self.find(POOLING)
        return {} if pooling is None else pooling.settings

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways in which tokens are pooled; their vectors are concatenated."""
        settings = self.pooling_settings
        named_modes = settings.get("pooling_mode")
        if isinstance(named_modes, str) and named_modes:
            return (named_modes,)
        if named_modes:
            return tuple(named_modes)
        switched_modes = [
            mode for mode, setting in POOLING_MODES.items() if settings.get(setting)
        ]
        return tuple(switched_modes) or ("mean",)

    @property
    def equal_pooling(self) -> str:
        """The pooling whose vectors differ from the modules' in length alone: `mean` or `cls`.

        Empty where there is none.
        """
        kinds = [module.kind for module in self.chain]
        if kinds not in ([TRANSFORMER, POOLING], [TRANSFORMER, POOLING, NORMALIZE]):
            return ""
        if self.lower_cases or self.prompt("") or self.dimensions:
            return ""
        if self.modes not in (("mean",), ("cls",)):
            return ""
        [mode] = self.modes
        config = read_settings(self.reader.folder / CONFIG_FILE)
        return mode if own_pooling_is(mode, config) else ""

    @property
    def is_normalised(self) -> bool:
        """Whether vectors are divided by their length at the end."""
        return self.chain[-1].kind == NORMALIZE

    @property
    def is_plain_table(self) -> bool:
        """Whether these are a table of vectors and at most a division by their length.

        So Model2Vec describes its folders.
        """
        map_kinds = {module.kind for module in self.chain[1:]}
        is_table = self.reader.kind == STATIC_MODULE and map_kinds <= {NORMALIZE}
        return is_table and not self.prompt("") and not self.dimensions

    @property
    def steps_in_words(self) -> str:
        """The modules after the transformer, lower-casing and the prompt, in words."""
        steps = [module.kind for module in self.chain[1:]]
        if self.lower_cases:
            steps.append("lower case")
        prompt = self.prompt("")
        if prompt:
            steps.append(f"the prompt {prompt!r}")
        if self.dimensions:
            steps.append(f"the first {self.dimensions} dimensions")
        return ", ".join(steps)

    def digest(self) -> str:
        """The digest of all settings after the first module that change a vector; no prompt."""
        maps = [
            [module.kind, dict(module.settings), module.weights_digest]
            for module in self.chain[1:]
        ]
        return digest_of(
            {
                "modules": maps,
                "lower_case": self.lower_cases,
                "dimensions": self.dimensions,
            }
        )

    def prompt(self, name: str) -> str:
        """The prompt of a name; the default one for an empty name, which may be empty.

        Raises UsageError for an unknown name.
        """
        name = name or self.prompt_name or ""
        if not name:
            return ""
        if name not in self.prompts:
            names = ", ".join(self.prompts) or "none"
            raise UsageError(
                f"native:{name}: wanted a prompt of the model, known are {names}"
            )
        return self.prompts[name]


def default_pooling(path: Path) -> str:
    """The name of the pooling that the folder or file of an encoder asks for.

    `mean` or `cls` where nothing else is asked for, else `native`. Raises DataError for
    a file that is damaged, or a module that is not understood.
    """
    if path.is_file() or not (path / MODULES_FILE).is_file():
        return MEAN.name
    modules = read_modules(path.name, path)
    if modules.is_plain_table and is_subword_folder(path):
        return MEAN.name
    return modules.equal_pooling or NATIVE.name


def read_modules(name: str, folder: Path) -> Modules:
    """The modules of a folder; `name` is the encoder's, for messages.

    Raises:
        UsageError: The folder has no modules.json.
        DataError: A module or a setting is not understood.
    """
    file = folder / MODULES_FILE
    if not file.is_file():
        raise UsageError(
            f"{name}.native: {folder} has no {MODULES_FILE}, which says what a model's own pooling "
            f"is; take {name}.mean, or another pooling"
        )
    chain = tuple(_read_module(file, entry) for entry in module_entries(folder))
    kinds = [module.kind for module in chain]
    if not MODULE_SEQUENCE.fullmatch(" ".join(kinds)):
        raise DataError(
            f"{file}: wanted a {TRANSFORMER} and its {POOLING}, or a {STATIC_MODULE}, and then "
            f"maps of vectors, found {', '.join(kinds)}; take another pooling than native"
        )
    model_settings = _read_known_settings(folder / MODEL_FILE, MODEL_FILE)
    if model_settings.get("similarity_fn_name") == "dot" and kinds[-1] != NORMALIZE:
        raise DataError(
            f"{folder / MODEL_FILE}: wanted vectors that are compared by their cosine, found dot "
            "products of vectors of any length, which are not computed here"
        )
    prompts = model_settings.get("prompts") or {}
    modules = Modules(
        chain=chain,
        prompts={name: text or "" for name, text in prompts.items()},
        prompt_name=model_settings.get("default_prompt_name"),
        dimensions=model_settings.get("truncate_dim"),
    )
    for mode in modules.modes:
        if mode not in POOLING_MODES:
            raise DataError(
                f"{file}: wanted poolings of {', '.join(POOLING_MODES)}, found {mode!r}"
            )
    modules.prompt("")  # raises for a default prompt that is not among them
    return modules


def _read_module(modules_file: Path, entry: ModuleEntry) -> Module:
    """A module that `modules.json` lists, its settings checked."""
    kind = entry.class_path.rpartition(".")[2]
    is_of_library = entry.class_path.startswith(LIBRARY)
    if not is_of_library or kind not in SETTINGS:
        known_kinds = [name for name in SETTINGS if name != MODEL_FILE]
        raise DataError(
            f"{modules_file}: wanted modules of sentence-transformers that are read here "
            f"({', '.join(known_kinds)}), found {entry.class_path}; "
            "take another pooling than native"
        )
    folder = modules_file.parent / entry.subfolder
    if kind == STATIC_MODULE:
        # config.json in a Model2Vec folder holds settings of the package, not of a
        # module.
        return Module(kind, folder, settings={})
    settings_file = module_settings_file(kind, folder)
    if kind in NEED_SETTINGS and not settings_file.is_file():
        raise DataError(
            f"{settings_file}: wanted the settings of a {kind}, found none; fetch it again"
        )
    return Module(kind, folder, _read_known_settings(settings_file, kind))


def module_settings_file(kind: str, folder: Path) -> Path:
    """The file that holds the settings of a module, in its folder."""
    if kind == TRANSFORMER:
        return sentence_settings_file(folder)
    return folder / CONFIG_FILE


def _read_known_settings(file: Path, kind: str) -> dict[str, Any]:
    """The settings in the file of a kind of module, or of the model.

    Raises DataError for a setting or a value that is not understood.
    """
    settings = read_settings(file)
    known_settings = SETTINGS[kind]
    for name, value in settings.items():
        if name not in known_settings or not _is_allowed(value, known_settings[name]):
            raise DataError(
                f"{file}: {name} = {json.dumps(value)} is not understood for a {kind}, and nothing "
                "is left out silently; take another pooling than native"
            )
    return settings


def _is_allowed(value: Any, allowed: Allowed) -> bool:
    """Whether a setting may have a value."""
    if allowed is ANY_VALUE:
        return True
    if callable(allowed):
        return allowed(value)
    return value in allowed
