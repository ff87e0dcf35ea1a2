"""From the words of a command line to cells that are measured, or to patterns of records."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from harness.cli.options import Folders, Selection, note
from harness.core.errors import UsageError
from harness.core.interfaces import EncoderConfig
from harness.core.types import MethodId
from harness.evaluation.select import PlannedCell, on_hardware, select_cells
from harness.registry import Registry, is_glob
from harness.resolve import Resolver, bypass_notes
from harness.tasks.loader import TaskLoader, limited, limited_corpus


@dataclass(frozen=True)
class Selected:
    """The cells, what loads their texts, and the registry that knows their encoders."""

    cells: tuple[PlannedCell, ...]
    loader: TaskLoader
    registry: Registry


def select(
    selection: Selection,
    folders: Folders,
    limit: int | None = None,
    default: Callable[[Registry], tuple[PlannedCell, ...]] | None = None,
    quiet: bool = False,
) -> Selected:
    """Select cells; what a name is taken for and what a glob leaves out is noted."""
    resolver = Resolver.from_options(folders.places(), selection.encoder or [])
    methods = resolver.patterns(selection.method or [])
    tasks = resolver.task_patterns(selection.task or [])
    registry, corpora = resolver.registry, resolver.registry.corpora
    left_out = ""
    if default is not None and not methods and not tasks:
        cells = default(registry)
    else:
        cells, left_out = select_cells(registry, methods, tasks, selection.seeds)
    cells = on_hardware(cells, selection.device, selection.dtype, selection.batch_tokens)
    if not quiet:
        _note_meanings(resolver)
        if left_out:
            note(left_out)
    if limit is not None:
        cells = tuple(replace(cell, task=limited(cell.task, limit)) for cell in cells)
        corpora = {name: limited_corpus(corpus, limit) for name, corpus in corpora.items()}
    return Selected(cells, TaskLoader(resolver.places, corpora), registry)


def note_bypasses(chosen: Selected) -> None:
    """Note what poolings bypass in the folder of an encoder given by hand, quiet or not.

    A plan notes it of every encoder.
    """
    poolings: dict[EncoderConfig, set[str]] = {}
    for cell in chosen.cells:
        poolings.setdefault(cell.encoder, set()).add(cell.method.pooling.name)
    for text in bypass_notes(poolings, chosen.registry, chosen.loader.places):
        note(f"Note: {text}")


def records_folder(output: Path, limit: int | None) -> Path:
    """The folder of a run's records: those of a smoke test are separate."""
    return output if limit is None else output / f"limit-{limit}"


@dataclass(frozen=True)
class Patterns:
    """Methods and tasks by which records are selected: names and globs; none selects all."""

    methods: Sequence[str]
    tasks: Sequence[str]
    registry: Registry
    paths: Mapping[str, Path]  # of the encoders given by hand
    unknown: Mapping[str, UsageError]  # methods that are none here, and why

    def selects(self, method: str, task: str) -> bool:
        """Whether records of this method on this task are selected."""
        return all(
            not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
            for name, patterns in ((method, self.methods), (task, self.tasks))
        )

    def require_known(self, recorded: Container[str] = ()) -> None:
        """Raise UsageError for a method that is neither known here nor recorded."""
        for method, error in self.unknown.items():
            if method not in recorded:
                raise error


def record_patterns(
    method: Sequence[str] | None, task: Sequence[str] | None, encoder: Sequence[str] | None = None
) -> Patterns:
    """What selects records, with models and mteb's tasks by their names here; these are noted.

    Records may be of encoders, tasks and plug-ins that are not known here.
    """
    resolver = Resolver.from_options(Folders().places(), encoder or [])
    methods, unknown = resolver.patterns(method or []), {}
    for name in methods:
        parts = None if is_glob(name) else MethodId.parse(name)
        if parts and parts.encoder.partition(":")[0] in resolver.registry.encoders:
            try:
                resolver.registry.parse(name)
            except UsageError as error:
                unknown[name] = error
    tasks = resolver.task_patterns(task or [])
    _note_meanings(resolver)
    return Patterns(methods, tasks, resolver.registry, resolver.places.encoders, unknown)


def _note_meanings(resolver: Resolver) -> None:
    for name, meaning in resolver.notes.items():
        note(f"{name} is {meaning} here")
