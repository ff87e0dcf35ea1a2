"""Code of plug-ins that their digests do not cover, and that is therefore refused.

A plug-in is a file or a folder, and its digest is over all of it. Two kinds of code
would change scores without a trace in any record: code of another file in the folder
of the plug-in, which it imports; and code by which a plug-in replaces code of the
harness. Files that a plug-in reads as data are not checked, nor what it replaces in
other libraries.
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

# The state of this process: the file or folder of each watched plug-in, by its module.
_WATCHED: dict[str, Path] = {}
# The error of each plug-in that executed code of another file, by its module. It is
# kept, since the plug-in may have caught the error.
_REFUSED: dict[str, HarnessError] = {}
# The errors for code that was replaced, which stays replaced in this process.
_REPLACED: list[HarnessError] = []


# Code of other files


def watch(module: str, place: Path) -> None:
    """Refuse code of other files in the folder of a plug-in, from now on in this process.

    Executing such code in a call of the plug-in raises HarnessError there, whether it
    is imported or not.

    Args:
        module: The module of the plug-in.
        place: Its file or folder.
    """
    _WATCHED[module] = place
    _REFUSED.pop(module, None)
    _start_watching()


@cache
def _start_watching() -> None:
    sys.addaudithook(_refuse_undigested)
    sys.addaudithook(_refuse_another_folder)


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
    for module, place in list(_WATCHED.items()):
        if _is_undigested(file, place) and _is_running(module, sys._getframe(1)):
            _REFUSED[module] = _undigested_error(place, file)
            raise _REFUSED[module]


def _refuse_another_folder(event: str, _: tuple[Any, ...]) -> None:
    """An audit hook: a plug-in may not change the current folder, where results are written."""
    if event != "os.chdir":
        return
    for module, place in list(_WATCHED.items()):
        if _is_running(module, sys._getframe(1)):
            raise HarnessError(
                f"the plug-in {place.name} changes the current folder, in which results are "
                "written; name its files by their paths, as in Path(__file__).with_name('a.txt')"
            )


def _is_running(module: str, frame: FrameType | None) -> bool:
    """Whether a call of the plug-in is on the stack."""
    while frame is not None:
        if f"{frame.f_globals.get('__name__')}.".startswith(f"{module}."):
            return True
        frame = frame.f_back
    return False


def _is_undigested(file: str, place: Path) -> bool:
    """Whether a file is in the folder of a plug-in, but no part of the plug-in.

    Installed libraries do not count, which may be below that folder in a virtual
    environment.
    """
    if Path(file).absolute().is_relative_to(place):  # also by a link that is in it
        return False
    path = Path(os.path.realpath(file))
    real_place = Path(os.path.realpath(place))
    if path.is_relative_to(real_place):
        return False
    libraries = (HARNESS, BASELINES, Path(sys.prefix), Path(sys.base_prefix))
    if any(path.is_relative_to(library) for library in libraries):
        return False
    if not set(LIBRARY_FOLDERS).isdisjoint(path.parts):
        return False
    # A link to a plug-in has two folders: of the link, and of the file.
    folders = (real_place.parent, Path(os.path.realpath(place.parent)))
    return any(path.is_relative_to(folder) for folder in folders)


def _undigested_error(place: Path, file: str) -> HarnessError:
    return HarnessError(
        f"the plug-in {place.name} runs code of {os.path.relpath(file, place.parent)}, which its "
        "digest does not hold; put both into a folder with an __init__.py, and name the folder"
    )


def require_digested(plugin: Plugin) -> None:
    """Raise HarnessError if a plug-in executed, or imported, code of another file.

    A module that somebody else imported before is not executed again when the plug-in
    imports it, so that the variables of the plug-in's module are checked, too.
    """
    if plugin.module in _REFUSED:
        raise _REFUSED[plugin.module]
    place = _WATCHED.get(plugin.module)
    plugin_module = sys.modules.get(plugin.module)
    if place is None or plugin_module is None:
        return
    for value in list(vars(plugin_module).values()):
        module = value
        if isinstance(value, FunctionType | type):
            module = sys.modules.get(value.__module__)
        if not isinstance(module, ModuleType):
            continue
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and _is_undigested(file, place):
            raise _undigested_error(place, file)


# Code that replaces code of the harness


def harness_code() -> Mapping[str, object]:
    """The values in the loaded modules of the harness, by name.

    They are variables, attributes of classes, entries of dictionaries, and the code and
    defaults of functions.
    """
    values: dict[str, object] = {}
    for name, value in _attributes(HARNESS_PACKAGES):
        values[name] = value
        if issubclass(type(value), FunctionType):
            values[f"{name}.__code__"] = value.__code__
            values[f"{name}.__defaults__"] = value.__defaults__
            values[f"{name}.__kwdefaults__"] = value.__kwdefaults__
        # Not a subclass: a lazy dictionary of a library would import its entries.
        if type(value) is dict:
            for key, entry in value.items():
                values[f"{name}[{key!r}]"] = entry
    return values


def require_nothing_replaced(plugin: Plugin, before: Mapping[str, object]) -> None:
    """Raise HarnessError if a value of the harness was replaced by importing a plug-in.

    `before` is what `harness_code` returned before the import.
    """
    after = harness_code()
    for name, value in before.items():
        if after.get(name, value) is not value:
            raise _replaced_error(plugin.name, name)


def require_in_place(
    plugin: Plugin, packages: tuple[str, ...] = HARNESS_PACKAGES
) -> None:
    """Raise HarnessError if code of a plug-in is a variable or an attribute of the packages."""
    for name, value in _attributes(packages):
        if any(plugin.defines(code) for code in _code_of(value)):
            raise _replaced_error(plugin.name, name)


def require_own_code() -> None:
    """Raise HarnessError if code of a loaded plug-in has replaced code of the harness.

    It also raises if a plug-in has left a setting of torch changed. It is called after
    each cell, and raises for what an earlier cell changed, too.
    """
    for error in _REPLACED:
        raise error
    for plugin in PLUGINS.values():
        require_in_place(plugin)
    changed_setting = _changed_torch_setting() if PLUGINS else None
    if changed_setting is not None:
        names = ", ".join(sorted(PLUGINS))
        error = HarnessError(
            f"a plug-in ({names}) leaves {changed_setting} changed, which moves cells whose "
            "records do not name it; set it back after use, and start again"
        )
        _REPLACED.append(error)
        raise error


def _changed_torch_setting() -> str | None:
    """What sets a setting of torch that is not as torch starts; None if all are.

    These settings change what encoders and flows compute.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    if torch.get_default_dtype() != torch.float32:
        return "torch.set_default_dtype"
    if torch.is_autocast_enabled("cpu"):
        return "torch.autocast"
    if not torch.is_grad_enabled():
        return "torch.set_grad_enabled"
    if torch.get_float32_matmul_precision() != "highest":
        return "torch.set_float32_matmul_precision"
    return None


