"""Whether a run agrees with the committed results, and if not, which part moved.

The part is the input, the encoder (then its golden vectors moved), or what comes after the encoder.
What did not run is noted beside a run's records: an older record of it is no answer of that run.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.assets.places import Places
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.files import exclusive, write_atomically
from harness.core.interfaces import Trained
from harness.core.provenance import code_digest
from harness.core.terminal import wrapped
from harness.core.types import Record
from harness.evaluation.runner import Outcome
from harness.gate.drift import Margins, Move, Rules, compare_records, read_rules
from harness.gate.golden_vectors import (
    PairMove,
    encode_encoder,
    encoder_drift,
    golden_path,
    most_moved,
    promote_pairs,
    read_golden,
    read_pairs,
    subject,
    write_golden,
)
from harness.registry import Registry, is_glob, load_registry, look_up
from harness.results.index import Results
from harness.results.layout import GATE
from harness.results.records import Cell, PlannedCell, Store, by_encoder, cell_of, sidecar_metadata
from harness.tasks.loader import TaskLoader

# What did not run, and why

FAILURES_FILE = "not-run.json"
GOLDEN_NOTE = "golden vectors of {}"  # the name under which the reason for missing ones is noted


def note_outcomes(
    results: Path, outcomes: Iterable[Outcome], unreached: Iterable[Cell] = ()
) -> None:
    """Remember which cells did not run, those among them that an interrupted run never reached.

    Wrong usage asked for nothing and leaves nothing.
    """
    usage = UsageError.exit_status
    reasons = {str(o.cell): o.message for o in outcomes if o.exit_status != usage}
    late = {str(cell): "the last run ended before it" for cell in unreached}
    note_failures(results, {**reasons, **late})


def note_failures(results: Path, reasons: Mapping[str, str]) -> None:
    """Remember the reason of each name; an empty one says that it ran, and forgets an older one."""

    def remembered() -> dict[str, str]:
        return {name: why for name, why in {**read_failures(results), **reasons}.items() if why}

    if remembered() == read_failures(results):
        return
    with exclusive(results):  # what others note meanwhile stays
        text = json.dumps(remembered(), indent=1) + "\n"
        write_atomically(results / FAILURES_FILE, text.encode())


def read_failures(results: Path) -> dict[str, str]:
    """The reason of everything that did not run in its last run, as far as it was noted."""
    path = results / FAILURES_FILE
    if not path.exists():
        return {}
    try:
        return {name: str(why) for name, why in json.loads(path.read_bytes()).items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is no list of reasons ({error}); delete it") from None


# A run against the committed results

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
    UNKNOWN = "moved"  # which part cannot be told, for lack of golden vectors
    NO_BASELINE = "no baseline"
    COULD_NOT_RUN = "could not run"

    @property
    def exit_status(self) -> int:
        """0 fine, 1 moved, 3 could not run or nothing to compare with."""
        return {State.AGREES: 0, State.COULD_NOT_RUN: 3, State.NO_BASELINE: 3}.get(self, 1)


@dataclass(frozen=True)
class Checked:
    """The check of one cell, or of one encoder's golden vectors.

    `distance` and `tolerance` are in points, of a coordinate for an encoder; None where there is
    nothing to compare. `notable` agreement has a tolerance of its own; `pairs` moved most in rank;
    `before` and `after` are a cell's main scores. With `counts` false it is no failure.
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

    @property
    def lines(self) -> list[str]:
        """Its state and the reason, then the pairs that moved most."""
        why = self.why if self.counts else f"{self.why} (no failure)"
        return [f"{self.state}: {self.name}: {why}", *(f"    {pair}" for pair in self.pairs)]


@dataclass(frozen=True)
class Report:
    """The answer. Its exit status is 1 if anything moved, else 3 or 0."""

    encoders: tuple[Checked, ...]
    cells: tuple[Checked, ...]

    @property
    def exit_status(self) -> int:
        counted = (item for item in (*self.encoders, *self.cells) if item.counts)
        return min(filter(None, (item.state.exit_status for item in counted)), default=0)


