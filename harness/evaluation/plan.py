"""The plan of a run: the files that its cells lack, and the work that remains.

A plan loads no model, and reads no corpus to its end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from harness.core.environment import processor
from harness.core.errors import AssetMissing, HarnessError
from harness.core.files import sized
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Identity, Trained, VectorFile
from harness.core.terminal import counted, duration, text_table, wrapped
from harness.core.types import Method
from harness.data.places import asset_named
from harness.data.tasks.loader import CellTexts, TaskLoader
from harness.encoders.encodings import EncoderCache
from harness.encoders.tensorflow_bert import read_before
from harness.evaluation.cell import identity_of
from harness.evaluation.costs import Costs, ShapeCosts
from harness.evaluation.embeddings import missing_sentences
from harness.evaluation.fits import needs_dropout, needs_moments_alone, needs_pass
from harness.evaluation.select import PlannedCell, fits_without_pass, run_order
from harness.results.published import PublishedNumber
from harness.results.records import CellName
from harness.results.store import Store, sidecar_metadata

CHARACTERS_A_SENTENCE = 60  # of corpora, about
# Characters for each token of a maximum length: a text with more is taken to be cut. Of
# 40,000 sentences BERT's tokenizer cuts 8,937 at 25 tokens, where 10,120 have more.
CHARACTERS_UNCUT = 4


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
class Work:
    """The work that is left of one part of a run, in seconds of one process.

    Attributes:
        numbers: How many published numbers have a score for the first time after it.
        sentences: How many sentences are to be encoded, those of corpora included whose
            number is known.
        encode_seconds: How long that takes: by the rate that each encoder had here
            before, or else by the records of encoders of its shape; None if one of them
            has neither.
        fits: How many fits the cells need.
        fit_seconds: How long they take by the records; None if a fit has none.
        scores: How many cells are to be scored.
        score_seconds: How long that takes by the records, as far as they tell.
    """

    numbers: int = 0
    sentences: int = 0
    encode_seconds: float | None = 0.0
    fits: int = 0
    fit_seconds: float | None = 0.0
    scores: int = 0
    score_seconds: float = 0.0

    @property
    def seconds(self) -> float | None:
        """How long all of it takes; None where a part is unknown."""
        if self.encode_seconds is None or self.fit_seconds is None:
            return None
        return self.encode_seconds + self.fit_seconds + self.score_seconds


@dataclass(kw_only=True)
class Plan:
    """The plan of a run.

    Attributes:
        cells: How many cells there are.
        runnable: How many of them have all their files on this machine.
        measured: How many of these are measured already.
        trainings: How many encoders the run itself trains first.
        first: The work of the cells that are run first: those without sentences that are
            encoded for a fit alone.
        then: The work of the others.
        encoders: The encoders, without lengths, whose records tell how long it takes.
        machines: The processors of these records.
        missing: The assets that are not on this machine, by name.
    """

    cells: int
    runnable: int = 0
    measured: int = 0
    trainings: int = 0
    first: Work = field(default_factory=Work)
    then: Work = field(default_factory=Work)
    encoders: dict[str, None] = field(default_factory=dict)
    machines: dict[str, None] = field(default_factory=dict)
    missing: dict[str, MissingAsset] = field(default_factory=dict)

    @property
    def sentences(self) -> int:
        """How many sentences are to be encoded."""
        return self.first.sentences + self.then.sentences

    def work(self, method: Method) -> Work:
        """The part of the work to which a method's cells belong."""
        return self.first if fits_without_pass(method) else self.then

    def add_missing(
        self, name: str, cells: int, error: HarnessError, size: int | None
    ) -> None:
        """Count cells that cannot run for want of an asset."""
        get = getattr(error, "get", "") or str(error)
        self.missing.setdefault(name, MissingAsset(get, size)).cells += cells


