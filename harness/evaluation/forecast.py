"""How long a run takes: by the clocks of the records of cells like its own.

This machine's records come first, then the committed ones, scaled by how much faster or slower
this machine was where both have a clock. Only a cell of whose kind no record exists is guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import fmean, median

from harness.assets.places import Places
from harness.core.errors import DataError
from harness.core.interfaces import Trained
from harness.core.types import Corpus, MethodId, Record
from harness.results.index import Results
from harness.results.records import PlannedCell, Store, read_record
from harness.tasks.loader import TARGETS

GUESSED = 0.2  # seconds of a cell of whose kind there is no record
# Seconds of a training on the spot of which none was timed here: on one of two ordinary cores.
TRAINING = 60.0
ENOUGH = 1.0  # seconds that both machines must have measured: a shorter clock shows noise
OF_A_CELL = ("fit", "apply", "score")  # the timings of a record, the encoding aside

Kind = tuple[str, ...]
Pass = tuple[str, str]  # encoder and corpus


def kinds(method: str, task: str) -> Iterator[Kind]:
    """The kinds of a cell, from its own to all with post-processors of these names."""
    parsed = MethodId.parse(method)
    yield "cell", method, task
    if parsed is not None:
        post = "+".join(parsed.post)
        yield "post-processors and task", post, str(parsed.fit_on), task
        yield "post-processors", post
        yield "their names", "+".join(one.partition(":")[0] for one in parsed.post)


def corpus_pass(method: str) -> Pass | None:
    """Encoder and corpus of a fit on a corpus, whose one pass serves all cells; None without."""
    parsed = MethodId.parse(method)
    if parsed is None or parsed.fit_on is None or parsed.fit_on in TARGETS:
        return None
    return parsed.encoder, parsed.fit_on


@dataclass(frozen=True)
class Clocks:
    """What cells of each kind took in some records, in seconds.

    `passes` are those over corpora, which every record of a fit on them includes; `rates` are the
    sentences a second that each encoder encoded.
    """

    seconds: Mapping[Kind, float] = field(default_factory=dict)
    passes: Mapping[Pass, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Clocks:
        """Means over records. The quickest fit on a corpus took as long as the pass over it."""
        records = tuple(records)
        passes: dict[Pass, float] = {}
        for record in records:
            if (shared := corpus_pass(record.method)) is not None:
                fit = record.timings.get("fit", 0.0)
                passes[shared] = min(fit, passes.get(shared, math.inf))
        seconds: dict[Kind, list[float]] = {}
        rates: dict[str, list[float]] = {}
        for record in records:
            shared = corpus_pass(record.method)
            took = sum(record.timings.get(name, 0.0) for name in OF_A_CELL)
            took -= passes[shared] if shared is not None else 0.0
            for kind in kinds(record.method, record.task):
                seconds.setdefault(kind, []).append(took)
            if rate := record.facts.get("sentences_per_second"):
                rates.setdefault(record.method.partition(".")[0], []).append(rate)
        return cls(
            {kind: fmean(of_kind) for kind, of_kind in seconds.items()},
            passes,
            {encoder: median(found) for encoder, found in rates.items()},
        )


@dataclass(frozen=True)
class Forecast:
    """Seconds of the work of cells, from this machine's clocks and from those of other records.

    `pace` is this machine's time for a second of the other records'; 1 where nothing shows it.
    """

    own: Clocks = Clocks()
    other: Clocks = Clocks()
    pace: float = 1.0

    @classmethod
    def read(cls, cells: Iterable[PlannedCell], runs: Store, committed: Results) -> Forecast:
        """By the records of a run, as far as they are of these cells, and the committed ones."""
        paths = dict.fromkeys(runs.path(cell.address) for cell in cells)
        own = Clocks.of(_readable(paths))
        other = Clocks.of(chain.from_iterable(committed.by_cell.values()))
        return cls(own, other, _pace(own.seconds, other.seconds) or 1.0)

    def with_rates(self, here: Mapping[str, float]) -> Forecast:
        """With the pace of encoding where the clocks of no cell show one.

        `here` are the sentences a second of each encoder that has run on this machine.
        """
        if self.pace != 1.0:
            return self
        known = self.other.rates
        common = [known[name] / rate for name, rate in here.items() if name in known]
        return replace(self, pace=median(common)) if common else self

    def rate(self, encoder: str) -> float | None:
        """Sentences a second of an encoder that has not run here; None without a record."""
        rate = self.other.rates.get(encoder)
        return rate and rate / self.pace

    def of_cell(self, cell: PlannedCell) -> float | None:
        """Seconds to fit, apply and score; None where no record is of its kind."""
        for kind in kinds(cell.method.id, cell.task.name):
            if kind in self.own.seconds:
                return self.own.seconds[kind]
            if kind in self.other.seconds:
                return self.other.seconds[kind] * self.pace
        return None

    def of_pass(self, encoder: str, corpus: Corpus, rate: float) -> float | None:
        """Seconds of an encoder's pass over a corpus, by its records or at so many sentences/s.

        None where neither such a record nor the number of its sentences is known.
        """
        if (encoder, corpus.name) in self.own.passes:
            return self.own.passes[encoder, corpus.name]
        if (encoder, corpus.name) in self.other.passes:
            return self.other.passes[encoder, corpus.name] * self.pace
        return None if corpus.count is None else corpus.count / rate

    def of_training(self, source: Trained, places: Places) -> float:
        """Seconds to train a member, by those members that were trained here."""
        told = places.trained(source).parent.glob("seed-*/training.json")
        timed = [seconds for path in told if (seconds := _seconds_in(path)) is not None]
        return fmean(timed) if timed else TRAINING * self.pace


def _readable(paths: Iterable[Path]) -> Iterator[Record]:
    """The records among these paths; a damaged one is the run's concern, not the forecast's."""
    for path in paths:
        if path.exists():
            try:
                yield read_record(path)
            except DataError:
                continue


def _pace(own: Mapping[Kind, float], other: Mapping[Kind, float]) -> float | None:
    """Own seconds for one of the others, over the cells of both; None where these are too short."""
    common = [kind for kind in own.keys() & other.keys() if kind[0] == "cell"]
    here, there = (math.fsum(of[kind] for kind in common) for of in (own, other))
    return here / there if min(here, there) > ENOUGH else None


def _seconds_in(training: Path) -> float | None:
    try:
        return float(json.loads(training.read_text(encoding="utf-8"))["seconds"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
