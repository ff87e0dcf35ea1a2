"""Whether a run agrees with the committed results, and if not, which part moved.

The cells of a run are joined with the committed records of their method and task, and
the golden vectors of their encoders with the committed ones. A score moved by its input,
by its encoder (then the golden vectors moved, too), or by its scorer, which is
everything after the encoder. What was not measured is no pass.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from harness.core.errors import UsageError
from harness.core.metrics import unit_rows
from harness.core.provenance import code_digest
from harness.core.toml import read_typed
from harness.core.types import Record, ScorePath, score_at, score_paths
from harness.registry import is_glob, look_up, matches
from harness.results.folder import ResultsFolder
from harness.results.golden_vectors import (
    GoldenVectors,
    golden_name,
    golden_path,
    platform,
    read_golden_vectors,
)
from harness.results.index import Results, main_path, main_score, value
from harness.results.layout import GATE
from harness.results.records import SAME_PLATFORM, Cell, cell_of, largest_move_of_scores
from harness.results.store import read_failures, sidecar_metadata
from harness.results.verdict import prediction_half_width

# In points: another processor or another build of the libraries sums in another order.
TOLERANCE_ACROSS_PLATFORMS = 0.05

# The largest difference of a coordinate after normalisation. MiniLM's moves by 4e-7
# with threads, batches and instruction sets, and by 3e-4 with weights rounded to
# float16.
GOLDEN_SAME_PLATFORM = 1e-5
GOLDEN_ACROSS_PLATFORMS = 1e-4

# The digests of a record that are not digests of inputs; and of the inputs, those that
# have to be the same for scores to be compared: texts with gold scores, labels, and the
# fit corpus.
DIGESTS_OF_PROGRAM = {"code", "encoding"}
TEXT_INPUTS = {"data", "labels", "fit"}

LOST_SCORES_SHOWN = 3  # of a cell, in a message

# The ends of messages: the command that makes what is missing.
MEASURE_AGAIN = "harness run --gate measures again"
PROMOTE = "harness run --gate --update makes it"


# What a check says


class State(StrEnum):
    """The outcome of a check of a cell or an encoder."""

    AGREES = "agrees"
    OTHER_INPUT = "other input"
    ENCODER = "encoder moved"
    SCORER = "scorer moved"
    UNKNOWN = "moved"  # without golden vectors it is not known which part
    NO_BASELINE = "no baseline"
    COULD_NOT_RUN = "could not run"
    # The code or its plug-in changed after it was measured.
    NOT_MEASURED_AGAIN = "not measured again"

    @property
    def exit_status(self) -> int:
        """0: it agrees; 1: it moved; 3: it was not measured, or there is no baseline."""
        if self is State.AGREES:
            return 0
        is_missing = self in (
            State.NO_BASELINE,
            State.COULD_NOT_RUN,
            State.NOT_MEASURED_AGAIN,
        )
        return 3 if is_missing else 1


@dataclass(frozen=True, kw_only=True)
class Check:
    """The check of one cell, or of one encoder's golden vectors.

    Attributes:
        name: The cell or the encoder.
        state: Whether it agrees, and if not, what moved or is missing.
        why: The distance, or the reason of the state.
        distance: How far it is from the committed one, in points, or for an encoder the
            largest difference of a coordinate; None where there is nothing to compare.
        tolerance: How far it may be, in the same unit.
    """

    name: str
    state: State
    why: str
    distance: float | None = None
    tolerance: float | None = None

    def __str__(self) -> str:
        return f"{self.state}: {self.name}: {self.why}"

    @property
    def moved(self) -> bool:
        """Whether it was compared and does not agree."""
        return self.state.exit_status == 1


@dataclass(frozen=True)
class Report:
    """The checks of encoders and of cells."""

    encoders: tuple[Check, ...]
    cells: tuple[Check, ...]

    @property
    def exit_status(self) -> int:
        """1 if something moved, else 3 if something was not measured, else 0."""
        statuses = {check.state.exit_status for check in (*self.encoders, *self.cells)}
        return min(statuses - {0}, default=0)


# gate.toml


@dataclass(frozen=True)
class QuickCell:
    """A method on a task in the quick set, with seeds 0 to `seeds` - 1."""

    method: str
    task: str
    seeds: int = 1


@dataclass(frozen=True)
class Rules:
    """The content of `gate.toml`: the quick set."""

    quick: tuple[QuickCell, ...] = ()

    @property
    def quick_cells(self) -> tuple[Cell, ...]:
        """The cells of the quick set, one a seed; none where it is not named."""
        return tuple(
            Cell(quick.method, quick.task, seed)
            for quick in self.quick
            for seed in range(quick.seeds)
        )


def read_rules(results: Path) -> Rules:
    """The rules of a results folder; none without a file. Raises DataError naming the file."""
    path = results / GATE
    return read_typed(Rules, path) if path.is_file() else Rules()


# What did not run


def golden_failure(encoder: str) -> str:
    """The name under which the reason for missing golden vectors of an encoder is noted."""
    return f"golden vectors of {encoder}"


# One record against the committed ones


def check_record(
    record: Record, committed: Results, encoder: Check | None = None
) -> Check:
    """One record against the committed records of its method and task, one a seed.

    Every score is compared with the score of the same seed. If a score moved by more than
    the tolerance and there are other committed seeds, the main score is compared with
    their mean instead: it may be as far from it as one more run would be, and it is one
    number, so that 95 % of the runs are within a 95 % interval.

    Args:
        record: A record of the run.
        committed: All committed records.
        encoder: The check of the encoder's golden vectors; None where there are none.
    """
    name = str(cell_of(record))
    baseline = committed.records(record.method, record.task)
    same_seed = [known for known in baseline if known.seed == record.seed]
    if not same_seed and len(baseline) < 2:
        why = f"there is no committed record; {PROMOTE}"
        return Check(name=name, state=State.NO_BASELINE, why=why)
    compared = same_seed or baseline

    tolerance, remark = TOLERANCE_ACROSS_PLATFORMS, ""
    if platform(compared[0].environment) == platform(record.environment):
        tolerance = SAME_PLATFORM
    # Rounded, so that a move of exactly a decimal tolerance is within it.
    points = furthest = math.inf
    if same_seed:
        points = furthest = round(largest_move_of_scores(same_seed[0], record), 9)

    after = main_score(record.scores)[1]
    inputs = changed_inputs(baseline, record)
    has_moved = tolerance < points < math.inf
    may_vary = has_moved and len(baseline) > 1
    if not inputs and (may_vary or not same_seed):
        points = math.inf
        of_seeds = value([main_score(known.scores)[1] for known in baseline])
        if after is not None and of_seeds.mean is not None and of_seeds.sd is not None:
            points = round(abs(after - of_seeds.mean), 9)
            half_width = prediction_half_width(of_seeds.sd, of_seeds.seeds)
            tolerance = max(tolerance, half_width)
            remark = f" (from the mean of {of_seeds.seeds} committed seeds)"

    is_lost = math.isinf(points)
    if inputs:
        why = f"other {', '.join(inputs)}"
    elif is_lost:
        lost = _lost_scores(compared, record)
        why = f"{lost}: on one side only, or undefined on one"
    else:
        why = f"{points:.4f} points, tolerance {tolerance:.4g}{remark}"
    state = _state(inputs, points <= tolerance, encoder)
    if state is not State.AGREES:
        before = value([main_score(known.scores)[1] for known in compared]).mean
        name_of_score = ""
        if (
            same_seed and not is_lost and points == furthest
        ):  # the score that moved by this
            path = _furthest(same_seed[0], record)
            if path != main_path(record.scores):
                name_of_score = f"{'.'.join(path)} "
                before, after = (
                    score_at(one.scores, path) for one in (same_seed[0], record)
                )
        scores = ["undefined" if s is None else f"{s:.4f}" for s in (before, after)]
        why += f"; {name_of_score}{' -> '.join(scores)}"
    return Check(
        name=name,
        state=state,
        why=why,
        distance=None if is_lost else points,
        tolerance=tolerance,
    )


def _furthest(known: Record, record: Record) -> ScorePath:
    """The path of the score that moved furthest; the main score's if that is one of them."""

    def move(path: ScorePath) -> float:
        before, after = score_at(known.scores, path), score_at(record.scores, path)
        return 0.0 if before is None or after is None else abs(before - after)

    return max((main_path(record.scores), *score_paths(record.scores)), key=move)


