"""Folders of sentence-transformers: what one says of itself, and how one is written.

`modules.json` names modules and their folders; prompts and similarity function are in
`config_sentence_transformers.json`. sentence-transformers computes with the modules
(`native.py`), and refuses settings that it does not know. What it would apply, and the
harness would not, is refused here by name. `write_modules` adds modules to a
checkpoint as the library saves them. Importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import DataError, UsageError
from harness.core.files import parse_json, write_json
from harness.core.interfaces import Pooling
from harness.encoders.checkpoint import (
    CONFIG_FILE,
    MODULES_FILE,
    read_settings,
    sentence_settings_file,
)
from harness.encoders.subword_vectors import is_subword_folder
from harness.transforms.pooling import MEAN, NATIVE, Mean

MODEL_FILE = "config_sentence_transformers.json"
# The package whose modules are run; modules of another package are foreign code.
LIBRARY = "sentence_transformers."

TRANSFORMER = "Transformer"
POOLING = "Pooling"
NORMALIZE = "Normalize"
DENSE = "Dense"
STATIC_MODULE = "StaticEmbedding"  # a table of vectors
# The modules that are run, by their place: under each, the vector of a text depends on
# no other text.
FIRST_MODULES = frozenset({TRANSFORMER, "WordEmbeddings", STATIC_MODULE, "BoW"})
LATER_MODULES = frozenset(
    {"WeightedLayerPooling", POOLING, DENSE, "LayerNorm", NORMALIZE, "Dropout"}
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
# The model types whose tokenizers put the summary token first, of those that are most
# frequent. Others may put it last, as XLNet does, or have none, as causal models.
CLS_FIRST = frozenset(
    {"bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta"}
)
# The prompts that a model has without a file.
DEFAULT_PROMPTS = {"query": "", "document": ""}


@dataclass(frozen=True)
class Modules:
    """The modules of a folder, and the settings of the model as a whole.

    Attributes:
        folder: The folder of modules.json.
        entries: The class of each module and its folder below the folder of
            modules.json, in their order; the first turns texts into tokens or a vector.
        pooling: The settings of the pooling; empty without one.
        lower_cases: Whether texts are put into lower case before they are tokenised.
        prompts: Texts that are put before a sentence, by name.
        prompt_name: The name of the prompt that is used by default; None uses none.
        dimensions: How many of the first coordinates are kept; None keeps all.
    """

    folder: Path
    entries: tuple[tuple[str, str], ...]
    pooling: Mapping[str, Any]
    lower_cases: bool
    prompts: Mapping[str, str]
    prompt_name: str | None
    dimensions: int | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The class of each module."""
        return tuple(kind for kind, _ in self.entries)

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways in which tokens are pooled; their vectors are concatenated."""
        named = self.pooling.get("pooling_mode")
        if named is not None:
            return tuple(named) if isinstance(named, list) else (str(named),)
        switched = [
            mode for mode, setting in POOLING_MODES.items() if self.pooling.get(setting)
        ]
        return tuple(switched) or ("mean",)

    @property
    def equal_pooling(self) -> str:
        """The pooling whose vectors differ from the modules' in length alone: `mean` or `cls`.

        Empty where there is none.
        """
        if self.lower_cases or self.prompt("") or self.dimensions:
            return ""
        kinds = self.kinds
        if self.is_normalised:
            kinds = kinds[:-1]
        if kinds == (STATIC_MODULE,) and is_subword_folder(self.folder):
            return MEAN.name
        if kinds != (TRANSFORMER, POOLING) or self.modes not in (("mean",), ("cls",)):
            return ""
        [mode] = self.modes
        _, subfolder = self.entries[0]
        config = read_settings(self.folder / subfolder / CONFIG_FILE)
        # The library takes the first token for `cls`, whatever the architecture.
        is_equal = not pools_decoder(config)
        if mode == "cls":
            is_summary = config.get("model_type") in CLS_FIRST
            is_equal = is_summary and not config.get("is_decoder")
        return mode if is_equal else ""

    @property
    def steps(self) -> list[str]:
        """In words all that is done to a text and its states."""
        steps = list(self.kinds[1:])
        if self.lower_cases:
            steps.append("lower case")
        if self.prompt(""):
            steps.append(f"the prompt {self.prompt('')!r}")
        if self.dimensions:
            steps.append(f"the first {self.dimensions} dimensions")
        return steps

    @property
    def is_normalised(self) -> bool:
        """Whether vectors are divided by their length at the end."""
        return self.kinds[-1] == NORMALIZE

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
    if not (path / MODULES_FILE).is_file():
        return MEAN.name
    return read_modules(path.name, path).equal_pooling or NATIVE.name


def pools_decoder(config: Mapping[str, Any]) -> bool:
    """Whether sentence-transformers pools a decoder, of which the harness has the encoder.

    `config` is the content of config.json.
    """
    model_type = str(config.get("model_type"))
    return bool(config.get("is_encoder_decoder")) and not model_type.endswith("t5")


def transformer_folder(folder: Path) -> Path:
    """The folder of the checkpoint itself: this one, or one below it that modules.json names.

    sentence-transformers wrote the checkpoint into a folder `0_Transformer` up to its
    version 1. Raises DataError for a folder whose first module is no transformer.
    """
    entries = _entries(folder)
    if not entries:
        return folder
    kind, subfolder = entries[0]
    if kind != TRANSFORMER:
        raise DataError(
            f"{folder / MODULES_FILE}: wanted a transformer as its first module, found a "
            f"{kind}; take the pooling native, or of a Router name the folder of a model in it "
            "and a pooling, as in FOLDER/document_0_Transformer.mean"
        )
    return folder / subfolder


def read_modules(name: str, folder: Path) -> Modules:
    """The modules of a folder; `name` is the encoder's, for messages.

    Raises:
        UsageError: The folder has no modules.json.
        DataError: A module or a setting is not understood.
    """
    file = folder / MODULES_FILE
    entries = _entries(folder)
    if not entries:
        raise UsageError(
            f"{name}.native: {folder} has no {MODULES_FILE}, which says what a model's own pooling "
            f"is; take {name}.mean, or another pooling"
        )
    kinds = [kind for kind, _ in entries]
    if kinds[0] not in FIRST_MODULES or not LATER_MODULES.issuperset(kinds[1:]):
        raise DataError(
            f"{file}: wanted a {TRANSFORMER} and its {POOLING}, or a table of vectors, and then "
            f"maps of vectors, of sentence-transformers, found {', '.join(kinds)}; other code is "
            "not run: take another pooling than native, or of a Router the folder of a model in it"
        )
    lower_cases = False
    pooling: Mapping[str, Any] = {}
    for kind, subfolder in entries:
        settings_file = folder / subfolder / CONFIG_FILE
        if kind == TRANSFORMER:
            library_settings = read_settings(sentence_settings_file(folder / subfolder))
            lower_cases = bool(library_settings.get("do_lower_case"))
        if kind == POOLING:
            pooling = read_settings(settings_file)
        if kind == DENSE:
            # The library would take tanh for an activation of other code.
            settings = read_settings(settings_file)
            activation = str(settings.get("activation_function", "torch."))
            if not activation.startswith("torch."):
                raise DataError(
                    f"{settings_file}: wanted an activation of torch, found {activation}, whose "
                    "code is not run; take another pooling than native"
                )
    settings = read_settings(folder / MODEL_FILE)
    dimensions = settings.get("truncate_dim")
    similarity = settings.get("similarity_fn_name") or "cosine"
    has_unit_length = kinds[-1] == NORMALIZE and not dimensions
    if similarity != "cosine" and not (similarity == "dot" and has_unit_length):
        raise DataError(
            f"{folder / MODEL_FILE}: wanted vectors that are compared by their cosine, found "
            f"similarity_fn_name = {similarity!r} of vectors of any length, which is not computed "
            "here; take another pooling than native"
        )
    prompts = dict(DEFAULT_PROMPTS)
    for prompt_name, text in (settings.get("prompts") or {}).items():
        prompts[prompt_name] = text or ""
    return Modules(
        folder=folder,
        entries=tuple(entries),
        pooling=pooling,
        lower_cases=lower_cases,
        prompts=prompts,
        prompt_name=settings.get("default_prompt_name"),
        dimensions=dimensions,
    )


def _entries(folder: Path) -> list[tuple[str, str]]:
    """The kind and folder of each module that modules.json lists; none without such a file.

    The kind is the name of a class of sentence-transformers; of another package, with the
    name of its module. Raises DataError for a damaged file and for a module outside the
    folder.
    """
    file = folder / MODULES_FILE
    if not file.is_file():
        return []
    entries = []
    try:
        for item in parse_json(file.read_bytes()):
            kind, subfolder = str(item["type"]), str(item["path"])
            if kind.startswith(LIBRARY):
                kind = kind.rpartition(".")[2]
            entries.append((kind, subfolder))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{file}: wanted type and path of each module, found {error!r}; fetch it again"
        ) from error
    if not entries:
        raise DataError(f"{file}: wanted a list of modules, found none; fetch it again")
    for _, subfolder in entries:
        path = Path(subfolder)
        if path.is_absolute() or ".." in path.parts:
            raise DataError(f"{file}: wanted folders inside this one, found {path}")
    return entries


# Writing


def write_modules(folder: Path, max_length: int, modules: Iterable[Any]) -> None:
    """Write modules of sentence-transformers into the folder of a checkpoint, and list all.

    `max_length` is the length that texts are cut to, in tokens.
    """
    settings = {"max_seq_length": max_length, "do_lower_case": False}
    write_json(sentence_settings_file(folder), settings)
    subfolders = {"": TRANSFORMER}  # the kind of module that is in each
    for number, module in enumerate(modules, start=1):
        kind = type(module).__name__
        if kind == "WeightedLayerPooling":  # the library gives it the layers only then
            edit_json(folder / CONFIG_FILE, output_hidden_states=True)
        subfolder = f"{number}_{kind}"
        (folder / subfolder).mkdir()
        module.save(str(folder / subfolder))
        subfolders[subfolder] = kind
    entries = []
    for number, (subfolder, kind) in enumerate(subfolders.items()):
        # Every version of the library finds its modules under this name.
        class_name = f"{LIBRARY}models.{kind}"
        entry = {"idx": number, "name": str(number), "path": subfolder}
        entries.append({**entry, "type": class_name})
    write_json(folder / MODULES_FILE, entries)


def pooling_modules(
    pooling: Pooling, *, depth: int, width: int, summary: int | None, pooler: Any = None
) -> list[Any]:
    """The modules of a mean over layers, or of the summary token of a layer.

    Other layers than the last need `output_hidden_states` in config.json, which
    `write_modules` sets.

    Args:
        pooling: A `Mean`, a `LayerCls`, or another pooling of the summary token.
        depth: The number of the encoder's layers.
        width: The dimensions of its hidden states.
        summary: The index of the summary token: 0 is the first, -1 the last; None for
            an encoder that has none.
        pooler: The `nn.Linear` of a layer with tanh after the pooling, if there is one.
    """
    import torch
    from sentence_transformers.sentence_transformer import modules as st

    modules: list[Any] = []
    layers = pooling.hidden_states(depth)
    if layers not in ((), (depth,)):
        weights = torch.zeros(depth + 1)
        weights[list(layers)] = 1
        layer_weights = torch.nn.Parameter(weights)
        modules.append(
            st.WeightedLayerPooling(
                width, depth, layer_start=0, layer_weights=layer_weights
            )
        )
    mode = "lasttoken" if summary else "cls"
    modules.append(st.Pooling(width, "mean" if isinstance(pooling, Mean) else mode))
    if pooler is not None:
        weight, bias = pooler.weight.detach(), pooler.bias.detach()
        modules.append(dense(weight, bias, torch.nn.Tanh()))
    return modules


def dense(weight: Any, bias: Any, activation: Any) -> Any:
    """A linear layer with an activation after it.

    A weight of shape (K, D) and a bias of K lead from D to K dimensions. Both are NumPy
    arrays, or torch tensors on the CPU.
    """
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense

    outputs, inputs = weight.shape
    return Dense(
        inputs,
        outputs,
        activation_function=activation,
        init_weight=torch.as_tensor(weight, dtype=torch.float32).contiguous(),
        init_bias=torch.as_tensor(bias, dtype=torch.float32),
    )


def edit_json(file: Path, **changes: Any) -> None:
    """Change settings in a file; `torch_dtype`, the old name of `dtype`, is removed."""
    settings = read_settings(file)
    settings.pop("torch_dtype", None)
    settings.update(changes)
    write_json(file, settings)
