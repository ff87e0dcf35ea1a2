"""The modules of a sentence-transformers folder, as its files describe them, read and written.

`modules.json` names modules and their folders, each with a `config.json`; prompts and
similarity stand in `config_sentence_transformers.json`. Everything that
sentence-transformers would obey is read here or refused by name. Importing this module
costs no torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from harness.core.digests import digest_of, digest_of_files
from harness.core.errors import DataError, UsageError
from harness.core.interfaces import Pooling
from harness.core.json_text import parse_json
from harness.encoders.checkpoint import (
    MODULES_FILE,
    STATIC_MODULE,
    module_entries,
    read_settings,
    sentence_config,
    weights_files,
)
from harness.encoders.subword_vectors import is_subword_folder
from harness.transforms.pooling import MEAN, NATIVE, Mean

MODEL_FILE = "config_sentence_transformers.json"
LIBRARY = "sentence_transformers."  # whose modules are read; another's are foreign code

TRANSFORMER = "Transformer"
WEIGHTED_LAYERS = "WeightedLayerPooling"
POOLING = "Pooling"
DENSE = "Dense"
LAYER_NORM = "LayerNorm"
CHAIN = re.compile(
    rf"({TRANSFORMER}( {WEIGHTED_LAYERS})? {POOLING}|{STATIC_MODULE})"
    rf"( ({DENSE}|{LAYER_NORM}|Normalize|Dropout))*"
)

# In the order in which sentence-transformers puts their vectors side by side.
POOLING_MODES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
LINEAR, TANH = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh"
ACTIVATIONS = tuple(
    f"torch.nn.modules.{name}"
    for name in (
        "linear.Identity", "activation.Tanh", "activation.ReLU", "activation.GELU",
        "activation.SiLU", "activation.Sigmoid", "activation.LeakyReLU",
    )
)  # fmt: skip

ANY_VALUE = None
SIZE_SETTINGS = {
    "embedding_dimension": ANY_VALUE,
    "word_embedding_dimension": ANY_VALUE,
}
SENTENCE_SETTINGS = {
    "module_input_name": ("sentence_embedding",),
    "module_output_name": ("sentence_embedding", None),
}
TEXT_MODALITY = {
    "text": {"method": "forward", "method_output_name": "last_hidden_state"}
}
LOADING_SETTINGS = (
    "model_args",
    "model_kwargs",
    "tokenizer_args",
    "processor_kwargs",
    "config_args",
)

# What each module's file may say: any value, or one of these.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    TRANSFORMER: {
        "max_seq_length": ANY_VALUE,
        "do_lower_case": ANY_VALUE,
        "unpad_inputs": ANY_VALUE,  # which moves no vector
        "transformer_task": ("feature-extraction",),
        "modality_config": (TEXT_MODALITY,),
        "module_output_name": ("token_embeddings",),
        "tokenizer_name_or_path": (None,),
        **dict.fromkeys(
            (*LOADING_SETTINGS, "config_kwargs", "processing_kwargs"), ({},)
        ),
    },
    STATIC_MODULE: {},
    WEIGHTED_LAYERS: {
        **SIZE_SETTINGS,
        "layer_start": ANY_VALUE,
        "num_hidden_layers": ANY_VALUE,
    },
    POOLING: {
        **SIZE_SETTINGS,
        "pooling_mode": ANY_VALUE,
        "include_prompt": ANY_VALUE,
        **dict.fromkeys(POOLING_MODES.values()),
    },
    DENSE: {
        "in_features": ANY_VALUE,
        "out_features": ANY_VALUE,
        "bias": ANY_VALUE,
        "use_residual": ANY_VALUE,
        "activation_function": ACTIVATIONS,
        **SENTENCE_SETTINGS,
    },
    LAYER_NORM: {"dimension": ANY_VALUE},
    "Normalize": SENTENCE_SETTINGS,
    "Dropout": {"dropout": ANY_VALUE},
    MODEL_FILE: {
        "__version__": ANY_VALUE,
        "model_type": ("SentenceTransformer",),
        "prompts": ANY_VALUE,
        "default_prompt_name": ANY_VALUE,
        "similarity_fn_name": ("cosine", "dot", None),
        "truncate_dim": ANY_VALUE,
    },
}


@dataclass(frozen=True)
class Module:
    """A module: its kind, its folder, and what its file says."""

    kind: str
    folder: Path
    settings: Mapping[str, Any]

    @property
    def weights(self) -> str:
        """The digest of its weights; empty for a kind that has none."""
        has_weights = self.kind in (WEIGHTED_LAYERS, DENSE, LAYER_NORM)
        return digest_of_files(weights_files(self.folder)) if has_weights else ""


@dataclass(frozen=True)
class Modules:
    """All modules of a folder in order, and what is said of the model as a whole.

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

    @property
    def first(self) -> Module:
        return self.chain[0]

    @property
    def pooling(self) -> Mapping[str, Any]:
        """The settings of the pooling; none for a table of vectors."""
        return next(
            (module.settings for module in self.chain if module.kind == POOLING), {}
        )

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways in which tokens are pooled; their vectors are concatenated."""
        switched = [
            mode for mode, word in POOLING_MODES.items() if self.pooling.get(word)
        ]
        modes = self.pooling.get("pooling_mode") or switched or "mean"
        return (modes,) if isinstance(modes, str) else tuple(modes)

    @property
    def alike(self) -> str:
        """The pooling that gives the modules' vectors up to their length; empty for none."""
        kinds = " ".join(module.kind for module in self.chain)
        plain = re.fullmatch(rf"{TRANSFORMER} {POOLING}( Normalize)?", kinds)
        lower = self.first.settings.get("do_lower_case")
        changed = self.modes[1:] or lower or self.prompt("") or self.dimensions
        return (
            self.modes[0]
            if plain and not changed and self.modes[0] in ("mean", "cls")
            else ""
        )

    @property
    def is_normalised(self) -> bool:
        """Whether vectors are divided by their length at the end."""
        return self.chain[-1].kind == "Normalize"

    @property
    def plain_table(self) -> bool:
        """Whether these are a table and the length 1 alone, as Model2Vec describes its folders."""
        kinds = {module.kind for module in self.chain[1:]}
        is_table = self.first.kind == STATIC_MODULE and kinds <= {"Normalize"}
        return is_table and not self.prompt("") and not self.dimensions

    @property
    def behind_tokens(self) -> str:
        """What is done to texts and tokens besides the transformer, in words."""
        prompt = self.prompt("")
        words = [module.kind for module in self.chain[1:]]
        words += ["lower case"] if self.first.settings.get("do_lower_case") else []
        words += [f"the prompt {prompt!r}"] if prompt else []
        words += [f"the first {self.dimensions} dimensions"] if self.dimensions else []
        return ", ".join(words)

    def digest(self) -> str:
        """The digest of all settings behind the first module that change a vector; no prompt."""
        rest = [[m.kind, dict(m.settings), m.weights] for m in self.chain[1:]]
        lower = bool(self.first.settings.get("do_lower_case"))
        return digest_of(
            {"modules": rest, "lower_case": lower, "dimensions": self.dimensions}
        )

    def prompt(self, name: str) -> str:
        """The prompt of a name, or the default one for none. Raises UsageError for an unknown."""
        name = name or self.prompt_name or ""
        if name and name not in self.prompts:
            names = ", ".join(self.prompts) or "none"
            raise UsageError(
                f"native:{name}: wanted a prompt of the model, known are {names}"
            )
        return self.prompts[name] if name else ""


