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
from harness.core.terminal import duration, text_table, wrapped
from harness.core.types import Task
from harness.encoders.cache.encodings import EncoderCache, known_key
from harness.encoders.cache.gc import cache_size
from harness.encoders.native import modules_left_out
from harness.evaluation.fit_corpus import DIGITS, CorpusSample
from harness.evaluation.forecast import Forecast
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
GUESSED = 0.2  # seconds of a cell of whose kind there is no record
NO_RECORDS = Forecast()


@dataclass(frozen=True)
class EncoderPlan:
    """The work of one encoder; `missing` is the line that says how to get its files, or None.

    `where` is the kind of place where its files lie. `seconds` are those of encoding, by the
    `expected_rate` in sentences a second; `passes`, those of the passes over each corpus that are
    not made yet, None where the number of its sentences is not known. `fit_seconds`, of fits and
    scores, count `guessed` cells of whose kind no record exists. What was `measured` before costs
    nothing. An encoder `to_train` is trained by the run itself; `note` is on modules of the model
    that no cell applies.
    """

    name: str
    source: str
    cells: int
    missing: str | None = None
    sentences: int = 0
    cached: int = 0
    measured: int = 0
    seconds: float = 0.0
    passes: Mapping[str, float | None] = field(default_factory=dict)
    fit_seconds: float = 0.0
    training_seconds: float = 0.0
    guessed: int = 0
    expected_rate: float = FIRST_GUESS
    key: str = ""
    cache_bytes: int = 0
    to_train: bool = False
    where: str = ""
    note: str = ""

    @property
    def pass_seconds(self) -> float:
        """Seconds of all passes over corpora, as far as they are known."""
        return math.fsum(seconds for seconds in self.passes.values() if seconds is not None)


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

    So many `workers` fit and score beside each other. `cache_bytes` are of everything cached;
    `comparing` are the seconds to compare the rows of leaderboard tables.
    """

    cells: int
    runnable: int
    encoders: tuple[EncoderPlan, ...]
    missing: Mapping[str, str]
    cache_bytes: int = 0
    data: tuple[DataPlan, ...] = ()
    workers: int = 1
    comparing: float = 0.0

    @property
    def unknown_corpora(self) -> list[str]:
        """The corpora of whose passes the time is not known."""
        passes = (item for encoder in self.encoders for item in encoder.passes.items())
        return list(dict.fromkeys(name for name, seconds in passes if seconds is None))

    @property
    def parts(self) -> dict[str, float | None]:
        """Seconds that are left to do, by what takes them; None where that is not known."""
        passes = sum(encoder.pass_seconds for encoder in self.encoders)
        training = sum(encoder.training_seconds for encoder in self.encoders)
        fits = sum(encoder.fit_seconds for encoder in self.encoders)
        return {
            "encoding": sum(encoder.seconds for encoder in self.encoders),
            "passes over corpora": None if self.unknown_corpora else passes,
            "training": training / self.workers,
            "fitting and scoring": fits / self.workers,
            "comparing rows": self.comparing / self.workers,
        }

    @property
    def seconds(self) -> float:
        """Estimated time of all that is left to do, without the parts that are not known."""
        return sum(seconds for seconds in self.parts.values() if seconds is not None)


def make_plan(
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    runs: Store | None = None,
    forecast: Forecast = NO_RECORDS,
    workers: int = 1,
) -> Plan:
    """Look at everything that the cells need.

    `runs` holds what was measured before, if that counts; without a forecast, times are guesses.
    """
    missing: dict[str, str] = {}
    names = dict.fromkeys((cell.task, cell.method.fit_on) for cell in cells)
    inputs = {name: _inputs(*name, loader, missing) for name in names}
    encoders: list[EncoderPlan] = []
    runnable = 0
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        of_encoder = tuple(group)
        readable = {
            cell: texts
            for cell in of_encoder
            if (texts := inputs[cell.task, cell.method.fit_on]) is not None
        }
        encoder = _encoder(of_encoder, readable, loader, forecast)
        if encoder.missing:
            missing[f"encoder {base_name(of_encoder[0].method.encoder.name)}"] = encoder.missing
        else:
            runnable += len(readable)
            encoder = _with_fits(encoder, readable, loader, runs, forecast)
        encoders.append(encoder)
    fitted = (loader.corpora.get(cell.method.fit_on or "") for cell in cells)
    corpora = (corpus.asset for corpus in fitted if corpus is not None)
    assets = dict.fromkeys((*(cell.task.asset for cell in cells), *corpora))
    data = tuple(_data(asset, loader) for asset in assets)
    cached = cache_size(loader.places.cache)
    return Plan(len(cells), runnable, tuple(encoders), missing, cached, data, workers)


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


def _data(name: str, loader: TaskLoader) -> DataPlan:
    asset, places = asset_named(name), loader.places
    kind = "package" if asset.embedded else "data folder" if asset.probe else "hub cache"
    if places.data(asset) is None:
        return DataPlan(name, "", asset.to_get, not asset.downloads)
    return DataPlan(name, kind, asset.size, not asset.downloads)


def _encoder(
    planned: Sequence[PlannedCell],
    readable: Mapping[PlannedCell, CellInputs],
    loader: TaskLoader,
    forecast: Forecast,
) -> EncoderPlan:
    """The plan of an encoder, without fits and scores."""
    config, places = planned[0].encoder, loader.places
    source, distinct = config.source, distinct_sentences(readable.values())
    recorded = forecast.rates.get(planned[0].method.encoder.name)
    entry = EncoderPlan(config.name, str(source), len(planned))
    try:
        path = places.encoder(config)
        key = known_key(places.cache, config, path) or config.identify(path).key
    except HarnessError as error:
        if not isinstance(source, Trained):
            return replace(entry, missing=str(error))
        if not (source.on_the_spot and isinstance(error, AssetMissing)):
            return replace(entry, missing=f"{error}{_training_cost(source)}")
        rate = recorded or FIRST_GUESS
        return replace(
            entry,
            sentences=len(distinct),
            seconds=round(len(distinct) / rate, 1),
            expected_rate=rate,
            training_seconds=round(forecast.of_training(source, places), 1),
            to_train=True,
        )
    cache = EncoderCache.open(places.cache, key)
    left = len(cache.missing(tuple(distinct)))
    guess = FIRST_GUESS * FIRST_GUESS_BYTES / max(1, _weights_size(path))
    rate = cache.rate or recorded or guess
    return replace(
        entry,
        sentences=len(distinct),
        cached=len(distinct) - left,
        seconds=round(left / rate, 1),
        expected_rate=rate,
        cache_bytes=cache.size(),
        where=places.kind_of(config),
        note=modules_left_out(config, path, (cell.method.pooling.name for cell in planned)),
        key=key,
    )


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


def _with_fits(
    encoder: EncoderPlan,
    readable: Mapping[PlannedCell, CellInputs],
    loader: TaskLoader,
    runs: Store | None,
    forecast: Forecast,
) -> EncoderPlan:
    """An encoder's plan with the times of passes, fits and scores, without measured cells."""
    left = []
    for cell, inputs in readable.items():
        # The sentences of a corpus are not digested to see whether a run holds a cell.
        path = runs.path(cell.address).with_suffix(".safetensors") if runs is not None else None
        stored = sidecar_metadata(path) if path is not None and encoder.key else None
        if stored is None or not identity_of(cell, inputs, encoder.key).items() <= stored.items():
            left.append(cell)
    seconds = [forecast.of_cell(cell) for cell in left]
    fits = math.fsum(GUESSED if took is None else took for took in seconds)
    return replace(
        encoder,
        measured=len(readable) - len(left),
        passes=_passes(encoder, left, loader, forecast),
        fit_seconds=round(fits, 1),
        guessed=seconds.count(None),
    )