def _lost_scores(committed: Sequence[Record], record: Record) -> str:
    """The scores that the record or a committed one lacks or has undefined, the first by name."""
    lost: dict[str, None] = {}
    for known in committed:
        for path in (*score_paths(known.scores), *score_paths(record.scores)):
            before, after = score_at(known.scores, path), score_at(record.scores, path)
            if (before is None) != (after is None):
                lost[".".join(path)] = None
    return ", ".join(list(lost)[:LOST_SCORES_SHOWN])


def _state(inputs: Collection[str], is_within: bool, encoder: Check | None) -> State:
    """The part that moved a cell: an input, else the encoder, else the scorer.

    Changed weights, tokenizers and modules count as the encoder if its golden vectors
    moved, too.
    """
    of_encoder = None if encoder is None else encoder.state
    if inputs and (of_encoder is not State.ENCODER or TEXT_INPUTS & {*inputs}):
        return State.OTHER_INPUT
    if is_within and not inputs:
        return State.AGREES
    if of_encoder is State.ENCODER:
        return State.ENCODER
    return State.SCORER if of_encoder is State.AGREES else State.UNKNOWN


def changed_inputs(baseline: Sequence[Record], record: Record) -> tuple[str, ...]:
    """The inputs of a record that are not the committed ones, by the names of their digests.

    Inputs are data, weights, tokenizer and configuration. A digest that differs between
    committed seeds is of something that training made, and not of an input.
    """
    names = set(record.digests).union(*(known.digests for known in baseline))
    changed_names = []
    for name in sorted(names - DIGESTS_OF_PROGRAM):
        committed = {known.digests.get(name) for known in baseline}
        if len(committed) == 1 and record.digests.get(name) not in committed:
            changed_names.append(name)
    return tuple(changed_names)


