"""The claims of a model: numbers that its card and its result files state for tasks.

Three forms are read: `model-index` in the front matter of a card (README.md), the hub's
`.eval_results/*.yaml`, and result files of mteb. A file is first read into `Statement`s:
each is a number and its names, as the file has them. Each statement is then interpreted
as a `CardClaim`: a score of a task that is known here. `card_data_sets.toml` has the
names of data sets. A claim that nothing here can measure keeps the reason.

Numbers keep their printed digits throughout, since a verdict depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import AssetMissing, DataError
from harness.core.json_text import parse_json
from harness.core.metrics.similarity import (
    CORRELATIONS,
    COSINE,
    SIMILARITIES,
    score_name,
)
from harness.core.toml import read_rows
from harness.registry import Registry

CARD_FILE = "README.md"
EVAL_RESULTS_FOLDER = ".eval_results"
# Where repositories of models keep mteb's result files.
RESULT_FOLDERS = ("results", "mteb_results", "mteb", "evaluation/mteb")
# Files of mteb in these folders that hold no scores.
FILES_WITHOUT_SCORES = ("model_meta.json", "run_settings.json")
MTEB_RESULTS = "https://github.com/embeddings-benchmark/results"

# Of a card or a result file; the largest on the hub have a few megabytes.
MAX_BYTES = 50_000_000
MAX_CLAIMS = 50_000  # of one file

# The similarity function of sentence-transformers' `spearman_max`: the best of four.
BEST_SIMILARITY = "best"


@dataclass(frozen=True)
class DataSet:
    """A data set as cards name it.

    Attributes:
        name: mteb's name of its task, or the name that an evaluator was given.
        tasks: For each split, the task here that holds its pairs.
        id: The data set's repository on the hub.
        revisions: The commits of this repository that hold the pairs of the tasks here.
        is_guess: Whether the name may as well mean other pairs: a claim on it can be
            confirmed and never differs.
    """

    name: str
    tasks: Mapping[str, str]
    id: str = ""
    revisions: tuple[str, ...] = ()
    is_guess: bool = False


@cache
def data_sets() -> tuple[DataSet, ...]:
    """Every data set that cards name and whose pairs are known here; read once."""
    return read_rows(
        DataSet, Path(__file__).with_name("card_data_sets.toml"), "data_set"
    )


@dataclass(frozen=True)
class Statement:
    """A number as its source states it; nothing is interpreted yet.

    A field that the source does not have is empty. A result that does not have the form
    of its file is a statement without a metric, whose `source` says what is wrong.

    Attributes:
        value: The number, or the text in its place.
        metric: The name of its metric.
        data_set: The name of the data set.
        data_set_id: The repository of the data set on the hub.
        config: The subset of the data set.
        split: The split of the data set.
        revision: The commit of the data set.
        task_type: The kind of task, as the hub names it: STS, Classification.
        model: The model whose number it is, as a card names it.
        source: The file that states it.
    """

    value: Any
    metric: str
    data_set: str = ""
    data_set_id: str = ""
    config: str = ""
    split: str = ""
    revision: str = ""
    task_type: str = ""
    model: str = ""
    source: str = ""


@dataclass(frozen=True)
class CardClaim:
    """A number that a model's card or result file states.

    Attributes:
        statement: The number and its names, as the source has them.
        task: The task here that holds its pairs; empty where nothing here measures it.
        similarity: The similarity function: cosine, dot, euclidean, manhattan, or
            `best`.
        correlation: Spearman's or Pearson's.
        readings: The number in points as it may be meant, with its printed digits: of a
            number between -1 and 1 the fraction first, then the percentage.
        why_not: Why nothing here measures it, or compares it; empty where it is
            measured.
        doubt: Why a difference would not refute it: its pairs may be others than those
            here. Empty where its pairs are known.
    """

    statement: Statement
    task: str = ""
    similarity: str = COSINE
    correlation: str = "spearman"
    readings: tuple[str, ...] = ()
    why_not: str = ""
    doubt: str = ""

    @property
    def score(self) -> str:
        """The name of its score in a record."""
        return score_name(self.similarity, self.correlation)


class ReadClaims(NamedTuple):
    """The claims of some files, and for each file that could not be read a line that says why."""

    claims: tuple[CardClaim, ...]
    faults: tuple[str, ...]


# Finding files


def claims_of_model(
    folder: Path, registry: Registry, further_paths: Sequence[Path] = ()
) -> ReadClaims:
    """The claims of a model: those in its folder, and those in further files.

    Args:
        folder: The folder of the model: its card, `.eval_results` and result files are
            looked for.
        registry: The tasks.
        further_paths: Cards, result files and folders of these that belong to the model,
            too.

    Raises:
        AssetMissing: One of the further files does not exist.
    """
    for path in further_paths:
        if not path.exists():
            raise AssetMissing(f"--claims {path}: there is no such file or folder")
    files = [*claim_files_of_model(folder)]
    for path in further_paths:
        files += claim_files(path)
    return claims_of_files(files, registry)


def claims_of_files(files: Iterable[Path], registry: Registry) -> ReadClaims:
    """The claims of cards and result files; a number that is stated twice is one claim."""
    statements: dict[Statement, None] = {}  # in their order, each once
    faults: list[str] = []
    for path in files:
        try:
            statements_of_file = [*_statements(path)]
        except DataError as error:
            faults.append(str(error))
        else:
            statements |= dict.fromkeys(statements_of_file)
    claims = tuple(interpret(statement, registry) for statement in statements)
    return ReadClaims(claims=claims, faults=tuple(faults))


def claim_files_of_model(folder: Path) -> Iterator[Path]:
    """The files of a model's folder that may state numbers."""
    if not folder.is_dir():
        return
    if (folder / CARD_FILE).is_file():
        yield folder / CARD_FILE
    yield from sorted((folder / EVAL_RESULTS_FOLDER).glob("*.y*ml"))
    for name in RESULT_FOLDERS:
        yield from _result_files(folder / name)


