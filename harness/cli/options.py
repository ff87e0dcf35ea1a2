"""Options that several commands share, how they are read, and how commands print."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from harness.assets.places import Places
from harness.contracts.plugins import open_plugins
from harness.core import hardware
from harness.core.errors import UsageError
from harness.core.terminal import text_table, visible, wrapped
from harness.evaluation.engines import Engine, engine
from harness.evaluation.select import MOST_SEEDS
from harness.plugins import plugin_of_file, plugins_in_use
from harness.registry import Registry
from harness.resolve import Resolver
from harness.results.folder import ResultsFolder
from harness.results.layout import COMMITTED, OWN, is_packaged, own_or_committed
from harness.results.reproduction import MIN_COVERAGE

DEVICE_NAME = re.compile(r"(cpu|cuda|mps)(:\d+)?")

PrintedRows = Sequence[Mapping[str, Any]]


# How options are read


def flattened(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with an option for each field of those parameters that are dataclasses."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            group: Any = parameter.annotation
            groups[parameter.name] = group
            parameters += inspect.signature(group, eval_str=True).parameters.values()
        else:
            parameters.append(parameter)
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]

    def flat(**arguments: Any) -> Any:
        for name, group in groups.items():
            values = {field.name: arguments.pop(field.name) for field in fields(group)}
            arguments[name] = group(**values)
        return command(**arguments)

    flat.__name__, flat.__doc__ = command.__name__, command.__doc__
    flat.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return flat


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
        arguments = 0
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                arguments += 1
                continue
            if not getattr(parameter, "is_flag", False):
                with_value.update(parameter.opts)
            if parameter.multiple:
                repeatable.update(parameter.opts)
        repeatable -= OPTIONS_OF_ONE_VALUE
        return list(repeat_options(words, with_value, repeatable, arguments))


def repeat_options(
    words: Iterable[str],
    with_value: Container[str],
    repeatable: Container[str],
    arguments: int = 0,
) -> Iterator[str]:
    """`-t a b` as `-t a -t b` for the repeatable options, once the command has its arguments."""
    option = ""  # the option whose values the next words may be
    has_value = False
    for word in words:
        if word.startswith("-"):
            name, equals, _ = word.partition("=")
            option = name if name in with_value else ""
            has_value = equals == "="
        elif option and not has_value:
            has_value = True
        elif option in repeatable and not arguments:
            yield option
        else:
            option = ""
            arguments = max(0, arguments - 1)
        yield word


class CommandGroup(TyperGroup):
    """Commands, listed in sections with the whole first sentence of each one's help."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's
        """A section for each group of names, or one of all."""
        sections = self.sections or {"Commands": list(self.commands)}
        for title, names in sections.items():
            sentences = [
                self.commands[name].get_short_help_str(limit=100) for name in names
            ]
            with formatter.section(title):
                formatter.write_dl(list(zip(names, sentences, strict=True)))


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
    """The values of an option, each of which may hold several, separated by commas."""
    if values is None:
        return None
    parts: list[str] = []
    for value in values:
        parts += value.split(",")
    return [part for part in parts if part]


def usable_device(device: str) -> str:
    """A device that is here. Raises UsageError for another, and for several."""
    if not DEVICE_NAME.fullmatch(device):
        remedy = ""
        if "," in device or device.endswith(":all"):
            remedy = "; several GPUs share a run by --shard, each process with CUDA_VISIBLE_DEVICES"
        raise UsageError(f"--device {device}: wanted cpu, cuda, cuda:1 or mps{remedy}")
    if device.startswith("cuda") and not hardware.cuda_devices():
        raise UsageError(
            f"--device {device}: found no CUDA device here; take --device cpu"
        )
    if device.startswith("mps") and sys.platform != "darwin":
        raise UsageError(f"--device {device}: only macOS has it; take --device cpu")
    return device


