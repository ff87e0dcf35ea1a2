"""The plan of a run: its cells, the files that they need, what is cached, what is left to do."""

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
from harness.results.records import Store, sidecar_metadata
from harness.tasks.loader import CellTexts, FitCorpus, TaskLoader, distinct_sentences

SENTENCES_OF_A_SAMPLE = (
    1000  # by which the mean length of a corpus's sentences is estimated
)


@dataclass(frozen=True)
class MissingAsset:
    """Why something is not here, the command or step that gets it, and its bytes, if known."""

    message: str
    get: str = ""
    bytes: int | None = None

    @classmethod
    def from_error(cls, error: HarnessError, size: int | None) -> MissingAsset:
        """What an error says, of an asset of so many bytes."""
        return cls(message=str(error), get=getattr(error, "get", ""), bytes=size)


@dataclass(frozen=True, kw_only=True)
class EncoderPlan:
    """The work of one encoder.

    Attributes:
        name: The encoder.
        cells: How many cells it has.
        missing: The line that says how to get its files; None where they are here.
        to_train: Whether the run itself trains it.
        sentences: How many distinct sentences its cells have.
        cached: How many of these are encoded.
        to_encode: How many are not, with those of passes over corpora that no file
            holds; None where a corpus states no count, or the encoder is not here.
        rate: Characters a second that it encoded so far; None if it was never timed.
        seconds: What encoding takes by that rate, and by earlier passes with dropout;
            None if unknown.
        measured: How many cells are measured already.
        fits: How many fits the other cells need.
        scorings: How many other cells there are.
        note: On poolings that bypass the modules of a folder.
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
    """The work of all encoders, and what is not on this machine by name."""

    cells: int
    runnable: int
    encoders: tuple[EncoderPlan, ...]
    missing: Mapping[str, MissingAsset]


def make_plan(
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    runs: Store | None = None,
    progress: Progress = Progress(),  # noqa: B008 - it holds nothing
) -> Plan:
    """Look at everything that the cells need.

    `runs` holds what was measured before, if that counts.
    """
    progress.phase("planning", len(cells))
    missing: dict[str, MissingAsset] = {}
    inputs = dict.fromkeys((cell.task, cell.method.fit_on) for cell in cells)
    texts_of_inputs = {
        (task, fit_on): _texts(task, fit_on, loader, missing) for task, fit_on in inputs
    }
    encoders: list[EncoderPlan] = []
    runnable = 0
    for config, group in groupby(cells, key=lambda cell: cell.encoder):
        cells_of_encoder = tuple(group)
        texts_of_cells: dict[PlannedCell, CellTexts] = {}
        for cell in cells_of_encoder:
            texts = texts_of_inputs[cell.task, cell.method.fit_on]
            if texts is not None:
                texts_of_cells[cell] = texts
        try:
            encoders.append(
                _plan_encoder(cells_of_encoder, texts_of_cells, loader, runs)
            )
            runnable += len(texts_of_cells)
        except HarnessError as error:
            name = base_name(cells_of_encoder[0].method.encoder.name)
            size = getattr(config.source, "download_size", None)
            missing[f"encoder {name}"] = MissingAsset.from_error(error, size)
            encoders.append(
                EncoderPlan(
                    name=config.name, cells=len(cells_of_encoder), missing=str(error)
                )
            )
        progress.step(len(cells_of_encoder))
    return Plan(
        cells=len(cells), runnable=runnable, encoders=tuple(encoders), missing=missing
    )


def _texts(
    task: Task, fit_on: str | None, loader: TaskLoader, missing: dict[str, MissingAsset]
) -> CellTexts | None:
    """The texts of a cell; None, and an entry in `missing`, if data are missing."""
    try:
        return loader.texts(task, fit_on)
    except HarnessError as error:
        asset = task.asset
        corpus = loader.corpora.get(fit_on or "")
        if corpus is not None and loader.places.has_data(task.asset):
            asset = corpus.asset
        missing[asset] = MissingAsset.from_error(
            error, asset_named(asset).download_size
        )
        return None


def _plan_encoder(
    cells: Sequence[PlannedCell],
    texts_of_cells: Mapping[PlannedCell, CellTexts],
    loader: TaskLoader,
    runs: Store | None,
) -> EncoderPlan:
    """The plan of an encoder; `texts_of_cells` holds the cells whose data are here.

    Raises HarnessError where its files are not here, or not what they should be.
    """
    config, places = cells[0].encoder, loader.places
    files = _open_files(config, places, cells)
    distinct = tuple(distinct_sentences(texts_of_cells.values()))
    missing = files.cache.missing(distinct)
    remaining = {
        cell: texts
        for cell, texts in texts_of_cells.items()
        if runs is None or not _is_measured(cell, texts, files.key, runs)
    }
    passes = _passes_to_make(remaining, files.key, loader)
    counts_are_known = all(sample.corpus_size for sample in passes)
    in_passes = sum(sample.size for sample in passes)
    fits = {
        (cell.method, cell.seed, texts.fit_corpus)
        for cell, texts in remaining.items()
        if cell.method.post
    }
    return EncoderPlan(
        name=config.name,
        cells=len(cells),
        to_train=files.to_train,
        sentences=len(distinct),
        cached=len(distinct) - len(missing),
        to_encode=len(missing) + in_passes if counts_are_known else None,
        rate=files.cache.rate,
        seconds=_seconds(missing, passes, files, places) if counts_are_known else None,
        measured=len(texts_of_cells) - len(remaining),
        fits=len(fits),
        scorings=len(remaining),
        note=files.note,
    )


@dataclass(frozen=True, kw_only=True)
class EncoderFiles:
    """The files of an encoder as a plan sees them: their key, and the cache that it leads to."""

    key: str
    cache: EncoderCache
    note: str = ""
    to_train: bool = False


def _open_files(
    config: EncoderConfig, places: Places, cells: Iterable[PlannedCell]
) -> EncoderFiles:
    """The files of an encoder; none yet of one that the run trains. Raises AssetMissing."""
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
    """Whether a run holds the cell; the sentences of a corpus are not digested to see it."""
    stored = sidecar_metadata(runs.path(cell.address).with_suffix(".safetensors"))
    if not stored:
        return False
    return identity_without_fit(cell, texts, key).items() <= stored.items()


def _passes_to_make(
    texts_of_cells: Mapping[PlannedCell, CellTexts], key: str, loader: TaskLoader
) -> dict[FitCorpusSample, FitCorpus]:
    """The passes that cells need and that no file holds yet, of `count` 0 where none is stated."""
    passes: dict[FitCorpusSample, FitCorpus] = {}
    for cell, texts in texts_of_cells.items():
        fit_corpus, method = texts.fit_corpus, cell.method
        if fit_corpus is None or not needs_pass(method, fit_corpus):
            continue
        if (
            fit_corpus.streams
        ):  # a plan reads no corpus: its count is stated, its digest unknown
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
    """Whether a file holds what the cell is fitted on, whatever its digest.

    Samples without dropout have file names that differ by their digests alone, one for
    each seed. A run makes them in the order of seeds: seed 3 is made if there are four
    files.
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
    characters = float(sum(map(len, missing)))
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
    """Characters of a sentence, by the first ones of a corpus."""
    first = list(islice(fit_corpus.sentences(), SENTENCES_OF_A_SAMPLE))
    return sum(map(len, first)) / max(1, len(first))
