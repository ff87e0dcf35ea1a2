"""Writes the modules of a sentence-transformers folder, each by one function.

`append_transformer` lists the checkpoint that is in a folder; `append_pooling` and
`append_dense` add what comes after it. sentence-transformers then opens the folder, and
`modules.py` reads it. Importing this module does not import torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from harness.core.interfaces import Pooling
from harness.core.json_text import parse_json
from harness.encoders.checkpoint import MODULES_FILE, SAFETENSORS
from harness.encoders.checkpoint_settings import CONFIG_FILE, read_settings
from harness.encoders.modules import (
    DENSE,
    LIBRARY,
    POOLING,
    POOLING_MODES,
    TANH,
    TRANSFORMER,
    WEIGHTED_LAYERS,
    module_settings_file,
)
from harness.transforms.pooling import Mean


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """A linear layer from D to K dimensions: a weight of shape (K, D) and a bias of K.

    Both are NumPy arrays, or torch tensors on the CPU.
    """

    weight: Any
    bias: Any


def append_transformer(folder: Path, max_length: int | None) -> None:
    """List the checkpoint in a folder as its first module.

    `max_length` is the length that texts are cut to, in tokens; None leaves it to the
    checkpoint.
    """
    append_module(
        folder, TRANSFORMER, {"max_seq_length": max_length, "do_lower_case": False}
    )


def append_pooling(
    folder: Path,
    pooling: Pooling,
    *,
    depth: int,
    width: int,
    summary: int | None,
    pooler: LinearLayer | None = None,
) -> None:
    """Append the modules of a mean over layers, or of the summary token.

    Args:
        folder: The folder of the model.
        pooling: A `Mean`, or a pooling of the summary token.
        depth: The number of the encoder's layers.
        width: The dimensions of its hidden states.
        summary: The index of the summary token: 0 is the first, -1 the last; None for
            an encoder that has none.
        pooler: A dense layer with tanh after the pooling, if there is one.
    """
    if not isinstance(pooling, Mean):
        append_mode(folder, width, "lasttoken" if summary else "cls")
    else:
        if pooling.layers != (-1,):
            _append_layer_mean(folder, pooling, depth, width)
        append_mode(folder, width, "mean")
    if pooler is not None:
        append_dense(folder, pooler, TANH)


def _append_layer_mean(folder: Path, pooling: Mean, depth: int, width: int) -> None:
    """Append the mean of some layers, as weights of 0 and 1 of all layers."""
    weights = np.zeros(depth + 1, np.float32)
    weights[list(pooling.hidden_states(depth))] = 1
    settings = {
        "layer_start": 0,
        "num_hidden_layers": depth,
        "word_embedding_dimension": width,
    }
    append_module(folder, WEIGHTED_LAYERS, settings, {"layer_weights": weights})
    edit_json(folder / CONFIG_FILE, output_hidden_states=True)


def append_mode(folder: Path, width: int, mode: str) -> None:
    """Append a pooling of token vectors of `width` dimensions; `mode` is a key of POOLING_MODES."""
    switches = {setting: name == mode for name, setting in POOLING_MODES.items()}
    append_module(folder, POOLING, {"word_embedding_dimension": width, **switches})


def append_dense(folder: Path, layer: LinearLayer, activation: str) -> None:
    """Append a linear layer and the activation after it, one of ACTIVATIONS."""
    outputs, inputs = layer.weight.shape
    settings = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": True,
        "activation_function": activation,
    }
    tensors = {"linear.weight": layer.weight, "linear.bias": layer.bias}
    append_module(folder, DENSE, settings, tensors)


def append_module(
    folder: Path,
    kind: str,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Any] | None = None,
) -> None:
    """Write a module after the last one of a folder, and list it in modules.json.

    The first module is written into the folder itself, the others into folders in it.

    Args:
        folder: The folder of the model.
        kind: The class of the module in sentence-transformers.
        settings: Its settings; no file is written for empty ones.
        tensors: Its weights by name, written in float32; None for a module without any.
    """
    file = folder / MODULES_FILE
    entries = parse_json(file.read_bytes()) if file.is_file() else []
    number = len(entries)
    subfolder = f"{number}_{kind}" if entries else ""
    module_folder = folder / subfolder
    module_folder.mkdir(exist_ok=True)
    if settings:
        write_json(module_settings_file(kind, module_folder), settings)
    if tensors:
        arrays = {
            name: np.ascontiguousarray(tensor, np.float32)
            for name, tensor in tensors.items()
        }
        save_file(arrays, module_folder / SAFETENSORS, {"format": "pt"})
    entry = {
        "idx": number,
        "name": str(number),
        "path": subfolder,
        # Every version of the library finds its modules under this name.
        "type": f"{LIBRARY}models.{kind}",
    }
    write_json(file, [*entries, entry])


def write_json(file: Path, content: Any) -> None:
    """Write a file of settings."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def edit_json(file: Path, **changes: Any) -> None:
    """Change settings in a file; `torch_dtype`, the old name of `dtype`, is removed."""
    settings = read_settings(file)
    settings.pop("torch_dtype", None)
    settings.update(changes)
    write_json(file, settings)
