"""README and its guides do what they say: what their commands name exists, cheap ones are run."""

from fnmatch import fnmatchcase

import pytest
from documents import ROOT, lines, parsed, starting, told

from baselines.miniature import ENCODERS
from harness.core.interfaces import Trained
from harness.data.places import packaged
from harness.registry import load_registry

README = (ROOT / "README.md").read_text(encoding="utf-8")
INCLUDED = (ROOT / "docs/included.md").read_text(encoding="utf-8")
GUIDES = [
    README,
    INCLUDED,
    *((ROOT / f"docs/how-to/{n}.md").read_text("utf-8") for n in ("train", "data")),
]
LINES = [words for guide in GUIDES for words in lines(guide)]


# Commands


@pytest.mark.parametrize("words", starting("harness", "train", among=LINES), ids=told)
def test_a_training_starts_from_what_there_is(words):
    given, found = parsed(words[1:]), load_registry()
    if words[2] == "family":
        assert isinstance(found.encoders[given["names"][0]].source, Trained)
        return
    assert given.get("start", "bert-mini") in found.encoders
    assert given.get("file") or given["corpus"] in found.corpora


# What is cheap is run


@pytest.fixture
def answer_in_readme_folder(call, tmp_path):
    """The command line in a folder that holds what the README's examples name."""
    carried = packaged(ENCODERS[0])
    (tmp_path / "results").symlink_to(ROOT / "results")
    (tmp_path / "path" / "to").mkdir(parents=True)
    (tmp_path / "data" / "retokenised").mkdir(parents=True)
    for name in ("path/to/folder", "my-simcse", "all-mpnet-base-v2"):
        (tmp_path / name).symlink_to(carried)
    (tmp_path / "vectors.txt").write_text("a 1 1 1\nb 1 1 1\n")
    return lambda arguments: call(*arguments)


READING = ("list", "explain", "cite")  # what is quick
# Those of plug-ins are the how-to's, which tests/test_wheel.py runs.
RUNS = [
    words[1:]
    for words in starting("harness", "run", among=LINES)
    if not {"--gate", "--plugin"} & {*words}
]


def reads_only_the_package(arguments):
    """Whether all that a run reads comes with the package."""
    return all(task.startswith("mini-") for task in parsed(arguments)["task"])


@pytest.mark.parametrize(
    "arguments", [words[1:] for words in LINES if words[1] in READING], ids=told
)
def test_a_command_that_reads_answers(answer_in_readme_folder, arguments):
    answer = answer_in_readme_folder(arguments)
    assert answer.status == 0
    assert answer.err == ""
    assert answer.out


@pytest.mark.parametrize(
    "arguments", [a for a in RUNS if not reads_only_the_package(a)], ids=told
)
def test_a_run_that_needs_data_can_be_planned(answer_in_readme_folder, arguments):
    """Its methods, tasks and encoders are known; only data are missing, and the plan says which."""
    options = {*arguments[1:], "--dry-run", "--json"} - {*arguments[1:]}
    answer = answer_in_readme_folder([*arguments, *options])
    assert answer.status == 0
    assert '"missing": {' in answer.out
    assert '"get": "harness fetch' in answer.out


@pytest.mark.parametrize(
    "arguments", [a for a in RUNS if reads_only_the_package(a)], ids=told
)
def test_a_run_of_what_is_carried_measures_without_anything_else(
    answer_in_readme_folder, arguments, tmp_path
):
    answer = answer_in_readme_folder(arguments)
    assert answer.status == 0
    patterns = parsed(arguments)["method"]
    methods = [
        method
        for method in load_registry().methods
        if any(fnmatchcase(method, pattern) for pattern in patterns)
    ]
    measured = [line for line in answer.out.splitlines() if " seed 0: " in line]
    records = list((tmp_path / "runs" / "records").rglob("seed-*.json"))
    assert len(measured) == len(records) == len(methods)
