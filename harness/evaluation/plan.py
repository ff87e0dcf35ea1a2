"""The plan of a run: its cells, the files that they need, what is cached, and the time it takes.

It begins with the identity of a measurement: what a stored result must agree in to count as done.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from harness.assets.places import asset_named
from harness.core.errors import AssetMissing, HarnessError
from harness.core.files import sized
from harness.core.hardware import base_name
from harness.core.interfaces import Trained
from harness.core.provenance import code_digest
from harness.core.terminal import duration, table, wrapped
from harness.core.types import Corpus, Task
from harness.encoders.cache.encodings import EncoderCache, known_key
from harness.encoders.cache.gc import cache_size
from harness.encoders.native import modules_left_out
from harness.evaluation.fit_corpus import (
    DIGITS,
    file_name,
    from_moments,
    needs_dropout,
    sentences_read,
)
from harness.evaluation.forecast import GUESSED, Forecast
from harness.results.records import PlannedCell, Store, sidecar_metadata
from harness.tasks.loader import CellInputs, TaskLoader, distinct_sentences


def identity_of(cell: PlannedCell, inputs: CellInputs, encoding: str) -> dict[str, str]:
    """Method, data, encoding and code of a cell; `encoding` is the encoder's key.

    The digest of the sentences of a fit (`fit`), for which a corpus is read, is left out.
    """
    return {
        "method": repr(cell.method),
        "data": inputs.digests["data"],
        "encoding": encoding,
        "code": code_digest(),
        **inputs.digests,
    }


# Sentences a second on two ordinary cores for an encoder of MiniLM's size (90 MB of weights),
# until the cache knows what this encoder took here.
FIRST_GUESS = 400.0
FIRST_GUESS_BYTES = 90e6
UNKNOWN = Forecast()

Needs = tuple[Task, str | None]  # a task and what is fitted on
Sample = tuple[int | None, int | None]  # the seeds that draw a corpus's sentences and the dropout


@dataclass(frozen=True)
class EncoderPlan:
    """The work of one encoder; `missing` is the line that says how to get its files, or None.

    `where` is the kind of place where its files lie. `seconds` are those of encoding; `passes`,
    those of the passes over each corpus that are not made yet, None where the number of its
    sentences is not known. `fit_seconds`, of fits and scores, count `guessed` cells of whose kind
    no record exists. What was `measured` before costs nothing.
    """

    name: str
    source: str
    cells: int
    missing: str | None
    sentences: int = 0
    cached: int = 0
    measured: int = 0
    seconds: float = 0.0
    passes: Mapping[str, float | None] = field(default_factory=dict)
    fit_seconds: float = 0.0
    training_seconds: float = 0.0
    guessed: int = 0
    rate: float | None = None  # sentences a second, as it encoded here
    expected_rate: float = FIRST_GUESS  # the same, or by records, or guessed
    key: str = ""
    cache_bytes: int = 0
    to_train: bool = False  # by the run itself
    where: str = ""
    note: str = ""  # on modules of the model that no cell applies


@dataclass(frozen=True)
class DataPlan:
    """A data set that cells read: the kind of place where it lies, or empty if it is missing.

    `bytes` are on disk, or to be fetched, as far as they are known; what cannot be fetched has to
    be brought `by_hand`.
    """

    name: str
    where: str
    bytes: int | None
    by_hand: bool


@dataclass(frozen=True)
class Plan:
    """All of it. `missing` maps an asset to the line that says how to get it.

    So many `workers` fit and score beside each other.
    """

    cells: int
    runnable: int
    encoders: tuple[EncoderPlan, ...]
    missing: dict[str, str]
    cache_bytes: int = 0  # of everything cached, whether these cells need it or not
    data: tuple[DataPlan, ...] = ()
    workers: int = 1
    comparing: float = 0.0  # seconds to compare the rows of leaderboard tables

    @property
    def unknown_corpora(self) -> list[str]:
        """The corpora of whose passes the time is not known."""
        passes = (one for encoder in self.encoders for one in encoder.passes.items())
        return list(dict.fromkeys(name for name, seconds in passes if seconds is None))

    @property
    def parts(self) -> dict[str, float | None]:
        """Seconds that are left to do, by what takes them; None where that is not known."""
        encoders = self.encoders
        passes = sum(seconds_of_passes(encoder) for encoder in encoders)
        shared = {
            "training": sum(encoder.training_seconds for encoder in encoders),
            "fitting and scoring": sum(encoder.fit_seconds for encoder in encoders),
            "comparing rows": self.comparing,
        }
        return {
            "encoding": sum(encoder.seconds for encoder in encoders),
            "passes over corpora": None if self.unknown_corpora else passes,
            **{part: seconds / self.workers for part, seconds in shared.items()},
        }

    @property
    def seconds(self) -> float:
        """Estimated time of all that is left to do, without the parts that are not known."""
        return sum(seconds for seconds in self.parts.values() if seconds is not None)


def seconds_of_passes(encoder: EncoderPlan) -> float:
    """Seconds of an encoder's passes over corpora, as far as they are known."""
    return math.fsum(seconds for seconds in encoder.passes.values() if seconds is not None)


