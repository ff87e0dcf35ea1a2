"""The command line in processes of its own, over the embedded models, to be killed and crowded."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from harness.cli import main; main()"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


def variables(cwd: Path) -> dict[str, str]:
    """This process's environment, but that the harness is this one and its cache in `cwd`."""
    dropped = ("HARNESS", "PYTHONUNBUFFERED")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    own = {"PYTHONPATH": ROOT, "HARNESS_CACHE_DIR": cwd / "cache", "HOME": cwd}
    return kept | {name: str(value) for name, value in own.items()}


def start(
    *arguments: object, cwd: Path, code: str = MAIN, **changes: str
) -> subprocess.Popen:
    """A command in a process group of its own; results, cache and home are in `cwd`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**variables(cwd), "OMP_NUM_THREADS": "1", "COLUMNS": "100", **changes},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    *arguments: object,
    cwd: Path,
    code: str = MAIN,
    seconds: float = 600,
    **changes: str,
) -> Ended:
    """A command to its end."""
    process = start(*arguments, cwd=cwd, code=code, **changes)
    out, err = process.communicate(timeout=seconds)
    return Ended(process.returncode, out, err)


def scores(folder: Path) -> dict[str, object]:
    """The scores of all records under a folder of results, by path."""
    from harness.results.records import read_record

    return {
        path.relative_to(folder).as_posix(): read_record(path).scores
        for path in sorted(folder.rglob("seed-*.json"))
    }


def git(folder: Path, *words: str, status: int = 0) -> None:
    """A git command in a folder that ends with this status, without the user's settings."""
    somebody = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", *somebody, *words],
        cwd=folder,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
