"""From the words of a command line to cells that are measured, or to patterns of records.

`select` is for commands that measure: each word must name something that is known here.
`record_patterns` is for commands that read records, which may be of methods that are
not known here.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from harness.cli.options import Folders, Run, note
from harness.core.hardware import base_name
from harness.core.types import MethodId
from harness.data.tasks.loader import TaskLoader, limited, limited_corpus
from harness.evaluation.select import (
    PROFILES,
    PlannedCell,
    on_hardware,
    profile,
    quick_set,
    select_cells,
)
from harness.registry import Registry, is_glob, look_up
from harness.resolve import Resolver
from harness.results.layout import papers_of


@dataclass(frozen=True)
class Selected:
    """The cells of a command, and what they need.

    Attributes:
        cells: The cells to measure.
        loader: Loads the texts of their tasks and corpora.
        registry: Knows their encoders, those given by hand included.
    """

    cells: tuple[PlannedCell, ...]
    loader: TaskLoader
    registry: Registry


def select(options: Run, baseline: Path, is_gate: bool = False) -> Selected:
    """Select the cells of a command's options: those named, or else those of a profile.

    Notes say what a word was taken for, what a glob leaves out, and, even where a
    command is quiet, which modules of a folder given by hand its poolings do not use.

    Args:
        options: The options of the command.
        baseline: The results folder whose papers the profile `papers` reads.
        is_gate: Whether the quick set of the baseline takes the place of a profile.

    Raises:
        UsageError: The options name what is not known here.
    """
    profile_name = options.profile or "all"
    look_up("profile", profile_name, dict.fromkeys(PROFILES))
    resolver = Resolver.from_options(options.places(), options.encoder)
    methods = resolver.patterns(options.method)
    tasks = resolver.task_patterns(options.task)
    registry, corpora = resolver.registry, resolver.registry.corpora
    omissions = ""
    if methods or tasks:
        cells, omissions = select_cells(registry, methods, tasks, options.seeds)
    elif is_gate:
        cells = quick_set(registry, baseline)
    else:
        cells = profile(registry, profile_name, papers_of(baseline), options.seeds)
    cells = on_hardware(cells, options.device, options.dtype, options.batch_tokens)
    if not options.quiet:
        _note_meanings(options.method, methods)
        _note_meanings(options.task, tasks)
        if omissions:
            note(omissions)
    for text in resolver.bypass_notes(dict.fromkeys(cell.method for cell in cells)):
        note(f"Note: {text}")
    limit = options.limit
    if limit is not None:
        cells = tuple(replace(cell, task=limited(cell.task, limit)) for cell in cells)
        corpora = {
            name: limited_corpus(corpus, limit) for name, corpus in corpora.items()
        }
    return Selected(cells, TaskLoader(resolver.places, corpora), registry)


@dataclass(frozen=True)
class Patterns:
    """Methods and tasks by which records are selected.

    Attributes:
        methods: Ids and globs; none selects all.
        tasks: Names and globs; none selects all.
        registry: What comes with the harness, with the encoders given by hand.
    """

    methods: Sequence[str]
    tasks: Sequence[str]
    registry: Registry

    def selects(self, method: str, task: str) -> bool:
        """Whether records of this method on this task are selected."""
        return _matches(method, self.methods) and _matches(task, self.tasks)

    def require_known(self, recorded: Container[str] = ()) -> None:
        """Raise UsageError for a method that can neither be made here nor is recorded.

        A method of an encoder that is not registered may be anybody's.
        """
        for name in self.methods:
            method_id = None if is_glob(name) else MethodId.parse(name)
            if method_id is None or name in recorded:
                continue
            if base_name(method_id.encoder) in self.registry.encoders:
                self.registry.parse(name)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name matches one of the patterns; without patterns every name does."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def record_patterns(
    method: Sequence[str] | None,
    task: Sequence[str] | None,
    encoder: Sequence[str] | None = None,
) -> Patterns:
    """The patterns of a command's options.

    A word that the harness has another name for is replaced by that name, and a note
    says so. Records may be of encoders, tasks and plug-ins that are not known here.
    """
    resolver = Resolver.from_options(Folders().places(), encoder)
    methods = resolver.patterns(method)
    tasks = resolver.task_patterns(task)
    _note_meanings(method, methods)
    _note_meanings(task, tasks)
    return Patterns(methods=methods, tasks=tasks, registry=resolver.registry)


def _note_meanings(words: Sequence[str] | None, meanings: Sequence[str]) -> None:
    """Note the words that were replaced by the harness's own names."""
    for word, meaning in dict(zip(words or (), meanings, strict=True)).items():
        if word != meaning:
            note(f"{word} is {meaning} here")
