"""The numbers of a model's card and result files, as scores of tasks here.

`harness.results.card_statements` reads the numbers with the names that the files give
them. Each statement is interpreted here as a `CardNumber`: a score of a task that the
registry knows. `card_data_sets.toml` has the names that cards give to data sets. A
number that nothing here can measure keeps the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.metrics.correlation import (
    CORRELATION_SCORES,
    CORRELATIONS,
    COSINE,
    SIMILARITIES,
)
from harness.core.toml import read_rows
from harness.registry import Registry
from harness.results.card_numbers import BEST_SIMILARITY, CardNumber
from harness.results.card_statements import (
    FORMS_OF_NUMBERS,
    PrintedNumber,
    Statement,
    card_files,
    card_files_of_model,
    statements_of_file,
)
from harness.results.verdict import Published, readings_in_points

# The owner of the data sets that only this project has, in the ids that its cards state.
OWN_DATA_SETS = "sentence-embedding-harness/"


@dataclass(frozen=True)
class DataSet:
    """A data set as cards name it.

    Attributes:
        name: mteb's name of its task, or the name that an evaluator was given.
        tasks: For each split, the task here that holds its pairs.
        id: The data set's repository on the hub.
        revisions: The commits of this repository that hold the pairs of the tasks here.
        or_tasks: The tasks that a name without a repository may mean as well, by split.
        configs: The subsets that hold the pairs of the tasks here, where not all do.
        why_not: Why nothing here measures it, where nothing does.
        is_guess: Whether the name may also mean other pairs. Then a number on it can be
            confirmed, but a difference does not refute it.
    """

    name: str
    tasks: Mapping[str, str]
    id: str = ""
    revisions: tuple[str, ...] = ()
    or_tasks: Mapping[str, str] = field(default_factory=dict)
    configs: tuple[str, ...] = ()
    why_not: str = ""
    is_guess: bool = False


@cache
def data_sets() -> tuple[DataSet, ...]:
    """Every data set that cards name and whose pairs are known here; read once."""
    return read_rows(
        DataSet, Path(__file__).with_name("card_data_sets.toml"), "data_set"
    )


class ReadNumbers(NamedTuple):
    """The numbers of some files, and a line for each file that could not be read."""

    numbers: tuple[CardNumber, ...]
    faults: tuple[str, ...]


# Numbers of files


def numbers_of_model(
    folder: Path, registry: Registry, further_paths: Sequence[Path] = ()
) -> ReadNumbers:
    """The numbers of a model: those in its folder, and those in further files.

    What is stated twice is one number. A further file that states none is a fault.

    Args:
        folder: The folder of the model: its card, `.eval_results` and result files are
            looked for.
        registry: The tasks.
        further_paths: More cards and result files of the model, and folders of them.

    Raises:
        AssetMissing: One of `further_paths` does not exist.
    """
    files = [*card_files_of_model(folder)]
    for path in further_paths:
        if not path.exists():
            raise AssetMissing(f"--card {path}: there is no such file or folder")
        files += card_files(path)
    statements: dict[Statement, None] = {}  # in their order, each once
    faults: list[str] = []
    for file in files:
        try:
            statements_of_this = [*statements_of_file(file)]
        except DataError as error:
            faults.append(str(error))
            continue
        if not statements_of_this and file in further_paths:
            faults.append(f"{file}: wanted {FORMS_OF_NUMBERS}; found no number")
        statements |= dict.fromkeys(statements_of_this)
    numbers = tuple(interpret(statement, registry) for statement in statements)
    return ReadNumbers(numbers=numbers, faults=tuple(faults))


# Interpreting statements

# How cards name the subset of a data set that has one subset, or its English subset.
KNOWN_CONFIGS = ("", "default", "None", "en", "en-en")


def interpret(statement: Statement, registry: Registry) -> CardNumber:
    """A statement as a score of a task, with the reason where nothing here measures it."""
    number = CardNumber(statement)
    if not statement.metric:
        why_not = f"not in the hub's form ({statement.source})"
        return replace(number, why_not=why_not)
    data_set = _data_set(statement, registry)
    named = _data_set_of_name(statement.data_set)
    is_of_mteb = statement.data_set.startswith("MTEB ")
    if data_set and named and is_of_mteb and named.tasks != data_set.tasks:
        why_not = f"its name is {statement.data_set}, its id {statement.data_set_id}"
        return replace(number, why_not=why_not)
    if data_set is None:
        task_type = f" ({statement.task_type})" if statement.task_type else ""
        return replace(number, why_not=f"no task here{task_type}")
    if data_set.why_not:
        return replace(number, why_not=data_set.why_not)
    if statement.config not in (data_set.configs or KNOWN_CONFIGS):
        why_not = f"no task here for the subset {statement.config}"
        return replace(number, why_not=why_not)
    task = _task_of_split(data_set, statement.split)
    if task is None or task not in registry.tasks:
        why_not = f"no task here for the split {statement.split!r}"
        return replace(number, why_not=why_not)
    similarity_and_correlation = parse_metric(statement.metric)
    if similarity_and_correlation is None:
        why_not = f"the metric {statement.metric} is not measured here"
        return replace(number, why_not=why_not)
    readings = parse_points(statement.value)
    if not readings:
        why_not = f"its value {statement.value!r:.30} is no correlation"
        return replace(number, why_not=why_not)
    similarity, correlation = similarity_and_correlation
    return replace(
        number,
        task=task,
        or_task=_or_task(data_set, statement),
        similarity=similarity,
        correlation=correlation,
        readings=readings,
        doubt=_doubt(data_set, statement),
    )


def _or_task(data_set: DataSet, statement: Statement) -> str:
    """Another task that a statement without a repository and a commit may mean; empty without."""
    named_by_itself = ("", "unknown", statement.data_set.lower())
    if statement.data_set_id.lower() not in named_by_itself:
        return ""
    if statement.revision not in ("", "None"):
        return ""
    return data_set.or_tasks.get(statement.split or "test", "")


def _data_set(statement: Statement, registry: Registry) -> DataSet | None:
    """The data set that a statement names, by its repository or else by its name.

    A name that this project has for a task comes before another's in lower case:
    `sick-r` holds the pairs of one split, mteb's SICK-R those of all.
    """
    for data_set in data_sets():
        id_without_owner = data_set.id.rpartition("/")[2]
        if data_set.id and statement.data_set_id in (data_set.id, id_without_owner):
            return data_set
    name = _name_of_data_set(statement.data_set)
    if statement.data_set_id.startswith(OWN_DATA_SETS):
        name = statement.data_set_id.removeprefix(OWN_DATA_SETS)
    if name in registry.tasks:
        scored_split = "+".join(registry.tasks[name].scored)
        return DataSet(name=name, tasks={"": name, scored_split: name})
    return _data_set_of_name(name)


def _name_of_data_set(text: str) -> str:
    """The name in a card's text: "MTEB STS12 (en)" is STS12, `sts-dev-768` is `sts-dev`.

    Trainers of sentence-transformers put the kept dimensions behind the name.
    """
    name = re.sub(r"^MTEB\s+|\s*\(.*\)$", "", text).strip()
    return re.sub(r"^(sts.*)-\d{2,4}$", r"\1", name)


def _data_set_of_name(text: str) -> DataSet | None:
    """The data set that a card's text names; None for an unknown one."""
    by_name = {data_set.name.lower(): data_set for data_set in data_sets()}
    name = _name_of_data_set(text).lower().replace(" ", "-")
    return by_name.get(text.lower()) or by_name.get(name)


