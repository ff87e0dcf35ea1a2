"""Plug-ins that are loaded once they keep the contracts of what they register."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.contracts.cases import BrokenContract, Case, cases
from harness.core.errors import UsageError
from harness.core.provenance import PLUGINS, Plugin
from harness.plugins import import_plugins, plugins_in_use
from harness.registry import Registry, load_registry


def load_plugins(files: Iterable[str | Path] = ()) -> Registry:
    """Load plug-ins, as a command with `--plugin` does: `load_registry` has what they register.

    Args:
        files: Python files, or folders with an `__init__.py`. Those that
            HARNESS_PLUGINS and the pyproject.toml of the current folder name are loaded
            as well, and installed distributions that declare the entry point group
            `sentence_embedding_harness`.

    Returns:
        The registry, with what they register.

    Raises:
        UsageError: A file is not there, cannot be imported, registers a name that is
            taken, or fails a contract test of its kind.

    Examples:
        >>> import harness
        >>> registry = harness.load_plugins()  # those of this folder, and the installed ones
        >>> "whitening" in registry.posts
        True
    """
    open_plugins(plugins_in_use(files))
    return load_registry()


def open_plugins(plugins: Iterable[Plugin]) -> None:
    """Load plug-ins. Raises UsageError with file, thing and contract if a contract test fails."""
    for plugin in plugins:
        if PLUGINS.get(plugin.name) == plugin:
            continue
        registry = load_registry()
        import_plugins([plugin])
        _require_posts_in_methods(plugin)
        broken = [*_broken(plugin, registry)]
        if broken:
            more = f" And {len(broken) - 1} more." if len(broken) > 1 else ""
            raise UsageError(
                f"{plugin.origin}: {broken[0]}{more} pytest --harness-contracts --tb=short "
                f"--plugin {plugin.origin} shows where"
            )


def new_cases(registry: Registry) -> list[Case]:
    """The contracts of what plug-ins have added since this was the registry."""
    known = {case.id for case in cases(registry)}
    return [case for case in cases(load_registry()) if case.id not in known]


def _require_posts_in_methods(plugin: Plugin) -> None:
    """Raise UsageError for a post-processor in no method: no contract would be tested on it."""
    registry = load_registry()
    used = {
        post.name.partition(":")[0]
        for m in registry.methods.values()
        for post in m.post
    }
    if unused := sorted(registry.posts.keys() - used):
        raise UsageError(
            f"{plugin.origin}: +{unused[0]} is in no method; add one, as in METHODS = "
            f'("bert-mini.mean+{unused[0]}@target",)'
        )


def _broken(plugin: Plugin, registry: Registry) -> Iterator[str]:
    """A line for each contract that a plug-in breaks; `registry` is that before it was imported."""
    try:
        added = new_cases(registry)
    except Exception as error:
        line = next(iter(str(error).splitlines()), "")
        why = f"what it registers cannot be tested: {type(error).__name__}: {line}"
        raise UsageError(f"{plugin.origin}: {why}") from error
    for case in added:
        try:
            case.run()
        except BrokenContract as error:
            yield str(error)
