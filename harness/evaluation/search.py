"""The check of a model's numbers, and the search for what a differing one may have meant.

`check_numbers` measures each number under the model's own modules and prompts. The numbers
of one source for one task are a run: one setting has to give the digits of all of them,
for which `explained` searches.

`Explainer.search` looks among other scores of the same vectors, other pairs of the data
set, and variants of the encoding, the cheapest and likeliest first. A number with few
digits is hit by chance where many scores are tried, and its explanation says so. No
explanation changes more than two settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any

from harness.conclusions.cards import CardNumber, FoundChoices
from harness.core.errors import AssetMissing, HarnessError
from harness.core.hardware import FLOAT32, HALVES
from harness.core.metrics.correlation import CORRELATIONS, COSINE, SIMILARITIES
from harness.core.terminal import duration
from harness.core.types import AGGREGATIONS, Task
from harness.evaluation.variants import AS_IT_IS, Reading, Variant, VariantScores
from harness.registry import Registry
from harness.results.verdict import TOLERANCES
from harness.transforms.pooling import MEAN, POOLINGS

# Points by which a score under other choices may miss the digits of a number. Runs of one
# model years apart differ by 4e-5; a number with two decimals is known to 0.005 alone.
DIGITS_OF_EXPLANATIONS = 5e-4
# That an explanation changes: among combinations of more, some give any number.
MOST_CHOICES = 2
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

# Another score of the same vectors: settings of a number that are exchanged. First the
# score as it is stated, then those with one change, then all others.
OtherScore = Mapping[str, Any]
AS_STATED: OtherScore = {}


def _other_scores() -> list[OtherScore]:
    """Every combination of these settings, those with the fewest changes first."""
    scores = []
    for aggregation, correlation, similarity in product(
        ("", *AGGREGATIONS[1:]), ("", *CORRELATIONS), ("", COSINE, *SIMILARITIES)
    ):
        settings = {
            "aggregation": aggregation,
            "correlation": correlation,
            "similarity": similarity,
        }
        scores.append({name: value for name, value in settings.items() if value})
    return sorted(scores, key=len)


SCORES = _other_scores()


def other_score_in_words(number: CardNumber, other: CardNumber) -> tuple[str, ...]:
    """How another score differs from a number, a phrase for each setting."""
    phrases = []
    if other.correlation != number.correlation:
        phrases.append(
            f"{other.correlation.capitalize()} for {number.correlation.capitalize()}"
        )
    if other.similarity != number.similarity:
        phrases.append(f"{other.similarity} for {number.similarity}")
    if other.aggregation != number.aggregation:
        phrases.append(f"aggregation {other.aggregation}")
    return tuple(phrases)


def is_chance(number: CardNumber, tried: Iterable[float], tolerance: float) -> bool:
    """Whether one of the tried scores is likely to have the digits by chance.

    The expected number of such scores is the number of tried scores within a point of
    the number that lack its digits, times the share of these two points in which a score
    has the digits.
    """
    near_misses = [
        score
        for score in tried
        if number.is_given_by(score, NEIGHBOURHOOD)
        and not number.is_given_by(score, tolerance)
    ]
    half_unit = min(reading.half_unit for reading in number.readings)
    share = min(max(tolerance, half_unit) / NEIGHBOURHOOD, 1.0)
    return len(near_misses) * share > LIKELY_CHANCE


# Variants

# The settings that are tried two at a time.
PAIRS_OF_SETTINGS = (
    ("prompt", "pooling"),
    ("max_length", "pooling"),
    ("prompt", "max_length"),
)


def values_of_settings(
    model: VariantScores, task: Task, prompts: Sequence[str] = KNOWN_PROMPTS
) -> dict[str, Iterable[Any]]:
    """The values of each setting of a variant that are tried, the cheapest settings first.

    Args:
        model: The model, whose own settings are left out.
        task: The task, which tells the lengths that cut something.
        prompts: Prompts that are tried besides none and the model's own.
    """
    own_modules, texts = model.modules, model.loader.texts(task)
    unit_lengths = [True]
    if own_modules and own_modules.is_normalised and own_modules.equal_pooling:
        unit_lengths.append(False)
    tried_prompts = dict.fromkeys(("", *model.prompts.values(), *prompts))
    tried_prompts.pop(model.prompt(task), None)
    # A token has a character at least, so that a length above the characters of the
    # longest text cuts nothing.
    longest = max(len(sentence) for sentence in texts.sentences)
    own_length = model.open(model.method.encoder).identity.max_length
    lengths = [
        length
        for length in LENGTHS
        if own_length and min(length, longest) != min(own_length, longest)
    ]
    return {
        "unit_length": unit_lengths,
        "dimensions": DIMENSIONS,
        "first_pairs": [n for n in FIRST_PAIRS if n < len(texts.pairs)],
        # All poolings after the first are read from the encoding that it made.
        "pooling": [pooling.name for pooling in POOLINGS],
        "prompt": list(tried_prompts),
        "max_length": lengths,
        "dtype": HALVES,
        "lower_case": [True],
        "rebuilds_tokenizer": [True],
    }


def variants(model: VariantScores, task: Task) -> Iterator[Variant]:
    """Variants of one setting, the cheapest and likeliest first."""
    for setting, values in values_of_settings(model, task).items():
        for value in values:
            yield Variant(**{setting: value})


def pairs_of_variants(model: VariantScores, task: Task) -> Iterator[Variant]:
    """Variants of two settings: a prompt with a pooling or length, a length with a pooling."""
    values = values_of_settings(model, task, KNOWN_PROMPTS[:2])
    for first, second in PAIRS_OF_SETTINGS:
        for one, other in product(values[first], values[second]):
            yield Variant(**{first: one, second: other})
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


# The search

# A variant, and the task whose sentences are encoded under it.
Candidate = tuple[Variant, Task]


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
    ) -> dict[CardNumber, FoundChoices]:
        """The explanation of each number on a task: what gives its digits, or why nothing does.

        Args:
            task: The pairs that the numbers are of.
            numbers: Numbers of one run whose digits were not measured.
            holding: Numbers of the same run that hold; a setting has to give them, too.
                Then, or if all of `numbers` hold, most settings are right, and only
                variants are tried that move few sentences or last digits.
        """
        tried: set[float] = set()
        stated = self.model.stated_variant(numbers[0].statement.settings)
        own_scores = self.model.scores(stated, task)
        explained: dict[CardNumber, FoundChoices] = {}
        for number in numbers:
            explained |= _given([number], holding, own_scores, SCORES, (), tried)
        if len(explained) == len(numbers):
            return explained
        only_small = bool(holding) or all(number.holds for number in numbers)
        encodings = 0
        for variant, pairs in self._announced_candidates(task, only_small):
            try:
                reading = self.model.reading(stated | variant, pairs)
                if self.model.needs_encoding(reading):
                    if encodings == self.most_encodings:
                        continue
                    encodings += 1
                scores = self.model.scores(stated | variant, pairs)
            except HarnessError:  # the model has no such variant, or data are elsewhere
                continue
            words = variant.words
            if pairs is not task:
                splits = "+".join(pairs.scored)
                words += (f"{pairs.text} text, split {splits} ({pairs.name})",)
            # Half precision gives no digits for sure, so that other scores of it prove nothing.
            is_half = variant.dtype != FLOAT32
            others = [AS_STATED] if holding or is_half else SCORES
            given = _given(numbers, holding, scores, others, words, tried)
            if given:
                self.likely.insert(0, variant)
                return given
        reason = "nothing that was tried gives it"
        if encodings == self.most_encodings:
            reason = f"no choice among the first {encodings} encodings gives it"
        if holding:
            reason = f"{len(holding)} other numbers of this run are reproduced, this one is not"
        nothing = FoundChoices(tried=len(tried), reason=reason)
        return {number: explained.get(number, nothing) for number in numbers}

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
                (variant, pairs)
                for variant, pairs in candidates
                if variant.moves_little and pairs is task
            ]
        self._announce(task, candidates)
        yield from candidates
        if only_small:
            return
        candidates = [(variant, task) for variant in variants_of_mteb(self.model)]
        if candidates:
            self._announce(task, candidates)
        yield from candidates

    def _candidates(self, task: Task) -> list[Candidate]:
        """Other pairs of the data set, one variant, then two of them; each once."""
        data_set = task.name.partition(".")[0]
        others = [
            other
            for other in self.registry.tasks.values()
            if other.name.partition(".")[0] == data_set
            and other.name != task.name
            and other.metric == task.metric
            and self.model.loader.places.has_data(other.asset)
        ]
        scored = [other for other in others if "train" not in other.scored]
        candidates = [
            *product(self.likely, [task]),
            *product([AS_IT_IS], scored),
            *product(variants(self.model, task), [task]),
            *product([AS_IT_IS], others),
            *product(pairs_of_variants(self.model, task), [task]),
        ]
        for other in scored:
            candidates += product(variants(self.model, other), [other])
        return list(dict.fromkeys(candidates))

    def _announce(self, task: Task, candidates: Sequence[Candidate]) -> None:
        """Say how many encodings there are at most, and how long they take."""
        characters: dict[Reading, int] = {}
        for candidate in candidates:
            with suppress(HarnessError):
                reading = self.model.reading(*candidate)
                characters[reading] = reading.characters
        characters.pop(self.model.reading(AS_IT_IS, task), None)
        allowed = list(characters.values())[: self.most_encodings]
        note = f"{task.name}: a search of at most {len(allowed)} encodings"
        rate = self.model.open(self.model.method.encoder).cache.rate
        if rate is not None:
            note += f", about {duration(sum(allowed) / rate)} if none gives it"
        self.note(note)


def _given(
    numbers: Sequence[CardNumber],
    holding: Sequence[CardNumber],
    scores: Mapping[str, Any],
    others: Iterable[OtherScore],
    words: tuple[str, ...],
    tried: set[float],
    tolerance: float = DIGITS_OF_EXPLANATIONS,
) -> dict[CardNumber, FoundChoices]:
    """An explanation of each number by the first score under which all have their digits.

    Args:
        numbers: The numbers of a run that differ.
        holding: Its numbers that hold, which have to have their digits, too.
        scores: What was measured under some choices.
        others: The scores that the numbers are compared with.
        words: The choices, a phrase each.
        tried: The scores that the first number was compared with; further ones are added.
        tolerance: The points by which the scores may miss a number's digits.

    Returns:
        No explanation if there is no such score.
    """
    # A number that holds was compared with the tolerance of a verdict.
    lenient = max(tolerance, TOLERANCES.exact)
    if not all(each.is_given_by(each.score_in(scores), lenient) for each in holding):
        return {}
    is_alone = len(numbers) + len(holding) == 1
    for settings in others:
        if len(settings) + len(words) > MOST_CHOICES:
            continue
        explanations = {}
        for number in numbers:
            other = replace(number, **settings)
            measured = other.score_in(scores)
            if number is numbers[0] and measured is not None:
                tried.add(measured)
            if not number.is_given_by(measured, tolerance):
                break
            explanations[number] = FoundChoices(
                words=(*other_score_in_words(number, other), *words),
                measured=measured,
                tried=len(tried),
                is_chance=is_alone and is_chance(number, tried, tolerance),
            )
        if len(explanations) == len(numbers):
            return explanations
    return {}


# All numbers of a model


def check_numbers(
    model: VariantScores, numbers: Iterable[CardNumber], registry: Registry
) -> Iterator[CardNumber]:
    """Measure and judge each number, under the model's own modules and prompts.

    It is measured under the settings of its run, where these are stated. One that may be
    of either of two tasks and holds on the second alone is a number of that task.
    """
    for number in numbers:
        if number.why_not:
            yield number
            continue
        judged: list[CardNumber] = []
        try:
            variant = model.stated_variant(number.statement.settings)
            for task in filter(None, (number.task, number.or_task)):
                score = number.score_in(model.scores(variant, registry.tasks[task]))
                judged.insert(0, replace(number, task=task).judged(score))
                if judged[0].holds:
                    break
            yield judged[0] if judged[0].holds else judged[-1]
        except HarnessError as error:
            is_missing = isinstance(error, AssetMissing)
            yield replace(number, why_not=str(error), is_missing=is_missing)


def explained(numbers: Sequence[CardNumber], explainer: Explainer) -> list[CardNumber]:
    """The numbers; those whose digits were not measured have an explanation."""
    explanations: dict[CardNumber, FoundChoices] = {}
    judged = [number for number in numbers if number.verdict is not None]
    for _, run in groupby(sorted(judged, key=_run_of), _run_of):
        explanations |= _explain_run([*run], judged, explainer)
    return [replace(each, explanation=explanations.get(each)) for each in numbers]


def _run_of(number: CardNumber) -> tuple[str, ...]:
    """The facts that the numbers of one run of a model have in common."""
    statement = number.statement
    return (
        statement.source,
        statement.model,
        number.task,
        statement.split,
        statement.revision,
        repr(statement.settings),
    )


def _explain_run(
    run: Sequence[CardNumber], judged: Sequence[CardNumber], explainer: Explainer
) -> dict[CardNumber, FoundChoices]:
    """The explanations of the numbers of a run that are not reproduced to their digits."""
    explanations: dict[CardNumber, FoundChoices] = {}
    unexplained = []
    for number in run:
        other_row = None if number.has_its_digits else _other_row(number, judged)
        if other_row is not None:
            explanations[number] = other_row
        elif not number.has_its_digits:
            unexplained.append(number)
    if not unexplained:
        return explanations
    holding = [number for number in run if number.has_its_digits and number.is_fine]
    task = explainer.registry.tasks[run[0].task]
    for number, found in explainer.search(task, unexplained, holding).items():
        # A number that holds but for its last digits needs no explanation.
        if found.measured is not None or number.differs or holding:
            explanations[number] = found
    return explanations


def _other_row(number: CardNumber, judged: Sequence[CardNumber]) -> FoundChoices | None:
    """The explanation that the number was measured for another task of the card."""
    if not number.is_fine:
        return None
    for other in judged:
        is_other_row = other.task != number.task and other.score == number.score
        if is_other_row and number.is_given_by(other.measured, DIGITS_OF_EXPLANATIONS):
            statement = other.statement
            names = [statement.data_set, statement.split, statement.metric]
            place = " ".join(name for name in names if name)
            return FoundChoices(
                words=(f"the number of {place} in its place",),
                measured=other.measured,
                tried=len(judged),
            )
    return None
