"""The cells of a run: selected by patterns, by default, or by the name of a profile.

A planned cell is a method on a task with a seed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.hardware import FLOAT32, Hardware, base_name, precision_of
from harness.core.interfaces import EncoderConfig, Packaged, Trained
from harness.core.types import Method, Task
from harness.data.tasks.loader import OWN_TEXTS, TARGETS
from harness.registry import Registry, look_up, matches
from harness.results.layout import GATE, PAPERS_ENCODER
from harness.results.records import Cell

MOST_SEEDS = 1000  # of a method on a task; each is a cell of the plan
# A file of word vectors that is read with the wrong encoding or tokenisation covers hardly
# any token. Below this share of tokens a cell fails unless the user allows it.
MIN_COVERAGE = 0.2


@dataclass(frozen=True)
class PlannedCell:
    """A cell to run: a method on a task with a seed."""

    method: Method
    task: Task
    seed: int

    @property
    def address(self) -> Cell:
        """Method id, task name, seed."""
        return Cell(self.method.id, self.task.name, self.seed)

    @property
    def encoder(self) -> EncoderConfig:
        """The encoder of its sentences; for a family, the member that the seed names."""
        return self.method.encoder.member(self.seed)


def planned_cells(
    methods: Iterable[Method], tasks: Sequence[Task], seeds: int
) -> tuple[PlannedCell, ...]:
    """Every method on every task with the seeds from 0.

    A method without randomness has one seed, 0. Raises UsageError for a method that
    cannot be fitted on one of the tasks.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"wanted 1 to {MOST_SEEDS} seeds, found {seeds}")
    planned: list[PlannedCell] = []
    for method in methods:
        if method.fit_on == OWN_TEXTS:
            raise UsageError(
                f"{method.id}: wanted a corpus or the task's sentences to fit on; only a program "
                "fits on texts of its own (harness.encoder)"
            )
        count = seeds if method.seeded else 1
        for task in tasks:
            if not _can_be_fitted(method, task):
                raise UsageError(
                    f"{method.id} on {task.name}: the task has no training split other than the "
                    "sentences that are scored; use @target"
                )
            planned += [PlannedCell(method, task, seed) for seed in range(count)]
    return tuple(planned)


def _can_be_fitted(method: Method, task: Task) -> bool:
    """Whether the task has a training split that is not scored, if the method is fitted on it."""
    has_training_split = task.train is not None and task.train not in task.scored
    return method.fit_on != "target-train" or has_training_split


def run_order(cell: PlannedCell) -> tuple[bool, str, str, float, str, str]:
    """The sort key of a run: included encoders come first, and cells that share work together.

    Of an encoder's maximum lengths the longest comes first: its encodings show which texts
    a shorter one does not cut, and serve it.
    """
    encoder, pooling = cell.encoder, cell.method.pooling
    is_last = not is_embedded(cell.method.encoder)
    length = getattr(encoder, "max_length", None) or inf
    return (
        is_last,
        encoder.name.partition(":")[0],
        type(encoder).__name__,
        -length,
        encoder.name,
        pooling.name,
    )


def fits_without_pass(method: Method) -> bool:
    """Whether no sentence is encoded for its fit alone: none of a corpus, none with dropout."""
    return method.fit_on in (None, *TARGETS) and not any(
        post.dropout for post in method.post
    )


def units(cells: Iterable[PlannedCell]) -> list[list[PlannedCell]]:
    """Group cells that share work: one process measures a unit, a cell after the other.

    They share the embeddings of an encoder under a pooling, but each seed of a method
    with randomness is a unit of its own; where it is fitted on a task's sentences, on
    each task.
    """
    cells_by_work: dict[object, list[PlannedCell]] = {}
    for cell in cells:
        method = cell.method
        work: tuple[object, ...] = (cell.encoder.name, method.pooling)
        if method.seeded:
            work = (*work, method.id, cell.seed)
            if method.fit_on in TARGETS:
                work = (*work, cell.task.name)
        cells_by_work.setdefault(work, []).append(cell)
    return [*cells_by_work.values()]


def part_of(cells: Sequence[PlannedCell], part: str | None) -> tuple[PlannedCell, ...]:
    """The cells of a part of a run, such as `2/8`: units are dealt out in turn.

    The same cells are always dealt out alike. Raises UsageError for a text that names no
    part; None is the whole run.
    """
    if part is None:
        return tuple(cells)
    match = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", part)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard {part}: wanted I/N with 1 <= I <= N, as in 2/8")
    units_of_part = units(cells)[int(match[1]) - 1 :: int(match[2])]
    cells_of_part = {cell for unit in units_of_part for cell in unit}
    return tuple(cell for cell in cells if cell in cells_of_part)


