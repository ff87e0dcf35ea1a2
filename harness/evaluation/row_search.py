"""The search for the protocol of a row: which choices give all its numbers at once.

A `Protocol` is a method, a form of the data and a score, `choices_of` lists what else each
of its settings may have been, and `search_row` measures the protocols that differ in one
setting, then those that differ in two. A protocol is found only if its scores have the
digits of every column. A single number is hit by chance where many protocols are tried,
so that the expected number of such hits decides whether one is told as found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from math import prod
from typing import Any

from harness.conclusions.found_protocols import Choice, Finding, RowSearch
from harness.core.environment import one_blas_thread
from harness.core.errors import HarnessError, UsageError
from harness.core.interfaces import EncoderConfig, Pooling, PostProcessor
from harness.core.metrics.correlation import (
    CORRELATIONS,
    COSINE,
    SIMILARITIES,
    score_name,
)
from harness.core.terminal import counted
from harness.core.types import AGGREGATIONS, Method, Progress, Task, score_at
from harness.data.tasks.loader import TARGETS, CellTexts, TaskLoader
from harness.evaluation.cell import measure
from harness.evaluation.embeddings import CachedEncoder
from harness.evaluation.fits import FitCorpusSample, fitted_transforms, needs_pass
from harness.registry import Registry
from harness.results.verdict import (
    TOLERANCES,
    CellState,
    Measured,
    Published,
    Tolerances,
    verdict,
)
from harness.transforms.pooling import (
    CLS,
    LAYER,
    MIX,
    ON_REQUEST,
    POOLINGS,
    statistics_of,
)

LENGTHS = (25, 32, 64, 128, 256, 512)  # in tokens, of papers and programs
DIMENSIONS = (64, 128, 256, 384, 512)  # that whitening keeps in papers
# With so many columns, a protocol that misses one of them is remembered: that one may be a
# misprint.
COLUMNS_OF_MISPRINTS = 4


@dataclass(frozen=True)
class Target:
    """A number that a protocol has to give.

    Attributes:
        column: Its name in the answer.
        task: The task that it is stated for.
        similarity: The similarity function of its protocol as it is stated.
        correlation: The correlation.
        aggregation: The aggregation.
        number: The number in points, with its digits.
    """

    column: str
    task: Task
    similarity: str
    correlation: str
    aggregation: str
    number: Published


@dataclass(frozen=True)
class Protocol:
    """How a row may have been measured. An empty text stands for what each column states.

    Attributes:
        encoder: The encoder, with its maximum length.
        pooling: The pooling.
        post: The post-processors.
        fit_on: Their fit corpus; without post-processors it is not read.
        form: What follows the data set in the names of tasks: `senteval`, `dev`.
        similarity: The similarity function.
        correlation: The correlation.
        aggregation: The aggregation.
    """

    encoder: EncoderConfig
    pooling: Pooling
    post: tuple[PostProcessor, ...] = ()
    fit_on: str | None = None
    form: str | None = None
    similarity: str = ""
    correlation: str = ""
    aggregation: str = ""

    @property
    def method(self) -> Method:
        """Its method."""
        fit_on = self.fit_on if self.post else None
        return Method(self.encoder, self.pooling, self.post, fit_on)


Choices = tuple[Choice, ...]


# Choices


def choices_of(
    protocol: Protocol, targets: Sequence[Target], depth: int, registry: Registry
) -> Iterator[Choice]:
    """Every other value of every setting of a protocol.

    Args:
        protocol: The protocol that is stated.
        targets: The numbers; their data sets tell the other forms.
        depth: The last layer of the encoder.
        registry: The tasks and post-processors.
    """
    for pooling in _poolings(depth):
        if pooling != protocol.pooling:
            words = f"pooling {pooling.name} instead of {protocol.pooling.name}"
            yield Choice("pooling", pooling, words)
    if hasattr(protocol.encoder, "max_length"):
        for length in LENGTHS:
            encoder = protocol.encoder.with_max_length(length)
            if encoder.name != protocol.encoder.name:
                yield Choice("encoder", encoder, f"max length {length}")
    if protocol.post:
        yield from _choices_of_post(protocol, registry)
    for form in _forms(targets, registry):
        name = f"the tasks of the form .{form}" if form else "the tasks without a form"
        yield Choice("form", form, name)
    stated = {
        setting: {getattr(target, setting) for target in targets}
        for setting in ("similarity", "correlation", "aggregation")
    }
    for setting, values in (
        ("similarity", (COSINE, *SIMILARITIES)),
        ("correlation", CORRELATIONS),
        ("aggregation", AGGREGATIONS),
    ):
        for value in values:
            if {value} != stated[setting]:
                yield Choice(setting, value, f"{setting} {value}")


def _poolings(depth: int) -> list[Pooling]:
    """The poolings that are tried, each once: means, maxima and [CLS] of layers and mixtures."""
    single: list[Any] = [LAYER, CLS]
    of_layers = [
        pooling.with_argument(str(layer))
        for pooling in single
        for layer in range(depth)
    ]
    poolings: list[Pooling] = [*POOLINGS, MIX, *of_layers, *ON_REQUEST]
    distinct: dict[Any, Pooling] = {}
    for pooling in poolings:
        # `layer:11` is `second-last` in an encoder of 12 layers.
        layers: Any = getattr(pooling, "layers", None) or (
            getattr(pooling, "layer", ""),
        )
        numbers = [n + depth + 1 if isinstance(n, int) and n < 0 else n for n in layers]
        is_plain = bool(getattr(pooling, "layers", None)) or "cls" in pooling.name
        kind = (
            (statistics_of(pooling), *numbers)
            if is_plain and numbers != [""]
            else pooling
        )
        distinct.setdefault(kind, pooling)
    return list(distinct.values())


def _choices_of_post(protocol: Protocol, registry: Registry) -> Iterator[Choice]:
    """No post-processors, their other orders, other dimensions of whitening, other corpora."""
    yield Choice("post", (), "no post-processing")
    for order in permutations(protocol.post):
        if order != protocol.post:
            yield Choice("post", order, f"the order {'+'.join(p.name for p in order)}")
    names = [post.name for post in protocol.post]
    if names[-1].partition(":")[0] == "whitening":
        for name in ("whitening", *(f"whitening:{k}" for k in DIMENSIONS)):
            if name != names[-1]:
                post = (*protocol.post[:-1], *registry.parse_posts(name))
                yield Choice("post", post, f"{name} instead of {names[-1]}")
    for corpus in TARGETS:
        if corpus != protocol.fit_on:
            yield Choice("fit_on", corpus, f"the fit on {corpus}")


def _forms(targets: Sequence[Target], registry: Registry) -> list[str]:
    """The forms in which the data sets of the targets exist, without those that are stated."""
    data_sets = {target.task.name.partition(".")[0] for target in targets}
    stated = {target.task.name.partition(".")[2] for target in targets}
    forms = {
        name.partition(".")[2]
        for name, task in registry.tasks.items()
        if name.partition(".")[0] in data_sets and task.metric == "correlation"
    }
    return sorted(forms - stated)


def changed(protocol: Protocol, choices: Iterable[Choice]) -> Protocol:
    """The protocol with choices, each of another setting."""
    return replace(protocol, **{choice.setting: choice.value for choice in choices})


def pairs_of_choices(choices: Sequence[Choice]) -> Iterator[Choices]:
    """Two choices of different settings; single layers are not combined with anything."""
    singles = (":", "mean-without")
    few = [
        choice
        for choice in choices
        if choice.setting != "pooling"
        or not any(word in choice.value.name for word in singles)
        or choice.value.name == "layer:0"
    ]
    for first, second in combinations(few, 2):
        if first.setting != second.setting:
            yield first, second


# Measurement


@dataclass
class RowScores:
    """The scores of methods on tasks, with what was measured so far.

    Attributes:
        loader: Reads the tasks.
        registry: The tasks by name.
        progress: Counts what is encoded.
        encoders: The encoders that were opened, by name.
        measured: The scores as a record has them, by method and task; None where they
            cannot be measured.
        cached: Whether all sentences of a method's cell are encoded, by what it reads.
    """

    loader: TaskLoader
    registry: Registry
    progress: Progress = field(default_factory=Progress)
    encoders: dict[str, CachedEncoder] = field(default_factory=dict)
    measured: dict[tuple[str, str], Mapping[str, Any] | None] = field(
        default_factory=dict
    )
    cached: dict[tuple[Any, ...], bool] = field(default_factory=dict)

    def task(self, target: Target, protocol: Protocol) -> Task:
        """The task of a target under a protocol, whose form its data set may not have."""
        if protocol.form is None:
            return target.task
        name = target.task.name.partition(".")[0]
        name = f"{name}.{protocol.form}" if protocol.form else name
        task = self.registry.tasks.get(name, target.task)
        return task if task.metric == target.task.metric else target.task

    def encoder(self, config: EncoderConfig) -> CachedEncoder:
        """An encoder with its cache, opened once."""
        if config.name not in self.encoders:
            self.encoders[config.name] = CachedEncoder.open(config, self.loader.places)
        return self.encoders[config.name]

    def depth(self, config: EncoderConfig) -> int:
        """The last layer of an encoder, which is loaded only if nothing of it is cached."""
        encoder = self.encoder(config)
        return encoder.cache.depth if encoder.cache.shards else encoder.probe.depth

    def is_cached(self, method: Method, task: Task) -> bool:
        """Whether nothing has to be encoded for a cell."""
        statistics = statistics_of(method.pooling)
        texts = self.loader.texts(task, method.fit_on)
        encoder = self.encoder(method.encoder)
        key = (method.encoder.name, statistics, task.name, method.fit_on)
        if key not in self.cached:
            self.cached[key] = not encoder.cache.missing(texts.sentences, statistics)
        if not self.cached[key] or texts.fit_corpus is None:
            return self.cached[key]
        if not needs_pass(method, texts.fit_corpus):
            return True
        sample = FitCorpusSample.of(method, 0, texts.fit_corpus)
        return sample.file(encoder.folder, encoder.identity.key, method).exists()

    def scores(self, method: Method, task: Task) -> Mapping[str, Any] | None:
        """The scores of a cell as a record has them; None where it cannot be measured."""
        key = (method.id, task.name)
        if key not in self.measured:
            try:
                with one_blas_thread():
                    texts = self.loader.texts(task, method.fit_on)
                    self.measured[key] = self._measure(method, task, texts)
            except (
                HarnessError
            ):  # the encoder has no such pooling, or data are elsewhere
                self.measured[key] = None
        return self.measured[key]

    def _measure(
        self, method: Method, task: Task, texts: CellTexts
    ) -> Mapping[str, Any]:
        encoder = self.encoder(method.encoder)
        sentences = sorted(texts.sentences)
        statistics = statistics_of(method.pooling)
        missing = encoder.cache.missing(sentences, statistics)
        if missing:
            name = f"{task.name}, {method.encoder.name}.{method.pooling.name}"
            self.progress.phase(f"{name}: encoding tokens", encoder.tokens(missing))
            for count in encoder.encode(missing, statistics):
                self.progress.step(count)
        pooled = encoder.pooled(method.pooling, sentences)
        fitted = fitted_transforms(method, 0, texts.fit_corpus, encoder, pooled)
        return measure(task, texts.pairs, pooled, fitted.transforms).scores

    def score(self, target: Target, protocol: Protocol) -> float | None:
        """The score of a protocol for a target, in points; None where there is none."""
        scores = self.scores(protocol.method, self.task(target, protocol))
        if scores is None:
            return None
        name = score_name(
            protocol.similarity or target.similarity,
            protocol.correlation or target.correlation,
        )
        return score_at(scores, (name, protocol.aggregation or target.aggregation))

    def needs_encoding(self, target: Target, protocol: Protocol) -> bool:
        """Whether sentences have to be encoded first; False where it cannot be measured."""
        try:
            return not self.is_cached(protocol.method, self.task(target, protocol))
        except HarnessError:
            return False


# The search


def search_row(
    method: Method,
    targets: Sequence[Target],
    scores: RowScores,
    *,
    most_encodings: int | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> RowSearch:
    """Look for the protocols that give all numbers of a row.

    What is cached is measured first: the stated protocol, then those with one other choice,
    then those with two. Only if none of them gives the numbers, the texts are encoded for
    single choices that read something else.

    Args:
        method: The method as it is stated.
        targets: The numbers.
        scores: Measures, and keeps what was measured.
        most_encodings: How many protocols are encoded for at most; None for no limit.
        note: Is called with a sentence on what is going to be measured.

    Raises:
        UsageError: There is no number, or the method is fitted with random numbers, so that
            another seed gives other digits.
        AssetMissing: The encoder is not on this machine.
    """
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
    stated = Protocol(method.encoder, method.pooling, method.post, method.fit_on)
    # The smallest task first, which most protocols miss already.
    targets = sorted(
        targets, key=lambda each: len(scores.loader.texts(each.task).pairs)
    )
    depth = scores.depth(method.encoder)
    choices = list(choices_of(stated, targets, depth, scores.registry))
    first_scores: list[float] = []
    nearly: list[Finding] = []

    def needs_encoding(each: Choices) -> bool:
        # Few protocols get beyond the second number.
        protocol = changed(stated, each)
        return any(scores.needs_encoding(target, protocol) for target in targets[:2])

    uncached: list[Choices] = []

    def searched(candidates: Sequence[Choices], what: str) -> RowSearch | None:
        cached: list[Choices] = []
        for each in candidates:
            (uncached if needs_encoding(each) else cached).append(each)
        note(f"{counted(len(cached), 'protocol')} with {what}, from the cache")
        return compared(cached)

    def compared(candidates: Iterable[Choices]) -> RowSearch | None:
        findings = []
        for each in candidates:
            protocol = changed(stated, each)
            finding = _finding(protocol, each, targets, scores, first_scores)
            if finding is not None:
                findings.append(finding)
        nearly.extend(finding for finding in findings if finding.missed)
        given = [finding for finding in findings if not finding.missed]
        for state in (CellState.EXACT, CellState.MATCH):
            of_state = [each for each in given if _state(each, targets) is state]
            if of_state:
                return result(tuple(of_state), state)
        return None

    def result(
        given: tuple[Finding, ...] = (), state: CellState | None = None
    ) -> RowSearch:
        return RowSearch(
            columns=len(targets),
            tried=len(first_scores),
            by_chance=_expected_by_chance(targets, first_scores, state),
            given=given,
            state=state,
            nearly=tuple(nearly),
            left_out=len(uncached),
        )

    # To open the cache of another maximum length takes seconds.
    other_length = [(each,) for each in choices if each.setting == "encoder"]
    same_length = [(each,) for each in choices if each.setting != "encoder"]
    found = searched([(), *same_length], "one other choice")
    if found is None and other_length:
        found = searched(other_length, "another maximum length")
    single = list(uncached)
    if found is None:
        cached = [each for each in choices if (each,) not in single]
        found = searched([*pairs_of_choices(cached)], "two other choices")
    if found is None and single and most_encodings != 0:
        encoded = single[:most_encodings]
        note(f"{counted(len(encoded), 'protocol')} whose texts are encoded")
        found = compared(encoded)
        del uncached[: len(encoded)]
    return found or result()


def _finding(
    protocol: Protocol,
    choices: Choices,
    targets: Sequence[Target],
    scores: RowScores,
    first_scores: list[float],
) -> Finding | None:
    """A protocol that gives all numbers, or all but one of many; None for any other.

    The score of the first target is added to `first_scores`.
    """
    allowed = 1 if len(targets) >= COLUMNS_OF_MISPRINTS else 0
    missed: list[str] = []
    by_column: dict[str, float] = {}
    for target in targets:
        score = scores.score(target, protocol)
        if score is None:
            return None
        if target is targets[0]:
            first_scores.append(score)
        by_column[target.column] = score
        if _state_of(target, score) is None:
            missed.append(target.column)
        if len(missed) > allowed:
            return None
    return Finding(choices, by_column, tuple(missed))


def _state_of(target: Target, score: float) -> CellState | None:
    """`exact` or `match`; None for a score that does not give the number."""
    # The digits alone count, and not a deviation over seeds.
    state = verdict(Published(target.number.value), Measured((score,))).state
    return state if state in (CellState.EXACT, CellState.MATCH) else None


def _state(finding: Finding, targets: Sequence[Target]) -> CellState:
    """The worse of the states of all numbers."""
    states = {_state_of(target, finding.scores[target.column]) for target in targets}
    return CellState.EXACT if states == {CellState.EXACT} else CellState.MATCH


def _expected_by_chance(
    targets: Sequence[Target],
    first_scores: Sequence[float],
    state: CellState | None,
    tolerances: Tolerances = TOLERANCES,
) -> float:
    """How many protocols would give all numbers if their scores were spread evenly.

    The number of protocols, times the share of the range of their scores that gives a
    number, for each number. The scores of all tasks are taken to spread as those of the
    first.
    """
    spread = max(first_scores, default=0.0) - min(first_scores, default=0.0)
    if not spread:
        return float(len(first_scores))
    floor = tolerances.match if state is CellState.MATCH else 0.0
    windows = (2 * max(target.number.reach, floor) for target in targets)
    return len(first_scores) * prod(min(1.0, window / spread) for window in windows)
