"""Scores for programs: methods, or a function, measured on tasks, as a data frame."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from harness.assets.places import Places
from harness.core.errors import AssetMissing, HarnessError
from harness.core.progress import Silent
from harness.core.types import Method, Record
from harness.encoders.function import FunctionConfig
from harness.evaluation.named import named_method, registry_of
from harness.evaluation.runner import execute
from harness.interop.frames import to_frame
from harness.results.index import Results
from harness.results.layout import OWN, own_or_committed, papers_of
from harness.results.planned import cells
from harness.results.published_files import load_tables
from harness.results.records import Store
from harness.results.score_rows import score_rows
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import NATIVE

Model = str | Path | Method | Callable[[list[str]], Any]


def evaluate(
    model: Model | Sequence[str | Method],
    tasks: str | Sequence[str],
    *,
    name: str = "function",
    seeds: int = 1,
    output: Path | str | None = None,
    places: Places | None = None,
    every_score: bool = False,
    library: Literal["pandas", "polars"] = "pandas",
) -> Any:
    """Measure a model on tasks.

    Args:
        model: What `harness run -m` takes (the id of a method, an encoder's name, a hub repository
            or a folder), a `Method`, several of these; or a function from a list of N texts to N
            rows of numbers, such as the `encode` of a SentenceTransformer.
        tasks: Names and globs of tasks, as `harness run -t` takes them.
        name: The encoder's name in the ids, if it is a function.
        seeds: How many seeds a method with randomness is measured with.
        output: A folder that keeps the records, as `harness run -o` does; by default none does.
        places: Where files are looked for; by default where the command line looks.
        every_score: One row for each score of a cell and not for its main score alone.
        library: The library whose frame is made.

    Returns:
        A data frame with a row a cell and seed, as [`read_results`][harness.read_results] makes it:
        the score, what is published for it, the verdict, what it took.

    Raises:
        UsageError: A name means nothing, or the library is not installed.
        AssetMissing: A model or data are not on this machine.
        HarnessError: A cell cannot be measured.

    Examples:
        >>> import harness
        >>> frame = harness.evaluate("glove-mini", ["mini-sts", "mini-sick"])
        >>> frame[["method", "task", "metric"]].values.tolist()
        [['glove-mini.mean', 'mini-sts', 'spearman'], ['glove-mini.mean', 'mini-sick', 'spearman']]
        >>> frame = harness.evaluate(lambda texts: [[len(t), 1] for t in texts], "mini-sts")
        >>> frame.method[0], bool(frame.score[0] < 30)
        ('function.native', True)
    """
    places = Places.from_environment(os.environ) if places is None else places
    with _scratch() as scratch:
        methods, places = _methods(model, name, places, scratch)
        files = {name: path for name, path in places.encoders.items() if path != scratch}
        registry = registry_of(replace(places, encoders=files))
        tables = load_tables(papers_of(own_or_committed(OWN)), registry)
        on = registry.select_tasks([tasks] if isinstance(tasks, str) else tasks)
        loader = TaskLoader(places, registry.corpora)
        store = Store(scratch if output is None else Path(output))
        planned = cells(methods, on, seeds)
        by_cell: dict[tuple[str, str], list[Record]] = {}
        for outcome in execute(planned, loader, store, Silent(), time.perf_counter):
            if outcome.record is None:
                missing = outcome.status == "asset missing"
                raise AssetMissing(outcome.message) if missing else HarnessError(outcome.message)
            by_cell.setdefault((outcome.cell.method, outcome.cell.task), []).append(outcome.record)
    return to_frame(score_rows(Results(by_cell), tables, registry, every_score), library)


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        yield Path(folder)


def _methods(model: Any, name: str, places: Places, scratch: Path) -> tuple[list[Method], Places]:
    """The methods of a model and the places of its files; a function gets a temporary cache."""
    if isinstance(model, str | Path | Method):
        model = [model]
    if callable(model):
        here = {**places.encoders, name: scratch}
        method = Method(FunctionConfig(name, model), NATIVE)
        return [method], replace(places, cache=scratch / "cache", encoders=here)
    methods = []
    for one in model:
        if not isinstance(one, Method):
            one, places = named_method(str(one), places)
        methods.append(one)
    return methods, places
