"""Plug-ins: methods, tasks, encoders and their parts from a file, a folder or a distribution.

A plug-in ends with tuples as a file of `baselines` does: METHODS (or their ids),
ENCODERS, POOLINGS, TASKS, CORPORA, METRICS and ASSETS, and the mapping POSTS. Nothing
is imported that the user did not name or install, and what only reads results imports
none.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import EntryPoint, distributions
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from harness.assets import places
from harness.core.digests import digest_of
from harness.core.environment import PACKAGES
from harness.core.errors import HarnessError, UsageError, is_interruption
from harness.core.metrics import add_metric
from harness.core.plugin_code import (
    HARNESS_PACKAGES,
    harness_code,
    require_digested,
    require_in_place,
    require_nothing_replaced,
    require_own_code,
    watch,
)
from harness.core.provenance import FILE_PLUGINS, PLUGINS, Plugin
from harness.registry import collected

GROUP = "sentence_embedding_harness"  # of entry points
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
PYPROJECT_TABLE = "sentence-embedding-harness"  # [tool.…] of a pyproject.toml
BYTECODE = "__pycache__"


def plugins_in_use(named: Iterable[str | Path] = ()) -> list[Plugin]:
    """The plug-ins of a command that measures; none of them is imported yet.

    Those are the files named, those of HARNESS_PLUGINS and of the pyproject.toml of the
    current folder, and the installed ones. Raises UsageError for a file that is not
    there.
    """
    files = [
        *named,
        *filter(None, os.environ.get("HARNESS_PLUGINS", "").split(os.pathsep)),
    ]
    project = Path("pyproject.toml")
    if project.is_file():
        try:
            tool = tomllib.loads(project.read_text(encoding="utf-8")).get("tool", {})
        except (OSError, ValueError) as error:
            raise UsageError(f"pyproject.toml: wanted TOML, found: {error}") from None
        chosen = tool.get(PYPROJECT_TABLE, {}).get("plugins", [])
        if not (
            isinstance(chosen, list) and all(isinstance(path, str) for path in chosen)
        ):
            raise UsageError(
                f"pyproject.toml, tool.{PYPROJECT_TABLE}: plugins: wanted a list of files"
            )
        files += chosen
    return [*dict.fromkeys((*map(plugin_of_file, files), *_installed()))]


def plugin_of_file(path: str | Path) -> Plugin:
    """A file, or a folder, as a plug-in. Raises UsageError unless it is Python's."""
    place = Path(path).expanduser().absolute()
    is_folder = (place / "__init__.py").is_file()
    if not (
        (is_folder or (place.is_file() and place.suffix == ".py")) and _word(place)
    ):
        raise UsageError(
            f"--plugin {path}: wanted a Python file, as in my_method.py, or a folder with an "
            "__init__.py, as in my_methods"
        )
    module = f"{FILE_PLUGINS}.{_word(place)}"
    return Plugin(
        _word(place), str(place), "", _Content.from_place(module, place).digest, module
    )


def _word(place: Path) -> str:
    """The name of a file's or a folder's module; empty where it can be none."""
    word = place.name if place.is_dir() else place.stem
    return word if word.isidentifier() else ""


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
            names = distribution.metadata.get_all("Name") or ()
            name = next(iter(names), None)
            if not name:
                raise ValueError("METADATA without a Name")
            if name not in seen:
                seen.add(name)
                yield from map(
                    _of_entry_point, distribution.entry_points.select(group=GROUP)
                )
        except UsageError:
            raise
        except Exception as error:
            line = next(iter(str(error).splitlines()), "")
            where = getattr(distribution, "_path", "a distribution")
            why = f"wanted NAME = MODULE in entry_points.txt, found {type(error).__name__}: {line}"
            raise UsageError(
                f"{where}: {why}; install it again, or remove it"
            ) from error


def _of_entry_point(point: EntryPoint) -> Plugin:
    """What a distribution registers; nothing is imported but the package's own place.

    Raises UsageError, which names distribution and entry point, where there is no such
    module.
    """
    place = f"{point.dist.name if point.dist else 'a distribution'}, entry point {point.name}"
    words = point.value.partition(":")[0].strip()
    if not all(word.isidentifier() for word in words.split(".")):
        raise UsageError(
            f"{place}: wanted a module, as in my_package.methods, found {words!r}"
        )
    try:
        content = _Content.installed(point.module)
        if not content.files:
            top = point.module.partition(".")[0]
            is_absent = find_spec(top) is None
            raise ImportError(
                f"No module named {top!r}" if is_absent else "no source file"
            )
    except Exception as error:
        line = next(iter(str(error).splitlines()), "")
        why = f"wanted a module with sources, found {type(error).__name__}: {line}"
        raise UsageError(f"{place}: {why}; install it again, or remove it") from error
    name, version = point.value, ""
    if point.dist:
        name, version = point.dist.name, point.dist.version or ""
    sha256 = content.digest
    return Plugin(
        point.name, f"{name} {version}".strip(), version, sha256, point.module
    )


