"""The forward passes that a checkpoint can go through, and which of them it does on this machine.

The plain pass is the measure of all: another is taken only if it gives the same encodings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from harness.core.errors import UsageError
from harness.core.provenance import environment
from harness.core.types import Encoding
from harness.encoders.kernels.linear import libraries, swapped
from harness.encoders.kernels.packed import PackedKernel, is_known, read_stack
from harness.encoders.kernels.padded import PaddedKernel
from harness.encoders.kernels.speed import (
    CPU,
    GPU,
    PLAIN,
    WORTH_MEASURING,
    Choice,
    Sample,
    choices,
    file_of,
    probe,
    rates,
    remembered,
)

# Of the largest coordinate: sums in another order, and what half a mantissa makes of them.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 0.02, torch.bfloat16: 0.1}


@dataclass(frozen=True, eq=False)
class SwappedKernel:
    """The padded pass of a model whose linear layers are multiplied by oneDNN."""

    plain: PaddedKernel
    padded: PaddedKernel

    @property
    def model(self) -> Any:
        """The model as it was."""
        return self.plain.model

    def __call__(self, batch: Sequence[Sequence[int]]) -> Encoding:
        return self.padded(batch)


Kernel = PaddedKernel | SwappedKernel | PackedKernel


def choose(
    name: str,
    plain: PaddedKernel,
    ids: Sequence[int],
    depth: int,
    cache: Path,
    choice: Choice | None = None,
) -> tuple[Kernel, Choice]:
    """The pass to take, and how: as given, else as measured once on this machine.

    `ids` are those of a text, `depth` is the number of the model's layers. Raises UsageError for a
    given choice that this model does not have.
    """
    given, choice = choice is not None, choice or _measured(plain, ids, depth, cache)
    if choice.route == "plain":
        return plain, choice
    if (choice.route, choice.library) not in _passes(plain.model):
        raise UsageError(
            f"{name}: wanted the {choice.route} pass with {choice.library}, found an architecture, "
            "a device or a torch that has it not; take another, or none to have one chosen"
        )
    kernel = make(plain, choice)
    if _alike(plain, kernel, ids):
        return kernel, choice
    if given:
        raise UsageError(f"{name}: the {choice.route} pass gives other encodings than the model")
    return plain, PLAIN


def moved(plain: PaddedKernel, device: str, dtype: str) -> PaddedKernel:
    """The plain pass on a device and in a precision."""
    found = getattr(torch, dtype, None)
    if found not in TOLERANCE:
        raise UsageError(f"wanted float32, float16 or bfloat16, found the precision {dtype!r}")
    try:
        return replace(plain, model=plain.model.to(torch.device(device), found))
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"wanted a device that torch has, found {device!r}: {reason}") from error


def make(plain: PaddedKernel, choice: Choice, layers: int | None = None) -> Kernel:
    """The pass of a choice, over the first layers alone where it can."""
    if choice.route == "packed":
        return PackedKernel(plain, read_stack(plain.model, choice.library, layers))
    if choice.route == "swapped":
        return SwappedKernel(plain, replace(plain, model=swapped(plain.model)))
    return plain


def _passes(model: Any) -> list[tuple[Any, Any]]:
    """Routes and libraries beside the plain pass, the likeliest first."""
    route = "packed" if is_known(model) else "swapped"
    usable = libraries(model)
    return [(route, library) for library in usable if route == "packed" or library != "torch"]


def _measured(plain: PaddedKernel, ids: Sequence[int], depth: int, cache: Path) -> Choice:
    model, threads = plain.model, torch.get_num_threads()
    sizes = CPU if model.device.type == "cpu" else GPU
    options = choices(_passes(model), threads, sizes)
    shapes = {tuple(m.weight.shape) for m in model.modules() if isinstance(m, nn.Linear)}
    if not options or max(map(np.prod, shapes), default=0) < WORTH_MEASURING:
        return options[0] if options else PLAIN
    machine = environment()
    about = {
        "processor": machine["processor"],
        "device": _device_name(model),
        "threads": threads,
        "torch": torch.__version__,
        "transformers": machine["packages"]["transformers"],
        "architecture": model.config.model_type,
        "dtype": str(model.dtype),
        "shapes": sorted(shapes),
        "options": list(map(str, options)),
    }

    def sample(choice: Choice) -> Sample:
        packed = choice.route == "packed"
        return Sample(make(plain, choice, 1 if packed else None), 1 if packed else depth)

    return remembered(
        file_of(cache, about), about, options[0], lambda: rates(options, sample, ids, sizes)
    )


def _device_name(model: Any) -> str:
    if model.device.type == "cuda":
        return torch.cuda.get_device_name(model.device)
    return str(model.device)


def _alike(plain: PaddedKernel, kernel: Kernel, ids: Sequence[int]) -> bool:
    """Whether two passes agree, on sentences of several lengths in no order."""
    batch = [*probe(ids, 1), list(ids), list(ids[:3])]
    wanted, found = plain(batch), kernel(batch)
    tolerance = TOLERANCE[plain.model.dtype]
    pairs = [(getattr(wanted, part), getattr(found, part)) for part in ("mean", "cls", "pooler")]
    present = [(a, b) for a, b in pairs if a is not None and b is not None]
    return len(present) == sum(a is not None for a, _ in pairs) and all(
        a.shape == b.shape and np.abs(a - b).max() <= tolerance * max(1.0, np.abs(a).max())
        for a, b in present
    )
