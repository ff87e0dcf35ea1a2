"""The plan of a run: the files that its cells lack, and the work that remains.

A plan loads no model, and reads no corpus to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from harness.core.errors import AssetMissing, HarnessError
from harness.core.hardware import base_name
from harness.core.interfaces import Trained
from harness.data.places import asset_named
from harness.data.tasks.loader import CellTexts, TaskLoader, distinct_sentences
from harness.encoders.encodings import EncoderCache
from harness.evaluation.cell import identity_of
from harness.evaluation.fit_corpus import needs_pass
from harness.evaluation.select import PlannedCell
from harness.results.store import Store, sidecar_metadata

CHARACTERS_A_SENTENCE = 60  # of corpora, about


@dataclass
class MissingAsset:
    """An asset that is not on this machine.

    Attributes:
        get: The command or the step that gets it, or why it is not here.
        bytes: The size of the download; None if it is not known.
        cells: How many cells need it.
    """

    get: str
    bytes: int | None = None
    cells: int = 0


@dataclass(kw_only=True)
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
    missing: dict[str, MissingAsset] = field(default_factory=dict)

    def add_missing(
        self, name: str, cells: int, error: HarnessError, size: int | None
    ) -> None:
        """Count cells that cannot run for want of an asset."""
        get = getattr(error, "get", "") or str(error)
        self.missing.setdefault(name, MissingAsset(get, size)).cells += cells


def make_plan(
    cells: Sequence[PlannedCell], loader: TaskLoader, runs: Store | None = None
) -> Plan:
    """Plan a run from the files that its cells need.

    Args:
        cells: The cells, in an order in which the cells of an encoder follow each other.
        loader: Reads the texts, and knows where files are.
        runs: The records of cells that need not be measured again; None for none.
    """
    plan = Plan(cells=len(cells))
    places = loader.places
    for config, group in groupby(cells, key=lambda cell: cell.encoder):
        cells_of_encoder = tuple(group)
        texts = _texts_of_cells(cells_of_encoder, loader, plan)
        source = config.source
        key = "untrained"
        try:
            key = places.identify(config, places.encoder(config)).key
        except HarnessError as error:
            is_missing = isinstance(error, AssetMissing)
            if is_missing and isinstance(source, Trained) and source.on_the_spot:
                plan.trainings += 1
            else:
                name = base_name(cells_of_encoder[0].method.encoder.name)
                size = getattr(source, "download_size", None)
                plan.add_missing(name, len(cells_of_encoder), error, size)
                continue
        remaining = {
            cell: texts_of_cell
            for cell, texts_of_cell in texts.items()
            if runs is None or not _is_measured(cell, texts_of_cell, key, runs)
        }
        plan.runnable += len(texts)
        plan.measured += len(texts) - len(remaining)
        cache = EncoderCache.open(places.cache, key)
        sentences = cache.missing(tuple(distinct_sentences(remaining.values())))
        corpus_sentences = _corpus_sentences(remaining, loader, key)
        plan.sentences += len(sentences) + corpus_sentences
        characters = sum(len(sentence) for sentence in sentences)
        characters += CHARACTERS_A_SENTENCE * corpus_sentences
        if characters and plan.seconds is not None:
            rate = cache.rate
            plan.seconds = plan.seconds + characters / rate if rate else None
        fits = {
            (cell.method, cell.seed, texts_of_cell.fit_corpus)
            for cell, texts_of_cell in remaining.items()
            if cell.method.post
        }
        plan.fits += len(fits)
    return plan


def _texts_of_cells(
    cells: Iterable[PlannedCell], loader: TaskLoader, plan: Plan
) -> dict[PlannedCell, CellTexts]:
    """The texts of the cells whose data are here; the assets of others are missing in the plan."""
    texts: dict[PlannedCell, CellTexts] = {}
    for cell in cells:
        try:
            texts[cell] = loader.texts(cell.task, cell.method.fit_on)
        except HarnessError as error:
            asset = asset_named(cell.task.asset)
            corpus = loader.corpora.get(cell.method.fit_on or "")
            if corpus is not None and loader.places.has_data(asset.name):
                asset = asset_named(corpus.asset)
            plan.add_missing(asset.name, 1, error, asset.download_size)
    return texts


def _is_measured(cell: PlannedCell, texts: CellTexts, key: str, runs: Store) -> bool:
    """Whether a record of the cell is stored. The sentences of its fit are not compared."""
    sidecar = runs.path(cell.address).with_suffix(".safetensors")
    identity = identity_of(cell, texts, key, with_fit=False)
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
