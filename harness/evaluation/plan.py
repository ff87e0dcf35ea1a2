"""Before anything runs: which cells, which assets, what is cached and measured, how long it takes.

Reads the data files, and digests weights that no run has seen yet; loads no model, imports no
torch, writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from harness.assets.places import asset_named
from harness.core.errors import AssetMissing, HarnessError
from harness.core.hardware import base_name
from harness.core.sources import Trained
from harness.core.terminal import duration
from harness.core.types import Task
from harness.encoders.cache.encodings import EncoderCache
from harness.encoders.cache.gc import size
from harness.encoders.cache.labels import known_key
from harness.encoders.native import left_out
from harness.evaluation.forecast import GUESSED, Forecast, corpus_pass
from harness.evaluation.identity import identity_of
from harness.results.planned import PlannedCell
from harness.results.records import Store, sidecar_metadata
from harness.tasks.loader import CellInputs, TaskLoader, distinct_sentences

# Sentences a second on two ordinary cores for an encoder of MiniLM's size (90 MB of weights),
# until the cache knows what this encoder took here.
FIRST_GUESS = 400.0
FIRST_GUESS_BYTES = 90e6
UNKNOWN = Forecast()

Needs = tuple[Task, str | None]  # a task and what is fitted on


@dataclass(frozen=True)
class EncoderPlan:
    """The work of one encoder; `missing` is the line that says how to get its files, or None.

    `where` is the kind of place where its files lie. `seconds` are those of encoding;
    `fit_seconds`, of passes over corpora, fits and scores, count `guessed` cells of whose kind no
    record exists. What was `measured` before costs nothing.
    """

    name: str
    source: str
    cells: int
    missing: str | None
    sentences: int = 0
    cached: int = 0
    measured: int = 0
    seconds: float = 0.0
    fit_seconds: float = 0.0
    training_seconds: float = 0.0
    guessed: int = 0
    rate: float | None = None  # sentences a second, as it encoded here
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
    def parts(self) -> dict[str, float]:
        """Seconds that are left to do, by what takes them."""
        encoders = self.encoders
        shared = {
            "training": sum(encoder.training_seconds for encoder in encoders),
            "fitting and scoring": sum(encoder.fit_seconds for encoder in encoders),
            "comparing rows": self.comparing,
        }
        return {
            "encoding": sum(encoder.seconds for encoder in encoders),
            **{part: seconds / self.workers for part, seconds in shared.items()},
        }

    @property
    def seconds(self) -> float:
        """Estimated time of all that is left to do."""
        return sum(self.parts.values())


def estimates(plan: Plan) -> dict[str, float]:
    """Seconds of each phase of a run, by the names that the run gives them.

    Several workers have a phase for all encoders, one has a phase for each.
    """
    parts = plan.parts
    comparing = {"comparing rows": parts["comparing rows"]}
    if plan.workers > 1:
        return {
            "encoding": parts["encoding"],
            "scoring": parts["fitting and scoring"],
            **comparing,
        }
    present = [encoder for encoder in plan.encoders if encoder.missing is None]
    return {
        **{f"{encoder.name}: encoding": encoder.seconds for encoder in present},
        **{f"{encoder.name}: scoring": encoder.fit_seconds for encoder in present},
        **comparing,
    }


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
        present = [found for found in texts if found is not None]
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
        _with_fits(encoder, group, inputs, forecast, runs, loader.places.cache)
        for encoder, group in zip(encoders, groups, strict=True)
    ]
    total = size(loader.places.cache)
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
    config, cells = planned[0].encoder, len(planned)
    places, source = loader.places, config.source
    try:
        path = places.encoder(config)
        key = known_key(places.cache, config, path) or config.identify(path).key
    except HarnessError as error:
        spot = source if isinstance(source, Trained) and source.on_the_spot else None
        if spot is not None and isinstance(error, AssetMissing):
            count = len(distinct_sentences(inputs))
            rate = forecast.rate(planned[0].method.encoder.name) or FIRST_GUESS
            seconds = forecast.of_training(spot, places)
            return EncoderPlan(
                name=config.name,
                source=str(source),
                cells=cells,
                missing=None,
                sentences=count,
                seconds=round(count / rate, 1),
                training_seconds=round(seconds, 1),
                to_train=True,
            )
        cost = _training_cost(source) if isinstance(source, Trained) else ""
        return EncoderPlan(config.name, str(source), cells, f"{error}{cost}")
    cache, distinct = EncoderCache.open(places.cache, key), distinct_sentences(inputs)
    left = len(cache.missing(tuple(distinct)))
    recorded = forecast.rate(planned[0].method.encoder.name)
    guess = FIRST_GUESS * FIRST_GUESS_BYTES / max(1, _weights_size(path))
    rate = cache.rate or recorded or guess
    return EncoderPlan(
        name=config.name,
        source=str(source),
        cells=cells,
        missing=None,
        sentences=len(distinct),
        cached=len(distinct) - left,
        seconds=round(left / rate, 1),
        rate=cache.rate,
        cache_bytes=cache.size(),
        where=places.kind_of(config),
        note=left_out(config, path, (cell.method.pooling.name for cell in planned)),
        key=key,
    )


def _with_fits(
    encoder: EncoderPlan,
    planned: Sequence[PlannedCell],
    inputs: Mapping[Needs, CellInputs | None],
    forecast: Forecast,
    runs: Store | None,
    cache: Path,
) -> EncoderPlan:
    """An encoder's plan with the times of fits and scores, those of measured cells left out."""
    seconds, measured, guessed = 0.0, 0, 0
    passes: set[tuple[str, str]] = set()
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
        if (shared := corpus_pass(cell.method.id)) is not None:
            passes.add(shared)
    for name, corpus in passes:
        if not _passed(cache, encoder.key, corpus):
            seconds += forecast.of_pass(name, corpus)
    return replace(encoder, fit_seconds=round(seconds, 1), measured=measured, guessed=guessed)


def _passed(cache: Path, key: str, corpus: str) -> bool:
    """Whether the cache holds moments or rows of a corpus."""
    folders = (cache / kind / key for kind in ("moments", "rows"))
    return bool(key) and any(next(f.glob(f"{corpus}.*.safetensors"), None) for f in folders)


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
