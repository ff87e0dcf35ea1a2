"""The two walks of docs/architecture.md are what real calls of functions give, in their order."""

import re
import sys
import threading
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from harness.assets.places import Places
from harness.cli import main
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell
from harness.registry import load_registry
from harness.results.store import Store
from harness.tasks.loader import TaskLoader, limited

ROOT = Path(__file__).resolve().parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STOPS = 16  # of a pair, at most
PAIRS = 40  # whose calls are recorded

# The level of detail of a pair's walk: what gives on another form of the pair, from its
# file to its record. What decides how (identities, kernels, layers) and what counts or
# stores besides is none.
FORMS_OF_A_PAIR = {
    "harness/tasks/mini.py:MiniPairs.__call__",
    "harness/tasks/loader.py:TaskLoader.texts",
    "harness/evaluation/embeddings.py:CachedEncoder.ensure",
    "harness/encoders/transformer.py:TransformerEncoder.encode",
    "harness/encoders/cache/encodings.py:EncoderCache.add",
    "harness/evaluation/embeddings.py:CachedEncoder.pooled",
    "harness/encoders/cache/encodings.py:EncoderCache.read",
    "harness/transforms/pooling.py:Mean.__call__",
    "harness/evaluation/fit_vectors.py:FitCorpusVectors.from_embeddings",
    "harness/evaluation/cell.py:fit",
    "baselines/whitening.py:Whitening.fit",
    "harness/evaluation/cell.py:measure",
    "harness/transforms/affine.py:Affine.__call__",
    "harness/core/metrics/__init__.py:cosines",
    "harness/core/metrics/__init__.py:score",
    "harness/results/store.py:Store.write",
}
# The level of detail of a command's walk: functions that cli calls in the rooms that
# work for it.
WORKING_ROOMS = ("evaluation", "gate", "report")


@cache
def name_in_repository(file):
    """A file inside the repository by its name there; None for that of a library."""
    path = Path(file)
    if not path.is_relative_to(ROOT) or ".venv" in path.parts:
        return None
    return path.relative_to(ROOT).as_posix()


def own_file(frame):
    """The file of a frame inside the repository; None for that of a library."""
    return name_in_repository(frame.f_code.co_filename)


def caller_of(frame):
    """The file of the nearest caller inside the repository."""
    frame = frame.f_back
    while frame is not None and own_file(frame) is None:
        frame = frame.f_back
    return own_file(frame) if frame is not None else ""


@contextmanager
def recorded_calls():
    """The calls of functions of harness and baselines: each with the file of its caller."""
    calls = []

    def note(frame, event, _):
        if event == "call":
            file = own_file(frame)
            if file is not None and file.startswith(("harness/", "baselines/")):
                calls.append((f"{file}:{frame.f_code.co_qualname}", caller_of(frame)))

    earlier = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(earlier)
        threading.setprofile(None)


def stops_on_the_page(heading):
    """The functions that a walk of the page names, in order."""
    walk = ARCHITECTURE.split(f"## {heading}\n")[1].split("\n## ")[0]
    stops = re.findall(r"^(\d+)\. `([\w/]+\.py:[\w.]+)`", walk, re.MULTILINE)
    assert [int(number) for number, _ in stops] == list(range(1, len(stops) + 1))
    return [stop for _, stop in stops]


def test_the_walk_of_a_pair_is_that_of_the_calls(tmp_path):
    registry = load_registry()
    method = registry.parse("bert-mini.mean+whitening:64@target")
    cell = PlannedCell(method, limited(registry.tasks["mini-sts"], PAIRS), 0)
    loader = TaskLoader(Places(tmp_path / "cache"), registry.corpora)
    with recorded_calls() as calls:
        [outcome] = execute([cell], RunContext(loader, Store(tmp_path / "runs")))
    assert outcome.status == "measured"
    stops = list(dict.fromkeys(name for name, _ in calls if name in FORMS_OF_A_PAIR))
    assert stops == stops_on_the_page("The walk of one pair")
    assert len(stops) <= STOPS


def is_work_for_a_command(name, caller):
    """Whether a call is of a public function of a working room, by cli."""
    file, function = name.split(":")
    is_public = function.isidentifier() and not function.startswith("_")
    room = file.removeprefix("harness/").split("/")[0]
    return is_public and room in WORKING_ROOMS and caller.startswith("harness/cli/")


@pytest.mark.slow
def test_the_walk_of_reproduce_is_that_of_the_calls_and_enters_no_module_twice(
    tmp_path, monkeypatch
):
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    command = [
        "harness",
        "reproduce",
        "-m",
        "glove-mini.mean",
        "-t",
        "mini-sts",
        "-j",
        "1",
    ]
    monkeypatch.setattr("sys.argv", command)
    with recorded_calls() as calls, pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, 1)  # 1: a committed record is of other code
    work = [name for name, caller in calls if is_work_for_a_command(name, caller)]
    stops = [name for name, _ in groupby(work)]
    assert stops == stops_on_the_page("The walk of one `harness reproduce`")
    modules = [module for module, _ in groupby(stop.split(":")[0] for stop in stops)]
    assert len(modules) == len(set(modules))
