"""The quick set: its cells, its golden vectors, and what of a run of it is committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.assets.places import Places
from harness.core.errors import HarnessError, UsageError
from harness.core.files import write_atomically
from harness.core.types import EncoderConfig, Family
from harness.evaluation.runner import Outcome
from harness.gate import failures as reasons
from harness.gate import golden_vectors as golden
from harness.gate import pair_drift as pairs
from harness.gate.tolerances import FILE, read_rules
from harness.registry import Registry, known
from harness.results.planned import Planned, by_encoder
from harness.results.records import Store, encode, same_measurement


def quick_set(found: Registry, committed: Path) -> tuple[Planned, ...]:
    """The cells that `gate.toml` names, grouped by encoder and pooling as they are to run."""
    cells = read_rules(committed).quick
    if not cells:
        raise UsageError(
            f"{committed / FILE} names no quick set; name one, or give -m METHOD and -t TASK"
        )
    planned = [
        Planned(found.parse(cell.method), known("task", cell.task, found.tasks), cell.seed)
        for cell in cells
    ]
    return tuple(sorted(planned, key=by_encoder))


def encode_golden(planned: Sequence[Planned], places: Places, results: Path) -> None:
    """Write the golden vectors of every encoder of these cells, or note why there are none.

    An encoder that cannot be asked keeps no vectors of an earlier run. A family has none: its
    members are trained anew, and differ.
    """
    every = (p.method.encoder for p in planned if not isinstance(p.method.encoder, Family))
    encoders: dict[str, EncoderConfig] = {config.name: config for config in every}
    for name, config in encoders.items():
        why = ""
        try:
            golden.write(results, golden.encode(config, places))
        except HarnessError as error:
            golden.path_of(results, name).unlink(missing_ok=True)
            why = str(error)
        reasons.note(results, {golden.what(name): why})


def promote(outcomes: Iterable[Outcome], runs: Path, committed: Path) -> int:
    """Commit records, similarities and golden vectors of a quick run; how many files changed.

    A committed file that agrees with what was measured stays as it is.
    """
    store, changed, encoders = Store(committed), 0, set()
    for cell, record in ((o.cell, o.record) for o in outcomes if o.record):
        encoders.add(golden.encoder_of(cell))
        old = store.read(cell)
        if old is None or not same_measurement(old, record):
            write_atomically(store.path(cell), encode(record))
            changed += 1
        changed += pairs.promote(cell, runs, committed)
    for encoder in sorted(encoders):
        new, kept = golden.read(runs, encoder), golden.read(committed, encoder)
        if new is not None and (kept is None or golden.drift(kept, new).moved):
            golden.write(committed, new)
            changed += 1
    return changed
