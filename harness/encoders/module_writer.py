"""Writes a folder that sentence-transformers opens: a checkpoint and modules after it.

`write_modules` adds to a checkpoint what comes after it, as the library saves it:
`pooling_modules`, or a `dense` layer.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.core.files import write_json
from harness.core.interfaces import Pooling
from harness.encoders.checkpoint import (
    CONFIG_FILE,
    MODULES_FILE,
    read_settings,
    sentence_settings_file,
)
from harness.encoders.modules import LIBRARY, TRANSFORMER
from harness.transforms.pooling import Mean


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
    """The modules of a mean over layers, or of the summary token.

    A mean over other layers than the last needs `output_hidden_states` in config.json,
    which `write_modules` sets.

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


def edit_json(file: Path, **changes: Any) -> None:
    """Change settings in a file; `torch_dtype`, the old name of `dtype`, is removed."""
    settings = read_settings(file)
    settings.pop("torch_dtype", None)
    settings.update(changes)
    write_json(file, settings)