def claim_files(path: Path) -> Iterator[Path]:
    """A file itself, or the files of a folder that may state numbers.

    A folder is a model's folder, or it holds result files at any depth.
    """
    if path.is_file():
        yield path
        return
    files_of_model = [*claim_files_of_model(path)]
    if files_of_model:
        yield from files_of_model
    else:
        yield from _result_files(path)


def _result_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.json")):
        if path.name not in FILES_WITHOUT_SCORES:
            yield path


# Reading statements


def _statements(path: Path) -> Iterator[Statement]:
    """The numbers of one file. Raises DataError for a file that does not have its form."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise DataError(
            f"{path}: wanted a file of at most {MAX_BYTES:,} bytes, found {size:,}"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: wanted a text in UTF-8, found {error}") from None
    if path.suffix == ".json":
        yield from _statements_of_result_file(path, text)
    elif path.suffix in (".yaml", ".yml"):
        yield from _statements_of_eval_results(path, text)
    else:
        yield from _statements_of_card(path, text)


# What the hub's readers raise for a result that does not have its form.
MALFORMED_RESULT = (KeyError, TypeError, AttributeError, ValueError)


def _statements_of_card(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of `model-index` in the front matter of a card."""
    count = 0
    for model_number, model in enumerate(_model_index(path, text), start=1):
        results = model.get("results") if isinstance(model, dict) else None
        if not isinstance(results, list):
            raise DataError(
                f"{path}: model-index, model {model_number}: wanted a list of results"
            )
        name = str(model.get("name") or "")
        for result_number, result in enumerate(results, start=1):
            count += _metrics_in(result)
            if count > MAX_CLAIMS:
                raise DataError(
                    f"{path}: wanted at most {MAX_CLAIMS:,} numbers, found more"
                )
            try:
                yield from _statements_of_result(result, model=name, source=path.name)
            except MALFORMED_RESULT as error:
                place = f"{path.name}, result {result_number}"
                yield _malformed(place, error)


