"""Rehearsal: run every published cell that can run, on stand-ins of the weights.

    python tools/rehearse.py [--jobs N]

`harness reproduce --profile papers --limit 20` is run in a scratch folder, over small
stand-ins of all encoders (tests/support/stand_ins.py). Cells that need more rows are run
again with more. Scores mean nothing and are not kept. `results/records/rehearsal.json`
says with which commit which cells could run, and pages count published numbers by it.
The data sets of the tasks must be in HARNESS_DATA_DIR: there are no stand-ins of them,
since their splits are pinned.
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

from harness.core.digests import digest_of
from harness.core.environment import commit
from harness.core.errors import HarnessError
from harness.core.files import write_json
from harness.core.hardware import base_name
from harness.core.interfaces import VectorFile
from harness.data.places import Places, assets_of, packaged
from harness.evaluation.select import PlannedCell, profile
from harness.registry import Registry, load_registry
from harness.results.layout import PAPERS, REHEARSAL
from harness.results.published_tables import load_tables
from harness.results.records import Cell
from harness.results.reproduction import Rehearsal
from harness.results.store import Store, read_failures

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from stand_ins import WORD_VECTORS, make_data, make_encoder

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
FIRST = 20  # rows of a split, which are enough for most cells
# Whitening to 384 directions needs as many sentences, and a classifier needs ten of the
# rarest class of TREC.
MORE = (450, 800)
EXPECTED_STATUSES = (0, 1, 3)  # fine, a cell failed, an asset is missing


def published_cells(registry: Registry) -> tuple[PlannedCell, ...]:
    """The cells of `harness reproduce --profile papers --seeds 1`."""
    return profile(registry, "papers", RESULTS / PAPERS, seeds=1)


def digest_of_cells(cells: Iterable[PlannedCell]) -> str:
    """A digest of the cells, by which a record says what was rehearsed."""
    return digest_of(sorted(str(cell.address) for cell in cells))


def numbers_without(failed: Iterable[PlannedCell]) -> int:
    """How many published numbers have a method here, and depend on none of these cells."""
    failed_cells = {(cell.method.id, cell.task.name) for cell in failed}
    count = 0
    for table in load_tables(RESULTS / PAPERS):
        for number in table.numbers:
            cells = {(number.method, task) for task in number.tasks}
            if number.why_not is None and not cells & failed_cells:
                count += 1
    return count


@dataclass(frozen=True)
class Scratch:
    """A folder with data, cache and records of its own, and the stand-ins.

    Attributes:
        folder: The folder.
        jobs: The number of processes.
        encoders: The folders of the stand-ins, by the names that they run under.
        aliases: The names that stand-ins run under where the encoder's own name demands a
            digest or an architecture, which no stand-in has.
    """

    folder: Path
    jobs: int
    encoders: Mapping[str, Path]
    aliases: Mapping[str, str]

    def harness(self, command: str, limit: int, *words: str) -> None:
        """Run a command of the harness on the stand-ins.

        A cell may fail. Raises HarnessError if anything else went wrong.
        """
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
        for name, value in options.items():
            line += [f"--{name}", str(value)]
        for name, path in self.encoders.items():
            line += ["--encoder", f"{name}={path}"]
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(  # noqa: S603 - the harness itself
            line, env=variables, capture_output=True, text=True, check=False
        )
        if done.returncode not in EXPECTED_STATUSES:
            raise HarnessError(
                f"harness {command}: status {done.returncode}: {done.stderr[-2000:]}"
            )

    def run(self, cells: Iterable[PlannedCell], limit: int) -> None:
        """Run cells, with one command for all methods that have the same tasks."""
        tasks_of_method: dict[str, list[str]] = {}
        for cell in cells:
            tasks_of_method.setdefault(self._method(cell), []).append(cell.task.name)
        methods_by_tasks: dict[tuple[str, ...], list[str]] = {}
        for method, tasks in tasks_of_method.items():
            methods_by_tasks.setdefault(tuple(tasks), []).append(method)
        for task_names, methods in methods_by_tasks.items():
            self.harness("run", limit, "-m", *methods, "-t", *task_names)

    def failures(
        self, cells: Iterable[PlannedCell], limit: int
    ) -> dict[PlannedCell, str]:
        """The cells without a record under this limit of rows, and why."""
        folder = self.folder / "runs" / f"limit-{limit}"
        store = Store(folder)
        reasons = read_failures(folder)
        failed = {}
        for cell in cells:
            limited = Cell(
                self._method(cell), f"{cell.task.name}.limit-{limit}", cell.seed
            )
            if store.read(limited) is None:
                failed[cell] = reasons.get(str(limited), "it was not reached")
        return failed

    def _method(self, cell: PlannedCell) -> str:
        """The id of a cell's method, by the name that its stand-in runs under."""
        name = base_name(cell.method.encoder.name)
        return self.aliases.get(name, name) + cell.method.id.removeprefix(name)


