"""The options by which commands select cells, run them and find files, and what they select."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.assets.places import Places
from harness.cli.options import (
    CacheDir,
    DataDir,
    Device,
    Encoders,
    Methods,
    Output,
    Papers,
    Records,
    Seeds,
    Tasks,
    note,
    option,
)
from harness.registry import Registry
from harness.resolve import Resolver, encoders_by_hand


@dataclass(frozen=True)
class Folders:
    """Where the data sets and the encodings lie."""

    data_dir: DataDir = None
    cache: CacheDir = None

    def places(self) -> Places:
        """The places of all files."""
        return Places.from_environment(os.environ, cache=self.cache, data_dir=self.data_dir)


@dataclass(frozen=True)
class Selection:
    """What `plan`, `run` and `reproduce` measure."""

    method: Methods = None
    task: Tasks = None
    seeds: Seeds = 5
    encoder: Encoders = None
    device: Device = "cpu"
    dtype: Annotated[
        str | None,
        option(
            help="bfloat16 or float16: another encoder than in float32, as its id then says "
            "(bert-base-float16.mean).  [default: as the id says, or float32]"
        ),
    ] = None
    batch_tokens: Annotated[
        int | None,
        option(min=1, metavar="N", help="Tokens of a batch.  [default: the device's]"),
    ] = None


Jobs = Annotated[
    int | None,
    option(
        "--jobs",
        "-j",
        min=1,
        envvar="HARNESS_JOBS",
        help="Processes beside each other, one thread each; 1 measures in this one.  "
        "[default: the cores, if memory allows]",
    ),
]


@dataclass(frozen=True)
class Execution:
    """How `run` and `reproduce` measure it, and where the records go."""

    output: Output = Path("runs")
    fresh: Annotated[bool, typer.Option(help="Measure again what is already done.")] = False
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also say how each cell was measured, and its time."),
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the table at the end and errors, no more.")
    ] = False
    jobs: Jobs = None
    shard: Annotated[
        str | None, option(help="I/N: the I-th of N parts of the cells, for a job array.")
    ] = None
    scheduler: Annotated[
        str | None,
        option(help="Address of a Dask scheduler (tcp://HOST:PORT), or local:N for N workers."),
    ] = None

    @cached_property
    def engine(self) -> Any:
        """The engine, opened once for all steps of a run."""
        from harness.evaluation.engines import engine

        return engine(self.jobs, self.scheduler)


@dataclass(frozen=True)
class Sources:
    """What the commands that only read are asked of: records, published tables, encoders."""

    results: Records = Path("results")
    papers: Papers = Path("results/papers")
    encoder: Encoders = None

    @cached_property
    def registry(self) -> Registry:
        """The registry, with the encoders given by hand."""
        return encoders_by_hand(self.encoder or [])[0]

    @cached_property
    def folder(self) -> Any:
        """The results folder; each file is read when it is first asked for."""
        from harness.results.folder import ResultsFolder

        return ResultsFolder(self.results, self.registry, self.papers)


@dataclass(frozen=True)
class Selected:
    """The cells, what loads their texts, and the registry that knows their encoders."""

    cells: tuple[Any, ...]
    loader: Any
    registry: Registry


def select(
    selection: Selection,
    folders: Folders,
    limit: int | None = None,
    default: Callable[[Registry], tuple[Any, ...]] | None = None,
    quiet: bool = False,
) -> Selected:
    """Select cells; what a name is taken for and what a glob leaves out is noted.

    The default gives the cells of a registry where neither methods nor tasks are chosen.
    """
    from harness.evaluation.select import choose, left_out
    from harness.results.records import on_hardware
    from harness.tasks.loader import TaskLoader, limited, limited_corpus

    resolver = Resolver.of(folders.places(), selection.encoder or [])
    methods = resolver.patterns(selection.method or [])
    tasks = resolver.task_patterns(selection.task or [])
    registry, corpora = resolver.registry, resolver.registry.corpora
    if default is not None and not methods and not tasks:
        cells = default(registry)
    else:
        cells = choose(registry, methods, tasks, selection.seeds)
    cells = on_hardware(cells, selection.device, selection.dtype, selection.batch_tokens)
    if not quiet:
        _note_meanings(resolver)
        for line in left_out(registry, methods, tasks):
            note(line)
    if limit is not None:
        cells = tuple(replace(cell, task=limited(cell.task, limit)) for cell in cells)
        corpora = {name: limited_corpus(corpus, limit) for name, corpus in corpora.items()}
    return Selected(cells, TaskLoader(resolver.places, corpora), registry)


def records_folder(output: Path, limit: int | None) -> Path:
    """The folder of a run's records: those of a smoke run lie apart."""
    return output if limit is None else output / f"limit-{limit}"


@dataclass(frozen=True)
class Patterns:
    """Methods and tasks by which records are selected: names and globs; none selects all."""

    methods: Sequence[str]
    tasks: Sequence[str]
    registry: Registry
    paths: Mapping[str, Path]

    def selects_method(self, method: str) -> bool:
        """Whether records of this method are selected."""
        return _matches(method, self.methods)

    def selects_task(self, task: str) -> bool:
        """Whether records of this task are selected."""
        return _matches(task, self.tasks)

    def key_now(self, method: str) -> str | None:
        """The key of a method's encoder as its files are now; None for one not given by hand."""
        from harness.core.hardware import base_name
        from harness.core.types import MethodId

        parts = MethodId.parse(method)
        path = self.paths.get(base_name(parts.encoder)) if parts else None
        if path is None:
            return None
        encoder: Any = self.registry.parse(method).encoder
        return _key(encoder, path)


@cache  # each record asks, and files are read whole for it
def _key(encoder: Any, path: Path) -> str:
    key: str = encoder.identify(path).key
    return key


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def record_patterns(
    method: Sequence[str] | None, task: Sequence[str] | None, encoder: Sequence[str] | None = None
) -> Patterns:
    """What selects records, with models and mteb's tasks by their names here; these are noted.

    Records may be of encoders and tasks that are not known here. Raises UsageError for a method
    of a known encoder that cannot be.
    """
    from harness.core.types import MethodId
    from harness.registry import is_glob

    resolver = Resolver.of(Folders().places(), encoder or [])
    methods = resolver.patterns(method or [])
    for name in methods:
        parts = None if is_glob(name) else MethodId.parse(name)
        if parts and parts.encoder.partition(":")[0] in resolver.registry.encoders:
            resolver.registry.parse(name)
    tasks = resolver.task_patterns(task or [])
    _note_meanings(resolver)
    return Patterns(methods, tasks, resolver.registry, resolver.places.encoders)


def _note_meanings(resolver: Resolver) -> None:
    """Note what each name means here."""
    for name, meaning in resolver.notes.items():
        note(f"{name} is {meaning} here")
