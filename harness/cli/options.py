"""Options that several commands share, and how commands print.

Modules of this package import it as `opt`. A type such as `opt.Methods` annotates one
parameter of a command. A dataclass such as `opt.Run` holds several options,
which `harness.cli.parsing.flattened` makes of its fields. Every command prints its
answer by `say`, and lines that are no part of the answer by `note`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from harness.core.errors import UsageError
from harness.core.provenance import Plugin
from harness.core.terminal import text_table, visible, wrapped
from harness.data.places import Places
from harness.evaluation.processes import default_jobs
from harness.evaluation.select import MIN_COVERAGE, MOST_SEEDS
from harness.plugins import plugin_of_file, plugins_in_use
from harness.registry import Registry
from harness.resolve import Resolution, resolve
from harness.results.layout import (
    OWN,
    PAPERS,
    RUNS,
    is_packaged,
    own_or_committed,
    reading_order,
)

if TYPE_CHECKING:
    from harness.conclusions.folder import Conclusions

# What a table for people, JSON or CSV shows: each row maps names of columns to values.
PrintedRows = Sequence[Mapping[str, Any]]


# Callbacks of options


def usable_device(device: str) -> str:
    """The device, if this machine has it. Raises UsageError if not, and for several devices."""
    if device == "cpu":
        return device
    import torch

    devices = ["cpu"]
    if torch.backends.mps.is_available():
        devices.append("mps")
    cuda_count = torch.cuda.device_count()
    if cuda_count:
        devices += ["cuda", *(f"cuda:{number}" for number in range(cuda_count))]
    if device not in devices:
        raise UsageError(
            f"--device {device}: found no such device here, only {', '.join(devices)}; several "
            "GPUs share a run by --shard, each process with CUDA_VISIBLE_DEVICES"
        )
    return device


def open_plugins_in_use(files: Sequence[str] | None) -> Sequence[str]:
    """Load the plug-ins of a command that measures, and return the files that are named.

    Loaded are the named files, those of HARNESS_PLUGINS, and what is installed. Raises
    UsageError for one that cannot be imported or fails a contract test.
    """
    _open(plugins_in_use(files or ()))
    return files or ()


def open_named_plugins(files: Sequence[str] | None) -> Sequence[str]:
    """Load the plug-ins that are named, and no others; return their files.

    A command that only reads results imports no code that its caller did not name.
    """
    _open([plugin_of_file(file) for file in files or ()])
    return files or ()


def _open(plugins: Sequence[Plugin]) -> None:
    """Load plug-ins, with their advice as notes."""
    if not plugins:
        return
    from harness.contracts.laws import open_plugins

    for line in open_plugins(plugins):
        note(f"advice: {line}")


# Single options


DataDir = Annotated[
    Path | None,
    typer.Option(envvar="HARNESS_DATA_DIR", help="Folder with the data sets."),
]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        envvar="HARNESS_CACHE_DIR",
        help="Folder for encodings.  [default: ~/.cache/sentence-embedding-harness]",
    ),
]
Encoders = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        help="NAME=PATH or NAME=REPO[@REVISION]: an additional encoder, or the location of a "
        "registered one; several are allowed.",
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "-m",
        help="Method id, glob, encoder, hub repository or model folder; several are allowed.",
    ),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        help="Task name or glob, mteb's names (STS12) included, or a file of your own pairs "
        "(pairs.tsv); several are allowed.",
    ),
]
PLUGIN_HELP = (
    "Python file or folder with your methods, tasks, encoders; several are allowed."
)
Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", callback=open_plugins_in_use, help=PLUGIN_HELP),
]
NamedPlugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", callback=open_named_plugins, help=PLUGIN_HELP),
]
Seeds = Annotated[
    int,
    typer.Option(
        min=1, max=MOST_SEEDS, help="Seeds 0..K-1 for methods with randomness."
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
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
    typer.Option(
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
Measured = Annotated[
    Path | None,
    typer.Option(
        "--results",
        help="Folder with records.  [default: runs, then results, then what comes with the "
        "harness]",
    ),
]
MostEncodings = Annotated[
    int | None,
    typer.Option(
        "--encodings",
        min=1,
        metavar="N",
        help="Search with N encodings of a task at most.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only show which cells can run, the work that is left, how long it takes and what "
        "is missing.",
    ),
]


# Groups of options: a command that takes one has an option for each of its fields


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
    """The cells that a run measures, and the device."""

    method: Methods = None
    task: Tasks = None
    profile: Annotated[
        str | None,
        typer.Option(
            help="Cells by a name; -m and -t choose among them. first: what a new machine measures "
            "in minutes; embedded: what is included; standard: the registered methods; papers: "
            "the published cells; bert: those of BERT-base that take about an hour; all."
        ),
    ] = None
    seeds: Seeds = 5
    limit: Limit = None
    encoder: Encoders = None
    plugin: Plugins = None
    device: Device = "cpu"
    dtype: Annotated[
        str | None,
        typer.Option(
            help="bfloat16 or float16; this counts as another encoder, which its id names "
            "(bert-base-float16.mean).  [default: the id's, or float32]"
        ),
    ] = None
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Tokens per batch.  [default: the device's]"
        ),
    ] = None


@dataclass(frozen=True)
class Run(Folders, Selection):
    """The options of `run` and `reproduce`: the cells, how they are measured, and where."""

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
        typer.Option(help="I/N: the I-th of N parts of the cells, for a job array."),
    ] = None
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler (tcp://HOST:PORT).")
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

    def __post_init__(self) -> None:
        if self.jobs is not None and self.scheduler is not None:
            raise UsageError(
                "--jobs is of this machine, --scheduler of a cluster: give one"
            )

    @property
    def folder(self) -> Path:
        """The folder of the records; a smoke test has a folder of its own."""
        if self.limit is None:
            return self.output
        return self.output / f"limit-{self.limit}"

    @property
    def processes(self) -> int | str:
        """The scheduler, or the processes: one on a GPU, where each would load the weights."""
        chosen = self.scheduler or self.jobs
        if chosen is not None:
            return chosen
        return default_jobs() if self.device.startswith("cpu") else 1

    def require_whole(self, option: str) -> None:
        """Raise UsageError for a smoke test, which the option is not for."""
        if self.limit is not None:
            raise UsageError(
                f"--limit and {option} exclude each other: what is limited is no baseline"
            )


@dataclass(frozen=True)
class Sources:
    """What a command that measures nothing reads: records, published tables, encoders."""

    results: Records = Path("results")
    papers: Papers = Path("results/papers")
    encoder: Encoders = None
    plugin: NamedPlugins = None

    @cached_property
    def registry(self) -> Registry:
        """The registry, with the encoders given by hand."""
        return resolve(Places(Path()), self.encoder).registry

    @cached_property
    def folder(self) -> Conclusions:
        """The results folder; each file is read when it is first asked for."""
        from harness.conclusions.folder import Conclusions

        return Conclusions(self.results, self.registry, self.papers)


# What commands read, and what they end with


def measured_folder(results: Path | None, registry: Registry) -> Conclusions:
    """What was measured: a folder that is named, or all that is read by default.

    By default a cell is read from `runs`, or else from `results`, or else from the
    results that come with the harness.
    """
    from harness.conclusions.folder import Conclusions

    if results is None:
        order = reading_order(RUNS, with_packaged=True)
        papers = own_or_committed(OWN / PAPERS)
        return Conclusions(RUNS, registry, papers, folders=order)
    require_folder("--results", results)
    return Conclusions(results, registry, folders=reading_order(results))


def require_folder(option: str, folder: Path) -> None:
    """Raise UsageError, naming the option, for a folder that does not exist."""
    if not folder.is_dir():
        raise UsageError(f"{option} {folder}: there is no such folder")


def worst_status(statuses: Iterable[int]) -> int:
    """The exit status of a command, from the statuses of its parts.

    1 if a part failed, else 2 for wrong usage, else 3 if something is missing, else 0.
    """
    return min(filter(None, statuses), default=0)


def resolved(
    method: Sequence[str] | None,
    task: Sequence[str] | None,
    encoder: Sequence[str] | None,
) -> Resolution:
    """The meaning of the words by which a command selects records.

    A note names each word that the harness has another name for. Records may be of
    encoders, tasks and plug-ins that are not known here.
    """
    known = resolve(Folders().places(), encoder, method, task)
    note_meanings(method, known.methods)
    note_meanings(task, known.tasks)
    return known


# Printing


def say(text: str) -> None:
    """Print a line of the answer."""
    typer.echo(visible(text))


def note(text: str) -> None:
    """Print a line for a person, which is no part of the answer."""
    typer.echo(wrapped(visible(text), terminal_width(sys.stderr)), err=True)


def note_packaged(baseline: Path) -> None:
    """Note that packaged results are the baseline, where the current folder has none."""
    if is_packaged(baseline) and not is_packaged(OWN):
        note(
            f"there are no {OWN} here: the baseline is what comes with the harness, {baseline}"
        )


def note_meanings(words: Sequence[str] | None, meanings: Sequence[str]) -> None:
    """Note the words that were replaced by the harness's own names."""
    for word, meaning in dict(zip(words or (), meanings, strict=True)).items():
        if word != meaning:
            note(f"{word} is {meaning} here")


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The columns of a stream, by default standard output; None where it is no terminal."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        return None
    return shutil.get_terminal_size().columns


def say_rows(rows: PrintedRows, as_json: bool = False) -> None:
    """Print rows as JSON for a program, or as a table for people.

    All rows have the same keys. The table leaves out a column that says nothing in any
    row.
    """
    if as_json:
        say(json.dumps(rows, indent=1))
        return
    columns = texts_by_column(rows)
    cells = list(zip(*columns.values(), strict=True))
    say(text_table(cells, list(columns), terminal_width()))


def texts_by_column(rows: PrintedRows) -> dict[str, list[str]]:
    """The columns of rows as people read them, but for those with only empty texts and `no`."""
    columns = {}
    for name in rows[0]:
        texts = [cell_text(row[name]) for row in rows]
        if not set(texts) <= {"", "no"}:
            columns[name] = texts
    return columns


def cell_text(value: Any) -> str:
    """A value of a table for people: numbers with two decimals, yes or no, no list."""
    if value is None or isinstance(value, list):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value)
