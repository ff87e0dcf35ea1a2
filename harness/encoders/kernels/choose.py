"""Which forward pass encodes with a model, and how texts are spread over batches and cores.

A fixed rule over device, precision and architecture decides and no measurement does, so
that a machine gives the same bits today and tomorrow. The plain padded pass is the
reference: another is taken only where it gives the same encodings. Importing this
module costs no torch.
"""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from harness.core.interfaces import Encoding

X86_MACHINES = frozenset(
    {"x86_64", "AMD64", "amd64", "i386", "i686"}
)  # as `platform.machine` names them
# Tokens of a batch whose states stay near a core. MiniLM on two AMD cores takes 3 %
# more time with 1024 and 8 % with 512; the bits of 4,000 sentences were the same, on
# one worker or two.
CPU_TOKENS = 2048
GPU_TOKENS = 16_384
PLAIN_TOKENS = 8192
# Of the largest coordinate: sums in another order, and what half a mantissa makes of
# them.
TOLERANCE = {"float32": 1e-5, "float16": 0.02, "bfloat16": 0.1}

Kernel = Callable[
    [Sequence[Sequence[int]]], Encoding
]  # unpadded token ids to pooled states
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Choice:
    """A forward pass, the library of its matrix products, and how much of it runs at a time.

    `plain` is the model itself on padded batches, `swapped` the model with other linear
    layers, `packed` its layers alone, without padding. Each of the `workers` takes a
    batch of about `tokens` tokens on `threads` threads (0: the calling thread, and as
    many as torch takes).
    """

    route: Literal["plain", "swapped", "packed"] = "plain"
    library: Literal["torch", "onednn"] = "torch"
    workers: int = 1
    threads: int = 0
    tokens: int = PLAIN_TOKENS


PLAIN = Choice()


def rule(*, packable: bool, onednn: bool, device: str, threads: int) -> Choice:
    """The pass for a model, on so many cores.

    x86 processor, oneDNN    its products, packed or else swapped; one worker a core
    another processor        torch's products, packed or else plain; one worker a core
    GPU                      torch's products, packed or else plain; one worker feeds it

    The packed pass reads a `packable` architecture; oneDNN multiplies an `onednn`
    model.
    """
    if device == "cpu" and onednn and platform.machine() in X86_MACHINES:
        return Choice(
            "packed" if packable else "swapped", "onednn", threads, 1, CPU_TOKENS
        )
    if not packable:
        return PLAIN
    if device == "cpu":
        return Choice("packed", "torch", threads, 1, CPU_TOKENS)
    return Choice("packed", "torch", 1, threads, GPU_TOKENS)


def choose_pass(plain: Any, ids: Sequence[int], dtype: str) -> tuple[Kernel, Choice]:
    """The pass of a model by the rule; its plain one where that gives other encodings."""
    import torch

    from harness.encoders.kernels.packed import has_onednn, is_packable

    choice = rule(
        packable=is_packable(plain.model),
        onednn=has_onednn(plain.model),
        device=plain.model.device.type,
        threads=torch.get_num_threads(),
    )
    kernel, batch = (
        kernel_of(plain, choice),
        [ids[:n] for n in (10, 15, 15, 20, len(ids), 3)],
    )
    if kernel is plain or _agree(plain(batch), kernel(batch), TOLERANCE[dtype]):
        return kernel, choice
    return plain, PLAIN


def kernel_of(plain: Any, choice: Choice) -> Kernel:
    """The forward pass of a choice, from the plain one of a model that it can run."""
    from harness.encoders.kernels.packed import PackedKernel, swapped

    if choice.route == "packed":
        return PackedKernel(plain, choice.library)
    return (
        replace(plain, model=swapped(plain.model))
        if choice.route == "swapped"
        else plain
    )


def _agree(reference: Encoding, other: Encoding, tolerance: float) -> bool:
    pairs = [(x, other.arrays[name]) for name, x in reference.arrays.items()]
    gaps = [np.abs(x - y).max() / max(1.0, np.abs(x).max()) for x, y in pairs]
    return bool(np.max(gaps) <= tolerance)


def batches(
    lengths: Sequence[int], budget: int, equal: bool = False
) -> Iterator[list[int]]:
    """Row numbers, so many at a time as fit the budget of padded tokens; or of `equal` lengths.

    Longest first: what does not fit in memory fails at once, and an estimate errs on
    the safe side.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        batch = order[start : start + max(1, budget // longest)]
        if equal:
            batch = [row for row in batch if lengths[row] == longest]
        yield batch
        start += len(batch)


def run_batches(
    work: Callable[[Item], Result], items: Iterable[Item], choice: Choice
) -> Iterator[Result]:
    """Results in the items' order; items are drawn while workers work, a few ahead of them."""
    if not choice.threads:
        yield from map(work, items)
        return
    import torch

    before = torch.get_num_threads()
    workers, threads = min(choice.workers, before), min(choice.threads, before)
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers, "encode", torch.set_num_threads, (threads,))
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(
            before
        )  # a worker's number is also that of threads to come


def multiplications(depth: int, width: int) -> int:
    """Multiplications that a token takes, roughly: 12 matrices (width, width) in each layer."""
    return 12 * depth * width**2 + width
