"""Whether a run agrees with the committed results, and if not, which part moved.

The part is the input, the encoder (then its golden vectors moved), or what comes after the encoder.
What did not run is noted beside a run's records: an older record of it is no answer of that run.
"""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float
from harness.core.errors import AssetMissing, DataError, HarnessError, UsageError
from harness.core.files import rewrite, write_atomically
from harness.core.hardware import base_name
from harness.core.interfaces import Trained
from harness.core.json_text import parse_json
from harness.core.provenance import code_digest
from harness.core.terminal import wrapped
from harness.core.types import MethodId, Record
from harness.encoders.function import FunctionConfig
from harness.evaluation.run import Outcome
from harness.evaluation.select import PlannedCell, by_encoder
from harness.gate.drift import (
    PROMOTE,
    Checked,
    PairMove,
    Rules,
    State,
    compare_record,
    most_moved,
    moved_part,
    read_rules,
    with_margin,
)
from harness.gate.golden_vectors import (
    check_encoder,
    encode_encoder,
    golden_path,
    read_golden,
    subject,
    write_golden,
)
from harness.registry import Registry, is_glob, load_registry, look_up
from harness.resolve import config_for
from harness.results.index import Results
from harness.results.layout import GATE
from harness.results.records import Cell, Store, cell_of, read_similarities, sidecar_metadata
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import MEAN, NATIVE

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

    if remembered() != read_failures(results):

        def content() -> bytes:  # what others note meanwhile stays
            return f"{json.dumps(remembered(), indent=1)}\n".encode()

        rewrite(results / FAILURES_FILE, content)


def read_failures(results: Path) -> dict[str, str]:
    """The reason of everything that did not run in its last run, as far as it was noted."""
    path = results / FAILURES_FILE
    if not path.exists():
        return {}
    try:
        return {name: str(why) for name, why in parse_json(path.read_bytes()).items()}
    except (ValueError, AttributeError) as error:
        raise DataError(f"{path} is no list of reasons ({error}); delete it") from None


# The files of encoders as they are now


@dataclass(frozen=True)
class EncoderNow:
    """The key that an encoder's files give now, and the options of a run that names these files."""

    key: str
    options: str = ""


@dataclass
class EncodersNow:
    """The encoders of cells as their files are now, as far as these are on this machine.

    `places` are those of the command line; an encoder given by hand to the run alone is where it
    was then. Nothing is written, and of large files the digests that runs have noted are believed.
    """

    registry: Registry
    places: Places
    runs: Path
    identified: dict[tuple[str, int], EncoderNow | None] = field(default_factory=dict)

    @cached_property
    def by_hand(self) -> Mapping[str, Path]:
        """The folders and files of the encoders given by hand, by name."""
        return {**Store(self.runs).encoders(), **self.places.encoders}

    def of(self, cell: Cell) -> EncoderNow | None:
        """The encoder of a cell; None where its files are not here."""
        parts = MethodId.parse(cell.method)
        if parts is None:
            return None
        # Any other pooling reads the same files, and may be of a plug-in that is not loaded.
        own = parts.pooling.partition(":")[0] == NATIVE.name
        read_by = f"{parts.encoder}.{parts.pooling if own else MEAN.name}"
        if (read_by, cell.seed) not in self.identified:
            self.identified[read_by, cell.seed] = self._identify(read_by, cell.seed)
        return self.identified[read_by, cell.seed]

    def _identify(self, read_by: str, seed: int) -> EncoderNow | None:
        name = base_name(read_by.partition(".")[0])
        path, registry, options = self.by_hand.get(name), self.registry, ""
        if path is not None:
            if not path.exists():
                return None
            options = f"--encoder {shlex.quote(f'{name}={path}')} "
        try:
            if path is not None and name not in registry.encoders:
                registry = registry.with_encoders([config_for(name, str(path), path)])
            config = registry.parse(read_by).encoder.member(seed)
            if isinstance(config, FunctionConfig):
                return None  # it has no files
            places = replace(self.places, encoders=self.by_hand)
            identity = places.identify(config, places.encoder(config), writable=False)
        except AssetMissing:
            return None
        except HarnessError as error:
            # A registered encoder that is unknown here is one of a plug-in.
            return EncoderNow(f"none: {error}", options) if path is not None else None
        return EncoderNow(identity.key, options)


# A run against the committed results

AGAIN = "harness run --gate measures again"


