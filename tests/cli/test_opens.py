"""How often a command opens each file of `results/`: once, since one object reads the folder."""

import json
import shutil
from collections import Counter

import pytest
from processes import ROOT, run

COUNTING = """
import json, os, sys
from harness.cli import main

read = []

def note(event, arguments):
    named = event == "open" and isinstance(arguments[0], (str, os.PathLike))
    if named and not arguments[2] & os.O_ACCMODE:
        read.append(os.path.realpath(arguments[0]))

sys.addaudithook(note)
try:
    main(sys.argv[2:])
finally:
    with open(sys.argv[1], "w") as file:
        json.dump(read, file)
"""
CELL = "sif.t1/avg-glove/sts12"
SMALL = ("-m", "glove-mini.mean", "-t", "mini-sts")
# How often each command opens the file that it opens most often; the aim is once.
MOST = {
    ("reproduce", *SMALL, "--jobs", "1"): 3,  # first: what it measures is checked after it
    ("check", *SMALL): 1,
    ("report", "--check"): 2,  # the page of results digests the files of tables
    ("explain", CELL): 1,
    ("cite", "--cell", CELL): 1,
    ("show", *SMALL, "--results", "results"): 1,
    ("plan", *SMALL): 1,
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """How often each command opens each file of the results, in a folder with a copy of them."""
    folder = tmp_path_factory.mktemp("opens")
    shutil.copytree(ROOT / "results", folder / "results")
    shutil.copy(ROOT / "README.md", folder)
    found = {}
    for command in MOST:
        ended = run(folder / "read.json", *command, cwd=folder, code=COUNTING)
        assert "Traceback" not in ended.err, ended.err
        read = json.loads((folder / "read.json").read_bytes())
        inside = str((folder / "results").resolve())
        found[command] = Counter(p.removeprefix(inside) for p in read if p.startswith(inside + "/"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("command", MOST, ids=lambda words: words[0])
def test_no_file_of_the_results_is_opened_more_often_than_before(opened, command):
    assert 1 <= max(opened[command].values()) <= MOST[command], opened[command].most_common(9)


@pytest.mark.slow
@pytest.mark.xfail(strict=False, reason="second edition")
@pytest.mark.parametrize("command", [c for c in MOST if MOST[c] > 1], ids=lambda words: words[0])
def test_a_command_opens_no_file_of_the_results_twice(opened, command):
    assert not {path: times for path, times in opened[command].items() if times > 1}
