"""Which forward pass encodes with a model, and how texts are spread over batches and cores.

Two passes give the encodings of a model (`passes.py`):

* plain: the model itself on padded batches, the reference;
* packed: the layers of the model alone, on batches without padding.

A fixed rule over device, precision and architecture decides, and no measurement does, so
that a machine gives the same bits today and tomorrow. Another pass than the plain one is
taken only where it gives the same encodings. Importing this module does not import torch.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from harness.core.arrays import Float32
from harness.core.interfaces import Encoding

# As `platform.machine` names them.
X86_MACHINES = frozenset({"x86_64", "AMD64", "amd64", "i386", "i686"})

# Tokens of a batch whose states stay in the cache of a core. MiniLM on two AMD cores
# takes 3 % more time with 1024 and 8 % with 512; the bits of 4,000 sentences were the
# same, on one worker or two.
CPU_TOKENS = 2048
GPU_TOKENS = 16_384
PLAIN_TOKENS = 8192

# How far two passes may be apart, as a share of the largest coordinate: sums in another
# order, and the rounding of a half precision.
TOLERANCE = {"float32": 1e-5, "float16": 0.02, "bfloat16": 0.1}

# From the token ids of sentences, without padding, to the encodings of the sentences.
Kernel = Callable[[Sequence[Sequence[int]]], Encoding]

Item = TypeVar("Item")
Result = TypeVar("Result")


# The choice of a pass


@dataclass(frozen=True)
class Choice:
    """A forward pass, the library of its matrix products, and how batches are run.

    Attributes:
        route: The pass.
        library: The library that multiplies its matrices.
        workers: How many batches are encoded at a time, each by a thread of its own.
        threads: The threads of each worker; 0 encodes in the calling thread, with as
            many threads as torch takes.
        tokens: The tokens of a batch, padding included.
    """

    route: Literal["plain", "packed"] = "plain"
    library: Literal["torch", "onednn", "mkl"] = "torch"
    workers: int = 1
    threads: int = 0
    tokens: int = PLAIN_TOKENS


PLAIN = Choice()


def rule(
    *, packable: bool, onednn: bool, device: str, threads: int, mkl: bool = False
) -> Choice:
    """The pass for a model on a device.

    The packed pass is taken for every architecture that it can read: on a processor with
    one worker for each core, and with the products of oneDNN where that is an x86; with
    those of MKL where it has AVX2 alone. The plain pass is taken for any other.

    Args:
        packable: Whether the packed pass can read the architecture.
        onednn: Whether oneDNN can multiply the model's matrices.
        device: The type of torch's device: `cpu`, `cuda` or `mps`.
        threads: The number of cores.
        mkl: Whether MKL multiplies them faster.
    """
    if not packable:
        return PLAIN
    if device != "cpu":
        return Choice(route="packed", workers=1, threads=threads, tokens=GPU_TOKENS)
    library: Literal["torch", "onednn", "mkl"] = "torch"
    if platform.machine() in X86_MACHINES and (mkl or onednn):
        library = "mkl" if mkl else "onednn"
    return Choice(
        route="packed", library=library, workers=threads, threads=1, tokens=CPU_TOKENS
    )


def choose_pass(
    plain_kernel: Any, golden_ids: Sequence[int], dtype: str
) -> tuple[Kernel, Choice]:
    """The pass of a model by the rule; the plain one where that gives other encodings.

    Args:
        plain_kernel: The `PaddedKernel` of the model.
        golden_ids: The token ids of the golden sentence. Its beginnings, of several
            lengths, are the batch on which the two passes are compared.
        dtype: The precision of the model.
    """
    import torch

    from harness.encoders.kernels.passes import (
        PackedKernel,
        has_onednn,
        is_packable,
        prefers_mkl,
    )

    has_library = has_onednn(plain_kernel.model)
    choice = rule(
        packable=is_packable(plain_kernel.model),
        onednn=has_library,
        mkl=prefers_mkl(plain_kernel.model),
        device=plain_kernel.model.device.type,
        threads=torch.get_num_threads(),
    )
    if choice.route == "plain":
        return plain_kernel, choice
    kernel = PackedKernel(plain_kernel, choice.library)
    if choice.library == "mkl":
        # An encoding must not depend on its batch. A worker has other threads than this.
        [is_alike] = run_batches(
            lambda packed: packed.multiplies_rows_alike(), [kernel], choice
        )
        if not is_alike:
            choice = replace(choice, library="onednn" if has_library else "torch")
            kernel = PackedKernel(plain_kernel, choice.library)
    prefix_lengths = (10, 15, 15, 20, len(golden_ids), 3)
    batch = [golden_ids[:length] for length in prefix_lengths]
    reference, candidate = plain_kernel(batch), kernel(batch)
    for name, expected in reference.arrays.items():
        # `not <=`, so that a gap that is no number counts.
        if not relative_gap(expected, candidate.arrays[name]) <= TOLERANCE[dtype]:
            return plain_kernel, PLAIN
    return kernel, choice


def relative_gap(x: Float32[np.ndarray, "..."], y: Float32[np.ndarray, "..."]) -> float:
    """The largest difference of two arrays, as a share of x's largest coordinate or of 1."""
    return float(np.abs(x - y).max() / max(1.0, np.abs(x).max()))


# Batches


def batches(
    lengths: Sequence[int], budget: int, equal: bool = False
) -> Iterator[list[int]]:
    """Batches of sentences, each as the list of its rows, the longest sentences first.

    So a batch that does not fit in memory fails at once, and the time left is
    overestimated and not underestimated.

    Args:
        lengths: The tokens of each sentence.
        budget: The tokens of a batch at most, padding included. A longer sentence is a
            batch of its own.
        equal: Whether a batch holds sentences of one length only.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        sentence_count = max(1, budget // longest)
        batch = order[start : start + sentence_count]
        if equal:
            batch = [row for row in batch if lengths[row] == longest]
        yield batch
        start += len(batch)


def run_batches(
    work: Callable[[Item], Result], items: Iterable[Item], choice: Choice
) -> Iterator[Result]:
    """The result of each item, in the order of the items; they are taken while workers work."""
    if not choice.threads:
        yield from map(work, items)
        return
    import torch

    thread_count = torch.get_num_threads()
    pool = ThreadPoolExecutor(
        max_workers=min(choice.workers, thread_count),
        thread_name_prefix="encode",
        initializer=torch.set_num_threads,
        initargs=(min(choice.threads, thread_count),),
    )
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        # A number that a worker sets is also that of threads which are started later.
        torch.set_num_threads(thread_count)


def multiplications(depth: int, width: int) -> int:
    """Multiplications that a token takes, roughly: 12 matrices (width, width) in each layer."""
    return 12 * depth * width**2 + width
