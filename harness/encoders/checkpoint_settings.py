"""The settings of a checkpoint folder: its JSON files, and the maximum length that they state.

A folder may hold what other programs apply and the harness does not: adapters, quantised
weights, code of its own, arguments of loading. `require_nothing_unapplied` refuses such a
folder, because other programs would get other vectors.
Importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.core.errors import DataError, UsageError
from harness.core.json_text import parse_json

CONFIG_FILE = "config.json"

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

    It is named after a kind of transformer, and one without settings is passed over;
    `sentence_bert_config.json` where the folder has none.
    """
    for path in sorted(folder.glob("sentence_*_config.json")):
        if read_settings(path):
            return path
    return folder / "sentence_bert_config.json"


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


# What other programs apply and the harness does not

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
OWN_CODE = (
    "the model's own code is not run, and transformers' code of the same type may give other "
    "vectors; remove the setting to read the model with that"
)
ADAPTER_FILE = "adapter_config.json"
ADAPTER = (
    "adapters are not applied; merge it into its base with merge_and_unload of peft and save that "
    "model, or remove the adapter to read the base alone"
)
# What is refused where it has a value: the pattern of a file, the name of a setting, and
# what the user can do.
NOT_APPLIED = (
    (
        CONFIG_FILE,
        QUANTISATION,
        "quantised weights are not read; take the model in float32, bfloat16 or float16",
    ),
    (
        CONFIG_FILE,
        "transformers_weights",
        "weights are read from model.safetensors or its shards; rename the file, and remove the "
        "setting",
    ),
    (CONFIG_FILE, "auto_map", OWN_CODE),
    ("tokenizer_config.json", "auto_map", OWN_CODE),
    *(
        (
            "sentence_*_config.json",
            argument,
            "the transformer is opened without further arguments; merge them into its own files",
        )
        for argument in LOADING_ARGUMENTS
    ),
)


def require_nothing_unapplied(folder: Path) -> None:
    """Refuse a folder with files or settings that other programs apply and the harness does not."""
    if (folder / ADAPTER_FILE).is_file():
        raise DataError(f"{folder / ADAPTER_FILE}: {ADAPTER}")
    for pattern, setting, remedy in NOT_APPLIED:
        for file in sorted(folder.glob(pattern)):
            value = read_settings(file).get(setting)
            # Transformers quantises with an empty quantization_config, too.
            if value not in (None, {}, []) or (value == {} and setting == QUANTISATION):
                raise DataError(f"{file}: {setting} = {value!r:.80}; {remedy}")
