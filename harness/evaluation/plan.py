"""The plan of a run: its cells, the files that they need, what is cached, what is left to do.

A plan reads the headers of files and no model. It reads no corpus to the end, and so
does not have the digest of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from harness.assets.places import Places, asset_named
from harness.core.errors import AssetMissing, HarnessError
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Trained
from harness.core.types import Progress, Task
from harness.encoders.cache.encodings import EncoderCache
from harness.encoders.native import bypass_note
from harness.evaluation.fit_corpus import DIGEST_DIGITS, FitCorpusSample, needs_pass
from harness.evaluation.identity import identity_without_fit
from harness.evaluation.select import PlannedCell
from harness.results.store import Store, sidecar_metadata
from harness.tasks.loader import CellTexts, FitCorpus, TaskLoader, distinct_sentences

# By so many sentences the mean length of a corpus's sentences is estimated.
SENTENCES_OF_A_SAMPLE = 1000


@dataclass(frozen=True)
class MissingAsset:
    """An asset that is not on this machine.

    Attributes:
        message: Why it is not.
        get: The command or the step that gets it; empty if none does.
        bytes: The size of the download; None if that is not known.
    """

    message: str
    get: str = ""
    bytes: int | None = None

    @classmethod
    def from_error(cls, error: HarnessError, size: int | None) -> MissingAsset:
        """The asset that an error is about; `size` is the size of its download, in bytes."""
        return cls(message=str(error), get=getattr(error, "get", ""), bytes=size)


@dataclass(frozen=True, kw_only=True)
class EncoderPlan:
    """The work of one encoder.

    Attributes:
        name: The name of the encoder.
        cells: How many cells it has.
        missing: The line that says how to get its files; None if they are here.
        to_train: Whether the run itself trains it.
        sentences: How many distinct sentences its cells have.
        cached: How many of these are encoded.
        to_encode: How many sentences are to be encoded, for passes over corpora, too;
            None if a corpus states no count, or if the encoder is not here.
        rate: Characters a second of its earlier encodings; None if there are none.
        seconds: How long encoding takes, by that rate and by earlier passes with
            dropout; None if that is not known.
        measured: How many cells are measured already.
        fits: How many fits the other cells need.
        scorings: How many other cells there are.
        note: A sentence on poolings that bypass the modules of a folder; empty without
            one.
    """

    name: str
    cells: int
    missing: str | None = None
    to_train: bool = False
    sentences: int = 0
    cached: int = 0
    to_encode: int | None = None
    rate: float | None = None
    seconds: float | None = None
    measured: int = 0
    fits: int = 0
    scorings: int = 0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a run.

    Attributes:
        cells: How many cells there are.
        runnable: How many of them have all their files on this machine.
        encoders: The work of each encoder.
        missing: The assets that are not on this machine, by name.
    """

    cells: int
    runnable: int
    encoders: tuple[EncoderPlan, ...]
    missing: Mapping[str, MissingAsset]


# Cell inputs that are read together: a task, and what a method is fitted on.
Inputs = tuple[Task, str | None]


def make_plan(
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    runs: Store | None = None,
    progress: Progress = Progress(),  # noqa: B008 - it holds nothing
) -> Plan:
    """Plan a run: look at everything that its cells need.

    Args:
        cells: The cells, in an order in which the cells of an encoder follow each other.
        loader: Reads the texts, and knows where files are.
        runs: The records of cells that need not be measured again; None for none.
        progress: Counts the cells.
    """
    progress.phase("planning", len(cells))
    texts_by_inputs: dict[Inputs, CellTexts] = {}
    missing: dict[str, MissingAsset] = {}
    for task, fit_on in dict.fromkeys(_inputs(cell) for cell in cells):
        try:
            texts_by_inputs[task, fit_on] = loader.texts(task, fit_on)
        except HarnessError as error:
            asset = asset_named(_missing_data(task, fit_on, loader))
            missing[asset.name] = MissingAsset.from_error(error, asset.download_size)
    encoders: list[EncoderPlan] = []
    runnable = 0
    for config, group in groupby(cells, key=lambda cell: cell.encoder):
        cells_of_encoder = tuple(group)
        texts_by_cell: dict[PlannedCell, CellTexts] = {}
        for cell in cells_of_encoder:
            texts = texts_by_inputs.get(_inputs(cell))
            if texts is not None:
                texts_by_cell[cell] = texts
        try:
            encoder = _plan_encoder(cells_of_encoder, texts_by_cell, loader, runs)
            runnable += len(texts_by_cell)
        except HarnessError as error:
            encoder = EncoderPlan(
                name=config.name, cells=len(cells_of_encoder), missing=str(error)
            )
            name = base_name(cells_of_encoder[0].method.encoder.name)
            size = getattr(config.source, "download_size", None)
            missing[f"encoder {name}"] = MissingAsset.from_error(error, size)
        encoders.append(encoder)
        progress.step(len(cells_of_encoder))
    return Plan(
        cells=len(cells), runnable=runnable, encoders=tuple(encoders), missing=missing
    )


def _inputs(cell: PlannedCell) -> Inputs:
    """The task of a cell, and what its method is fitted on."""
    return cell.task, cell.method.fit_on


def _missing_data(task: Task, fit_on: str | None, loader: TaskLoader) -> str:
    """The name of the asset whose files are missing: the task's, or the fit corpus's."""
    corpus = loader.corpora.get(fit_on or "")
    if corpus is not None and loader.places.has_data(task.asset):
        return corpus.asset
    return task.asset


# The plan of one encoder