def _passes(
    encoder: EncoderPlan, cells: Iterable[PlannedCell], loader: TaskLoader, forecast: Forecast
) -> dict[str, float | None]:
    """Seconds of the passes over each corpus that cells need and that no file holds yet."""
    seconds_by_sample: dict[CorpusSample, float | None] = {}
    for cell in cells:
        corpus = loader.corpora.get(cell.method.fit_on or "")
        if corpus is None:
            continue
        sample = CorpusSample.of(corpus.name, "", corpus.count or 0, cell.method, cell.seed)
        made = 0
        if encoder.key:
            any_digest = replace(sample, text="?" * DIGITS, seed=None)
            file = any_digest.file(loader.places.cache, encoder.key, cell.method)
            made = len(list(file.parent.glob(file.name)))
        # Draws without dropout differ by their digests alone; a run makes them in order of seeds.
        if made <= (sample.seed or 0 if sample.dropout is None else 0):
            name = cell.method.encoder.name
            whole = forecast.of_pass(name, corpus, encoder.expected_rate)
            share = sample.taken / sample.count if sample.count else 1.0
            seconds_by_sample[sample] = None if whole is None else round(share * whole, 1)
    passes: dict[str, float | None] = {}
    for sample, seconds in seconds_by_sample.items():
        before = passes.get(sample.corpus, 0.0)
        passes[sample.corpus] = None if seconds is None or before is None else seconds + before
    return passes


