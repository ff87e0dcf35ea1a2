"""Loading of plug-ins: they are imported, registered, and have to keep the laws."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.contracts.laws import BrokenLaw, cases
from harness.core.errors import UsageError
from harness.core.provenance import PLUGINS, Plugin
from harness.plugins import import_plugins, plugins_in_use
from harness.registry import Registry, load_registry


def load_plugins(files: Iterable[str | Path] = ()) -> Registry:
    """Load plug-ins, as a command with `--plugin` does: `load_registry` has what they register.

    Args:
        files: Python files, or folders with an `__init__.py`. Those that
            HARNESS_PLUGINS names are loaded as well, and installed distributions that
            declare the entry point group `sentence_embedding_harness`.

    Returns:
        The registry, with what they register.

    Raises:
        UsageError: A file is not there, cannot be imported, registers a name that is
            taken, or something in it breaks a law of its kind.

    Examples:
        >>> import harness
        >>> registry = harness.load_plugins()  # of this folder, and the installed ones
        >>> "whitening" in registry.posts
        True
    """
    open_plugins(plugins_in_use(files))
    return load_registry()


def open_plugins(plugins: Iterable[Plugin]) -> list[str]:
    """Load plug-ins.

    Returns:
        A line for each law that is advised and that something breaks.

    Raises:
        UsageError: A line for each law that is required and that something breaks.
    """
    advice: list[str] = []
    for plugin in plugins:
        if PLUGINS.get(plugin.name) == plugin:
            continue
        ids_before = {case.id for case in cases(load_registry())}
        import_plugins([plugin])
        broken_laws: list[str] = []
        for case in cases(load_registry()):
            if case.id in ids_before:
                continue
            try:
                case.run()
            except BrokenLaw as error:
                lines = broken_laws if case.is_required else advice
                lines.append(f"{plugin.origin}: {error}")
        if broken_laws:
            raise UsageError("\n".join(broken_laws))
    return advice
