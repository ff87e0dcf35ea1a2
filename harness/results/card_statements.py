"""The numbers that the card and the result files of a model state.

Four forms are read: `model-index` in the front matter of a card (README.md), the hub's
`.eval_results/*.yaml`, result files of mteb, and a CSV file. A form has one function,
which makes a `Statement` of each number: the number and its names as the file has them.
`harness.results.cards` interprets them.

Numbers keep their printed digits throughout, since a verdict depends on them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.files import parse_json, require_no_pointer
from harness.results.mteb_files import scores_of_subsets
from harness.results.verdict import readings_in_points

FORMS_OF_NUMBERS = (
    "the model-index of a card, .eval_results of the hub, a result file of mteb, or a CSV file "
    "with the names of tasks above numbers"
)
CARD_FILE = "README.md"
EVAL_RESULTS_FOLDER = ".eval_results"
# Where repositories of models keep mteb's result files.
RESULT_FOLDERS = ("results", "mteb_results", "mteb", "evaluation/mteb")
# The file of mteb with the arguments of `encode` of each run, a line for each.
RUN_SETTINGS = "run_settings.jsonl"
MTEB_RESULTS = "https://github.com/embeddings-benchmark/results"

# The largest card or result file that is read; the hub's have a few megabytes at most.
MAX_BYTES = 50_000_000
MAX_NUMBERS = 50_000  # numbers of one file


@dataclass(frozen=True)
class Statement:
    """A number as its source states it; nothing is interpreted yet.

    A field that the source does not have is empty. A malformed result is a statement
    without a metric, whose `source` names the result and the error.

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
        settings: The arguments of `encode` with which mteb measured it, by name.
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
    settings: tuple[tuple[str, Any], ...] = ()


# Finding files


def card_files_of_model(folder: Path) -> Iterator[Path]:
    """The files of a model's folder that may state numbers."""
    if not folder.is_dir():
        return
    if (folder / CARD_FILE).is_file():
        yield folder / CARD_FILE
    yield from sorted((folder / EVAL_RESULTS_FOLDER).glob("*.y*ml"))
    for name in RESULT_FOLDERS:
        yield from _result_files(folder / name)


def card_files(path: Path) -> Iterator[Path]:
    """A file itself, or the files of a folder that may state numbers.

    A folder is a model's folder, or it holds result files at any depth.
    """
    if path.is_file():
        yield path
        return
    files_of_model = [*card_files_of_model(path)]
    if files_of_model:
        yield from files_of_model
    else:
        yield from _result_files(path)


def _result_files(folder: Path) -> list[Path]:
    """The result files of a folder at any depth; a file that names no task has no score."""
    return sorted(folder.rglob("*.json"))


# Reading statements


def statements_of_file(path: Path) -> Iterator[Statement]:
    """The numbers that a card or result file states, a bounded number of them.

    Raises DataError for a malformed file.
    """
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
    if path.suffix == ".json":
        statements = _statements_of_result_file(path, text)
    elif path.suffix == ".csv":
        statements = _statements_of_csv(path, text)
    elif path.suffix in (".yaml", ".yml"):
        statements = _statements_of_eval_results(path, text)
    else:
        statements = _statements_of_card(path, text)
    yield from islice(statements, MAX_NUMBERS)
    # An alias of YAML makes many numbers of a few bytes.
    if next(statements, None) is not None:
        raise DataError(f"{path}: wanted at most {MAX_NUMBERS:,} numbers, found more")


# Errors that the hub's readers raise for a malformed result.
MALFORMED_RESULT = (KeyError, TypeError, AttributeError, ValueError)