# Golden vectors against the committed ones


def check_encoder(committed: GoldenVectors, measured: GoldenVectors) -> Check:
    """The check of an encoder: how far its golden vectors have moved.

    The distance is the largest difference of a coordinate after each vector was
    normalised.
    """
    name = measured.encoder
    if committed.sentences != measured.sentences:
        why = f"the committed vectors are of other golden sentences; {PROMOTE}"
        return Check(name=name, state=State.NO_BASELINE, why=why)
    if committed.vectors.shape != measured.vectors.shape:
        widths = measured.vectors.shape[1], committed.vectors.shape[1]
        why = f"{widths[0]} dimensions, committed {widths[1]}"
        return Check(name=name, state=State.ENCODER, why=why)
    same_platform = committed.platform == measured.platform
    tolerance = GOLDEN_SAME_PLATFORM if same_platform else GOLDEN_ACROSS_PLATFORMS
    moves = np.abs(unit_rows(committed.vectors) - unit_rows(measured.vectors))
    distance = float(moves.max(initial=0.0))
    state = State.AGREES if distance <= tolerance else State.ENCODER
    why = f"{distance:.1e}, tolerance {tolerance:g}"
    if committed.key != measured.key:
        state = State.ENCODER
        why = f"other weights, tokenizer, modules or settings; {why}"
    return Check(
        name=name, state=state, why=why, distance=distance, tolerance=tolerance
    )


# A run against the committed results