def make_plan(
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    runs: Store | None = None,
    costs: Costs | None = None,
    numbers: Iterable[PublishedNumber] = (),
) -> Plan:
    """Plan a run from the files that its cells need.

    Args:
        cells: The cells, in any order.
        loader: Reads the texts, and knows where files are.
        runs: The records of cells that need not be measured again; None for none.
        costs: What cells have cost; None where nothing is known.
        numbers: The published numbers that the cells may be of.
    """
    plan = Plan(cells=len(cells))
    planned_texts: dict[str, set[str]] = {}
    left: dict[CellName, Method] = {}
    runnable: set[CellName] = set()
    in_order = sorted(cells, key=run_order)
    for config, group in groupby(in_order, attrgetter("encoder")):
        is_left = _add_cells_of_encoder(
            plan, planned_texts, config, [*group], loader, runs, costs
        )
        for cell in is_left:
            name = (cell.method.id, cell.task.name)
            runnable.add(name)
            if is_left[cell]:
                left[name] = cell.method
    for number in numbers:
        # A number has one method, and an average has several tasks.
        names = number.measured_cells
        methods = [left[name] for name in names if name in left]
        if methods and number.points is not None and runnable.issuperset(names):
            plan.work(methods[0]).numbers += 1
    return plan


def _add_cells_of_encoder(
    plan: Plan,
    planned_texts: dict[str, set[str]],
    config: EncoderConfig,
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    runs: Store | None,
    costs: Costs | None,
) -> Mapping[PlannedCell, bool]:
    """Count the cells of one encoder; return for those that can run whether they are left.

    `planned_texts` are the texts that are to be encoded so far, by the key that an encoder
    shares with itself under other maximum lengths. The texts of this one are added.
    """
    places = loader.places
    texts_by_cell: dict[PlannedCell, CellTexts] = {}
    for cell in cells:
        try:
            texts_by_cell[cell] = loader.texts(cell.task, cell.method.fit_on)
        except HarnessError as error:
            asset = asset_named(cell.task.asset)
            corpus = loader.corpora.get(cell.method.fit_on or "")
            if corpus is not None and places.has_data(asset.name):
                asset = asset_named(corpus.asset)
            plan.add_missing(asset.name, 1, error, asset.download_size)
    source = config.source
    identity = Identity("none", {})  # of what is not trained or converted yet
    try:
        path = read_before(places.encoder(config), places.cache)
        if path is not None:
            identity = places.identify(config, path)
    except HarnessError as error:
        is_missing = isinstance(error, AssetMissing)
        if is_missing and isinstance(source, Trained) and source.on_the_spot:
            plan.trainings += 1
        else:
            name = base_name(cells[0].method.encoder.name)
            size = getattr(source, "download_size", None)
            plan.add_missing(name, len(cells), error, size)
            return {}
    key = identity.key
    remaining: dict[PlannedCell, CellTexts] = {}
    for cell, texts in texts_by_cell.items():
        if runs is not None:
            # The sentences of its fit are not compared: a corpus is not read to its end.
            facts = identity_of(cell, texts, key)
            sidecar = runs.path(cell.address).with_suffix(".safetensors")
            if facts.items() <= sidecar_metadata(sidecar).items():
                continue
        remaining[cell] = texts
    plan.runnable += len(texts_by_cell)
    plan.measured += len(texts_by_cell) - len(remaining)
    shape = None
    if costs is not None and remaining:
        is_known = identity.parameters or isinstance(source, VectorFile)
        shape = costs.of_shape(identity.parameters) if is_known else None
    cache = EncoderCache.open(places.cache, identity)
    _add_sentences(plan, remaining, cache, identity, planned_texts, shape)
    _add_fits(plan, remaining, loader, cache, key, shape)
    for cell in remaining:
        work = plan.work(cell.method)
        work.scores += 1
        if shape is not None:
            work.score_seconds += shape.score(cell.task.name)
            plan.encoders |= dict.fromkeys(shape.encoders)
            plan.machines |= dict.fromkeys(shape.machines)
    return {cell: cell in remaining for cell in texts_by_cell}


