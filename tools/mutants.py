"""Changes one rule of a copy of the code at a time, and sees that a test fails: `make mutants`.

`tests/mutants.toml` names the rules: a function, what is changed in it
(`tools/mutations.py`), and the tests that fail then. Without arguments those mutants
are tried whose code, tests or entry changed since the branch left `main` (on `main`:
since the commit before its last), as many as two minutes allow. Exit status: 0 all that
were tried are killed; 1 one survives (its rule is held by no test), or cannot be tried.

    python tools/mutants.py                  # of what has changed
    python tools/mutants.py --all
    python tools/mutants.py results seeds    # of a room, a module, or a rule with that word
"""

from __future__ import annotations

import argparse
import ast
import itertools
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
COPIED = ("harness", "baselines", "tests")
NOT_IN_COPY = (*COPIED, ".git", ".venv", "runs", "build")  # all else is linked to
OUTPUT = "output.txt"
LONGEST = 300  # seconds of a mutant's trial; one that keeps it from ending is killed
BATCH = 32  # mutants that are tried together, once their tests have passed without them
SECONDS = 100  # after these no more batch begins, unless mutants were named


@dataclass(frozen=True)
class Mutant:
    """A rule of the code, a change that breaks it, and the tests that fail then.

    Attributes:
        rule: The rule in words.
        module: The module that has it.
        mutation: The change, and the function of the module that it is in.
        tests: The tests, by their pytest ids.
    """

    rule: str
    module: str
    mutation: Mutation
    tests: tuple[str, ...]

    @property
    def of(self) -> str:
        """The module, or `module:function`, as the list has it."""
        return f"{self.module}:{self.mutation.function}".removesuffix(":")

    @property
    def room(self) -> str:
        """The folder or module of harness/ that has the rule, or `baselines`."""
        top, _, below = self.module.partition(".")
        return below.partition(".")[0] if top == "harness" else top

    @property
    def file(self) -> str:
        """The file of the module, below ROOT. Raises LookupError."""
        path = self.module.replace(".", "/")
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if (ROOT / file).is_file():
                return file
        raise LookupError(f"found no module {self.module}")

    def place(self) -> Place:
        """The syntax node that it changes. Raises LookupError for none, and for several."""
        try:
            return find_place(_parsed(self.file), self.mutation)
        except LookupError as error:
            raise LookupError(
                f"{self.rule}: {self.of}: {error}; correct {LIST}"
            ) from None


@cache
def _parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


# The list, and which of it a command means


def read_mutants(text: str | None = None) -> list[Mutant]:
    """The mutants of a list, by default of the committed one."""
    if text is None:
        text = (ROOT / LIST).read_text(encoding="utf-8")
    return [mutant_of(entry) for entry in tomllib.loads(text).get("mutant", [])]


def mutant_of(entry: Mapping[str, Any]) -> Mutant:
    """The mutant of an entry, whose keys are `rule`, `of`, `tests` and those of a Mutation."""
    settings = dict(entry)
    module, _, function = settings.pop("of").partition(":")
    return Mutant(
        rule=settings.pop("rule"),
        module=module,
        tests=tuple(settings.pop("tests")),
        mutation=Mutation(function=function, **settings),
    )


def chosen_mutants(options: argparse.Namespace) -> list[Mutant]:
    """The mutants that the command line means."""
    if options.all:
        return read_mutants()
    if not options.part:
        return changed_since(branch_point())
    mutants = []
    for mutant in read_mutants():
        for part in options.part:
            if part in (mutant.room, mutant.module) or part in mutant.rule:
                mutants.append(mutant)
                break
    return mutants


def changed_since(base: str) -> list[Mutant]:
    """The mutants whose entry, code or tests differ from those of a commit, in that order."""
    changed_files = {
        *_git("diff", "--name-only", base),
        *_git("ls-files", "-o", "--exclude-standard"),
    }
    earlier = set(read_mutants("\n".join(_git("show", f"{base}:{LIST}"))))
    changed_entries, changed_code, changed_tests = [], [], []
    for mutant in read_mutants():
        test_files = {test.partition("::")[0] for test in mutant.tests}
        if mutant not in earlier:
            changed_entries.append(mutant)
        elif mutant.file in changed_files:
            changed_code.append(mutant)
        elif test_files & changed_files:
            changed_tests.append(mutant)
    return changed_entries + changed_code + changed_tests


def branch_point() -> str:
    """The commit where this branch left `main`; on `main`, the one before the last."""
    for main in ("main", "origin/main"):
        common = _git("merge-base", "HEAD", main)
        if common:
            return "HEAD~1" if common == _git("rev-parse", "HEAD") else common[0]
    return "HEAD~1"


