"""Commands that make published numbers measurable: downloads, trainings, runs and searches.

A published number waits for the weights of its encoder, the data of its tasks and its fit
corpus. One command gets each of them. `waiting_numbers` groups all numbers by these
commands, and `best_downloads` chooses what to download first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from harness.conclusions.numbers import ReportedNumber
from harness.core.hardware import base_name
from harness.core.interfaces import Hub, Trained
from harness.core.metrics.correlation import CORRELATION_SCORES
from harness.data.places import Places, asset_named, assets_of
from harness.registry import Registry
from harness.results.index import Results, encoder_of_method
from harness.results.published import PublishedNumber
from harness.results.reproduction import Reproduction, compose_method
from harness.results.verdict import CellState

Commands = tuple[str, ...]  # in alphabetical order

DOWNLOAD = "harness fetch "  # the beginning of a command that downloads


# A command that measures


def command_to_search(
    numbers: Sequence[ReportedNumber], registry: Registry, places: Places
) -> str:
    """The command that searches for a reader's numbers, all columns of them at once.

    Columns whose data are not here are left out. It is empty where none is left, or where
    the weights are not here.
    """
    method = compose_method(numbers[0].published.method, registry)
    if method is None or not places.has_encoder(method.encoder):
        return ""
    here = []
    for number in numbers:
        task = registry.tasks.get(number.published.task or "")
        is_correlation = number.published.metric in CORRELATION_SCORES
        if task is not None and is_correlation and places.has_data(task.asset):
            here.append(number)
    if not here:
        return ""
    place, mine = here[0].published.id, f"{here[0].points:.2f}"
    if len(here) > 1:
        place = here[0].published.row_id
        columns = [f"{each.published.column.id}={each.points:.2f}" for each in here]
        mine = ",".join(columns)
    return f"harness explain {place} --model {method.id} --mine {mine}"


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
) -> Mapping[Commands, Sequence[PublishedNumber]]:
    """The published numbers that wait for each set of commands, the most numbers first.

    They are the numbers that a method and task here reproduce and that were not
    measured. The other arguments are as in `needs_of`.
    """
    waiting: dict[Commands, list[PublishedNumber]] = {}
    for reproduction in reproductions:
        if reproduction.state is CellState.NOT_RUN:
            commands = tuple(sorted(needs_of(reproduction.number, registry, present)))
            if commands:
                waiting.setdefault(commands, []).append(reproduction.number)
    return dict(sorted(waiting.items(), key=lambda item: -len(item[1])))


def needs_of(
    number: PublishedNumber, registry: Registry, present: Collection[str]
) -> dict[str, int | None]:
    """The commands that get what a number needs, with the bytes of each; None where unknown.

    Args:
        number: The published number.
        registry: Methods and tasks by name.
        present: The names of encoders and assets that are there already.
    """
    needs: dict[str, int | None] = {}
    names = [
        registry.tasks[task].asset for task in number.tasks if task in registry.tasks
    ]
    method = compose_method(number.method, registry)
    if method is not None:
        corpus = registry.corpora.get(method.fit_on or "")
        if corpus is not None:
            names.append(corpus.asset)
        encoder = method.encoder
        if base_name(encoder.name) not in present:
            source = encoder.source
            if isinstance(source, Trained):
                needs[f"harness train family {source.family}"] = None
            elif isinstance(source, Hub):
                folder = source.asset or base_name(encoder.name)
                needs[f"{DOWNLOAD}{folder}"] = source.download_size
            for part in assets_of(encoder):
                needs[part.get] = part.download_size
    for name in names:
        part = asset_named(name)
        if name not in present and not part.embedded:
            needs[part.get] = part.download_size
    return needs


def best_downloads(
    reproductions: Iterable[Reproduction], registry: Registry, present: Collection[str]
) -> tuple[Commands, int, Sequence[PublishedNumber]] | None:
    """The downloads that make most numbers measurable for each byte; None where none are needed.

    Trainings, and files that are got by hand or have no known size, are no downloads.
    The arguments are as in `waiting_numbers`.

    Returns:
        The commands, the bytes that they download, and the published numbers that need
        nothing else.
    """
    of_registered_encoders = [
        reproduction
        for reproduction in reproductions
        if base_name(encoder_of_method(reproduction.number.method or ""))
        not in registry.by_hand
    ]
    waiting = waiting_numbers(of_registered_encoders, registry, present)
    downloads = []
    for commands, of_commands in waiting.items():
        sizes = needs_of(of_commands[0], registry, present).values()
        are_downloads = all(command.startswith(DOWNLOAD) for command in commands)
        if not are_downloads or not all(sizes):
            continue
        measurable: list[PublishedNumber] = []
        for needed, also_waiting in waiting.items():
            if set(needed) <= set(commands):
                measurable += also_waiting
        size = sum(size for size in sizes if size is not None)
        downloads.append((commands, size, measurable))
    return max(downloads, key=lambda each: len(each[2]) / each[1], default=None)
