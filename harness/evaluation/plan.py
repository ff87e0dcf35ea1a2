"""The plan of a run: its cells, the files that they need, what is cached, and what is left to do.

It begins with the identity of a measurement: what a stored result must agree in to count as done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from harness.assets.places import asset_named
from harness.core.errors import AssetMissing, HarnessError
from harness.core.files import sized
from harness.core.hardware import base_name
from harness.core.interfaces import Trained
from harness.core.metrics import metric_of
from harness.core.provenance import Plugin, code_digest, plugins_of
from harness.core.terminal import INDENT, duration, text_table, wrapped
from harness.core.types import Progress, Task
from harness.encoders.cache.encodings import EncoderCache
from harness.encoders.native import bypassed
from harness.evaluation.fit_corpus import DIGITS, CorpusSample, needs_dropout
from harness.evaluation.select import PlannedCell
from harness.results.records import Store, sidecar_metadata
from harness.tasks.loader import CellInputs, FitText, TaskLoader, distinct_sentences


def identity_of(cell: PlannedCell, inputs: CellInputs, encoding: str) -> dict[str, str]:
    """Method, data, encoding, code and plug-ins of a cell; `encoding` is the encoder's key.

    The digest of the sentences of a fit (`fit`), for which a corpus is read, is left out.
    """
    plugins = plugins_of_cell(cell).values()
    return {
        "method": repr(cell.method),
        "data": inputs.digests["data"],
        "encoding": encoding,
        "code": code_digest(),
        **{f"plugin {plugin.name}": plugin.sha256 for plugin in plugins},
        **inputs.digests,
    }


def plugins_of_cell(cell: PlannedCell) -> dict[str, Plugin]:
    """The plug-ins whose code has a part in a cell's score, by name."""
    method, metric = cell.method, metric_of(cell.task)
    return plugins_of(method.encoder, method.pooling, *method.post, metric, cell.task.load)


@dataclass(frozen=True)
class MissingAsset:
    """Why something is not here, the command or step that gets it, and its bytes, if known."""

    message: str
    get: str = ""
    bytes: int | None = None

    @classmethod
    def of(cls, error: HarnessError, size: int | None) -> MissingAsset:
        return cls(str(error), getattr(error, "get", ""), size)