def _model_index(path: Path, text: str) -> list[Any]:
    """The list of models in a card's front matter; empty for a card without one."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    block = REGEX_YAML_BLOCK.search(text)
    front_matter = None if block is None else _parse_yaml(path, block.group(2))
    if front_matter is None:
        return []
    if not isinstance(front_matter, dict):
        raise DataError(
            f"{path}: wanted front matter of keys, found a {type(front_matter).__name__}"
        )
    index = front_matter.get("model-index")
    if not index:
        return []
    if not isinstance(index, list):
        raise DataError(
            f"{path}: model-index: wanted a list, found a {type(index).__name__}"
        )
    return index


def _metrics_in(result: Any) -> int:
    """How many metrics a result of `model-index` lists; 1 where it is malformed."""
    metrics = result.get("metrics") if isinstance(result, dict) else None
    return len(metrics) if isinstance(metrics, list) else 1


def _statements_of_result(result: Any, *, model: str, source: str) -> list[Statement]:
    """The numbers of one result of `model-index`, each of a metric."""
    from huggingface_hub.repocard_data import model_index_to_eval_results

    _, entries = model_index_to_eval_results([{"name": model, "results": [result]}])
    return [
        Statement(
            value=_number_or_text(entry.metric_value),
            metric=str(entry.metric_type),
            data_set=str(entry.dataset_name),
            data_set_id=str(entry.dataset_type),
            config=str(entry.dataset_config or ""),
            split=str(entry.dataset_split or ""),
            revision=str(entry.dataset_revision or ""),
            task_type=str(entry.task_type),
            model=model,
            source=source,
        )
        for entry in entries
    ]


def _malformed(place: str, error: Exception) -> Statement:
    """The statement of a result that does not have the hub's form."""
    reason = f"{place}: {type(error).__name__} {error}"
    return Statement(value=None, metric="", source=reason)


def _statements_of_eval_results(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of a file of `.eval_results`: each is the main score of a task."""
    from huggingface_hub import parse_eval_result_entries

    results = _parse_yaml(path, text)
    if not isinstance(results, list):
        raise DataError(
            f"{path}: wanted a list of results, found a {type(results).__name__}"
        )
    if len(results) > MAX_CLAIMS:
        raise DataError(
            f"{path}: wanted at most {MAX_CLAIMS:,} numbers, found {len(results):,}"
        )
    source = f"{EVAL_RESULTS_FOLDER}/{path.name}"
    for number, result in enumerate(results, start=1):
        try:
            [entry] = parse_eval_result_entries([result])
        except MALFORMED_RESULT as error:
            yield _malformed(f"{source}, result {number}", error)
            continue
        # mteb's id of a task is NAME_CONFIG_SPLIT, as STS12_default_test, or NAME alone.
        name, _, config_and_split = str(entry.task_id).partition("_")
        config, _, split = config_and_split.rpartition("_")
        yield Statement(
            value=_number_or_text(entry.value),
            metric="main_score",
            data_set=name,
            data_set_id=str(entry.dataset_id),
            config=config,
            split=split,
            revision=str(entry.dataset_revision or ""),
            source=source,
        )


def _statements_of_result_file(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of one of mteb's result files, of any of its versions."""
    try:
        content = parse_json(text, finite=False, parse_float=PrintedNumber)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: wanted a result file of mteb, found {error}"
        ) from None
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: wanted a result file of mteb, found a {type(content).__name__}"
        )
    task_name = content.get("task_name") or content.get("mteb_dataset_name")
    # mteb's first files have the splits among their other keys.
    scores_by_split = content.get("scores", content)
    if not task_name or not isinstance(scores_by_split, dict):
        return
    for split, subsets in scores_by_split.items():
        # In mteb's first files a split is one subset.
        for subset in subsets if isinstance(subsets, list) else [subsets]:
            if not isinstance(subset, dict):
                continue
            for metric, value in _metrics_of_subset(subset):
                yield Statement(
                    value=_number_or_text(value),
                    metric=metric,
                    data_set=str(task_name),
                    config=str(subset.get("hf_subset") or ""),
                    split=split,
                    revision=str(content.get("dataset_revision") or ""),
                    source=path.name,
                )


