"""Before anything runs: which cells, which assets, what is cached, how long it will take.

Reads the data files, and digests weights that no run has seen yet; loads no model, imports no
torch, writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from harness.assets.places import asset_named
from harness.core.errors import AssetMissing, HarnessError
from harness.core.files import sized
from harness.core.hardware import base_name
from harness.core.sources import Trained
from harness.core.terminal import table, wrapped
from harness.core.types import Task
from harness.encoders.cache.encodings import EncoderCache
from harness.encoders.cache.gc import size
from harness.encoders.cache.labels import known_key
from harness.encoders.native import left_out
from harness.results.planned import PlannedCell
from harness.tasks.loader import CellInputs, TaskLoader, distinct_sentences

# Sentences a second on two ordinary cores for an encoder of MiniLM's size (90 MB of weights),
# until the cache knows what this encoder took here.
FIRST_GUESS = 400.0
FIRST_GUESS_BYTES = 90e6
SCORING = 0.2  # seconds a cell, roughly
TOLD = 5  # of what is missing, in a terminal
TRAINING = 60.0  # seconds for a member of a family that is trained on the spot, roughly


@dataclass(frozen=True)
class EncoderPlan:
    """The work of one encoder; `missing` is the line that says how to get its files, or None.

    `where` is the kind of place where its files lie.
    """

    name: str
    source: str
    cells: int
    missing: str | None
    sentences: int = 0
    cached: int = 0
    seconds: float = 0.0
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
    """All of it. `missing` maps an asset to the line that says how to get it."""

    cells: int
    runnable: int
    encoders: tuple[EncoderPlan, ...]
    missing: dict[str, str]
    cache_bytes: int = 0  # of everything cached, whether these cells need it or not
    data: tuple[DataPlan, ...] = ()

    @property
    def seconds(self) -> float:
        """Estimated time of the encoding that is left to do."""
        return sum(encoder.seconds for encoder in self.encoders)


def estimates(plan: Plan) -> dict[str, float]:
    """Seconds of each phase of a run, by the names that `execute` gives them."""
    present = [encoder for encoder in plan.encoders if encoder.missing is None]
    return {
        **{f"{encoder.name}: encoding": encoder.seconds for encoder in present},
        **{f"{encoder.name}: scoring": encoder.cells * SCORING for encoder in present},
    }


def plan(cells: Sequence[PlannedCell], loader: TaskLoader) -> Plan:
    """Look at everything that the cells need."""
    missing: dict[str, str] = {}
    names = dict.fromkeys((cell.task, cell.method.fit_on) for cell in cells)
    inputs = {name: _inputs(*name, loader, missing) for name in names}
    encoders: list[EncoderPlan] = []
    runnable = 0
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        of_encoder = tuple(group)
        texts = [inputs[cell.task, cell.method.fit_on] for cell in of_encoder]
        present = [found for found in texts if found is not None]
        encoder = _encoder(of_encoder, present, loader)
        if encoder.missing:
            base = base_name(of_encoder[0].method.encoder.name)
            missing[f"encoder {base}"] = encoder.missing
        else:
            runnable += len(present)
        encoders.append(encoder)
    total = size(loader.places.cache)
    data = tuple(_data(name, loader) for name in _assets(cells, loader))
    return Plan(len(cells), runnable, tuple(encoders), missing, total, data)


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
    planned: Sequence[PlannedCell], inputs: Sequence[CellInputs], loader: TaskLoader
) -> EncoderPlan:
    config, cells = planned[0].encoder, len(planned)
    places, source = loader.places, config.source
    try:
        path = places.encoder(config)
        key = known_key(places.cache, config, path) or config.identify(path).key
    except HarnessError as error:
        trains = isinstance(source, Trained) and source.on_the_spot
        if trains and isinstance(error, AssetMissing):
            count = len(distinct_sentences(inputs))
            entry = EncoderPlan(config.name, str(source), cells, None, count)
            return replace(entry, seconds=round(TRAINING + count / FIRST_GUESS, 1), to_train=True)
        cost = _training_cost(source) if isinstance(source, Trained) else ""
        return EncoderPlan(config.name, str(source), cells, f"{error}{cost}")
    cache, distinct = EncoderCache.open(places.cache, key), distinct_sentences(inputs)
    left = len(cache.missing(tuple(distinct)))
    rate = cache.rate or FIRST_GUESS * FIRST_GUESS_BYTES / max(1, _weights_size(path))
    return EncoderPlan(
        name=config.name,
        source=str(source),
        cells=cells,
        missing=None,
        sentences=len(distinct),
        cached=len(distinct) - left,
        seconds=round(left / rate, 1),
        cache_bytes=cache.size(),
        where=places.kind_of(config),
        note=left_out(config, path, (cell.method.pooling.name for cell in planned)),
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


def render(plan: Plan, width: int | None = None) -> str:
    """The plan for people.

    In a terminal, which has a width, sources, bytes and encoders that are missing are left out, and
    of what is missing the first are told: `harness list assets` has all.
    """
    head = ["encoder", "source", "cells", "weights", "sentences cached", "to encode", "on disk"]
    rows = [_row(e) for e in plan.encoders if width is None or not e.missing]
    if width is not None:
        head = ["encoder", "cells", "weights", "cached", "to encode"]
        rows = [[row[0], *row[2:6]] for row in rows]
    data = [[d.name, d.where or "asset missing", _size(d)] for d in plan.data]
    lines = [
        table(rows, head, width),
        "",
        table(data, ["data", "lie in", "size"], width),
        "",
    ]
    told = [
        f"{plan.runnable} of {plan.cells} cells can run here; "
        f"about {duration(plan.seconds)} of encoding is left to do. "
        f"The cache takes {sized(plan.cache_bytes)} (harness cache ls).",
        *(f"Note: {encoder.note}." for encoder in plan.encoders if encoder.note),
    ]
    if plan.missing:
        missing = [f"  {line}" for line in plan.missing.values()]
        if width is not None and len(missing) > TOLD:
            missing[TOLD:] = [f"  and {len(missing) - TOLD} more: harness list assets"]
        told += ["", "asset missing:", *missing]
    return "\n".join([*lines, *(wrapped(line, width) for line in told)])


def _row(encoder: EncoderPlan) -> list[str]:
    """An encoder's row: a missing one has no sentences, time or bytes."""
    place = "to be trained" if encoder.to_train else encoder.where
    row = [encoder.name, encoder.source, str(encoder.cells)]
    if encoder.missing:
        return [*row, "asset missing", "", "", ""]
    cached = f"{encoder.cached:,} of {encoder.sentences:,}"
    return [*row, place, cached, duration(encoder.seconds), sized(encoder.cache_bytes)]


def _size(data: DataPlan) -> str:
    """Bytes, and of what is missing whether they can be fetched."""
    known = sized(data.bytes) if data.bytes else ""
    if data.where:
        return known
    return "to be put there by hand" if data.by_hand else f"to fetch: {known or 'size not stated'}"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
