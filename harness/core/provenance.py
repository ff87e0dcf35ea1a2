"""The code that takes part in a result, and its digests.

It is code of the harness itself, on which every score depends, code of plug-ins, and
code of a program that uses the harness as a library.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from traceback import walk_tb
from types import CellType, FunctionType, MethodType
from typing import Any
from uuid import uuid4

from harness.core.digests import digest_of, read_sha256
from harness.core.layout import BASELINES, HARNESS

# The harness's own code

SOURCE_SUFFIXES = (".py", ".toml", ".txt")
# The rooms that compute scores. `assets` is not one of them: whichever file it finds or
# downloads, the identity of a cell holds the digest of the file.
COMPUTING = (
    "core",
    "tasks",
    "transforms",
    "encoders",
    "training",
    "registry.py",
    "evaluation",
)
# Modules of these rooms that compute no scores: they choose what is measured, or compare
# scores.
NOT_COMPUTING = (
    "evaluation/compare.py",
    "evaluation/plan.py",
    "evaluation/resampler.py",
    "evaluation/select.py",
)


@cache
def code_digest() -> str:
    """The sha256 of the code that computes scores. Cells of other code are measured again.

    It is over the computing rooms and the baselines, with the lists and tables that
    they read. A wheel has the digest of the checkout that it was built from.
    """
    digest = hashlib.sha256()
    for name, path in sorted(_computing_sources().items()):
        digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _computing_sources() -> dict[str, Path]:
    """The files of the code that computes scores, by their names in a checkout."""
    packages_and_rooms = [(HARNESS, HARNESS / name) for name in COMPUTING]
    packages_and_rooms.append((BASELINES, BASELINES))
    sources = {}
    for package, room in packages_and_rooms:
        for path in (room, *room.rglob("*")):  # a room may be a single file
            name = path.relative_to(package).as_posix()
            if path.suffix in SOURCE_SUFFIXES and name not in NOT_COMPUTING:
                sources[f"{package.name}/{name}"] = path
    return sources


# Plug-ins

FILE_PLUGINS = "harness_plugins"  # the package of plug-ins that are read from files


@dataclass(frozen=True)
class Plugin:
    """A file, a folder or an installed distribution that registers methods or their parts.

    Attributes:
        name: Its name.
        origin: The path of the file or folder, or the distribution with its version.
        version: Its version.
        sha256: The digest of the file, or of all files of the folder or of the
            distribution's package.
        module: The module that is imported.
    """

    name: str
    origin: str
    version: str
    sha256: str
    module: str

    @property
    def file(self) -> Path:
        """The file of its module, which must be imported."""
        return Path(str(sys.modules[self.module].__file__))

    def defines(self, value: object) -> bool:
        """Whether a function, or the class of an object, is defined in the plug-in."""
        if isinstance(value, partial):
            value = value.func
        module = str(getattr(value, "__module__", None) or type(value).__module__)
        if isinstance(value, FunctionType):  # a decorator may have changed __module__
            module = str(value.__globals__.get("__name__", module))
        return self.owns(module)

    def owns(self, module: str) -> bool:
        """Whether a module is in the plug-in's file, folder or package."""
        if self.module.startswith(f"{FILE_PLUGINS}."):
            package = self.module
        else:
            package = self.module.partition(".")[0]
        return f"{module}.".startswith(f"{package}.")


PLUGINS: dict[str, Plugin] = {}  # the plug-ins that are loaded in this process, by name


def plugins_of(*values: object) -> dict[str, Plugin]:
    """The loaded plug-ins whose code is used by one of these values, by name.

    A value uses a plug-in if the plug-in defines it, its class or a base class. It also
    uses the plug-ins of all that it holds: fields of configurations, items of
    collections, bound arguments.
    """
    if not PLUGINS:
        return {}
    code = list(_code_in(values))
    plugins = {}
    for name, plugin in PLUGINS.items():
        if any(plugin.defines(value) for value in code):
            plugins[name] = plugin
    return plugins


def _code_in(values: Iterable[object]) -> Iterator[object]:
    """The values and all that they hold, each with its class and base classes."""
    pending = list(values)
    visited: dict[int, object] = {}  # the values are kept, so that no id is used twice
    while pending:
        value = pending.pop()
        if id(value) in visited:
            continue
        visited[id(value)] = value
        yield value
        kind = value if isinstance(value, type) else type(value)
        for base in kind.__mro__:
            yield base
            pending += _functions_without_module(base)
        pending += _held_by(value)


