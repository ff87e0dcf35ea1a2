"""Plug-ins: methods, tasks, encoders and their parts from a file, a folder or a distribution.

A plug-in ends with tuples as a file of `baselines` does: METHODS (methods or their ids),
ENCODERS, POOLINGS, TASKS, CORPORA, METRICS and ASSETS, and the mapping POSTS.

`plugins_in_use` finds the plug-ins of a command and computes their digests.
`import_plugins` imports them from the bytes that were digested, so that the digest in a
record is of the code that ran. Nothing is imported that the user did not name or
install, and commands that only read results import no plug-in.
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
from importlib.metadata import Distribution, EntryPoint, distributions
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from harness.assets import places
from harness.core.digests import digest_of
from harness.core.environment import PACKAGES
from harness.core.errors import HarnessError, UsageError, first_line, is_interruption
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
PYPROJECT_TABLE = "sentence-embedding-harness"  # [tool.…] of a pyproject.toml
BYTECODE = "__pycache__"  # a folder that Python makes by itself

# The plug-ins of a command


def plugins_in_use(named: Iterable[str | Path] = ()) -> list[Plugin]:
    """The plug-ins of a command that measures; none of them is imported yet.

    They are the files that are named, the files of HARNESS_PLUGINS and of the
    pyproject.toml of the current folder, and installed distributions. Raises UsageError
    for a file that is not there.
    """
    files = list(named)
    for path in os.environ.get(PLUGINS_SETTING, "").split(os.pathsep):
        if path:
            files.append(path)
    files += _files_of_project()
    plugins = [plugin_of_file(file) for file in files]
    plugins += _installed()
    return list(dict.fromkeys(plugins))


def _files_of_project() -> list[str]:
    """The files that the pyproject.toml of the current folder names; none without one."""
    project = Path("pyproject.toml")
    if not project.is_file():
        return []
    try:
        tool = tomllib.loads(project.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError) as error:
        raise UsageError(f"pyproject.toml: wanted TOML, found: {error}") from None
    paths = tool.get(PYPROJECT_TABLE, {}).get("plugins", [])
    is_list = isinstance(paths, list)
    if not is_list or not all(isinstance(path, str) for path in paths):
        raise UsageError(
            f"pyproject.toml, tool.{PYPROJECT_TABLE}: plugins: wanted a list of files"
        )
    files: list[str] = paths
    return files


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
    module = f"{FILE_PLUGINS}.{name}"
    return Plugin(
        name=name,
        origin=str(place),
        version="",
        sha256=_Content.from_place(module, place).digest,
        module=module,
    )


def _installed() -> Iterator[Plugin]:
    """The plug-ins of installed distributions; of two with one name the first on the path.

    Raises UsageError, which names the distribution, if it cannot be read.
    """
    names_so_far = set()
    for distribution in distributions():
        try:
            entry_points_text = distribution.read_text("entry_points.txt") or ""
            if GROUP not in entry_points_text:
                continue
            name = _distribution_name(distribution)
            if name not in names_so_far:
                names_so_far.add(name)
                for point in distribution.entry_points.select(group=GROUP):
                    yield _plugin_of_entry_point(point)
        except UsageError:
            raise
        except Exception as error:
            # importlib.metadata raises errors of any kind for damaged files of an
            # installation.
            folder = getattr(distribution, "_path", "a distribution")
            raise UsageError(
                f"{folder}: wanted NAME = MODULE in entry_points.txt, found "
                f"{_in_one_line(error)}; install it again, or remove it"
            ) from error


def _distribution_name(distribution: Distribution) -> str:
    """The name of a distribution. Raises ValueError if its METADATA has none."""
    names = distribution.metadata.get_all("Name")
    if not names or not names[0]:
        raise ValueError("METADATA without a Name")
    return str(names[0])


def _plugin_of_entry_point(point: EntryPoint) -> Plugin:
    """The plug-in that an entry point names. Its package is looked for, and not imported.

    Raises UsageError, which names distribution and entry point, if there is no such
    module.
    """
    distribution = point.dist.name if point.dist else "a distribution"
    full_name = f"{distribution}, entry point {point.name}"
    module = point.value.partition(":")[0].strip()
    if not all(word.isidentifier() for word in module.split(".")):
        raise UsageError(
            f"{full_name}: wanted a module, as in my_package.methods, found {module!r}"
        )
    try:
        content = _Content.installed(point.module)
        if not content.files:
            package = point.module.partition(".")[0]
            if find_spec(package) is None:
                raise ImportError(f"No module named {package!r}")
            raise ImportError("no source file")
    except Exception as error:
        # Finders of other packages, which look for the module, may raise anything.
        raise UsageError(
            f"{full_name}: wanted a module with sources, found {_in_one_line(error)}; "
            "install it again, or remove it"
        ) from error
    origin, version = point.value, ""
    if point.dist:
        version = point.dist.version or ""
        origin = f"{point.dist.name} {version}".strip()
    return Plugin(
        name=point.name,
        origin=origin,
        version=version,
        sha256=content.digest,
        module=point.module,
    )


def _in_one_line(error: BaseException) -> str:
    """The type of an error, and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}"