def _task_of_split(data_set: DataSet, split: str) -> str | None:
    """The task that holds the pairs of a split; of `test` if a statement names none."""
    if split in data_set.tasks:
        return data_set.tasks[split]
    if not split:
        return data_set.tasks.get("test")
    if split == "dev":
        return data_set.tasks.get("validation")
    return None


SIMILARITY_SPELLINGS = {
    "cos_sim": COSINE,
    "cosine": COSINE,
    "max": BEST_SIMILARITY,
    "dot_score": "dot",
}
SIMILARITY_NAMES = (*SIMILARITIES, *SIMILARITY_SPELLINGS)
CORRELATION_SPELLINGS = {"pearsonr": "pearson", "spearmanr": "spearman"}


def parse_metric(metric: str) -> tuple[str, str] | None:
    """The similarity function and correlation that a metric's name means; None for others.

    mteb writes `cosine_spearman` and `cos_sim_spearman`, the trainers of
    sentence-transformers `spearman_cosine`. A correlation without a similarity function
    is taken for the cosine's, and `main_score` for the cosine's Spearman correlation.
    """
    name = metric.lower().replace(".", "_").replace("-", "_").replace(" ", "_")
    if name == "main_score":
        return COSINE, "spearman"
    name = CORRELATION_SPELLINGS.get(name, name)
    if name in CORRELATIONS:
        return COSINE, name
    for correlation in CORRELATIONS:
        similarity = name.removesuffix(f"_{correlation}")
        if similarity == name:
            similarity = name.removeprefix(f"{correlation}_")
        if similarity != name and similarity in SIMILARITY_NAMES:
            return SIMILARITY_SPELLINGS.get(similarity, similarity), correlation
    return None


