"""The search for what a number may have meant: the choices that give its digits.

`Explainer.search` looks among other scores of the same vectors, other pairs of the data
set, and variants of the encoding, the cheapest and likeliest first. A number with few
digits is hit by chance where many scores are tried, and its explanation says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from harness.core.errors import HarnessError
from harness.core.hardware import FLOAT32, HALVES
from harness.core.metrics.correlation import (
    CORRELATIONS,
    COSINE,
    SIMILARITIES,
    score_name,
)
from harness.core.terminal import duration
from harness.core.types import AGGREGATIONS, Task, score_at
from harness.encoders.native import NativeConfig
from harness.evaluation.variants import AS_IT_IS, Reading, Variant, VariantScores
from harness.registry import Registry
from harness.results.card_numbers import (
    BEST_SIMILARITY,
    SAME_DIGITS,
    CardNumber,
    FoundChoices,
)
from harness.transforms.pooling import MEAN, POOLINGS

# Points that the scores of two programs differ by in half precision, where the order of
# sums decides more than the last digits.
DIGITS_OF_HALVES = 0.03
# Points by which a score under other choices may miss the digits of a number. Runs of one
# model years apart differ by 4e-5; a number with two decimals is known to 0.005 alone.
DIGITS_OF_EXPLANATIONS = 5e-4
NEIGHBOURHOOD = 1.0  # points on each side of a number in which tried scores are counted
# If more tried scores than this are expected to have the digits by chance, the explanation
# says so.
LIKELY_CHANCE = 0.1

# Prompts of public models: E5's, which most models with prompts have, BGE's, and those of
# models that have one for each task.
KNOWN_PROMPTS = (
    "query: ",
    "passage: ",
    "Represent this sentence for searching relevant passages: ",
    "search_query: ",
    "search_document: ",
    "classification: ",
    "clustering: ",
    "Instruct: Retrieve semantically similar text.\nQuery: ",
)
# In tokens: defaults of libraries and papers, the most frequent ones first.
LENGTHS = (512, 256, 128, 64, 384, 32, 50, 100, 16, 8)
# Dimensions that Matryoshka models are trained for, and halves of usual ones.
DIMENSIONS = (1024, 768, 512, 384, 256, 128, 64, 32, 16)
FIRST_PAIRS = (1000, 500, 100)  # of a script that was tried on a part of the data
PADDED_LENGTHS = (64, 128, 256, 512)  # in tokens, of programs that pad every text


# Scores of given vectors


@dataclass(frozen=True)
class OtherScore:
    """Another score of given vectors than the stated one; empty settings are the number's."""

    similarity: str = ""
    correlation: str = ""
    aggregation: str = "all"

    def score(self, number: CardNumber, scores: Mapping[str, Any]) -> float | None:
        """The score that is compared with a number; None if it is undefined."""
        similarity = self.similarity or number.similarity
        correlation = self.correlation or number.correlation
        if similarity == BEST_SIMILARITY:
            return number.score_in(scores, self.aggregation)
        return score_at(scores, (score_name(similarity, correlation), self.aggregation))

    def words(self, number: CardNumber) -> tuple[str, ...]:
        """The differences from the number, a phrase each."""
        phrases = []
        if self.correlation not in ("", number.correlation):
            phrases.append(
                f"{self.correlation.capitalize()} for {number.correlation.capitalize()}"
            )
        if self.similarity not in ("", number.similarity):
            phrases.append(f"{self.similarity} for {number.similarity}")
        if self.aggregation != "all":
            phrases.append(f"aggregation {self.aggregation}")
        return tuple(phrases)


AS_STATED = OtherScore()
# First the score as it is stated, then those with one change, then all others.
SCORES = sorted(
    (
        OtherScore(similarity, correlation, aggregation)
        for aggregation, correlation, similarity in product(
            AGGREGATIONS, ("", *CORRELATIONS), ("", COSINE, *SIMILARITIES)
        )
    ),
    key=lambda other: (
        bool(other.similarity) + bool(other.correlation) + (other.aggregation != "all")
    ),
)


