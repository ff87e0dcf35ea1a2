"""A search: a run of the cells that neighbour a model's, and what they need encoded.

Cells of a search (`harness.evaluation.neighbours`) have the ids, the cache, the records and
the failures of `harness run`. Its records are in a results folder of the cache, so that a
search that was killed goes on. `harness.evaluation.row_search` looks for the protocol of a
row among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from harness.conclusions.found_protocols import Choice
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig
from harness.core.types import Method, Task
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.embeddings import CachedEncoder
from harness.evaluation.fits import FitCorpusSample, needs_pass
from harness.evaluation.neighbours import Choices, choices_of
from harness.evaluation.protocol import Model, Protocol, Target
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell, planned_cells, run_order
from harness.registry import Registry
from harness.results.store import Store
from harness.transforms.pooling import statistics_of

SEARCHES = "searches"  # the results folder of searches, in the cache

# What is encoded for a cell: its encoder, statistics, task and fit corpus.
Texts = tuple[Any, ...]


@dataclass(frozen=True)
class Missing:
    """The texts that have to be encoded for a cell."""

    texts: int = 0
    characters: int = 0
    has_pass: bool = False  # over a fit corpus

    def __bool__(self) -> bool:
        return self.texts > 0 or self.has_pass


@dataclass
class Search:
    """Measures neighbouring cells of a model, and searches among them.

    Attributes:
        model: The model as it is stated.
        context: What the cells of a run share.
        registry: The tasks and post-processors.
        most_encodings: How many encodings are made for a row at most; what the cache has
            does not count. None for no limit.
        note: Is called with a sentence on what is going to be measured.
        records: The scores as a record has them, by method and task; an error where they
            cannot be measured.
        opened: The encoders that were opened; those under two prompts have one name.
        missing: What has to be encoded, by the texts of a cell.
        shards: How many shards the cache of an encoder had when it was looked at last.
        likely: The choices that explained earlier rows, which are encoded for first.
    """

    model: Model
    context: RunContext
    registry: Registry
    most_encodings: int | None = None
    note: Callable[[str], None] = field(default=lambda _: None)
    records: dict[tuple[str, str], Mapping[str, Any] | HarnessError] = field(
        default_factory=dict
    )
    opened: dict[EncoderConfig, CachedEncoder] = field(default_factory=dict)
    missing: dict[Texts, Missing] = field(default_factory=dict)
    shards: dict[EncoderConfig, int] = field(default_factory=dict)
    likely: list[Choices] = field(default_factory=list)

    @classmethod
    def of(
        cls, method: Method, places: Places, registry: Registry, **options: Any
    ) -> Search:
        """The search of a method, whose records are in the cache. Raises AssetMissing."""
        loader = TaskLoader(places, registry.corpora)
        store = Store(places.cache / SEARCHES)
        context = RunContext(loader, store, min_coverage=0.0)
        return cls(Model.of(method, places), context, registry, **options)

    @property
    def loader(self) -> TaskLoader:
        """Reads the texts."""
        return self.context.loader

    def choices(self, targets: Sequence[Target], depth: int) -> list[Choice]:
        """What else may have been chosen, of poolings up to a layer."""
        return [*choices_of(self.model, targets, self.loader, self.registry, depth)]

    # Measurement

    def encoder(self, config: EncoderConfig) -> CachedEncoder:
        """An encoder with its cache, opened once, and without its weights.

        Raises AssetMissing if its files are not here.
        """
        if config not in self.opened:
            places, name = self.loader.places, base_name(config.name)
            stated = self.model.method.encoder.member(0)
            if name != base_name(stated.name):
                # Another setting of the model's own files has a name of its own.
                files = {name: places.encoder(stated)}
                encoders = {**places.encoders, **files}
                self.loader.places = replace(places, encoders=encoders)
            encoder = CachedEncoder.open(config, self.loader.places)
            self.opened[config] = encoder
            self.shards[config] = len(encoder.cache.shards)
        return self.opened[config]

    def depth(self) -> int:
        """The last layer of the model's transformer; 0 for an encoder without layers.

        An encoder is loaded only if nothing of it is cached.
        """
        encoder = self.encoder(self.model.transformer or self.model.method.encoder)
        return encoder.cache.depth if encoder.cache.shards else encoder.probe.depth

    def measure(self, cells: Iterable[tuple[Method, Task]]) -> None:
        """Measure the cells that were not, one encoder after the other, as a run does."""
        planned: dict[tuple[str, str], PlannedCell] = {}
        for method, task in cells:
            key = (method.id, task.name)
            if key not in self.records:
                try:
                    [planned[key]] = planned_cells([method], [task], seeds=1)
                except UsageError as error:
                    self.records[key] = error
        in_order = sorted(planned.values(), key=run_order)
        for encoder, group in groupby(in_order, lambda cell: cell.encoder):
            of_encoder = [*group]
            with suppress(HarnessError):  # which is the outcome of its cells
                self._use(self.encoder(encoder))
            for outcome in execute(of_encoder, self.context):
                result: Mapping[str, Any] | HarnessError = HarnessError(outcome.message)
                if outcome.record is not None:
                    result = outcome.record.scores
                elif outcome.status == "asset missing":
                    result = AssetMissing(outcome.message, outcome.remedy)
                self.records[outcome.cell.method, outcome.cell.task] = result
            self._forget_what_was_missing(encoder)

    def _use(self, encoder: CachedEncoder) -> None:
        """Make an encoder the one of the run, which alone has its weights in memory."""
        last = self.context.last_encoder
        if last is None or last.config != encoder.config:
            self.context.last_encoder = replace(encoder)

    def _forget_what_was_missing(self, config: EncoderConfig) -> None:
        """After an encoder has encoded, other maximum lengths of it may lack less."""
        encoder = self.opened.get(config)
        if encoder is None or len(encoder.cache.shards) == self.shards.get(config):
            return
        self.shards[config] = len(encoder.cache.shards)
        self.missing.clear()
        shared_key = encoder.identity.shared_key
        for other in [*self.opened.values()]:
            is_other_length = shared_key and other.identity.shared_key == shared_key
            if is_other_length and other is not encoder:
                del self.opened[other.config]

    def scores(self, protocol: Protocol, stated: Task) -> Mapping[str, Any]:
        """The scores of a protocol on a task as a record has them.

        Args:
            protocol: The protocol.
            stated: The task as it is stated, which the protocol may have another form of.

        Raises:
            AssetMissing: The model or the data set is not on this machine.
            UsageError: The model does not have a setting of the protocol.
            HarnessError: It cannot be measured.
        """
        task = protocol.task(stated, self.registry)
        method = protocol.method(task)
        self.measure([(method, task)])
        scores = self.records[method.id, task.name]
        if isinstance(scores, HarnessError):
            raise scores
        return scores

    # What has to be encoded

    def texts_of(self, protocol: Protocol, stated: Task) -> Texts:
        """The encoder and the texts of a cell: cells that share them are encoded in one pass.

        Raises UsageError for what the model does not have.
        """
        task = protocol.task(stated, self.registry)
        method = protocol.method(task)
        statistics = statistics_of(method.pooling)
        return method.encoder, statistics, task.name, method.fit_on

    def lacks(self, protocol: Protocol, stated: Task) -> Missing:
        """What has to be encoded for a protocol on a task.

        Raises:
            AssetMissing: The model or the data set is not on this machine.
            UsageError: The model does not have a setting of the protocol.
        """
        task = protocol.task(stated, self.registry)
        method = protocol.method(task)
        encoder = self.encoder(method.encoder)
        texts = self.loader.texts(task, method.fit_on)
        key = self.texts_of(protocol, stated)
        if key not in self.missing:
            statistics = statistics_of(method.pooling)
            missing = encoder.cache.missing(texts.sentences, statistics)
            self.missing[key] = Missing(len(missing), sum(map(len, missing)))
        if texts.fit_corpus is None or not needs_pass(method, texts.fit_corpus):
            return self.missing[key]
        sample = FitCorpusSample.of(method, 0, texts.fit_corpus)
        file = sample.file(encoder.folder, encoder.identity.key, method)
        return replace(self.missing[key], has_pass=not file.exists())
