"""The numbers of a model's card and result files, as scores of tasks here, and their verdicts.

`harness.conclusions.card_statements` reads the numbers with the names that the files give
them. Each statement is interpreted here as a `CardNumber`: a score of a task that the
registry knows. `card_data_sets.toml` has the names that cards give to data sets. A
number that nothing here can measure keeps the reason. `CardNumber.judged` and the search
for other choices return the number with what was found out about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.conclusions.card_statements import (
    FORMS_OF_NUMBERS,
    Statement,
    card_files,
    card_files_of_model,
    statements_of_file,
)
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.metrics.correlation import (
    CORRELATIONS,
    COSINE,
    SIMILARITIES,
    score_name,
)
from harness.core.toml import read_rows
from harness.core.types import score_at
from harness.registry import Registry
from harness.results.verdict import (
    CellState,
    Measured,
    Published,
    Verdict,
    readings_in_points,
    verdict,
)

# The similarity function of sentence-transformers' `spearman_max`: the best of four.
BEST_SIMILARITY = "best"

HOLDING_STATES = (CellState.EXACT, CellState.MATCH)


@dataclass(frozen=True)
class FoundChoices:
    """The choices under which a score has a number's digits, if a search found any.

    Attributes:
        words: A phrase for each choice that is not the number's; none where no score has
            the digits.
        measured: The score under these choices, in points.
        tried: How many scores were compared with the number.
        reason: Why no score was compared, or none has the digits.
        is_chance: Whether one of so many scores may have the digits by chance.
    """

    words: tuple[str, ...] = ()
    measured: float | None = None
    tried: int = 0
    reason: str = ""
    is_chance: bool = False


@dataclass(frozen=True)
class CardNumber:
    """A number that a model's card or result file states, and what was measured for it.

    Attributes:
        statement: The number and its names, as the source has them.
        task: The task here that holds its pairs; empty where nothing here measures it.
        or_task: Another task that may hold its pairs, where its source does not say which;
            empty where it does.
        similarity: The similarity function: cosine, dot, euclidean, manhattan, or
            `best`.
        correlation: Spearman's or Pearson's.
        aggregation: How the pairs of several subsets are taken together.
        readings: The printed number in points as it may be meant: of a
            number between -1 and 1 the fraction first, then the percentage.
        doubt: Why its pairs may differ from the pairs here, so that another score does
            not refute it. Empty where its pairs are known.
        why_not: Why nothing here measures it, or why it was not judged; empty where it
            was.
        is_missing: Whether it could be judged with files that are not on this machine.
        is_no_correlation: Whether its value is none, which is a fault of the card.
        is_of_other_model: Whether it is another model's, which no encoding can change: a
            fault of the card.
        measured: The score under the model's own modules, in points.
        verdict: The verdict on the difference; None where none was judged.
        explanation: The choices that give the stated digits, where it differs and they
            were looked for.
    """

    statement: Statement
    task: str = ""
    or_task: str = ""
    similarity: str = COSINE
    correlation: str = "spearman"
    aggregation: str = "all"
    readings: tuple[Published, ...] = ()
    doubt: str = ""
    why_not: str = ""
    is_missing: bool = False
    is_no_correlation: bool = False
    is_of_other_model: bool = False
    measured: float | None = None
    verdict: Verdict | None = None
    explanation: FoundChoices | None = None

    # The number as it is stated

    @property
    def score(self) -> str:
        """The name of its score in a record."""
        return score_name(self.similarity, self.correlation)

    def score_in(self, scores: Mapping[str, Any]) -> float | None:
        """Its score among the scores of a record, in points; None for an undefined one.

        A number on the best of four similarity functions states the highest of their
        scores.
        """
        similarities: tuple[str, ...] = (self.similarity,)
        if self.similarity == BEST_SIMILARITY:
            similarities = (COSINE, *SIMILARITIES)
        names = [score_name(name, self.correlation) for name in similarities]
        found = [score_at(scores, (name, self.aggregation)) for name in names]
        return max((score for score in found if score is not None), default=None)

    def is_given_by(self, measured: float | None, tolerance: float) -> bool:
        """Whether a score has its printed digits, or differs by the tolerance at most.

        Args:
            measured: The score in points; None is undefined.
            tolerance: Points by which two runs of the same model may differ.
        """
        return measured is not None and any(
            round(abs(measured - reading.points), 9)
            <= max(tolerance, reading.half_unit)
            for reading in self.readings
        )

    # The number beside a measured score

    def judged(self, measured: float | None) -> CardNumber:
        """The number with a verdict; one on doubtful pairs can hold, but not differ."""
        if measured is None:
            why_not = "the score is undefined: the similarities are constant"
            return replace(self, why_not=why_not)
        number = replace(self, measured=measured)
        judgement = verdict(number.reading, Measured((measured,)))
        if judgement.state not in HOLDING_STATES and self.doubt:
            return replace(number, why_not=f"{self.doubt}, and it differs")
        return replace(number, verdict=judgement)

    @property
    def reading(self) -> Published:
        """The stated number in points: the reading that is nearest to the measured score."""
        measured = self.measured
        if measured is None:
            return self.readings[0]
        return min(self.readings, key=lambda reading: abs(reading.points - measured))

    @property
    def holds(self) -> bool:
        """Whether it was judged and is reproduced."""
        return self.verdict is not None and self.verdict.state in HOLDING_STATES

    @property
    def differs(self) -> bool:
        """Whether it was judged and is not reproduced."""
        return self.verdict is not None and not self.holds

    @property
    def has_its_digits(self) -> bool:
        """Whether the verdict is that the measured score has the printed digits."""
        return self.verdict is not None and self.verdict.state is CellState.EXACT

    @property
    def is_fine(self) -> bool:
        """Whether it is printed to a hundredth of a point, which few other scores equal."""
        return self.reading.half_unit <= 0.005


# The owner of the data sets that only this project has, in the ids that its cards state.
OWN_DATA_SETS = "sentence-embedding-harness/"


@dataclass(frozen=True)
class DataSet:
    """A data set as cards name it.

    Attributes:
        name: mteb's name of its task, or the name that an evaluator was given.
        tasks: For each split, the task here that holds its pairs.
        ids: Its repositories on the hub, which are compared without case.
        revisions: The commits of this repository that hold the pairs of the tasks here.
        or_tasks: The tasks that a name without a repository may mean as well, by split.
        configs: The subsets that hold the pairs of the tasks here, where not all do.
        language: The language of its pairs, as mteb abbreviates it.
        why_not: Why nothing here measures it, where nothing does.
        is_guess: Whether the name may also mean other pairs. Then a number on it can be
            confirmed, but a difference does not refute it.
    """

    name: str
    tasks: Mapping[str, str]
    ids: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()
    or_tasks: Mapping[str, str] = field(default_factory=dict)
    configs: tuple[str, ...] = ()
    language: str = "eng"
    why_not: str = ""
    is_guess: bool = False

    def has_id(self, repository: str) -> bool:
        """Whether it is a repository of the hub, with or without its owner."""
        names = [name.lower() for name in self.ids]
        plain = repository.lower()
        return plain in names or plain in [name.rpartition("/")[2] for name in names]


@cache
def data_sets() -> tuple[DataSet, ...]:
    """Every data set that cards name and whose pairs are known here; read once."""
    return read_rows(
        DataSet, Path(__file__).with_name("card_data_sets.toml"), "data_set"
    )


# Numbers of files


def numbers_of_model(
    folder: Path, registry: Registry, further_paths: Sequence[Path] = ()
) -> tuple[list[CardNumber], list[str]]:
    """The numbers of a model, and a line for each file that could not be read.

    What is stated twice is one number. A further file that states none is a fault.

    Args:
        folder: The folder of the model: its card, `.eval_results` and result files are
            looked for.
        registry: The tasks.
        further_paths: More cards and result files of the model, and folders of them.

    Raises:
        AssetMissing: One of `further_paths` does not exist.
    """
    files = card_files_of_model(folder)
    for path in further_paths:
        if not path.exists():
            raise AssetMissing(f"--card {path}: there is no such file or folder")
        files += card_files(path)
    statements: dict[Statement, None] = {}  # in their order, each once
    faults = []
    for file in files:
        try:
            stated = dict.fromkeys(statements_of_file(file))
        except DataError as error:
            faults.append(str(error))
            continue
        if not stated and file in further_paths:
            faults.append(f"{file}: wanted {FORMS_OF_NUMBERS}; found no number")
        statements |= stated
    return [interpret(statement, registry) for statement in statements], faults


# Interpreting statements

# How cards name the subset of a data set that has one subset, or its English subset.
KNOWN_CONFIGS = ("", "default", "None", "en", "en-en")
NO_REVISION = ("", "None")

# The similarity function and correlation of each metric, by the names of mteb and of the
# trainers of sentence-transformers: `cos_sim_spearman`, `spearman_cosine`. A correlation
# alone is taken for the cosine's.
METRICS = {
    "main_score": (COSINE, "spearman"),
    "spearmanr": (COSINE, "spearman"),
    "pearsonr": (COSINE, "pearson"),
}
SIMILARITY_NAMES = {
    **{similarity: similarity for similarity in (COSINE, *SIMILARITIES)},
    "cos_sim": COSINE,
    "dot_score": "dot",
    "max": BEST_SIMILARITY,
}
for _correlation in CORRELATIONS:
    METRICS[_correlation] = (COSINE, _correlation)
    for _name, _similarity in SIMILARITY_NAMES.items():
        METRICS[f"{_name}_{_correlation}"] = (_similarity, _correlation)
        METRICS[f"{_correlation}_{_name}"] = (_similarity, _correlation)


def parse_metric(metric: str) -> tuple[str, str] | None:
    """The similarity function and correlation that a metric's name means; None for others."""
    return METRICS.get(re.sub(r"[.\- ]", "_", metric.lower()))


