"""Result files of mteb: records are written as such files, and such files are read as references.

Folders are those of mteb's results repository: `<model>/<revision>/<task>.json`. Files are written
and read by mteb itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mteb import ResultCache
from mteb.results.task_result import TaskResult

from harness.core.errors import DataError, UsageError
from harness.core.types import MethodId, Record
from harness.interop.mteb import COUNTERPARTS, meta_of
from harness.results.conformance import Reference, ReferenceCell
from harness.results.index import main_path, score_at

OURS = "harness/"  # what the names of our methods begin with as mteb's models
FILE = "mteb_results.json"
EXPERIMENTS = "experiments"  # the folder of results of one model under several settings

# In points: results of mteb were computed on other hardware, with other versions.
OTHER_HARDWARE = 0.05
REASON = (
    "computed on other hardware with other versions, which sum in another order: the gate allows "
    "as much between platforms"
)
# mteb's names of the scores that a record has; those of versions before 1.11 come second.
NAMES: Mapping[str, tuple[str, ...]] = {
    "spearman.all": ("cosine_spearman", "cos_sim_spearman"),
    "pearson.all": ("cosine_pearson", "cos_sim_pearson"),
    "auc": ("cosine_roc_auc",),
}


def export(records: Iterable[Record], folder: Path) -> Iterator[Path]:
    """Write the records that mteb has a task for as its result files; the path of each.

    Scores are fractions there. They are those of this harness, whose rule for ties may move a
    correlation by 1e-5; `harness` in each file names its version.
    """
    cache = ResultCache(folder)
    for record in records:
        theirs = COUNTERPARTS.get(record.task)
        score = score_at(record.scores, main_path(record.scores))
        if theirs is None or score is None:
            continue
        meta = theirs.metadata
        scores = {**_scores(record), "main_score": score / 100, "harness": _made_by(record)}
        by_split = {split: {"default": scores} for split in meta.eval_splits}
        result = TaskResult.from_task_results(theirs, by_split, sum(record.timings.values()))
        model = _model(record)
        cache.save_to_cache(result, model)
        yield cache.get_task_result_path(meta.name, model)


def _scores(record: Record) -> dict[str, float]:
    """A record's scores under mteb's names."""
    if record.task == "lexical":
        return {"cosine_spearman": record.scores["edit_distance"] / 100}
    found = {names[0]: score_at(record.scores, path.split(".")) for path, names in NAMES.items()}
    return {name: score / 100 for name, score in found.items() if score is not None}


def _made_by(record: Record) -> str:
    made = record.environment
    return " ".join(filter(None, (made.get("harness"), made.get("commit"))))


def _model(record: Record) -> Any:
    """The model of a record: another seed or fit corpus is another experiment."""
    parts = MethodId.parse(record.method)
    post = "+".join(parts.post) if parts else ""
    fit = record.digests.get("fit", "")[:16]
    fitted = {"post": post, "fit": fit, "seed": record.seed} if post else None
    length = record.facts.get("max_length")
    return meta_of(record.method, record.digests["encoding"], length, fitted)


@dataclass(frozen=True)
class Imported:
    """Scores that another harness measured, and a line for each file that holds none of them."""

    reference: Reference
    left_out: tuple[str, ...]


def read_results(folder: Path, methods: Mapping[str, str], command: str) -> Imported:
    """Read result files of mteb as a reference.

    `methods` maps names of mteb's models to ids of methods; what `export` wrote is read without.
    Raises UsageError for a model without results, DataError for a file that mteb refuses and for a
    task that stands in two revisions of a model.
    """
    cells: dict[tuple[str, str], ReferenceCell] = {}
    left_out: list[str] = []
    versions: set[str] = set()
    for path, method in _files(folder, methods):
        if EXPERIMENTS in path.relative_to(folder).parts:
            left_out.append(f"{path}: of one fit or seed, which a reference does not tell apart")
            continue
        result = _result(path)
        cell = _cell(method, result)
        if isinstance(cell, str):
            left_out.append(f"{path}: {cell}")
        elif cells.setdefault(cell.what, cell) is not cell:
            raise DataError(f"{path}: {method} has another result on {cell.task}; name one folder")
        else:
            versions.add(f"mteb {result.mteb_version}")
    if not cells:
        none = f"{folder} holds no scores on tasks of the harness"
        raise UsageError("; ".join([none, *left_out]))
    reference = Reference(
        file=FILE,
        program="mteb, results of its repository or folders",
        what="Scores x100 of mteb's own evaluation on its copies of the data; ties are broken by "
        "rounding noise",
        command=command,
        cells=tuple(cells.values()),
        version=", ".join(sorted(versions)),
        tolerance=OTHER_HARDWARE,
        reason=REASON,
    )
    return Imported(reference, tuple(left_out))


def _files(folder: Path, methods: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """The result files of the models, and the method of each."""
    wanted = {model.replace("/", "__"): method for model, method in methods.items()}
    if not wanted:
        own = (place.name for place in folder.rglob(f"{OURS.replace('/', '__')}*"))
        wanted = {name: unquote(name.partition("__")[2]) for name in own}
    for name, method in wanted.items():
        paths = [path for place in folder.rglob(name) for path in place.rglob("*.json")]
        if not paths and methods:
            raise UsageError(f"{folder} holds no results of {name.replace('__', '/')}")
        yield from ((path, method) for path in sorted(paths) if path.name != "model_meta.json")


def _result(path: Path) -> TaskResult:
    try:
        return TaskResult.from_disk(path)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no result file of mteb ({error}); get it again") from None


def _cell(method: str, result: TaskResult) -> ReferenceCell | str:
    """The scores of a file as a cell, or why they are none of ours."""
    found = (t for t in COUNTERPARTS.items() if t[1].metadata.name == result.task_name)
    name, theirs = next(found, ("", None))
    if theirs is None:
        return f"no task of the harness scores the pairs of {result.task_name}"
    meta = theirs.metadata
    if result.dataset_revision != meta.dataset["revision"]:
        return (
            f"wanted data of revision {meta.dataset['revision']}, found {result.dataset_revision}"
        )
    given = result.scores.get(meta.eval_splits[0], [])
    if len(given) != 1:
        return f"wanted scores of the split {meta.eval_splits[0]}, found {', '.join(result.scores)}"
    scores = {path: _score(given[0], names) for path, names in NAMES.items()}
    points = {path: 100 * score for path, score in scores.items() if score is not None}
    if name == "lexical":
        points = {"edit_distance": points["spearman.all"]}
    return ReferenceCell(points, method, name) if points else "it holds no score of cosines"


def _score(given: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    return next((float(given[name]) for name in names if name in given), None)
