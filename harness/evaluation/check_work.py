"""The encodings that a check of a model's numbers needs, and of these, what is not cached."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from harness.conclusions.cards import CardNumber
from harness.core.errors import HarnessError
from harness.core.interfaces import EncoderConfig
from harness.core.terminal import counted, duration
from harness.evaluation.search import Search
from harness.transforms.pooling import statistics_of


@dataclass(frozen=True, kw_only=True)
class CheckWork:
    """What a check encodes.

    Attributes:
        tasks: The tasks whose pairs are scored.
        encoded: Those of them with texts that are not cached.
        texts: How many texts are encoded; what several tasks have is one text.
        seconds: How long that takes at the rate that was measured here; None where this
            model never encoded anything.
    """

    tasks: tuple[str, ...]
    encoded: tuple[str, ...]
    texts: int
    seconds: float | None

    def __str__(self) -> str:
        """`7 tasks: 2 to encode (4,512 texts, about 40 s), 5 are in the cache`."""
        tasks = counted(len(self.tasks), "task")
        if not self.encoded:
            return f"{tasks}: all encodings are in the cache"
        work = counted(self.texts, "text")
        if self.seconds is not None:
            work += f", about {duration(self.seconds)}"
        text = f"{tasks}: {len(self.encoded)} to encode ({work})"
        cached = len(self.tasks) - len(self.encoded)
        if cached:
            text += f", {cached} in the cache"
        return text


def work_of_check(search: Search, numbers: Iterable[CardNumber]) -> CheckWork:
    """What a check of numbers encodes; a task that is not on this machine is left out.

    A number that may be of two tasks counts with both.
    """
    tasks: dict[str, None] = {}
    encoded: dict[str, None] = {}
    missing: dict[EncoderConfig, dict[str, None]] = {}  # texts by encoder
    rates = []
    seen = set()
    for number in numbers:
        for name in filter(None, (number.task, number.or_task)):
            key = (name, repr(number.statement.settings))
            if number.why_not or key in seen:
                continue
            seen.add(key)
            with suppress(HarnessError):
                task = search.registry.tasks[name]
                method = search.model.stated(number.statement.settings).method(task)
                texts = search.loader.texts(task, method.fit_on).sentences
                cache = search.encoder(method.encoder).cache
                lacking = cache.missing(texts, statistics_of(method.pooling))
                rates.append(cache.rate)
                tasks[name] = None
                if lacking:
                    encoded[name] = None
                    of_encoder = missing.setdefault(method.encoder, {})
                    of_encoder.update(dict.fromkeys(lacking))
    characters = sum(len(text) for texts in missing.values() for text in texts)
    rate = next(filter(None, rates), None)
    return CheckWork(
        tasks=tuple(tasks),
        encoded=tuple(encoded),
        texts=sum(map(len, missing.values())),
        seconds=None if rate is None else characters / rate,
    )
