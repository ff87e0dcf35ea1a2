"""Why a published number is not reproduced, and what would let more of them be measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.assets.catalogue import Asset
from harness.assets.places import asset_named, assets_of
from harness.core.errors import UsageError
from harness.core.hardware import base_name
from harness.core.interfaces import Hub, Trained
from harness.registry import Registry
from harness.results import choices as of
from harness.results.choices import OtherChoice, Scores
from harness.results.conformance import Confirmations, Reference, confirmed_by
from harness.results.index import Results
from harness.results.protocols import Protocol, protocols_of
from harness.results.published import PublishedCell
from harness.results.questions import Trap
from harness.results.reproduction import Reproduction, composed, reproduce
from harness.results.verdict import CellState


@dataclass(frozen=True)
class Explanation:
    """A published cell, its reproduction, and what every other choice of its protocol does.

    `confirmed_by` is the program whose scores ours equal under the protocol, `nearest` are
    the measured rows nearest to it, and `command` measures the cell. With a `gap` to another number
    the choices are those that move a score by about so much, and `pairs` do so together.
    """

    reproduction: Reproduction
    wanted: Protocol | None
    confirmed_by: Reference | None
    command: str
    nearest: Scores = field(default_factory=dict)
    choices: Sequence[OtherChoice] = ()
    pairs: Sequence[OtherChoice] = ()
    gap: float | None = None


def explain(
    cell: PublishedCell,
    results: Results,
    registry: Registry,
    confirmations: Confirmations,
    traps: Sequence[Trap] = (),
    mine: float | None = None,
) -> Explanation:
    """Look around one published cell; `confirmations` are of protocols.

    Raises UsageError where `mine` is no score, or the cell has no choices to rank.
    """
    wanted = wanted_protocol(cell, registry)
    explanation = Explanation(
        reproduce(cell, results, registry),
        wanted,
        confirmed_by(cell, confirmations, results, registry),
        command_of(cell, registry),
    )
    gap = None if mine is None else gap_of(cell, mine)
    if wanted is None:
        return explanation
    measured = of.measured_scores(results, registry, wanted)
    choices = of.single_choices(wanted, measured, registry, traps)
    pairs: Sequence[OtherChoice] = ()
    if gap is not None:
        pairs = of.near(gap, of.pairs_of_choices(wanted, choices, measured, registry))
        choices = of.near(gap, choices)
    nearest = of.nearest_rows(wanted, measured)
    return replace(explanation, nearest=nearest, choices=choices, pairs=pairs, gap=gap)


def gap_of(cell: PublishedCell, mine: float) -> float:
    """By how many points a number lies above a published one.

    Raises UsageError for what no score of the metric can be, and a cell without choices to rank.
    """
    lowest = 0 if cell.metric in ("accuracy", "auc") else -100
    if not lowest <= mine <= 100:
        raise UsageError(f"--mine {mine:g}: wanted a score x100, from {lowest} to 100")
    if cell.points is None or cell.why_not or not cell.task:
        raise UsageError(f"--mine: {cell.id} is not a score of one task with a method here")
    return mine - cell.points


def wanted_protocol(cell: PublishedCell, registry: Registry) -> Protocol | None:
    """The protocol of a published cell of one task; None of others."""
    return next(iter(protocols_of(cell, registry)), None) if cell.task else None


def command_of(cell: PublishedCell, registry: Registry) -> str:
    """The command that measures a cell; of an encoder by hand its files are to be filled in."""
    encoder = base_name(str(cell.method).partition(".")[0])
    files = f" --encoder {encoder}=PATH" if encoder in registry.by_hand else ""
    return f"harness run{files} -m '{cell.method}'" + f" -t {cell.task}" * bool(cell.task)


def recorded(results: Results, registry: Registry) -> frozenset[str]:
    """The encoders, without a maximum length, and the assets that records were made from."""
    encoders = {method.partition(".")[0].partition(":")[0] for method in results.methods}
    tasks = [registry.tasks[name] for name in results.by_task if name in registry.tasks]
    return frozenset({*encoders, *(task.asset for task in tasks)})


def waiting_for(
    cells: Iterable[Reproduction], registry: Registry, here: Collection[str]
) -> Mapping[tuple[str, ...], int]:
    """Commands that together get what published numbers wait for, and how many do, most first.

    They are the numbers that a method and task here reproduce and that were not measured.
    """
    not_run = (cell.cell for cell in cells if cell.state is CellState.NOT_RUN)
    waiting = Counter(missing(cell, registry, here) for cell in not_run)
    return {commands: numbers for commands, numbers in waiting.most_common() if commands}


def missing(cell: PublishedCell, registry: Registry, here: Collection[str]) -> tuple[str, ...]:
    """The commands that get what a published number needs and what is not there."""
    method, needs = composed(cell.method, registry), set[str]()
    names = [registry.tasks[task].asset for task in cell.tasks if task in registry.tasks]
    assets: list[Asset] = []
    if method is not None:
        corpus, encoder = registry.corpora.get(method.fit_on or ""), method.encoder
        names += [corpus.asset] if corpus is not None else []
        if encoder.name.partition(":")[0] not in here:
            assets = [*assets_of(encoder)]
            if isinstance(source := encoder.source, Trained):
                needs.add(f"harness train family {source.family}")
            elif isinstance(source, Hub):
                needs.add(f"harness fetch {source.asset or encoder.name.partition(':')[0]}")
    wanted = [asset_named(name) for name in names if name not in here]
    assets += [asset for asset in wanted if not asset.embedded]
    return tuple(sorted(needs | {asset.get for asset in assets}))
