"""`harness check`: a run against the committed results, and which part moved what moved.

Three questions, kept apart: did it run at all, does the encoder still encode as it did (golden
vectors), and does the rest still make the same numbers of it (records). Loads no model, writes
nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.provenance import code_digest
from harness.core.types import Pairs, Record
from harness.gate import failures, golden_vectors, pair_drift
from harness.gate.drift import Move, compare
from harness.gate.tolerances import FILE, Rules, read_rules
from harness.registry import is_glob, load_registry
from harness.results.index import Results
from harness.results.records import Cell, Store, cell_of
from harness.tasks.loader import TaskLoader


class State(StrEnum):
    """The outcome of a check of a cell or an encoder."""

    AGREES = "agrees"
    OTHER_INPUT = "other input"
    ENCODER = "encoder moved"
    SCORER = "scorer moved"
    UNTOLD = "moved"  # nobody can say which, for lack of golden vectors
    NO_BASELINE = "no baseline"
    COULD_NOT_RUN = "could not run"

    @property
    def exit_status(self) -> int:
        """0 fine, 1 moved or without a baseline, 3 could not run."""
        return {State.AGREES: 0, State.COULD_NOT_RUN: 3}.get(self, 1)


@dataclass(frozen=True)
class Found:
    """The check of one cell, or of one encoder's golden vectors.

    `distance` and `tolerance` are in points, of a coordinate for an encoder; None where there is
    nothing to compare. `notable` agreement has a tolerance of its own; `pairs` moved most in rank.
    """

    name: str
    state: State
    why: str
    distance: float | None = None
    tolerance: float | None = None
    notable: bool = False
    pairs: tuple[pair_drift.PairMove, ...] = ()


@dataclass(frozen=True)
class Report:
    """The answer. Its exit status is 1 if anything moved or has no baseline, else 3 or 0.

    `other_code` counts the measured cells that other sources than these have made.
    """

    encoders: tuple[Found, ...]
    cells: tuple[Found, ...]
    other_code: int = 0

    @property
    def exit_status(self) -> int:
        statuses = (found.state.exit_status for found in (*self.encoders, *self.cells))
        return min(filter(None, statuses), default=0)


def check(
    runs: Path, committed: Path, cells: Sequence[Cell], data_dir: Path | None = None
) -> Report:
    """Compare cells in `runs` with the committed ones, and their encoders' golden vectors.

    Pairs that moved are told with their sentences where these are carried, or in the data folder.
    """
    why = failures.read(runs)
    ran = {cell_of(record): record for record in Store(runs).records()}
    records = {cell: ran[cell] for cell in cells if cell in ran and str(cell) not in why}
    base = Results.read(Store(committed))
    rules = read_rules(committed)
    _require_committed(rules, base, committed)
    moves = {m.cell: m for m in compare(records.values(), base, rules)}
    names = dict.fromkeys(cell.encoder for cell in cells)
    encoders = {name: _encoder(name, runs, committed, why) for name in names}
    loader = TaskLoader(Places(cache=Path(), data_dir=data_dir), {})
    found = []
    for cell in cells:
        move = moves.get(cell)
        if move is None:
            found.append(_unmeasured(cell, base, why.get(str(cell), f"{runs} holds no record")))
            continue
        similarities = Store(runs).cosines(cell)  # DataError where they were changed
        near = _pairs(records[cell], similarities, committed, loader) if move.moved else ()
        found.append(_measured(move, encoders[cell.encoder], near))
    other = sum(record.digests.get("code") != code_digest() for record in records.values())
    return Report(tuple(filter(None, encoders.values())), tuple(found), other)


def _require_committed(rules: Rules, base: Results, committed: Path) -> None:
    """Refuse an override of a cell that has no committed record: a misspelt one loosens nothing."""
    for method, task in rules.by_cell:
        if not base.records(method, task):
            raise DataError(
                f"{committed / FILE}: wanted overrides of committed cells, found one of {method} "
                f"on {task}, which has no record; correct it, or remove it"
            )


def wanted(
    runs: Path, committed: Path, methods: Sequence[str] = (), tasks: Sequence[str] = ()
) -> tuple[Cell, ...]:
    """The quick set and whatever `runs` holds, or what patterns select of it.

    A method and a task given by their ids are wanted even where there is no record of them.
    """
    pool = dict.fromkeys(read_rules(committed).quick_cells)
    pool |= dict.fromkeys(map(cell_of, Store(runs).records()))
    if not methods and not tasks and pool:
        return tuple(pool)
    chosen = [
        cell for cell in pool if _matches(cell.method, methods) and _matches(cell.task, tasks)
    ]
    named = {(cell.method, cell.task) for cell in chosen}
    ids = [(m, t) for m in methods for t in tasks if not is_glob(m) and not is_glob(t)]
    chosen += [Cell(*address) for address in ids if address not in named]
    if not chosen:
        raise UsageError(
            f"nothing to check: {runs} holds no record of it and {committed / FILE} names none; "
            "harness run --quick measures"
        )
    return tuple(chosen)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _encoder(name: str, runs: Path, committed: Path, why: Mapping[str, str]) -> Found | None:
    """The check of an encoder's golden vectors; None where there are none on either side."""
    old, new = golden_vectors.read(committed, name), golden_vectors.read(runs, name)
    reason = why.get(golden_vectors.what(name), "")
    if old is None and new is None and not reason:
        return None
    if old is None:
        return Found(
            name, State.NO_BASELINE, f"{golden_vectors.path_of(committed, name)} is missing"
        )
    if new is None:
        missing = f"{golden_vectors.path_of(runs, name)} is missing; harness run --quick writes it"
        return Found(name, State.COULD_NOT_RUN, reason or missing)
    if old.sentences != new.sentences:
        stale = f"{golden_vectors.path_of(committed, name)} is of other golden sentences"
        return Found(name, State.NO_BASELINE, stale)
    drift = golden_vectors.drift(old, new)
    state = State.ENCODER if drift.moved else State.AGREES
    return Found(name, state, str(drift), drift.largest, drift.tolerance)