@dataclass(frozen=True)
class Report:
    """The answer. Its exit status is 1 if anything moved, else 3 or 0."""

    encoders: tuple[Checked, ...]
    cells: tuple[Checked, ...]

    @property
    def exit_status(self) -> int:
        counted = (check for check in (*self.encoders, *self.cells) if check.counts)
        return min(filter(None, (check.state.exit_status for check in counted)), default=0)


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
        return {cell_of(record): record for record in Store(self.runs).records()}

    def wanted(self, methods: Sequence[str] = (), tasks: Sequence[str] = ()) -> tuple[Cell, ...]:
        """The quick set and whatever the run holds, or what patterns select of it.

        A method and a task given by their ids are wanted even where there is no record of them.
        """
        pool = list(dict.fromkeys((*self.rules.quick_cells, *self.records)))
        known_tasks = {**load_registry().tasks_by_name, **{cell.task: None for cell in pool}}
        for name in (task for task in tasks if not is_glob(task)):
            look_up("task", name, known_tasks)
        held = {(cell.method, cell.task) for cell in pool}
        ids = [(m, t) for m in methods for t in tasks if not is_glob(m) and not is_glob(t)]
        pool += [Cell(*address) for address in ids if address not in held]
        chosen = [
            cell
            for cell in pool
            if any(fnmatchcase(cell.method, pattern) for pattern in methods or ("*",))
            and any(fnmatchcase(cell.task, pattern) for pattern in tasks or ("*",))
        ]
        if not chosen:
            raise UsageError(
                f"nothing to check: {self.runs} holds no record of it and {self.committed / GATE} "
                "names none; harness run --gate measures"
            )
        return tuple(chosen)

    def check(
        self,
        cells: Sequence[Cell],
        data_dir: Path | None = None,
        margin: float | None = None,
        encoder_now: Callable[[Cell], EncoderNow | None] = lambda _: None,
        plugins: Mapping[str, str] | None = None,
    ) -> Report:
        """Compare cells of the run with the committed ones, and their encoders' golden vectors.

        Pairs that moved have their sentences where these are embedded, or in the data folder. With
        a margin, in points, a cell may move as it likes, but for a fall beyond it or beyond its own
        tolerance. `encoder_now` gives a cell's encoder as its files are now, where that is known,
        and `plugins` are the digests of plug-ins now: records of others are not looked at.
        """
        if margin is not None and not 0 <= margin < math.inf:
            raise UsageError(f"--fail-below {margin}: wanted 0 points or more, as 0.5")
        base = Results.read(Store(self.committed))
        for method, task in self.rules.by_cell:
            if not base.records(method, task):  # a misspelt override loosens nothing
                raise DataError(
                    f"{self.committed / GATE}: wanted overrides of committed cells, found one of "
                    f"{method} on {task}, which has no record; correct it, or remove it"
                )
        failures = read_failures(self.runs)
        outdated = self._outdated(cells, encoder_now, plugins or {})
        encoders: dict[str, Checked | None] = {}
        for name in dict.fromkeys(subject(cell.method) for cell in cells):
            of_encoder = [cell for cell in cells if subject(cell.method) == name]
            recorded = [self.records[cell] for cell in of_encoder if cell in self.records]
            keys = {record.digests.get("encoding") for record in recorded}
            check = self._encoder(name, failures.get(GOLDEN_NOTE.format(name), ""), keys)
            now = {encoder for cell in of_encoder if (encoder := encoder_now(cell))}
            for encoder in now if check is not None and keys else ():
                if encoder.key not in keys:
                    again = f"harness run --gate {encoder.options}measures again"
                    why = f"its files have changed since the run; {again}"
                    check = Checked(name, State.NOT_MEASURED_AGAIN, why)
            if check is not None and check.moved and margin is not None:
                check = replace(check, counts=False)
            encoders[name] = check
        loader = TaskLoader(Places(cache=Path(), data_dir=data_dir), {})
        checks = []
        for cell in cells:
            missing = "" if cell in self.records else f"{self.runs} holds no record"
            if why := failures.get(str(cell), missing):
                checks.append(_unjudged(cell, State.COULD_NOT_RUN, why, base))
                continue
            if why := outdated.get(cell, ""):
                checks.append(_unjudged(cell, State.NOT_MEASURED_AGAIN, why, base))
                continue
            check = self._cell(cell, base, encoders[subject(cell.method)], margin)
            similarities = Store(self.runs).cosines(cell)  # DataError where they were changed
            if check.state is not State.AGREES:
                pairs = self._pairs(self.records[cell], similarities, loader)
                check = replace(check, pairs=pairs)
            checks.append(check)
        return Report(tuple(filter(None, encoders.values())), tuple(checks))

    def _cell(
        self, cell: Cell, base: Results, encoder: Checked | None, margin: float | None
    ) -> Checked:
        """The check of a cell that ran, beside that of its encoder."""
        check = compare_record(self.records[cell], base, self.rules)
        if margin is None:
            return replace(check, state=moved_part(check, encoder))
        override = self.rules.by_cell.get((cell.method, cell.task))
        return with_margin(check, override.tolerance if override else margin)

    def _outdated(
        self,
        cells: Iterable[Cell],
        encoder_now: Callable[[Cell], EncoderNow | None],
        plugins: Mapping[str, str],
    ) -> dict[Cell, str]:
        """Why records by other code, other plug-ins or other encoders are not looked at."""
        reasons, runs = {}, Store(self.runs)
        for cell in (cell for cell in cells if cell in self.records):
            record, encoder = self.records[cell], encoder_now(cell)
            again = f"-m {cell.method} -t {cell.task} measures again"
            if encoder is not None and encoder.key != record.digests.get("encoding"):
                run = f"harness run {encoder.options}{again}"
                reasons[cell] = f"its encoder's files have changed since its record; {run}"
            for name, sha256 in plugins.items():
                if record.digests.get(f"plugin {name}", sha256) != sha256:
                    changed = f"its plug-in {name} has changed since its record"
                    reasons[cell] = f"{changed}; harness run {again}"
            measured = sidecar_metadata(runs.path(cell).with_suffix(".safetensors"))
            if measured.get("code", code_digest()) != code_digest():
                run = f"harness run --gate {encoder.options if encoder else ''}measures again"
                reasons[cell] = f"its record is of an earlier run, by other code; {run}"
        return reasons

    def _encoder(self, name: str, reason: str, keys: Collection[str | None]) -> Checked | None:
        """The check of an encoder's golden vectors; None where there are none on either side.

        `reason` says why the run has none, and `keys` are those of the encodings that its cells
        were measured with.
        """
        old, new = read_golden(self.committed, name), read_golden(self.runs, name)
        if old is None and new is None and not reason:
            return None
        if old is None:
            missing = f"{golden_path(self.committed, name)} is missing; {PROMOTE}"
            return Checked(name, State.NO_BASELINE, missing)
        path = golden_path(self.runs, name)
        if new is None:
            return Checked(name, State.COULD_NOT_RUN, reason or f"{path} is missing; {AGAIN}")
        if new.code not in ("", code_digest()) or (keys and new.key not in keys):
            outdated = f"{path} is of an earlier run; {AGAIN}"
            state = State.COULD_NOT_RUN if reason else State.NOT_MEASURED_AGAIN
            return Checked(name, state, reason or outdated)
        return check_encoder(old, new)

    def _pairs(self, record: Record, similarities: Any, loader: TaskLoader) -> tuple[PairMove, ...]:
        """The pairs whose rank moved most, where similarities of the same pairs are committed.

        With their sentences, if these are at hand and the very ones that were scored.
        """
        old = read_pairs(self.committed, cell_of(record))
        if old is None or similarities is None or len(old) != len(similarities):
            return ()
        moved, task = most_moved(old, similarities), load_registry().tasks.get(record.task)
        try:
            inputs = loader.texts(task) if task else None
        except HarnessError:
            return moved
        if inputs is None or inputs.digests["data"] != record.digests.get("data"):
            return moved
        a, b = inputs.pairs.a, inputs.pairs.b
        return tuple(replace(m, texts=(a[m.pair - 1], b[m.pair - 1])) for m in moved)