def parse_points(value: Any) -> tuple[Published, ...]:
    """The readings of a correlation in points; none for another value."""
    if isinstance(value, bool) or value is None:
        return ()
    text = value.text if isinstance(value, PrintedNumber) else str(value)
    return readings_in_points(text)


def number_of_target(target: str, metric: str, task: str) -> CardNumber:
    """A number for a task, as if the card of a model stated it.

    Raises UsageError for a text that is no number.
    """
    readings = parse_points(target)
    if not readings:
        raise UsageError(
            f"--mine {target}: wanted a number such as 75.46, found {target!r}"
        )
    similarity, correlation = CORRELATION_SCORES[metric]
    return CardNumber(
        Statement(target, metric, data_set=task, source="--mine"),
        task=task,
        similarity=similarity,
        correlation=correlation,
        readings=readings,
    )


def _doubt(data_set: DataSet, statement: Statement) -> str:
    """Why the pairs of a number may differ from the pairs here; empty where they are the same."""
    if data_set.is_guess:
        return f"{statement.data_set!r} may be another data set"
    tasks = data_set.tasks.values()
    known_ids = ("", data_set.id, data_set.name.lower(), *tasks)
    if statement.data_set_id.lower().removeprefix(OWN_DATA_SETS) not in known_ids:
        return f"the pairs of {statement.data_set_id!r} are not known here"
    known_revisions = ("", "None", *data_set.revisions, *tasks)
    if data_set.revisions and statement.revision not in known_revisions:
        return f"its pairs are of revision {statement.revision[:12]}, which is not known here"
    return ""


# Cards of several models


def mark_other_models(
    numbers: Sequence[CardNumber], names: Iterable[str]
) -> tuple[CardNumber, ...]:
    """The numbers of a card, where the numbers of other models are marked.

    A card's `model-index` may name several models. If one of them is this model, the
    numbers of the others are not compared: each gets `why_not`. If none of them is, the
    numbers may be this model's or not: each gets a `doubt`.

    Args:
        numbers: The numbers of a card.
        names: Names of this model, with or without the owner's: `me/model@revision`.
    """
    names_of_model = {
        _name_without_owner(name.partition("@")[0]) for name in names if name
    }
    names_in_card = {_model_name(number) for number in numbers} - {""}
    if len(names_in_card) < 2:
        return tuple(numbers)
    card_names_model = not names_in_card.isdisjoint(names_of_model)
    marked = []
    for number in numbers:
        model = number.statement.model
        if model and not card_names_model:
            doubt = f"the card has numbers of {len(names_in_card)} models, none by this name"
            number = replace(number, doubt=doubt)
        elif model and _model_name(number) not in names_of_model:
            number = replace(number, why_not=f"of another model, {model}")
        marked.append(number)
    return tuple(marked)


def _model_name(number: CardNumber) -> str:
    """The name of a number's model, without its owner, in lower case."""
    return _name_without_owner(number.statement.model)


def _name_without_owner(model: str) -> str:
    """The name of a model without its owner, in lower case: `me/Model` is `model`."""
    return model.rpartition("/")[2].lower()
