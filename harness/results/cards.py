"""The claims of a model: numbers that its card and its result files state for tasks.

Three forms are read: `model-index` in the front matter of a card (README.md), the hub's
`.eval_results/*.yaml`, and result files of mteb. Each number becomes a `CardClaim` with
its printed digits. What data set, split and metric it is of is looked up in
`card_data_sets.toml`; a claim that nothing here can measure keeps the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any

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
NO_RESULTS = ("model_meta.json", "run_settings.json")
MTEB_RESULTS = "https://github.com/embeddings-benchmark/results"

MOST_BYTES = 50_000_000  # of a card or a result file; the largest on the hub have a few megabytes
MOST_CLAIMS = 50_000  # of one source
BEST_SIMILARITY = (
    "best"  # of the four similarity functions: sentence-transformers' `spearman_max`
)


@dataclass(frozen=True)
class DataSet:
    """A data set as cards name it.

    Attributes:
        name: mteb's name of its task, or the name that an evaluator was given.
        tasks: The task here that holds the pairs of each split.
        id: The data set's repository on the hub.
        revisions: The commits of it that hold these very pairs.
        is_guess: Whether the name may as well mean other pairs: then a claim never
            differs.
    """

    name: str
    tasks: Mapping[str, str]
    id: str = ""
    revisions: tuple[str, ...] = ()
    is_guess: bool = False


@cache
def data_sets() -> tuple[DataSet, ...]:
    """Every data set that is known by the names of cards."""
    return read_rows(
        DataSet, Path(__file__).with_name("card_data_sets.toml"), "data_set"
    )


@dataclass(frozen=True)
class Statement:
    """A number as its source states it, every part a text: nothing is understood yet."""

    value: Any
    metric: str
    data_set: str = ""
    data_set_id: str = ""
    config: str = ""
    split: str = ""
    revision: str = ""
    kind: str = ""
    model: str = ""
    source: str = ""


@dataclass(frozen=True)
class CardClaim:
    """A number that a model's card or result file states.

    Attributes:
        stated: The number and its names, as the source has them.
        task: The task here that holds its pairs; empty where nothing here measures it.
        similarity: The similarity function: cosine, dot, euclidean, manhattan, or
            `best`.
        correlation: Spearman's or Pearson's.
        readings: The number in points as it may be meant, with its printed digits: of a
            number between -1 and 1 the fraction first, then the percentage.
        why_not: Why nothing here measures it, or compares it; empty where it is
            measured.
        is_doubtful: Why a difference would not refute it: its pairs may be others than
            those here.
    """

    stated: Statement
    task: str = ""
    similarity: str = COSINE
    correlation: str = "spearman"
    readings: tuple[str, ...] = ()
    why_not: str = ""
    is_doubtful: str = ""

    @property
    def score(self) -> str:
        """The name of its score in a record."""
        return score_name(self.similarity, self.correlation)


# Reading sources


def claims_of_model(
    folder: Path, registry: Registry, further: Sequence[Path] = ()
) -> tuple[tuple[CardClaim, ...], tuple[str, ...]]:
    """The claims of a model's folder and of further files, and what could not be read, a line each.

    Args:
        folder: The folder of the model: its card, `.eval_results` and result files are
            looked for.
        registry: The tasks.
        further: Cards, result files and folders of these that belong to the model, too.

    Raises:
        AssetMissing: One of the further files does not exist.
    """
    for path in further:
        if not path.exists():
            raise AssetMissing(f"--claims {path}: there is no such file or folder")
    files = [*claim_files(folder)]
    for path in further:
        files += claim_files_of(path)
    return claims_of_files(files, registry)


def claims_of_files(
    files: Iterable[Path], registry: Registry
) -> tuple[tuple[CardClaim, ...], tuple[str, ...]]:
    """The claims of cards and result files, and what could not be read, a line each."""
    statements: list[Statement] = []
    faults: list[str] = []
    for path in files:
        try:
            found = [*_statements(path)]
        except DataError as error:
            faults.append(str(error))
            continue
        statements += found
    distinct = dict.fromkeys(statements)
    return tuple(understood(statement, registry) for statement in distinct), tuple(
        faults
    )


def claim_files(folder: Path) -> Iterator[Path]:
    """The files of a model's folder that may state numbers."""
    if not folder.is_dir():
        return
    if (folder / CARD_FILE).is_file():
        yield folder / CARD_FILE
    yield from sorted((folder / EVAL_RESULTS_FOLDER).glob("*.y*ml"))
    for name in RESULT_FOLDERS:
        yield from _result_files(folder / name)


