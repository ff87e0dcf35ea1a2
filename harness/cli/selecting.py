"""What a command line selects: the cells, and what loads their texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.cli.options import note


@dataclass(frozen=True)
class Wanted:
    """The options by which `plan`, `run` and `reproduce` select cells and find their files."""

    method: list[str] | None
    task: list[str] | None
    seeds: int
    data_dir: Path | None
    encoder: list[str] | None
    cache: Path | None
    limit: int | None = None
    quiet: bool = False
    device: str = "cpu"
    dtype: str | None = None
    batch_tokens: int | None = None


@dataclass(frozen=True)
class Selected:
    """The cells, what loads their texts, and the registry that knows their encoders."""

    cells: tuple[Any, ...]
    loader: Any
    registry: Any


def select(wanted: Wanted, default: Callable[[Any], tuple[Any, ...]] | None = None) -> Selected:
    """Select cells; what a name is taken for and what a glob leaves out is noted.

    The default gives the cells of a registry where neither methods nor tasks are chosen.
    """
    from harness.assets.places import Places
    from harness.evaluation.select import choose, left_out
    from harness.resolve import Resolver
    from harness.results.records import on_hardware
    from harness.tasks.loader import TaskLoader, limited_corpus

    places = Places.from_environment(os.environ, cache=wanted.cache, data_dir=wanted.data_dir)
    resolver = Resolver.of(places, wanted.encoder or [])
    methods = resolver.patterns(wanted.method or [])
    tasks = resolver.task_patterns(wanted.task or [])
    registry = resolver.registry
    corpora = registry.corpora
    if default is not None and not methods and not tasks:
        cells = default(registry)
    else:
        cells = choose(registry, methods, tasks, wanted.seeds)
    cells = on_hardware(cells, wanted.device, wanted.dtype, wanted.batch_tokens)
    if not wanted.quiet:
        tell(resolver.notes)
        for line in left_out(registry, methods, tasks):
            note(line)
    if wanted.limit is not None:
        cells = _limited(cells, wanted.limit)
        corpora = {name: limited_corpus(c, wanted.limit) for name, c in corpora.items()}
    return Selected(cells, TaskLoader(resolver.places, corpora), registry)


@dataclass(frozen=True)
class Patterns:
    """Methods and tasks by which records are selected: names and globs; None selects all."""

    methods: list[str]
    tasks: list[str]
    registry: Any
    paths: Mapping[str, Path]

    def key_now(self, method: str) -> str | None:
        """The key of a method's encoder as its files are now; None for one not given by hand."""
        from harness.core.hardware import base_name
        from harness.core.types import MethodId

        parts = MethodId.parse(method)
        path = self.paths.get(base_name(parts.encoder)) if parts else None
        return _key(self.registry.parse(method).encoder, path) if path else None


@cache  # each record asks, and files are read whole for it
def _key(encoder: Any, path: Path) -> str:
    key: str = encoder.identify(path).key
    return key


def patterns(
    method: list[str] | None, task: list[str] | None, encoder: list[str] | None
) -> Patterns:
    """What selects records, with models and mteb's tasks by their names here; these are noted.

    Records may be of encoders and tasks that are not known here. Raises UsageError for a method
    of a known encoder that cannot be.
    """
    from harness.assets.places import Places
    from harness.core.types import MethodId
    from harness.registry import is_glob
    from harness.resolve import Resolver

    resolver = Resolver.of(Places.from_environment(os.environ), encoder or [])
    methods = resolver.patterns(method or [])
    for name in methods:
        parts = None if is_glob(name) else MethodId.parse(name)
        if parts and parts.encoder.partition(":")[0] in resolver.registry.encoders:
            resolver.registry.parse(name)
    tasks = resolver.task_patterns(task or [])
    tell(resolver.notes)
    return Patterns(methods, tasks, resolver.registry, resolver.places.encoders)


def tell(meant: Mapping[str, str]) -> None:
    """Note what each name means here."""
    for name, meaning in meant.items():
        note(f"{name} is {meaning} here")


def _limited(cells: tuple[Any, ...], limit: int) -> tuple[Any, ...]:
    from harness.tasks.loader import limited

    return tuple(replace(cell, task=limited(cell.task, limit)) for cell in cells)


def records_folder(output: Path, limit: int | None) -> Path:
    """The folder of a run's records: those of a smoke run lie apart."""
    return output if limit is None else output / f"limit-{limit}"
