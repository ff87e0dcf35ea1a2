"""From what was asked for to cells: patterns, defaults, encoders given by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from harness.core.errors import HarnessError, UsageError
from harness.core.interfaces import EncoderConfig, Packaged, Trained
from harness.core.types import Method, Task
from harness.registry import Registry, is_glob
from harness.results.records import PlannedCell, by_encoder, cells

PROFILES = ("all", "embedded", "standard", "papers")
SHOWN = 8  # of a list of methods in a sentence
EMBEDDED = "embedded"  # the asset that is always there


def choose(
    registry: Registry, methods: Sequence[str] | None, tasks: Sequence[str] | None, seeds: int
) -> tuple[PlannedCell, ...]:
    """The cells for patterns; by default every registered method on every task of `default_tasks`.

    A method that is asked for by its id runs wherever it is sent; one that a glob or the default
    selects runs where it is meaningful (`Method.tasks`). Raises UsageError if nothing is left.
    """
    chosen = registry.select_methods(methods or ["*"])
    by_id = {pattern for pattern in methods or () if not is_glob(pattern)}
    on = registry.select_tasks(tasks) if tasks else default_tasks(registry)
    selected = [
        cell
        for method in chosen
        for cell in cells([method], on if method.id in by_id else meaningful(method, on), seeds)
    ]
    if not selected:
        why = left_out(registry, methods, tasks)
        raise UsageError("; ".join(("nothing is left to run", *why)))
    return tuple(sorted(selected, key=order))


def left_out(
    registry: Registry, methods: Sequence[str] | None, tasks: Sequence[str] | None
) -> tuple[str, ...]:
    """A message about methods that a glob selects and that no selected task is meant for.

    One sentence for those that run by their ids all the same, and one for those that cannot.
    """
    if not methods:
        return ()
    named = {pattern for pattern in methods if not is_glob(pattern)}
    on = registry.select_tasks(tasks) if tasks else default_tasks(registry)
    every = [method for method in registry.select_methods(methods) if method.id not in named]
    out = [(method, set(on) - set(meaningful(method, on))) for method in every]
    unable = [m.id for m, left in out if any(_lacks_training_split(m, task) for task in left)]
    unmeant = [m.id for m, left in out if left and m.id not in unable]
    told = []
    if unmeant:
        told.append(
            f"left out, as not registered for every one of these tasks: {_some(unmeant)}; named by "
            "its id (-m ID) each runs on all of them"
        )
    if unable:
        told.append(
            f"left out where a task has no training split to fit on: {_some(unable)}; fit on "
            "@target there"
        )
    return tuple(told)


def _some(names: Sequence[str]) -> str:
    """The number of names and the first few of them."""
    more = f", … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{len(names)} method{'s' * (len(names) > 1)} ({', '.join(names[:SHOWN])}{more})"


def profile(registry: Registry, name: str, papers: Path, seeds: int) -> tuple[PlannedCell, ...]:
    """The cells of a profile, embedded encoders first.

    `embedded` reads nothing but what the harness carries, `standard` is every registered method on
    every task, `papers` every published cell that has a method here, `all` is all of it.
    """
    if name == "embedded":
        every = choose(registry, None, None, seeds)
        return tuple(cell for cell in every if reads_embedded(cell, registry))
    registered = () if name == "papers" else choose(registry, None, None, seeds)
    published = () if name == "standard" else _published(registry, papers, seeds)
    return tuple(
        sorted({cell.address: cell for cell in (*registered, *published)}.values(), key=order)
    )


def reads_embedded(cell: PlannedCell, registry: Registry) -> bool:
    """Whether a cell reads nothing but what the harness carries."""
    corpus = registry.corpora.get(cell.method.fit_on or "")
    assets = {cell.task.asset, *([corpus.asset] if corpus else [])}
    return is_embedded(cell.method.encoder) and assets == {EMBEDDED}


def is_embedded(encoder: EncoderConfig) -> bool:
    """Whether the encoder's files come with the harness, or are made on the spot from such."""
    source = encoder.source
    if isinstance(source, Trained):
        return source.on_the_spot
    return isinstance(source, Packaged) and source.package.startswith("harness/")


def _published(registry: Registry, papers: Path, seeds: int) -> Iterator[PlannedCell]:
    from harness.results.published import load_tables

    for cell in (cell for table in load_tables(papers, registry) for cell in table.cells()):
        if cell.method is None or cell.row.model_free:
            continue
        try:
            method = registry.parse(cell.method)
        except HarnessError:
            continue  # the table says `no method`
        tasks = [registry.tasks[name] for name in (cell.average_of or (cell.task,)) if name]
        yield from cells([method], tasks, seeds)


def order(cell: PlannedCell) -> tuple[bool, str, str, str]:
    """The order of a run: embedded encoders first, then by encoder and pooling to share work."""
    return not is_embedded(cell.method.encoder), *by_encoder(cell)


def default_tasks(registry: Registry) -> tuple[Task, ...]:
    """Every task that is neither a training split nor measured on request alone."""
    tasks = registry.tasks.values()
    return tuple(task for task in tasks if task.scored != (task.train,) and not task.on_request)


def meaningful(method: Method, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks that the method is meant for."""
    return tuple(
        task
        for task in tasks
        if any(fnmatchcase(task.name, pattern) for pattern in method.tasks)
        and not _lacks_training_split(method, task)
    )


def _lacks_training_split(method: Method, task: Task) -> bool:
    return method.fit_on == "target-train" and task.train is None
