"""The shape of the code: who imports whom, in its syntax and at run time; what is never in it."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest
from processes import ROOT

# The rooms, each below what uses it: a room imports itself and those before it. Rooms
# that share a place in the order never import each other.
ROOMS: tuple[tuple[str, ...], ...] = (
    ("core",),
    ("data", "transforms"),
    ("encoders",),
    ("training",),
    ("registry",),
    ("results",),
    ("conclusions",),
    ("evaluation",),
    ("contracts",),
    ("report", "interop"),
    ("cli",),
)


def modules(package: str) -> dict[str, ast.Module]:
    """The syntax of every module, by its name inside the package."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT / package).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    del found[""]
    found.pop(
        "__main__", None
    )  # `python -m` of the package, which calls the command line
    return found


HARNESS, BASELINES = modules("harness"), modules("baselines")
EVERY = {f"harness.{name}": tree for name, tree in HARNESS.items()} | {
    f"baselines.{name}": tree for name, tree in BASELINES.items()
}


def imported(tree: ast.AST) -> set[str]:
    """Everything that is imported anywhere inside, to its full dotted name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def of_harness(tree: ast.AST) -> set[str]:
    """The modules of the engine that are imported anywhere inside."""
    inside = {
        name.removeprefix("harness.") for name in imported(tree) if "harness." in name
    }
    return {name if name in HARNESS else name.rpartition(".")[0] for name in inside}


def room_of(name: str) -> str:
    """The room that a module stands in: that of the registry has three files and no folder."""
    first = name.split(".")[0]
    return "registry" if first in ("plugins", "resolve") else first


def place_of_room(name: str) -> int:
    """Where the module's room stands in the order."""
    places = [n for n, rooms in enumerate(ROOMS) if room_of(name) in rooms]
    assert places, f"{name}: a module stands in one of the rooms"
    return places[0]


# Imports


def test_imports_point_inwards():
    assert not [
        f"{name} imports {other}"
        for name, tree in HARNESS.items()
        for other in of_harness(tree)
        if room_of(name) != room_of(other)
        and place_of_room(other) >= place_of_room(name)
    ]


def test_a_room_says_what_it_is_for_and_imports_nothing():
    for rooms in ROOMS:
        for room in set(rooms) - {"registry", "cli"}:
            tree = HARNESS[room]
            said = ast.get_docstring(tree) or ""
            assert "It imports" in said, room
            assert "never" in said, room
            assert len(tree.body) == 1, f"{room}: an __init__ holds its docstring alone"


def test_imports_have_no_cycle():
    TopologicalSorter(
        {name: of_harness(tree) for name, tree in HARNESS.items()}
    ).prepare()


def test_the_package_of_baselines_is_imported_by_none_and_named_by_the_registry():
    """A baseline imports its siblings as such: in a wheel they are another package."""
    assert not [
        name
        for name, tree in EVERY.items()
        if any("baselines" in other for other in imported(tree))
    ]
    naming = {
        name
        for name, tree in HARNESS.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == "baselines"
    }
    assert naming <= {
        "registry",
        "core.environment",
    }  # the latter knows where the folder is


def test_a_baseline_imports_parts_and_nothing_that_runs():
    parts = {
        other.split(".")[0] for tree in BASELINES.values() for other in of_harness(tree)
    }
    assert parts <= {"core", "transforms", "encoders", "training"}


def test_no_room_that_reads_results_imports_scipy():
    """Its import takes longer than to read all records."""
    assert not [
        name
        for name, tree in HARNESS.items()
        if room_of(name) in ("results", "conclusions", "report")
        and any(other.partition(".")[0] == "scipy" for other in imported(tree))
    ]


# What never stands in the code

UNSAFE = {
    "trust_remote_code=True",
    "weights_only=False",
    "allow_pickle=True",
    "shell=True",
}
GLOBAL_SEEDS = {
    "random.seed",
    "np.random.seed",
    "numpy.random.seed",
    "torch.manual_seed",
}


def calls() -> Iterator[tuple[str, str, set[str]]]:
    """Every call: its module, what is called, its keywords."""
    for name, tree in EVERY.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                keywords = set(map(ast.unparse, node.keywords))
                yield name, ast.unparse(node.func), keywords


def test_nothing_is_unpickled():
    """Joblib carries the work of a run between its own processes, and reads no file.

    ruff allows the import of pickle, for the name of its error, and no call of it.
    """
    foreign = r"(c?loudpickle|dill|joblib|shelve|marshal)"
    importing = {
        name
        for name, tree in EVERY.items()
        if any(re.match(foreign, other) for other in imported(tree))
    }
    assert importing <= {"harness.evaluation.processes"}


def test_nothing_foreign_is_executed():
    found = list(calls())
    assert not [name for name, _, keywords in found if keywords & UNSAFE]
    loads = [keywords for _, called, keywords in found if called == "torch.load"]
    assert all("weights_only=True" in keywords for keywords in loads)


def test_no_generator_is_seeded_for_everybody():
    assert not [name for name, called, _ in calls() if called in GLOBAL_SEEDS]


# Somebody's machine

FOLDERS = "home|root|work|Users|tmp|mnt|opt|srv|scratch|workspace"
ABSOLUTE = re.compile(rf"(?<![\w.~<>}}-])/({FOLDERS})/|\b[A-Z]:\\\w")


def test_no_file_names_a_path_of_somebodys_machine():
    command = ["git", "ls-files"]
    listed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of tracked files")
    found = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""
        if b"\0" not in content[:1000]:
            lines = content.decode("utf-8").splitlines()
            found += [
                f"{name}:{n}"
                for n, line in enumerate(lines, 1)
                if ABSOLUTE.search(line)
            ]
    assert not found


def test_the_files_whose_rules_are_changed_to_test_the_tests_exist():
    parts = sorted((ROOT / ".ci/mutants").glob("*.toml"))
    assert parts
    for part in parts:
        settings = tomllib.loads(part.read_text(encoding="utf-8"))["cosmic-ray"]
        assert f"MODULE={part.stem}`" in part.read_text(encoding="utf-8")
        tests = re.findall(r"tests/[\w/.]+", settings["test-command"])
        for name in [*settings["module-path"], *tests]:
            assert (ROOT / name).exists(), f"{part.name}: {name}"
