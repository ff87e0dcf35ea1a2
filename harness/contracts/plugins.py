"""Loading of plug-ins: they are imported, registered, and tested by their contracts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.contracts.cases import BrokenContract, Case, cases
from harness.core.errors import UsageError, first_line
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
        >>> registry = harness.load_plugins()  # of this folder, and the installed ones
        >>> "whitening" in registry.posts
        True
    """
    open_plugins(plugins_in_use(files))
    return load_registry()


def open_plugins(plugins: Iterable[Plugin]) -> None:
    """Load plug-ins. Raises UsageError, which names the contract, if a contract test fails."""
    for plugin in plugins:
        if PLUGINS.get(plugin.name) == plugin:
            continue
        registry_before = load_registry()
        import_plugins([plugin])
        _require_posts_in_methods(plugin)
        broken_contracts = list(_broken_contracts(plugin, registry_before))
        if broken_contracts:
            message = broken_contracts[0]
            if len(broken_contracts) > 1:
                message += f" (and {len(broken_contracts) - 1} more)"
            raise UsageError(
                f"{plugin.origin}: {message}; pytest --harness-contracts --tb=short "
                f"--plugin {plugin.origin} shows where"
            )


def new_cases(registry_before: Registry) -> list[Case]:
    """The cases of the things that are registered now and were not in `registry_before`."""
    ids_before = {case.id for case in cases(registry_before)}
    return [case for case in cases(load_registry()) if case.id not in ids_before]


def _require_posts_in_methods(plugin: Plugin) -> None:
    """Raise UsageError for a post-processor in no method: no contract would be tested on it."""
    registry = load_registry()
    used_words = set()
    for method in registry.methods.values():
        for post in method.post:
            used_words.add(post.name.partition(":")[0])
    unused_words = sorted(registry.posts.keys() - used_words)
    if unused_words:
        word = unused_words[0]
        raise UsageError(
            f"{plugin.origin}: +{word} is in no method; add one, as in METHODS = "
            f'("bert-mini.mean+{word}@target",)'
        )


def _broken_contracts(plugin: Plugin, registry_before: Registry) -> Iterator[str]:
    """A line for each contract that is broken by something that a plug-in registers."""
    try:
        added_cases = new_cases(registry_before)
    except Exception as error:  # the code of a plug-in may raise anything
        raise UsageError(
            f"{plugin.origin}: what it registers cannot be tested: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error
    for case in added_cases:
        try:
            case.run()
        except BrokenContract as error:
            yield str(error)
