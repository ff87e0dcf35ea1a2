"""Changes one rule of a copy of the code at a time, and sees that a test fails: `make mutants`.

`tests/mutants.toml` names the rules: a function, what is changed in it
(`tools/mutations.py`), and the tests that fail then. Without arguments those mutants
are tried whose code, tests or entry changed since the branch left `main` (on `main`:
since the commit before its last), as many as two minutes allow. Exit status: 0 all that
were tried are killed; 1 one survives (its rule is held by no test), or cannot be tried.

    python tools/mutants.py                  # of what has changed
    python tools/mutants.py --all
    python tools/mutants.py results seeds    # of a room, a module, or a rule with that word

`--all --tally results/questions/reliability.toml` stores the counts for the page of
reliability.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import scipy.stats  # noqa: F401 - loaded for the processes that are forked from this one
import sklearn.model_selection  # noqa: F401 - the same
import torch  # noqa: F401 - the same
import transformers  # noqa: F401 - the same
from mutations import Mutation, Place, find_place, mutated

ROOT = Path(__file__).resolve().parents[1]
LIST = "tests/mutants.toml"
CODE = ("harness", "baselines")
COPIED = (*CODE, "tests")
SKIPPED = (*COPIED, ".git", ".venv", "runs", "build")  # all else is linked to
OUTPUT = "output.txt"
LONGEST = 300  # seconds of a test; one that a mutant keeps from ending has noticed it
BATCH = 32  # mutants whose tests must pass without them, before they are tried
SECONDS = 100  # after which no more batch is begun of what has changed


@dataclass(frozen=True)
class Mutant:
    """A rule of the code, what breaks it, and the tests that fail then.

    `of` is a module, or `module:function`; the rest is of a `Mutation`.
    """

    rule: str
    of: str
    change: str
    tests: tuple[str, ...]
    at: str = ""
    near: str = ""
    nth: int = 0
    to: str = ""

    @property
    def module(self) -> str:
        return self.of.partition(":")[0]

    @property
    def room(self) -> str:
        """The folder or module of harness/ that it is of, or `baselines`."""
        top, _, rest = self.module.partition(".")
        return rest.partition(".")[0] if top == "harness" else top

    @property
    def mutation(self) -> Mutation:
        function = self.of.partition(":")[2]
        return Mutation(function, self.change, self.at, self.near, self.nth, self.to)

    @property
    def file(self) -> str:
        """The file of the module, below ROOT. Raises LookupError."""
        path = self.module.replace(".", "/")
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if (ROOT / file).is_file():
                return file
        raise LookupError(f"found no module {self.module}")

    def place(self) -> Place:
        """The syntax node that it changes. Raises LookupError where there is none, or several."""
        try:
            return find_place(_parsed(self.file), self.mutation)
        except LookupError as error:
            raise LookupError(
                f"{self.rule}: {self.of}: {error}; correct {LIST}"
            ) from None


@cache
def _parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def read_mutants() -> list[Mutant]:
    """The committed list."""
    return [
        mutant_of(entry)
        for entry in _entries((ROOT / LIST).read_text(encoding="utf-8"))
    ]


def _entries(text: str) -> list[dict[str, Any]]:
    return tomllib.loads(text).get("mutant", [])


def mutant_of(entry: Mapping[str, Any]) -> Mutant:
    """An entry of the list."""
    return Mutant(**{**entry, "tests": tuple(entry["tests"])})


def changed_since(base: str) -> list[Mutant]:
    """The mutants whose entry, code or tests differ from those of a commit, in that order."""
    files = {
        *_git("diff", "--name-only", base),
        *_git("ls-files", "-o", "--exclude-standard"),
    }
    earlier = _entries("\n".join(_git("show", f"{base}:{LIST}")))
    known = (
        {mutant_of(entry) for entry in earlier} if LIST in files else {*read_mutants()}
    )

    def nearness(mutant: Mutant) -> int:
        """0 where the entry has changed, 1 the code, 2 a test, 3 nothing."""
        tests = {test.partition("::")[0] for test in mutant.tests}
        if mutant not in known:
            return 0
        return 1 if mutant.file in files else 2 if tests & files else 3

    near = sorted(read_mutants(), key=nearness)
    return [mutant for mutant in near if nearness(mutant) < 3]


def branch_point() -> str:
    """The commit where this branch left `main`; on `main`, the one before the last."""
    for main in ("main", "origin/main"):
        if found := _git("merge-base", "HEAD", main):
            [head] = _git("rev-parse", "HEAD")
            return found[0] if found[0] != head else "HEAD~1"
    return "HEAD~1"


def _git(*arguments: str) -> list[str]:
    """The lines that git prints; none where it fails."""
    command = ["git", *arguments]
    done = subprocess.run(  # noqa: S603
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


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
        # Assertions are rewritten on import only, and some plugins are loaded here by
        # now.
        options = (
            "-x",
            "-q",
            "--assert=plain",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        )
        status = pytest.main([*options, *tests])
    finally:
        if status == 70:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)


@dataclass(frozen=True)
class Trial:
    """Tests to run with other code in a file; without a file, with the code as it is."""

    tests: tuple[str, ...]
    file: str = ""
    code: str = ""


def statuses(
    trials: Sequence[Trial], folders: Sequence[Path]
) -> Iterator[tuple[Trial, int, str]]:
    """The exit status of each trial, in the order in which they end, and what it printed last."""
    left, running, free = list(reversed(trials)), {}, list(folders)
    while left or running:
        while left and free:
            trial, folder = left.pop(), free.pop()
            path = folder / trial.file if trial.file else None
            original = path.read_text(encoding="utf-8") if path else ""
            if path:
                write(path, trial.code)
            running[start(folder, trial.tests)] = trial, folder, path, original
        child, ended = os.wait()
        trial, folder, path, original = running.pop(child)
        if path:
            write(path, original)
        free.append(folder)
        printed = (folder / OUTPUT).read_text(encoding="utf-8")[-1000:]
        yield trial, os.waitstatus_to_exitcode(ended), printed


def require_passing(mutants: Sequence[Mutant], folders: Sequence[Path]) -> None:
    """Refuse tests that fail without any mutant. Raises RuntimeError.

    The code is then as `ast.unparse` writes it, as it is with a mutant, so that a test
    that fails for its layout is not taken for one that notices the mutant.
    """
    for folder in folders:
        for file in {mutant.file for mutant in mutants}:
            write(folder / file, ast.unparse(_parsed(file)))
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    shares = [tuple(tests[number :: len(folders)]) for number in range(len(folders))]
    for trial, status, printed in statuses([Trial(s) for s in shares if s], folders):
        if status:
            raise RuntimeError(
                f"one of {trial.tests} fails without a mutant:\n{printed}"
            )


KNOWN = {0: "survived", 1: "killed", -signal.SIGALRM: "killed"}


def outcomes(
    mutants: Sequence[Mutant], folders: Sequence[Path]
) -> Iterator[tuple[Mutant, str]]:
    """What becomes of each mutant, tried in these copies: `killed`, `survived`, or why neither."""
    trials: dict[Trial, Mutant] = {}
    for mutant in mutants:
        try:
            mutant.place()
            code = mutated(
                (ROOT / mutant.file).read_text(encoding="utf-8"), mutant.mutation
            )
            trials[Trial(mutant.tests, mutant.file, code)] = mutant
        except LookupError as error:
            yield mutant, str(error)
    for trial, status, printed in statuses(list(trials), folders):
        yield (
            trials[trial],
            KNOWN.get(status) or f"{trial.tests} do not run:\n{printed}",
        )


def chosen_of(given: argparse.Namespace) -> list[Mutant]:
    """The mutants that the command line means."""
    if given.all:
        return read_mutants()
    if given.part:
        return [
            mutant
            for mutant in read_mutants()
            if any(
                part in (mutant.room, mutant.module) or part in mutant.rule
                for part in given.part
            )
        ]
    return changed_since(branch_point())


def main() -> None:
    """Try the mutants that are meant, and say what became of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="*", help="rooms, modules, or words of rules")
    parser.add_argument("--all", action="store_true", help="all, however long it takes")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    parser.add_argument(
        "--tally", type=Path, help="store the counts beside this file of attacks"
    )
    given, began = parser.parse_args(), time.monotonic()
    left = chosen_of(given)
    is_limited = not (given.all or given.part)
    counts = {"killed": 0, "survived": 0, "not tried": 0}
    alive: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folders = [copy_to(Path(scratch, str(number))) for number in range(given.jobs)]
        while left and not (is_limited and time.monotonic() - began > SECONDS):
            batch, left = left[:BATCH], left[BATCH:]
            require_passing(batch, folders)
            for mutant, found in outcomes(batch, folders):
                counts[found if found in counts else "not tried"] += 1
                line = f"{mutant.of}: {mutant.rule}: {found}"
                alive += [line] * (found != "killed")
                print(line, flush=True)
    print(*alive, f"{counts} in {time.monotonic() - began:.0f} s", sep="\n")
    if left:
        print(f"{len(left)} more are of what has changed; --all tries them")
    if given.tally and given.all:
        tally(given.tally, counts)
    sys.exit(bool(alive))


def tally(attacks: Path, counts: Mapping[str, int]) -> None:
    """Store the counts as attempts of the attack `mutant`."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
    from measurements import write_attempts

    from harness.core.environment import commit
    from harness.report.measured import Attempts

    made = Attempts(
        refused=counts["killed"], silent=counts["survived"], commit=commit()["commit"]
    )
    write_attempts(attacks, "mutant", "rules of the code", made)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(str(error))