def read_modules(name: str, folder: Path) -> Modules:
    """The modules of a folder."""
    file = folder / MODULES_FILE
    if not file.is_file():
        raise UsageError(
            f"{name}.native: {folder} has no {MODULES_FILE}, which says what a model's own pooling "
            f"is; take {name}.mean, or another pooling"
        )
    chain = tuple(_module(file, type_, path) for type_, path in module_entries(folder))
    kinds = [module.kind for module in chain]
    if not CHAIN.fullmatch(" ".join(kinds)):
        raise DataError(
            f"{file}: wanted a {TRANSFORMER} and its {POOLING}, or a {STATIC_MODULE}, and then "
            f"maps of vectors, found {', '.join(kinds)}; take another pooling than native"
        )
    model = _settings(folder / MODEL_FILE, MODEL_FILE)
    if model.get("similarity_fn_name") == "dot" and kinds[-1] != "Normalize":
        raise DataError(
            f"{folder / MODEL_FILE}: wanted vectors that are compared by their cosine, found dot "
            "products of vectors of any length, which are not computed here"
        )
    prompts = {name: text or "" for name, text in (model.get("prompts") or {}).items()}
    modules = Modules(
        chain, prompts, model.get("default_prompt_name"), model.get("truncate_dim")
    )
    if unknown := [mode for mode in modules.modes if mode not in POOLING_MODES]:
        raise DataError(
            f"{file}: wanted poolings of {', '.join(POOLING_MODES)}, found {unknown[0]!r}"
        )
    modules.prompt("")
    return modules


