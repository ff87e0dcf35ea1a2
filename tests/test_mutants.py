"""The list of mutants is of code and tests that are there; `make mutants` tries them."""

import subprocess
import sys

import pytest
from mutants import ROOT, read_mutants

MUTANTS = read_mutants()
QUICK = "the boundary of exact"


def test_every_mutant_is_of_code_and_of_a_test_that_are_there():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert mutant.old != mutant.new
        assert mutant.file().suffix == ".py"
        for test in mutant.test.split():
            file, _, function = test.partition("::")
            assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_every_room_has_mutants():
    rooms = {
        path.stem for path in (ROOT / "harness").iterdir() if path.stem[:2] not in ("__", "py")
    }
    rooms -= {"resolve"}  # of the registry's room
    assert {mutant.room for mutant in MUTANTS} == {*rooms, "baselines"}


@pytest.mark.slow
def test_a_mutant_is_killed_survives_or_is_refused():
    tried = f"""
import sys, tempfile
from dataclasses import replace
from pathlib import Path
from mutants import copy_to, outcomes, read_mutants
[known] = [mutant for mutant in read_mutants() if mutant.name == {QUICK!r}]
unnoticed = replace(known, test="tests/core/test_ids.py")
absent = replace(known, old="a text that stands nowhere")
with tempfile.TemporaryDirectory() as scratch:
    for _, found in outcomes([known, unnoticed, absent], [copy_to(Path(scratch, "copy"))]):
        print(found)
"""
    done = subprocess.run(
        [sys.executable, "-c", tried],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
        check=True,
    )
    killed, survived, refused = done.stdout.splitlines()
    assert (killed, survived) == ("killed", "survived")
    assert refused.startswith(f"{QUICK}: wanted its old text once in the code, found it in no file")
