"""Changes one rule of a copy of the code at a time, and sees that a test fails: `make mutants`.

With `ARGS='--tally results/questions/reliability.toml'` the counts go to the page of reliability.

`tests/mutants.toml` has a mutant an entry, under the room it is of: a text that stands once in the
code, the text written in its place, and the test that fails then. Which file holds the text is
found, so that code may move from one file to another. Exit status: 0 all are killed, 1 one survives
(its rule is held by no test) or cannot be tried.
"""

import argparse
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import scipy.stats  # noqa: F401 - loaded for the processes that are forked from this one
import sklearn.model_selection  # noqa: F401 - the same
import torch  # noqa: F401 - the same
import transformers  # noqa: F401 - the same

ROOT = Path(__file__).resolve().parents[1]
CODE = ("harness", "baselines")
COPIED = (*CODE, "tests")
SKIPPED = (*COPIED, ".git", ".venv", "runs", "build")  # all else is linked to
OUTPUT = "output.txt"
LONGEST = 300  # seconds of a test; one that a mutant keeps from ending has noticed it
TOGETHER = 16  # tests that run in one process without a mutant


@dataclass(frozen=True)
class Mutant:
    """A text of the code, what is written in its place, and the node ids of tests that notice."""

    room: str
    name: str
    old: str
    new: str
    test: str

    def file(self) -> Path:
        """The file that holds the text, below ROOT. Raises ValueError unless it stands once."""
        sources = [path for name in CODE for path in (ROOT / name).rglob("*.py")]
        found = [path for path in sources for _ in range(path.read_text().count(self.old))]
        if len(found) != 1:
            places = ", ".join(str(path.relative_to(ROOT)) for path in found) or "no file"
            raise ValueError(
                f"{self.name}: wanted its old text once in the code, found it in {places}; "
                "correct tests/mutants.toml"
            )
        return found[0].relative_to(ROOT)


def read_mutants() -> list[Mutant]:
    """The committed list."""
    rooms = tomllib.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))
    return [Mutant(room, **entry) for room, entries in rooms.items() for entry in entries]


def copy_to(folder: Path) -> Path:
    """The project in a folder: its Python files as copies, and links to all else."""

    def copied(source: str, target: str) -> None:
        place = shutil.copy2 if source.endswith((".py", ".pyc")) else os.symlink
        place(source, target)

    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, copy_function=copied)
    for path in ROOT.iterdir():
        if path.name not in SKIPPED:
            (folder / path.name).symlink_to(path)
    return folder


def write(path: Path, text: str) -> None:
    """Write code, and remove what was compiled of it.

    Python takes compiled code of the same second and length for that of the file.
    """
    path.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def start(folder: Path, tests: Sequence[str]) -> int:
    """A process that runs tests in a copy, to the first that fails; returns its id.

    It is forked from this one, which has loaded what most tests load for seconds.
    """
    if child := os.fork():
        return child
    status = 70  # of an error of this very function
    try:
        os.chdir(folder)
        os.environ |= {"PYTHONPATH": str(folder)}
        sys.path.insert(0, str(folder))
        with (folder / OUTPUT).open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        signal.alarm(LONGEST)
        # Assertions are rewritten on import only, and some plugins are loaded here by now.
        options = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist")
        status = pytest.main([*options, *tests])
    finally:
        if status == 70:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)


def outcomes(mutants: Sequence[Mutant], folders: Sequence[Path]) -> Iterator[tuple[Mutant, str]]:
    """What becomes of each mutant, tried in these copies: `killed`, `survived`, or why neither."""
    left, running = list(reversed(mutants)), {}
    free = list(folders)
    while left or running:
        while left and free:
            mutant, folder = left.pop(), free.pop()
            try:
                path = folder / mutant.file()
            except ValueError as error:
                free.append(folder)
                yield mutant, str(error)
                continue
            original = path.read_text(encoding="utf-8")
            write(path, original.replace(mutant.old, mutant.new))
            running[start(folder, mutant.test.split())] = mutant, folder, path, original
        if running:
            child, ended = os.wait()
            mutant, folder, path, original = running.pop(child)
            write(path, original)
            free.append(folder)
            status = os.waitstatus_to_exitcode(ended)
            known = {0: "survived", 1: "killed", -signal.SIGALRM: "killed"}
            output = (folder / OUTPUT).read_text(encoding="utf-8")[-1000:]
            yield mutant, known.get(status) or f"{mutant.test} does not run:\n{output}"


def require_passing(mutants: Sequence[Mutant], folders: Sequence[Path]) -> None:
    """Refuse tests that fail without any mutant, several in a process. Raises RuntimeError."""
    nothing = replace(mutants[0], name="none", new=mutants[0].old)
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.test.split()))
    parts = [" ".join(tests[start : start + TOGETHER]) for start in range(0, len(tests), TOGETHER)]
    for part, outcome in outcomes([replace(nothing, test=part) for part in parts], folders):
        if outcome != "survived":
            raise RuntimeError(f"one of {part.test} fails without a mutant: {outcome}")


def main() -> None:
    """Try the mutants that are named, or all of them, and say what became of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", help="parts of names, or rooms; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    parser.add_argument("--tally", type=Path, help="store the counts beside this file of attacks")
    given, began = parser.parse_args(), time.monotonic()
    every = read_mutants()
    parts = given.part or [""]
    chosen = [m for m in every if any(part == m.room or part in m.name for part in parts)]
    counts = {"killed": 0, "survived": 0, "not tried": 0}
    alive: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folders = [copy_to(Path(scratch, str(number))) for number in range(given.jobs)]
        require_passing(chosen, folders)
        for mutant, found in outcomes(chosen, folders):
            counts[found if found in counts else "not tried"] += 1
            line = f"{mutant.room}: {mutant.name}: {found}"
            alive += [line] * (found != "killed")
            print(line, flush=True)
    print(*alive, f"{counts} in {time.monotonic() - began:.0f} s", sep="\n")
    if given.tally and chosen == every:
        sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
        from measured_pages import Attempts, write_attempts

        from harness.core.environment import commit

        killed, survived = counts["killed"], counts["survived"]
        made = Attempts(refused=killed, silent=survived, commit=commit()["commit"])
        write_attempts(given.tally, "mutant", "rules of the code", made)
    sys.exit(counts["killed"] < len(chosen))


if __name__ == "__main__":
    main()