# The files of a plug-in, and their import


@dataclass(frozen=True, eq=False)
class _Content(MetaPathFinder):
    """All files of a plug-in, and the importer of their code.

    Code is compiled from the bytes that were digested. It is never compiled from a file
    that changed since, nor read from Python's bytecode, which may be of other code: Python
    compares only the size and the time in seconds of its source.

    Attributes:
        module: The name of the plug-in's module or package.
        place: Its file or folder.
        files: The content of its files, by their paths in the folder; the path of a
            single file is empty.
    """

    module: str
    place: Path
    files: Mapping[str, bytes]

    @classmethod
    def from_place(cls, module: str, place: Path) -> _Content:
        """The files of a module at a place: one file, or all in a folder but Python's bytecode."""
        if place.is_file():
            return cls(module=module, place=place, files={"": place.read_bytes()})
        files = {
            file.relative_to(place).as_posix(): file.read_bytes()
            for file in sorted(_files_below(place))
        }
        return cls(module=module, place=place, files=files)

    @classmethod
    def installed(cls, module: str) -> _Content:
        """The files of the package that holds an installed module; none if it is not there."""
        package = module.partition(".")[0]
        spec = _spec_without_plugins(package)
        if spec is None:
            return cls(module=package, place=Path(), files={})
        folders = list(spec.submodule_search_locations or ())
        if folders:
            return cls.from_place(package, Path(folders[0]))
        if spec.has_location and spec.origin:
            return cls.from_place(package, Path(spec.origin))
        return cls(module=package, place=Path(), files={})

    @property
    def digest(self) -> str:
        """The sha256 of the file, if it is a single one; else of the paths and digests of all."""
        digests = {
            path: hashlib.sha256(content).hexdigest()
            for path, content in self.files.items()
        }
        if "" in digests:
            return digests[""]
        return digest_of(digests)

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """How a module of the plug-in is imported; None for any other, or without source.

        Python calls it for each import, as a finder in `sys.meta_path`.
        """
        if not f"{fullname}.".startswith(f"{self.module}."):
            return None
        # The names after the plug-in's own: `a`, `b` of the module `my_plugin.a.b`.
        inner_names = fullname.removeprefix(self.module).split(".")[1:]
        package_file = "/".join([*inner_names, "__init__.py"])
        module_file = f"{'/'.join(inner_names)}.py" if inner_names else ""
        if package_file in self.files:
            file = self.place / package_file
            return spec_from_file_location(
                fullname,
                file,
                loader=_Compiled(fullname, str(file), self.files[package_file]),
                submodule_search_locations=[str(file.parent)],
            )
        if module_file in self.files:
            file = self.place / module_file if module_file else self.place
            loader = _Compiled(fullname, str(file), self.files[module_file])
            return spec_from_file_location(fullname, file, loader=loader)
        return None


def _files_below(folder: Path, folders_above: tuple[str, ...] = ()) -> Iterator[Path]:
    """The files of a folder and of the folders in it, also of those that are links."""
    real_path = os.path.realpath(folder)
    if real_path in folders_above:  # a link to a folder that holds it
        return
    for place in folder.iterdir():
        if place.is_file():
            yield place
        elif place.is_dir() and place.name != BYTECODE:
            yield from _files_below(place, (*folders_above, real_path))


def _spec_without_plugins(package: str) -> ModuleSpec | None:
    """The place where Python finds a package without the importers of loaded plug-ins."""
    for finder in sys.meta_path:
        if not isinstance(finder, _Content):
            spec = finder.find_spec(package, None)
            if spec is not None:
                return spec
    return None


