"""Which forward pass encodes with a model, and how its batches are spread over the cores.

A fixed rule over device, precision and architecture decides and no measurement does, so that a
machine gives the same bits today and tomorrow. The plain padded pass is the reference: another is
taken only where it gives the same encodings. Importing this module costs no torch.
"""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from harness.core.errors import UsageError
from harness.core.interfaces import Encoding

X86 = frozenset({"x86_64", "AMD64", "amd64", "i386", "i686"})  # as `platform.machine` names them
# Tokens of a batch whose states stay near a core. MiniLM on two AMD cores takes 3 % more time with
# 1024 and 8 % with 512; the bits of 4,000 sentences were the same, on one worker or two.
CPU_TOKENS = 2048
GPU_TOKENS = 16_384
PLAIN_TOKENS = 8192
# Of the largest coordinate: sums in another order, and what half a mantissa makes of them.
TOLERANCE = {"float32": 1e-5, "float16": 0.02, "bfloat16": 0.1}

Route = Literal["plain", "swapped", "packed"]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Choice:
    """A forward pass, the library of its matrix products, and how much of it runs at a time.

    `plain` is the model itself on padded batches, `swapped` the model with other linear layers,
    `packed` its layers alone, without padding. Each of the `workers` takes a batch of about
    `tokens` tokens on `threads` threads (0: the calling thread, and as many as torch takes).
    """

    route: Route = "plain"
    library: Literal["torch", "onednn"] = "torch"
    workers: int = 1
    threads: int = 0
    tokens: int = PLAIN_TOKENS


PLAIN = Choice()


@runtime_checkable
class Kernel(Protocol):
    """A forward pass: the token ids of a batch, unpadded, to their pooled states."""

    def __call__(self, batch: Sequence[Sequence[int]]) -> Encoding: ...


def rule(
    *, known: bool, onednn: bool, device: str, threads: int, machine: str | None = None
) -> Choice:
    """The pass for a model on a device.

    x86 processor, oneDNN    its products, packed or else swapped; one worker a core
    another processor        torch's products, packed or else plain; one worker a core
    GPU                      torch's products, packed or else plain; one worker feeds it

    Args:
        known: Whether the packed pass knows the architecture.
        onednn: Whether oneDNN can multiply the model's matrices (`packed.has_onednn`).
        device: A torch device type, such as `cpu` or `cuda`.
        threads: The processor cores that torch may use.
        machine: The processor's architecture; by default this machine's.
    """
    if device == "cpu" and onednn and (machine or platform.machine()) in X86:
        return Choice("packed" if known else "swapped", "onednn", threads, 1, CPU_TOKENS)
    if not known:
        return PLAIN
    if device == "cpu":
        return Choice("packed", "torch", threads, 1, CPU_TOKENS)
    return Choice("packed", "torch", 1, threads, GPU_TOKENS)


def choose(
    name: str, plain: Any, ids: Sequence[int], dtype: str, given: Choice | None = None
) -> tuple[Kernel, Choice]:
    """The pass of a model as given or by the rule, checked against its plain pass.

    A pass of the rule that gives other encodings is left for the plain one.

    Args:
        name: The encoder's, for error messages.
        plain: The model's `PaddedKernel`.
        ids: Token ids of a text, pieces of which are encoded by both passes.
        dtype: The precision of the weights.
        given: The pass to take, whatever the rule says.

    Raises:
        UsageError: The given pass cannot run this model, or gives other encodings.
    """
    import torch

    from harness.encoders.kernels.packed import has_onednn, is_known

    known, onednn = is_known(plain.model), has_onednn(plain.model)
    device, threads = plain.model.device.type, torch.get_num_threads()
    choice = given or rule(known=known, onednn=onednn, device=device, threads=threads)
    if choice.route == "plain":
        return plain, choice
    library_runs = onednn if choice.library == "onednn" else choice.route == "packed"
    if not library_runs or (choice.route == "packed" and not known):
        raise UsageError(
            f"{name}: wanted the {choice.route} pass with {choice.library}, found an architecture, "
            "a device or a torch that has it not; take another, or none to have one chosen"
        )
    other = make(plain, choice)
    if _agree(plain, other, ids, TOLERANCE[dtype]):
        return other, choice
    if given:
        raise UsageError(f"{name}: the {choice.route} pass gives other encodings than the model")
    return plain, PLAIN


def make(plain: Any, choice: Choice) -> Kernel:
    """The forward pass of a choice, from the plain one of a model that it can run."""
    from harness.encoders.kernels.packed import PackedKernel, read_stack, swapped

    if choice.route == "packed":
        return PackedKernel(plain, read_stack(plain.model, choice.library))
    if choice.route == "swapped":
        return replace(plain, model=swapped(plain.model))
    return plain


def _agree(plain: Kernel, other: Kernel, ids: Sequence[int], tolerance: float) -> bool:
    """Whether two passes agree on sentences of several lengths in no order."""
    batch = [list(ids[:length]) for length in (10, 15, 15, 20, len(ids), 3)]
    wanted, found = plain(batch), other(batch)
    parts = ((wanted.mean, found.mean), (wanted.cls, found.cls), (wanted.pooler, found.pooler))
    for x, y in parts:
        if x is None:
            continue
        if y is None or x.shape != y.shape:
            return False
        if not np.abs(x - y).max() <= tolerance * max(1.0, np.abs(x).max()):
            return False
    return True


def in_order(
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
        torch.set_num_threads(before)  # a worker's number is also that of threads to come