def _metrics_of_subset(subset: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The name and value of every metric of a subset.

    It is `cosine_spearman`, or in mteb's first files `spearman` within `cos_sim`.
    """
    for name, value in subset.items():
        if isinstance(value, dict):
            for inner_name, inner_value in value.items():
                yield f"{name}_{inner_name}", inner_value
        elif isinstance(value, int | float) and "time" not in name:
            yield name, value


class PrintedNumber(float):
    """A number that knows the digits that it was written with: 75.40."""

    text: str

    def __new__(cls, text: str) -> PrintedNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number


def _parse_yaml(path: Path, text: str) -> Any:
    """A YAML document whose numbers keep their digits. DataError names the line, in one line."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """The safe loader, with the digits of numbers."""

    Loader.add_constructor("tag:yaml.org,2002:float", _construct_number)
    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506 - it is the safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        problem = getattr(error, "problem", None) or type(error).__name__
        raise DataError(
            f"{path}{line}: wanted YAML, found something else ({problem})"
        ) from None


def _construct_number(loader: Any, node: Any) -> float:
    """The number of a node of a YAML document."""
    digits = loader.construct_scalar(node)
    try:
        return PrintedNumber(digits)
    except ValueError:  # YAML's own spellings, such as .inf and 1_000.0
        return float(loader.construct_yaml_float(node))


def _number_or_text(value: Any) -> Any:
    """A number or None as it is, and anything else as a text, so that a statement has a hash."""
    return value if isinstance(value, int | float | None) else str(value)


# Interpreting statements

# Names of the one subset of a data set, or of its English one.
KNOWN_CONFIGS = ("", "default", "None", "en", "en-en")


def interpret(statement: Statement, registry: Registry) -> CardClaim:
    """The claim that a statement makes, with the reason where nothing here measures it."""
    claim = CardClaim(statement)
    if not statement.metric:
        why_not = f"not in the hub's form ({statement.source})"
        return replace(claim, why_not=why_not)
    data_set = _data_set(statement, registry)
    if data_set is None:
        task_type = f" ({statement.task_type})" if statement.task_type else ""
        return replace(claim, why_not=f"no task here{task_type}")
    if statement.config not in KNOWN_CONFIGS:
        why_not = f"no task here for the subset {statement.config}"
        return replace(claim, why_not=why_not)
    task = _task(data_set, statement.split)
    if task is None or task not in registry.tasks:
        why_not = f"no task here for the split {statement.split!r}"
        return replace(claim, why_not=why_not)
    meaning = parse_metric(statement.metric)
    if meaning is None:
        why_not = f"the metric {statement.metric} is not measured here"
        return replace(claim, why_not=why_not)
    readings = parse_points(statement.value)
    if not readings:
        why_not = f"its value {statement.value!r:.30} is no correlation"
        return replace(claim, why_not=why_not)
    similarity, correlation = meaning
    return replace(
        claim,
        task=task,
        similarity=similarity,
        correlation=correlation,
        readings=readings,
        doubt=_doubt(data_set, statement),
    )


def _data_set(statement: Statement, registry: Registry) -> DataSet | None:
    """The data set that a statement names, by its repository or else by its name."""
    for data_set in data_sets():
        if data_set.id and data_set.id == statement.data_set_id:
            return data_set
    # "MTEB STS12 (en)" is STS12.
    name = re.sub(r"^MTEB\s+|\s*\(.*\)$", "", statement.data_set).strip()
    for data_set in data_sets():
        if data_set.name.lower() == name.lower().replace(" ", "-"):
            return data_set
    if name in registry.tasks:
        # A card that this project wrote, for a task that only it has a name for.
        scored_split = "+".join(registry.tasks[name].scored)
        return DataSet(name=name, tasks={"": name, scored_split: name})
    return None


def _task(data_set: DataSet, split: str) -> str | None:
    """The task that holds the pairs of a split; of `test` if a statement names none."""
    if split in data_set.tasks:
        return data_set.tasks[split]
    other_names = {"": "test", "dev": "validation"}
    return data_set.tasks.get(other_names.get(split, split))


SIMILARITY_SPELLINGS = {
    "cos_sim": COSINE,
    "cosine": COSINE,
    "max": BEST_SIMILARITY,
    "dot_score": "dot",
}
SIMILARITY_NAMES = (*SIMILARITIES, *SIMILARITY_SPELLINGS)
CORRELATION_SPELLINGS = {"pearsonr": "pearson", "spearmanr": "spearman"}


def parse_metric(metric: str) -> tuple[str, str] | None:
    """The similarity function and the correlation that a metric's name means; None for others.

    mteb writes `cosine_spearman` and `cos_sim_spearman`, the trainers of
    sentence-transformers `spearman_cosine`. `spearman` alone is of the model's own
    similarity, and `main_score` is Spearman's correlation.
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


def parse_points(value: Any) -> tuple[str, ...]:
    """The readings of a correlation in points, with its digits; empty for what is none.

    A number from -1 to 1 has two: a fraction, which is the first, and a percentage.
    """
    if isinstance(value, bool) or value is None:
        return ()
    text = value.text if isinstance(value, PrintedNumber) else str(value)
    text = text.strip()
    try:
        number = Decimal(text.removesuffix("%"))
    except InvalidOperation:
        return ()
    if not number.is_finite() or abs(number) > 100:
        return ()
    as_percentage = f"{number:f}"
    if abs(number) > 1 or text.endswith("%"):
        return (as_percentage,)
    as_fraction = f"{number.scaleb(2):f}"
    return as_fraction, as_percentage


def _doubt(data_set: DataSet, statement: Statement) -> str:
    """Why the claim's pairs may be others than those here; empty where they are the same."""
    if data_set.is_guess:
        return f"{statement.data_set!r} may be another data set"
    tasks = data_set.tasks.values()
    known_ids = ("", data_set.id, data_set.name.lower(), *tasks)
    if statement.data_set_id.lower() not in known_ids:
        return f"the pairs of {statement.data_set_id!r} are not known here"
    known_revisions = ("", "None", *data_set.revisions, *tasks)
    if data_set.revisions and statement.revision not in known_revisions:
        return f"its pairs are of revision {statement.revision[:12]}, which is not known here"
    return ""


# Cards of several models


def set_other_models_apart(
    claims: Sequence[CardClaim], names: Iterable[str]
) -> tuple[CardClaim, ...]:
    """The claims of a card; a number of another model has a reason not to be compared.

    A card's `model-index` may name several models. If one of them is this model, the
    numbers of the others are not its own. If none is, each number may be its own or
    not, and is doubtful.

    Args:
        claims: The claims of a card.
        names: Names of this model, with or without the owner's: `me/model@revision`.
    """
    names_of_model = {_last_name(name.partition("@")[0]) for name in names if name}
    names_in_card = {_model_name(claim) for claim in claims} - {""}
    if len(names_in_card) < 2:
        return tuple(claims)
    is_named = not names_in_card.isdisjoint(names_of_model)
    marked = []
    for claim in claims:
        model = claim.statement.model
        if model and not is_named:
            doubt = f"the card has numbers of {len(names_in_card)} models, none by this name"
            claim = replace(claim, doubt=doubt)
        elif model and _model_name(claim) not in names_of_model:
            claim = replace(claim, why_not=f"of another model, {model}")
        marked.append(claim)
    return tuple(marked)


def _model_name(claim: CardClaim) -> str:
    """The name of the model whose number a claim is, without its owner."""
    return _last_name(claim.statement.model)


def _last_name(model: str) -> str:
    """The name of a model without its owner, to be compared: `me/Model` is `model`."""
    return model.rpartition("/")[2].lower()