def _git(*arguments: str) -> list[str]:
    """The lines that git prints; none where it fails."""
    command = ["git", *arguments]
    done = subprocess.run(  # noqa: S603
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


# Copies of the project, and processes that run tests in them


def copy_to(folder: Path) -> Path:
    """Make the project in a folder: its Python files as copies, and links to all else."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, copy_function=_copy_or_link)
    for path in ROOT.iterdir():
        if path.name not in NOT_IN_COPY:
            (folder / path.name).symlink_to(path)
    return folder


def _copy_or_link(source: str, target: str) -> None:
    if source.endswith((".py", ".pyc")):
        shutil.copy2(source, target)
    else:
        Path(target).symlink_to(source)


# The times of the files that are written, in seconds: none is that of another.
WRITE_TIMES = itertools.count(1_000_000_000)


def write(path: Path, text: str) -> None:
    """Write code, with a time that no other text of the file has had.

    Python runs a compiled file in place of code of the same second and size, and import
    hooks have compiled files of their own: a mutant would outlive its trial.
    """
    path.write_text(text, encoding="utf-8")
    seconds = next(WRITE_TIMES)
    os.utime(path, (seconds, seconds))


def start(folder: Path, tests: Sequence[str], *, longest: int = 0) -> int:
    """Start a process that runs tests in a copy until one fails; returns its id.

    It is forked from this one, which has loaded the packages that take most of a test's
    time. It is killed after the longest time, in seconds; 0 sets no limit.
    """
    child = os.fork()
    if child:
        return child
    status = 70  # of an error in the lines below
    try:
        os.chdir(folder)
        os.environ |= {"PYTHONPATH": str(folder)}
        sys.path.insert(0, str(folder))
        with (folder / OUTPUT).open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        signal.alarm(longest)
        # Plain assertions, since those of modules that are loaded are not rewritten.
        options = "-x -q --assert=plain -p no:cacheprovider -p no:xdist"
        # A folder of its own: pytest removes old folders of other runs, and what another
        # run removes at the same time would be an error.
        own_folder = f"--basetemp={folder}-tests"
        status = pytest.main([*options.split(), own_folder, *tests])
    finally:
        if status == 70:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)


@dataclass(frozen=True)
class Trial:
    """Tests to run, with other code in a file; without a file, with the code as it is."""

    tests: tuple[str, ...]
    file: str = ""
    code: str = ""


def statuses(
    trials: Sequence[Trial], folders: Sequence[Path]
) -> Iterator[tuple[Trial, int, str]]:
    """The exit status of each trial, and the end of its output, as the trials end.

    Each folder has one trial at a time.
    """
    waiting = list(reversed(trials))
    free = list(folders)
    running: dict[int, tuple[Trial, Path, str]] = {}  # by the ids of processes
    while waiting or running:
        while waiting and free:
            trial, folder = waiting.pop(), free.pop()
            original, longest = "", 0
            if trial.file:
                original, longest = (folder / trial.file).read_text("utf-8"), LONGEST
                write(folder / trial.file, trial.code)
            child = start(folder, trial.tests, longest=longest)
            running[child] = trial, folder, original
        child, wait_status = os.wait()
        trial, folder, original = running.pop(child)
        if trial.file:
            write(folder / trial.file, original)
        free.append(folder)
        output = (folder / OUTPUT).read_text(encoding="utf-8")[-1000:]
        yield trial, os.waitstatus_to_exitcode(wait_status), output


# What becomes of mutants


def require_passing(mutants: Sequence[Mutant], folders: Sequence[Path]) -> None:
    """Raise RuntimeError if a test fails without any mutant.

    The code is laid out by `ast.unparse`, as that of mutants is: a test that fails for
    the layout must not pass for a test that notices the mutant.
    """
    tests: dict[str, None] = {}  # each once
    for mutant in mutants:
        tests.update(dict.fromkeys(mutant.tests))
        for folder in folders:
            write(folder / mutant.file, ast.unparse(_parsed(mutant.file)))
    trials = []
    for number in range(min(len(folders), len(tests))):
        trials.append(Trial(tuple(tests)[number :: len(folders)]))
    for trial, status, output in statuses(trials, folders):
        if status:
            raise RuntimeError(
                f"one of {trial.tests} fails without a mutant:\n{output}"
            )


OUTCOMES = {0: "survived", 1: "killed", -signal.SIGALRM: "killed"}  # by exit status


def outcomes(
    mutants: Sequence[Mutant], folders: Sequence[Path]
) -> Iterator[tuple[Mutant, str]]:
    """The outcome of each mutant: `killed`, `survived`, or why it is neither."""
    trials: dict[Trial, Mutant] = {}
    for mutant in mutants:
        try:
            mutant.place()
            text = (ROOT / mutant.file).read_text(encoding="utf-8")
            code = mutated(text, mutant.mutation)
            trials[Trial(mutant.tests, mutant.file, code)] = mutant
        except LookupError as error:
            yield mutant, str(error)
    for trial, status, output in statuses(list(trials), folders):
        outcome = OUTCOMES.get(status, f"{trial.tests} do not run:\n{output}")
        yield trials[trial], outcome


def main() -> None:
    """Try the mutants that the command line means, and print the outcome of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="*", help="rooms, modules, or words of rules")
    parser.add_argument("--all", action="store_true", help="all, however long it takes")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    options = parser.parse_args()
    start_time = time.monotonic()
    waiting = chosen_mutants(options)
    has_time_limit = not options.all and not options.part
    counts = {"killed": 0, "survived": 0, "not tried": 0}
    lines_not_killed: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folders = []
        for number in range(options.jobs):
            folders.append(copy_to(Path(scratch, str(number))))
        while waiting:
            if has_time_limit and time.monotonic() - start_time > SECONDS:
                break
            batch, waiting = waiting[:BATCH], waiting[BATCH:]
            require_passing(batch, folders)
            for mutant, outcome in outcomes(batch, folders):
                counts[outcome if outcome in counts else "not tried"] += 1
                line = f"{mutant.of}: {mutant.rule}: {outcome}"
                if outcome != "killed":
                    lines_not_killed.append(line)
                print(line, flush=True)
    seconds = time.monotonic() - start_time
    print(*lines_not_killed, f"{counts} in {seconds:.0f} s", sep="\n")
    if waiting:
        print(f"{len(waiting)} more are of what has changed; --all tries them")
    sys.exit(1 if lines_not_killed else 0)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(str(error))
