"""From what was asked for to cells: patterns, the tasks and methods by default, profiles."""

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
SHOWN = 8  # of the methods that are left out
SKIPPED = "on tasks that they are not registered for; name one by its id (-m ID) to run it"
EMBEDDED = "embedded"  # the asset that is always there


def select_cells(
    registry: Registry, methods: Sequence[str] | None, tasks: Sequence[str] | None, seeds: int
) -> tuple[tuple[PlannedCell, ...], str]:
    """The cells for patterns; by default every registered method on every task of `default_tasks`.

    A method that is asked for by its id runs wherever it is sent; one that a glob or the default
    selects runs where it is meaningful (`Method.tasks`), and a sentence names those that globs
    leave out. Raises UsageError if nothing is left.
    """
    by_id = {pattern for pattern in methods or () if not is_glob(pattern)}
    chosen_tasks = registry.select_tasks(tasks) if tasks else default_tasks(registry)
    selected: list[PlannedCell] = []
    left_out = []
    for method in registry.select_methods(methods or ["*"]):
        suited = chosen_tasks if method.id in by_id else meaningful(method, chosen_tasks)
        selected += cells([method], suited, seeds)
        if methods and len(suited) < len(chosen_tasks):
            left_out.append(method.id)
    count = f"{len(left_out)} method{'s' * (len(left_out) > 1)}"
    why = f"skipped {count} {SKIPPED}: {', '.join(left_out[:SHOWN])}" if left_out else ""
    if not selected:
        raise UsageError("; ".join(filter(None, ("nothing is left to run", why))))
    return tuple(sorted(selected, key=_order)), why


def profile(registry: Registry, name: str, papers: Path, seeds: int) -> tuple[PlannedCell, ...]:
    """The cells of a profile, embedded encoders first.

    `embedded` reads nothing but what the harness carries, `standard` is every registered method on
    every task, `papers` every published cell that has a method here, `all` is all of it.
    """
    registered, _ = ((), "") if name == "papers" else select_cells(registry, None, None, seeds)
    if name == "embedded":
        return tuple(cell for cell in registered if _reads_embedded(cell, registry))
    published = () if name == "standard" else _published(registry, papers, seeds)
    every = {cell.address: cell for cell in (*registered, *published)}
    return tuple(sorted(every.values(), key=_order))


def _reads_embedded(cell: PlannedCell, registry: Registry) -> bool:
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

    for cell in (cell for table in load_tables(papers, registry) for cell in table.cells):
        if cell.method is None:
            continue
        try:
            method = registry.parse(cell.method)
        except HarnessError:
            continue  # the table says `no method`
        tasks = [registry.tasks[name] for name in (cell.average_of or (cell.task,)) if name]
        yield from cells([method], tasks, seeds)


def _order(cell: PlannedCell) -> tuple[bool, str, str, str]:
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
        and not (method.fit_on == "target-train" and task.train in (None, *task.scored))
    )