def _statements_of_card(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of `model-index` in the front matter of a card."""
    for model_number, model in enumerate(_model_index(path, text), start=1):
        results = model.get("results") if isinstance(model, dict) else None
        if not isinstance(results, list):
            raise DataError(
                f"{path}: model-index, model {model_number}: wanted a list of results"
            )
        model_name = str(model.get("name") or "")
        for result_number, result in enumerate(results, start=1):
            try:
                yield from _statements_of_result(
                    result, model=model_name, source=path.name
                )
            except MALFORMED_RESULT as error:
                yield _malformed(f"{path.name}, result {result_number}", error)


def _model_index(path: Path, text: str) -> list[Any]:
    """The list of models in a card's front matter; empty for a card without one."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    block = REGEX_YAML_BLOCK.search(text)
    if block is None and re.search(r"^model-index:", text, re.MULTILINE):
        raise DataError(
            f"{path}: wanted model-index in front matter, which is the first of the file, between "
            "two lines of ---; found it elsewhere"
        )
    if block is None:
        return []
    front_matter = _parse_yaml(path, block.group(2))
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


def _statements_of_result(result: Any, *, model: str, source: str) -> list[Statement]:
    """The numbers of one result of `model-index`, one for each of its metrics."""
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
    """The statement in place of a malformed result."""
    reason = f"{place}: {type(error).__name__} {error}"
    return Statement(value=None, metric="", source=reason)


def _statements_of_eval_results(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of a file of `.eval_results`, each the main score of a task."""
    from huggingface_hub import parse_eval_result_entries

    results = _parse_yaml(path, text)
    if not isinstance(results, list):
        raise DataError(
            f"{path}: wanted a list of results, found a {type(results).__name__}"
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
    """The numbers of a result file of mteb, in the format of any version."""
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
    if not task_name:
        return
    if "scores" in content:
        _require_scores(path, content["scores"])
    run_settings = _run_settings(path.with_name(RUN_SETTINGS))
    for scores in scores_of_subsets(content):
        for metric, value in scores.metrics.items():
            yield Statement(
                value=_number_or_text(value),
                metric=metric,
                data_set=str(task_name),
                config=scores.subset,
                split=scores.split,
                revision=str(content.get("dataset_revision") or ""),
                source=path.name,
                settings=run_settings.get((task_name, scores.split, scores.subset), ()),
            )


def _run_settings(path: Path) -> Mapping[tuple[str, str, str], tuple[Any, ...]]:
    """The arguments of `encode` by task, split and subset; none without a file.

    A line may name one split and one subset, or several. Raises DataError for a line that
    is no JSON object.
    """
    settings: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    if not path.is_file():
        return settings
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = dict(parse_json(line))
            arguments = dict(entry.get("encode_kwargs") or {})
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{path}, line {number}: wanted settings of a run of mteb, found {error}"
            ) from None
        named = tuple((name, _number_or_text(arguments[name])) for name in arguments)
        for split in entry.get("splits") or [entry.get("split")]:
            for subset in entry.get("subsets") or [entry.get("subset")]:
                settings[str(entry.get("task")), split, subset] = named
    return settings


def _require_scores(path: Path, scores_by_split: Any) -> None:
    """Refuse `scores` other than a list of subsets for each split."""
    is_whole = isinstance(scores_by_split, dict) and bool(scores_by_split)
    for subsets in scores_by_split.values() if is_whole else ():
        is_list = isinstance(subsets, list) and bool(subsets)
        if not is_list or not all(isinstance(subset, dict) for subset in subsets):
            is_whole = False
    if not is_whole:
        raise DataError(
            f"{path}: wanted a list of subsets for each split in `scores`, found "
            f"{scores_by_split!r:.60}; write the file again"
        )


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


class PrintedNumber(float):
    """A number with the digits that it was written with: `text` is `75.40`."""

    text: str

    def __new__(cls, text: str) -> PrintedNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number


def _parse_yaml(path: Path, text: str) -> Any:
    """A YAML document whose numbers keep their digits. DataError names the line."""
    import yaml

    # The loader in C is faster, but not every build of PyYAML has it.
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
    """The value itself if it is a number or None, else its text, so that statements have hashes."""
    return value if isinstance(value, int | float | None) else str(value)
