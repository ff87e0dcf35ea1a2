"""The code that takes part in a result, and its digests.

It is code of the harness itself, on which every score depends, code of plug-ins, and
code of a program that uses the harness as a library.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from traceback import walk_tb
from types import FunctionType, MethodType
from uuid import uuid4

from harness.core.digests import digest_of, sha256_of
from harness.core.environment import BASELINES, HARNESS

# The harness's own code

SOURCE_SUFFIXES = (".py", ".toml", ".txt")
# The rooms that compute scores. Of `data` the tasks are among them: whichever file it
# finds or downloads, the identity of a cell holds the digest of the file.
COMPUTING = (
    "core",
    "data/tasks",
    "transforms",
    "encoders",
    "training",
    "registry.py",
    "evaluation",
)
# Modules of these rooms that compute no scores: they choose what is measured, or compare
# scores.
NOT_COMPUTING = (
    "evaluation/bootstrap.py",
    "evaluation/check_work.py",
    "evaluation/compare.py",
    "evaluation/costs.py",
    "evaluation/neighbours.py",
    "evaluation/plan.py",
    "evaluation/promote.py",
    "evaluation/protocol.py",
    "evaluation/row_search.py",
    "evaluation/search.py",
    "evaluation/select.py",
    "evaluation/verification.py",
)


@cache
def code_digest() -> str:
    """The sha256 of the code that computes scores. Cells of other code are measured again.

    It is over the computing rooms and the baselines, with the lists and tables that
    they read. A wheel has the digest of the checkout that it was built from.
    """
    packages_and_rooms = [(HARNESS, HARNESS / name) for name in COMPUTING]
    packages_and_rooms.append((BASELINES, BASELINES))
    sources = {}
    for package, room in packages_and_rooms:
        for path in (room, *room.rglob("*")):  # a room may be a single file
            name = path.relative_to(package).as_posix()
            if path.suffix in SOURCE_SUFFIXES and name not in NOT_COMPUTING:
                sources[f"{package.name}/{name}"] = path
    digest = hashlib.sha256()
    for name, path in sorted(sources.items()):
        digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


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

    def owns(self, module: str) -> bool:
        """Whether a module is in the plug-in's file, folder or package."""
        if self.module.startswith(f"{FILE_PLUGINS}."):
            package = self.module
        else:
            package = self.module.partition(".")[0]
        return f"{module}.".startswith(f"{package}.")


PLUGINS: dict[str, Plugin] = {}  # the plug-ins that are loaded in this process, by name
# In the place of the digest of code without a file, as in an interpreter.
THIS_PROCESS = uuid4().hex


def plugins_of(*values: object) -> dict[str, Plugin]:
    """The loaded plug-ins that define the code of one of these values, by name."""
    plugins = {}
    for module in _modules_of(values):
        for name, plugin in PLUGINS.items():
            if plugin.owns(module):
                plugins[name] = plugin
    return plugins


def code_of(*values: object) -> dict[str, str]:
    """The digests of the code of these values that is not the harness's, by its origin.

    The code is of plug-ins, or of files of the program that uses the harness.
    """
    digests = {}
    for plugin in plugins_of(*values).values():
        digests[f"plugin {plugin.name}"] = plugin.sha256
    for module in _modules_of(values):
        digest = _digest_of_program(module)
        if digest is not None:
            digests[f"file {module}"] = digest
    return digests


def with_code(key: str, config: object) -> str:
    """The key of an encoder's files together with the code that makes vectors of them.

    It is the key of the files alone where all of the code is the harness's.
    """
    digests = code_of(config)
    return digest_of({"key": key, **digests}) if digests else key


def _modules_of(value: object) -> Iterator[str]:
    """The modules that define a function, or the class of a value and of its settings."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from _modules_of(item)
    elif isinstance(value, partial):
        yield from _modules_of([value.func, *value.args, *value.keywords.values()])
    elif isinstance(value, MethodType):
        yield from _modules_of(value.__self__)
    elif isinstance(value, FunctionType):  # a decorator may have changed __module__
        yield str(value.__globals__.get("__name__"))
    else:
        kind = value if isinstance(value, type) else type(value)
        for base in kind.__mro__:
            yield base.__module__
        if is_dataclass(value) and not isinstance(value, type):
            yield from _modules_of([getattr(value, x.name) for x in fields(value)])


@cache
def _digest_of_program(module: str) -> str | None:
    """The digest of a module's file when it is first asked for.

    None for the harness itself, a plug-in of a file, and libraries, whose versions a
    record has.
    """
    package = module.partition(".")[0]
    packages = {HARNESS.name, BASELINES.name, FILE_PLUGINS, *sys.stdlib_module_names}
    if package in packages or package not in sys.modules:
        return None
    package_file = getattr(sys.modules[package], "__file__", None) or ""
    if {"site-packages", "dist-packages"} & {*Path(package_file).parts}:
        return None
    file = getattr(sys.modules.get(module), "__file__", None)
    return sha256_of(Path(file)) if file else THIS_PROCESS


def plugin_of_error(error: BaseException) -> str | None:
    """The name of the loaded plug-in whose code raised an error or called the code that did."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    for frame in reversed(frames):  # the innermost call first
        for name, plugin in PLUGINS.items():
            if plugin.owns(str(frame.f_globals.get("__name__"))):
                return name
    return None