def _unmeasured(cell: Cell, committed: Results, why: str) -> Found:
    """No run; the worse news where there is no baseline either."""
    if committed.records(cell.method, cell.task):
        return Found(str(cell), State.COULD_NOT_RUN, why)
    return Found(str(cell), State.NO_BASELINE, f"there is no committed record; {why}")


def _measured(move: Move, encoder: Found | None, moved: tuple[pair_drift.PairMove, ...]) -> Found:
    """The check of a cell that ran."""
    points = move.points if move.points is not None and math.isfinite(move.points) else None
    state, notable = _state(move, encoder), bool(move.note)
    return Found(str(move.cell), state, move.why, points, move.tolerance, notable, moved)


def _state(move: Move, encoder: Found | None) -> State:
    """Which part moved a cell, if it moved: its input, else the encoder, else what comes after."""
    if move.reason:
        return State.OTHER_INPUT
    if not move.moved:
        return State.NO_BASELINE if move.points is None else State.AGREES
    told = {State.ENCODER: State.ENCODER, State.AGREES: State.SCORER}
    return State.UNTOLD if encoder is None else told.get(encoder.state, State.UNTOLD)


def _pairs(
    record: Record, new: Float[np.ndarray, " P"] | None, committed: Path, loader: TaskLoader
) -> tuple[pair_drift.PairMove, ...]:
    """The pairs whose rank moved most, where similarities of the same pairs are committed."""
    old = pair_drift.read(committed, cell_of(record))
    if old is None or new is None or len(old) != len(new):
        return ()
    moved, texts = pair_drift.most_moved(old, new), _texts(record, loader)
    if texts is None:
        return moved
    return tuple(replace(m, texts=(texts.a[m.pair - 1], texts.b[m.pair - 1])) for m in moved)


def _texts(record: Record, loader: TaskLoader) -> Pairs | None:
    """The sentences, if they are at hand and the very ones that were scored."""
    task = load_registry().tasks.get(record.task)
    if task is None:
        return None
    try:
        inputs = loader.inputs(task)
    except HarnessError:
        return None
    return inputs.pairs if inputs.digests["data"] == record.digests.get("data") else None


def render(report: Report, runs: Path, committed: Path) -> str:
    """For people: what needs a look, then one line that counts everything."""
    lines = []
    for found in (*report.encoders, *report.cells):
        if found.state is State.AGREES and not found.notable:
            continue
        lines += told(found)
    lines.append(f"{runs} against {committed}: {_counts(report)}")
    if report.other_code:
        lines.append(
            f"{report.other_code} of the measured cells were made by other code than this; "
            "harness run --quick measures again"
        )
    return "\n".join(lines)


def told(found: Found) -> list[str]:
    """The lines of one cell or encoder: its state and why, then the pairs that moved most."""
    return [
        f"{found.state}: {found.name}: {found.why}",
        *(f"    {pair}" for pair in found.pairs),
    ]


def _counts(report: Report) -> str:
    """How many encoders and cells have which state: `agrees: 2 encoders, 5 cells`."""
    counts: dict[State, list[str]] = {}
    for what, found in (("encoder", report.encoders), ("cell", report.cells)):
        for state, number in Counter(one.state for one in found).items():
            counts.setdefault(state, []).append(f"{number} {what}{'s' * (number > 1)}")
    return "; ".join(f"{state}: {', '.join(numbers)}" for state, numbers in counts.items())
