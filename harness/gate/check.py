"""Why something did not run: left by a run beside its records, read by `harness check`.

An older record of a cell that failed in the last run must not be taken for that run's answer.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.files import exclusive, write_atomically
from harness.core.interfaces import Trained
from harness.core.provenance import code_digest
from harness.core.terminal import table, wrapped
from harness.core.types import Pairs, Record
from harness.evaluation.runner import Outcome
from harness.gate.drift import FILE, NO_MARGINS, Margins, Move, Rules, compare_records, read_rules
from harness.gate.golden_vectors import (
    PairMove,
    encode_encoder,
    encoder_drift,
    golden_path,
    most_moved,
    promote_pairs,
    read_golden,
    read_pairs,
    settings_that_differ,
    subject,
    write_golden,
)
from harness.registry import Registry, is_glob, load_registry, look_up
from harness.results.index import Results
from harness.results.records import Cell, PlannedCell, Store, by_encoder, cell_of, sidecar_metadata
from harness.tasks.loader import TaskLoader

if TYPE_CHECKING:  # reading reasons needs nothing of what runs
    from harness.evaluation.runner import Outcome
    from harness.results.records import Cell


FAILURES_FILE = "not-run.json"


def note_outcomes(
    results: Path, outcomes: Iterable[Outcome], unreached: Iterable[Cell] = ()
) -> None:
    """Remember which cells did not run, those among them that an interrupted run never reached.

    Wrong usage asked for nothing and leaves nothing.
    """
    usage = UsageError.exit_status
    reasons = {str(o.cell): o.message for o in outcomes if o.exit_status != usage}
    note_failures(
        results, {**reasons, **{str(cell): "the last run ended before it" for cell in unreached}}
    )


def note_failures(results: Path, reasons: Mapping[str, str]) -> None:
    """Remember the reason of each name; an empty one says that it ran, and forgets an older one."""
    if _after(results, reasons) == read_failures(results):
        return
    with exclusive(results):  # what others note meanwhile stays
        after = _after(results, reasons)
        write_atomically(results / FAILURES_FILE, (json.dumps(after, indent=1) + "\n").encode())


def _after(results: Path, reasons: Mapping[str, str]) -> dict[str, str]:
    return {name: why for name, why in {**read_failures(results), **reasons}.items() if why}


def read_failures(results: Path) -> dict[str, str]:
    """The reason of everything that did not run in its last run, as far as it was noted."""
    path = results / FAILURES_FILE
    if not path.exists():
        return {}
    try:
        return {name: str(why) for name, why in json.loads(path.read_bytes()).items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is no list of reasons ({error}); delete it") from None


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
    pairs: tuple[PairMove, ...] = ()
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
    why = {**_leftovers(every, Store(runs), key_now), **read_failures(runs)}
    records = {cell: every[cell] for cell in cells if cell in every and str(cell) not in why}
    base = Results.read(Store(committed))
    rules = read_rules(committed)
    _require_committed(rules, base, committed)
    moves = {m.cell: m for m in compare_records(records.values(), base, rules)}
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
        look_up("task", name, tasks_here)
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
    old, new = read_golden(committed, name), read_golden(runs, name)
    reason = why.get(settings_that_differ(name), "")
    if old is None and new is None and not reason:
        return None
    if old is None:
        missing = f"{golden_path(committed, name)} is missing; {PROMOTE}"
        return Found(name, State.NO_BASELINE, missing)
    if new is None:
        missing = f"{golden_path(runs, name)} is missing; {AGAIN}"
        return Found(name, State.COULD_NOT_RUN, reason or missing)
    if new.code not in ("", code_digest()) or (keys and new.key not in keys):
        stale = f"{golden_path(runs, name)} is of an earlier run; {AGAIN}"
        return Found(name, State.COULD_NOT_RUN, reason or stale)
    if old.sentences != new.sentences:
        stale = f"{golden_path(committed, name)} is of other golden sentences; {PROMOTE}"
        return Found(name, State.NO_BASELINE, stale)
    drift = encoder_drift(old, new)
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
) -> tuple[PairMove, ...]:
    """The pairs whose rank moved most, where similarities of the same pairs are committed."""
    old = read_pairs(committed, cell_of(record))
    if old is None or new is None or len(old) != len(new):
        return ()
    moved, texts = most_moved(old, new), _texts(record, loader)
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


HEAD = ("state", "cell", "before", "after", "difference")
SIDES = ("left", "left", "right", "right", "right")
QUIET = (State.NO_BASELINE, State.COULD_NOT_RUN)  # with nothing to set side by side


def render_report(report: Report, runs: Path, committed: Path, width: int | None = None) -> str:
    """Findings that need attention, scores before and after if one moved, and a line of counts.

    Lines and rows are folded to the width of a terminal; without one they are as long as they are.
    """
    lines: list[str] = []
    for found in (*report.encoders, *report.cells):
        if found.state is State.AGREES and not found.notable:
            continue
        lines += (wrapped(line, width) for line in told(found))
    moved = {found.state for found in (*report.encoders, *report.cells)} - {State.AGREES, *QUIET}
    if moved and (rows := [_row(cell) for cell in report.cells if cell.state not in QUIET]):
        lines += ["", table(rows, HEAD, width, SIDES), ""]
    lines.append(wrapped(f"{runs} against {committed}: {_counts(report)}", width))
    return "\n".join(lines)


def told(found: Found) -> list[str]:
    """The lines of one cell or encoder: its state and why, then the pairs that moved most."""
    why = found.why if found.counts else f"{found.why} (told, no failure)"
    return [
        f"{found.state}: {found.name}: {why}",
        *(f"    {pair}" for pair in found.pairs),
    ]


def _row(cell: Found) -> tuple[str, ...]:
    both = None not in (cell.before, cell.after)
    before, after = (
        "undefined" if score is None else f"{score:.3f}" for score in (cell.before, cell.after)
    )
    change = f"{(cell.after or 0) - (cell.before or 0):+.3f}" if both else ""
    return str(cell.state), cell.name, before, after, change


def _counts(report: Report) -> str:
    """How many encoders and cells have which state: `agrees: 2 encoders, 5 cells`."""
    counts: dict[State, list[str]] = {}
    for what, found in (("encoder", report.encoders), ("cell", report.cells)):
        for state, number in Counter(one.state for one in found).items():
            counts.setdefault(state, []).append(f"{number} {what}{'s' * (number > 1)}")
    return "; ".join(f"{state}: {', '.join(numbers)}" for state, numbers in counts.items())


def quick_set(found: Registry, committed: Path) -> tuple[PlannedCell, ...]:
    """The cells that `gate.toml` names, grouped by encoder and pooling as they are to run."""
    cells = read_rules(committed).quick_cells
    if not cells:
        raise UsageError(
            f"{committed / FILE} names no quick set; name one, or give -m METHOD and -t TASK"
        )
    planned = [
        PlannedCell(found.parse(cell.method), look_up("task", cell.task, found.tasks), cell.seed)
        for cell in cells
    ]
    return tuple(sorted(planned, key=by_encoder))


def encode_golden(planned: Sequence[PlannedCell], places: Places, results: Path) -> None:
    """Write the golden vectors of every encoder of these cells, or note why there are none.

    An encoder that cannot be asked keeps no vectors of an earlier run. A family has none: its
    members are trained anew, and differ.
    """
    every = (p.method for p in planned if not isinstance(p.method.encoder.source, Trained))
    encoders = {subject(method.id): method.encoder for method in every}
    for name, config in encoders.items():
        why = ""
        try:
            write_golden(results, encode_encoder(name, config, places))
        except HarnessError as error:
            golden_path(results, name).unlink(missing_ok=True)
            why = str(error)
        note_failures(results, {settings_that_differ(name): why})


def promote_gate(outcomes: Iterable[Outcome], runs: Path, committed: Path) -> int:
    """Commit records, similarities and golden vectors of a quick run; how many of them changed.

    Whatever agrees with what was measured stays as it is.
    """
    records = {outcome.cell: outcome.record for outcome in outcomes if outcome.record}
    changed = Store(committed).promote(records.values())
    changed += sum(promote_pairs(cell, runs, committed) for cell in records)
    for encoder in sorted({subject(cell.method) for cell in records}):
        new, kept = read_golden(runs, encoder), read_golden(committed, encoder)
        if new is not None and (kept is None or encoder_drift(kept, new).moved):
            write_golden(committed, new)
            changed += 1
    return changed
