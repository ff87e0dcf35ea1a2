"""Circumstances: what a system refuses or lacks costs no number; where it matters, it is a line."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest
from fixtures import rest_slow
from processes import MAIN, scores, variables

RUN = ("run", "-m", "glove-mini.mean", "-t", "mini-sts", "--overwrite")
# Of each circumstance: a line of the shell around "$@", and the status that is right
# there.
CIRCUMSTANCES = {
    "closed streams": ('"$@" >&- 2>&-', 0),
    "a reader that leaves": ('"$@" | head -1', 0),
    "a full stdout": ('"$@" >/dev/full', 120),
    "no home": ('env -u HOME "$@"', 0),
    "plain ASCII": ('env LC_ALL=C PYTHONIOENCODING=ascii PYTHONUTF8=0 "$@"', 0),
    "Turkish": ('env LC_ALL=tr_TR.UTF-8 "$@"', 0),
    "20 file handles": ('ulimit -n 20; "$@"', 0),
    "a small file limit": ('ulimit -f 1; "$@"', 1),
}


@pytest.fixture(scope="module")
def folder_with_cache(tmp_path_factory):
    """A folder with everything cached, and the true scores."""
    folder = tmp_path_factory.mktemp("filled")
    done = shell('"$@"', folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def copied_folder(folder_with_cache, tmp_path):
    """A copy of that folder."""
    return shutil.copytree(folder_with_cache, tmp_path / "here")


def shell(line, folder, *arguments):
    return subprocess.run(
        ["bash", "-c", line, "bash", sys.executable, "-c", MAIN, *(arguments or RUN)],
        cwd=folder,
        env=variables(folder),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "name", rest_slow(CIRCUMSTANCES, "a full stdout", "plain ASCII")
)
def test_the_score_or_one_line(folder_with_cache, copied_folder, name):
    line, status = CIRCUMSTANCES[name]
    done = shell(line, copied_folder)
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == status, done.stderr
    assert scores(copied_folder / "runs") == scores(folder_with_cache / "runs")


READ_ONLY = "mount --bind {0} {0} && mount -o remount,ro,bind {0}"
TMPFS = "mount -t tmpfs -o size={} none {}"
SHARD = r"/cache/encodings/\w+/\w+\.safetensors: "
RECORD = r"harness: .*runs/.*: "
NOT_WRITTEN, FULL = "Read-only file system", "No space left on device"
# Of each mount: its command, what is run there, the status, and what is said then.
MOUNTS = {
    "a cache that may only be read": (READ_ONLY.format("cache"), RUN, 0, ""),
    "results that may only be read, all done": (
        READ_ONLY.format("runs"),
        RUN[:-1],
        0,
        "",
    ),
    "results that may only be read": (
        READ_ONLY.format("runs"),
        RUN,
        1,
        f"{RECORD}{NOT_WRITTEN}",
    ),
    "a full disk": (
        TMPFS.format("64k", "cache"),
        RUN,
        1,
        rf"{SHARD}{FULL}; free room there.* \(1 cell\)",
    ),
    "results on a full disk": (TMPFS.format("8k", "runs"), RUN, 1, f"{RECORD}{FULL}"),
}


@pytest.mark.parametrize(
    "name", rest_slow(MOUNTS, "a full disk", "results on a full disk")
)
def test_a_disk_that_takes_nothing_costs_no_number(
    folder_with_cache, copied_folder, tmp_path, name
):
    mounts, command, status, complaint = MOUNTS[name]
    inside = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c"]
    if subprocess.run(
        [*inside, mounts], cwd=copied_folder, capture_output=True, check=False
    ).returncode:
        pytest.skip(
            "this system lets nobody mount a folder in a name space of their own"
        )
    # What was measured lies on what was mounted, so the last command copies it from
    # there.
    kept = tmp_path / "kept"
    line = f'{mounts} && "$@"; status=$?; cp -r runs {kept}; exit $status'
    done = shell(
        f'{" ".join(inside)} {shlex.quote(line)} bash "$@"', copied_folder, *command
    )
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == status, done.stderr
    assert re.search(complaint, done.stderr), done.stderr
    if status == 0:
        assert scores(kept) == scores(folder_with_cache / "runs")
    assert not [path for path in kept.rglob(".*") if path.is_file()]