def _add_sentences(
    plan: Plan,
    cells: Mapping[PlannedCell, CellTexts],
    cache: EncoderCache,
    identity: Identity,
    planned_texts: dict[str, set[str]],
    shape: ShapeCosts | None,
) -> None:
    """Count the sentences of tasks that an encoder has not encoded yet."""
    planned_here: set[str] = set()
    for work in (plan.first, plan.then):
        read = [
            (cell.method.pooling, texts)
            for cell, texts in cells.items()
            if plan.work(cell.method) is work
        ]
        missing, _ = missing_sentences(cache, read)
        missing = [text for text in missing if text not in planned_here]
        planned_here.update(missing)
        if identity.shared_key is not None:
            # A longer length encodes its texts first. Those that this one does not cut,
            # which a plan without a tokenizer can but estimate, are not encoded again.
            encoded_longer = planned_texts.setdefault(identity.shared_key, set())
            longest = CHARACTERS_UNCUT * (identity.max_length or 0)
            missing = [
                text
                for text in missing
                if text not in encoded_longer or len(text) > longest
            ]
            encoded_longer.update(missing)
        tasks = {cell.task.name for cell in cells}
        rate = None if shape is None else shape.rate(tasks)
        _add_encoding(work, len(missing), sum(map(len, missing)), cache.rate, rate)


def _add_encoding(
    work: Work,
    sentences: int,
    characters: int,
    characters_a_second: float | None,
    sentences_a_second: float | None,
) -> None:
    """Count sentences to encode, by the rate of this machine or else by that of records."""
    work.sentences += sentences
    if not sentences or work.encode_seconds is None:
        return
    if characters_a_second is not None:
        work.encode_seconds += characters / characters_a_second
    elif sentences_a_second is not None:
        work.encode_seconds += sentences / sentences_a_second
    else:
        work.encode_seconds = None


def _add_fits(
    plan: Plan,
    cells: Mapping[PlannedCell, CellTexts],
    loader: TaskLoader,
    cache: EncoderCache,
    key: str,
    shape: ShapeCosts | None,
) -> None:
    """Count the fits of an encoder's cells, and the sentences that are encoded for fits alone."""

    def rows_of(name: str) -> int | None:
        task = next((cell.task for cell in cells if cell.task.name == name), None)
        if task is None:
            return None
        fit_corpus = loader.texts(task, "target").fit_corpus
        return None if fit_corpus is None else fit_corpus.count

    rate = None if shape is None else shape.rate({cell.task.name for cell in cells})
    fits = set()
    passes = set()
    for cell, texts in cells.items():
        method, fit_corpus = cell.method, texts.fit_corpus
        if fit_corpus is None or (method, cell.seed, fit_corpus) in fits:
            continue
        fits.add((method, cell.seed, fit_corpus))
        has_dropout = needs_dropout(method)
        work = plan.work(method)
        work.fits += 1
        seconds: float | None = None
        if fit_corpus.streams and needs_moments_alone(method):
            seconds = 0.0  # beside its pass
        elif shape is not None and not fit_corpus.streams:
            seconds = shape.fit(method, cell.task.name)
        count = 0
        if needs_pass(method, fit_corpus):
            known = loader.corpora.get(fit_corpus.name)
            count = (known.count or 0) if known else fit_corpus.count
            count = math.ceil(count * max(post.share for post in method.post))
            if seconds is None and shape is not None:
                a_row = shape.seconds_a_row(method, rows_of)
                seconds = None if a_row is None else count * a_row
            # Methods share a pass, and one that was made, for any method, is not counted.
            a_pass = (fit_corpus, count, cell.seed if has_dropout else None)
            name = fit_corpus.name
            is_made = any(loader.places.cache.glob(f"*/{key}/{name}.*"))
            if a_pass in passes or (is_made and not has_dropout):
                count = 0
            passes.add(a_pass)
        if has_dropout and seconds is not None:
            work.sentences += count  # the seconds of such a fit hold those of its pass
            seconds = seconds if count else 0.0
        else:
            characters = CHARACTERS_A_SENTENCE * count
            _add_encoding(work, count, characters, cache.rate, rate)
        if work.fit_seconds is not None:
            work.fit_seconds = None if seconds is None else work.fit_seconds + seconds


