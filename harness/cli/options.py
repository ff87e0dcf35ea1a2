"""Options that several commands share, how they are read and completed, and how commands print."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from harness.core.errors import UsageError
from harness.core.terminal import table, visible, width_of, wrapped
from harness.results.layout import OWN, own_or_committed

DEVICE = re.compile(r"(cpu|cuda|mps)(:\d+)?")
FURTHER = "harness.further"  # the option of which a shell completes a further word


# How options are read


def flattened(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with an option for each field of those parameters that are dataclasses."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        own, annotation = [parameter], parameter.annotation
        if is_dataclass(annotation):
            groups[parameter.name] = annotation
            own = [*inspect.signature(groups[parameter.name], eval_str=True).parameters.values()]
        parameters += [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]

    def flat(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    flat.__name__, flat.__doc__ = command.__name__, command.__doc__
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flat


class SeveralValues(TyperCommand):
    """A command whose repeatable options take every word up to the next option: `-t sts12 sts13`.

    Its arguments therefore stand before such options, or after `--`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further word."""
        repeatable = {name: p for p in self.params if p.multiple for name in p.opts}
        rest = super().parse_args(ctx, list(repeat_options(args, repeatable)))
        if ctx.resilient_parsing:  # a shell asks what may follow
            before = [*repeat_options([*args, "word"], repeatable)][-2:-1]
            ctx.meta[FURTHER] = next((repeatable.get(name) for name in before), None)
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters; the options alone where a shell completes a further word of one."""
        params = super().get_params(ctx)
        if ctx.meta.get(FURTHER) is None:
            return params
        return [p for p in params if p.param_type_name == "option"]

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """What a word may become: a further value of the option before it, or an option."""
        option = ctx.meta.get(FURTHER)
        if option is None or incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return list(option.shell_complete(ctx, incomplete))


def repeat_options(arguments: Iterable[str], repeatable: Container[str]) -> Iterator[str]:
    """`-t a b` as `-t a -t b` for the repeatable options."""
    option, values = "", 0
    for argument in arguments:
        if argument.startswith("-"):
            name, equals, _ = argument.partition("=")
            option, values = (name if name in repeatable else ""), int(bool(equals))
        elif option:
            if values:
                yield option
            values += 1
        yield argument


def split_commas(values: Sequence[str] | None) -> list[str] | None:
    """The values of an option, of which one may hold several between commas."""
    if values is None:
        return None
    return [part for value in values for part in value.split(",") if part]


def usable_device(device: str) -> str:
    """A device that can be here. Raises UsageError for another; imports no torch, which is slow."""
    from harness.core.hardware import cuda_is_possible

    if not DEVICE.fullmatch(device):
        raise UsageError(f"--device {device}: wanted cpu, cuda, cuda:1 or mps")
    if device.startswith("cuda") and not cuda_is_possible():
        raise UsageError(f"--device {device}: found no CUDA device here; take --device cpu")
    if device.startswith("mps") and sys.platform != "darwin":
        raise UsageError(f"--device {device}: only macOS has it; take --device cpu")
    return device


def usable_cache(cache: Path | None) -> Path | None:
    """A folder, or one that can be made. Raises UsageError for what is no folder."""
    if cache is not None:
        path = cache.expanduser()
        there = next((p for p in (path, *path.parents) if p.exists()), path)
        if there.exists() and not there.is_dir():
            raise UsageError(f"--cache {cache}: wanted a folder, found that {there} is none")
    return cache


def require_folder(option: str, folder: Path) -> None:
    """Raise UsageError, naming the option, for a folder that does not exist."""
    if not folder.is_dir():
        raise UsageError(f"{option} {folder}: there is no such folder")


# Completion in the shell, which `harness --install-completion` sets up


def completed_methods(incomplete: str) -> list[str]:
    """Encoders, and once a dot is typed, their methods."""
    from harness.registry import load_registry

    registry = load_registry()
    dotted = "." in incomplete.rpartition(",")[2]
    return beginning(incomplete, registry.methods if dotted else registry.encoders)