def possible_seeds(seeds: int) -> int:
    """The number of seeds. Raises UsageError for more than a plan can hold."""
    if seeds > MOST_SEEDS:
        raise UsageError(f"--seeds {seeds}: wanted {MOST_SEEDS} at most")
    return seeds


def open_plugins_in_use(files: Sequence[str] | None) -> list[str]:
    """Load the plug-ins of a command that measures: those named, chosen for the folder, installed.

    Raises UsageError for one that cannot be imported or fails a contract test.
    """
    open_plugins(plugins_in_use(files or ()))
    return [*(files or ())]


def open_named_plugins(files: Sequence[str] | None) -> list[str]:
    """Load the plug-ins that are named, and no others: to read results imports none."""
    open_plugins(map(plugin_of_file, files or ()))
    return [*(files or ())]


def require_folder(option: str, folder: Path) -> None:
    """Raise UsageError, naming the option, for a folder that does not exist."""
    if not folder.is_dir():
        raise UsageError(f"{option} {folder}: there is no such folder")


# Single options


def option(*names: str, **settings: Any) -> Any:
    """An option whose help shows no default; the text of the help names a computed one."""
    return typer.Option(*names, show_default=False, **settings)


DataDir = Annotated[
    Path | None, option(envvar="HARNESS_DATA_DIR", help="Folder with the data sets.")
]
CacheDir = Annotated[
    Path | None,
    option(
        "--cache",
        envvar="HARNESS_CACHE_DIR",
        help="Folder for encodings.  [default: ~/.cache/sentence-embedding-harness]",
    ),
]
Encoders = Annotated[
    list[str] | None,
    option(
        "--encoder",
        help="NAME=PATH or NAME=REPO[@REVISION]: an additional encoder, or the location of a "
        "registered one; several are allowed.",
    ),
]
Methods = Annotated[
    list[str] | None,
    option(
        "--method",
        "-m",
        callback=split_commas,
        help="Method id, glob, encoder, hub repository or model folder; several are allowed.",
    ),
]
Tasks = Annotated[
    list[str] | None,
    option(
        "--task",
        "-t",
        callback=split_commas,
        help="Task name or glob, mteb's names (STS12) included; several are allowed.",
    ),
]
PLUGIN_HELP = (
    "Python file or folder with your methods, tasks, encoders; several are allowed."
)
Plugins = Annotated[
    list[str] | None, option("--plugin", callback=open_plugins_in_use, help=PLUGIN_HELP)
]
NamedPlugins = Annotated[
    list[str] | None, option("--plugin", callback=open_named_plugins, help=PLUGIN_HELP)
]
Seeds = Annotated[
    int,
    typer.Option(
        min=1, callback=possible_seeds, help="Seeds 0..K-1 for methods with randomness."
    ),
]
Limit = Annotated[
    int | None,
    option(
        min=2,
        metavar="N",
        help="Smoke test: only N rows of each split and N sentences of each corpus. Stored "
        "separately, in limit-N of the output folder, and without a verdict.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        callback=usable_device,
        help="Where transformers encode: cpu, cuda, cuda:1 or mps.",
    ),
]
Jobs = Annotated[
    int | None,
    option(
        "--jobs",
        "-j",
        min=1,
        envvar="HARNESS_JOBS",
        help="Parallel processes with one thread each; 1: no further process.  "
        "[default: the cores, if memory allows; 1 on a GPU]",
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", help="Folder for records and per-pair similarities."
    ),
]
Run = Annotated[
    Path,
    typer.Option(
        "--results", help="Folder of a run: records and per-pair similarities."
    ),
]
Baseline = Annotated[
    Path, typer.Option(help="Results to compare with.", callback=own_or_committed)
]
Papers = Annotated[
    Path,
    typer.Option(
        help="Folder with the published tables (TOML).", callback=own_or_committed
    ),
]
Records = Annotated[
    Path, typer.Option(help="Folder with records.", callback=own_or_committed)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OnlyOwn = Annotated[
    bool,
    typer.Option(
        "--only-own", help="Leave out the results that come with the harness."
    ),
]


# Groups of options, whose fields become options of each command that takes them


@dataclass(frozen=True)
class Folders:
    """The folders of the data sets and of the encodings."""

    data_dir: DataDir = None
    cache: CacheDir = None

    def places(self) -> Places:
        return Places.from_environment(
            os.environ, cache=self.cache, data_dir=self.data_dir
        )


@dataclass(frozen=True)
class Selection:
    """What `plan`, `run` and `reproduce` measure."""

    method: Methods = None
    task: Tasks = None
    seeds: Seeds = 5
    encoder: Encoders = None
    plugin: Plugins = None
    device: Device = "cpu"
    dtype: Annotated[
        str | None,
        option(
            help="bfloat16 or float16; this counts as another encoder, which its id names "
            "(bert-base-float16.mean).  [default: that of the id, or float32]"
        ),
    ] = None
    batch_tokens: Annotated[
        int | None,
        option(min=1, metavar="N", help="Tokens per batch.  [default: the device's]"),
    ] = None


@dataclass(frozen=True)
class Execution:
    """How `run` and `reproduce` measure it, and where the records go."""

    output: Output = Path("runs")
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also measure cells that are done.")
    ] = False
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print only the final table and errors."),
    ] = False
    jobs: Jobs = None
    shard: Annotated[
        str | None,
        option(help="I/N: the I-th of N parts of the cells, for a job array."),
    ] = None
    scheduler: Annotated[
        str | None, option(help="Address of a Dask scheduler (tcp://HOST:PORT).")
    ] = None
    min_coverage: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="The share of a task's tokens that word vectors must have a vector for: below it "
            "a cell fails.",
        ),
    ] = MIN_COVERAGE

    @cached_property
    def engine(self) -> Engine:
        """The engine, opened once for all steps of a run."""
        return engine(self.jobs, self.scheduler)


