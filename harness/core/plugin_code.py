"""Code of plug-ins that no digest of theirs holds, and that is refused for it.

A plug-in is a file or a folder, digested whole. Two kinds of code would move a score
and be named in no record: that of a further file in the folder that holds the plug-in,
imported at its top or inside a function; and that which a plug-in puts in the place of
the harness's own. What it reads as data is not looked at, and no replacement in another
library after the plug-in was loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

from harness.core.errors import HarnessError
from harness.core.layout import BASELINES, HARNESS
from harness.core.provenance import LIBRARY_FOLDERS, PLUGINS, Plugin

HARNESS_PACKAGES = (HARNESS.name, BASELINES.name)

_WATCHED: dict[
    str, Path
] = {}  # the file or folder of each plug-in that has one, by its module
# What was refused, which stays so: a plug-in may catch what is raised inside it, by its
# module; and what was replaced stays in its place, in a process that goes on without
# the plug-in as well.
_REFUSED: dict[str, HarnessError] = {}
_REPLACED: list[HarnessError] = []


# Files that a digest does not hold


def watch(module: str, place: Path) -> None:
    """Refuse code of other files in the folder of a plug-in, from now on and in this process.

    Whatever executes it inside a call of the plug-in, an import or not, raises
    HarnessError there.
    """
    _WATCHED[module] = place
    _REFUSED.pop(module, None)
    _start_watching()


@cache
def _start_watching() -> None:
    sys.addaudithook(_refuse_undigested)


def _refuse_undigested(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: Python calls it before it executes a module or imports an extension."""
    if event == "exec":
        file = getattr(arguments[0], "co_filename", "")
    elif event == "import":
        file = arguments[1] or ""
    else:
        return
    if not file or file.startswith("<"):
        return
    for module, place in [*_WATCHED.items()]:
        if _is_undigested(file, place) and _is_running(module, sys._getframe(1)):
            _REFUSED[module] = _undigested(place, file)
            raise _REFUSED[module]


def _is_running(module: str, frame: FrameType | None) -> bool:
    """Whether a call of the plug-in is on the stack."""
    while frame is not None:
        if f"{frame.f_globals.get('__name__')}.".startswith(f"{module}."):
            return True
        frame = frame.f_back
    return False


def _is_undigested(file: str, place: Path) -> bool:
    """Whether a file is in the folder that holds a plug-in, and no part of it.

    Installed libraries may be below that folder, as those of a virtual environment are.
    """
    path = Path(os.path.realpath(file))
    real = Path(os.path.realpath(place))
    if path.is_relative_to(real) or path.is_relative_to(place):
        return False
    libraries = (HARNESS, BASELINES, *map(Path, {sys.prefix, sys.base_prefix}))
    if any(map(path.is_relative_to, libraries)) or {*LIBRARY_FOLDERS} & {*path.parts}:
        return False
    folders = {real.parent, Path(os.path.realpath(place.parent))}
    return any(map(path.is_relative_to, folders))


def _undigested(place: Path, file: str) -> HarnessError:
    return HarnessError(
        f"the plug-in {place.name} runs code of {os.path.relpath(file, place.parent)}, which its "
        "digest does not hold; put both into a folder with an __init__.py, and name the folder"
    )


def require_digested(plugin: Plugin) -> None:
    """Raise HarnessError if a plug-in ran code of another file in its folder, or holds some.

    It holds what somebody else imported before, and what was imported into its module
    is then one of that module's variables.
    """
    if plugin.module in _REFUSED:
        raise _REFUSED[plugin.module]
    place = _WATCHED.get(plugin.module)
    loaded = sys.modules.get(plugin.module)
    for thing in [*vars(loaded).values()] if place and loaded else ():
        is_code = isinstance(thing, FunctionType | type)
        module = sys.modules.get(thing.__module__) if is_code else thing
        file = (
            getattr(module, "__file__", None)
            if isinstance(module, ModuleType)
            else None
        )
        if place and isinstance(file, str) and _is_undigested(file, place):
            raise _undigested(place, file)


# Code that is put in the place of other code


def harness_code() -> Mapping[str, object]:
    """What the modules of the harness that are loaded hold, by name.

    Those are variables, attributes of classes, entries of dictionaries, and the code
    and defaults of functions.
    """
    held: dict[str, object] = {}
    for name, thing in _attributes(HARNESS_PACKAGES):
        held[name] = thing
        if issubclass(type(thing), FunctionType):
            held[f"{name}.__code__"] = thing.__code__
            held[f"{name}.__defaults__"] = thing.__defaults__
            held[f"{name}.__kwdefaults__"] = thing.__kwdefaults__
        if type(thing) is dict:  # a lazy one of a library would import what it names
            held |= {f"{name}[{key!r}]": value for key, value in thing.items()}
    return held


def require_nothing_replaced(plugin: Plugin, before: Mapping[str, object]) -> None:
    """Raise HarnessError if the harness holds another thing than before a plug-in was imported."""
    after = harness_code()
    for name, thing in before.items():
        if after.get(name, thing) is not thing:
            raise _replaced(plugin.name, name)


def require_in_place(
    plugin: Plugin, packages: tuple[str, ...] = HARNESS_PACKAGES
) -> None:
    """Raise HarnessError if code of a plug-in is a variable or an attribute of the packages."""
    for name, thing in _attributes(packages):
        if any(map(plugin.defines, _code_of(thing))):
            raise _replaced(plugin.name, name)


def require_own_code() -> None:
    """Raise HarnessError if code of a loaded plug-in is in the place of the harness's own.

    Called behind each cell, it finds what an earlier cell did as well.
    """
    for error in _REPLACED:
        raise error
    for plugin in PLUGINS.values():
        require_in_place(plugin)


def _code_of(thing: Any) -> Iterator[object]:
    """A function or class that this is or wraps, or the class of any other object.

    Nothing is asked of an object that may answer by code of its own.
    """
    kind = type(thing)
    if issubclass(kind, property):
        yield from filter(None, (thing.fget, thing.fset))
    elif issubclass(kind, cached_property):
        yield thing.func
    elif issubclass(kind, staticmethod | classmethod):
        yield thing.__func__
    elif issubclass(kind, FunctionType | type | partial):
        yield thing
    else:
        yield kind


def _replaced(plugin: str, name: str) -> HarnessError:
    error = HarnessError(
        f"the plug-in {plugin} replaces {name}, which moves cells whose records do not name it; "
        "register a part of your own, such as a subclass, and start again"
    )
    _REPLACED.append(error)
    return error


def _attributes(packages: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The variables of loaded modules, and the attributes of the classes that they define."""
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] not in packages or not issubclass(
            type(module), ModuleType
        ):
            continue
        for variable, thing in [*vars(module).items()]:
            yield f"{name}.{variable}", thing
            if issubclass(type(thing), type) and vars(thing).get("__module__") == name:
                for attribute, value in [*vars(thing).items()]:
                    yield f"{name}.{variable}.{attribute}", value