@dataclass(frozen=True, eq=False)
class _Content(MetaPathFinder):
    """All files of a plug-in by their paths below its place, and the importer of their code.

    What is imported is compiled from the bytes that were digested: never from a file
    that changed since, nor from bytecode that Python keeps, which it tells by size and
    whole seconds alone.
    """

    module: str
    place: Path
    files: Mapping[str, bytes]

    @classmethod
    def from_place(cls, module: str, place: Path) -> _Content:
        """The files of a module at a place: one file, or all in a folder but Python's bytecode."""
        if place.is_file():
            return cls(module, place, {"": place.read_bytes()})
        found = (file for file in sorted(place.rglob("*")) if file.is_file())
        files = {file.relative_to(place): file for file in found}
        kept = {
            path: file for path, file in files.items() if BYTECODE not in path.parts
        }
        return cls(
            module, place, {path.as_posix(): f.read_bytes() for path, f in kept.items()}
        )

    @classmethod
    def installed(cls, module: str) -> _Content:
        """The files of an installed package or module; none where it is not there."""
        top = module.partition(".")[0]
        finders = (finder for finder in sys.meta_path if not isinstance(finder, cls))
        specs = (finder.find_spec(top, None) for finder in finders)
        spec = next(filter(None, specs), None)
        folders = [*((spec and spec.submodule_search_locations) or ())]
        file = spec.origin if spec and spec.has_location else None
        place = folders[0] if folders else file
        return cls.from_place(top, Path(place)) if place else cls(top, Path(), {})

    @property
    def digest(self) -> str:
        """The sha256 of a file, as others take it; of a folder, over the paths of its files too."""
        digests = {
            path: hashlib.sha256(data).hexdigest() for path, data in self.files.items()
        }
        return digests.get("") or digest_of(digests)

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """How a module of the plug-in is imported; None for any other, or without source."""
        if not f"{fullname}.".startswith(f"{self.module}."):
            return None
        inside = "/".join(fullname.removeprefix(self.module).split(".")[1:])
        package = f"{inside}/__init__.py".removeprefix("/")
        for path in (
            ("", package) if fullname == self.module else (package, f"{inside}.py")
        ):
            if path in self.files:
                file = self.place / path if path else self.place
                loader = _Compiled(fullname, str(file), self.files[path])
                folders = [str(file.parent)] if path == package else None
                return spec_from_file_location(
                    fullname, file, loader=loader, submodule_search_locations=folders
                )
        return None


class _Compiled(SourceFileLoader):
    """The loader of a module whose source was read already."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self.source = source

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - it has one module
        return self.source_to_code(self.source, self.path)


def _content_now(plugin: Plugin) -> _Content:
    """The files of a plug-in as they are now."""
    if plugin.module.startswith(f"{FILE_PLUGINS}."):
        return _Content.from_place(plugin.module, Path(plugin.origin))
    return _Content.installed(plugin.module)


def _require_same(plugin: Plugin, content: _Content) -> None:
    if content.digest != plugin.sha256:
        raise HarnessError(
            f"the plug-in changed since the command began: wanted sha256 {plugin.sha256[:12]}, "
            f"found {content.digest[:12]}; run again"
        )


def require_plugins(plugins: Iterable[Plugin]) -> None:
    """Raise HarnessError for a plug-in of which a file is not what it was when it was loaded."""
    for plugin in plugins:
        try:
            _require_same(plugin, _content_now(plugin))
        except HarnessError as error:
            raise HarnessError(f"{plugin.origin}: {error}") from None


def require_digested_code(plugins: Iterable[Plugin]) -> None:
    """Raise HarnessError if other code ran than what the digests of these plug-ins hold.

    That is a folder that changed (the code of a single file is in memory already), a
    further file, and code that any loaded plug-in put in the place of the harness's
    own.
    """
    require_own_code()
    for plugin in plugins:
        require_digested(plugin)
        if not Path(plugin.origin).is_file():
            require_plugins([plugin])


def import_plugins(plugins: Iterable[Plugin]) -> None:
    """Import plug-ins, and register what they hold: `load_registry` has it from now on.

    Raises UsageError, which names the plug-in, where it cannot be imported or registers
    a name that is taken.
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
            places.PLUGIN_ASSETS |= {
                asset.name: asset for asset in getattr(module, "ASSETS", ())
            }
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


def registered(plugin: Plugin) -> dict[str, list[str]]:
    """The names that a loaded plug-in registers, by the tuple that holds them."""

    def name(thing: Any) -> str:
        return (
            thing
            if isinstance(thing, str)
            else getattr(thing, "id", None) or thing.name
        )

    module = sys.modules[plugin.module]
    return {kind: [*map(name, getattr(module, kind, ()))] for kind in PLUGIN_LISTS}


def _imported(plugin: Plugin) -> ModuleType:
    """The module of a plug-in, made of the text that it was digested from.

    Raises HarnessError for another text, for code of a file that its digest does not
    hold, and where it puts code in the place of other code.
    """
    if plugin.module in sys.modules:
        return sys.modules[plugin.module]
    content = _content_now(plugin)
    _require_same(plugin, content)
    if of_file := plugin.module.startswith(f"{FILE_PLUGINS}."):
        package = sys.modules.setdefault(FILE_PLUGINS, ModuleType(FILE_PLUGINS))
        package.__path__ = []  # it is on no disk: each finder below has a module of it
    if of_file:
        watch(plugin.module, content.place)
    modules, code = {*sys.modules}, harness_code()
    sys.meta_path.insert(0, content)
    try:
        module = import_module(plugin.module)
        require_digested(plugin)
        require_nothing_replaced(plugin, code)
        require_in_place(plugin, (*HARNESS_PACKAGES, *PACKAGES))
    except BaseException:
        sys.meta_path.remove(content)
        for name in {*sys.modules} - modules:
            if f"{name}.".startswith(f"{content.module}."):
                del sys.modules[name]
        raise
    return module
