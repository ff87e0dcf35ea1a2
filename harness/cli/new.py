"""`harness new`: write the file of a plug-in that runs, to be changed into one's own.

The templates call the thing `mine` and its class `Mine`, and have the name of the file
as FILE; the command puts the new names in their places.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

import harness
from harness.cli.options import say
from harness.core.environment import TEMPLATE_FOLDER
from harness.core.errors import UsageError
from harness.core.files import write_atomically
from harness.registry import look_up

TEMPLATES = {path.stem: path for path in TEMPLATE_FOLDER.glob("*.py")}


def new_command(
    kind: Annotated[str, typer.Argument(help="method, task or encoder.")],
    name: Annotated[str, typer.Argument(help="Its name in ids, such as my-method.")],
) -> None:
    """Write a plug-in file to start from: method, task or encoder."""
    template = look_up("kind of plug-in", kind, TEMPLATES)
    if not re.fullmatch("[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise UsageError(
            f"{name}: wanted words of lower-case letters and digits, a letter first, as in "
            "my-method-2"
        )
    module = name.replace("-", "_")
    if module in sys.stdlib_module_names or find_spec(module) or iskeyword(module):
        raise UsageError(
            f"{name}: {module}.py would hide Python's or a library's module of this name: take "
            f"another, as in my-{name}"
        )
    file = Path(f"{module}.py")
    if file.exists():
        raise UsageError(f"{file} exists: take another name, or another folder")
    class_name = name.title().replace("-", "")
    if class_name in harness.__all__:  # which the template imports
        class_name = f"My{class_name}"
    text = template.read_text(encoding="utf-8")
    text = text.replace("FILE", file.name)
    text = text.replace("Mine", class_name)
    text = text.replace("mine", name)
    write_atomically(file, text.encode())
    [command] = re.findall("^harness run.*$", text, re.MULTILINE)[:1]
    say(f"{file}: {command}")
