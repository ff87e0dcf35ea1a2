"""The methods and tasks that a published table names, looked up in the registry."""

from __future__ import annotations

from collections.abc import Iterator

from harness.core.errors import UsageError
from harness.registry import Registry, known
from harness.results.published import Table


def name_faults(table: Table, registry: Registry) -> Iterator[tuple[str, str]]:
    """Place and fault of every name that the registry does not know, with the nearest ones."""
    for column in table.columns:
        if column.task:
            yield from _unknown_task(f", column {column.id}", "task", column.task, registry)
    for row in table.rows:
        place = f", row {row.id}"
        for name, task in row.tasks.items():
            yield from _unknown_task(place, f"tasks.{name}", task, registry)
        methods = {"method": row.method, **{f"methods.{n}": m for n, m in row.methods.items()}}
        for key, method in methods.items():
            if method is not None and not row.model_free:
                yield from _unknown_method(place, key, method, registry)


def _unknown_task(place: str, key: str, task: str, registry: Registry) -> Iterator[tuple[str, str]]:
    try:
        known("task", task, registry.tasks)
    except UsageError as error:
        yield place, f"{key}: {error}"


def _unknown_method(
    place: str, key: str, method: str, registry: Registry
) -> Iterator[tuple[str, str]]:
    try:
        registry.parse(method)
    except UsageError as error:
        yield place, f"{key}: {method!r} is no method here: {error}"