@dataclass(frozen=True)
class Gate:
    """A run, and the committed results that it is compared with; each file is read once."""

    runs: Path
    committed: Path

    @cached_property
    def rules(self) -> Rules:
        """The quick set and the overrides of the committed results."""
        return read_rules(self.committed)

    @cached_property
    def records(self) -> dict[Cell, Record]:
        """Every record of the run."""
        return {cell_of(record): record for record in Store(self.runs).records()}

    def wanted(self, methods: Sequence[str] = (), tasks: Sequence[str] = ()) -> tuple[Cell, ...]:
        """The quick set and whatever the run holds, or what patterns select of it.

        A method and a task given by their ids are wanted even where there is no record of them.
        """
        pool = tuple(dict.fromkeys((*self.rules.quick_cells, *self.records)))
        if not methods and not tasks and pool:
            return pool
        tasks_here = {**load_registry().tasks_by_name, **{cell.task: None for cell in pool}}
        for name in (task for task in tasks if not is_glob(task)):
            look_up("task", name, tasks_here)
        chosen = [
            cell
            for cell in pool
            if any(fnmatchcase(cell.method, pattern) for pattern in methods or ("*",))
            and any(fnmatchcase(cell.task, pattern) for pattern in tasks or ("*",))
        ]
        named = {(cell.method, cell.task) for cell in chosen}
        ids = [(m, t) for m in methods for t in tasks if not is_glob(m) and not is_glob(t)]
        chosen += [Cell(*address) for address in ids if address not in named]
        if not chosen:
            raise UsageError(
                f"nothing to check: {self.runs} holds no record of it and {self.committed / GATE} "
                "names none; harness run --quick measures"
            )
        return tuple(chosen)

    def check(
        self,
        cells: Sequence[Cell],
        data_dir: Path | None = None,
        margins: Margins | None = None,
        key_now: Callable[[str], str | None] = lambda _: None,
    ) -> Report:
        """Compare cells of the run with the committed ones, and their encoders' golden vectors.

        Pairs that moved have their sentences where these are embedded, or in the data folder. A
        cell whose task has a margin may move as it likes, but for a fall beyond it. `key_now` is
        the key that a method's encoder has today, where that is known: records of another are not
        looked at.
        """
        base, margins = Results.read(Store(self.committed)), margins or Margins()
        for method, task in self.rules.by_cell:
            if not base.records(method, task):  # a misspelt override loosens nothing
                raise DataError(
                    f"{self.committed / GATE}: wanted overrides of committed cells, found one of "
                    f"{method} on {task}, which has no record; correct it, or remove it"
                )
        reasons = {**self._outdated(key_now), **read_failures(self.runs)}
        records = {c: self.records[c] for c in cells if c in self.records and str(c) not in reasons}
        moves = {m.cell: m for m in compare_records(records.values(), base, self.rules)}
        encoders: dict[str, Checked | None] = {}
        for name in dict.fromkeys(subject(cell.method) for cell in cells):
            own = [cell for cell in cells if subject(cell.method) == name]
            keys = {self.records[c].digests.get("encoding") for c in own if c in self.records}
            encoders[name] = checked = self._encoder(name, reasons, keys)
            may_move = all(margins.of(cell.task) is not None for cell in own)
            if may_move and checked is not None and checked.state is State.ENCODER:
                encoders[name] = replace(checked, counts=False)
        loader = TaskLoader(Places(cache=Path(), data_dir=data_dir), {})
        answers = []
        for cell in cells:
            if cell in moves:
                similarities = Store(self.runs).cosines(cell)  # DataError where they were changed
                encoder = encoders[subject(cell.method)]
                checked = _measured(moves[cell], encoder, margins.of(cell.task))
                if checked.state is not State.AGREES:
                    pairs = self._pairs(records[cell], similarities, loader)
                    checked = replace(checked, pairs=pairs)
            else:
                why = reasons.get(str(cell), f"{self.runs} holds no record")
                checked = Checked(str(cell), State.COULD_NOT_RUN, why)
                if not base.records(cell.method, cell.task):  # the worse news
                    why = f"there is no committed record; {PROMOTE}; here, {why}"
                    checked = Checked(str(cell), State.NO_BASELINE, why)
            answers.append(checked)
        return Report(tuple(filter(None, encoders.values())), tuple(answers))

    def _outdated(self, key_now: Callable[[str], str | None]) -> dict[str, str]:
        """Why records of an earlier run, by other code or of other encoders, are not looked at."""
        reasons, runs = {}, Store(self.runs)
        for cell, record in self.records.items():
            if (key := key_now(cell.method)) and key != record.digests.get("encoding"):
                again = f"harness run -m {cell.method} -t {cell.task} measures again"
                reasons[str(cell)] = f"its encoder's files have changed since its record; {again}"
            measured = sidecar_metadata(runs.path(cell).with_suffix(".safetensors")) or {}
            if measured.get("code", code_digest()) != code_digest():
                reasons[str(cell)] = f"its record is of an earlier run, by other code; {AGAIN}"
        return reasons

    def _encoder(
        self, name: str, reasons: Mapping[str, str], keys: Collection[str | None]
    ) -> Checked | None:
        """The check of an encoder's golden vectors; None where there are none on either side.

        `keys` are those of the encodings that its cells in the run were measured with.
        """
        old, new = read_golden(self.committed, name), read_golden(self.runs, name)
        old_path, new_path = golden_path(self.committed, name), golden_path(self.runs, name)
        reason = reasons.get(GOLDEN_NOTE.format(name), "")
        if old is None and new is None and not reason:
            return None
        if old is None:
            return Checked(name, State.NO_BASELINE, f"{old_path} is missing; {PROMOTE}")
        if new is None:
            why = reason or f"{new_path} is missing; {AGAIN}"
            return Checked(name, State.COULD_NOT_RUN, why)
        if new.code not in ("", code_digest()) or (keys and new.key not in keys):
            why = reason or f"{new_path} is of an earlier run; {AGAIN}"
            return Checked(name, State.COULD_NOT_RUN, why)
        if old.sentences != new.sentences:
            why = f"{old_path} is of other golden sentences; {PROMOTE}"
            return Checked(name, State.NO_BASELINE, why)
        drift = encoder_drift(old, new)
        state = State.ENCODER if drift.moved else State.AGREES
        return Checked(name, state, str(drift), drift.largest, drift.tolerance)

    def _pairs(self, record: Record, similarities: Any, loader: TaskLoader) -> tuple[PairMove, ...]:
        """The pairs whose rank moved most, where similarities of the same pairs are committed.

        With their sentences, if these are at hand and the very ones that were scored.
        """
        old = read_pairs(self.committed, cell_of(record))
        if old is None or similarities is None or len(old) != len(similarities):
            return ()
        moved, task = most_moved(old, similarities), load_registry().tasks.get(record.task)
        try:
            inputs = loader.inputs(task) if task else None
        except HarnessError:
            return moved
        if inputs is None or inputs.digests["data"] != record.digests.get("data"):
            return moved
        a, b = inputs.pairs.a, inputs.pairs.b
        return tuple(replace(m, texts=(a[m.pair - 1], b[m.pair - 1])) for m in moved)


