"""Writes a folder that sentence-transformers opens: a checkpoint and modules after it.

`append_transformer` lists the checkpoint that is in a folder, and `append_module` adds
what comes after it, as the library saves it: `pooling_modules`, or a `dense` layer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.core.interfaces import Pooling
from harness.core.json_text import parse_json
from harness.encoders.checkpoint import (
    CONFIG_FILE,
    MODULES_FILE,
    read_settings,
    sentence_settings_file,
)
from harness.encoders.modules import LIBRARY, TRANSFORMER
from harness.transforms.pooling import Mean


def append_transformer(folder: Path, max_length: int | None) -> None:
    """List the checkpoint in a folder as its first module.

    `max_length` is the length that texts are cut to, in tokens; None leaves it to the
    checkpoint.
    """
    settings = {"max_seq_length": max_length, "do_lower_case": False}
    write_settings(sentence_settings_file(folder), settings)
    _list_module(folder, TRANSFORMER, "")


def pooling_modules(
    pooling: Pooling, *, depth: int, width: int, summary: int | None, pooler: Any = None
) -> list[Any]:
    """The modules of a mean over layers, or of the summary token.

    A mean over other layers than the last needs `output_hidden_states` in config.json,
    which `append_module` sets.

    Args:
        pooling: A `Mean`, or a pooling of the summary token.
        depth: The number of the encoder's layers.
        width: The dimensions of its hidden states.
        summary: The index of the summary token: 0 is the first, -1 the last; None for
            an encoder that has none.
        pooler: The `nn.Linear` of a layer with tanh after the pooling, if there is one.
    """
    import torch
    from sentence_transformers.sentence_transformer import modules as st

    modules: list[Any] = []
    if isinstance(pooling, Mean) and pooling.layers != (-1,):
        weights = torch.zeros(depth + 1)
        weights[list(pooling.hidden_states(depth))] = 1
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


def append_module(folder: Path, module: Any) -> None:
    """Save a module of sentence-transformers after the last one of a folder, and list it."""
    kind = type(module).__name__
    if kind == "WeightedLayerPooling":  # the library gives it the layers only then
        edit_json(folder / CONFIG_FILE, output_hidden_states=True)
    number = len(parse_json((folder / MODULES_FILE).read_bytes()))
    subfolder = f"{number}_{kind}"
    (folder / subfolder).mkdir()
    module.save(str(folder / subfolder))
    _list_module(folder, kind, subfolder)


def _list_module(folder: Path, kind: str, subfolder: str) -> None:
    """Add a module to modules.json."""
    file = folder / MODULES_FILE
    entries = parse_json(file.read_bytes()) if file.is_file() else []
    number = len(entries)
    entry = {
        "idx": number,
        "name": str(number),
        "path": subfolder,
        # Every version of the library finds its modules under this name.
        "type": f"{LIBRARY}models.{kind}",
    }
    write_settings(file, [*entries, entry])


def write_settings(file: Path, content: Any) -> None:
    """Write a file of settings."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def edit_json(file: Path, **changes: Any) -> None:
    """Change settings in a file; `torch_dtype`, the old name of `dtype`, is removed."""
    settings = read_settings(file)
    settings.pop("torch_dtype", None)
    settings.update(changes)
    write_settings(file, settings)
