"""The plan of a run: its cells, the files that they need, and what remains to be done.

`make_plan` reads the texts of all tasks first. Then it plans the encoders one by one:
whether their files are here, which sentences the cache holds, which cells are measured.
A plan reads the headers of files and no model. It reads no corpus to the end, and so
does not know the digest of one.
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
        message: Why it is not here.
        get: The command or the step that gets it; empty if none does.
        bytes: The size of the download; None if it is not known.
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
        to_encode: How many sentences are to be encoded, in passes over corpora, too;
            None if a corpus states no count, or if the encoder is not here.
        rate: Characters a second of its earlier encodings; None if there are none.
        seconds: How long encoding takes, by `rate` and by earlier passes with dropout;
            None if neither tells it.
        measured: How many cells are measured already.
        fits: How many fits the cells need that are not measured.
        scorings: How many cells are not measured.
        note: A sentence on poolings that bypass the modules of a folder; empty if there
            are none.
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


# A task, and the word for what a method is fitted on. The texts of a cell depend on both.
Inputs = tuple[Task, str | None]


def make_plan(
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    runs: Store | None = None,
    progress: Progress = Progress(),  # noqa: B008 - it holds nothing
) -> Plan:
    """Plan a run from the files that its cells need.

    Args:
        cells: The cells, in an order in which the cells of an encoder follow each other.
        loader: Reads the texts, and knows where files are.
        runs: The records of cells that need not be measured again; None for none.
        progress: Counts the cells.
    """
    progress.phase("planning", len(cells))
    texts_by_cell, missing = _read_texts(cells, loader)
    encoder_plans: list[EncoderPlan] = []
    runnable = 0
    for config, group in groupby(cells, key=lambda cell: cell.encoder):
        cells_of_encoder = tuple(group)
        texts_of_encoder = {
            cell: texts_by_cell[cell]
            for cell in cells_of_encoder
            if cell in texts_by_cell
        }
        try:
            encoder_plan = _plan_encoder(
                cells_of_encoder, texts_of_encoder, loader, runs
            )
            runnable += len(texts_of_encoder)
        except HarnessError as error:
            encoder_plan = EncoderPlan(
                name=config.name, cells=len(cells_of_encoder), missing=str(error)
            )
            name = base_name(cells_of_encoder[0].method.encoder.name)
            size = getattr(config.source, "download_size", None)
            missing[f"encoder {name}"] = MissingAsset.from_error(error, size)
        encoder_plans.append(encoder_plan)
        progress.step(len(cells_of_encoder))
    return Plan(
        cells=len(cells),
        runnable=runnable,
        encoders=tuple(encoder_plans),
        missing=missing,
    )


def _read_texts(
    cells: Iterable[PlannedCell], loader: TaskLoader
) -> tuple[dict[PlannedCell, CellTexts], dict[str, MissingAsset]]:
    """The texts of the cells whose data are on this machine, and the assets that are not."""
    cells_by_inputs: dict[Inputs, list[PlannedCell]] = {}
    for cell in cells:
        inputs = (cell.task, cell.method.fit_on)
        cells_by_inputs.setdefault(inputs, []).append(cell)
    texts_by_cell: dict[PlannedCell, CellTexts] = {}
    missing: dict[str, MissingAsset] = {}
    for (task, fit_on), cells_of_inputs in cells_by_inputs.items():
        try:
            texts = loader.texts(task, fit_on)
        except HarnessError as error:
            asset = asset_named(_missing_data(task, fit_on, loader))
            missing[asset.name] = MissingAsset.from_error(error, asset.download_size)
        else:
            texts_by_cell.update(dict.fromkeys(cells_of_inputs, texts))
    return texts_by_cell, missing


def _missing_data(task: Task, fit_on: str | None, loader: TaskLoader) -> str:
    """The name of the asset whose files are missing: the task's, or the fit corpus's.

    It is called after the texts of both could not be read.
    """
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
    missing_sentences = files.cache.missing(sentences)
    remaining_cells = {
        cell: texts
        for cell, texts in texts_by_cell.items()
        if runs is None or not _is_measured(cell, texts, files.key, runs)
    }
    passes = _passes_to_make(remaining_cells, files.key, loader)
    counts_are_known = all(sample.corpus_size for sample in passes)
    to_encode, seconds = None, None
    if counts_are_known:
        to_encode = len(missing_sentences) + sum(sample.size for sample in passes)
        seconds = _seconds(missing_sentences, passes, files, places)
    fits = {
        (cell.method, cell.seed, texts.fit_corpus)
        for cell, texts in remaining_cells.items()
        if cell.method.post
    }
    return EncoderPlan(
        name=config.name,
        cells=len(cells),
        to_train=files.to_train,
        sentences=len(sentences),
        cached=len(sentences) - len(missing_sentences),
        to_encode=to_encode,
        rate=files.cache.rate,
        seconds=seconds,
        measured=len(texts_by_cell) - len(remaining_cells),
        fits=len(fits),
        scorings=len(remaining_cells),
        note=files.note,
    )


@dataclass(frozen=True, kw_only=True)
class EncoderFiles:
    """The facts on an encoder's files that a plan needs.

    Attributes:
        key: The key in the encoder's identity, which names its folder in the cache; empty
            for an encoder that is not trained yet.
        cache: The cache of its encodings.
        note: A sentence on poolings that bypass the modules of a folder; empty if there
            are none.
        to_train: Whether the run makes the files by a training.
    """

    key: str
    cache: EncoderCache
    note: str = ""
    to_train: bool = False


def _open_files(
    config: EncoderConfig, places: Places, cells: Iterable[PlannedCell]
) -> EncoderFiles:
    """The files of an encoder, which the run may have to train first. Raises AssetMissing."""
    try:
        path = places.encoder(config)
    except AssetMissing:
        if isinstance(config.source, Trained) and config.source.on_the_spot:
            return EncoderFiles(key="", cache=EncoderCache(places.cache), to_train=True)
        raise
    key = places.identify(config, path).key
    poolings = (cell.method.pooling.name for cell in cells)
    return EncoderFiles(
        key=key,
        cache=EncoderCache.open(places.cache, key),
        note=bypass_note(config, path, poolings),
    )


def _is_measured(cell: PlannedCell, texts: CellTexts, key: str, runs: Store) -> bool:
    """Whether a record of the cell is stored. The sentences of its fit are not compared."""
    sidecar = runs.path(cell.address).with_suffix(".safetensors")
    stored_identity = sidecar_metadata(sidecar)
    if not stored_identity:
        return False
    identity = identity_without_fit(cell, texts, key)
    return identity.items() <= stored_identity.items()


def _passes_to_make(
    texts_by_cell: Mapping[PlannedCell, CellTexts], key: str, loader: TaskLoader
) -> dict[FitCorpusSample, FitCorpus]:
    """The samples of corpora that are to be encoded for fits, each with its corpus.

    The sample of a corpus that states no count has the corpus size 0.
    """
    passes: dict[FitCorpusSample, FitCorpus] = {}
    for cell, texts in texts_by_cell.items():
        fit_corpus, method = texts.fit_corpus, cell.method
        if fit_corpus is None or not needs_pass(method, fit_corpus):
            continue
        if fit_corpus.streams:
            # A plan reads no corpus to its end. The registered corpus states its count,
            # and `?` matches any digit of its digest in the name of a file.
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
    """Whether a file with the moments or rows of a cell's sample exists.

    A plan does not know the digests in the names of files. Without dropout, the files of
    different seeds have names that differ in the digest alone. A run makes them in the
    order of seeds, so the file of seed 3 exists if there are four files.
    """
    pattern = replace(sample, seed=None).file(places.cache, key, cell.method)
    files = list(pattern.parent.glob(pattern.name))
    if sample.seed is None or sample.dropout_seed is not None:
        return len(files) > 0
    return len(files) > sample.seed


def _seconds(
    sentences: Sequence[str],
    passes: Mapping[FitCorpusSample, FitCorpus],
    files: EncoderFiles,
    places: Places,
) -> float | None:
    """Seconds of encoding sentences, and of passes over corpora; None if a rate is unknown."""
    characters = float(sum(len(sentence) for sentence in sentences))
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