def _unjudged(cell: Cell, state: State, why: str, base: Results) -> Checked:
    """The check of a cell that this run has no answer for; without a baseline, that is said."""
    if base.records(cell.method, cell.task):
        return Checked(str(cell), state, why)
    missing = f"there is no committed record; {PROMOTE}; here, {why}"  # the worse news
    return Checked(str(cell), State.NO_BASELINE, missing)


def render_report(report: Report, gate: Gate, width: int | None = None) -> str:
    """What needs attention, then a line of counts, folded to the width of a terminal."""
    lines: list[str] = []
    counts: dict[State, list[str]] = {}
    for what, checks in (("encoder", report.encoders), ("cell", report.cells)):
        for check in checks:
            if check.state is not State.AGREES or check.notable:
                lines += str(check).splitlines()
        for state, number in Counter(check.state for check in checks).items():
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
        new, old = read_golden(runs, encoder), read_golden(committed, encoder)
        if new and (old is None or check_encoder(old, new).state is not State.AGREES):
            write_golden(committed, new)
            changed += 1
    return changed


# Similarities that agree to here are the same: encoders repeat their coordinates to 4e-7, and a
# calibration may stretch that.
SAME = 1e-5


def promote_pairs(cell: Cell, runs: Path, committed: Path) -> bool:
    """Copy a cell's similarities from a run; those that agree stay as they are."""
    source = Store(runs).path(cell).with_suffix(".safetensors")
    target = Store(committed).quick_path(cell)
    new, old = Store(runs).cosines(cell), read_pairs(committed, cell)
    if new is None:
        return False
    measured, kept = ({**sidecar_metadata(path), "code": ""} for path in (source, target))
    same_pairs = old is not None and measured == kept and old.shape == new.shape
    if same_pairs and np.abs(old - new).max(initial=0.0) <= SAME:
        return False
    write_atomically(target, source.read_bytes())
    return True


def read_pairs(results: Path, cell: Cell) -> Float[np.ndarray, " P"] | None:
    """The committed similarities of a cell, or None where there are no whole ones of it."""
    try:
        return read_similarities(Store(results).quick_path(cell), cell)
    except DataError:
        return None
