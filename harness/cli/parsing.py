"""How command lines are read: what typer lacks.

Commands here differ from typer's in three ways. A parameter that is a dataclass becomes
an option for each of its fields (`flattened`). A repeatable option takes several words,
as in `-t sts12 sts13` (`SeveralValues`). The list of commands has sections, and shows
whole sentences (`CommandGroup`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


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


# Repeatable options that take one value each time, in every command.
OPTIONS_OF_ONE_VALUE = {"--plugin"}


class SeveralValues(TyperCommand):
    """A command whose repeatable options take every word up to the next option: `-t sts12 sts13`.

    They leave the words that the command's own arguments need: `-t sts12 first second`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further word."""
        return super().parse_args(ctx, self.one_value_each(args))

    def one_value_each(self, words: Iterable[str]) -> list[str]:
        """The words as click reads them, every repeatable option before each of its values."""
        with_value: set[str] = set()
        repeatable: set[str] = set()
        argument_count = 0
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                argument_count += parameter.required
                continue
            if not getattr(parameter, "is_flag", False):
                with_value.update(parameter.opts)
            if parameter.multiple:
                repeatable.update(parameter.opts)
        repeatable -= OPTIONS_OF_ONE_VALUE
        return list(repeat_options(words, with_value, repeatable, argument_count))


def repeat_options(
    words: Iterable[str],
    with_value: Container[str],
    repeatable: Container[str],
    argument_count: int = 0,
) -> Iterator[str]:
    """Write `-t a b` as `-t a -t b`.

    Args:
        words: A command line.
        with_value: The options that take a value.
        repeatable: Those of them that may be given more than once.
        argument_count: The number of arguments that the command itself needs. As long
            as it has fewer, a word after the value of an option is an argument.
    """
    option = ""  # the option whose values the next words may be
    has_value = False
    arguments_missing = argument_count
    for word in words:
        if word.startswith("-"):
            name, equals, _ = word.partition("=")
            option = name if name in with_value else ""
            has_value = equals == "="
        elif option and not has_value:
            has_value = True
        elif option in repeatable and not arguments_missing:
            yield option
        else:
            option = ""
            arguments_missing = max(0, arguments_missing - 1)
        yield word


class CommandGroup(TyperGroup):
    """Commands, listed in sections with the whole first sentence of each one's help."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's
        """Write the names of a section and their sentences; without sections, of all commands."""
        sections = self.sections or {"Commands": list(self.commands)}
        for title, names in sections.items():
            rows = []
            for name in names:
                sentence = self.commands[name].get_short_help_str(limit=100)
                rows.append((name, sentence))
            with formatter.section(title):
                formatter.write_dl(rows)


def command_group(text: str) -> typer.Typer:
    """A group of commands; the text is its help."""
    return typer.Typer(
        help=text,
        cls=CommandGroup,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )


def split_commas(values: Sequence[str] | None) -> list[str] | None:
    """The values of an option; a value with commas is split at them."""
    if values is None:
        return None
    single_values: list[str] = []
    for value in values:
        single_values += value.split(",")
    return [value for value in single_values if value]
