"""Scores as data frames of pandas, which is imported only when one is made."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from harness.assets.places import Places
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.provenance import extra
from harness.core.types import Method, Record, Task
from harness.encoders.function import Function, FunctionConfig
from harness.evaluation.evaluate import resolved
from harness.evaluation.runner import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.registry import Registry
from harness.resolve import Resolver, is_encoder_name
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.layout import OWN, is_results, own_or_committed, papers_of, reading_order
from harness.results.published import load_tables
from harness.results.records import Store
from harness.results.reproduction import MIN_COVERAGE
from harness.results.score_rows import ScoreRow, folder_rows, score_rows
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import NATIVE

# The types of a column by that of its field; a column of whole numbers has holes, too.
TYPES = {"str": "string", "bool": "bool", "int": "Int64", "float": "float64"}


def read_results(
    folder: Path | str = OWN, *, every_score: bool = False, encoders: Sequence[str] = ()
) -> Any:
    """Read the records of a folder as a data frame: one row per cell and seed.

    The columns are those of [`ScoreRow`][harness.ScoreRow]: the parts of the method's id, the
    score, what is published for it with the verdict, what it took, and what measured it.

    Args:
        folder: A results folder, as `harness run` and `harness reproduce` fill it. `results` is
            the current folder's own, with its `runs`, followed by what comes with the harness;
            the column `source` says which. A cell that several hold is that of the first.
        every_score: One row for each score of a record (metric, aggregation, subset) and not for
            its main score alone.
        encoders: Encoders that published tables of your own name, each NAME=PATH as behind
            `--encoder` on the command line.

    Returns:
        A `pandas.DataFrame`.

    Raises:
        UsageError: There is no such folder, or pandas is not installed.
        DataError: A record was changed after it was measured.

    Examples:
        >>> from harness import read_results
        >>> frame = read_results()
        >>> minilm = frame[frame.encoder == "minilm"]
        >>> minilm.pivot_table(index="method", columns="task", values="score").shape[0] > 5
        True
    """
    place = own_or_committed(Path(folder))
    if not is_results(place):
        raise UsageError(f"{place}: wanted a folder of results, found no records in it")
    registry = Resolver.of(Places(Path()), encoders).registry
    results = ResultsFolder(place, registry, folders=reading_order(place, with_runs=True))
    return to_frame(folder_rows(results, every_score))


def to_frame(rows: Sequence[ScoreRow]) -> Any:
    """A data frame with a column for each field, typed by it, even where there is no row."""
    with extra("pandas"):
        import pandas
    columns = {}
    for field in fields(ScoreRow):
        kind = TYPES[str(field.type).partition(" ")[0]]
        columns[field.name] = pandas.array([getattr(row, field.name) for row in rows], dtype=kind)
    return pandas.DataFrame(columns)


Model = str | Path | Method | Function | Any  # any: an object with `encode`


def evaluate(
    model: Model | Sequence[str | Method],
    tasks: str | Task | Sequence[str | Task],
    *,
    name: str = "function",
    seeds: int = 1,
    output: Path | str | None = None,
    places: Places | None = None,
    every_score: bool = False,
    min_coverage: float = MIN_COVERAGE,
) -> Any:
    """Measure a model on tasks.

    Args:
        model: What `harness run -m` takes (the id of a method, an encoder's name, a hub repository
            or a folder), a `Method`, several of these; or a function from a list of N texts to N
            rows of numbers, or an object with such an `encode`, as a SentenceTransformer has.
        tasks: Names and globs of tasks, as `harness run -t` takes them, and `Task`s.
        name: The encoder's name in the ids, if it is a function; no registered one.
        seeds: How many seeds a method with randomness is measured with.
        output: A folder that keeps the records, as `harness run -o` does; by default none does.
        places: Where files are looked for; by default where the command line looks.
        every_score: One row for each score of a cell and not for its main score alone.
        min_coverage: The share of a task's tokens that word vectors must have a vector for; 0
            allows any. The column `coverage` holds the share that they have.

    Returns:
        A data frame, one row per cell and seed, as [`read_results`][harness.read_results] makes it:
        the score or why it is undefined (`state`), what is published for it, the verdict, what it
        took.

    Raises:
        UsageError: A name is unknown, there is no model or no task, or pandas is not installed.
        AssetMissing: A model or data are not on this machine.
        ScoreError: The function does not give one finite row a text, or not the same one twice.
        HarnessError: A cell cannot be measured, or too few of its tokens have a vector.

    Examples:
        >>> import harness
        >>> frame = harness.evaluate("glove-mini", ["mini-sts", "mini-sick"])
        >>> frame[["method", "task", "metric"]].values.tolist()
        [['glove-mini.mean', 'mini-sts', 'spearman'], ['glove-mini.mean', 'mini-sick', 'spearman']]
        >>> frame = harness.evaluate(lambda texts: [[len(t), 1] for t in texts], "mini-sts")
        >>> frame.method[0], bool(frame.score[0] < 30)
        ('function.native', True)
    """
    if seeds < 1:
        raise UsageError(f"seeds: wanted 1 or more, found {seeds}")
    if not 0 <= min_coverage <= 1:
        raise UsageError(f"min_coverage: wanted a share from 0 to 1, found {min_coverage}")
    to_frame(())  # raises before anything is measured where pandas is not here
    places = Places.from_environment(os.environ) if places is None else places
    registry = Resolver.of(places).registry
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        scratch = Path(folder)
        function = model if isinstance(model, str) else getattr(model, "encode", model)
        if callable(function):
            method, places = _function(function, name, places, registry, scratch)
            methods = [method]
        else:
            methods = []
            several = isinstance(model, Iterable) and not isinstance(model, str)
            words: Any = model if several else [model]
            for word in words:
                method, places = resolved(word, places)
                methods.append(method)
            registry = Resolver.of(places).registry
        by_name: dict[str, Task] = {}
        for word in [tasks] if isinstance(tasks, str | Task) else tasks:
            for task in [word] if isinstance(word, Task) else registry.select_tasks([word]):
                by_name.setdefault(task.name, task)
        if not methods or not by_name:
            counts = f"{len(methods)} and {len(by_name)}"
            raise UsageError(f"wanted models and tasks, found {counts} of them")
        tables = load_tables(papers_of(own_or_committed(OWN)), registry)
        loader = TaskLoader(places, registry.corpora)
        store = Store(scratch if output is None else Path(output))
        planned = planned_cells(methods, list(by_name.values()), seeds)
        by_cell: dict[tuple[str, str], list[Record]] = {}
        for outcome in execute(planned, RunContext(loader, store, min_coverage=min_coverage)):
            if outcome.record is None:
                missing = outcome.status == "asset missing"
                raise AssetMissing(outcome.message) if missing else HarnessError(outcome.message)
            by_cell.setdefault((outcome.cell.method, outcome.cell.task), []).append(outcome.record)
    return to_frame(score_rows(Results(by_cell), tables, registry, every_score))


def _function(
    function: Function, name: str, places: Places, registry: Registry, scratch: Path
) -> tuple[Method, Places]:
    """The method of a function, with a temporary cache. What it raises of probes is raised."""
    if not is_encoder_name(name) or name in registry.encoders:
        raise UsageError(
            f"name={name!r}: wanted lower-case letters, digits and hyphens, and no encoder's name; "
            "take another"
        )
    config = FunctionConfig(name, function)
    config.identify()
    encoders = {**places.encoders, name: scratch}
    return Method(config, NATIVE), replace(places, cache=scratch / "cache", encoders=encoders)