def plan(
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    runs: Store | None = None,
    forecast: Forecast = UNKNOWN,
    workers: int = 1,
) -> Plan:
    """Look at everything that the cells need.

    `runs` holds what was measured before, if that counts; without a forecast, times are guesses.
    """
    missing: dict[str, str] = {}
    names = dict.fromkeys((cell.task, cell.method.fit_on) for cell in cells)
    inputs = {name: _inputs(*name, loader, missing) for name in names}
    encoders: list[EncoderPlan] = []
    groups: list[tuple[PlannedCell, ...]] = []
    runnable = 0
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        of_encoder = tuple(group)
        texts = [inputs[cell.task, cell.method.fit_on] for cell in of_encoder]
        present = [cell_inputs for cell_inputs in texts if cell_inputs is not None]
        encoder = _encoder(of_encoder, present, loader, forecast)
        if encoder.missing:
            base = base_name(of_encoder[0].method.encoder.name)
            missing[f"encoder {base}"] = encoder.missing
        else:
            runnable += len(present)
        encoders.append(encoder)
        groups.append(of_encoder)
    forecast = forecast.with_rates({e.name: e.rate for e in encoders if e.rate is not None})
    encoders = [
        _with_fits(encoder, group, inputs, forecast, runs, loader)
        for encoder, group in zip(encoders, groups, strict=True)
    ]
    total = cache_size(loader.places.cache)
    data = tuple(_data(name, loader) for name in _assets(cells, loader))
    return Plan(len(cells), runnable, tuple(encoders), missing, total, data, workers)


def _assets(cells: Sequence[PlannedCell], loader: TaskLoader) -> list[str]:
    """The assets that the cells read besides encoders, in order, without repeats."""
    fitted = (loader.corpora.get(cell.method.fit_on or "") for cell in cells)
    corpora = (corpus.asset for corpus in fitted if corpus is not None)
    return list(dict.fromkeys((*(cell.task.asset for cell in cells), *corpora)))


def _data(name: str, loader: TaskLoader) -> DataPlan:
    asset, places = asset_named(name), loader.places
    kind = "package" if asset.embedded else "data folder" if asset.probe else "hub cache"
    if places.data(asset) is None:
        return DataPlan(name, "", asset.to_get, not asset.downloads)
    return DataPlan(name, kind, asset.size, not asset.downloads)


def _inputs(
    task: Task, fit_on: str | None, loader: TaskLoader, missing: dict[str, str]
) -> CellInputs | None:
    """The texts of a cell; None, and a reason, if data are missing."""
    try:
        return loader.inputs(task, fit_on)
    except HarnessError as error:
        corpus = loader.corpora.get(fit_on or "")
        lacks_corpus = corpus is not None and loader.places.has_data(task.asset)
        missing[corpus.asset if corpus and lacks_corpus else task.asset] = str(error)
        return None