def completed_tasks(incomplete: str) -> list[str]:
    """Tasks, by their own names and mteb's."""
    from harness.registry import load_registry

    return beginning(incomplete, load_registry().tasks_by_name)


def completed_cells(incomplete: str) -> list[str]:
    """Published tables, and once a slash is typed, their cells."""
    from harness.results.published import load_table

    folder = own_or_committed(OWN / "papers")
    path = folder / f"{incomplete.partition('/')[0]}.toml"
    if "/" in incomplete and path.is_file():
        return beginning(incomplete, (cell.id for cell in load_table(path).cells()))
    return beginning(incomplete, (f"{path.stem}/" for path in sorted(folder.glob("*.toml"))))


def completed_tables(incomplete: str) -> list[str]:
    """Published tables."""
    return [name.removesuffix("/") for name in completed_cells(incomplete.partition("/")[0])]


def beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    """What the word may become: each of the names that its part behind the last comma begins."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


# The options; `{default}` in words stands in the help where the value is computed


def option(*names: str, **settings: Any) -> Any:
    """An option without a default that could be shown."""
    return typer.Option(*names, show_default=False, **settings)


DataDir = Annotated[
    Path | None, option(envvar="HARNESS_DATA_DIR", help="Folder with the data sets.")
]
CacheDir = Annotated[
    Path | None,
    option(
        "--cache",
        envvar="HARNESS_CACHE_DIR",
        callback=usable_cache,
        help="Folder for encodings.  [default: ~/.cache/sentence-embedding-harness]",
    ),
]
Encoders = Annotated[
    list[str] | None,
    option(
        "--encoder",
        help="NAME=PATH or NAME=REPO[@REVISION]: another encoder, or where a known one lies. "
        "Can be given several times.",
    ),
]
Methods = Annotated[
    list[str] | None,
    option(
        "--method",
        "-m",
        callback=split_commas,
        autocompletion=completed_methods,
        help="Method id, glob, encoder, hub repository or model folder; several are allowed.",
    ),
]
Tasks = Annotated[
    list[str] | None,
    option(
        "--task",
        "-t",
        callback=split_commas,
        autocompletion=completed_tasks,
        help="Task name or glob, also as mteb spells it (STS12); several are allowed.",
    ),
]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds 0..K-1 for methods with randomness.")]
Limit = Annotated[
    int | None,
    option(
        min=2,
        metavar="N",
        help="Only N rows of each split and sentences of each corpus: does everything run? Kept "
        "apart, in limit-N of the output folder, and never compared with a published number.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        callback=usable_device, help="Where transformers encode: cpu, cuda, cuda:1 or mps."
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", "--results", help="Folder for records and per-pair similarities."
    ),
]
Results = Annotated[Path, typer.Option(help="Folder for records and per-pair similarities.")]
Baseline = Annotated[
    Path,
    typer.Option(
        "--baseline", "--committed", help="Results to compare with.", callback=own_or_committed
    ),
]
Papers = Annotated[
    Path, typer.Option(help="Folder with the published tables (TOML).", callback=own_or_committed)
]
Records = Annotated[Path, typer.Option(help="Folder with records.", callback=own_or_committed)]
OnlyOwn = Annotated[
    bool, typer.Option("--only-own", help="Leave out the results that come with the harness.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


# Printing


def say(text: str = "") -> None:
    """Print a line of the answer."""
    typer.echo(visible(text))


def say_folded(text: str) -> None:
    """Print a line of the answer, folded between words to the width of its terminal."""
    say(wrapped(visible(text), terminal_width()))


def note(text: str) -> None:
    """Print a line beside the answer, for a person, folded to the width of its terminal."""
    typer.echo(wrapped(visible(text), width_of(sys.stderr.isatty())), err=True)


def terminal_width() -> int | None:
    """The columns of standard output; None where it is no terminal."""
    return width_of(sys.stdout.isatty())


def tabled(
    rows: Sequence[Sequence[object]], head: Sequence[str], sides: Sequence[str] | None = None
) -> str:
    """A table for standard output: as wide as its terminal, or as it is in a pipe."""
    return table(rows, head, terminal_width(), sides)
