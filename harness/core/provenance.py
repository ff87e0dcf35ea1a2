"""Whose code takes part in a result, and its digests.

It is the harness's own, which every score depends on; that of plug-ins; and that of a
program which uses the harness.
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
# What decides a score, from the texts of a task to the record of a cell. Not `assets`:
# whatever file it finds or fetches, an identity holds the digest of what was read.
COMPUTING = (
    "core",
    "tasks",
    "transforms",
    "encoders",
    "training",
    "registry.py",
    "evaluation",
)
# Modules of these rooms that decide none: what is to be measured, and what is made of
# scores.
NOT_COMPUTING = (
    "evaluation/compare.py",
    "evaluation/plan.py",
    "evaluation/resampler.py",
    "evaluation/select.py",
)


@cache
def code_digest() -> str:
    """The sha256 of the sources that compute: a cell measured by other code is measured again.

    These are the rooms from texts to scores, and the baselines; the lists and tables
    that they read are sources, too. Pages, messages of commands and comparisons of
    records are not among them. A wheel has the digest of the checkout that it was built
    from.
    """
    digest = hashlib.sha256()
    for name, path in sorted(_computing_sources().items()):
        digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _computing_sources() -> dict[str, Path]:
    """The files of the code that computes, by their names in a checkout."""
    rooms = [(HARNESS, HARNESS / name) for name in COMPUTING]
    sources = {}
    for package, room in [*rooms, (BASELINES, BASELINES)]:
        for path in (room, *room.rglob("*")):
            name = path.relative_to(package).as_posix()
            if path.suffix in SOURCE_SUFFIXES and name not in NOT_COMPUTING:
                sources[f"{package.name}/{name}"] = path
    return sources


# Plug-ins

FILE_PLUGINS = "harness_plugins"  # the package of plug-ins that are read from files


@dataclass(frozen=True)
class Plugin:
    """A file, a folder or an installed distribution that registers methods or their parts.

    `origin` is the path of the file or folder, or the distribution with its version;
    `sha256` is the digest of the file, or of all files of the folder or of the
    distribution's package; `module` is imported.
    """

    name: str
    origin: str
    version: str
    sha256: str
    module: str

    @property
    def file(self) -> Path:
        """The file of its module, once that is imported."""
        return Path(str(sys.modules[self.module].__file__))

    def defines(self, thing: object) -> bool:
        """Whether a function, or the class of an object, is defined in the plug-in."""
        thing = thing.func if isinstance(thing, partial) else thing
        module = str(getattr(thing, "__module__", None) or type(thing).__module__)
        if isinstance(thing, FunctionType):  # a decorator may have given it another's
            module = str(thing.__globals__.get("__name__", module))
        return self.owns(module)

    def owns(self, module: str) -> bool:
        """Whether a module is the plug-in's file or folder, or of its distribution's package."""
        top = (
            self.module
            if self.module.startswith(f"{FILE_PLUGINS}.")
            else self.module.partition(".")[0]
        )
        return f"{module}.".startswith(f"{top}.")


PLUGINS: dict[str, Plugin] = {}  # those that are loaded in this process, by name


def plugins_of(*things: object) -> dict[str, Plugin]:
    """The loaded plug-ins whose code is in one of these, by name.

    It is there if a plug-in defines a function, a class or one of its bases, in the
    thing itself or in what it holds: the fields of configurations, items, arguments
    that are bound to a function.
    """
    if not PLUGINS:
        return {}
    code = [*_code_in(things)]
    return {name: p for name, p in PLUGINS.items() if any(map(p.defines, code))}


def _code_in(things: Iterable[object]) -> Iterator[object]:
    """The functions and classes of things and of what they hold, each thing looked at once."""
    waiting, seen = [*things], dict[int, object]()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing  # kept, so that no other takes its id
        yield thing
        yield from (thing if isinstance(thing, type) else type(thing)).__mro__
        waiting += _held_by(thing)


def _held_by(thing: Any) -> Iterable[object]:
    """What a configuration, a collection or a function holds; nothing of any other thing."""
    if isinstance(thing, Mapping):
        return (*thing.keys(), *thing.values())
    if isinstance(thing, tuple | list | set | frozenset):
        return thing
    if isinstance(thing, partial):
        return (thing.func, *thing.args, *thing.keywords.values())
    if isinstance(thing, MethodType):
        return (thing.__self__, thing.__func__)
    if isinstance(thing, FunctionType):
        cells = [
            cell.cell_contents for cell in thing.__closure__ or () if cell != _UNSET
        ]
        defaults = (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values())
        return (*cells, *defaults, *vars(thing).values())
    if isinstance(thing, type):
        return ()
    if is_dataclass(thing):
        return [getattr(thing, field.name) for field in fields(thing)]
    # An object of a class of a plug-in's or a program's own may hold anything.
    kind = type(thing)
    is_known = _is_own(kind) or any(plugin.defines(kind) for plugin in PLUGINS.values())
    return vars(thing).values() if is_known and hasattr(thing, "__dict__") else ()


_UNSET = CellType()  # a variable of a function that is not set yet


def code_of(*things: object) -> dict[str, str]:
    """The digests of the code in these that does not come with the harness, by what it is of.

    Of a plug-in that is the plug-in's, of a program's own classes and functions that of
    the file which defines them, as it is when it is first asked for. Where no file can
    be found, as of a class that was typed into an interpreter, the digest is one of
    this process alone: what it names is found by no other process.
    """
    code = {
        f"plugin {plugin.name}": plugin.sha256
        for plugin in plugins_of(*things).values()
    }
    for thing in _code_in(things):
        if isinstance(thing, FunctionType | type) and _is_own(thing):
            code[f"file {_module_of(thing)}"] = _file_digest(thing)
    return code


def with_code(key: str, config: object) -> str:
    """The key of an encoder's files, and of the code that makes vectors of them.

    Where all of it comes with the harness, this is the key of the files alone.
    """
    code = code_of(config)
    return digest_of({"key": key, **code}) if code else key


# Folders of libraries: a record has their versions.
LIBRARY_FOLDERS = ("site-packages", "dist-packages")
THIS_PROCESS = uuid4().hex


def _module_of(thing: FunctionType | type) -> str:
    if isinstance(thing, FunctionType):  # a decorator may have given it another's name
        return str(thing.__globals__.get("__name__") or thing.__module__ or "")
    return thing.__module__


def _is_own(thing: FunctionType | type) -> bool:
    """Whether a function or class is of a program: of no plug-in, library, nor the harness."""
    module = _module_of(thing)
    top = module.partition(".")[0]
    # Without a module are the functions that libraries generate to wrap others.
    if (
        top in ("", HARNESS.name, BASELINES.name, FILE_PLUGINS)
        or top in sys.stdlib_module_names
    ):
        return False
    if any(plugin.owns(module) for plugin in PLUGINS.values()):
        return False
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    return not _is_of_a_library(file)


@cache  # every cell asks, of each class of its method
def _is_of_a_library(file: str) -> bool:
    return not {*LIBRARY_FOLDERS}.isdisjoint(Path(file).parts)


@cache
def _file_digest(thing: FunctionType | type) -> str:
    """The digest of the file that defines a function or class."""
    try:
        inspect.getsource(thing)  # of a class, by its name in the file
        return _sha256_when_first_seen(str(inspect.getsourcefile(thing)))
    except (OSError, TypeError):
        return THIS_PROCESS


@cache
def _sha256_when_first_seen(file: str) -> str:
    return read_sha256(Path(file))


def blamed(error: BaseException) -> str:
    """`plug-in NAME: ` for an error that the code of a loaded plug-in raised, else nothing."""
    names = [
        str(frame.f_globals.get("__name__"))
        for frame, _ in walk_tb(error.__traceback__)
    ]
    for module in reversed(names):
        for name, plugin in PLUGINS.items():
            if plugin.owns(module):
                return f"plug-in {name}: "
    return ""