def _encoder(
    planned: Sequence[PlannedCell],
    inputs: Sequence[CellInputs],
    loader: TaskLoader,
    forecast: Forecast,
) -> EncoderPlan:
    config, places = planned[0].encoder, loader.places
    source, distinct = config.source, distinct_sentences(inputs)
    recorded = forecast.rate(planned[0].method.encoder.name)
    entry = EncoderPlan(config.name, str(source), len(planned), missing=None)
    try:
        path = places.encoder(config)
        key = known_key(places.cache, config, path) or config.identify(path).key
    except HarnessError as error:
        spot = source if isinstance(source, Trained) and source.on_the_spot else None
        if spot is not None and isinstance(error, AssetMissing):
            rate = recorded or FIRST_GUESS
            return replace(
                entry,
                sentences=len(distinct),
                seconds=round(len(distinct) / rate, 1),
                expected_rate=rate,
                training_seconds=round(forecast.of_training(spot, places), 1),
                to_train=True,
            )
        cost = _training_cost(source) if isinstance(source, Trained) else ""
        return replace(entry, missing=f"{error}{cost}")
    cache = EncoderCache.open(places.cache, key)
    left = len(cache.missing(tuple(distinct)))
    guess = FIRST_GUESS * FIRST_GUESS_BYTES / max(1, _weights_size(path))
    rate = cache.rate or recorded or guess
    return replace(
        entry,
        sentences=len(distinct),
        cached=len(distinct) - left,
        seconds=round(left / rate, 1),
        rate=cache.rate,
        expected_rate=rate,
        cache_bytes=cache.size(),
        where=places.kind_of(config),
        note=modules_left_out(config, path, (cell.method.pooling.name for cell in planned)),
        key=key,
    )


def _with_fits(
    encoder: EncoderPlan,
    planned: Sequence[PlannedCell],
    inputs: Mapping[Needs, CellInputs | None],
    forecast: Forecast,
    runs: Store | None,
    loader: TaskLoader,
) -> EncoderPlan:
    """An encoder's plan with the times of passes, fits and scores, without measured cells."""
    seconds, measured, guessed = 0.0, 0, 0
    left: list[PlannedCell] = []
    for cell in planned if encoder.missing is None else ():
        texts = inputs[cell.task, cell.method.fit_on]
        if texts is None:
            continue
        if runs is not None and encoder.key and _measured(cell, texts, encoder.key, runs):
            measured += 1
            continue
        took = forecast.of_cell(cell)
        guessed += took is None
        seconds += GUESSED if took is None else took
        left.append(cell)
    passes = _passes(encoder, left, forecast, loader)
    fits = round(seconds, 1)
    return replace(encoder, passes=passes, fit_seconds=fits, measured=measured, guessed=guessed)


def _passes(
    encoder: EncoderPlan, cells: Iterable[PlannedCell], forecast: Forecast, loader: TaskLoader
) -> dict[str, float | None]:
    """Seconds of the passes over each corpus that cells need and that no file holds yet."""
    needed: dict[tuple[str, Sample], float | None] = {}
    for cell in cells:
        corpus = loader.corpora.get(cell.method.fit_on or "")
        if corpus is None:
            continue
        sample, share = _sample(cell, corpus)
        if not _passed(loader.places.cache, encoder.key, cell, corpus, sample):
            name = cell.method.encoder.name
            whole = forecast.of_pass(name, corpus, encoder.expected_rate)
            needed[corpus.name, sample] = None if whole is None else round(share * whole, 1)
    passes: dict[str, float | None] = {}
    for (name, _), seconds in needed.items():
        before = passes.get(name, 0.0)
        passes[name] = None if seconds is None or before is None else before + seconds
    return passes


def _sample(cell: PlannedCell, corpus: Corpus) -> tuple[Sample, float]:
    """The seeds by which a cell's pass differs from others over its corpus, and its share of it."""
    dropout = cell.seed if needs_dropout(cell.method) else None
    if corpus.count is None:
        return (None, dropout), 1.0
    share = sentences_read(cell.method, corpus.count) / corpus.count
    return (cell.seed if share < 1 else None, dropout), share


def _passed(cache: Path, key: str, cell: PlannedCell, corpus: Corpus, sample: Sample) -> bool:
    """Whether the cache holds the moments or rows that a cell is fitted on."""
    if not key:
        return False
    drawn, dropout = sample
    folder = cache / ("moments" if from_moments(cell.method) else "rows") / key
    files = folder.glob(file_name(corpus.name, "?" * DIGITS, dropout, cell.method.pooling))
    # Draws without dropout differ by their digests alone; a run makes them in the order of seeds.
    return len(list(files)) > (drawn or 0 if dropout is None else 0)


def _measured(cell: PlannedCell, inputs: CellInputs, encoding: str, runs: Store) -> bool:
    """Whether a run holds this cell; the sentences of a corpus are not digested for that."""
    stored = sidecar_metadata(runs.path(cell.address).with_suffix(".safetensors"))
    return stored is not None and identity_of(cell, inputs, encoding).items() <= stored.items()


