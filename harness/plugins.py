"""Plug-ins: methods, tasks, encoders and their parts from a file, a folder or a distribution.

A plug-in ends with tuples as a file of `baselines` does: METHODS (methods or their ids),
ENCODERS, POOLINGS, TASKS, CORPORA, METRICS and ASSETS, and the mapping POSTS.

`plugins_in_use` finds the plug-ins of a command and computes their digests, and
`import_plugins` imports them. Nothing is imported that the user did not name or install,
and commands that only read results import no plug-in.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.core.digests import digest_of
from harness.core.errors import HarnessError, UsageError, first_line, is_interruption
from harness.core.metrics import add_metric
from harness.core.provenance import FILE_PLUGINS, PLUGINS, Plugin
from harness.data import places
from harness.registry import collected

GROUP = "sentence_embedding_harness"  # of entry points
PLUGINS_SETTING = "HARNESS_PLUGINS"  # a variable of the environment
# The tuples, and one mapping, that a plug-in may end with.
PLUGIN_LISTS = (
    "METHODS",
    "ENCODERS",
    "POSTS",
    "POOLINGS",
    "TASKS",
    "CORPORA",
    "METRICS",
    "ASSETS",
)
BYTECODE = "__pycache__"  # a folder that Python makes by itself

# The plug-ins of a command


def plugins_in_use(named: Iterable[str | Path] = ()) -> list[Plugin]:
    """The plug-ins of a command that measures; none of them is imported yet.

    They are the files that are named, the files of HARNESS_PLUGINS, and installed
    distributions. Raises UsageError for a file that is not there.
    """
    in_environment = os.environ.get(PLUGINS_SETTING, "").split(os.pathsep)
    files = [*named, *filter(None, in_environment)]
    plugins = [plugin_of_file(file) for file in files]
    plugins += [_plugin_of_entry_point(point) for point in entry_points(group=GROUP)]
    return list(dict.fromkeys(plugins))


def plugin_of_file(path: str | Path) -> Plugin:
    """A Python file, or a folder with an __init__.py, as a plug-in. Raises UsageError."""
    place = Path(path).expanduser().absolute()
    is_package = (place / "__init__.py").is_file()
    is_module = place.is_file() and place.suffix == ".py"
    name = place.name if place.is_dir() else place.stem
    if not (is_package or is_module) or not name.isidentifier():
        raise UsageError(
            f"--plugin {path}: wanted a Python file, as in my_method.py, or a folder with an "
            "__init__.py, as in my_methods"
        )
    return Plugin(
        name=name,
        origin=str(place),
        version="",
        sha256=_digest(place),
        module=f"{FILE_PLUGINS}.{name}",
    )


def _plugin_of_entry_point(point: EntryPoint) -> Plugin:
    """The plug-in that an entry point names. Its package is found, and not imported.

    Raises UsageError, which names distribution and entry point, if there is none.
    """
    package, _, _ = point.module.partition(".")
    distribution = point.dist.name if point.dist else "a distribution"
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UsageError(
            f"{distribution}, entry point {point.name}: wanted an installed module, found none "
            f"called {package}; install {distribution} again, or remove it"
        )
    version = point.dist.version if point.dist else ""
    folders = list(spec.submodule_search_locations or ())
    return Plugin(
        name=point.name,
        origin=f"{distribution} {version}".strip(),
        version=version,
        sha256=_digest(Path(folders[0] if folders else spec.origin)),
        module=point.module,
    )


def _digest(place: Path) -> str:
    """The sha256 of a file; of a folder, of the paths and digests of its files but bytecode."""
    if place.is_file():
        return hashlib.sha256(place.read_bytes()).hexdigest()
    digests = {}
    for file in sorted(place.rglob("*")):
        if file.is_file() and BYTECODE not in file.parts:
            name = file.relative_to(place).as_posix()
            digests[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return digest_of(digests)


# Loading


def import_plugins(plugins: Iterable[Plugin]) -> None:
    """Import plug-ins, and register what they hold: `load_registry` has it from now on.

    Raises UsageError, which names the plug-in, if it cannot be imported or registers a
    name that is taken.
    """
    for plugin in plugins:
        namesake = PLUGINS.get(plugin.name)
        if namesake == plugin:
            continue
        if namesake is not None:
            raise UsageError(
                f"{plugin.origin}: another plug-in is called {plugin.name!r}: "
                f"{namesake.origin}; rename one of them"
            )
        try:
            module = _imported(plugin)
            for asset in getattr(module, "ASSETS", ()):
                places.PLUGIN_ASSETS[asset.name] = asset
            for metric in getattr(module, "METRICS", ()):
                add_metric(metric)
            collected((*PLUGINS.values(), plugin))
        except HarnessError as error:
            raise UsageError(f"{plugin.origin}: {error}") from error
        except BaseException as error:
            # The code of a plug-in may raise anything when it is imported.
            if is_interruption(error):
                raise
            raise UsageError(
                f"{plugin.origin}: cannot be imported: {type(error).__name__}: {first_line(error)}"
            ) from error
        PLUGINS[plugin.name] = plugin


def _imported(plugin: Plugin) -> ModuleType:
    """The module of a plug-in.

    Raises HarnessError if a file changed since the command began: a worker process would
    run other code than the one whose digest the records hold.
    """
    if plugin.module in sys.modules:
        return sys.modules[plugin.module]
    if not plugin.module.startswith(f"{FILE_PLUGINS}."):
        return import_module(plugin.module)
    if plugin_of_file(plugin.origin) != plugin:
        raise HarnessError("the plug-in changed since the command began; run again")
    # Python compares bytecode with its source by size and whole seconds, so that a file
    # which is edited twice in a second would run as it was before.
    sys.dont_write_bytecode = True
    # The package of these plug-ins is on no disk.
    sys.modules.setdefault(FILE_PLUGINS, ModuleType(FILE_PLUGINS))
    place = Path(plugin.origin)
    file = place / "__init__.py" if place.is_dir() else place
    folders = [str(place)] if place.is_dir() else None
    spec: Any = spec_from_file_location(
        plugin.module, file, submodule_search_locations=folders
    )
    module = module_from_spec(spec)
    sys.modules[plugin.module] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[plugin.module]
        raise
    return module


def registered(plugin: Plugin) -> dict[str, list[str]]:
    """The names that a loaded plug-in registers, by the tuple that holds them."""
    module = sys.modules[plugin.module]
    names_by_tuple: dict[str, list[str]] = {}
    for tuple_name in PLUGIN_LISTS:
        # POSTS has names as keys, and METHODS may hold ids: a string is its own name.
        names_by_tuple[tuple_name] = [
            str(getattr(thing, "id", "") or getattr(thing, "name", thing))
            for thing in getattr(module, tuple_name, ())
        ]
    return names_by_tuple