@dataclass(frozen=True)
class Sources:
    """What the commands read that measure nothing: records, published tables, encoders."""

    results: Records = Path("results")
    papers: Papers = Path("results/papers")
    encoder: Encoders = None
    plugin: NamedPlugins = None

    @cached_property
    def registry(self) -> Registry:
        """The registry, with the encoders given by hand."""
        return Resolver.from_options(Places(Path()), self.encoder or []).registry

    @cached_property
    def folder(self) -> ResultsFolder:
        """The results folder; each file is read when it is first asked for."""
        return ResultsFolder(self.results, self.registry, self.papers)


# Printing


def say(text: str = "") -> None:
    """Print a line of the answer."""
    typer.echo(visible(text))


def note(text: str) -> None:
    """Print a line for a person, which is no part of the answer."""
    typer.echo(wrapped(visible(text), terminal_width(sys.stderr)), err=True)


def note_packaged(baseline: Path) -> None:
    """Note that the baseline is what comes with the harness, since there is no `results` here."""
    if baseline.is_relative_to(COMMITTED) and not is_packaged(OWN):
        note(
            f"there are no {OWN} here: the baseline is what comes with the harness, {baseline}"
        )


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The columns of a stream, by default standard output; None where it is no terminal."""
    return (
        shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else None
    )


def say_rows(rows: PrintedRows, as_json: bool = False) -> None:
    """Print rows as JSON for a program, or as a table for people, without empty columns."""
    if as_json:
        say(json.dumps(rows, indent=1))
        return
    texts = [{name: cell_text(value) for name, value in row.items()} for row in rows]
    columns = [
        name for name in rows[0] if any(text[name] not in ("", "no") for text in texts)
    ]
    cells = [[text[name] for name in columns] for text in texts]
    say(text_table(cells, columns, terminal_width()))


def cell_text(value: Any) -> str:
    """A value of a table for people: numbers with two decimals, yes or no, no list."""
    if value is None or isinstance(value, list):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
