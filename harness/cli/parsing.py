"""How command lines are read: what typer lacks.

Commands here differ from typer's in four ways. A parameter that is a dataclass becomes an
option for each of its fields (`flattened`). The lists `-m` and `-t` take several words,
as in `-t sts12 sts13` (`Command`). An empty word is no value of an option, and the list
of commands has sections and whole sentences (`Commands`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from typer.core import TyperCommand, TyperGroup

from harness.core.errors import UsageError

LISTS = ("-m", "--method", "-t", "--task")


def flattened(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command as typer reads it: a field of a dataclass becomes a parameter of its own.

    Args:
        command: A function. Some of its parameters may be dataclasses, whose fields are
            annotated as options are.

    Returns:
        A function with a parameter for each field of these dataclasses and for each
        other parameter. It makes the dataclasses of its arguments and calls the command.
    """
    parameters: list[inspect.Parameter] = []
    option_groups: dict[str, Any] = {}  # the dataclasses, by the names of parameters
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            option_group: Any = parameter.annotation
            option_groups[parameter.name] = option_group
            field_signature = inspect.signature(option_group, eval_str=True)
            parameters += field_signature.parameters.values()
        else:
            parameters.append(parameter)

    def flat_command(**arguments: Any) -> Any:
        for name, option_group in option_groups.items():
            values = {}
            for field in fields(option_group):
                values[field.name] = arguments.pop(field.name)
            arguments[name] = option_group(**values)
        return command(**arguments)

    # By keyword only, since an option with a default may come before one without.
    keywords = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in parameters
    ]
    flat_command.__name__ = command.__name__
    flat_command.__doc__ = command.__doc__
    flat_command.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return flat_command


class Command(TyperCommand):
    """A command whose lists take every word up to the next option: `-t sts12 sts13`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further word, as click reads a list."""
        lists: set[str] = set()
        for parameter in self.params:
            if parameter.multiple:
                lists.update(option for option in parameter.opts if option in LISTS)
        words: list[str] = []
        option = ""  # the list that the next word belongs to
        for word in args:
            if word.startswith("-"):
                name, _, _ = word.partition("=")
                option = name if name in lists else ""
            elif option and words[-1] != option:
                words.append(option)
            words.append(word)
        return super().parse_args(ctx, words)


class Commands(TyperGroup):
    """Commands, listed in sections with the whole first sentence of each one's help."""

    sections: ClassVar[Mapping[str, Iterable[str]]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a command line. Raises UsageError for an empty word, which is no value of any."""
        before = "harness"
        for word in args:
            option, _, _ = word.partition("=")
            if word == "" or (option.startswith("--") and word.endswith("=")):
                raise UsageError(f"{option or before} needs a value")
            before = word
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names of a section and their sentences; without sections, of all commands."""
        sections = self.sections or {"Commands": list(self.commands)}
        for title, names in sections.items():
            rows = []
            for name in names:
                command: Any = self.get_command(ctx, name)
                rows.append((name, command.get_short_help_str(limit=100)))
            with formatter.section(title):
                formatter.write_dl(rows)