def interpret(statement: Statement, registry: Registry) -> CardNumber:
    """A statement as a score of a task, with the reason where nothing here measures it."""
    try:
        return _score_of_task(statement, registry)
    except UsageError as error:
        return CardNumber(statement, why_not=str(error))


def _score_of_task(statement: Statement, registry: Registry) -> CardNumber:
    """A statement as a score of a task. Raises UsageError where nothing here measures it."""
    if not statement.metric:
        raise UsageError(f"not in the hub's form ({statement.source})")
    data_set = _data_set(statement, registry)
    if data_set.why_not:
        raise UsageError(data_set.why_not)
    languages = statement.languages
    if any(not language.startswith(data_set.language) for language in languages):
        raise UsageError(f"no task here for pairs in {', '.join(languages)}")
    if statement.config not in (data_set.configs or KNOWN_CONFIGS):
        raise UsageError(f"no task here for the subset {statement.config}")
    split = statement.split
    if split not in data_set.tasks:
        split = {"": "test", "dev": "validation"}.get(split, split)
    task = data_set.tasks.get(split, "")
    if task not in registry.tasks:
        raise UsageError(f"no task here for the split {statement.split!r}")
    score = parse_metric(statement.metric)
    if score is None:
        raise UsageError(f"the metric {statement.metric} is not measured here")
    readings = readings_in_points(statement.value)
    if not readings:
        return CardNumber(
            statement,
            task=task,
            similarity=score[0],
            correlation=score[1],
            why_not=f"its value {statement.value!r:.30} is no correlation",
            is_no_correlation=True,
        )
    named_by_itself = ("", "unknown", statement.data_set.lower())
    has_repository = statement.data_set_id.lower() not in named_by_itself
    may_be_either = not has_repository and statement.revision in NO_REVISION
    return CardNumber(
        statement,
        task=task,
        or_task=data_set.or_tasks.get(split, "") if may_be_either else "",
        similarity=score[0],
        correlation=score[1],
        readings=readings,
        doubt=_doubt(data_set, statement),
    )


