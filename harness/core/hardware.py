"""The device, the precision and the size of batches that an encoder runs with.

A precision below float32 changes scores. So it makes another encoder, and is in its
name: `minilm-float16`, or `minilm-float16:64` with a maximum length. A device and a
size of batches change rounding alone.
"""

from __future__ import annotations

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
        precisions = (FLOAT32, *HALVES)
        if self.dtype not in precisions:
            raise UsageError(
                f"wanted a precision of {', '.join(precisions)}, found {self.dtype!r}"
            )
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise UsageError(
                f"wanted 1 token or more in a batch, found {self.batch_tokens}"
            )


def base_name(encoder: str) -> str:
    """An encoder's name without length and precision: `minilm-float16:64` -> `minilm`."""
    name, _ = precision_of(encoder)
    return name.partition(":")[0]


def precision_of(encoder: str) -> tuple[str, str]:
    """An encoder's name without the precision, and the precision.

    `minilm-float16:64` -> `minilm:64`, `float16`.
    """
    name, colon, length = encoder.partition(":")
    base, _, dtype = name.rpartition("-")
    if dtype not in HALVES:
        return encoder, FLOAT32
    return f"{base}{colon}{length}", dtype


def in_precision(encoder: str, dtype: str) -> str:
    """An encoder's name with a precision: `minilm:64`, `float16` -> `minilm-float16:64`."""
    float32_name, _ = precision_of(encoder)
    if dtype == FLOAT32:
        return float32_name
    name, colon, length = float32_name.partition(":")
    return f"{name}-{dtype}{colon}{length}"
