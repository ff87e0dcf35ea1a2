"""Folders of sentence-transformers: what one says of itself, and how one is written.

`modules.json` names modules and their folders; prompts and similarity function are in
`config_sentence_transformers.json`. sentence-transformers computes with the modules
(`native.py`), and refuses settings that it does not know. What it would apply, and the
harness would not, is refused here by name. `write_modules` adds modules to a
checkpoint as the library saves them. Importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import DataError, UsageError
from harness.core.files import parse_json, write_json
from harness.core.interfaces import Pooling
from harness.encoders.checkpoint import (
    CONFIG_FILE,
    LIBRARY_SETTINGS,
    MODULES_FILE,
    read_settings,
    sentence_settings,
    sentence_settings_file,
)
from harness.transforms.pooling import MEAN, NATIVE, Mean

MODEL_FILE = "config_sentence_transformers.json"
# The package whose modules are run; modules of another package are foreign code.
LIBRARY = "sentence_transformers."

TRANSFORMER = "Transformer"
POOLING = "Pooling"
NORMALIZE = "Normalize"
DENSE = "Dense"
BAG_OF_WORDS = "BoW"  # counts of words, without weights
# The modules that are run, by their place.
FIRST_MODULES = frozenset(
    {TRANSFORMER, "WordEmbeddings", "StaticEmbedding", BAG_OF_WORDS}
)
# Of states of tokens that the library alone computes, one text at a time.
WORD_MODULES = frozenset({"CNN", "LSTM", "WordWeights"})
LATER_MODULES = WORD_MODULES | {
    "WeightedLayerPooling",
    POOLING,
    DENSE,
    "LayerNorm",
    NORMALIZE,
    "Dropout",
}
ROUTER = "Router"
OWN_FUNCTION = "open it in a function of your own (`harness new encoder NAME`)"

# The settings of the model as a whole that are read, and those that move no vector.
MODEL_SETTINGS = frozenset(
    {
        "__version__",
        "default_prompt_name",
        "model_type",
        "prompts",
        "requirements",
        "similarity_fn_name",
        "truncate_dim",
    }
)
MODEL_TYPE = "SentenceTransformer"  # of others the library pools the mean instead
# The settings under which the library gives the states of a text's tokens, as the harness
# does, where it has not always done so.
STATES_OF_TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}
STATES_OF_TOKENS = "token_embeddings"
TASK = "feature-extraction"
CHAT_TEMPLATES = (
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates",
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
POOLING_WIDTHS = ("embedding_dimension", "word_embedding_dimension")
POOLING_SETTINGS = frozenset(
    {"pooling_mode", "include_prompt", *POOLING_WIDTHS, *POOLING_MODES.values()}
)
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
        library_steps: In words what the library alone does with a text or its states,
            such as a chat template.
    """

    folder: Path
    entries: tuple[tuple[str, str], ...]
    pooling: Mapping[str, Any]
    lower_cases: bool
    prompts: Mapping[str, str]
    prompt_name: str | None
    dimensions: int | None
    library_steps: tuple[str, ...] = ()

    @property
    def is_of_library(self) -> bool:
        """Whether the library computes all of it, not only the modules after a transformer."""
        has_transformer = self.kinds[0] == TRANSFORMER
        return (
            not has_transformer
            or bool(self.library_steps)
            or not WORD_MODULES.isdisjoint(self.kinds)
        )

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
        is_plain = kinds == (TRANSFORMER, POOLING) and not self.is_of_library
        if not is_plain or self.modes not in (("mean",), ("cls",)):
            return ""
        [mode] = self.modes
        _, subfolder = self.entries[0]
        config = read_settings(self.folder / subfolder / CONFIG_FILE)
        # The library takes the first token for `cls`, whatever the architecture.
        if mode == "cls" and (
            config.get("model_type") not in CLS_FIRST or config.get("is_decoder")
        ):
            return ""
        return mode

    @property
    def steps(self) -> list[str]:
        """In words all that is done to a text and its states."""
        steps = [*self.library_steps, *self.kinds[1:]]
        if not steps:
            steps.append(self.kinds[0])
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
        kind, subfolder = self.entries[-1]
        settings = read_settings(self.folder / subfolder / CONFIG_FILE)
        vector = "sentence_embedding"
        return (
            kind == NORMALIZE
            and settings.get("module_input_name", vector) == vector
            and settings.get("module_output_name") in (None, vector)
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
    if not (path / MODULES_FILE).is_file() and not unlisted_steps(path):
        return MEAN.name
    return read_modules(path.name, path).equal_pooling or NATIVE.name


def unlisted_steps(folder: Path) -> tuple[str, ...]:
    """What the library does with a folder without modules.json besides a mean over tokens.

    A chat template is put around each text, of a causal language model the last token is
    taken, and of a model of two halves the states of its decoder.
    """
    config = read_settings(folder / CONFIG_FILE)
    steps = []
    if has_chat_template(folder):
        steps.append("the chat template")
    architecture = next(iter(config.get("architectures") or ()), "")
    if architecture.endswith("ForCausalLM") and config.get("is_causal", True):
        steps.append(f"the last token of a {architecture}")
    if pools_decoder(config):
        steps.append("the states of the decoder")
    return tuple(steps)


def has_chat_template(folder: Path) -> bool:
    """Whether the tokenizer of a folder has a chat template, in its settings or a file."""
    settings = read_settings(folder / "tokenizer_config.json")
    is_set = settings.get("chat_template") is not None
    return is_set or any((folder / name).exists() for name in CHAT_TEMPLATES)


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
    if kind == TRANSFORMER:
        return folder / subfolder
    remedy = "take the pooling native" if kind in FIRST_MODULES else OWN_FUNCTION
    if kind == ROUTER:
        remedy = (
            "name the folder of a model in it and a pooling, as in "
            "FOLDER/document_0_Transformer.mean"
        )
    raise DataError(
        f"{folder / MODULES_FILE}: wanted a transformer as its first module, found a "
        f"{kind}; {remedy}"
    )


def read_modules(name: str, folder: Path) -> Modules:
    """The modules of a folder; `name` is the encoder's, for messages.

    A folder without modules.json has those that the library gives it: a transformer and
    its pooling.

    Raises:
        UsageError: The folder has no modules.json, and its pooling would be the mean.
        DataError: A module or a setting is not understood.
    """
    entries = _entries(folder)
    if not entries:
        steps = unlisted_steps(folder)
        if not steps:
            raise UsageError(
                f"{name}.native: {folder} has no {MODULES_FILE}, which says what a model's own "
                f"pooling is; take {name}.mean, or another pooling"
            )
        return Modules(
            folder=folder,
            entries=((TRANSFORMER, ""),),
            pooling={},
            lower_cases=False,
            prompts=DEFAULT_PROMPTS,
            prompt_name=None,
            dimensions=None,
            library_steps=steps,
        )
    _require_known_modules(folder, [kind for kind, _ in entries])
    transformer: Mapping[str, Any] = {}
    library_steps: tuple[str, ...] = ()
    pooling: Mapping[str, Any] = {}
    for kind, subfolder in entries:
        settings_file = folder / subfolder / CONFIG_FILE
        if kind == TRANSFORMER:
            transformer = sentence_settings(folder / subfolder)
            library_steps = _library_steps(folder / subfolder, transformer)
        if kind == POOLING:
            pooling = _pooling_settings(settings_file)
        if kind == DENSE:
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
    for setting, value in settings.items():
        if setting not in MODEL_SETTINGS and value is not None:
            raise DataError(
                f"{file}: {setting} = {value!r:.80} is unknown here, and may move vectors; remove "
                "it if it does not, or take another pooling than native"
            )
    model_type = settings.get("model_type", MODEL_TYPE)
    if model_type != MODEL_TYPE:
        raise DataError(
            f"{file}: wanted a {MODEL_TYPE}, found model_type = {model_type!r}, whose modules give "
            "no vector of a sentence; take another pooling than native"
        )
    dimensions = settings.get("truncate_dim")
    prompts = dict(DEFAULT_PROMPTS)
    for prompt_name, text in (settings.get("prompts") or {}).items():
        prompts[prompt_name] = text or ""
    modules = Modules(
        folder=folder,
        entries=tuple(entries),
        pooling=pooling,
        lower_cases=bool(transformer.get("do_lower_case")),
        prompts=prompts,
        prompt_name=settings.get("default_prompt_name"),
        dimensions=dimensions,
        library_steps=library_steps,
    )
    similarity = settings.get("similarity_fn_name") or "cosine"
    has_unit_length = modules.is_normalised and not dimensions
    if similarity != "cosine" and not (similarity == "dot" and has_unit_length):
        raise DataError(
            f"{file}: wanted vectors that are compared by their cosine, found "
            f"similarity_fn_name = {similarity!r} of vectors of any length, which is not computed "
            "here; take another pooling than native"
        )
    return modules


def _require_known_modules(folder: Path, kinds: Sequence[str]) -> None:
    """Refuse modules that are code of another package, or give no vector of a text alone."""
    first, *others = kinds
    if first in FIRST_MODULES and LATER_MODULES.issuperset(others):
        return
    remedy = OWN_FUNCTION
    if first == TRANSFORMER:
        remedy = "take another pooling than native"
    if first == ROUTER:
        remedy = "name the folder of a model in it"
    raise DataError(
        f"{folder / MODULES_FILE}: wanted a {TRANSFORMER} and its {POOLING}, or a table of "
        f"vectors, and then maps of vectors, of sentence-transformers, found {', '.join(kinds)}; "
        f"other code is not run: {remedy}"
    )


def _pooling_settings(file: Path) -> dict[str, Any]:
    """The settings of a pooling. Raises DataError for a file that the library does not open."""
    settings = read_settings(file)
    if not any(settings.get(width) for width in POOLING_WIDTHS):
        raise DataError(
            f"{file}: wanted the settings of a pooling with its {POOLING_WIDTHS[0]}, found "
            f"{'no file' if not file.is_file() else settings}; fetch the whole folder, or take "
            "another pooling than native"
        )
    mode = settings.get("pooling_mode", "mean")
    if not mode or not isinstance(mode, str | list):
        raise DataError(
            f"{file}: wanted a way of pooling, found pooling_mode = {mode!r}; correct it"
        )
    for setting, value in settings.items():
        if setting not in POOLING_SETTINGS:
            raise DataError(
                f"{file}: {setting} = {value!r:.80} is no setting of a pooling of "
                "sentence-transformers 6, which opens no folder with it; remove it"
            )
    return settings


def _library_steps(folder: Path, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """What the settings of a transformer make of a text or its states besides states of tokens.

    `settings` are those of sentence_bert_config.json.
    """
    modality = settings.get("modality_config", {"text": STATES_OF_TEXT})
    is_plain = {
        "modality_config": isinstance(modality, dict)
        and modality.get("text") == STATES_OF_TEXT
        and "message" not in modality,
        # Without a modality_config the library takes its own.
        "module_output_name": "modality_config" not in settings
        or settings.get("module_output_name") == STATES_OF_TOKENS,
        "processing_kwargs": not settings.get("processing_kwargs"),
        "transformer_task": settings.get("transformer_task", TASK) == TASK,
    }
    file = sentence_settings_file(folder)
    steps = [
        f"{setting} of {file.name}"
        for setting in LIBRARY_SETTINGS
        if not is_plain[setting]
    ]
    if pools_decoder(read_settings(folder / CONFIG_FILE)):
        steps.append("the states of the decoder")
    return tuple(steps)


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
