"""The search for the protocol of a row: which choices give all its numbers at once.

A row is numbers of one source: the columns of a published row, a reader's, or those of a
model's card. A search is a run of neighbouring cells (`harness.evaluation.neighbours`):
they have the ids, the cache, the records and the failures of `harness run`. Its records
are in a results folder of the cache, so that a search that was killed goes on.

One choice is changed before two are. A protocol is found only if its scores have the
digits of every number, and if chance does not explain that: where many protocols are
tried, some give a single number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod
from typing import Any

from harness.conclusions.found_protocols import Choice, Finding, RowSearch
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig
from harness.core.terminal import counted, duration
from harness.core.types import Method, Task
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.embeddings import CachedEncoder
from harness.evaluation.fits import FitCorpusSample, needs_pass
from harness.evaluation.neighbours import (
    Choices,
    choices_of,
    encoded_pairs,
    pairs_of_choices,
    prompts_of_mteb,
)
from harness.evaluation.protocol import Model, Protocol, Target
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell, planned_cells, run_order
from harness.registry import Registry
from harness.results.store import Store
from harness.results.verdict import TOLERANCES, CellState
from harness.transforms.pooling import statistics_of

SEARCHES = "searches"  # the results folder of searches, in the cache

# Points by which a score may miss the digits of a number. Runs of one model years apart
# differ by 4e-5; a number with two decimals is known to 0.005 alone.
DIGITS = 5e-4
# With so many tasks, a protocol that misses one of their numbers is remembered: that one
# may be a misprint.
TASKS_OF_MISPRINTS = 4
NEIGHBOURHOOD = 1.0  # points on each side of a number in which tried scores are counted

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


# A row


def search_row(
    search: Search,
    targets: Sequence[Target],
    *,
    stated: Protocol | None = None,
    choices: Sequence[Choice] | None = None,
) -> RowSearch:
    """Look for the protocols that give all numbers of a row.

    What is cached is measured first: the stated protocol, then those with one other choice,
    then those with two. If none of them gives the numbers, texts are encoded for single
    choices that read something else, and then for some pairs of choices.

    Args:
        search: The model, and what was measured of it.
        targets: The numbers, each with a column of its own.
        stated: The protocol as it is stated; None for the model as it is.
        choices: What else may have been chosen; None for every other value of every
            setting.

    Raises:
        UsageError: There is no number, or the method is fitted with random numbers, so that
            another seed gives other digits.
        AssetMissing: The encoder is not on this machine.
    """
    method = search.model.method
    if not targets:
        raise UsageError(
            "wanted numbers that a task here measures by a correlation, found none; name "
            "other columns"
        )
    if method.seeded:
        raise UsageError(
            f"{method.id}: wanted a method without random numbers, whose digits a search can "
            "find; leave its post-processors out"
        )
    are_all = choices is None
    row = _Row(search, targets, stated or Protocol(search.model), is_told=are_all)
    if choices is None:
        choices = search.choices(targets, search.depth())
    # To open the cache of another maximum length takes seconds.
    lengths = [(each,) for each in choices if each.setting == "max_length"]
    singles = [(each,) for each in choices if each.setting != "max_length"]
    found = row.from_cache([(), *singles], "one other choice")
    if found is None and lengths:
        found = row.from_cache(lengths, "another maximum length")
    if found is not None:
        return found
    encoded = [(each,) for each in choices if (each,) in row.uncached]
    cached = [each for each in choices if (each,) not in row.uncached]
    by_chance = row.from_cache([*pairs_of_choices(cached)], "two other choices")
    if by_chance is not None and by_chance.is_found:
        return by_chance
    likely = [each for each in search.likely if each in encoded]
    stages: list[Iterable[Choices]] = [[*likely, *encoded]]
    if search.model.modules is not None and are_all:
        stages.append(encoded_pairs(search.model, choices))
        prompts = prompts_of_mteb(search.model, search.loader.places)
        stages.append((each,) for each in prompts)
    for stage in stages:
        found = row.encoding([*stage])
        if found is not None and found.is_found:
            search.likely.insert(0, found.given[0].choices)
            return found
        by_chance = by_chance or found
    return by_chance or row.result()


@dataclass
class _Candidate:
    """A protocol that is compared with a row, and what was measured of it so far."""

    choices: Choices
    protocol: Protocol
    scores: dict[str, float] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)


class _Row:
    """The numbers of a row, and what was compared with them so far.

    Attributes:
        search: The model, and what was measured of it.
        stated: The protocol as it is stated.
        is_told: Whether it is said how many protocols the cache answers.
        targets: The numbers, those of the smallest task first.
        by_task: The numbers of each task.
        states: The states in which a score gives a number.
        nearly: Protocols that give all but one of the numbers.
        first_scores: The scores that the first number was compared with, by the number
            of choices.
        uncached: The choices that were not compared, since texts have to be encoded.
        encodings: How many encodings were made.
    """

    def __init__(
        self,
        search: Search,
        targets: Sequence[Target],
        stated: Protocol,
        *,
        is_told: bool,
    ) -> None:
        self.search, self.stated, self.is_told = search, stated, is_told
        texts = search.loader.texts
        # The smallest task first, which most protocols miss already.
        in_order = sorted(
            targets, key=lambda each: (len(texts(each.task).pairs), each.is_fixed)
        )
        self.by_task: dict[Task, list[Target]] = {}
        for target in in_order:
            self.by_task.setdefault(target.task, []).append(target)
        self.targets = in_order
        self.states = [CellState.EXACT]
        # A single task is matched by chance.
        if len(self.by_task) > 1:
            self.states.append(CellState.MATCH)
        self.uncached: list[Choices] = []
        self.encodings = 0
        self.nearly: list[Finding] = []
        self.first_scores: dict[int, list[float]] = {0: [], 1: [], 2: []}

    # Stages

    def from_cache(self, candidates: Sequence[Choices], what: str) -> RowSearch | None:
        """Compare the candidates for which nothing is encoded; the others stay in `uncached`."""
        cached: list[Choices] = []
        for choices in candidates:
            missing = self._lacks(choices)
            if missing is None:
                continue
            (self.uncached if missing else cached).append(choices)
        if self.is_told:
            protocols = counted(len(cached), "protocol")
            self.search.note(f"{protocols} with {what}, from the cache")
        return self._compared(cached)

    def encoding(self, candidates: Sequence[Choices]) -> RowSearch | None:
        """Compare candidates for which texts are encoded, until one gives the numbers."""
        first_task = self.targets[0].task
        groups: dict[Texts, list[Choices]] = {}
        for choices in dict.fromkeys(candidates):
            if self._lacks(choices) is not None:
                protocol = self._protocol(choices)
                key = self.search.texts_of(protocol, first_task)
                groups.setdefault(key, []).append(choices)
        self._announce(groups.values())
        by_chance: RowSearch | None = None
        for group in groups.values():
            if any(self._lacks(choices) for choices in group):
                if self.encodings == self.search.most_encodings:
                    self.uncached += [
                        each for each in group if each not in self.uncached
                    ]
                    continue
                self.encodings += 1
            self.uncached = [each for each in self.uncached if each not in group]
            found = self._compared(group)
            if found is not None and found.is_found:
                return found
            by_chance = by_chance or found
        return by_chance

    def _announce(self, groups: Iterable[Sequence[Choices]]) -> None:
        """Say what is encoded at most, and how long that takes."""
        needed = [missing for each in groups if (missing := self._lacks(each[0]))]
        if self.search.most_encodings is not None:
            needed = needed[: self.search.most_encodings - self.encodings]
        if not needed:
            return
        search = self.search
        texts = sum(missing.texts for missing in needed)
        note = (
            f"a search of at most {counted(len(needed), 'encoding')} of "
            f"{self.targets[0].task.name} ({counted(texts, 'text')} that "
            f"{'is' if texts == 1 else 'are'} not cached)"
        )
        rate = search.encoder(search.model.method.encoder).cache.rate
        if rate is not None:
            seconds = sum(missing.characters for missing in needed) / rate
            note += f", about {duration(seconds)} if none gives the numbers"
        search.note(note)

    # Comparison

    def _protocol(self, choices: Choices) -> Protocol:
        return self.stated.changed(choices)

    def _lacks(self, choices: Choices) -> Missing | None:
        """What has to be encoded; None for a protocol that cannot be measured.

        Few protocols get beyond the second task.
        """
        protocol = self._protocol(choices)
        try:
            return max(
                (self.search.lacks(protocol, task) for task in [*self.by_task][:2]),
                key=bool,
            )
        except HarnessError:  # the model has no such setting, or data are elsewhere
            return None

    def _compared(self, candidates: Iterable[Choices]) -> RowSearch | None:
        """Measure candidates, a task after the other; the first group that gives all numbers."""
        allowed = 1 if len(self.by_task) >= TASKS_OF_MISPRINTS else 0
        left = [_Candidate(each, self._protocol(each)) for each in candidates]
        for task, targets in self.by_task.items():
            cells = []
            for candidate in left:
                with suppress(HarnessError):
                    other = candidate.protocol.task(task, self.search.registry)
                    cells.append((candidate.protocol.method(other), other))
            self.search.measure(cells)
            left = [
                candidate
                for candidate in left
                if self._has_scores(candidate, targets)
                and len(candidate.missed) <= allowed
            ]
        findings = [
            Finding(each.choices, each.scores, tuple(each.missed)) for each in left
        ]
        self.nearly += [finding for finding in findings if finding.missed]
        given = [finding for finding in findings if not finding.missed]
        for state in self.states:
            of_state = tuple(each for each in given if self._state(each) is state)
            if of_state:
                return self.result(of_state, state)
        return None

    def _has_scores(self, candidate: _Candidate, targets: Sequence[Target]) -> bool:
        """Whether a candidate has scores for numbers of a task, which are noted."""
        protocol = candidate.protocol
        try:
            scores = self.search.scores(protocol, targets[0].task)
        except HarnessError:
            return False
        for target in targets:
            score = target.score(scores, protocol)
            if score is None:
                return False
            if target is self.targets[0]:
                self.first_scores[len(candidate.choices)].append(score)
            candidate.scores[target.column] = score
            if _state_of(target, score) not in self._states_of(candidate.choices):
                candidate.missed.append(target.column)
        return True

    def _states_of(self, choices: Choices) -> list[CellState]:
        """The states that count: half precision moves digits, so that only these tell it."""
        is_half = any(choice.setting == "dtype" for choice in choices)
        return [CellState.EXACT] if is_half else self.states

    def _state(self, finding: Finding) -> CellState:
        """The worse of the states of all numbers."""
        states = {
            _state_of(target, finding.scores[target.column]) for target in self.targets
        }
        return CellState.EXACT if states == {CellState.EXACT} else CellState.MATCH

    # The answer

    def result(
        self, given: tuple[Finding, ...] = (), state: CellState | None = None
    ) -> RowSearch:
        """What the search has found so far."""
        most = max((len(each.choices) for each in given), default=2)
        tried = [
            score
            for count, scores in self.first_scores.items()
            if count <= most
            for score in scores
        ]
        return RowSearch(
            columns=len(self.targets),
            tried=len(tried),
            by_chance=self._expected_by_chance(tried, state),
            given=given,
            state=state,
            nearly=tuple(self.nearly),
            left_out=len(self.uncached),
            encodings=self.encodings,
        )

    def _expected_by_chance(
        self, tried: Sequence[float], state: CellState | None
    ) -> float:
        """How many protocols would give all numbers by chance.

        It is the number of different scores, times the share of their range that gives a
        number, for each task: the scores of all tasks are taken to spread as those of the
        first, and those of a task to move together. Around the first number more scores
        may lie than elsewhere: of those within a point that lack its digits, the share is
        taken that would have them.
        """
        distinct = {round(score, 6) for score in tried}
        spread = max(distinct, default=0.0) - min(distinct, default=0.0)
        if not spread:
            return float(len(distinct))
        shares = []
        for targets in self.by_task.values():
            windows = [_reach(each, state) for each in targets if not each.is_fixed]
            if windows:
                shares.append(min(1.0, 2 * min(windows) / spread))
        first = self.targets[0]
        reach = _reach(first, state)
        near = [
            score
            for score in distinct
            if reach < _distance(first, score) <= NEIGHBOURHOOD
        ]
        nearby = len(near) * min(1.0, reach / NEIGHBOURHOOD)
        return max(len(distinct) * prod(shares), nearby * prod(shares[1:]))


def _distance(target: Target, score: float) -> float:
    """The points between a score and the nearest reading of a number."""
    return min(abs(round(score - reading.points, 9)) for reading in target.readings)


def _reach(target: Target, state: CellState | None) -> float:
    """The points within which a score has the digits of a number, or matches it."""
    tolerance = DIGITS
    if state is CellState.MATCH:
        tolerance = TOLERANCES.match
    elif target.is_fixed:
        tolerance = TOLERANCES.exact
    return max(tolerance, *(reading.half_unit for reading in target.readings))


def _state_of(target: Target, score: float) -> CellState | None:
    """`exact` or `match`; None for a score that does not give the number."""
    for state in (CellState.EXACT, CellState.MATCH):
        if _distance(target, score) <= _reach(target, state):
            return state
    return None