def _data_set(statement: Statement, registry: Registry) -> DataSet:
    """The data set that a statement names, by its repository or else by its name.

    Mteb's own names come before others': its STSB is Chinese. A name that this project has
    for a task comes before another's in lower case: `sick-r` holds the pairs of one split,
    mteb's SICK-R those of all. Raises UsageError for an unknown one, and for the name and
    the repository of two data sets.
    """
    text, repository = statement.data_set, statement.data_set_id
    # "MTEB STS12 (en)" is STS12. Trainers of sentence-transformers put the kept
    # dimensions behind the name: `sts-dev-768` is `sts-dev`.
    name = re.sub(r"^MTEB\s+|\s*\(.*\)$", "", text).strip()
    name = re.sub(r"^(sts.*)-\d{2,4}$", r"\1", name)
    by_name = {data_set.name.lower(): data_set for data_set in data_sets()}
    is_of_mteb = statement.of_mteb or text.startswith("MTEB ")
    names = (f"MTEB {name}" if is_of_mteb else text, text, name.replace(" ", "-"))
    of_name = [by_name[name.lower()] for name in names if name.lower() in by_name]
    named = found = of_name[0] if of_name else None
    if repository.startswith(OWN_DATA_SETS):
        name = repository.removeprefix(OWN_DATA_SETS)
    if name in registry.tasks:
        scored_split = "+".join(registry.tasks[name].scored)
        found = DataSet(name=name, tasks={"": name, scored_split: name})
    for data_set in reversed(data_sets()):  # the first that has this repository
        # An id without its owner is a name, and mteb's own name is surer.
        is_name = "/" not in repository and is_of_mteb and named is not None
        if data_set.has_id(repository) and not is_name:
            found = data_set
    if found is None:
        task_type = f" ({statement.task_type})" if statement.task_type else ""
        raise UsageError(f"no task here{task_type}")
    if is_of_mteb and named and named.tasks != found.tasks:
        raise UsageError(f"its name is {text}, its id {repository}")
    return found


