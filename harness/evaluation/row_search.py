"""The search for the protocol of a row: which choices give all its numbers at once.

A row is numbers of one source: the columns of a published row, a reader's, or those of a
model's card. One choice is changed before two are. A protocol is found only if its scores
have the digits of every number, and if chance does not explain that: where many protocols
are tried, some give a single number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod

from harness.conclusions.found_protocols import Choice, Finding, RowSearch
from harness.core.errors import HarnessError, UsageError
from harness.core.terminal import counted, duration
from harness.core.types import Task
from harness.evaluation.neighbours import (
    Choices,
    encoded_pairs,
    pairs_of_choices,
    prompts_of_mteb,
)
from harness.evaluation.protocol import Protocol, Target
from harness.evaluation.search import Missing, Search, Texts
from harness.results.verdict import TOLERANCES, CellState

# Points by which a score may miss the digits of a number. Runs of one model years apart
# differ by 4e-5; a number with two decimals is known to 0.005 alone.
DIGITS = 5e-4
# With so many tasks, a protocol that misses one of their numbers is remembered: that one
# may be a misprint.
TASKS_OF_MISPRINTS = 4
SCALE = 100.0  # points: the range of scores, where all that were tried are equal
NEIGHBOURHOOD = 1.0  # points on each side of a number in which tried scores are counted


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
    # What was tried since counts, too.
    return row.result(by_chance.given, by_chance.state) if by_chance else row.result()


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
        # The stated protocol is compared together with those of one choice.
        most = max((len(each.choices) or 1 for each in given), default=2)
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
            spread = SCALE
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