def claim_files_of(path: Path) -> Iterator[Path]:
    """A file, or those of a folder: a model's own, or result files anywhere in it."""
    if path.is_file():
        yield path
        return
    own = [*claim_files(path)]
    yield from own or _result_files(path)


def _result_files(folder: Path) -> Iterator[Path]:
    yield from (
        path for path in sorted(folder.rglob("*.json")) if path.name not in NO_RESULTS
    )


def _statements(path: Path) -> Iterator[Statement]:
    """The numbers of one file. Raises DataError for a file that is not what it should be."""
    if (size := path.stat().st_size) > MOST_BYTES:
        raise DataError(
            f"{path}: wanted a file of at most {MOST_BYTES:,} bytes, found {size:,}"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: wanted a text in UTF-8, found {error}") from None
    if path.suffix == ".json":
        yield from of_result_file(path, text)
    elif path.suffix in (".yaml", ".yml"):
        yield from of_eval_results(path, text)
    else:
        yield from of_card(path, text)


def of_card(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of `model-index` in the front matter of a card."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK
    from huggingface_hub.repocard_data import model_index_to_eval_results

    block = REGEX_YAML_BLOCK.search(text)
    data = _yaml(path, block.group(2)) if block else None
    if block is not None and data is not None and not isinstance(data, dict):
        raise DataError(
            f"{path}: wanted front matter of keys, found a {type(data).__name__}"
        )
    index = (data or {}).get("model-index") or []
    if not isinstance(index, list):
        raise DataError(
            f"{path}: model-index: wanted a list, found a {type(index).__name__}"
        )
    count = 0
    for number, model in enumerate(index, start=1):
        results = model.get("results") if isinstance(model, dict) else None
        if not isinstance(results, list):
            raise DataError(
                f"{path}: model-index, model {number}: wanted a list of results"
            )
        for row, result in enumerate(results, start=1):
            name, place = str(model.get("name") or ""), f"{path.name}, result {row}"
            metrics = result.get("metrics") if isinstance(result, dict) else None
            count += len(metrics) if isinstance(metrics, list) else 1
            if count > MOST_CLAIMS:
                raise DataError(
                    f"{path}: wanted at most {MOST_CLAIMS:,} numbers, found more"
                )
            try:
                _, parts = model_index_to_eval_results(
                    [{"name": name, "results": [result]}]
                )
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                yield Statement(
                    None, "", source=f"{place}: {type(error).__name__} {error}"
                )
                continue
            for part in parts:
                yield Statement(
                    value=_hashable(part.metric_value),
                    metric=str(part.metric_type),
                    data_set=str(part.dataset_name),
                    data_set_id=str(part.dataset_type),
                    config=str(part.dataset_config or ""),
                    split=str(part.dataset_split or ""),
                    revision=str(part.dataset_revision or ""),
                    kind=str(part.task_type),
                    model=name,
                    source=path.name,
                )


def of_eval_results(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of a file of `.eval_results`: each is the main score of a task."""
    from huggingface_hub import parse_eval_result_entries

    data = _yaml(path, text)
    if not isinstance(data, list):
        raise DataError(
            f"{path}: wanted a list of results, found a {type(data).__name__}"
        )
    if len(data) > MOST_CLAIMS:
        raise DataError(
            f"{path}: wanted at most {MOST_CLAIMS:,} numbers, found {len(data):,}"
        )
    source = f"{EVAL_RESULTS_FOLDER}/{path.name}"
    for row, item in enumerate(data, start=1):
        try:
            [entry] = parse_eval_result_entries([item])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            place = f"{source}, result {row}: {type(error).__name__} {error}"
            yield Statement(None, "", source=place)
            continue
        # mteb's ids of tasks: STS12_default_test, of all subsets STS12 alone.
        name, _, rest = str(entry.task_id).partition("_")
        config, _, split = rest.rpartition("_")
        yield Statement(
            value=_hashable(entry.value),
            metric="main_score",
            data_set=name,
            data_set_id=str(entry.dataset_id),
            config=config,
            split=split,
            revision=str(entry.dataset_revision or ""),
            source=source,
        )


def of_result_file(path: Path, text: str) -> Iterator[Statement]:
    """The numbers of one of mteb's result files, of any of its versions."""
    try:
        data = parse_json(text, finite=False, parse_float=PrintedNumber)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: wanted a result file of mteb, found {error}"
        ) from None
    if not isinstance(data, dict):
        raise DataError(
            f"{path}: wanted a result file of mteb, found a {type(data).__name__}"
        )
    name = data.get("task_name") or data.get("mteb_dataset_name") or ""
    whole = Statement(
        value=None,
        metric="",
        data_set=str(name),
        revision=str(data.get("dataset_revision") or ""),
        source=path.name,
    )
    by_split = data.get("scores", data)
    for split, found in by_split.items() if isinstance(by_split, dict) and name else ():
        subsets = found if isinstance(found, list) else [found]
        for subset in subsets:
            if not isinstance(subset, dict):
                continue
            of_subset = replace(
                whole, split=split, config=str(subset.get("hf_subset") or "")
            )
            for metric, value in _flat(subset):
                yield replace(of_subset, metric=metric, value=value)


def _flat(scores: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every number of a subset: `cosine_spearman`, or in mteb's first files `cos_sim.spearman`."""
    for name, value in scores.items():
        if isinstance(value, dict):
            yield from ((f"{name}_{inner}", number) for inner, number in value.items())
        elif isinstance(value, int | float) and "time" not in name:
            yield name, value


class PrintedNumber(float):
    """A number that knows the digits that it was written with: 75.40."""

    def __new__(cls, text: str) -> PrintedNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


def _yaml(path: Path, text: str) -> Any:
    """A YAML document whose numbers keep their digits. DataError names the line, in one line."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """The safe loader, with the digits of numbers."""

    def printed(loader: Any, node: Any) -> Any:
        written = loader.construct_scalar(node)
        try:
            return PrintedNumber(written)
        except ValueError:  # YAML's own spellings, such as .inf and 1_000.0
            return loader.construct_yaml_float(node)

    Loader.add_constructor("tag:yaml.org,2002:float", printed)
    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506 - it is the safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        why = getattr(error, "problem", None) or type(error).__name__
        raise DataError(
            f"{path}{where}: wanted YAML, found something else ({why})"
        ) from None


def _hashable(value: Any) -> Any:
    """A number as it is, and anything else as a text."""
    return value if isinstance(value, int | float | None) else str(value)


# Understanding statements


SIMILARITY_SPELLINGS = {
    "cos_sim": COSINE,
    "cosine": COSINE,
    "max": BEST_SIMILARITY,
    "dot_score": "dot",
}
SIMILARITY_NAMES = (*SIMILARITIES, *SIMILARITY_SPELLINGS)
CORRELATION_SPELLINGS = {"pearsonr": "pearson", "spearmanr": "spearman"}


def correlation_of(metric: str) -> tuple[str, str] | None:
    """The similarity function and the correlation that a metric's name means; None for others.

    `cosine_spearman` and `cos_sim_spearman` are mteb's, `spearman_cosine` that of the
    trainers of sentence-transformers; `spearman` alone is of the model's own
    similarity, `main_score` is Spearman's.
    """
    name = metric.lower().replace(".", "_").replace("-", "_").replace(" ", "_")
    if name == "main_score":
        return COSINE, "spearman"
    name = CORRELATION_SPELLINGS.get(name, name)
    if name in CORRELATIONS:
        return COSINE, name
    for correlation in CORRELATIONS:
        before, after = (
            name.removesuffix(f"_{correlation}"),
            name.removeprefix(f"{correlation}_"),
        )
        kind = before if before != name else after
        if kind != name and kind in SIMILARITY_NAMES:
            return SIMILARITY_SPELLINGS.get(kind, kind), correlation
    return None


def understood(statement: Statement, registry: Registry) -> CardClaim:
    """What a statement claims; with the reason where nothing here measures it."""
    claim = CardClaim(statement)
    if not statement.metric:
        return replace(claim, why_not=f"not in the hub's form ({statement.source})")
    found = _data_set(statement, registry)
    if found is None:
        kind = f" ({statement.kind})" if statement.kind else ""
        return replace(claim, why_not=f"no task here{kind}")
    if (config := statement.config) not in ("", "default", "None", "en", "en-en"):
        return replace(claim, why_not=f"no task here for the subset {config}")
    task = _task(found, statement)
    if task is None or task not in registry.tasks:
        return replace(claim, why_not=f"no task here for the split {statement.split!r}")
    meaning = correlation_of(statement.metric)
    if meaning is None:
        return replace(
            claim, why_not=f"the metric {statement.metric} is not measured here"
        )
    readings = readings_of(statement.value)
    if not readings:
        return replace(
            claim, why_not=f"its value {statement.value!r:.30} is no correlation"
        )
    similarity, correlation = meaning
    return replace(
        claim,
        task=task,
        similarity=similarity,
        correlation=correlation,
        readings=readings,
        is_doubtful=_doubt(found, statement),
    )


def _data_set(statement: Statement, registry: Registry) -> DataSet | None:
    """The data set that a statement names, by its repository or by its name."""
    name = re.sub(r"^MTEB\s+|\s*\(.*\)$", "", statement.data_set).strip()
    for data_set in data_sets():
        if data_set.id and data_set.id == statement.data_set_id:
            return data_set
    for data_set in data_sets():
        if data_set.name.lower() == name.lower().replace(" ", "-"):
            return data_set
    if (
        name in registry.tasks
    ):  # written by this project, of a task that has no other name
        return DataSet(
            name=name, tasks={"": name, "+".join(registry.tasks[name].scored): name}
        )
    return None


def _task(data_set: DataSet, statement: Statement) -> str | None:
    """The task that holds the pairs of the statement's split; without one, those of `test`."""
    splits = {
        "": "test",
        "dev": "validation",
        **{name: name for name in data_set.tasks},
    }
    return data_set.tasks.get(splits.get(statement.split, statement.split))


def _doubt(data_set: DataSet, statement: Statement) -> str:
    """Why the claim's pairs may be others than those here; empty where they are the same."""
    if data_set.is_guess:
        return f"{statement.data_set!r} may be another data set"
    of_here = {"", data_set.id, data_set.name.lower(), *data_set.tasks.values()}
    if statement.data_set_id.lower() not in of_here:
        return f"the pairs of {statement.data_set_id!r} are not known here"
    known = ("", "None", *data_set.revisions, *data_set.tasks.values())
    if data_set.revisions and statement.revision not in known:
        return f"its pairs are of revision {statement.revision[:12]}, which is not known here"
    return ""


def readings_of(value: Any) -> tuple[str, ...]:
    """A correlation in points, as printed: of a number from -1 to 1 the fraction first."""
    if isinstance(value, bool) or value is None:
        return ()
    text = getattr(value, "text", None) or str(value)
    try:
        number = Decimal(text.strip().removesuffix("%"))
    except InvalidOperation:
        return ()
    if not number.is_finite() or abs(number) > 100:
        return ()
    as_percentage = f"{number:f}"
    if abs(number) > 1 or text.strip().endswith("%"):
        return (as_percentage,)
    return f"{number.scaleb(2):f}", as_percentage


def of_model(
    claims: Iterable[CardClaim], names: Iterable[str]
) -> tuple[CardClaim, ...]:
    """The claims, those of another model of the same card marked so.

    Where a card's `model-index` names several models and one of them is this, by its
    last name, the others' numbers are not this model's; where none is, any of them may
    be.
    """
    claims = tuple(claims)
    own = {name.partition("@")[0].rpartition("/")[2].lower() for name in names if name}
    stated = {claim.stated.model.rpartition("/")[2].lower() for claim in claims} - {""}
    if len(stated) < 2:
        return claims
    if not stated & own:
        doubt = f"the card has numbers of {len(stated)} models, none by this name"
        return tuple(
            replace(claim, is_doubtful=doubt) if claim.stated.model else claim
            for claim in claims
        )
    return tuple(
        replace(claim, why_not=f"of another model, {claim.stated.model}")
        if claim.stated.model
        and claim.stated.model.rpartition("/")[2].lower() not in own
        else claim
        for claim in claims
    )
