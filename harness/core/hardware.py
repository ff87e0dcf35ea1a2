"""The device, the precision and the size of batches that an encoder runs with.

A precision below float32 moves scores, so an encoder in it is another one, and its name
says so: `minilm-float16`, cut at 64 tokens `minilm-float16:64`. A device and a batch
move rounding alone.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from dataclasses import dataclass

from harness.core.errors import UsageError

FLOAT32 = "float32"
HALVES = ("bfloat16", "float16")


@dataclass(frozen=True)
class Hardware:
    """The device and the precision that an encoder runs with.

    Args:
        device: A torch device: `cpu`, `cuda`, `cuda:1`, `mps`.
        dtype: The precision of weights and states: float32, bfloat16 or float16.
        batch_tokens: Tokens of a batch, padding included; None is the device's own.

    Raises:
        UsageError: There is no such precision, or a batch is empty.

    Examples:
        >>> from harness import Hardware, load_registry
        >>> bert = load_registry().encoders["bert-mini"]
        >>> bert.on(Hardware("cuda", "bfloat16")).name
        'bert-mini-bfloat16'
    """

    device: str = "cpu"
    dtype: str = FLOAT32
    batch_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in (choices := (FLOAT32, *HALVES)):
            raise UsageError(
                f"wanted a precision of {', '.join(choices)}, found {self.dtype!r}"
            )
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise UsageError(
                f"wanted 1 token or more in a batch, found {self.batch_tokens}"
            )


def cuda_devices() -> int:
    """How many CUDA devices the driver shows this process: to import torch takes seconds."""
    number = ctypes.c_int(0)
    with suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
        _ = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(number))
    return number.value


def base_name(encoder: str) -> str:
    """An encoder's name without length and precision: `minilm-float16:64` -> `minilm`."""
    return precision_of(encoder)[0].partition(":")[0]


def precision_of(encoder: str) -> tuple[str, str]:
    """An encoder's name without the precision, and the precision."""
    name, colon, length = encoder.partition(":")
    stem, _, dtype = name.rpartition("-")
    return (f"{stem}{colon}{length}", dtype) if dtype in HALVES else (encoder, FLOAT32)


def in_precision(encoder: str, dtype: str) -> str:
    """An encoder's name in a precision."""
    name, colon, length = precision_of(encoder)[0].partition(":")
    return f"{name}{'' if dtype == FLOAT32 else f'-{dtype}'}{colon}{length}"