def _module(file: Path, type_: str, path: str) -> Module:
    """A module that `modules.json` names, its settings checked."""
    kind = type_.rpartition(".")[2]
    if not type_.startswith(LIBRARY) or kind not in SETTINGS:
        raise DataError(
            f"{file}: wanted modules of sentence-transformers that are read here "
            f"({', '.join(k for k in SETTINGS if k != MODEL_FILE)}), found {type_}; "
            "take another pooling than native"
        )
    folder = file.parent / path
    config = sentence_config(folder) if kind == TRANSFORMER else folder / "config.json"
    if kind in (WEIGHTED_LAYERS, POOLING, DENSE, LAYER_NORM) and not config.is_file():
        raise DataError(
            f"{config}: wanted the settings of a {kind}, found none; fetch it again"
        )
    # A Model2Vec folder's config.json is of the package, and of none of the modules.
    return Module(
        kind, folder, {} if kind == STATIC_MODULE else _settings(config, kind)
    )


def _settings(file: Path, kind: str) -> dict[str, Any]:
    """The settings in a file. Raises DataError for a key or a value that is not understood."""
    settings, allowed = read_settings(file), SETTINGS[kind]
    for key, value in settings.items():
        if key not in allowed or (
            allowed[key] is not ANY_VALUE and value not in allowed[key]
        ):
            raise DataError(
                f"{file}: {key} = {json.dumps(value)} is not understood for a {kind}, and nothing "
                "is left out silently; take another pooling than native"
            )
    return settings


def own_pooling(path: Path) -> str:
    """The word of the pooling that the folder or file of an encoder asks for.

    `mean` or `cls` where nothing else is asked for, else `native`. Raises DataError for
    a file that is damaged, or a module that is not understood.
    """
    if path.is_file() or not (path / MODULES_FILE).is_file():
        return MEAN.name
    modules = read_modules(path.name, path)
    if modules.plain_table and is_subword_folder(path):
        return MEAN.name
    return modules.alike or NATIVE.name


def append_module(
    folder: Path,
    kind: str,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Any] | None = None,
) -> None:
    """Write a module behind those of a folder, the first into the folder itself, and list it."""
    file = folder / MODULES_FILE
    listed = parse_json(file.read_bytes()) if file.is_file() else []
    path = f"{len(listed)}_{kind}" if listed else ""
    (folder / path).mkdir(exist_ok=True)
    if settings:
        config = (
            sentence_config(folder)
            if kind == TRANSFORMER
            else folder / path / "config.json"
        )
        write_json(config, settings)
    if tensors:
        floats = {
            name: np.ascontiguousarray(x, np.float32) for name, x in tensors.items()
        }
        save_file(floats, folder / path / "model.safetensors", {"format": "pt"})
    entry = {"idx": len(listed), "name": str(len(listed)), "path": path}
    # Every version of the library finds its modules under this name.
    write_json(file, [*listed, {**entry, "type": f"{LIBRARY}models.{kind}"}])


def append_transformer(folder: Path, max_length: int | None) -> None:
    """List the checkpoint in a folder as its first module."""
    append_module(
        folder, TRANSFORMER, {"max_seq_length": max_length, "do_lower_case": False}
    )


def append_mode(folder: Path, size: int, mode: str) -> None:
    """Write a pooling of token vectors, by its key in POOLING_MODES."""
    modes = {word: name == mode for name, word in POOLING_MODES.items()}
    append_module(folder, POOLING, {"word_embedding_dimension": size, **modes})


def append_pooling(
    folder: Path,
    pooling: Pooling,
    hidden: tuple[int, int],
    summary: int | None,
    pooler: tuple[Any, Any] | None = None,
) -> None:
    """Write the modules of a mean over layers, or of the summary token.

    `hidden` is the encoder's depth and size; `pooler` is the weight and bias of a dense
    layer with tanh behind the pooling.
    """
    depth, size = hidden
    if isinstance(pooling, Mean) and pooling.layers != (-1,):
        weights = np.zeros(depth + 1, np.float32)
        weights[list(pooling.hidden_states(depth))] = 1
        settings = {
            "layer_start": 0,
            "num_hidden_layers": depth,
            "word_embedding_dimension": size,
        }
        append_module(folder, WEIGHTED_LAYERS, settings, {"layer_weights": weights})
        edit_json(folder / "config.json", output_hidden_states=True)
    token = "lasttoken" if summary else "cls"
    append_mode(folder, size, "mean" if isinstance(pooling, Mean) else token)
    if pooler is not None:
        append_dense(folder, *pooler, TANH)


def append_dense(folder: Path, weight: Any, bias: Any, activation: str) -> None:
    """Write a linear layer of a (K, D) weight and a bias of K."""
    outputs, inputs = weight.shape
    settings = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": True,
        "activation_function": activation,
    }
    append_module(
        folder, DENSE, settings, {"linear.weight": weight, "linear.bias": bias}
    )


def write_json(file: Path, content: Any) -> None:
    """Write a file of settings."""
    file.write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def edit_json(file: Path, **settings: Any) -> None:
    """Change settings in a file; `torch_dtype`, the old name of `dtype`, is removed."""
    kept = {
        key: value for key, value in read_settings(file).items() if key != "torch_dtype"
    }
    write_json(file, kept | settings)
