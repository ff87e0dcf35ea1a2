"""`harness check`: a run against the committed results, and which part moved what moved.

Three questions, kept apart: did it run at all, does the encoder still encode as it did (golden
vectors), and does the rest still make the same numbers of it (records). Loads no model, writes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
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
from harness.gate.golden_vectors import subject
from harness.gate.margins import NO_MARGINS, Margins
from harness.gate.tolerances import FILE, Rules, read_rules
from harness.registry import is_glob, known, load_registry
from harness.results.index import Results
from harness.results.records import Cell, Store, cell_of, sidecar_metadata
from harness.tasks.loader import TaskLoader

AGAIN = "harness run --quick measures again"
PROMOTE = "harness run --quick --update makes it"
TEXTS = frozenset(("data", "labels", "fit"))  # inputs without which scores cannot be compared


class State(StrEnum):
    """The outcome of a check of a cell or an encoder."""

    AGREES = "agrees"
    OTHER_INPUT = "other input"
    FELL = "fell"  # further than its margin
    ENCODER = "encoder moved"
    SCORER = "scorer moved"
    UNTOLD = "moved"  # nobody can say which, for lack of golden vectors
    NO_BASELINE = "no baseline"
    COULD_NOT_RUN = "could not run"

    @property
    def exit_status(self) -> int:
        """0 fine, 1 moved, 3 could not run or nothing to compare with."""
        return {State.AGREES: 0, State.COULD_NOT_RUN: 3, State.NO_BASELINE: 3}.get(self, 1)


@dataclass(frozen=True)
class Found:
    """The check of one cell, or of one encoder's golden vectors.

    `distance` and `tolerance` are in points, of a coordinate for an encoder; None where there is
    nothing to compare. `notable` agreement has a tolerance of its own; `pairs` moved most in rank;
    `before` and `after` are a cell's main scores. `counts` is false of what is told and no failure.
    """

    name: str
    state: State
    why: str
    distance: float | None = None
    tolerance: float | None = None
    notable: bool = False
    pairs: tuple[pair_drift.PairMove, ...] = ()
    before: float | None = None
    after: float | None = None
    counts: bool = True


@dataclass(frozen=True)
class Report:
    """The answer. Its exit status is 1 if anything moved, else 3 or 0."""

    encoders: tuple[Found, ...]
    cells: tuple[Found, ...]

    @property
    def exit_status(self) -> int:
        counted = (found for found in (*self.encoders, *self.cells) if found.counts)
        return min(filter(None, (found.state.exit_status for found in counted)), default=0)


def check(
    runs: Path,
    committed: Path,
    cells: Sequence[Cell],
    data_dir: Path | None = None,
    margins: Margins = NO_MARGINS,
    key_now: Callable[[str], str | None] = lambda _: None,
) -> Report:
    """Compare cells in `runs` with the committed ones, and their encoders' golden vectors.

    Pairs that moved are told with their sentences where these are carried, or in the data folder.
    A cell whose task has a margin may move as it likes, but for a fall beyond it. `key_now` is the
    key that a method's encoder has today, where that is known: records of another are not looked
    at.
    """
    every = {cell_of(record): record for record in Store(runs).records()}
    why = {**_leftovers(every, Store(runs), key_now), **failures.read(runs)}
    records = {cell: every[cell] for cell in cells if cell in every and str(cell) not in why}
    base = Results.read(Store(committed))
    rules = read_rules(committed)
    _require_committed(rules, base, committed)
    moves = {m.cell: m for m in compare(records.values(), base, rules)}
    encoders: dict[str, Found | None] = {}
    for name in dict.fromkeys(subject(cell.method) for cell in cells):
        own = [cell for cell in cells if subject(cell.method) == name]
        keys = {every[cell].digests.get("encoding") for cell in own if cell in every}
        encoders[name] = _encoder(name, runs, committed, why, keys)
        if all(margins.of(cell.task) is not None for cell in own):
            encoders[name] = _allowed(encoders[name])
    loader = TaskLoader(Places(cache=Path(), data_dir=data_dir), {})
    told = []
    for cell in cells:
        move = moves.get(cell)
        if move is None:
            told.append(_unmeasured(cell, base, why.get(str(cell), f"{runs} holds no record")))
            continue
        similarities = Store(runs).cosines(cell)  # DataError where they were changed
        found = _measured(move, encoders[subject(cell.method)], margins.of(cell.task))
        if found.state is not State.AGREES:
            near = _pairs(records[cell], similarities, committed, loader)
            found = replace(found, pairs=near)
        told.append(found)
    return Report(tuple(filter(None, encoders.values())), tuple(told))


def _require_committed(rules: Rules, base: Results, committed: Path) -> None:
    """Refuse an override of a cell that has no committed record: a misspelt one loosens nothing."""
    for method, task in rules.by_cell:
        if not base.records(method, task):
            raise DataError(
                f"{committed / FILE}: wanted overrides of committed cells, found one of {method} "
                f"on {task}, which has no record; correct it, or remove it"
            )


def _leftovers(
    records: Mapping[Cell, Record], runs: Store, key_now: Callable[[str], str | None]
) -> dict[str, str]:
    """Why records of an earlier run, by other code or of other encoders, are not looked at."""
    found = {}
    for cell, record in records.items():
        if (key := key_now(cell.method)) and key != record.digests.get("encoding"):
            again = f"harness run -m {cell.method} -t {cell.task} measures again"
            found[str(cell)] = f"its encoder's files have changed since its record; {again}"
        measured = sidecar_metadata(runs.path(cell).with_suffix(".safetensors")) or {}
        if measured.get("code", code_digest()) != code_digest():
            found[str(cell)] = f"its record is of an earlier run, by other code; {AGAIN}"
    return found


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
    tasks_here = {**load_registry().tasks_by_name, **{cell.task: None for cell in pool}}
    for name in (task for task in tasks if not is_glob(task)):
        known("task", name, tasks_here)
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


def _encoder(
    name: str, runs: Path, committed: Path, why: Mapping[str, str], keys: Collection[str | None]
) -> Found | None:
    """The check of an encoder's golden vectors; None where there are none on either side.

    `keys` are those of the encodings that its cells in `runs` were measured with.
    """
    old, new = golden_vectors.read(committed, name), golden_vectors.read(runs, name)
    reason = why.get(golden_vectors.what(name), "")
    if old is None and new is None and not reason:
        return None
    if old is None:
        missing = f"{golden_vectors.path_of(committed, name)} is missing; {PROMOTE}"
        return Found(name, State.NO_BASELINE, missing)
    if new is None:
        missing = f"{golden_vectors.path_of(runs, name)} is missing; {AGAIN}"
        return Found(name, State.COULD_NOT_RUN, reason or missing)
    if new.code not in ("", code_digest()) or (keys and new.key not in keys):
        stale = f"{golden_vectors.path_of(runs, name)} is of an earlier run; {AGAIN}"
        return Found(name, State.COULD_NOT_RUN, reason or stale)
    if old.sentences != new.sentences:
        stale = f"{golden_vectors.path_of(committed, name)} is of other golden sentences; {PROMOTE}"
        return Found(name, State.NO_BASELINE, stale)
    drift = golden_vectors.drift(old, new)
    state = State.ENCODER if drift.moved else State.AGREES
    return Found(name, state, str(drift), drift.largest, drift.tolerance)


def _allowed(found: Found | None) -> Found | None:
    """An encoder all of whose cells may move: that it did is told and no failure."""
    return replace(found, counts=False) if found and found.state is State.ENCODER else found


def _unmeasured(cell: Cell, committed: Results, why: str) -> Found:
    """No run; the worse news where there is no baseline either."""
    if committed.records(cell.method, cell.task):
        return Found(str(cell), State.COULD_NOT_RUN, why)
    return Found(
        str(cell), State.NO_BASELINE, f"there is no committed record; {PROMOTE}; here, {why}"
    )


def _measured(move: Move, encoder: Found | None, margin: float | None) -> Found:
    """The check of a cell that ran."""
    points = move.points if move.points is not None and math.isfinite(move.points) else None
    state, why, tolerance = _state(move, encoder), move.why, move.tolerance
    if margin is not None and state is not State.NO_BASELINE:
        compared = not TEXTS.intersection(move.others)
        held = State.FELL if move.fall > margin else State.AGREES
        state = held if compared else State.OTHER_INPUT
        why, tolerance = f"{move.change}, may fall by {margin:g}", margin
    if state is State.NO_BASELINE:
        why = f"{why}; {PROMOTE}"
    if state is State.ENCODER and move.reason:
        why = f"{why}; {move.change}"
    name, notable = str(move.cell), bool(move.note) and margin is None
    return Found(name, state, why, points, tolerance, notable, before=move.before, after=move.after)


def _state(move: Move, encoder: Found | None) -> State:
    """Which part moved a cell, if it moved: its input, else the encoder, else what comes after.

    Other weights, tokenizer or modules are the encoder's own where its golden vectors moved, too.
    """
    if move.points is None:
        return State.NO_BASELINE
    if move.reason:
        own = encoder is not None and encoder.state is State.ENCODER
        return State.ENCODER if own and not TEXTS.intersection(move.others) else State.OTHER_INPUT
    if not move.moved:
        return State.AGREES
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
