"""What to get next: the missing files by the published numbers that they let be measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.assets.catalogue import Asset
from harness.assets.places import asset_named, companion_of, vectors_of
from harness.core.interfaces import EncoderConfig, Hub, Trained
from harness.registry import Registry
from harness.results.index import Results
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, method_of
from harness.results.verdict import CellState

SMALL = 10_000_000  # bytes: a smaller download is no worse than this


@runtime_checkable
class Files(Protocol):
    """Knows which files are there; `harness.assets.places.Places` does for this machine."""

    def has_encoder(self, config: EncoderConfig) -> bool:
        """Whether the files of an encoder are there."""

    def has_data(self, asset: str) -> bool:
        """Whether an asset is there."""


@dataclass(frozen=True)
class Recorded:
    """The files that records were made from."""

    results: Results
    registry: Registry

    def has_encoder(self, config: EncoderConfig) -> bool:
        """Whether a method of the encoder has a record."""
        base = config.name.partition(":")[0]
        return any(m.partition(".")[0].partition(":")[0] == base for m in self.results.methods)

    def has_data(self, asset: str) -> bool:
        """Whether a task that reads the asset has a record."""
        tasks = self.registry.tasks
        read = {tasks[name].asset for name in self.results.by_task if name in tasks}
        return asset in read or asset_named(asset).embedded


@dataclass(frozen=True)
class NextStep:
    """Commands that get what is missing together, their bytes where known, and what that gives.

    `cells` are the published numbers that can then be measured.
    """

    get: tuple[str, ...]
    bytes: int | None
    cells: tuple[PublishedCell, ...]

    @property
    def numbers(self) -> int:
        """How many published numbers it gains."""
        return len(self.cells)


Needs = Mapping[str, int | None]  # the bytes that each command gets


def next_steps(
    cells: Iterable[Reproduction], registry: Registry, files: Files
) -> Iterator[NextStep]:
    """What to get, the most numbers for its bytes first; a later step counts on those before it.

    A published number counts that a method and task here reproduce and that is not measured yet.
    What is trained, or of unknown size, comes last.
    """
    left: list[tuple[Needs, PublishedCell]] = []
    for one in cells:
        if one.state is CellState.NOT_RUN and (needs := missing(one.cell, registry, files)):
            left.append((needs, one.cell))
    here: set[str] = set()
    sizes_of = _sizes(needs for needs, _ in left)
    while left:
        groups = Counter(frozenset(needs) - here for needs, _ in left)
        best = max(groups, key=lambda step: _worth(step, here, left, sizes_of))
        gained = [(needs, cell) for needs, cell in left if set(needs) <= best | here]
        left = [(needs, cell) for needs, cell in left if not set(needs) <= best | here]
        here |= best
        yield NextStep(
            tuple(sorted(best)),
            _bytes(best, sizes_of),
            tuple(cell for _, cell in gained),
        )


def _worth(
    step: frozenset[str], here: set[str], left: Iterable[tuple[Needs, PublishedCell]], sizes: Needs
) -> tuple[float, int, list[str]]:
    """By what steps are ordered: numbers for their bytes, then numbers alone, then names."""
    numbers = sum(set(needs) <= step | here for needs, _ in left)
    size = _bytes(step, sizes)
    return 0.0 if size is None else numbers / (size + SMALL), numbers, sorted(step)


def _sizes(every: Iterable[Needs]) -> Needs:
    """The bytes that each command gets, of all the files that some number needs of it."""
    sizes: dict[str, int | None] = {}
    for needs in every:
        for get, size in needs.items():
            known = sizes.get(get, 0)
            sizes[get] = None if size is None or known is None else max(size, known)
    return sizes


def _bytes(step: Iterable[str], sizes: Needs) -> int | None:
    """The bytes that all the commands get; None where one of them is not known."""
    known = [sizes[get] for get in step]
    return None if None in known else sum(size or 0 for size in known)


def missing(cell: PublishedCell, registry: Registry, files: Files) -> Needs:
    """The commands that get what a published number needs and what is not there."""
    method, needs = method_of(cell, registry), dict[str, int | None]()
    assets = [registry.tasks[task].asset for task in cell.tasks if task in registry.tasks]
    if method is not None:
        if (corpus := registry.corpora.get(method.fit_on or "")) is not None:
            assets.append(corpus.asset)
        if not files.has_encoder(method.encoder):
            needs |= _encoder(method.encoder)
    for name in dict.fromkeys(assets):
        if not files.has_data(name):
            needs |= _asset(asset_named(name), needs)
    return needs


def _encoder(config: EncoderConfig) -> Needs:
    """The commands that get an encoder's files."""
    source = config.source
    if isinstance(source, Trained):
        return {f"harness train family {source.family}": None}
    found: Needs = {}
    for asset in filter(None, (vectors_of(config), companion_of(config))):
        found = {**found, **_asset(asset, found)}
    if isinstance(source, Hub):
        return {f"harness fetch {source.asset or config.name.partition(':')[0]}": source.about}
    return found


def _asset(asset: Asset, known: Needs) -> Needs:
    """The command that gets an asset, with the bytes of those that it gets as well."""
    before = known.get(asset.get, 0)
    size = asset.to_get
    return {asset.get: None if before is None or size is None else before + size}