def _code_of(value: Any) -> Iterator[object]:
    """The function or class that a value is or wraps, or the class of another object.

    Only the type of a value is asked, since an object of a plug-in may answer anything.
    """
    kind = type(value)
    if issubclass(kind, property):
        for function in (value.fget, value.fset):
            if function is not None:
                yield function
    elif issubclass(kind, cached_property):
        yield value.func
    elif issubclass(kind, staticmethod | classmethod):
        yield value.__func__
    elif issubclass(kind, FunctionType | type | partial):
        yield value
    else:
        yield kind


def _replaced_error(plugin: str, name: str) -> HarnessError:
    """The error for code that was replaced, which `require_own_code` raises again."""
    error = HarnessError(
        f"the plug-in {plugin} replaces {name}, which moves cells whose records do not name it; "
        "register a part of your own, such as a subclass, and start again"
    )
    _REPLACED.append(error)
    return error


def _attributes(packages: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The variables of loaded modules, and the attributes of classes that they define.

    Each has its full name. Lists are made, since other threads may import meanwhile.
    """
    for name, module in list(sys.modules.items()):
        package = name.partition(".")[0]
        if package not in packages or not issubclass(type(module), ModuleType):
            continue
        for variable, value in list(vars(module).items()):
            yield f"{name}.{variable}", value
            is_class = issubclass(type(value), type)
            if is_class and vars(value).get("__module__") == name:
                for attribute, member in list(vars(value).items()):
                    yield f"{name}.{variable}.{attribute}", member
