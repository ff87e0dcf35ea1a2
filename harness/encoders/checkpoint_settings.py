"""The settings of a checkpoint folder: its JSON files, and the maximum length that they state.

A folder may hold settings that transformers or sentence-transformers would apply and
the harness does not: adapters, quantised weights, arguments of loading. `NOT_APPLIED`
lists them. Whenever the weights of a folder are read, `require_nothing_unapplied`
refuses a folder that holds one of them, because other programs would get other vectors.
Importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import DataError, UsageError
from harness.core.files import require_no_pointer
from harness.core.json_text import parse_json

CONFIG_FILE = "config.json"

# sentence-transformers keeps the settings of a transformer in
# `sentence_KIND_config.json`, and looks for the kinds in this order.
SENTENCE_KINDS = (
    "bert",
    "roberta",
    "distilbert",
    "camembert",
    "albert",
    "xlm-roberta",
    "xlnet",
)

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


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON object from a file; an empty one if there is no such file."""
    if not path.is_file():
        return {}
    require_no_pointer(path)
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


# The maximum length


def sentence_settings_file(folder: Path) -> Path:
    """The file in which sentence-transformers keeps a transformer's settings.

    `sentence_bert_config.json` where the folder has none.
    """
    paths = [folder / f"sentence_{kind}_config.json" for kind in SENTENCE_KINDS]
    # The first that holds a setting, as there.
    return next((path for path in paths if read_settings(path)), paths[0])


def maximum_length(name: str, folder: Path, requested_length: int | None = None) -> int:
    """The length that texts are cut to, in tokens, special tokens included.

    Args:
        name: The name of the encoder, for messages.
        folder: The checkpoint folder.
        requested_length: The length that the user asks for; None takes the one that
            the checkpoint states.

    Raises:
        UsageError: The checkpoint has too few positions for the requested length; or
            no length is requested, and the checkpoint states none.
    """
    limit = _position_limit(read_settings(folder / CONFIG_FILE))
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
    name = next((name for name in names if settings.get(name) is not None), None)
    if name is None:
        return None
    length = settings[name]
    is_number = isinstance(length, int | float) and not isinstance(length, bool)
    if is_number and length >= UNLIMITED_LENGTH:
        return None
    if not is_number or length < 1 or length != int(length):
        raise DataError(
            f"{file}: wanted a number of tokens, found {name} = {length!r}; correct it"
        )
    return int(length)


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


# What other programs apply and the harness does not


@dataclass(frozen=True)
class NotApplied:
    """A file that other programs apply and the harness does not, or a setting in such a file.

    Attributes:
        file: The file's name, which may be a pattern with `*`.
        setting: The name of the setting, at any depth of the file, which is refused if
            it has a value; empty refuses the file itself.
        remedy: What the user can do, for the message.
    """

    file: str
    setting: str
    remedy: str


LOADING_ARGUMENTS = (
    "model_args",
    "model_kwargs",
    "tokenizer_args",
    "processor_kwargs",
    "config_args",
    "config_kwargs",
    "tokenizer_name_or_path",
)
QUANTISATION = "quantization_config"

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
        file=CONFIG_FILE,
        setting=QUANTISATION,
        remedy="quantised weights are not read; take the model in float32, bfloat16 or float16",
    ),
    NotApplied(
        file=CONFIG_FILE,
        setting="transformers_weights",
        remedy="weights are read from model.safetensors or its shards; rename the file, and "
        "remove the setting",
    ),
    NotApplied(
        file=CONFIG_FILE,
        setting="configuration_files",
        remedy="settings are read from config.json alone; put them there, and remove the setting",
    ),
    *(
        NotApplied(
            file="sentence_*_config.json",
            setting=argument,
            remedy="the transformer is opened without further arguments; merge them into its own "
            "files",
        )
        for argument in LOADING_ARGUMENTS
    ),
)


def require_nothing_unapplied(folder: Path) -> None:
    """Refuse a folder with files or settings that other programs apply and the harness does not."""
    for entry in NOT_APPLIED:
        for file in sorted(folder.glob(entry.file)):
            if not entry.setting:
                raise DataError(f"{file}: {entry.remedy}")
            for value in _values_of(entry.setting, read_settings(file)):
                # Transformers quantises with an empty quantization_config, too.
                if value not in ({}, []) or entry.setting == QUANTISATION:
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