@dataclass(frozen=True)
class EncoderPlan:
    """The work of one encoder; `missing` is the line that says how to get its files, or None.

    An encoder `to_train` is trained by the run itself. `to_encode` counts the sentences that are
    not cached, and those of passes over corpora that no file holds. `seconds` are theirs by the
    `rate`, in letters a second; a pass with dropout takes as long as earlier ones. None is unknown:
    of a corpus that states no count, of an encoder that is not here, or that was never timed. Of
    the cells so many are `measured`, and left are `fits` and `scorings`. `note` is on poolings that
    bypass the modules of a folder.
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


@dataclass(frozen=True)
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
    missing: dict[str, MissingAsset] = {}
    names = dict.fromkeys((cell.task, cell.method.fit_on) for cell in cells)
    progress.phase("planning", len(cells))
    inputs = {name: _inputs(*name, loader, missing) for name in names}
    encoders: list[EncoderPlan] = []
    runnable = 0
    for config, group in groupby(cells, key=lambda cell: cell.encoder):
        of_encoder = tuple(group)
        texts = {cell: inputs[cell.task, cell.method.fit_on] for cell in of_encoder}
        readable = {cell: text for cell, text in texts.items() if text is not None}
        try:
            encoders.append(_encoder(of_encoder, readable, loader, runs))
            runnable += len(readable)
        except HarnessError as error:
            name = f"encoder {base_name(of_encoder[0].method.encoder.name)}"
            missing[name] = MissingAsset.of(error, getattr(config.source, "about", None))
            encoders.append(EncoderPlan(config.name, len(of_encoder), str(error)))
        progress.step(len(of_encoder))
    return Plan(len(cells), runnable, tuple(encoders), missing)


def _inputs(
    task: Task, fit_on: str | None, loader: TaskLoader, missing: dict[str, MissingAsset]
) -> CellInputs | None:
    """The texts of a cell; None, and a reason, if data are missing."""
    try:
        return loader.inputs(task, fit_on)
    except HarnessError as error:
        corpus = loader.corpora.get(fit_on or "")
        lacks_corpus = corpus is not None and loader.places.has_data(task.asset)
        asset = corpus.asset if corpus and lacks_corpus else task.asset
        missing[asset] = MissingAsset.of(error, asset_named(asset).to_get)
        return None


def _encoder(
    planned: Sequence[PlannedCell],
    readable: Mapping[PlannedCell, CellInputs],
    loader: TaskLoader,
    runs: Store | None,
) -> EncoderPlan:
    """The plan of an encoder; `readable` are its cells whose data are here.

    Raises HarnessError where its files are not here, or not what they should be.
    """
    config, places = planned[0].encoder, loader.places
    plan = EncoderPlan(config.name, len(planned))
    try:
        path = places.encoder(config)
    except AssetMissing:
        if not (isinstance(config.source, Trained) and config.source.on_the_spot):
            raise
        plan, key, cache = replace(plan, to_train=True), "", EncoderCache(places.cache)
    else:
        key = places.identify(config, path, noted=True).key
        cache = EncoderCache.open(places.cache, key)
        note = bypassed(config, path, (cell.method.pooling.name for cell in planned))
        plan = replace(plan, note=note)
    distinct = tuple(distinct_sentences(readable.values()))
    missing = cache.missing(distinct)
    left = {c: inputs for c, inputs in readable.items() if not _is_measured(c, inputs, key, runs)}
    passes = _passes_left(left, key, loader)
    counted = all(sample.count for sample in passes)
    works: list[tuple[float, float | None]] = [(sum(map(len, missing)), cache.rate)]
    for sample, text in passes.items():
        if sample.dropout is None:
            first = [*islice(text.sentences(), 1000)]
            letters = sum(map(len, first)) / max(1, len(first))
            works.append((sample.taken * letters, cache.rate))
        else:
            works.append((sample.taken, sample.dropout_rate(places.cache, key)))
    timed = counted and all(per_second for amount, per_second in works if amount)
    seconds = sum(amount / per_second for amount, per_second in works if per_second)
    return replace(
        plan,
        sentences=len(distinct),
        cached=len(distinct) - len(missing),
        to_encode=len(missing) + sum(sample.taken for sample in passes) if counted else None,
        rate=cache.rate,
        seconds=round(seconds, 1) if timed else None,
        measured=len(readable) - len(left),
        fits=len({(c.method, c.seed, inputs.fit) for c, inputs in left.items() if c.method.post}),
        scorings=len(left),
    )


def _is_measured(cell: PlannedCell, inputs: CellInputs, key: str, runs: Store | None) -> bool:
    """Whether a run holds the cell; the sentences of a corpus are not digested to see it."""
    stored = sidecar_metadata(runs.path(cell.address).with_suffix(".safetensors")) if runs else {}
    return bool(stored) and identity_of(cell, inputs, key).items() <= stored.items()


def _passes_left(
    cells: Mapping[PlannedCell, CellInputs], key: str, loader: TaskLoader
) -> dict[CorpusSample, FitText]:
    """The passes that cells need and that no file holds yet, of `count` 0 where none is stated."""
    passes: dict[CorpusSample, FitText] = {}
    for cell, inputs in cells.items():
        text, method = inputs.fit, cell.method
        if text is None or not (text.streams or needs_dropout(method)):
            continue
        count, digest = text.count, text.digest
        if text.streams:  # as it is stated: a corpus is not read to plan
            count, digest = loader.corpora[str(method.fit_on)].count or 0, "?" * DIGITS
        sample = CorpusSample.of(text.name, digest, count, method, cell.seed)
        file = replace(sample, seed=None).file(loader.places.cache, key, method)
        made = len(list(file.parent.glob(file.name)))
        # Draws without dropout differ by their digests alone; a run makes them in order of seeds.
        if made <= (sample.seed or 0 if sample.dropout is None else 0):
            passes[sample] = text
    return passes


UNKNOWN = "unknown"
MERGED = ("harness fetch ", "harness train family ", "pip install ")  # they take several names


def render_plan(plan: Plan, width: int | None = None) -> str:
    """The plan for people: what is here, what is left to do, and what gets all that is missing."""
    width = 80 if width is None else width
    head = ("encoder", "cells", "cached", "to encode", "time")
    encoders = text_table([_row(e) for e in plan.encoders if not e.missing], head, width)
    measured = sum(encoder.measured for encoder in plan.encoders)
    already = f", {measured} of them are measured already" if measured else ""
    left = f"; {_work_left(plan)}" if plan.runnable else "."
    cells = f"{plan.runnable} of {plan.cells} cells can run here{already}{left}"
    notes = [wrapped(f"Note: {e.note}", width) for e in plan.encoders if e.note]
    return "\n".join((encoders, "", wrapped(cells, width), *notes, *_to_get(plan.missing, width)))


def _to_get(missing: Mapping[str, MissingAsset], width: int) -> Iterator[str]:
    """Each command that downloads missing assets, then those that must be obtained manually."""
    names: dict[str, dict[str, None]] = {}
    by_hand = []
    for name, asset in missing.items():
        command = next((command for command in MERGED if asset.get.startswith(command)), "")
        if command:
            names.setdefault(command, {})[asset.get.removeprefix(command)] = None
        else:
            by_hand.append(f"{INDENT}{name}: {asset.get or asset.message}")
    if missing:
        size = sum(asset.bytes or 0 for asset in missing.values())
        yield f"\nasset missing ({len(missing)}, {sized(size)} as far as known):"
    for command, words in names.items():
        line = wrapped(f"{INDENT}{command}{' '.join(words)}", width - 2)
        yield line.replace("\n", " \\\n")
    if by_hand:
        yield "by hand:"
        yield from (wrapped(line, width) for line in by_hand)


def _row(encoder: EncoderPlan) -> tuple[str, ...]:
    return (
        encoder.name,
        str(encoder.cells),
        "to be trained" if encoder.to_train else f"{encoder.cached:,} of {encoder.sentences:,}",
        UNKNOWN if encoder.to_encode is None else f"{encoder.to_encode:,}",
        UNKNOWN if encoder.seconds is None else duration(encoder.seconds),
    )


def _work_left(plan: Plan) -> str:
    """The time to encode, as far as it is known, and how much else there is to do."""
    timed = sum(encoder.seconds or 0.0 for encoder in plan.encoders)
    unknown = sum(e.seconds is None and not e.missing for e in plan.encoders)
    times = [f"about {duration(timed)}"] if timed or not unknown else []
    if unknown:
        times.append(f"an unknown time for {unknown} encoder{'s' * (unknown > 1)}")
    counts = {
        "training": sum(encoder.to_train for encoder in plan.encoders),
        "fit": sum(encoder.fits for encoder in plan.encoders),
        "scoring": sum(encoder.scorings for encoder in plan.encoders),
    }
    others = [f"{n:,} {what}{'s' * (n > 1)}" for what, n in counts.items() if n]
    not_timed = f"; not timed are {', '.join(others)}" if others else ""
    return f"encoding takes {' and '.join(times)}{not_timed}."