def _doubt(data_set: DataSet, statement: Statement) -> str:
    """Why the pairs of a number may differ from the pairs here; empty where they are the same."""
    if data_set.is_guess:
        return f"{statement.data_set!r} may be another data set"
    tasks = data_set.tasks.values()
    repository = statement.data_set_id.lower().removeprefix(OWN_DATA_SETS)
    known_names = ("", data_set.name.lower(), *tasks)
    if repository not in known_names and not data_set.has_id(repository):
        return f"the pairs of {statement.data_set_id!r} are not known here"
    known_revisions = (*NO_REVISION, *data_set.revisions, *tasks)
    if data_set.revisions and statement.revision not in known_revisions:
        return f"its pairs are of revision {statement.revision[:12]}, which is not known here"
    return ""


# Cards of several models


def mark_other_models(
    numbers: Sequence[CardNumber], names: Iterable[str]
) -> list[CardNumber]:
    """The numbers of a card, where the numbers of other models are marked.

    A card's `model-index` may name several models. If one of them is this model, the
    numbers of the others are not compared: each gets `why_not`. If none of them is, the
    numbers may be this model's or not: each gets a `doubt`.

    Args:
        numbers: The numbers of a card.
        names: Names of this model, with or without the owner's: `me/model@revision`.
    """
    own_names = {plain_model_name(name.partition("@")[0]) for name in names} - {""}
    names_in_card = {plain_model_name(number.statement.model) for number in numbers} - {
        ""
    }
    if len(names_in_card) < 2:
        return list(numbers)
    doubt = f"the card has numbers of {len(names_in_card)} models, none by this name"
    marked = []
    for number in numbers:
        model = number.statement.model
        if model and names_in_card.isdisjoint(own_names):
            number = replace(number, doubt=doubt)
        elif model and plain_model_name(model) not in own_names:
            number = replace(number, why_not=f"of another model, {model}")
        marked.append(number)
    return marked


def plain_model_name(model: str) -> str:
    """The name of a model without its owner, in lower case: `me/Model` is `model`."""
    return model.rpartition("/")[2].lower()


# Vectors and batches


@dataclass(frozen=True, kw_only=True)
class BatchEffect:
    """What a model makes of texts in one batch, beside what it makes of each alone.

    Attributes:
        task: The task whose texts they are.
        texts: How many texts.
        largest: The largest difference, as a share of the largest number in the vectors.
    """

    task: str
    texts: int
    largest: float
