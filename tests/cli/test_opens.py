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
COMMANDS = [
    ("reproduce", *SMALL, "--jobs", "1"),  # first: what it measures is checked after it
    ("check", *SMALL),
    ("report", "--check"),
    ("explain", CELL),
    ("cite", CELL),
    ("table", *SMALL, "--results", "results"),
    ("run", "--dry-run", *SMALL),
]


@pytest.fixture(scope="module")
def opened_files(tmp_path_factory):
    """How often each command opens each file of the results, in a folder with a copy of them."""
    folder = tmp_path_factory.mktemp("opens")
    shutil.copytree(ROOT / "results", folder / "results")
    shutil.copy(ROOT / "README.md", folder)
    opens = {}
    for command in COMMANDS:
        ended = run(folder / "read.json", *command, cwd=folder, code=COUNTING)
        assert "Traceback" not in ended.err, ended.err
        read = json.loads((folder / "read.json").read_bytes())
        inside = str((folder / "results").resolve())
        opens[command] = Counter(
            p.removeprefix(inside) for p in read if p.startswith(inside + "/")
        )
    return opens


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_command_opens_each_file_of_the_results_once(opened_files, command):
    # `report` compares a file with its seal, reads it, and digests it for the foot of
    # its page.
    most = 3 if command[0] == "report" else 1
    assert max(opened_files[command].values(), default=0) <= most, opened_files[
        command
    ].most_common(9)
