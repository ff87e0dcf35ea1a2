"""Options that several commands share, how they are read, and how a command prints."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from harness.cli.completion import methods, tasks
from harness.core.errors import UsageError
from harness.results.layout import own_or_committed

COMPLETED = "harness.completed"  # the option of which a shell completes a further word


def apart(values: Sequence[str] | None) -> list[str] | None:
    """The values of an option, of which one may hold several between commas."""
    if values is None:
        return None
    return [part for value in values for part in value.split(",") if part]


class SeveralValues(TyperCommand):
    """A command whose repeatable options take every word up to the next option: `-t sts12 sts13`.

    Its arguments therefore stand before such options, or after `--`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further word."""
        repeatable = {name: p for p in self.params if p.multiple for name in p.opts}
        rest = super().parse_args(ctx, list(spread(args, repeatable)))
        if ctx.resilient_parsing:  # a shell asks what may follow
            before = [*spread([*args, "word"], repeatable)][-2:-1]
            ctx.meta[COMPLETED] = next((repeatable.get(name) for name in before), None)
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters; the options alone where a shell completes a further word of one."""
        params = super().get_params(ctx)
        if ctx.meta.get(COMPLETED) is None:
            return params
        return [p for p in params if p.param_type_name == "option"]

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """What a word may become: a further value of the option before it, or an option."""
        option = ctx.meta.get(COMPLETED)
        if option is None or incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return list(option.shell_complete(ctx, incomplete))


def spread(arguments: Iterable[str], repeatable: Container[str]) -> Iterator[str]:
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


def usable_device(device: str) -> str:
    """A device that can be here. Raises UsageError for another; imports no torch, which is slow."""
    from harness.core.hardware import cuda_is_possible

    kind, colon, number = device.partition(":")
    if kind not in ("cpu", "cuda", "mps") or bool(colon) != number.isdecimal():
        raise UsageError(f"--device {device}: wanted cpu, cuda, cuda:1 or mps")
    if kind == "cuda" and not cuda_is_possible():
        raise UsageError(f"--device {device}: found no CUDA device here; take --device cpu")
    if kind == "mps" and sys.platform != "darwin":
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


DataDir = Annotated[
    Path | None,
    typer.Option(envvar="HARNESS_DATA_DIR", help="Folder with the data sets.", show_default=False),
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
        "--baseline",
        "--committed",
        help="Results to compare with.",
        callback=own_or_committed,
    ),
]
Papers = Annotated[
    Path,
    typer.Option(help="Folder with the published tables (TOML).", callback=own_or_committed),
]
Records = Annotated[Path, typer.Option(help="Folder with records.", callback=own_or_committed)]
OnlyOwn = Annotated[
    bool, typer.Option("--only-own", help="Leave out the results that come with the harness.")
]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        envvar="HARNESS_CACHE_DIR",
        callback=usable_cache,
        help="Folder for encodings.  [default: ~/.cache/sentence-embedding-harness]",
        show_default=False,
    ),
]
Encoders = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        help="NAME=PATH or NAME=REPO[@REVISION]: another encoder, or where a known one lies. "
        "Can be given several times.",
        show_default=False,
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "-m",
        callback=apart,
        autocompletion=methods,
        help="Method id, glob, encoder, hub repository or model folder; several are allowed.",
    ),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        callback=apart,
        autocompletion=tasks,
        help="Task name or glob, also as mteb spells it (STS12); several are allowed.",
    ),
]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds 0..K-1 for methods with randomness.")]
Device = Annotated[
    str,
    typer.Option(
        callback=usable_device, help="Where transformers encode: cpu, cuda, cuda:1 or mps."
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="bfloat16 or float16: another encoder than in float32, as its id then says "
        "(bert-base-float16.mean).  [default: as the id says, or float32]",
        show_default=False,
    ),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Tokens of a batch.  [default: the device's]", show_default=False
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        min=2,
        metavar="N",
        help="Only N rows of each split and sentences of each corpus: does everything run? Kept "
        "apart, in limit-N of the output folder, and never compared with a published number.",
        show_default=False,
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also say how each cell was measured, and its time.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the table at the end and errors, no more.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        envvar="HARNESS_JOBS",
        help="Processes beside each other, one thread each; 1 measures in this one.  "
        "[default: the cores, if memory allows]",
        show_default=False,
    ),
]
ShardOf = Annotated[
    str | None,
    typer.Option("--shard", help="I/N: the I-th of N parts of the cells, for a job array."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler (tcp://HOST:PORT), or local:N for N workers."),
]


def tabled(
    rows: Sequence[Sequence[object]], head: Sequence[str], sides: Sequence[str] | None = None
) -> str:
    """A table for standard output: as wide as its terminal, or as it is in a pipe."""
    from harness.core.terminal import table, width_of

    return table(rows, head, width_of(sys.stdout.isatty()), sides)


def say(text: str = "") -> None:
    """Print a line of the answer."""
    from harness.core.terminal import visible

    typer.echo(visible(text))


def say_folded(text: str) -> None:
    """Print a line of the answer, folded between words to the width of its terminal."""
    from harness.core.terminal import visible, width_of, wrapped

    say(wrapped(visible(text), width_of(sys.stdout.isatty())))


def note(text: str) -> None:
    """Print a line beside the answer, for a person, folded to the width of its terminal."""
    from harness.core.terminal import visible, width_of, wrapped

    typer.echo(wrapped(visible(text), width_of(sys.stderr.isatty())), err=True)


def require_folder(option: str, folder: Path) -> None:
    """Raise UsageError, naming the option, for a folder that does not exist."""
    if not folder.is_dir():
        raise UsageError(f"{option} {folder}: there is no such folder")


def readme_of(results: Path) -> Path | None:
    """The README that shows a results folder: the project's, of its own results and no others."""
    return Path("README.md") if results == Path("results") else None
