"""The pooling that an encoder means where none is named, read from its files alone.

A sentence-transformers folder says it in `modules.json`; for any other, sentence-transformers takes
the mean over tokens. Modules that come to one of our poolings bear its name, so that their scores
stand beside what is published for it: a last `Normalize` moves no cosine. All others are `native`:
the folder's modules as they are.
"""

from __future__ import annotations

import json
from pathlib import Path

from harness.core.errors import DataError
from harness.encoders.checkpoint import read_json
from harness.encoders.subword_vectors import MODEL_TYPE

NATIVE = "native"
OURS = {"mean": "mean", "mean_tokens": "mean", "cls": "cls", "cls_token": "cls"}

POOLED = ("Transformer", "Pooling")
LIBRARY = "sentence_transformers."  # begins the type of every module that is no remote code
SWITCH = "pooling_mode_"  # begins the name of a mode in folders written before version 6


def own_pooling(path: Path) -> str:
    """The word of the pooling that an encoder's files ask for.

    Args:
        path: The encoder's folder, or its file of vectors.

    Returns:
        `mean` or `cls` where nothing else is asked for, else `native`.

    Raises:
        DataError: A file of the folder is damaged.
    """
    modules = path / "modules.json"
    is_table = path.is_file() or read_json(path / "config.json").get("model_type") == MODEL_TYPE
    if is_table or not modules.is_file():
        return "mean"
    found = _modules(modules)
    kinds = tuple(kind for kind, _ in found)
    if kinds not in (POOLED, (*POOLED, "Normalize")) or _changes_texts(path):
        return NATIVE
    return _mode(path / found[1][1] / "config.json")


def _modules(path: Path) -> list[tuple[str, str]]:
    """Kind and folder of each module, in order; a kind that is remote code keeps its full name."""
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        found = [(str(module["type"]), str(module["path"])) for module in listed]
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(
            f"{path}: wanted a list of modules, found {error!r}; get it again"
        ) from None
    return [(k.rpartition(".")[2] if k.startswith(LIBRARY) else k, where) for k, where in found]


def _changes_texts(path: Path) -> bool:
    """Whether texts are lower-cased beyond the tokenizer, or get a prompt."""
    stated = read_json(path / "config_sentence_transformers.json")
    prompts, default = stated.get("prompts") or {}, stated.get("default_prompt_name")
    return bool(read_json(path / "sentence_bert_config.json").get("do_lower_case")) or (
        default is not None and prompts.get(default) != ""
    )


def _mode(config: Path) -> str:
    """Our word for the one mode of a Pooling module; `native` for any other, or several."""
    stated = read_json(config)
    on = [name for name, value in stated.items() if name.startswith(SWITCH) and value is True]
    modes = [stated["pooling_mode"]] if "pooling_mode" in stated else on
    return OURS.get(str(modes[0]).removeprefix(SWITCH), NATIVE) if len(modes) == 1 else NATIVE