def _measured(move: Move, encoder: Checked | None, margin: float | None) -> Checked:
    """The check of a cell that ran."""
    points = move.points if move.points is not None and math.isfinite(move.points) else None
    state, why, tolerance = _moved_part(move, encoder), move.why, move.tolerance
    if state is State.NO_BASELINE:
        why = f"{why}; {PROMOTE}"
    elif margin is not None:
        compared = not TEXTS.intersection(move.others)
        held = State.FELL if move.fall > margin else State.AGREES
        state = held if compared else State.OTHER_INPUT
        why, tolerance = f"{move.change}, may fall by {margin:g}", margin
    elif state is not State.AGREES:
        why = f"{why}; {move.change}"
    name, notable = str(move.cell), bool(move.note) and margin is None
    return Checked(
        name, state, why, points, tolerance, notable, before=move.before, after=move.after
    )


def _moved_part(move: Move, encoder: Checked | None) -> State:
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
    parts = {State.ENCODER: State.ENCODER, State.AGREES: State.SCORER}
    return State.UNKNOWN if encoder is None else parts.get(encoder.state, State.UNKNOWN)


def render_report(report: Report, gate: Gate, width: int | None = None) -> str:
    """What needs attention, then a line of counts, folded to the width of a terminal."""
    lines: list[str] = []
    counts: dict[State, list[str]] = {}
    for what, checked in (("encoder", report.encoders), ("cell", report.cells)):
        for item in checked:
            if item.state is not State.AGREES or item.notable:
                lines += item.lines
        for state, number in Counter(item.state for item in checked).items():
            counts.setdefault(state, []).append(f"{number} {what}{'s' * (number > 1)}")
    states = "; ".join(f"{state}: {', '.join(numbers)}" for state, numbers in counts.items())
    lines.append(f"{gate.runs} against {gate.committed}: {states}")
    return "\n".join(wrapped(line, width) for line in lines)


# The quick set: what is measured for a check, and promoted


def quick_set(registry: Registry, committed: Path) -> tuple[PlannedCell, ...]:
    """The cells that `gate.toml` names, grouped by encoder and pooling as they are to run."""
    cells = read_rules(committed).quick_cells
    if not cells:
        raise UsageError(
            f"{committed / GATE} names no quick set; name one, or give -m METHOD and -t TASK"
        )
    planned = [
        PlannedCell(registry.parse(c.method), look_up("task", c.task, registry.tasks), c.seed)
        for c in cells
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
        note_failures(results, {GOLDEN_NOTE.format(name): why})


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
