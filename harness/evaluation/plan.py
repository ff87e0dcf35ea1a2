"""The plan of a run: the files that its cells lack, and the work that remains.

A plan loads no model, and reads no corpus to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from harness.core.errors import AssetMissing, HarnessError
from harness.core.files import sized
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Identity, Pooling, Trained
from harness.core.terminal import counted, duration, text_table, wrapped
from harness.data.places import asset_named
from harness.data.tasks.loader import CellTexts, TaskLoader
from harness.encoders.encodings import EncoderCache
from harness.encoders.tensorflow_bert import read_before
from harness.evaluation.cell import identity_of
from harness.evaluation.embeddings import missing_sentences
from harness.evaluation.fits import needs_pass
from harness.evaluation.select import PlannedCell, run_order
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
        cells: The cells, in any order.
        loader: Reads the texts, and knows where files are.
        runs: The records of cells that need not be measured again; None for none.
    """
    plan = Plan(cells=len(cells))
    planned_texts: dict[str, set[str]] = {}
    in_order = sorted(cells, key=run_order)
    for config, group in groupby(in_order, attrgetter("encoder")):
        _add_cells_of_encoder(plan, planned_texts, config, [*group], loader, runs)
    return plan


def _add_cells_of_encoder(
    plan: Plan,
    planned_texts: dict[str, set[str]],
    config: EncoderConfig,
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    runs: Store | None,
) -> None:
    """Count the cells of one encoder.

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
            return
    key = identity.key
    remaining: list[tuple[Pooling, CellTexts]] = []
    fits = set()
    sentences_of_corpora: dict[str, int] = {}
    for cell, texts in texts_by_cell.items():
        if runs is not None:
            # The sentences of its fit are not compared: a corpus is not read to its end.
            facts = identity_of(cell, texts, key)
            sidecar = runs.path(cell.address).with_suffix(".safetensors")
            if facts.items() <= sidecar_metadata(sidecar).items():
                continue
        remaining.append((cell.method.pooling, texts))
        fit_corpus = texts.fit_corpus
        if fit_corpus is None:
            continue
        fits.add((cell.method, cell.seed, fit_corpus))
        name = fit_corpus.name
        # A corpus that the encoder has passed over, for any method, is not counted.
        is_passed = any(places.cache.glob(f"*/{key}/{name}.*"))
        if needs_pass(cell.method, fit_corpus) and not is_passed:
            known = loader.corpora.get(name)
            count = (known.count or 0) if known else fit_corpus.count
            sentences_of_corpora[name] = count
    plan.runnable += len(texts_by_cell)
    plan.measured += len(texts_by_cell) - len(remaining)
    plan.fits += len(fits)
    cache = EncoderCache.open(places.cache, identity)
    missing, _ = missing_sentences(cache, remaining)
    if identity.shared_key is not None:
        # A longer length encodes its texts first. Those that this one does not cut, which
        # a plan without a tokenizer can but estimate, are not encoded again.
        encoded_longer = planned_texts.setdefault(identity.shared_key, set())
        longest = CHARACTERS_UNCUT * (identity.max_length or 0)
        missing = [
            text
            for text in missing
            if text not in encoded_longer or len(text) > longest
        ]
        encoded_longer.update(missing)
    in_corpora = sum(sentences_of_corpora.values())
    plan.sentences += len(missing) + in_corpora
    characters = sum(map(len, missing)) + CHARACTERS_A_SENTENCE * in_corpora
    if characters and plan.seconds is not None:
        rate = cache.rate
        plan.seconds = plan.seconds + characters / rate if rate else None


# A plan in words

MOST_MISSING = 10  # assets that a plan names


def plan_text(plan: Plan, width: int | None = None) -> str:
    """A plan for a terminal of `width` columns; None is any."""
    sentence = f"{plan.runnable:,} of {counted(plan.cells, 'cell')} can run here"
    if plan.measured:
        verb = "is" if plan.measured == 1 else "are"
        sentence += f"; {plan.measured:,} {verb} already measured"
    lines = [f"{sentence}."]
    scores_left = plan.runnable - plan.measured
    if scores_left > 0:
        # As in `9,646 sentences to encode (about 40 s), then 1 fit and 1 score.`
        steps = []
        if plan.trainings:
            steps.append(f"{counted(plan.trainings, 'encoder')} to train")
        if plan.sentences:
            time = "speed not known yet"
            if plan.seconds is not None:
                time = f"about {duration(plan.seconds)}"
            steps.append(f"{counted(plan.sentences, 'sentence')} to encode ({time})")
        fits = f"{counted(plan.fits, 'fit')} and " if plan.fits else ""
        steps.append(f"{fits}{counted(scores_left, 'score')}")
        lines.append(wrapped(f"{', then '.join(steps)}.", width))
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