def _plan_encoder(
    cells: Sequence[PlannedCell],
    texts_by_cell: Mapping[PlannedCell, CellTexts],
    loader: TaskLoader,
    runs: Store | None,
) -> EncoderPlan:
    """Plan the work of an encoder; `texts_by_cell` holds the cells whose data are here.

    Raises HarnessError if the encoder's files are not here, or not what they should be.
    """
    config, places = cells[0].encoder, loader.places
    files = _open_files(config, places, cells)
    sentences = tuple(distinct_sentences(texts_by_cell.values()))
    missing = files.cache.missing(sentences)
    remaining = {
        cell: texts
        for cell, texts in texts_by_cell.items()
        if runs is None or not _is_measured(cell, texts, files.key, runs)
    }
    passes = _passes_to_make(remaining, files.key, loader)
    counts_are_known = all(sample.corpus_size for sample in passes)
    to_encode, seconds = None, None
    if counts_are_known:
        to_encode = len(missing) + sum(sample.size for sample in passes)
        seconds = _seconds(missing, passes, files, places)
    fits = {
        (cell.method, cell.seed, texts.fit_corpus)
        for cell, texts in remaining.items()
        if cell.method.post
    }
    return EncoderPlan(
        name=config.name,
        cells=len(cells),
        to_train=files.to_train,
        sentences=len(sentences),
        cached=len(sentences) - len(missing),
        to_encode=to_encode,
        rate=files.cache.rate,
        seconds=seconds,
        measured=len(texts_by_cell) - len(remaining),
        fits=len(fits),
        scorings=len(remaining),
        note=files.note,
    )


@dataclass(frozen=True, kw_only=True)
class EncoderFiles:
    """The files of an encoder, as a plan needs to know them.

    Attributes:
        key: The key in the encoder's identity.
        cache: The cache of its encodings.
        note: A sentence on poolings that bypass the modules of a folder.
        to_train: Whether the run makes the files by a training.
    """

    key: str
    cache: EncoderCache
    note: str = ""
    to_train: bool = False


def _open_files(
    config: EncoderConfig, places: Places, cells: Iterable[PlannedCell]
) -> EncoderFiles:
    """The files of an encoder, and none for one that the run trains. Raises AssetMissing."""
    try:
        path = places.encoder(config)
    except AssetMissing:
        if isinstance(config.source, Trained) and config.source.on_the_spot:
            return EncoderFiles(key="", cache=EncoderCache(places.cache), to_train=True)
        raise
    key = places.identify(config, path, noted=True).key
    poolings = (cell.method.pooling.name for cell in cells)
    return EncoderFiles(
        key=key,
        cache=EncoderCache.open(places.cache, key),
        note=bypass_note(config, path, poolings),
    )


def _is_measured(cell: PlannedCell, texts: CellTexts, key: str, runs: Store) -> bool:
    """Whether a record of the cell is stored. The sentences of its fit are not compared."""
    stored = sidecar_metadata(runs.path(cell.address).with_suffix(".safetensors"))
    if not stored:
        return False
    return identity_without_fit(cell, texts, key).items() <= stored.items()


def _passes_to_make(
    texts_by_cell: Mapping[PlannedCell, CellTexts], key: str, loader: TaskLoader
) -> dict[FitCorpusSample, FitCorpus]:
    """The samples that are to be passed over, each with its corpus.

    The corpus size is 0 in the sample of a corpus that states no count.
    """
    passes: dict[FitCorpusSample, FitCorpus] = {}
    for cell, texts in texts_by_cell.items():
        fit_corpus, method = texts.fit_corpus, cell.method
        if fit_corpus is None or not needs_pass(method, fit_corpus):
            continue
        if fit_corpus.streams:
            # A plan reads no corpus: the catalogue of corpora states its count, and its
            # digest is any.
            count = loader.corpora[str(method.fit_on)].count or 0
            digest = "?" * DIGEST_DIGITS
        else:
            count, digest = fit_corpus.count, fit_corpus.digest
        sample = FitCorpusSample.for_method(
            method,
            cell.seed,
            corpus=fit_corpus.name,
            corpus_digest=digest,
            corpus_size=count,
        )
        if not _is_made(sample, key, cell, loader.places):
            passes[sample] = fit_corpus
    return passes


def _is_made(
    sample: FitCorpusSample, key: str, cell: PlannedCell, places: Places
) -> bool:
    """Whether a file holds what the cell is fitted on.

    A plan does not know the digests in the names of files. Without dropout, the files
    of different seeds differ by their digests alone. A run makes them in the order of
    seeds, so the file of seed 3 is made if there are four files.
    """
    pattern = replace(sample, seed=None).file(places.cache, key, cell.method)
    files = list(pattern.parent.glob(pattern.name))
    if sample.seed is None or sample.dropout_seed is not None:
        return len(files) > 0
    return len(files) > sample.seed


def _seconds(
    missing: Sequence[str],
    passes: Mapping[FitCorpusSample, FitCorpus],
    files: EncoderFiles,
    places: Places,
) -> float | None:
    """Seconds of encoding sentences, and of passes over corpora; None if a rate is unknown."""
    characters = float(sum(len(sentence) for sentence in missing))
    seconds = 0.0
    for sample, fit_corpus in passes.items():
        if sample.dropout_seed is None:
            characters += sample.size * _mean_length(fit_corpus)
        else:
            rate = sample.dropout_rate(places.cache, files.key)
            if rate is None:
                return None
            seconds += sample.size / rate
    if characters:
        if not files.cache.rate:
            return None
        seconds += characters / files.cache.rate
    return round(seconds, 1)


def _mean_length(fit_corpus: FitCorpus) -> float:
    """The mean number of characters of a corpus's first sentences."""
    first_sentences = list(islice(fit_corpus.sentences(), SENTENCES_OF_A_SAMPLE))
    characters = sum(len(sentence) for sentence in first_sentences)
    return characters / max(1, len(first_sentences))