def on_hardware(
    cells: Iterable[PlannedCell],
    device: str,
    dtype: str | None,
    batch_tokens: int | None,
) -> tuple[PlannedCell, ...]:
    """The cells with their encoders on a device.

    Args:
        cells: The cells.
        device: The device, as PyTorch names it.
        dtype: The precision of all encoders; None leaves each the one that its id
            names.
        batch_tokens: Tokens in a batch; None leaves that to the encoders.

    Raises:
        UsageError: An id names another precision than `dtype`.
    """
    placed_cells = []
    for cell in cells:
        encoder = cell.method.encoder
        _, dtype_of_id = precision_of(encoder.name)
        if dtype is not None and dtype_of_id not in (FLOAT32, dtype):
            raise UsageError(
                f"--dtype {dtype}: wanted the precision that {cell.method.id} names, "
                f"{dtype_of_id}; leave one of them out"
            )
        hardware = Hardware(
            device=device,
            dtype=dtype_of_id if dtype is None else dtype,
            batch_tokens=batch_tokens,
        )
        method = replace(cell.method, encoder=encoder.on(hardware))
        placed_cells.append(replace(cell, method=method))
    return tuple(placed_cells)


# Patterns

METHODS_NAMED = 8  # at most, in the note on methods that were skipped


def select_cells(
    registry: Registry,
    methods: Sequence[str] | None,
    tasks: Sequence[str] | None,
    seeds: int,
) -> tuple[tuple[PlannedCell, ...], str]:
    """The cells that patterns select, and a note on methods that were skipped.

    A method that is named by its id runs on every chosen task. A method that a glob or
    the default selects runs on the tasks that it is meant for (`Method.tasks`).

    Args:
        registry: The methods and tasks.
        methods: Ids and globs of methods; by default all that are registered.
        tasks: Names and globs of tasks; by default `default_tasks`.
        seeds: How many seeds a method with randomness has.

    Returns:
        The cells, and a sentence that names the methods that globs select and that do
        not run on some chosen task; empty if there are none.

    Raises:
        UsageError: No cell remains.
    """
    patterns = methods or ["*"]
    chosen_tasks = registry.select_tasks(tasks) if tasks else default_tasks(registry)
    cells: list[PlannedCell] = []
    skipped_methods = []
    for method in registry.select_methods(patterns):
        suited_tasks = chosen_tasks
        if method.id not in patterns:  # but a glob selects it
            suited_tasks = tasks_meant_for(method, chosen_tasks)
        cells += planned_cells([method], suited_tasks, seeds)
        if methods and len(suited_tasks) < len(chosen_tasks):
            skipped_methods.append(method.id)
    note = ""
    if skipped_methods:
        plural = "" if len(skipped_methods) == 1 else "s"
        note = (
            f"skipped {len(skipped_methods)} method{plural} on tasks that they are not registered "
            "for; name one by its id (-m ID) to run it: "
            f"{', '.join(skipped_methods[:METHODS_NAMED])}"
        )
    if not cells:
        reason = f"; {note}" if note else ""
        raise UsageError(f"nothing is left to run{reason}")
    return tuple(cells), note


def default_tasks(registry: Registry) -> tuple[Task, ...]:
    """Every task whose scored pairs are no training split, and that is not on request alone."""
    return tuple(
        task
        for task in registry.tasks.values()
        if task.scored != (task.train,) and not task.on_request
    )


