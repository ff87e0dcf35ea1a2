"""Plug-ins: methods, tasks, encoders and their parts from a file or an installed distribution.

A plug-in ends with tuples as a file of `baselines` does: METHODS (or their ids), ENCODERS,
POOLINGS, TASKS, CORPORA, METRICS and ASSETS, and the mapping POSTS. Nothing is imported that the
user did not name or install, and what only reads results imports none.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from collections.abc import Container, Iterable, Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, distributions
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.assets import places
from harness.core.errors import HarnessError, UsageError, is_interruption
from harness.core.metrics import add_metric
from harness.core.provenance import FILES, LAWS, PLUGINS, Plugin
from harness.registry import Registry, collected, load_registry

GROUP = "sentence_embedding_harness"  # of entry points
KINDS = ("METHODS", "ENCODERS", "POSTS", "POOLINGS", "TASKS", "CORPORA", "METRICS", "ASSETS")
TABLE = "sentence-embedding-harness"  # [tool.…] of a pyproject.toml


def load_plugins(files: Iterable[str | Path] = ()) -> Registry:
    """Load plug-ins, as a command with `--plugin` does: `load_registry` has what they register.

    Args:
        files: Python files. Those that HARNESS_PLUGINS and the pyproject.toml of the current folder
            name are loaded as well, and installed distributions that declare the entry point
            group `sentence_embedding_harness`.

    Returns:
        The registry, with what they register.

    Raises:
        UsageError: A file is not there, cannot be imported, registers a name that is taken, or
            fails a contract test of its kind.

    Examples:
        >>> import harness
        >>> registry = harness.load_plugins()  # those of this folder, and the installed ones
        >>> "whitening" in registry.posts
        True
    """
    open_plugins(plugins_in_use(files))
    return load_registry()


def plugins_in_use(named: Iterable[str | Path] = ()) -> list[Plugin]:
    """The plug-ins of a command that measures; none of them is imported yet.

    Those are the files named, those of HARNESS_PLUGINS and of the pyproject.toml of the current
    folder, and the installed ones. Raises UsageError for a file that is not there.
    """
    files = [*named, *filter(None, os.environ.get("HARNESS_PLUGINS", "").split(os.pathsep))]
    project = Path("pyproject.toml")
    if project.is_file():
        try:
            tool = tomllib.loads(project.read_text(encoding="utf-8")).get("tool", {})
        except (OSError, ValueError) as error:
            raise UsageError(f"pyproject.toml: wanted TOML, found: {error}") from None
        chosen = tool.get(TABLE, {}).get("plugins", [])
        if not (isinstance(chosen, list) and all(isinstance(path, str) for path in chosen)):
            raise UsageError(f"pyproject.toml, tool.{TABLE}: plugins: wanted a list of files")
        files += chosen
    return [*dict.fromkeys((*map(plugin_of_file, files), *_installed()))]


def plugin_of_file(path: str | Path) -> Plugin:
    """A file as a plug-in. Raises UsageError unless it is a Python file."""
    file = Path(path).expanduser().absolute()
    if not (file.is_file() and file.suffix == ".py" and file.stem.isidentifier()):
        raise UsageError(f"--plugin {path}: wanted a Python file, as in my_method.py")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    return Plugin(file.stem, str(file), "", sha256, f"{FILES}.{file.stem}")


def _installed() -> Iterator[Plugin]:
    """What installed distributions declare, of each name the first on the path.

    Raises UsageError, which names the distribution, where it cannot be read.
    """
    seen = set()
    for distribution in distributions():
        try:
            declared = distribution.read_text("entry_points.txt") or ""
            if GROUP not in declared:
                continue
            name = distribution.metadata["Name"]
            if not name:
                raise ValueError("METADATA without a Name")
            if name not in seen:
                seen.add(name)
                yield from map(_of_entry_point, distribution.entry_points.select(group=GROUP))
        except UsageError:
            raise
        except Exception as error:
            line = next(iter(str(error).splitlines()), "")
            where = getattr(distribution, "_path", "a distribution")
            why = f"wanted NAME = MODULE in entry_points.txt, found {type(error).__name__}: {line}"
            raise UsageError(f"{where}: {why}; install it again, or remove it") from error


def _of_entry_point(point: EntryPoint) -> Plugin:
    """What a distribution registers; nothing is imported but the package's own place.

    Raises UsageError, which names distribution and entry point, where there is no such module.
    """
    place = f"{point.dist.name if point.dist else 'a distribution'}, entry point {point.name}"
    words = point.value.partition(":")[0].strip()
    if not all(word.isidentifier() for word in words.split(".")):
        raise UsageError(f"{place}: wanted a module, as in my_package.methods, found {words!r}")
    try:
        return _located(point)
    except Exception as error:
        line = next(iter(str(error).splitlines()), "")
        why = f"wanted a module with sources, found {type(error).__name__}: {line}"
        raise UsageError(f"{place}: {why}; install it again, or remove it") from error


def _located(point: EntryPoint) -> Plugin:
    """The plug-in of an entry point whose module has a name."""
    spec = find_spec(point.module.partition(".")[0])
    folders = (Path(folder) for folder in (spec and spec.submodule_search_locations) or ())
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    files = files or ([Path(spec.origin)] if spec and spec.origin else [])
    sources = b"".join(file.name.encode() + b"\0" + file.read_bytes() for file in files)
    name, version = point.value, ""
    if point.dist:
        name, version = point.dist.name, point.dist.version or ""
    sha256 = hashlib.sha256(sources).hexdigest()
    return Plugin(point.name, f"{name} {version}".strip(), version, sha256, point.module)


def import_plugins(plugins: Iterable[Plugin]) -> None:
    """Import plug-ins, and register what they hold: `load_registry` has it from now on.

    Raises UsageError, which names the plug-in, where it cannot be imported or registers a name that
    is taken.
    """
    for plugin in plugins:
        if PLUGINS.get(plugin.name) == plugin:
            continue
        if (other := PLUGINS.get(plugin.name, plugin)) != plugin:
            raise UsageError(
                f"{plugin.origin}: another plug-in is called {plugin.name!r}: {other.origin}; "
                "rename one of them"
            )
        try:
            module = _imported(plugin)
            places.ADDED |= {asset.name: asset for asset in getattr(module, "ASSETS", ())}
            for metric in getattr(module, "METRICS", ()):
                add_metric(metric)
            collected((*PLUGINS.values(), plugin))
        except HarnessError as error:
            raise UsageError(f"{plugin.origin}: {error}") from error
        except BaseException as error:
            if is_interruption(error):
                raise
            line = next(iter(str(error).splitlines()), "")
            why = f"cannot be imported: {type(error).__name__}: {line}"
            raise UsageError(f"{plugin.origin}: {why}") from error
        PLUGINS[plugin.name] = plugin


def open_plugins(plugins: Iterable[Plugin]) -> None:
    """Load plug-ins. Raises UsageError with file, thing and contract if a contract test fails."""
    for plugin in plugins:
        if PLUGINS.get(plugin.name) == plugin:
            continue
        earlier = {case.id for case in contracts().cases(load_registry())}
        import_plugins([plugin])
        registry = load_registry()
        used = {post.name.partition(":")[0] for m in registry.methods.values() for post in m.post}
        if unseen := sorted(registry.posts.keys() - used):  # no contract test would ever see it
            raise UsageError(
                f"{plugin.origin}: +{unseen[0]} stands in no method; add one, as in METHODS = "
                f'("bert-mini.mean+{unseen[0]}@target",)'
            )
        if broken := [*_broken(plugin, earlier)]:
            more = f" And {len(broken) - 1} more." if len(broken) > 1 else ""
            raise UsageError(
                f"{plugin.origin}: {broken[0]}{more} pytest --harness-contracts --tb=short "
                f"--plugin {plugin.origin} shows where"
            )


def _broken(plugin: Plugin, earlier: Container[str]) -> Iterator[str]:
    """A line for each contract that what a plug-in registers breaks; those of `earlier` are not."""
    laws = contracts()
    try:
        cases = [case for case in laws.cases(load_registry()) if case.id not in earlier]
    except Exception as error:
        line = next(iter(str(error).splitlines()), "")
        why = f"what it registers cannot be tested: {type(error).__name__}: {line}"
        raise UsageError(f"{plugin.origin}: {why}") from error
    for case in cases:
        try:
            case.law()
        except laws.BrokenContract as error:
            yield str(error)


def contracts() -> ModuleType:
    """The contract tests: a module of the wheel, and in a checkout of its tests."""
    return _from_file("harness.contracts", LAWS)


def registered(plugin: Plugin) -> dict[str, list[str]]:
    """The names that a loaded plug-in registers, by the tuple that holds them."""

    def name(thing: Any) -> str:
        return thing if isinstance(thing, str) else getattr(thing, "id", None) or thing.name

    module = sys.modules[plugin.module]
    return {kind: [*map(name, getattr(module, kind, ()))] for kind in KINDS}


def _imported(plugin: Plugin) -> ModuleType:
    if not plugin.module.startswith(f"{FILES}."):
        return import_module(plugin.module)
    sys.modules.setdefault(FILES, ModuleType(FILES))
    return _from_file(plugin.module, Path(plugin.origin))


def _from_file(name: str, path: Path) -> ModuleType:
    """The module of a file, imported once under this name."""
    if name in sys.modules:
        return sys.modules[name]
    spec: Any = spec_from_file_location(name, path)
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
