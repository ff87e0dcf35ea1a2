"""The tensors of a checkpoint, read without trust in its files.

Safetensors are read as they are. A `pytorch_model.bin` goes once through torch's
restricted unpickler into safetensors in the cache; nothing else is ever unpickled.
Importing this module does not import torch.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from harness.core.digests import sha256_of
from harness.core.errors import CACHE_SETTING, DataError
from harness.core.files import make_folder, replacing
from harness.encoders.checkpoint import INDEX, PICKLED, library_errors, weights_files

# What torch raises, by experiment, for a pickle that it cannot or must not load.
UNREADABLE_PICKLE = (
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
)
# The part of torch's message that names the function which a pickle calls.
PICKLED_CALL = re.compile(r"GLOBAL ([A-Za-z_][\w.]*) ", re.ASCII)

# Tensors that an encoder leaves unused: heads of pre-training and of tasks, and buffers
# that every model makes anew. Any other is a part of the encoder that its configuration
# has no place for.
UNUSED_TENSORS = re.compile(
    r"(^|\.)(position_ids|token_type_ids|masked_bias|inv_freq|attn\.bias)$"
    r"|^(cls|classifier|score|mlp|qa_outputs|qa_classifier|lm_head|lm_loss|mlm|pooler|predictions)\b"
    r"|^(discriminator_predictions|generator_predictions|generator_lm_head|pred_layer|sop_classifier)\b"
    r"|^(discriminator|generator|electra_head)\b"
    r"|^(lm_predictions|mask_predictions|vocab_(transform|layer_norm|projector)|final_logits_bias)\b"
)


def read_tensors(folder: Path, cache: Path | None = None) -> dict[str, Any]:
    """Every tensor of the checkpoint in a folder, as a torch tensor by its name.

    Args:
        folder: The checkpoint folder.
        cache: The cache folder, which keeps the safetensors form of a pickled checkpoint;
            None keeps none.

    Raises:
        DataError: The files are damaged, or hold other things than tensors.
    """
    from safetensors.torch import load_file

    files = weights_files(folder)
    if files[0].name == PICKLED:
        pickled = files[0]
        if cache is None:
            return unpickled(pickled)
        return load_file(_converted(cache, pickled))
    tensors: dict[str, Any] = {}
    for file in files:
        if file.name == INDEX:
            continue
        with library_errors(f"{file}: wanted safetensors", "fetch it again"):
            tensors.update(load_file(file))
    return tensors


def converted_once(cache: Path, file: Path, write: Callable[[Path], None]) -> Path:
    """The safetensors form of a file, in the cache folder under the file's digest.

    `write` writes it to a path; it is called if the cache does not have it.
    """
    converted = cache / "converted" / f"{sha256_of(file)}.safetensors"
    if not converted.exists():
        make_folder(cache, CACHE_SETTING)
        with replacing(converted) as scratch:
            write(scratch)
    return converted


def _converted(cache: Path, pickled: Path) -> Path:
    """The safetensors form of a pickled checkpoint, in the cache folder."""
    from safetensors.torch import save_file

    return converted_once(
        cache, pickled, lambda path: save_file(unpickled(pickled), path)
    )


def unpickled(path: Path) -> dict[str, Any]:
    """The tensors of a pickle by name; none of them shares its memory with another."""
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE_PICKLE as error:
        # torch's message is not repeated: it advises to trust the file, and quotes it.
        call = PICKLED_CALL.search(str(error))
        content_in_words = "something else, or a damaged file"
        if call:
            content_in_words = f"a use of {call[1]}"
        raise DataError(
            f"{path}: wanted a pickle of nothing but tensors, found {content_in_words}; it was "
            "not loaded: take a safetensors checkpoint, or fetch it again"
        ) from error
    tensors = {}
    for name, value in (
        content.items() if isinstance(content, Mapping) else [("", content)]
    ):
        if not torch.is_tensor(value):
            raise DataError(
                f"{path}: wanted tensors of numbers by name, found a {type(value).__name__} as "
                f"{name!r:.60}; save the model with save_pretrained, as safetensors"
            )
        tensors[str(name)] = value.clone().contiguous()
    return tensors


def safetensors_of(folder: Path, cache: Path) -> tuple[Path, ...]:
    """The safetensors files of the weights in a folder; of a pickle, its form in the cache."""
    files = weights_files(folder)
    if files[0].name == PICKLED:
        return (_converted(cache, files[0]),)
    return tuple(file for file in files if file.name != INDEX)


def parameter_count(folder: Path) -> int | None:
    """The number of parameters in a checkpoint; None if it is pickled or damaged.

    Tensors of integers are buffers and not counted.
    """
    from safetensors import SafetensorError, safe_open

    count = 0
    for file in weights_files(folder):
        if file.suffix != ".safetensors":
            continue
        try:
            tensors: Any = safe_open(file, "numpy")
        except SafetensorError:  # `read_tensors` says what is wrong with it
            return None
        for name in tensors.keys():  # noqa: SIM118
            tensor = tensors.get_slice(name)
            if "F" in tensor.get_dtype():  # F32, F16, BF16; I64 is an integer
                count += prod(tensor.get_shape())
    return count or None
