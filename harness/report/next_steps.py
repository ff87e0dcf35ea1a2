"""Commands that make published numbers measurable: downloads, trainings, runs and searches.

A published number waits for the weights of its encoder, the data of its tasks and its fit
corpus. One command gets each of them. `commands_for_cell` lists these commands for one
number, `waiting_numbers` groups all numbers by them, and `best_next_step` chooses what to
download first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.assets.catalogue import Asset
from harness.assets.places import Places, asset_named, assets_of
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Hub, Trained
from harness.core.metrics.similarity import CORRELATION_SCORES
from harness.core.types import MethodId
from harness.registry import Registry
from harness.results.index import Results, encoder_of_method
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, compose_method
from harness.results.settings import ReportedNumber
from harness.results.verdict import CellState

Commands = tuple[str, ...]  # in alphabetical order

DOWNLOAD = "harness fetch "  # the beginning of a command that downloads


# A command that measures


def command_to_measure(cell: PublishedCell, registry: Registry) -> str:
    """The command that measures a cell; PATH is written for the files of an encoder by hand."""
    words = ["harness run"]
    method = MethodId.parse(cell.method or "")
    encoder = base_name(method.encoder) if method else ""
    if encoder in registry.by_hand:
        words.append(f"--encoder {encoder}=PATH")
    words.append(f"-m '{cell.method}'")
    if cell.task:
        words.append(f"-t {cell.task}")
    return " ".join(words)


def command_to_search(
    number: ReportedNumber, registry: Registry, places: Places
) -> str:
    """The command that searches for a reader's number; empty where weights or data are missing."""
    cell = number.cell
    method = compose_method(cell.method, registry)
    task = registry.tasks.get(cell.task or "")
    if method is None or task is None or cell.metric not in CORRELATION_SCORES:
        return ""
    if not (places.has_encoder(method.encoder) and places.has_data(task.asset)):
        return ""
    command = f"harness explain {task.name} --model {method.id}"
    command += f" --mine {number.points:.2f}"
    return command if cell.metric == "spearman" else f"{command} --metric {cell.metric}"


# What numbers wait for


def sources_of_records(results: Results, registry: Registry) -> frozenset[str]:
    """The encoders, without a maximum length, and the assets that records were made from."""
    encoders = {base_name(encoder_of_method(method)) for method in results.methods}
    assets = {
        registry.tasks[name].asset for name in results.by_task if name in registry.tasks
    }
    return frozenset(encoders | assets)


def waiting_numbers(
    reproductions: Iterable[Reproduction], registry: Registry, present: Collection[str]
) -> Mapping[Commands, int]:
    """How many published numbers wait for each set of commands, the most first.

    They are the numbers that a method and task here reproduce and that were not
    measured. The arguments are as in `commands_for_cell`.
    """
    waiting: Counter[Commands] = Counter()
    for reproduction in reproductions:
        if reproduction.state is CellState.NOT_RUN:
            commands = commands_for_cell(reproduction.cell, registry, present)
            if commands:
                waiting[commands] += 1
    return dict(waiting.most_common())


def commands_for_cell(
    cell: PublishedCell, registry: Registry, present: Collection[str]
) -> Commands:
    """The commands that get what a published number needs.

    Args:
        cell: The published number.
        registry: Methods and tasks by name.
        present: The names of encoders and assets that are there already.
    """
    return tuple(sorted(_download_sizes(cell, registry, present)))


def _download_sizes(
    cell: PublishedCell, registry: Registry, present: Collection[str]
) -> Mapping[str, int | None]:
    """The commands that get what a number needs, with the bytes of each; None where unknown."""
    asset_names = [
        registry.tasks[task].asset for task in cell.tasks if task in registry.tasks
    ]
    assets: list[Asset] = []
    sizes: dict[str, int | None] = {}
    method = compose_method(cell.method, registry)
    if method is not None:
        corpus = registry.corpora.get(method.fit_on or "")
        if corpus is not None:
            asset_names.append(corpus.asset)
        if base_name(method.encoder.name) not in present:
            assets += assets_of(method.encoder)
            command = _weights_command(method.encoder)
            if command:
                source = method.encoder.source
                sizes[command] = getattr(source, "download_size", None)
    for name in asset_names:
        asset = asset_named(name)
        if name not in present and not asset.embedded:
            assets.append(asset)
    for asset in assets:
        sizes[asset.get] = asset.download_size
    return sizes


def _weights_command(encoder: EncoderConfig) -> str:
    """The command that gets the weights of an encoder; empty where assets hold all of them."""
    source = encoder.source
    if isinstance(source, Trained):
        return f"harness train family {source.family}"
    if isinstance(source, Hub):
        return f"{DOWNLOAD}{source.asset or base_name(encoder.name)}"
    return ""


# The best download


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """Commands that make published numbers measurable.

    Attributes:
        commands: The commands.
        bytes: The size of what they download.
        cells: The published numbers that need nothing else.
    """

    commands: Commands
    bytes: int
    cells: Sequence[PublishedCell]


def best_next_step(
    reproductions: Iterable[Reproduction], registry: Registry, present: Collection[str]
) -> NextStep | None:
    """The downloads that make most numbers measurable for each byte; None where none are needed.

    Trainings, and files that are got by hand or have no known size, are no downloads.
    The arguments are as in `commands_for_cell`.
    """
    sizes: dict[str, int | None] = {}
    cells_by_commands: dict[Commands, list[PublishedCell]] = {}
    for reproduction in reproductions:
        cell = reproduction.cell
        encoder = base_name(encoder_of_method(str(cell.method)))
        if reproduction.state is CellState.NOT_RUN and encoder not in registry.by_hand:
            cell_sizes = _download_sizes(cell, registry, present)
            sizes.update(cell_sizes)
            commands = tuple(sorted(cell_sizes))
            cells_by_commands.setdefault(commands, []).append(cell)
    steps = []
    for commands in cells_by_commands:
        size = _total_size(commands, sizes)
        if commands and size is not None:
            cells = _cells_of_commands(commands, cells_by_commands)
            steps.append(NextStep(commands=commands, bytes=size, cells=cells))
    return max(steps, key=lambda step: len(step.cells) / step.bytes, default=None)


def _total_size(commands: Commands, sizes: Mapping[str, int | None]) -> int | None:
    """The bytes that commands download; None if one is no download or its size is unknown."""
    total = 0
    for command in commands:
        size = sizes[command]
        if not command.startswith(DOWNLOAD) or not size:
            return None
        total += size
    return total


def _cells_of_commands(
    commands: Commands, cells_by_commands: Mapping[Commands, Sequence[PublishedCell]]
) -> list[PublishedCell]:
    """The cells that these commands, or some of them, make measurable."""
    cells: list[PublishedCell] = []
    for needed, waiting_cells in cells_by_commands.items():
        if needed and set(needed) <= set(commands):
            cells += waiting_cells
    return cells
