"""Rehearsal: each published cell that can run is run, on stand-ins of weights that cannot be had.

    python tools/rehearse.py [--jobs N] [--folder SCRATCH]

`harness reproduce --profile papers --limit 20` runs over thin stand-ins of all encoders
(`stand_ins.py`) in a scratch folder; cells that want more rows are run again with more.
Scores mean nothing and are not kept. What is kept, in `results/records/rehearsal.json`,
is which commit could run which cells; a page counts published numbers by it. The data
sets of the tasks must be in HARNESS_DATA_DIR: their splits are pinned, and have no
stand-ins.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from stand_ins import WORD_VECTORS, make_data, make_encoder

from harness.assets.places import Places, assets_of, packaged
from harness.core.digests import digest_of
from harness.core.environment import commit
from harness.core.errors import HarnessError
from harness.core.hardware import base_name
from harness.core.interfaces import VectorFile
from harness.core.json_text import write_sealed
from harness.evaluation.select import PlannedCell, profile
from harness.gate.failures import read_failures
from harness.registry import Registry, load_registry
from harness.results.layout import PAPERS, REHEARSAL
from harness.results.published_tables import load_tables
from harness.results.questions import Rehearsal
from harness.results.records import Cell, Store

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
FIRST = 20  # rows of a split, which are enough for most cells
# Whitening to 384 directions wants as many sentences, a classifier ten of TREC's rarest
# class.
MORE = (450, 800)
UNDERSTOOD = (0, 1, 3)  # exit statuses: fine, a cell failed, an asset is missing


def published_cells(registry: Registry) -> tuple[PlannedCell, ...]:
    """The cells of `harness reproduce --profile papers --seeds 1`."""
    return profile(registry, "papers", RESULTS / PAPERS, seeds=1)


def digest_of_cells(cells: Iterable[PlannedCell]) -> str:
    """What tells a rehearsal of these cells from one of others."""
    return digest_of(sorted(str(cell.address) for cell in cells))


def numbers_without(failed: Iterable[PlannedCell]) -> int:
    """How many published numbers have a method here, and none of these cells."""
    unrun = {(cell.method.id, cell.task.name) for cell in failed}
    every = (cell for table in load_tables(RESULTS / PAPERS) for cell in table.cells)
    runnable = (cell for cell in every if cell.why_not is None)
    return sum(
        not unrun & {(cell.method, task) for task in cell.tasks} for cell in runnable
    )


@dataclass(frozen=True)
class Scratch:
    """A folder with data, cache and records of its own, and the stand-ins by name.

    `aliases` are the names of those whose weights are pinned by digest: no stand-in can
    have it, so theirs are encoders of their own, as any copy by hand would be.
    """

    folder: Path
    jobs: int
    encoders: Mapping[str, Path]
    aliases: Mapping[str, str]

    def harness(self, command: str, limit: int, *words: str) -> None:
        """Run a command of the harness. Raises HarnessError where more than cells went wrong."""
        options = {
            "limit": limit,
            "seeds": 1,
            "jobs": self.jobs,
            "output": self.folder / "runs",
            "cache": self.folder / "cache",
            "data-dir": self.folder / "data",
            "baseline": RESULTS,
        }
        line = [sys.executable, "-m", "harness", command, "--quiet", *words]
        line += [
            word
            for name, value in options.items()
            for word in (f"--{name}", str(value))
        ]
        line += [
            "--encoder",
            *(f"{name}={path}" for name, path in self.encoders.items()),
        ]
        ours = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(  # noqa: S603 - the harness itself
            line, env=os.environ | ours, capture_output=True, text=True, check=False
        )
        if done.returncode not in UNDERSTOOD:
            raise HarnessError(
                f"harness {command}: status {done.returncode}: {done.stderr[-2000:]}"
            )

    def run(self, cells: Iterable[PlannedCell], limit: int) -> None:
        """Run these cells, those of methods with the same tasks together."""
        tasks: dict[str, list[str]] = {}
        for cell in cells:
            tasks.setdefault(self._method(cell), []).append(cell.task.name)
        methods: dict[tuple[str, ...], list[str]] = {}
        for method, its in tasks.items():
            methods.setdefault(tuple(its), []).append(method)
        for its, group in methods.items():
            self.harness("run", limit, "-m", *group, "-t", *its)

    def failures(
        self, cells: Iterable[PlannedCell], limit: int
    ) -> dict[PlannedCell, str]:
        """The cells without a record of so many rows, and why."""
        folder = self.folder / "runs" / f"limit-{limit}"
        store, reasons = Store(folder), read_failures(folder)
        failed = {}
        for cell in cells:
            limited = Cell(
                self._method(cell), f"{cell.task.name}.limit-{limit}", cell.seed
            )
            if store.read(limited) is None:
                failed[cell] = reasons.get(str(limited), "it was not reached")
        return failed

    def _method(self, cell: PlannedCell) -> str:
        name = base_name(cell.method.encoder.name)
        return self.aliases.get(name, name) + cell.method.id.removeprefix(name)


def make_scratch(
    folder: Path, data: Path, jobs: int, cells: Iterable[PlannedCell]
) -> Scratch:
    """Stand-ins of everything that these cells read, but what is pinned and on this machine."""
    make_data(data, folder / "data")
    registry, encoders, aliases = load_registry(), {}, {}
    for name in dict.fromkeys(base_name(cell.method.encoder.name) for cell in cells):
        config = registry.encoders[name]
        if isinstance(config.source, VectorFile) or packaged(config):
            continue
        if getattr(config, "weights_sha256", None):
            aliases[name] = f"stand-in-{name}"
        encoders[aliases.get(name, name)] = make_encoder(config, folder / "encoders")
    return Scratch(folder, jobs, encoders, aliases)


def missing_data(data: str, cells: Iterable[PlannedCell]) -> list[str]:
    """The assets that the data folder lacks and that have no stand-in."""
    if not data:
        return ["all data"]
    places = Places(cache=Path(data), data_dir=Path(data))
    names = {cell.task.asset: None for cell in cells}
    names |= {a.name: None for cell in cells for a in assets_of(cell.method.encoder)}
    return [
        name for name in names if name not in WORD_VECTORS and not places.has_data(name)
    ]


def rehearse(
    scratch: Scratch, cells: tuple[PlannedCell, ...]
) -> dict[PlannedCell, str]:
    """Run all cells; those that could not be run with any number of rows, and why."""
    scratch.harness("reproduce", FIRST, "--profile", "papers")
    left = scratch.failures(cells, FIRST)
    aliased = [
        cell for cell in left if base_name(cell.method.encoder.name) in scratch.aliases
    ]
    if aliased:
        scratch.run(aliased, FIRST)
        left = scratch.failures(left, FIRST)
    for limit in MORE:
        if left:
            scratch.run(left, limit)
            left = scratch.failures(left, limit)
    return left


def main() -> None:
    """Rehearse and write the record; status 1 if a cell could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="an empty folder, which stays")
    options, started = parser.parse_args(), perf_counter()
    registry = load_registry()
    cells, data = published_cells(registry), os.environ.get("HARNESS_DATA_DIR", "")
    if missing := missing_data(data, cells):
        print(
            f"not rehearsed: HARNESS_DATA_DIR={data} lacks {', '.join(missing)}; harness fetch"
        )
        return
    code = commit()
    with TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        failed = rehearse(make_scratch(folder, Path(data), options.jobs, cells), cells)
    reasons = {str(cell.address): why for cell, why in failed.items()}
    for cell, why in reasons.items():
        print(f"{cell}: {why}")
    numbers = numbers_without(failed)
    record = Rehearsal(
        commit=code["commit"],
        dirty=code["dirty"],
        cells=len(cells),
        numbers=numbers,
        digest=digest_of_cells(cells),
        failed=reasons,
    )
    write_sealed(RESULTS / REHEARSAL, asdict(record))
    ran = f"{len(cells) - len(failed):,} of {len(cells):,} cells ran"
    took = f"{perf_counter() - started:.0f} s"
    print(f"{ran}, and with them {numbers:,} published numbers, in {took}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