@dataclass(frozen=True)
class Gate:
    """A run, and the committed results that it is compared with.

    Attributes:
        runs: The results of the run, without those that come with the harness.
        committed: The results with the committed records.
        plugins: The digests of plug-ins as they are now, by name.
    """

    runs: ResultsFolder
    committed: ResultsFolder
    plugins: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def rules(self) -> Rules:
        """The quick set of the committed results."""
        return read_rules(self.committed.path)

    @cached_property
    def records(self) -> Mapping[Cell, Record]:
        """The records of the run."""
        return {
            cell_of(record): record
            for records in self.runs.records.by_cell.values()
            for record in records
        }

    @cached_property
    def failures(self) -> Mapping[str, str]:
        """Why cells and golden vectors are missing in the run, by their names."""
        return read_failures(self.runs.path)

    def cells_to_check(
        self, methods: Sequence[str] = (), tasks: Sequence[str] = ()
    ) -> tuple[Cell, ...]:
        """The cells of the quick set and of the run that patterns select.

        Without patterns all are selected. A method and a task that are given by their ids
        are selected even where there is no record of them.

        Args:
            methods: Ids or patterns of methods.
            tasks: Names or patterns of tasks.

        Raises:
            UsageError: No cell is selected, or a task is not known.
        """
        cells = list(dict.fromkeys((*self.rules.quick_cells, *self.records)))
        names_of_cells = {(cell.method, cell.task) for cell in cells}
        known_tasks: dict[str, object] = dict(self.committed.registry.tasks_by_name)
        known_tasks |= dict.fromkeys(task for _, task in names_of_cells)
        named_methods = [method for method in methods if not is_glob(method)]
        named_tasks = [task for task in tasks if not is_glob(task)]
        for task in named_tasks:
            look_up("task", task, known_tasks)
        for method, task in product(named_methods, named_tasks):
            if (method, task) not in names_of_cells:
                cells.append(Cell(method, task))
        selected_cells = [
            cell
            for cell in cells
            if not methods or matches(cell.method, methods)
            if not tasks or matches(cell.task, tasks)
        ]
        if not selected_cells:
            raise UsageError(
                f"nothing to check: {self.runs.path} holds no record of it and "
                f"{self.committed.path / GATE} names none; harness run --gate measures"
            )
        return tuple(selected_cells)

    def check(self, cells: Sequence[Cell]) -> Report:
        """Compare cells of the run with the committed ones, and their encoders' golden vectors."""
        cells_of_encoder: dict[str, list[Cell]] = {}
        for cell in cells:
            cells_of_encoder.setdefault(golden_name(cell.method), []).append(cell)
        encoders = {
            name: self._check_golden_vectors(name, of_encoder)
            for name, of_encoder in cells_of_encoder.items()
        }
        # Vectors that an earlier run left of an encoder which no quick cell has any more
        # say which part moved a cell; by themselves they are no finding.
        quick = {golden_name(cell.method) for cell in self.rules.quick_cells}
        return Report(
            encoders=tuple(
                check
                for name, check in encoders.items()
                if check and (name in quick or not quick)
            ),
            cells=tuple(
                self._check_cell(cell, encoders[golden_name(cell.method)])
                for cell in cells
            ),
        )

    def _check_golden_vectors(self, name: str, cells: Sequence[Cell]) -> Check | None:
        """The golden vectors of some cells against the committed ones; None without any."""
        committed = read_golden_vectors(self.committed.path, name)
        measured = read_golden_vectors(self.runs.path, name)
        failure = self.failures.get(golden_failure(name), "")
        if committed is None and measured is None and not failure:
            return None
        path = golden_path(self.runs.path, name)
        state, why = State.COULD_NOT_RUN, failure
        if committed is None:
            path = golden_path(self.committed.path, name)
            state, why = State.NO_BASELINE, f"{path} is missing; {PROMOTE}"
        elif measured is None:
            why = why or f"{path} is missing; {MEASURE_AGAIN}"
        elif not failure:
            records = [self.records[cell] for cell in cells if cell in self.records]
            keys_of_records = {record.digests.get("encoding") for record in records}
            is_of_records = not records or measured.key in keys_of_records
            # Older files do not say by which code they were made.
            if is_of_records and measured.code in ("", code_digest()):
                return check_encoder(committed, measured)
            state = State.NOT_MEASURED_AGAIN
            why = f"{path} is of an earlier run; {MEASURE_AGAIN}"
        return Check(name=name, state=state, why=why)

    def _check_cell(self, cell: Cell, encoder: Check | None) -> Check:
        """The check of a cell, given the check of its encoder."""
        record = self.records.get(cell)
        state, why = State.COULD_NOT_RUN, self.failures.get(str(cell), "")
        if not why and record is None:
            why = f"{self.runs.path} holds no record"
        elif not why and record is not None:
            state, why = State.NOT_MEASURED_AGAIN, self._change_since(record)
            if not why:
                return check_record(record, self.committed.records, encoder)
        if not self.committed.records.records(cell.method, cell.task):
            state = State.NO_BASELINE
            why = f"there is no committed record; {PROMOTE}; here, {why}"
        return Check(name=str(cell), state=state, why=why)

    def _change_since(self, record: Record) -> str:
        """What has changed since a cell was measured: the code or a plug-in.

        It is empty if nothing has. A record from before a change does not tell whether
        the change moved a score.
        """
        sidecar = self.runs.store.path(cell_of(record)).with_suffix(".safetensors")
        if sidecar_metadata(sidecar).get("code", code_digest()) != code_digest():
            return f"its record is of an earlier run, by other code; {MEASURE_AGAIN}"
        for name, sha256 in self.plugins.items():
            if record.digests.get(f"plugin {name}", sha256) != sha256:
                return (
                    f"its plug-in {name} has changed since its record; "
                    f"harness run -m {record.method} -t {record.task} measures again"
                )
        return ""
