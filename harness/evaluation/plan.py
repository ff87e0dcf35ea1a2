"""The plan of a run: the files that its cells lack, and the work that remains.

A plan loads no model, and reads no corpus to its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from harness.assets.places import asset_named
from harness.core.errors import AssetMissing, HarnessError
from harness.core.hardware import base_name
from harness.core.interfaces import Trained
from harness.encoders.cache.encodings import EncoderCache
from harness.evaluation.fit_corpus import needs_pass
from harness.evaluation.identity import identity_without_fit
from harness.evaluation.select import PlannedCell
from harness.results.store import Store, sidecar_metadata
from harness.tasks.loader import CellTexts, TaskLoader, distinct_sentences


@dataclass(frozen=True, kw_only=True)
class MissingAsset:
    """An asset that is not on this machine.

    Attributes:
        cells: How many cells need it.
        get: The command or the step that gets it, or why it is not here.
        bytes: The size of the download; None if it is not known.
    """

    cells: int
    get: str
    bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a run.

    Attributes:
        cells: How many cells there are.
        runnable: How many of them have all their files on this machine.
        measured: How many of these are measured already.
        trainings: How many encoders the run itself trains first.
        sentences: How many sentences are to be encoded, those of corpora included whose
            number is known.
        seconds: How long that takes, by the rate that each encoder had here before; None
            if one of them has none.
        fits: How many fits the cells need that are not measured.
        missing: The assets that are not on this machine, by name.
    """

    cells: int
    runnable: int = 0
    measured: int = 0
    trainings: int = 0
    sentences: int = 0
    seconds: float | None = 0.0
    fits: int = 0
    missing: Mapping[str, MissingAsset]


def make_plan(
    cells: Sequence[PlannedCell], loader: TaskLoader, runs: Store | None = None
) -> Plan:
    """Plan a run from the files that its cells need.

    Args:
        cells: The cells, in an order in which the cells of an encoder follow each other.
        loader: Reads the texts, and knows where files are.
        runs: The records of cells that need not be measured again; None for none.
    """
    missing: dict[str, MissingAsset] = {}
    plan = Plan(cells=len(cells), missing=missing)
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        cells_of_encoder = tuple(group)
        texts = _texts_of_cells(cells_of_encoder, loader, missing)
        try:
            plan = _with_encoder(plan, cells_of_encoder, texts, loader, runs)
        except HarnessError as error:
            config = cells_of_encoder[0].encoder
            name = base_name(cells_of_encoder[0].method.encoder.name)
            size = getattr(config.source, "download_size", None)
            _add_missing(missing, name, len(cells_of_encoder), error, size)
    return plan


def _texts_of_cells(
    cells: Sequence[PlannedCell], loader: TaskLoader, missing: dict[str, MissingAsset]
) -> dict[PlannedCell, CellTexts]:
    """The texts of the cells whose data are here; the assets of others are added to `missing`."""
    texts: dict[PlannedCell, CellTexts] = {}
    for cell in cells:
        try:
            texts[cell] = loader.texts(cell.task, cell.method.fit_on)
        except HarnessError as error:
            asset = asset_named(cell.task.asset)
            corpus = loader.corpora.get(cell.method.fit_on or "")
            if corpus is not None and loader.places.has_data(asset.name):
                asset = asset_named(corpus.asset)
            _add_missing(missing, asset.name, 1, error, asset.download_size)
    return texts


def _add_missing(
    missing: dict[str, MissingAsset],
    name: str,
    cells: int,
    error: HarnessError,
    size: int | None,
) -> None:
    """Count cells that cannot run for want of an asset."""
    if name in missing:
        cells += missing[name].cells
    get = getattr(error, "get", "") or str(error)
    missing[name] = MissingAsset(cells=cells, get=get, bytes=size)


def _with_encoder(
    plan: Plan,
    cells: Sequence[PlannedCell],
    texts: Mapping[PlannedCell, CellTexts],
    loader: TaskLoader,
    runs: Store | None,
) -> Plan:
    """The plan with the work of one more encoder. Raises HarnessError if its files are missing."""
    config, places = cells[0].encoder, loader.places
    key, trainings = "", 0
    try:
        key = places.identify(config, places.encoder(config)).key
    except AssetMissing:
        if not isinstance(config.source, Trained) or not config.source.on_the_spot:
            raise
        trainings = 1
    remaining = {
        cell: texts_of_cell
        for cell, texts_of_cell in texts.items()
        if not key or not _is_measured(cell, texts_of_cell, key, runs)
    }
    cache = EncoderCache.open(places.cache, key) if key else EncoderCache(places.cache)
    sentences = cache.missing(tuple(distinct_sentences(remaining.values())))
    corpus_sentences = _corpus_sentences(remaining, loader, key)
    seconds: float | None = 0.0
    if sentences or corpus_sentences:
        seconds = _seconds(sentences, corpus_sentences, cache.rate)
    fits = {
        (cell.method, cell.seed, texts_of_cell.fit_corpus)
        for cell, texts_of_cell in remaining.items()
        if cell.method.post
    }
    is_timed = plan.seconds is not None and seconds is not None
    return replace(
        plan,
        runnable=plan.runnable + len(texts),
        measured=plan.measured + len(texts) - len(remaining),
        trainings=plan.trainings + trainings,
        sentences=plan.sentences + len(sentences) + corpus_sentences,
        seconds=(plan.seconds or 0) + (seconds or 0) if is_timed else None,
        fits=plan.fits + len(fits),
    )


def _is_measured(
    cell: PlannedCell, texts: CellTexts, key: str, runs: Store | None
) -> bool:
    """Whether a record of the cell is stored. The sentences of its fit are not compared."""
    if runs is None:
        return False
    sidecar = runs.path(cell.address).with_suffix(".safetensors")
    identity = identity_without_fit(cell, texts, key)
    return identity.items() <= sidecar_metadata(sidecar).items()


def _corpus_sentences(
    texts: Mapping[PlannedCell, CellTexts], loader: TaskLoader, key: str
) -> int:
    """How many sentences of corpora are to be encoded for fits, as far as it is known.

    A corpus that the encoder has passed over before, for any method, is not counted.
    """
    counts: dict[str, int] = {}
    for cell, texts_of_cell in texts.items():
        fit_corpus = texts_of_cell.fit_corpus
        if fit_corpus is None or not needs_pass(cell.method, fit_corpus):
            continue
        name = fit_corpus.name
        if not list(loader.places.cache.glob(f"*/{key}/{name}.*")):
            corpus = loader.corpora.get(name)
            counts[name] = (corpus.count or 0) if corpus else fit_corpus.count
    return sum(counts.values())


CHARACTERS_A_SENTENCE = 60  # of corpora, about


def _seconds(
    sentences: Sequence[str], corpus_sentences: int, rate: float | None
) -> float | None:
    """Seconds of encoding, by the rate in characters a second; None without a rate."""
    if not rate:
        return None
    characters = sum(len(sentence) for sentence in sentences)
    return (characters + CHARACTERS_A_SENTENCE * corpus_sentences) / rate