class _Compiled(SourceFileLoader):
    """The loader of a module whose source was read already."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self.source = source

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - it has one module
        """The code of its module, compiled from the source."""
        return self.source_to_code(self.source, self.path)


# Checks that the code which runs is the code that was digested


def _content_now(plugin: Plugin) -> _Content:
    """The files of a plug-in as they are now."""
    if plugin.module.startswith(f"{FILE_PLUGINS}."):
        return _Content.from_place(plugin.module, Path(plugin.origin))
    return _Content.installed(plugin.module)


def _require_same(plugin: Plugin, content: _Content) -> None:
    """Raise HarnessError unless these files have the digest of the plug-in."""
    if content.digest == plugin.sha256:
        return
    message = (
        f"the plug-in changed since the command began: wanted sha256 {plugin.sha256[:12]}, "
        f"found {content.digest[:12]}"
    )
    changed_file = _changed_file(content)
    if changed_file:
        message += f", another {changed_file}"
    raise HarnessError(f"{message}; write nothing into its folder, and run again")


def _changed_file(content: _Content) -> str | None:
    """A file of a plug-in's folder that is not as it was imported; None if none was imported."""
    for finder in sys.meta_path:
        if isinstance(finder, _Content) and finder.module == content.module:
            for path in sorted({*finder.files, *content.files}):
                if finder.files.get(path) != content.files.get(path):
                    return path
    return None


def require_plugins(plugins: Iterable[Plugin]) -> None:
    """Raise HarnessError for a plug-in one of whose files changed since it was loaded."""
    for plugin in plugins:
        try:
            _require_same(plugin, _content_now(plugin))
        except HarnessError as error:
            raise HarnessError(f"{plugin.origin}: {error}") from None


def require_digested_code(plugins: Iterable[Plugin]) -> None:
    """Raise HarnessError if other code ran than the code that these plug-ins' digests are of.

    Such code is in a folder that changed, or in a file that the digest is not of, or a
    loaded plug-in has replaced code of the harness by it.
    """
    require_own_code()
    for plugin in plugins:
        require_digested(plugin)
        is_single_file = Path(plugin.origin).is_file()
        if not is_single_file:  # the code of a single file is in memory already
            require_plugins([plugin])


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
                f"{plugin.origin}: cannot be imported: {_in_one_line(error)}"
            ) from error
        PLUGINS[plugin.name] = plugin


def registered(plugin: Plugin) -> dict[str, list[str]]:
    """The names that a loaded plug-in registers, by the tuple that holds them."""
    module = sys.modules[plugin.module]
    names_by_tuple = {}
    for tuple_name in PLUGIN_LISTS:
        things = getattr(module, tuple_name, ())
        names_by_tuple[tuple_name] = [_registered_name(thing) for thing in things]
    return names_by_tuple


def _registered_name(thing: Any) -> str:
    """The id of a method, or the name of any other object.

    POSTS has names as keys, and METHODS may hold ids, so that a string is its own name.
    """
    if isinstance(thing, str):
        return thing
    name: str = thing.id if hasattr(thing, "id") else thing.name
    return name


def _imported(plugin: Plugin) -> ModuleType:
    """The module of a plug-in, compiled from the bytes that its digest is of.

    Raises HarnessError if the files changed, if code of a file runs that the digest is
    not of, and if the plug-in replaces code of the harness or its libraries.
    """
    if plugin.module in sys.modules:
        return sys.modules[plugin.module]
    content = _content_now(plugin)
    _require_same(plugin, content)
    if plugin.module.startswith(f"{FILE_PLUGINS}."):
        # The package of these plug-ins is on no disk. Each of its modules is found by
        # the content of a plug-in, which is put into sys.meta_path below.
        package = sys.modules.setdefault(FILE_PLUGINS, ModuleType(FILE_PLUGINS))
        package.__path__ = []
        watch(plugin.module, content.place)
    modules_before, code_before = set(sys.modules), harness_code()
    sys.meta_path.insert(0, content)
    try:
        module = import_module(plugin.module)
        require_digested(plugin)
        require_nothing_replaced(plugin, code_before)
        require_in_place(plugin, (*HARNESS_PACKAGES, *PACKAGES))
    except BaseException:
        sys.meta_path.remove(content)
        for name in set(sys.modules) - modules_before:
            if f"{name}.".startswith(f"{content.module}."):
                del sys.modules[name]
        raise
    return module