def tasks_meant_for(method: Method, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks that the method names, and that it can be fitted on."""
    return tuple(
        task
        for task in tasks
        if _can_be_fitted(method, task) and matches(task.name, method.tasks)
    )


# Profiles

PROFILES = ("all", "embedded", "standard", "papers", "bert", "first")
EMBEDDED_ASSET = "embedded"  # comes with the harness
# The data that a first run downloads: small, public, and enough to compare a small model
# with published numbers.
FIRST_ASSETS = ("sts-raw", "sick-raw", "sts-senteval")
# What the first run measures in minutes, as methods with their tasks: each kind of
# post-processor that draws nothing on a generated task, the mean on the others, and the
# published numbers that small public files allow.
FIRST_CELLS = (
    (
        (
            "bert-mini.mean",
            "bert-mini.mean+sn@target",
            "bert-mini.mean+natsv:1@target",
            "bert-mini.mean+sn+natsv:1@target",
            "bert-mini.mean+whitening@target",
        ),
        ("mini-sts",),
    ),
    (
        ("bert-mini.mean",),
        (
            "mini-sts.dev",
            "mini-sick",
            "mini-sick.dev",
            "mini-qnli",
            "mini-lexical",
            "mini-kind",
            "mini-paraphrase",
        ),
    ),
    (
        ("glove-840b-sick-lower.mean", "glove-840b-sick-lower-sif.mean+natsv:1@target"),
        ("sick-r.senteval",),
    ),
    (
        (
            "glove-840b-sick-nltk.mean",
            "glove-840b-sick-nltk-sif.mean+natsv-pc:1@target",
        ),
        ("sick-r.all",),
    ),
    (("minilm.mean",), ("sts-b", "sts-b.dev", "sick-r.all", "sts1?.senteval")),
    (("bert-base:64.mean",), ("sts-b",)),
)


def profile(
    registry: Registry, name: str, papers: Path, seeds: int
) -> tuple[PlannedCell, ...]:
    """The cells of a profile.

    Args:
        registry: The methods and tasks.
        name: `first` is measured in minutes on a new machine. `embedded` reads only
            files that come with the harness. `standard` is every registered method on
            every default task, `papers` every published number whose method is known here,
            and `all` is both of these. `bert` is what of `papers` BERT-base gives in less
            than an hour: without fits on NLI, and without fits of flows with dropout.
        papers: The folder of the published tables.
        seeds: How many seeds a method with randomness has.
    """
    cells: list[PlannedCell] = []
    if name == "first":
        for methods, tasks in FIRST_CELLS:
            cells += select_cells(registry, methods, tasks, seeds)[0]
    if name in ("all", "embedded", "standard"):
        cells += select_cells(registry, None, None, seeds)[0]
    if name == "embedded":
        cells = [cell for cell in cells if _reads_embedded_files(cell, registry)]
    if name in ("all", "papers", "bert"):
        cells += _published_cells(registry, papers, seeds)
    if name == "bert":
        cells = [cell for cell in cells if _is_of_bert_in_an_hour(cell)]
    return tuple({cell.address: cell for cell in cells}.values())


def narrowed(
    cells: Sequence[PlannedCell],
    registry: Registry,
    methods: Sequence[str],
    tasks: Sequence[str],
) -> tuple[PlannedCell, ...]:
    """The cells of a profile that patterns of methods and of tasks select; none select all.

    Raises UsageError for a pattern that selects none of the cells.
    """
    for pattern in methods:
        if not any(matches(cell.method.id, [pattern]) for cell in cells):
            raise UsageError(
                f"-m {pattern!r} matches no method of the profile; leave --profile out to run it"
            )
    names = {task.name for task in registry.select_tasks(tasks)}
    kept = tuple(
        cell
        for cell in cells
        if not methods or matches(cell.method.id, methods)
        if not tasks or cell.task.name in names
    )
    if not kept:
        raise UsageError("the profile has no cell of these methods on these tasks")
    return kept


def _is_of_bert_in_an_hour(cell: PlannedCell) -> bool:
    """Whether a cell is of BERT-base, fitted on its task's sentences without dropout, if at all."""
    name = base_name(cell.method.encoder.name)
    return name == PAPERS_ENCODER and fits_without_pass(cell.method)


def _reads_embedded_files(cell: PlannedCell, registry: Registry) -> bool:
    """Whether a cell reads only files that come with the harness."""
    corpus = registry.corpora.get(cell.method.fit_on or "")
    assets = {cell.task.asset}
    if corpus is not None:
        assets.add(corpus.asset)
    return is_embedded(cell.method.encoder) and assets == {EMBEDDED_ASSET}


def is_embedded(encoder: EncoderConfig) -> bool:
    """Whether the encoder's files come with the harness, or are trained by the run itself."""
    source = encoder.source
    if isinstance(source, Trained):
        return source.on_the_spot
    return isinstance(source, Packaged) and source.package.startswith("harness/")


def quick_set(registry: Registry, committed: Path) -> tuple[PlannedCell, ...]:
    """The cells that `gate.toml` of the committed results names."""
    from harness.results.gate import read_rules

    cells = read_rules(committed).quick_cells
    if not cells:
        raise UsageError(
            f"{committed / GATE} names no quick set; name one, or give -m METHOD and -t TASK"
        )
    return tuple(
        PlannedCell(
            method=registry.parse(cell.method),
            task=look_up("task", cell.task, registry.tasks),
            seed=cell.seed,
        )
        for cell in cells
    )


def _published_cells(
    registry: Registry, papers: Path, seeds: int
) -> Iterator[PlannedCell]:
    """The cells of every published number whose method is known here."""
    from harness.results.published_tables import load_tables

    for table in load_tables(papers, registry):
        for number in table.numbers:
            if number.method is None:
                continue
            # A published average is of the cells of several tasks.
            tasks = [registry.tasks[name] for name in number.tasks]
            yield from planned_cells([registry.parse(number.method)], tasks, seeds)
