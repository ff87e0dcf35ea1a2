"""The numbers that the card and the result files of a model state.

Four forms are read: `model-index` in the front matter of a card (README.md), the hub's
`.eval_results/*.yaml`, result files of mteb, and a CSV file. A form has one function,
which makes a `Statement` of each number: the number and its names as the file has them.
`harness.conclusions.cards` interprets them.

A number is a text, with the digits that the file has: a verdict depends on them.
"""

from __future__ import annotations

import csv
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Required, TypedDict

import msgspec
from msgspec import Meta

from harness.conclusions.mteb_files import (
    NO_SETTINGS,
    RUN_SETTINGS,
    RunSettings,
    SubsetKey,
    scores_of_subsets,
    settings_of_subsets,
)
from harness.core.errors import DataError
from harness.core.files import parse_json, require_no_pointer
from harness.results.verdict import readings_in_points

FORMS_OF_NUMBERS = (
    "the model-index of a card, .eval_results of the hub, a result file of mteb, or a CSV file "
    "with the names of tasks above numbers"
)
CARD_FILE = "README.md"
EVAL_RESULTS_FOLDER = ".eval_results"
# The files of a model's folder that may state numbers.
FILES_OF_MODEL = (
    CARD_FILE,
    f"{EVAL_RESULTS_FOLDER}/*.y*ml",
    *(f"{folder}/**/*.json" for folder in ("results", "mteb_results", "mteb")),
    "evaluation/mteb/**/*.json",
)
MTEB_RESULTS = "https://github.com/embeddings-benchmark/results"

# The largest card or result file that is read; the hub's have a few megabytes at most.
MAX_BYTES = 50_000_000
# The most numbers of a YAML file, in which an alias makes many numbers of a few bytes.
MAX_NUMBERS = 50_000


@dataclass(frozen=True)
class Statement:
    """A number as its source states it; nothing is interpreted yet.

    A field that the source does not have is empty. A malformed result is a statement
    without a metric, whose `source` names the result and the error.

    Attributes:
        value: The number with its digits, or the text in its place.
        metric: The name of its metric.
        data_set: The name of the data set.
        data_set_id: The repository of the data set on the hub.
        config: The subset of the data set.
        split: The split of the data set.
        revision: The commit of the data set.
        task_type: The kind of task, as the hub names it: STS, Classification.
        of_mteb: Whether the name of the data set is that of mteb's task.
        languages: The languages of its texts as mteb writes them, `eng-Latn`.
        model: The model whose number it is, as a card names it.
        source: The file that states it.
        settings: The arguments of `encode` with which mteb measured it, by name.
        versions: The versions of the packages with which mteb measured it, by name.
    """

    value: str
    metric: str
    data_set: str = ""
    data_set_id: str = ""
    config: str = ""
    split: str = ""
    revision: str = ""
    task_type: str = ""
    of_mteb: bool = False
    languages: tuple[str, ...] = ()
    model: str = ""
    source: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)


def text_of(value: Any) -> str:
    """A value of a file as a text; empty for none.

    A list or mapping is abridged: an alias of YAML makes a long one of few bytes.
    """
    if isinstance(value, list | dict):
        return reprlib.repr(value)
    return "" if value is None else str(value)


# Finding files


def card_files_of_model(folder: Path) -> list[Path]:
    """The files of a model's folder that may state numbers."""
    return [path for place in FILES_OF_MODEL for path in sorted(folder.glob(place))]


def card_files(path: Path) -> list[Path]:
    """A file itself, or the files of a folder that may state numbers.

    A folder is a model's folder, or it holds result files at any depth.
    """
    if path.is_file():
        return [path]
    return card_files_of_model(path) or sorted(path.rglob("*.json"))


# Reading statements