SHOWN = 5  # of what is missing, in a terminal


def render_plan(plan: Plan, width: int | None = None) -> str:
    """The plan for people: what is here, what is missing, and the time that is left.

    In a terminal, which has a width, the first of what is missing are shown: `harness list assets`
    has all.
    """
    head = ("encoder", "cells", "weights", "cached", "to encode", "to fit")
    encoders = text_table([_row(e) for e in plan.encoders if not e.missing], head, width)
    data = [(d.name, d.where or "asset missing", _size(d)) for d in plan.data]
    measured = sum(encoder.measured for encoder in plan.encoders)
    already = f", {measured} of them are measured already" if measured else ""
    notes = [
        f"{plan.runnable} of {plan.cells} cells can run here{already}; {_times(plan)} "
        f"The cache takes {sized(plan.cache_bytes)} (harness cache ls).",
        *(f"Note: {encoder.note}." for encoder in plan.encoders if encoder.note),
    ]
    if plan.missing:
        missing = [f"  {line}" for line in plan.missing.values()]
        if width is not None and len(missing) > SHOWN:
            missing[SHOWN:] = [f"  and {len(missing) - SHOWN} more: harness list assets"]
        notes += ["", "asset missing:", *missing]
    tables = (encoders, "", text_table(data, ("data", "lie in", "size"), width), "")
    return "\n".join((*tables, *(wrapped(line, width) for line in notes)))


def _row(encoder: EncoderPlan) -> tuple[str, ...]:
    encoding = duration(encoder.seconds + encoder.pass_seconds)
    return (
        encoder.name,
        str(encoder.cells),
        "to be trained" if encoder.to_train else encoder.where,
        f"{encoder.cached:,} of {encoder.sentences:,}",
        encoding + (" + not known" if None in encoder.passes.values() else ""),
        duration(encoder.training_seconds + encoder.fit_seconds),
    )


def _size(data: DataPlan) -> str:
    """Bytes, and of what is missing whether they can be fetched."""
    size = sized(data.bytes) if data.bytes else ""
    if data.where:
        return size
    return "to be put there by hand" if data.by_hand else f"to fetch: {size or 'size not stated'}"


def _times(plan: Plan) -> str:
    """The time that is left, what takes it, and how much of that is a guess."""
    by = f" for {plan.workers} processes" if plan.workers > 1 else ""
    parts = ", ".join(
        f"{duration(seconds)} of {part}"
        for part, seconds in plan.parts.items()
        if seconds is not None and seconds >= 1
    )
    of = f": {parts}" if parts else ""
    if plan.unknown_corpora:
        names = ", ".join(plan.unknown_corpora)
        of += f", without passes over corpora: how many sentences {names} has is not known"
    guessed = sum(encoder.guessed for encoder in plan.encoders)
    guess = f" No record tells how long {guessed} of the cells take." if guessed else ""
    return f"about {duration(plan.seconds)} of work is left{by}{of}.{guess}"