def _training_cost(source: Trained) -> str:
    """What a seed costs, as far as it is stated; a backward pass takes two forward passes' time."""
    if not source.sentences or not source.start_bytes:
        return ""
    seconds = 3 * source.sentences * source.start_bytes / (FIRST_GUESS * FIRST_GUESS_BYTES)
    return (
        f"; a seed takes {source.sentences:,} sentences forward and backward, about "
        f"{duration(seconds)} on two ordinary cores"
    )


def _weights_size(path: Path) -> int:
    """Bytes of an encoder's weights; a checkpoint may exist only as `.bin`."""
    files = [path] if path.is_file() else list(path.glob("*.safetensors"))
    return sum(file.stat().st_size for file in files or path.glob("*.bin"))


SHOWN = 5  # of what is missing, in a terminal


def render_plan(plan: Plan, width: int | None = None) -> str:
    """The plan for people.

    In a terminal, which has a width, sources, bytes and encoders that are missing are left out, and
    of what is missing the first are told: `harness list assets` has all.
    """
    head = ["encoder", "source", "cells", "weights", "sentences cached", "to encode"]
    head += ["to fit and score", "on disk"]
    rows = [_row(e) for e in plan.encoders if width is None or not e.missing]
    if width is not None:
        head = ["encoder", "cells", "weights", "cached", "to encode", "to fit"]
        rows = [[row[0], *row[2:7]] for row in rows]
    data = [[d.name, d.where or "asset missing", _size(d)] for d in plan.data]
    lines = [
        table(rows, head, width),
        "",
        table(data, ["data", "lie in", "size"], width),
        "",
    ]
    measured = sum(encoder.measured for encoder in plan.encoders)
    already = f", {measured} of them are measured already" if measured else ""
    notes = [
        f"{plan.runnable} of {plan.cells} cells can run here{already}; "
        f"{_times(plan)} "
        f"The cache takes {sized(plan.cache_bytes)} (harness cache ls).",
        *(f"Note: {encoder.note}." for encoder in plan.encoders if encoder.note),
    ]
    if plan.missing:
        missing = [f"  {line}" for line in plan.missing.values()]
        if width is not None and len(missing) > SHOWN:
            missing[SHOWN:] = [f"  and {len(missing) - SHOWN} more: harness list assets"]
        notes += ["", "asset missing:", *missing]
    return "\n".join([*lines, *(wrapped(line, width) for line in notes)])


def _times(plan: Plan) -> str:
    """The time that is left, what takes it, and how much of that is a guess."""
    by = f" for {plan.workers} processes" if plan.workers > 1 else ""
    known = {part: took for part, took in plan.parts.items() if took is not None}
    parts = [f"{duration(took)} of {part}" for part, took in known.items() if took >= 1]
    of = f": {', '.join(parts)}" if parts else ""
    guessed = sum(encoder.guessed for encoder in plan.encoders)
    guess = f" No record tells how long {guessed} of the cells take." if guessed else ""
    if plan.unknown_corpora:
        names = ", ".join(plan.unknown_corpora)
        of += f", without passes over corpora: how many sentences {names} has is not known"
    return f"about {duration(plan.seconds)} of work is left{by}{of}.{guess}"


def _row(encoder: EncoderPlan) -> list[str]:
    """An encoder's row: a missing one has no sentences, time or bytes."""
    place = "to be trained" if encoder.to_train else encoder.where
    row = [encoder.name, encoder.source, str(encoder.cells)]
    if encoder.missing:
        return [*row, "asset missing", "", "", "", ""]
    cached = f"{encoder.cached:,} of {encoder.sentences:,}"
    encoding = duration(encoder.seconds + seconds_of_passes(encoder))
    encoding += " + not known" if None in encoder.passes.values() else ""
    fitting = duration(encoder.training_seconds + encoder.fit_seconds)
    return [*row, place, cached, encoding, fitting, sized(encoder.cache_bytes)]


def _size(data: DataPlan) -> str:
    """Bytes, and of what is missing whether they can be fetched."""
    known = sized(data.bytes) if data.bytes else ""
    if data.where:
        return known
    return "to be put there by hand" if data.by_hand else f"to fetch: {known or 'size not stated'}"