def is_chance(number: CardNumber, tried: Sequence[float], tolerance: float) -> bool:
    """Whether one of the tried scores is likely to have the digits by chance.

    The expected number of such scores is the number of tried scores within a point of
    the number that lack its digits, times the share of these two points in which a score
    has the digits.
    """
    near_misses = 0
    for score in set(tried):
        is_near = number.is_given_by(score, NEIGHBOURHOOD)
        if is_near and not number.is_given_by(score, tolerance):
            near_misses += 1
    half_unit = min(reading.half_unit for reading in number.readings)
    share = min(max(tolerance, half_unit) / NEIGHBOURHOOD, 1.0)
    return near_misses * share > LIKELY_CHANCE


# Vectors


@dataclass(frozen=True)
class Candidate:
    """A task whose sentences are encoded under a variant.

    Attributes:
        task: The task.
        variant: How its sentences are encoded.
        has_other_pairs: Whether the number is about the pairs of another task.
    """

    task: Task
    variant: Variant = AS_IT_IS
    has_other_pairs: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The differences from the number, a phrase each."""
        if not self.has_other_pairs:
            return self.variant.words
        splits = "+".join(self.task.scored)
        pairs = f"{self.task.text} text, split {splits} ({self.task.name})"
        return (*self.variant.words, pairs)

    @property
    def tolerance(self) -> float:
        """The points by which its scores may miss a number's digits."""
        is_whole = self.variant.dtype == FLOAT32
        return DIGITS_OF_EXPLANATIONS if is_whole else DIGITS_OF_HALVES


def variants(model: VariantScores, task: Task) -> Iterator[Variant]:
    """Variants of one setting, the cheapest and likeliest first."""
    is_native = isinstance(model.method.encoder, NativeConfig)
    if is_native or model.transformer is None:
        yield Variant(unit_length=True)
    modules = model.modules
    if modules is not None and modules.is_normalised and modules.equal_pooling:
        yield Variant(unit_length=False)
    for dimensions in DIMENSIONS:
        yield Variant(dimensions=dimensions)
    pair_count = len(model.loader.texts(task).pairs)
    for count in FIRST_PAIRS:
        if count < pair_count:
            yield Variant(first_pairs=count)
    # All poolings after the first are read from the encoding that it made.
    for pooling in POOLINGS:
        if pooling.name != model.method.pooling.name:
            yield Variant(pooling=pooling.name)
    for prompt in _prompts(model, task):
        yield Variant(prompt=prompt)
    for length in _lengths(model, task):
        yield Variant(max_length=length)
    for dtype in HALVES:
        yield Variant(dtype=dtype)
    yield Variant(lower_case=True)
    if model.transformer is not None:
        yield Variant(tokenizer="rebuilt")


def pairs_of_variants(model: VariantScores, task: Task) -> Iterator[Variant]:
    """Variants of two settings: a prompt with a pooling or length, a length with a pooling."""
    prompts = [
        Variant(prompt=prompt) for prompt in _prompts(model, task, KNOWN_PROMPTS[:2])
    ]
    lengths = [Variant(max_length=length) for length in _lengths(model, task)]
    poolings = [Variant(pooling=pooling.name) for pooling in POOLINGS]
    for first_settings, second_settings in (
        (prompts, poolings),
        (lengths, poolings),
        (prompts, lengths),
    ):
        for first, second in product(first_settings, second_settings):
            yield first | second
    if model.transformer is not None:
        for length in PADDED_LENGTHS:
            yield Variant(pooling=MEAN.name, padded_to=length)


def variants_of_mteb(model: VariantScores) -> Iterator[Variant]:
    """A variant for each prompt of mteb's implementation of the model; none without mteb.

    Importing mteb takes seconds.
    """
    config = model.method.encoder
    folder = model.loader.places.encoder(config)
    repository = getattr(config.source, "repo", "") or folder.name
    try:
        from mteb.models.model_implementations import MODEL_REGISTRY
    except ImportError:
        return
    for name, implementation in MODEL_REGISTRY.items():
        if repository in (name, name.rpartition("/")[2]):
            prompts = implementation.loader_kwargs.get("model_prompts") or {}
            for prompt_name, prompt in prompts.items():
                yield Variant(prompt=prompt, prompt_of_mteb=prompt_name)


