"""The plan of a run: its cells, the files that they need, what is cached, and what is left to do.

It begins with the identity of a measurement: what a stored result must agree in to count as done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from statistics import median

from harness.assets.places import asset_named
from harness.core.errors import AssetMissing, HarnessError
from harness.core.files import sized
from harness.core.hardware import base_name
from harness.core.interfaces import Trained
from harness.core.metrics import metric_of
from harness.core.provenance import Plugin, code_digest, plugins_of
from harness.core.terminal import duration, text_table, wrapped
from harness.core.types import Task
from harness.encoders.cache.encodings import EncoderCache, known_key
from harness.encoders.cache.gc import cache_size
from harness.encoders.native import bypassed
from harness.evaluation.fit_corpus import DIGITS, CorpusSample
from harness.results.index import Results
from harness.results.records import PlannedCell, Store, sidecar_metadata
from harness.tasks.loader import CellInputs, TaskLoader, distinct_sentences


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
    function = getattr(method.encoder, "function", None)
    code = (method.encoder, function, method.pooling, *method.post, metric.score, metric.compare)
    return plugins_of(*code, cell.task.load)


@dataclass(frozen=True)
class EncoderPlan:
    """The work of one encoder; `missing` is the line that says how to get its files, or None.

    `where` is the kind of place where its files lie; an encoder `to_train` is trained by the run
    itself. `to_encode` counts the sentences that are not cached, and those of passes over corpora
    that no file holds. `seconds` are theirs by the `rate`, in sentences a second; None is unknown:
    of a corpus that states no count, or of an encoder that was never timed. Of the cells so many
    are `measured`, and left are `fits` and `scorings`. `note` is on poolings that bypass modules.
    """

    name: str
    source: str
    cells: int
    missing: str | None = None
    where: str = ""
    to_train: bool = False
    sentences: int = 0
    cached: int = 0
    to_encode: int | None = 0
    rate: float | None = None
    seconds: float | None = 0.0
    measured: int = 0
    fits: int = 0
    scorings: int = 0
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """All of it.

    `missing` maps an asset to the line that says how to get it, `data` the data sets that are here
    to the kind of place where they lie. `cache_bytes` are of everything cached.
    """

    cells: int
    runnable: int
    encoders: tuple[EncoderPlan, ...]
    missing: Mapping[str, str]
    cache_bytes: int
    data: Mapping[str, str]


def measured_rates(results: Results) -> dict[str, float]:
    """The sentences a second of each encoder in records: the median."""
    rates = defaultdict[str, list[float]](list)
    for record in chain.from_iterable(results.by_cell.values()):
        if rate := record.facts.get("sentences_per_second"):
            rates[record.method.partition(".")[0]].append(rate)
    return {encoder: median(of_encoder) for encoder, of_encoder in rates.items()}


def make_plan(
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    runs: Store | None = None,
    rates: Mapping[str, float] | None = None,
) -> Plan:
    """Look at everything that the cells need.

    `runs` holds what was measured before, if that counts; `rates` are for encoders that have not
    run on this machine.
    """
    missing: dict[str, str] = {}
    names = dict.fromkeys((cell.task, cell.method.fit_on) for cell in cells)
    inputs = {name: _inputs(*name, loader, missing) for name in names}
    encoders: list[EncoderPlan] = []
    runnable = 0
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        of_encoder = tuple(group)
        texts = {cell: inputs[cell.task, cell.method.fit_on] for cell in of_encoder}
        readable = {cell: text for cell, text in texts.items() if text is not None}
        encoder = _encoder(of_encoder, readable, loader, runs, rates or {})
        if encoder.missing:
            missing[f"encoder {base_name(of_encoder[0].method.encoder.name)}"] = encoder.missing
        else:
            runnable += len(readable)
        encoders.append(encoder)
    fitted_on = (loader.corpora.get(cell.method.fit_on or "") for cell in cells)
    corpora = (corpus.asset for corpus in fitted_on if corpus is not None)
    assets = dict.fromkeys((*(cell.task.asset for cell in cells), *corpora))
    data = {
        name: "package" if asset_named(name).embedded else "data folder"
        for name in assets
        if loader.places.has_data(name)
    }
    cached = cache_size(loader.places.cache)
    return Plan(len(cells), runnable, tuple(encoders), missing, cached, data)


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
    readable: Mapping[PlannedCell, CellInputs],
    loader: TaskLoader,
    runs: Store | None,
    rates: Mapping[str, float],
) -> EncoderPlan:
    """The plan of an encoder; `readable` are its cells whose data are here."""
    config, places = planned[0].encoder, loader.places
    plan = EncoderPlan(config.name, str(config.source), len(planned))
    try:
        path = places.encoder(config)
        key = known_key(places.cache, config, path) or config.identify(path).key
    except HarnessError as error:
        on_the_spot = isinstance(config.source, Trained) and config.source.on_the_spot
        if not (on_the_spot and isinstance(error, AssetMissing)):
            return replace(plan, missing=str(error))
        plan, key, cache = replace(plan, to_train=True), "", EncoderCache(places.cache)
    else:
        note = bypassed(config, path, (cell.method.pooling.name for cell in planned))
        plan = replace(plan, where=places.kind_of(config), note=note)
        cache = EncoderCache.open(places.cache, key)
    distinct = tuple(distinct_sentences(readable.values()))
    missing = len(cache.missing(distinct))
    left = [cell for cell, inputs in readable.items() if not _is_measured(cell, inputs, key, runs)]
    of_passes = _sentences_of_passes(left, key, loader)
    to_encode = None if of_passes is None else missing + of_passes
    rate = cache.rate or rates.get(planned[0].method.encoder.name)
    return replace(
        plan,
        sentences=len(distinct),
        cached=len(distinct) - missing,
        to_encode=to_encode,
        rate=rate,
        seconds=_seconds(to_encode, rate),
        measured=len(readable) - len(left),
        fits=sum(bool(cell.method.post) for cell in left),
        scorings=len(left),
    )


def _seconds(sentences: int | None, rate: float | None) -> float | None:
    """Seconds to encode sentences; None where their number or the rate is unknown."""
    if sentences == 0:
        return 0.0
    return None if sentences is None or rate is None else round(sentences / rate, 1)


def _is_measured(cell: PlannedCell, inputs: CellInputs, key: str, runs: Store | None) -> bool:
    """Whether a run holds the cell; the sentences of a corpus are not digested to see it."""
    if runs is None:
        return False
    stored = sidecar_metadata(runs.path(cell.address).with_suffix(".safetensors"))
    return stored is not None and identity_of(cell, inputs, key).items() <= stored.items()


def _sentences_of_passes(cells: Iterable[PlannedCell], key: str, loader: TaskLoader) -> int | None:
    """Sentences of the passes over corpora that cells need and that no file holds yet.

    None where a corpus states no count.
    """
    sentences: dict[CorpusSample, int | None] = {}
    for cell in cells:
        corpus = loader.corpora.get(cell.method.fit_on or "")
        if corpus is None:
            continue
        sample = CorpusSample.of(corpus.name, "", corpus.count or 0, cell.method, cell.seed)
        of_any_text = replace(sample, text="?" * DIGITS, seed=None)
        file = of_any_text.file(loader.places.cache, key, cell.method)
        made = len(list(file.parent.glob(file.name)))
        # Draws without dropout differ by their digests alone; a run makes them in order of seeds.
        if made <= (sample.seed or 0 if sample.dropout is None else 0):
            sentences[sample] = sample.taken if corpus.count else None
    counts = sentences.values()
    return None if None in counts else sum(filter(None, counts))


SHOWN = 5  # of what is missing, in a terminal
UNKNOWN = "unknown"


def render_plan(plan: Plan, width: int | None = None) -> str:
    """The plan for people: what is here, what is missing, and what is left to do.

    In a terminal, which has a width, the first of what is missing are shown: `harness list assets`
    has all.
    """
    head = ("encoder", "cells", "weights", "cached", "to encode", "time")
    encoders = text_table([_row(e) for e in plan.encoders if not e.missing], head, width)
    data = [(name, kind, _size(name)) for name, kind in plan.data.items()]
    measured = sum(encoder.measured for encoder in plan.encoders)
    already = f", {measured} of them are measured already" if measured else ""
    notes = [
        f"{plan.runnable} of {plan.cells} cells can run here{already}; {_work_left(plan)} "
        f"The cache takes {sized(plan.cache_bytes)} (harness cache ls).",
        *(f"Note: {encoder.note}." for encoder in plan.encoders if encoder.note),
    ]
    if plan.missing:
        missing = [f"  {line}" for line in plan.missing.values()]
        if width is not None and len(missing) > SHOWN:
            missing[SHOWN:] = [f"  and {len(missing) - SHOWN} more: harness list assets"]
        notes += ["", "asset missing:", *missing]
    tables = (encoders, "", text_table(data, ("data", "lie in", "size"), width), "")
    return "\n".join((*tables, *(wrapped(line, width) for line in notes)))


def _row(encoder: EncoderPlan) -> tuple[str, ...]:
    return (
        encoder.name,
        str(encoder.cells),
        "to be trained" if encoder.to_train else encoder.where,
        f"{encoder.cached:,} of {encoder.sentences:,}",
        UNKNOWN if encoder.to_encode is None else f"{encoder.to_encode:,}",
        UNKNOWN if encoder.seconds is None else duration(encoder.seconds),
    )


def _size(asset: str) -> str:
    size = asset_named(asset).size
    return sized(size) if size else ""


def _work_left(plan: Plan) -> str:
    """The time to encode, as far as it is known, and how much else there is to do."""
    timed = sum(encoder.seconds or 0.0 for encoder in plan.encoders)
    unknown = [encoder.name for encoder in plan.encoders if encoder.seconds is None]
    times = [f"about {duration(timed)}"] if timed or not unknown else []
    if unknown:
        times.append(f"an unknown time for {', '.join(unknown)}")
    counts = {
        "training": sum(encoder.to_train for encoder in plan.encoders),
        "fit": sum(encoder.fits for encoder in plan.encoders),
        "scoring": sum(encoder.scorings for encoder in plan.encoders),
    }
    others = [f"{n:,} {what}{'s' * (n > 1)}" for what, n in counts.items() if n]
    not_timed = f"; not timed are {', '.join(others)}" if others else ""
    return f"encoding takes {' and '.join(times)}{not_timed}."