@cache
def _functions_without_module(kind: type) -> tuple[object, ...]:
    """The functions of a class that its module does not have, as of `make_dataclass`.

    Such a class may name any module, so that its functions tell where it is defined.
    """
    module = sys.modules.get(kind.__module__)
    if getattr(module, kind.__qualname__, None) is kind:
        return ()
    return tuple(
        value
        for value in vars(kind).values()
        if isinstance(value, FunctionType | partial)
    )


def _held_by(value: Any) -> Iterable[object]:
    """The values that a configuration, a collection or a function holds.

    Other objects are not looked into, unless a plug-in or a program defines their
    class.
    """
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values())
    if isinstance(value, tuple | list | set | frozenset):
        return value
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, MethodType):
        return (value.__self__, value.__func__)
    if isinstance(value, FunctionType):
        return _held_by_function(value)
    if isinstance(value, type):
        return ()
    if is_dataclass(value):
        return _settings(value)
    kind = type(value)
    is_of_plugin = any(plugin.defines(kind) for plugin in PLUGINS.values())
    if (is_of_plugin or _is_of_program(kind)) and hasattr(value, "__dict__"):
        return vars(value).values()
    return ()


def _settings(value: Any) -> list[object]:
    """The fields of a configuration, and further attributes that were set in it."""
    settings = [getattr(value, field.name) for field in fields(value)]
    return [*settings, *getattr(value, "__dict__", {}).values()]


_UNSET_VARIABLE = CellType()


def _held_by_function(function: FunctionType) -> list[object]:
    """The variables of the enclosing function, the defaults and the attributes."""
    values: list[object] = []
    for cell in function.__closure__ or ():
        if cell != _UNSET_VARIABLE:
            values.append(cell.cell_contents)
    values += function.__defaults__ or ()
    values += (function.__kwdefaults__ or {}).values()
    values += vars(function).values()
    return values


def code_of(*values: object) -> dict[str, str]:
    """The digests of the code in these values that is not the harness's, by its origin.

    The code is in plug-ins, or in files that define classes and functions of a program;
    such a file is digested when it is first asked for. Code without a file, such as a
    class that was typed into an interpreter, has a digest that no other process has.
    """
    digests = {}
    for plugin in plugins_of(*values).values():
        digests[f"plugin {plugin.name}"] = plugin.sha256
    for value in _code_in(values):
        if isinstance(value, FunctionType | type) and _is_of_program(value):
            digests[f"file {_module_of(value)}"] = _file_digest(value)
    return digests


def with_code(key: str, config: object) -> str:
    """The key of an encoder's files together with the code that makes vectors of them.

    It is the key of the files alone where all of the code is the harness's.
    """
    digests = code_of(config)
    return digest_of({"key": key, **digests}) if digests else key


# Code of a program


# Folders of installed libraries, whose versions a record has.
LIBRARY_FOLDERS = ("site-packages", "dist-packages")
# In the place of the digest of code without a file.
THIS_PROCESS = uuid4().hex


def _module_of(code: FunctionType | type) -> str:
    if isinstance(code, FunctionType):  # a decorator may have changed __module__
        return str(code.__globals__.get("__name__") or code.__module__ or "")
    return code.__module__


def _is_of_program(code: FunctionType | type) -> bool:
    """Whether a function or class belongs to no plug-in, library, nor the harness."""
    module = _module_of(code)
    package = module.partition(".")[0]
    # Functions that libraries generate to wrap others have no module.
    if package in ("", HARNESS.name, BASELINES.name, FILE_PLUGINS):
        return False
    if package in sys.stdlib_module_names:
        return False
    if any(plugin.owns(module) for plugin in PLUGINS.values()):
        return False
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return not _is_in_library(file)


@cache  # every cell asks for each class of its method
def _is_in_library(file: str) -> bool:
    return not set(LIBRARY_FOLDERS).isdisjoint(Path(file).parts)


@cache
def _file_digest(code: FunctionType | type) -> str:
    """The digest of the file that defines a function or class."""
    try:
        inspect.getsource(code)  # raises where the file does not define it
        return _sha256_when_first_seen(str(inspect.getsourcefile(code)))
    except (OSError, TypeError):
        return THIS_PROCESS


@cache
def _sha256_when_first_seen(file: str) -> str:
    return read_sha256(Path(file))


def plugin_of_error(error: BaseException) -> str | None:
    """The name of the loaded plug-in whose code raised an error or called the code that did."""
    modules = []
    for frame, _ in walk_tb(error.__traceback__):
        modules.append(str(frame.f_globals.get("__name__")))
    for module in reversed(modules):  # the innermost call first
        for name, plugin in PLUGINS.items():
            if plugin.owns(module):
                return name
    return None