def _prompts(
    model: VariantScores, task: Task, known: Sequence[str] = KNOWN_PROMPTS
) -> list[str]:
    """No prompt, the model's and those of others, but for the one that is used anyway."""
    own_prompts = [] if model.modules is None else model.modules.prompts.values()
    used_prompt = model.own_prompt(task)
    if used_prompt is None:
        used_prompt = model.default_prompt
    prompts = dict.fromkeys(("", *own_prompts, *known))
    prompts.pop(used_prompt, None)
    return list(prompts)


def _lengths(model: VariantScores, task: Task) -> list[int]:
    """Usual lengths that may cut the task's texts elsewhere than the model's own does.

    A token has a character at least, so that a length above the characters of the
    longest text cuts nothing.
    """
    own_length = model.open(model.method.encoder).identity.max_length
    if own_length is None:
        return []
    longest = max(len(sentence) for sentence in model.loader.texts(task).sentences)
    uncut = min(own_length, longest)
    return [length for length in LENGTHS if min(length, longest) != uncut]


# The search


@dataclass
class Explainer:
    """Looks for what numbers may have meant.

    Attributes:
        model: The model, which keeps what was measured of it.
        registry: The tasks.
        most_encodings: How many encodings are made for a run of numbers at most; what the
            cache has does not count. None for no limit.
        note: Is called with a sentence on how long each search takes at most.
        likely: The variants that explained earlier runs, which are tried first.
    """

    model: VariantScores
    registry: Registry
    most_encodings: int | None = None
    note: Callable[[str], None] = field(default=lambda _: None)
    likely: list[Variant] = field(default_factory=list)

    def search(
        self,
        task: Task,
        numbers: Sequence[CardNumber],
        holding: Sequence[CardNumber] = (),
        *,
        only_small: bool = False,
    ) -> list[FoundChoices]:
        """The explanation of each number on a task: what gives its digits, or why nothing does.

        Args:
            task: The pairs that the numbers are of.
            numbers: Numbers of one run that differ.
            holding: Numbers of the same run that hold; a setting has to give them, too.
            only_small: Whether only variants are tried that move few sentences or last
                digits: other numbers of the run hold, so that most settings are right.
        """
        tried: list[float] = []
        stated = self.model.stated_variant(numbers[0].statement.settings)
        own_scores = self.model.scores(stated, task)
        explained: dict[CardNumber, FoundChoices] = {}
        for number in numbers:
            explained |= _given(
                [number],
                own_scores,
                SCORES,
                Candidate(task),
                tried,
                is_alone=not holding,
            )
        if len(explained) == len(numbers):
            return [explained[number] for number in numbers]
        encodings = skipped = 0
        for candidate in self._announced_candidates(task, only_small):
            variant = stated | candidate.variant
            try:
                reading = self.model.reading(variant, candidate.task)
                is_costly = self.model.needs_encoding(reading)
                if is_costly and encodings == self.most_encodings:
                    skipped += 1
                    continue
                encodings += is_costly
                scores = self.model.scores(variant, candidate.task)
            except HarnessError:  # the model has no such variant, or data are elsewhere
                continue
            # A number that holds was compared with the tolerance of a verdict.
            tolerance = max(candidate.tolerance, SAME_DIGITS)
            if not all(n.is_given_by(n.score_in(scores), tolerance) for n in holding):
                continue
            # Half precision gives no digits for sure, so that other scores of it prove nothing.
            is_half = candidate.variant.dtype != FLOAT32
            others = [AS_STATED] if holding or is_half else SCORES
            is_alone = len(numbers) + len(holding) == 1
            given = _given(numbers, scores, others, candidate, tried, is_alone=is_alone)
            if given:
                self.likely.insert(0, candidate.variant)
                return [given[number] for number in numbers]
        reason = "nothing that was tried gives it"
        if skipped:
            reason = f"no choice among the first {encodings} encodings gives it"
        nothing = FoundChoices(tried=len(tried), reason=reason)
        return [explained.get(number, nothing) for number in numbers]

    def _announced_candidates(
        self, task: Task, only_small: bool
    ) -> Iterator[Candidate]:
        """The candidates in their order, after a note on their number and time.

        The prompts of mteb's implementation of the model come when everything else was
        tried.
        """
        candidates = self._candidates(task)
        if only_small:
            candidates = [
                candidate
                for candidate in candidates
                if candidate.variant.moves_little and not candidate.has_other_pairs
            ]
        self._announce(task, candidates)
        yield from candidates
        if not only_small:
            candidates = [
                Candidate(task, variant) for variant in variants_of_mteb(self.model)
            ]
            if candidates:
                self._announce(task, candidates)
            yield from candidates

    def _candidates(self, task: Task) -> list[Candidate]:
        """Other pairs of the data set, one variant, then two of them; each once."""
        data_set = task.name.partition(".")[0]
        others = [
            Candidate(other, has_other_pairs=True)
            for other in self.registry.tasks.values()
            if other.name.partition(".")[0] == data_set
            and other.name != task.name
            and other.metric == task.metric
            and self.model.loader.places.has_data(other.asset)
        ]
        scored = [
            candidate for candidate in others if "train" not in candidate.task.scored
        ]
        candidates = [Candidate(task, variant) for variant in self.likely]
        candidates += scored
        candidates += [
            Candidate(task, variant) for variant in variants(self.model, task)
        ]
        candidates += others
        candidates += [
            Candidate(task, pair) for pair in pairs_of_variants(self.model, task)
        ]
        for other in scored:
            for variant in variants(self.model, other.task):
                candidates.append(Candidate(other.task, variant, has_other_pairs=True))
        return list(dict.fromkeys(candidates))

    def _announce(self, task: Task, candidates: Sequence[Candidate]) -> None:
        """Say how many encodings there are at most, and how long they take."""
        characters: dict[Reading, int] = {}
        for candidate in candidates:
            with suppress(HarnessError):
                reading = self.model.reading(candidate.variant, candidate.task)
                characters[reading] = self.model.characters(reading)
        characters.pop(self.model.reading(AS_IT_IS, task), None)
        allowed = list(characters.values())[: self.most_encodings]
        note = f"{task.name}: a search of at most {len(allowed)} encodings"
        rate = self.model.open(self.model.method.encoder).cache.rate
        if rate is not None:
            note += f", about {duration(sum(allowed) / rate)} if none gives it"
        self.note(note)


def _given(
    numbers: Sequence[CardNumber],
    scores: Mapping[str, Any],
    others: Iterable[OtherScore],
    candidate: Candidate,
    tried: list[float],
    *,
    is_alone: bool,
) -> dict[CardNumber, FoundChoices]:
    """An explanation of each number by the first score under which all have their digits.

    Args:
        numbers: The numbers of a run.
        scores: What was measured in the candidate.
        others: The scores that the numbers are compared with.
        candidate: The candidate.
        tried: The scores that the first number was compared with; further ones are added.
        is_alone: Whether no other number of the run tells a hit from chance.

    Returns:
        No explanation if there is no such score.
    """
    for other in others:
        measured_scores = [other.score(number, scores) for number in numbers]
        if measured_scores[0] is not None:
            tried.append(measured_scores[0])
        measured = dict(zip(numbers, measured_scores, strict=True))
        if all(
            n.is_given_by(score, candidate.tolerance) for n, score in measured.items()
        ):
            return {
                number: FoundChoices(
                    words=(*other.words(number), *candidate.words),
                    measured=score,
                    tried=len(tried),
                    is_chance=is_alone
                    and is_chance(number, tried, candidate.tolerance),
                )
                for number, score in measured.items()
            }
    return {}