# A plan in words

MOST_MISSING = 10  # assets that a plan names
NAMED_ENCODERS = 3  # at most, by whose records a time is told
LEAST_SHOWN = 1.0  # second of fits or scores that a plan shows


def _sentences_on_work(plan: Plan) -> Iterator[str]:
    """Sentences on the work that is left, its first part before the rest, with their times."""
    parts = [("First", plan.first), ("Then", plan.then)]
    parts = [(word, work) for word, work in parts if work.scores]
    trainings = counted(plan.trainings, "encoder") + " to train"
    for word, work in parts:
        steps = [] if not plan.trainings or work is not parts[0][1] else [trainings]
        steps += _steps_in_words(work)
        text = f"{', then '.join(steps)}."
        lead = counted(work.numbers, "published number") if work.numbers else ""
        if len(parts) > 1:
            lead = f"{word} {lead or counted(work.scores, 'score')}"
        if lead:
            if work.seconds is not None:
                lead += f" in about {duration(work.seconds)}"
            if work is plan.then:
                lead += ", whose fits encode a corpus, or sentences with dropout"
            text = f"{lead}: {text}"
        yield text
    if parts and plan.encoders:
        here = processor()
        encoders = ", ".join(plan.encoders)
        if len(plan.encoders) > NAMED_ENCODERS:
            encoders = counted(len(plan.encoders), "encoder")
        is_elsewhere = any(name != here for name in plan.machines)
        where = ", some of them on another processor" if is_elsewhere else ""
        yield f"In one process, by the records of {encoders}{where}."


def _steps_in_words(work: Work) -> Iterator[str]:
    """As in `9,646 sentences to encode (about 40 s)` and `1 fit and 1 score`."""
    if work.sentences:
        time = " (speed not known yet)"
        if work.encode_seconds is not None:
            # What is encoded for fits with dropout is part of the time of the fits.
            time = _time_in_words(work.encode_seconds) if work.encode_seconds else ""
        yield f"{counted(work.sentences, 'sentence')} to encode{time}"
    fits = ""
    if work.fits:
        time = " (time not known yet)" if work.fit_seconds is None else ""
        if work.fit_seconds and work.fit_seconds >= LEAST_SHOWN:
            time = _time_in_words(work.fit_seconds)
        fits = f"{counted(work.fits, 'fit')}{time} and "
    time = ""
    if work.score_seconds >= LEAST_SHOWN:
        time = _time_in_words(work.score_seconds)
    yield f"{fits}{counted(work.scores, 'score')}{time}"


def _time_in_words(seconds: float) -> str:
    """As in ` (about 40 s)`."""
    return f" (about {duration(seconds)})"


def plan_text(plan: Plan, width: int | None = None) -> str:
    """A plan for a terminal of `width` columns; None is any."""
    sentence = f"{plan.runnable:,} of {counted(plan.cells, 'cell')} can run here"
    if plan.measured:
        verb = "is" if plan.measured == 1 else "are"
        sentence += f"; {plan.measured:,} {verb} already measured"
    lines = [f"{sentence}."]
    lines += [wrapped(sentence, width) for sentence in _sentences_on_work(plan)]
    if not plan.missing:
        return "\n".join(lines)
    size = sized(sum(asset.bytes or 0 for asset in plan.missing.values()))
    lines += [
        "",
        f"{counted(len(plan.missing), 'asset')} missing, {size} as far as known:",
    ]
    most_needed = sorted(
        plan.missing.items(), key=lambda item: item[1].cells, reverse=True
    )
    rows = []
    for name, asset in most_needed[:MOST_MISSING]:
        size = sized(asset.bytes) if asset.bytes else ""
        get = asset.get if name in asset.get.split() else f"{name}: {asset.get}"
        rows.append((get, size, asset.cells))
    lines.append(text_table(rows, ("to get it", "size", "cells"), width))
    unnamed_count = len(plan.missing) - MOST_MISSING
    if unnamed_count > 0:
        lines.append(f"and {unnamed_count} more: harness list assets")
    return "\n".join(lines)
