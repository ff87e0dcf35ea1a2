"""What a sentence-transformers folder says of itself: modules, pooling, prompts, dimensions.

`modules.json` names modules and their folders; prompts and similarity function are in
`config_sentence_transformers.json`. sentence-transformers computes with the modules
(`kernels/modules.py`). What it would apply, and the harness would not, is refused here by
name. Importing this module does not import torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import DataError, UsageError
from harness.encoders.architectures import own_pooling_is
from harness.encoders.checkpoint import (
    MODULES_FILE,
    STATIC_MODULE,
    TRANSFORMER,
    ModuleEntry,
    module_entries,
    transformer_folder,
)
from harness.encoders.checkpoint_settings import (
    CONFIG_FILE,
    read_settings,
    sentence_settings_file,
)
from harness.encoders.subword_vectors import is_subword_folder
from harness.transforms.pooling import MEAN, NATIVE

MODEL_FILE = "config_sentence_transformers.json"
# The package whose modules are run; modules of another package are foreign code.
LIBRARY = "sentence_transformers."

WEIGHTED_LAYERS = "WeightedLayerPooling"
POOLING = "Pooling"
NORMALIZE = "Normalize"
DENSE = "Dense"
# The sequences of modules that are run: under each, the vector of a text depends on no
# other text.
MODULE_SEQUENCE = re.compile(
    rf"({TRANSFORMER}( {WEIGHTED_LAYERS})? {POOLING}|WordEmbeddings {POOLING}|{STATIC_MODULE}|BoW)"
    rf"( ({DENSE}|LayerNorm|{NORMALIZE}|Dropout))*"
)

# The settings that switch the ways of pooling on.
POOLING_MODES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
POOLING_SETTINGS = frozenset(
    {
        "embedding_dimension",
        "word_embedding_dimension",
        "pooling_mode",
        "include_prompt",
        *POOLING_MODES.values(),
    }
)
# The prompts that a model has without a file.
DEFAULT_PROMPTS = {"query": "", "document": ""}


@dataclass(frozen=True)
class Modules:
    """The modules of a folder, and the settings of the model as a whole.

    Attributes:
        folder: The folder of modules.json.
        entries: The modules in their order; the first turns texts into tokens or a vector.
        pooling: The settings of the pooling; empty without one.
        lower_cases: Whether texts are put into lower case before they are tokenised.
        prompts: Texts that are put before a sentence, by name.
        prompt_name: The name of the prompt that is used by default; None uses none.
        dimensions: How many of the first coordinates are kept; None keeps all.
    """

    folder: Path
    entries: tuple[ModuleEntry, ...]
    pooling: Mapping[str, Any]
    lower_cases: bool
    prompts: Mapping[str, str]
    prompt_name: str | None
    dimensions: int | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The classes of the modules."""
        return tuple(entry.kind for entry in self.entries)

    @property
    def has_transformer(self) -> bool:
        """Whether the first module is a transformer, and no table of vectors."""
        return self.kinds[0] == TRANSFORMER

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways in which tokens are pooled; their vectors are concatenated."""
        return _modes(self.pooling)

    @property
    def equal_pooling(self) -> str:
        """The pooling whose vectors differ from the modules' in length alone: `mean` or `cls`.

        Empty where there is none.
        """
        plain_kinds = (TRANSFORMER, POOLING)
        if self.kinds not in (plain_kinds, (*plain_kinds, NORMALIZE)):
            return ""
        if self.lower_cases or self.prompt("") or self.dimensions:
            return ""
        if self.modes not in (("mean",), ("cls",)):
            return ""
        [mode] = self.modes
        config = read_settings(transformer_folder(self.folder) / CONFIG_FILE)
        return mode if own_pooling_is(mode, config) else ""

    @property
    def is_normalised(self) -> bool:
        """Whether vectors are divided by their length at the end."""
        return self.kinds[-1] == NORMALIZE

    @property
    def is_plain_table(self) -> bool:
        """Whether these are a table of vectors and at most a division by their length.

        So Model2Vec describes its folders.
        """
        is_table = self.kinds in ((STATIC_MODULE,), (STATIC_MODULE, NORMALIZE))
        return is_table and not self.prompt("") and not self.dimensions

    @property
    def steps_in_words(self) -> str:
        """The modules after the transformer, lower-casing and the prompt, in words."""
        steps = list(self.kinds[1:])
        if self.lower_cases:
            steps.append("lower case")
        prompt = self.prompt("")
        if prompt:
            steps.append(f"the prompt {prompt!r}")
        if self.dimensions:
            steps.append(f"the first {self.dimensions} dimensions")
        return ", ".join(steps)

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
    entries = module_entries(folder)
    kinds = [entry.kind for entry in entries]
    for entry in entries:
        if not entry.class_path.startswith(LIBRARY):
            raise DataError(
                f"{file}: wanted modules of sentence-transformers, found {entry.class_path}, whose "
                "code is not run; take another pooling than native"
            )
    if not MODULE_SEQUENCE.fullmatch(" ".join(kinds)):
        raise DataError(
            f"{file}: wanted a {TRANSFORMER} and its {POOLING}, or a table of vectors, and then "
            f"maps of vectors, found {', '.join(kinds)}; take another pooling than native, or of a "
            "Router the folder of a model in it"
        )
    lower_cases = False
    if kinds[0] == TRANSFORMER:
        settings_file = sentence_settings_file(transformer_folder(folder))
        lower_cases = bool(read_settings(settings_file).get("do_lower_case"))
    pooling: Mapping[str, Any] = {}
    for entry in entries:
        settings_file = folder / entry.subfolder / CONFIG_FILE
        if entry.kind == POOLING:
            pooling = _read_pooling(settings_file)
        if entry.kind == DENSE:
            # The library would take tanh for an activation of other code.
            settings = read_settings(settings_file)
            activation = str(settings.get("activation_function", "torch."))
            if not activation.startswith("torch."):
                raise DataError(
                    f"{settings_file}: wanted an activation of torch, found {activation}, whose "
                    "code is not run; take another pooling than native"
                )
    file = folder / MODEL_FILE
    settings = read_settings(file)
    dimensions = settings.get("truncate_dim")
    similarity = settings.get("similarity_fn_name") or "cosine"
    has_unit_length = kinds[-1] == NORMALIZE and not dimensions
    if similarity != "cosine" and not (similarity == "dot" and has_unit_length):
        raise DataError(
            f"{file}: wanted vectors that are compared by their cosine, found similarity_fn_name = "
            f"{similarity!r} of vectors of any length, which is not computed here; take another "
            "pooling than native"
        )
    prompts = settings.get("prompts") or {}
    modules = Modules(
        folder=folder,
        entries=entries,
        pooling=pooling,
        lower_cases=lower_cases,
        prompts={
            **DEFAULT_PROMPTS,
            **{name: text or "" for name, text in prompts.items()},
        },
        prompt_name=settings.get("default_prompt_name"),
        dimensions=dimensions,
    )
    modules.prompt("")  # raises for a default prompt that is not among them
    return modules


def _read_pooling(file: Path) -> dict[str, Any]:
    """The settings of a pooling. Raises DataError for one that is not known here."""
    settings = read_settings(file)
    unknown = sorted(settings.keys() - POOLING_SETTINGS)
    modes = _modes(settings)
    is_known = not unknown and modes and set(modes) <= POOLING_MODES.keys()
    if not is_known or not file.is_file():
        refused = unknown or settings.get("pooling_mode", "no settings")
        raise DataError(
            f"{file}: wanted poolings of {', '.join(POOLING_MODES)}, found {refused!r}; take "
            "another pooling than native"
        )
    return settings


def _modes(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The ways of pooling that settings name."""
    if "pooling_mode" in settings:
        named = settings["pooling_mode"]
        return tuple(named) if isinstance(named, list) else (str(named),)
    switched = [
        mode for mode, setting in POOLING_MODES.items() if settings.get(setting)
    ]
    return tuple(switched) or ("mean",)
