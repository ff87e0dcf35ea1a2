"""How an encoder's passes are run on a machine: chosen once by a short measurement, then kept.

A choice changes when a vector is there and not what it is: encodings differ by rounding alone, so
caches never ask how they were made. It is kept in the cache folder under all that it depends on,
and recorded beside every result.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal, NamedTuple, TypeVar

from harness.core.digests import digest_of
from harness.core.files import write_atomically

VERSION = 1  # of what is measured, part of the key
ROUNDS = 2  # the better one counts: whatever else runs only ever slows a pass down
MARGIN = 1.05  # by less than this, a measurement as short does not tell one from another
QUIET = 0.7  # of the processors' time, that a measurement must get
PLAIN_TOKENS = 8192
LENGTHS = (10, 15, 20, 15)  # tokens of the sentences that are measured; STS has 15 on average
WORTH_MEASURING = 100_000  # weights in a product; a smaller model is done before its measurement

Route = Literal["plain", "swapped", "packed"]
Library = Literal["torch", "onednn"]
Ids = Sequence[Sequence[int]]
Clock = Callable[[], float]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Choice:
    """Which pass, over which matrix product, and how much of it at a time.

    `plain`: the model itself on padded batches. `swapped`: the same with other linear layers.
    `packed`: its layers alone, without padding. So many `workers` take a batch each, of about so
    many `tokens`, on so many `threads` (0: this thread, and as many as torch takes).
    """

    route: Route = "plain"
    library: Library = "torch"
    workers: int = 1
    threads: int = 0
    tokens: int = PLAIN_TOKENS


PLAIN = Choice()
Rates = dict[Choice, float]


class Sizes(NamedTuple):
    """Tokens of a batch: what is tried first, and then; the plain pass is measured with `whole`."""

    first: int
    then: tuple[int, ...]
    whole: int


CPU = Sizes(1024, (512, 2048), 512)  # the states of a batch stay in a core's cache
GPU = Sizes(16_384, (4096, 65_536), 8192)


class Sample(NamedTuple):
    """What is measured: a pass, over so many of the model's layers."""

    run: Callable[[Ids], Any]
    layers: int


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


def remembered(
    file: Path,
    about: Mapping[str, object],
    likeliest: Choice,
    measure: Callable[[], Rates | None],
) -> Choice:
    """The choice in a file, else one that is measured and written there with its rates.

    Where nothing could be measured it is the likeliest, and nothing is written.
    """
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))["choice"]
        if set(stored) == {field.name for field in fields(Choice)}:
            return Choice(**stored)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or damaged: measured (again)
    rates = measure()
    if rates is None:
        return likeliest
    choice = best(rates)
    told = {str(tried): float(f"{rate:.3g}") for tried, rate in rates.items()}
    content = {"choice": asdict(choice), "of": dict(about), "rates": told}
    write_atomically(file, json.dumps(content, indent=1).encode())
    return choice


def file_of(cache: Path, about: Mapping[str, object]) -> Path:
    """Where the choice for this machine and these layers is kept."""
    return cache / "speed" / f"{digest_of({'version': VERSION, **about})[:32]}.json"


def choices(passes: Iterable[tuple[Route, Library]], threads: int, sizes: Sizes) -> list[Choice]:
    """What there is to choose from beside the plain pass, the likeliest first.

    A batch a processor, or a batch on all of them; a GPU is fed by one worker.
    """
    ways = dict.fromkeys([(threads, 1), (1, threads)] if sizes is CPU else [(1, threads)])
    return [Choice(*of, *way, sizes.first) for of in passes for way in ways]


def rates(
    options: Sequence[Choice],
    sample: Callable[[Choice], Sample],
    ids: Sequence[int],
    sizes: Sizes,
    clocks: tuple[Clock, Clock] = (perf_counter, process_time),
) -> Rates | None:
    """Tokens times layers a second of each option and of the plain pass, the likeliest first.

    `ids` are those of a text, pieces of which are measured. None on a machine that is busy with
    something else, where a measurement says nothing.
    """
    found: Rates = {}
    shares: list[float] = []  # of the processors' time that the likeliest got

    def try_out(tried: Sequence[Choice]) -> None:
        samples = {choice: sample(choice) for choice in tried}
        for _ in range(ROUNDS):  # in turn: a slow moment of the machine is everybody's
            for choice, (run, layers) in samples.items():
                tokens = choice.tokens if layers == 1 else sizes.whole // choice.workers
                batches = [probe(ids, tokens)] * choice.workers
                start = [clock() for clock in clocks]
                done = sum(1 for _ in in_order(run, batches, choice))
                wall, busy = (max(c() - s, 1e-9) for c, s in zip(clocks, start, strict=True))
                if choice == options[0]:
                    shares.append(busy / wall / (choice.workers * choice.threads))
                rate = done * sum(map(len, batches[0])) * layers / wall
                found[choice] = max(rate, found.get(choice, 0.0))

    try_out(options[:1])
    if sizes is CPU and max(shares) < QUIET:
        return None
    try_out([*options, PLAIN])
    if (fastest := best(found)) != PLAIN:
        try_out([replace(fastest, tokens=tokens) for tokens in sizes.then])
    return found


def best(rates: Rates) -> Choice:
    """The likeliest that is as good as the fastest, but none that is slower than the plain pass."""
    fastest = max(rates.values())
    choice = next(choice for choice, rate in rates.items() if rate * MARGIN >= fastest)
    return choice if rates[choice] >= rates[PLAIN] else PLAIN


def probe(ids: Sequence[int], tokens: int) -> list[list[int]]:
    """Sentences of about so many tokens together: beginnings of a text."""
    lengths = [min(length, len(ids)) for length in LENGTHS]
    times = max(1, tokens // sum(lengths))
    return [list(ids[:length]) for length in sorted(lengths * times)]
