"""The commands that get what published numbers wait for, and the command that measures one."""

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
from harness.results.index import Results
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, composed
from harness.results.settings import ReportedNumber
from harness.results.verdict import CellState


def command_of(cell: PublishedCell, registry: Registry) -> str:
    """The command that measures a cell; the files of an encoder by hand are to be filled in."""
    words = ["harness run"]
    method = MethodId.parse(cell.method or "")
    encoder = base_name(method.encoder) if method else ""
    if encoder in registry.by_hand:
        words.append(f"--encoder {encoder}=PATH")
    words.append(f"-m '{cell.method}'")
    if cell.task:
        words.append(f"-t {cell.task}")
    return " ".join(words)


def search_of(number: ReportedNumber, registry: Registry, places: Places) -> str:
    """The command that searches for a reader's number; empty where weights or data are not here."""
    cell = number.cell
    method = composed(cell.method, registry)
    task = registry.tasks.get(cell.task or "")
    if method is None or task is None or cell.metric not in CORRELATION_SCORES:
        return ""
    if not (places.has_encoder(method.encoder) and places.has_data(task.asset)):
        return ""
    metric = "" if cell.metric == "spearman" else f" --metric {cell.metric}"
    return f"harness search {method.id} -t {task.name} --target {number.points:.2f}{metric}"


def recorded(results: Results, registry: Registry) -> frozenset[str]:
    """The encoders, without a maximum length, and the assets that records were made from."""
    encoders = {
        method.partition(".")[0].partition(":")[0] for method in results.methods
    }
    tasks = [registry.tasks[name] for name in results.by_task if name in registry.tasks]
    return frozenset({*encoders, *(task.asset for task in tasks)})


def waiting_for(
    cells: Iterable[Reproduction], registry: Registry, present: Collection[str]
) -> Mapping[tuple[str, ...], int]:
    """Commands that together get what published numbers wait for, and how many do, most first.

    They are the numbers that a method and task here reproduce and that were not
    measured.
    """
    not_run = (cell.cell for cell in cells if cell.state is CellState.NOT_RUN)
    waiting = Counter(missing(cell, registry, present) for cell in not_run)
    return {
        commands: numbers for commands, numbers in waiting.most_common() if commands
    }


def missing(
    cell: PublishedCell, registry: Registry, present: Collection[str]
) -> tuple[str, ...]:
    """The commands that get what a published number needs.

    Args:
        cell: The published number.
        registry: Methods and tasks by name.
        present: The names of encoders and assets that need not be got.
    """
    return tuple(sorted(_sizes_of_missing(cell, registry, present)))


def _sizes_of_missing(
    cell: PublishedCell, registry: Registry, present: Collection[str]
) -> Mapping[str, int | None]:
    """The commands that get what a published number needs, with the bytes, where they are known."""
    asset_names = [
        registry.tasks[task].asset for task in cell.tasks if task in registry.tasks
    ]
    assets: list[Asset] = []
    sizes: dict[str, int | None] = {}
    method = composed(cell.method, registry)
    if method is not None:
        corpus = registry.corpora.get(method.fit_on or "")
        if corpus is not None:
            asset_names.append(corpus.asset)
        if method.encoder.name.partition(":")[0] not in present:
            assets += assets_of(method.encoder)
            size = getattr(method.encoder.source, "download_size", None)
            sizes |= dict.fromkeys(_commands_for(method.encoder), size)
    for name in asset_names:
        asset = asset_named(name)
        if name not in present and not asset.embedded:
            assets.append(asset)
    return sizes | {asset.get: asset.to_get for asset in assets}


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """Commands that make published numbers measurable.

    Attributes:
        commands: The commands.
        bytes: What they download.
        cells: The published numbers that need nothing else.
    """

    commands: tuple[str, ...]
    bytes: int
    cells: Sequence[PublishedCell]


def best_next_step(
    cells: Iterable[Reproduction], registry: Registry, present: Collection[str]
) -> NextStep | None:
    """The downloads that make most numbers measurable for each byte; None where none are needed.

    Trainings and files that are got by hand or have no known size are no downloads.
    """
    sizes: dict[str, int | None] = {}
    needs: dict[tuple[str, ...], list[PublishedCell]] = {}
    for reproduction in cells:
        cell = reproduction.cell
        encoder = base_name(str(cell.method).partition(".")[0])
        if reproduction.state is CellState.NOT_RUN and encoder not in registry.by_hand:
            needed = _sizes_of_missing(cell, registry, present)
            sizes |= needed
            needs.setdefault(tuple(sorted(needed)), []).append(cell)
    steps = []
    for commands in needs:
        known = [
            sizes[command] or 0
            for command in commands
            if command.startswith("harness fetch ")
        ]
        if commands and len(known) == len(commands) and all(known):
            got = [
                cell
                for others, own in needs.items()
                if others and {*others} <= {*commands}
                for cell in own
            ]
            steps.append(NextStep(commands=commands, bytes=sum(known), cells=got))
    return max(steps, key=lambda step: len(step.cells) / step.bytes, default=None)


def _commands_for(encoder: EncoderConfig) -> set[str]:
    """The command that gets the weights of an encoder; none where assets are all of it."""
    source = encoder.source
    if isinstance(source, Trained):
        return {f"harness train family {source.family}"}
    if isinstance(source, Hub):
        return {f"harness fetch {source.asset or encoder.name.partition(':')[0]}"}
    return set()
