"""How long a run takes: by the clocks of the records of cells like its own.

This machine's records come first, then the committed ones, scaled by how much faster or slower
this machine was where both have a clock. Only a cell of whose kind no record exists is guessed.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean, median

from harness.assets.places import Places
from harness.core.errors import DataError
from harness.core.interfaces import Trained
from harness.core.types import Corpus, MethodId, Record
from harness.results.index import Results
from harness.results.records import PlannedCell, Store, read_record
from harness.tasks.loader import TARGETS

# Seconds of a training on the spot of which none was timed here: on one of two ordinary cores.
TRAINING = 60.0
ENOUGH = 1.0  # seconds that both machines must have measured: a shorter clock shows noise
OF_A_CELL = ("fit", "apply", "score")  # the timings of a record, the encoding aside

Kind = tuple[str, ...]
Pass = tuple[str, str]  # encoder and corpus


def kinds(method: str, task: str) -> Iterator[Kind]:
    """The kinds of a cell, from its own to all with post-processors of these names."""
    yield "cell", method, task
    if (parsed := MethodId.parse(method)) is not None:
        post = "+".join(parsed.post)
        yield "post-processors and task", post, str(parsed.fit_on), task
        yield "post-processors", post
        yield "their names", "+".join(word.partition(":")[0] for word in parsed.post)


@dataclass(frozen=True)
class Forecast:
    """Seconds of work, by records: of each kind of cell, and of each pass over a corpus.

    `rates` are the sentences a second of encoders that have not run here. `pace` is this machine's
    time for a second of the other records'; 1 where nothing shows it.
    """

    cells: Mapping[Kind, float] = field(default_factory=dict)
    passes: Mapping[Pass, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    pace: float = 1.0

    @classmethod
    def of(cls, records: Iterable[Record]) -> Forecast:
        """Means over records. The quickest fit on a corpus took as long as the pass over it."""
        seconds, rates = defaultdict[Kind, list[float]](list), defaultdict[str, list[float]](list)
        passes: dict[Pass, float] = {}
        shared_by_record = [(record, _corpus_pass(record.method)) for record in records]
        for record, shared in shared_by_record:
            if shared is not None:
                fit = record.timings.get("fit", 0.0)
                passes[shared] = min(fit, passes.get(shared, math.inf))
        for record, shared in shared_by_record:
            took = sum(record.timings.get(name, 0.0) for name in OF_A_CELL)
            for kind in kinds(record.method, record.task):
                seconds[kind].append(took - (0.0 if shared is None else passes[shared]))
            if rate := record.facts.get("sentences_per_second"):
                rates[record.method.partition(".")[0]].append(rate)
        return cls(
            {kind: fmean(of_kind) for kind, of_kind in seconds.items()},
            passes,
            {encoder: median(of_encoder) for encoder, of_encoder in rates.items()},
        )

    @classmethod
    def read(cls, cells: Iterable[PlannedCell], runs: Store, committed: Results) -> Forecast:
        """By the records of a run, as far as they are of these cells, and the committed ones."""
        records = []
        for path in dict.fromkeys(runs.path(cell.address) for cell in cells):
            with suppress(DataError):  # a damaged one is the run's concern
                records += [read_record(path)] if path.exists() else []
        return cls.of(records).before(cls.of(chain.from_iterable(committed.by_cell.values())))

    def before(self, other: Forecast) -> Forecast:
        """This machine's forecast, and where it knows nothing, another's at this one's pace.

        The pace is that of the cells that both have, unless these are too short.
        """
        common = [kind for kind in self.cells.keys() & other.cells.keys() if kind[0] == "cell"]
        here, there = (math.fsum(of.cells[kind] for kind in common) for of in (self, other))
        pace = here / there if min(here, there) > ENOUGH else 1.0
        return Forecast(
            {kind: seconds * pace for kind, seconds in other.cells.items()} | dict(self.cells),
            {shared: seconds * pace for shared, seconds in other.passes.items()}
            | dict(self.passes),
            {encoder: rate / pace for encoder, rate in other.rates.items()},
            pace,
        )

    def of_cell(self, cell: PlannedCell) -> float | None:
        """Seconds to fit, apply and score; None where no record is of its kind."""
        alike = (self.cells.get(kind) for kind in kinds(cell.method.id, cell.task.name))
        return next((seconds for seconds in alike if seconds is not None), None)

    def of_pass(self, encoder: str, corpus: Corpus, rate: float) -> float | None:
        """Seconds of an encoder's pass over a corpus, by its records or at so many sentences/s.

        None where neither such a record nor the number of its sentences is known.
        """
        guess = None if corpus.count is None else corpus.count / rate
        return self.passes.get((encoder, corpus.name), guess)

    def of_training(self, source: Trained, places: Places) -> float:
        """Seconds to train a member, by those members that were trained here."""
        seconds = []
        for path in places.trained(source).parent.glob("seed-*/training.json"):
            with suppress(OSError, ValueError, LookupError, TypeError):
                seconds.append(float(json.loads(path.read_text(encoding="utf-8"))["seconds"]))
        return fmean(seconds) if seconds else TRAINING * self.pace


def _corpus_pass(method: str) -> Pass | None:
    """Encoder and corpus of a fit on a corpus, whose one pass serves all cells; None without."""
    parsed = MethodId.parse(method)
    if parsed is None or parsed.fit_on is None or parsed.fit_on in TARGETS:
        return None
    return parsed.encoder, parsed.fit_on