def make_scratch(
    folder: Path, data: Path, jobs: int, cells: Iterable[PlannedCell]
) -> Scratch:
    """Make stand-ins of the encoders of cells, and a data folder.

    Encoders of packages, and those that are files of the data folder, are read as they
    are.
    """
    make_data(data, folder / "data")
    registry = load_registry()
    encoders: dict[str, Path] = {}
    aliases: dict[str, str] = {}
    names = dict.fromkeys(base_name(cell.method.encoder.name) for cell in cells)
    for name in names:
        config = registry.encoders[name]
        if isinstance(config.source, VectorFile) or packaged(config):
            continue
        if getattr(config, "architecture", None):
            aliases[name] = f"stand-in-{name}"
        encoders[aliases.get(name, name)] = make_encoder(config, folder / "encoders")
    return Scratch(folder, jobs, encoders, aliases)


def missing_data(data: str, cells: Iterable[PlannedCell]) -> list[str]:
    """The assets that the data folder lacks and that have no stand-in."""
    if not data:
        return ["all data"]
    names: dict[str, None] = {}  # each once, in order
    for cell in cells:
        names[cell.task.asset] = None
        for asset in assets_of(cell.method.encoder):
            names[asset.name] = None
    places = Places(cache=Path(data), data_dir=Path(data))
    return [
        name for name in names if name not in WORD_VECTORS and not places.has_data(name)
    ]


def rehearse(
    scratch: Scratch, cells: tuple[PlannedCell, ...]
) -> dict[PlannedCell, str]:
    """Run all cells. Returns those that failed with any number of rows, and why."""
    scratch.harness("reproduce", FIRST, "--profile", "papers")
    failures = scratch.failures(cells, FIRST)
    aliased = []  # the profile does not name the encoders that these run under
    for cell in failures:
        if base_name(cell.method.encoder.name) in scratch.aliases:
            aliased.append(cell)
    if aliased:
        scratch.run(aliased, FIRST)
        failures = scratch.failures(failures, FIRST)
    for limit in MORE:
        if failures:
            scratch.run(failures, limit)
            failures = scratch.failures(failures, limit)
    return failures


def main() -> None:
    """Rehearse and write the record; status 1 if a cell could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    start_time = perf_counter()
    cells = published_cells(load_registry())
    data = os.environ.get("HARNESS_DATA_DIR", "")
    missing = missing_data(data, cells)
    if missing:
        names = ", ".join(missing)
        print(f"not rehearsed: HARNESS_DATA_DIR={data} lacks {names}; harness fetch")
        return
    code = commit()
    with TemporaryDirectory() as folder:
        scratch = make_scratch(Path(folder), Path(data), options.jobs, cells)
        failed = rehearse(scratch, cells)
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
    write_json(RESULTS / REHEARSAL, asdict(record))
    print(
        f"{len(cells) - len(failed):,} of {len(cells):,} cells ran, and with them "
        f"{numbers:,} published numbers, in {perf_counter() - start_time:.0f} s"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