def statements_of_file(path: Path) -> Iterator[Statement]:
    """The numbers that a card or result file states. Raises DataError for a malformed file."""
    require_no_pointer(path)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise DataError(
            f"{path}: wanted a file of at most {MAX_BYTES:,} bytes, found {size:,}"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: wanted a text in UTF-8, found {error}") from None
    yield from statements_of_text(path, text)


def statements_of_text(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of a card or result file that was read, in the form that its name tells.

    Raises DataError for a malformed text.
    """
    match path.suffix:
        case ".json":
            yield from _statements_of_result_file(path, text)
        case ".csv":
            yield from _statements_of_csv(path, text)
        case ".yaml" | ".yml":
            yield from _bounded(path, _statements_of_eval_results(path, text))
        case _:
            yield from _bounded(path, _statements_of_card(path, text))


def _bounded(path: Path, statements: Iterator[Statement]) -> Iterator[Statement]:
    """The statements of a YAML file. Raises DataError if there are more than MAX_NUMBERS."""
    yield from islice(statements, MAX_NUMBERS)
    if next(statements, None) is not None:
        raise DataError(f"{path}: wanted at most {MAX_NUMBERS:,} numbers, found more")


class ModelOfIndex(TypedDict, total=False):
    """A model of `model-index`, with its results."""

    name: Any
    results: Required[list[Any]]


FrontMatter = TypedDict(
    "FrontMatter", {"model-index": list[ModelOfIndex] | None}, total=False
)


def _statements_of_card(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of `model-index` in the front matter of a card."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    block = REGEX_YAML_BLOCK.search(text)
    if block is None and re.search(r"^model-index:", text, re.MULTILINE):
        if "\r\r\n" in text:
            raise DataError(
                f"{path}: wanted lines that end in LF or CR LF, found CR CR LF, as after a "
                "conversion that was done twice; write the file with LF"
            )
        raise DataError(
            f"{path}: wanted model-index in front matter, which is the first of the file, between "
            "two lines of ---; found it elsewhere"
        )
    front_matter = _parse_yaml(path, block[2]) if block else None
    index = _typed(front_matter or {}, FrontMatter, path).get("model-index")
    for model in index or ():
        models = [{"name": "", **model, "results": [one]} for one in model["results"]]
        yield from _statements_of_results(models, _entries_of_index, path.name)


def _entries_of_index(model: Mapping[str, Any]) -> list[Statement]:
    """The numbers of a model of `model-index`, one for each metric of a result."""
    from huggingface_hub.repocard_data import model_index_to_eval_results

    name, entries = model_index_to_eval_results([dict(model)])
    return [
        Statement(
            value=text_of(entry.metric_value),
            metric=text_of(entry.metric_type),
            data_set=text_of(entry.dataset_name),
            data_set_id=text_of(entry.dataset_type),
            config=text_of(entry.dataset_config),
            split=text_of(entry.dataset_split),
            revision=text_of(entry.dataset_revision),
            task_type=text_of(entry.task_type),
            model=text_of(name),
        )
        for entry in entries
    ]


def _statements_of_eval_results(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of a file of `.eval_results`, each the main score of a task."""
    results = _typed(_parse_yaml(path, text), list[Any], path)
    source = f"{EVAL_RESULTS_FOLDER}/{path.name}"
    return _statements_of_results(results, _entry_of_eval_results, source)


def _entry_of_eval_results(result: Any) -> list[Statement]:
    """The number of a result of `.eval_results`."""
    from huggingface_hub import parse_eval_result_entries

    [entry] = parse_eval_result_entries([result])
    # mteb's id of a task is NAME_CONFIG_SPLIT, as STS12_default_test, or NAME alone.
    name, _, config_and_split = text_of(entry.task_id).partition("_")
    config, _, split = config_and_split.rpartition("_")
    statement = Statement(
        value=text_of(entry.value),
        metric="main_score",
        data_set=name,
        of_mteb=True,
        data_set_id=text_of(entry.dataset_id),
        config=config,
        split=split,
        revision=text_of(entry.dataset_revision),
    )
    return [statement]


# Errors that the hub's readers raise for a malformed result.
MALFORMED_RESULT = (KeyError, TypeError, AttributeError, ValueError)


def _statements_of_results(
    results: Iterable[Any], read: Callable[[Any], list[Statement]], source: str
) -> Iterator[Statement]:
    """The numbers of results in a form of the hub, which `read` reads one by one."""
    for number, result in enumerate(results, start=1):
        try:
            for statement in read(result):
                yield replace(statement, source=source)
        except MALFORMED_RESULT as error:
            fault = f"{source}, result {number}: {type(error).__name__} {error}"
            yield Statement(value="", metric="", source=fault)


# The scores of mteb since 1.11: subsets by split, at least one of each.
Subsets = Annotated[list[dict[str, Any]], Meta(min_length=1)]
Scores = Annotated[dict[str, Subsets], Meta(min_length=1)]


def _statements_of_result_file(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of a result file of mteb, in the format of any version."""
    try:
        content = parse_json(text, finite=False, parse_float=str)
    except ValueError as error:
        raise DataError(
            f"{path}: wanted a result file of mteb, found {error}"
        ) from None
    content = _typed(content, dict[str, Any], path)
    task_name = content.get("task_name") or content.get("mteb_dataset_name")
    if not task_name:
        return
    if "scores" in content:
        _typed(content["scores"], Scores, f"{path}, scores")
    run_settings = _run_settings(path.with_name(RUN_SETTINGS))
    for scores in scores_of_subsets(content):
        key = (text_of(task_name), scores.split, scores.subset)
        run = run_settings.get(key, NO_SETTINGS)
        for metric, value in scores.metrics.items():
            yield Statement(
                value=text_of(value),
                metric=metric,
                data_set=text_of(task_name),
                config=scores.subset,
                split=scores.split,
                revision=text_of(content.get("dataset_revision")),
                languages=tuple(map(text_of, scores.languages)),
                of_mteb=True,
                source=path.name,
                settings=run.arguments,
                versions=run.versions,
            )


def _run_settings(path: Path) -> Mapping[SubsetKey, RunSettings]:
    """The settings of a run of mteb, none without a file; raises DataError for a malformed one."""
    try:
        return settings_of_subsets(path.read_bytes() if path.is_file() else b"")
    except msgspec.DecodeError as error:
        raise DataError(
            f"{path}: wanted settings of a run of mteb, an object a line; {error}"
        ) from None


def _statements_of_csv(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of a CSV file: Spearman correlations, each below the name of its task.

    Raises DataError for a file with the numbers of several models.
    """
    rows = [row for row in csv.DictReader(StringIO(text)) if any(row.values())]
    if len(rows) > 1:
        raise DataError(
            f"{path}: wanted the numbers of one model in one row below the names of the tasks, "
            f"found {len(rows)} rows; keep one of them"
        )
    for row in rows:
        for column, value in row.items():
            if column and isinstance(value, str) and readings_in_points(value):
                yield Statement(value, "spearman", data_set=column, source=path.name)


# The content of files


def _typed(content: Any, kind: Any, place: object) -> Any:
    """The content of a file as a type. Raises DataError for another one."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{place}: wanted results in the form of the hub or of mteb; {error}"
        ) from None


def _parse_yaml(path: Path, text: str) -> Any:
    """A YAML document whose decimal numbers are texts. DataError names the line."""
    import yaml

    # The loader in C is faster, but not every build of PyYAML has it.
    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """The safe loader, with the digits of numbers."""

    Loader.add_constructor("tag:yaml.org,2002:float", Loader.construct_scalar)
    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506 - it is the safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        fault = " ".join(str(error).split())
        raise DataError(f"{path}: wanted YAML, found something else: {fault}") from None
