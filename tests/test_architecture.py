"""The shape of the code: who imports whom, in its syntax and at run time; what is never in it."""

import ast
import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TypeVar

import processes
import pytest

from harness.plugins import PLUGIN_LISTS

ROOT = Path(__file__).resolve().parent.parent

# The rooms, each below what uses it: a room imports itself and those before it. Rooms
# that share a place in the order never import each other.
ROOMS: tuple[tuple[str, ...], ...] = (
    ("core",),
    ("assets",),
    ("tasks", "transforms"),
    ("encoders",),
    ("training",),
    ("registry",),
    ("results",),
    ("evaluation",),
    ("contracts",),
    ("gate", "report", "interop"),
    ("cli",),
)

# Seconds to import: inside a function, or in a module that only functions import.
HEAVY = {
    *(
        "torch",
        "transformers",
        "scipy",
        "sklearn",
        "datasets",
        "mteb",
        "sentence_transformers",
    ),
    *("matplotlib", "nltk"),
}
LAZY = (
    "encoders.bilm",
    "encoders.kernels.loading",
    "encoders.kernels.tokenizing",
    "encoders.kernels.modules",
    "encoders.kernels.packed",
    "encoders.kernels.padded",
    "transforms.autoencoder",
    "transforms.flow",
    "transforms.residual_layers",
    "training",
    "interop",
)

# Families that a module may name all the same, and why.
NAMED = {
    "tasks.corpora": {"simcse"},  # a file's own name
    "tasks.qnli": {"flow"},  # a paper, where the task differs from it
    "tasks.lexical": {"flow"},  # a paper, whose number stands beside the task's
    "results.scorings": {
        "simcse",
        "sbert",
        "flow",
        "whitening",
    },  # called by who set it
    "results.reproduction": {"simcse"},  # the same
    "report.leaderboard": {"simcse", "whitening"},  # the same
    "report.boards": {"simcse"},  # the same
    "report.front": {"simcse", "sbert", "flow", "whitening"},  # the four papers
    "encoders.elmo": {"elmo"},  # an architecture, and the files that its authors gave
    "encoders.elmo_files": {"elmo"},  # the same
    "encoders.bilm": {"elmo"},  # the same
    "encoders.cove": {"cove", "glove"},  # the same
    "resolve": {"elmo"},  # the same
    "transforms.autoencoder": {"flow"},  # the map, whatever method fits it
    "transforms.flows": {"flow"},  # the map, whatever method fits it
    "evaluation.compare": {"simcse", "whitening"},  # a protocol is called by who set it
    "report.claims": {"miniature"},  # its page's own name
    "results.encoder_sizes": {"miniature"},  # a group of encoders
    "contracts.cases": {"minilm", "whitening"},  # files, as examples
    "cli.recipes": {"simcse", "sbert"},  # the names of commands
    "training.datasets": {"miniature", "simcse"},  # names of data sets
}


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


Node = TypeVar("Node", bound=ast.AST)


# Imports


def test_imports_point_inwards():
    assert not [
        f"{name} imports {other}"
        for name, tree in HARNESS.items()
        for other in of_harness(tree)
        if room_of(name) != room_of(other)
        and place_of_room(other) >= place_of_room(name)
    ]


def test_the_engine_is_these_rooms_and_nothing_else():
    entries = {path.name for path in (ROOT / "harness").iterdir()} - {"__pycache__"}
    rooms = {room for rooms in ROOMS for room in rooms} - {"registry"}
    files = {
        "registry.py",
        "plugins.py",
        "resolve.py",
        "__init__.py",
        "__main__.py",
        "py.typed",
    }
    assert entries == rooms | files


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


def test_the_engine_never_imports_a_baseline_and_only_the_registry_names_the_package():
    assert not [
        n
        for n, tree in HARNESS.items()
        if any("baselines" in i for i in imported(tree))
    ]
    naming = {name for name, tree in HARNESS.items() if "baselines" in strings(tree)}
    assert naming <= {"registry", "core.layout"}  # the latter knows where the folder is


def test_a_baseline_imports_parts_and_nothing_that_runs():
    parts = {
        other.split(".")[0] for tree in BASELINES.values() for other in of_harness(tree)
    }
    assert parts <= {"core", "transforms", "encoders", "training"}


def test_a_baseline_imports_its_siblings_as_such():
    """`from .bert import`: in a wheel they are no package `baselines`, but one of the harness's."""
    assert not [
        n
        for n, tree in BASELINES.items()
        if any("baselines" in i for i in imported(tree))
    ]


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if not isinstance(node, ast.FunctionDef):
            yield from at_import(
                [*getattr(node, "body", ()), *getattr(node, "orelse", ())]
            )
            yield node


def is_slow(name: str) -> bool:
    return name.split(".")[0] in HEAVY or name.removeprefix("harness.").startswith(LAZY)


def test_what_is_slow_to_import_waits_until_it_is_needed():
    assert not [
        f"{name} imports {other}"
        for name, tree in EVERY.items()
        if not is_slow(name)
        for node in at_import(tree.body)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for other in imported(node)
        if is_slow(other)
    ]


# Imports at run time: those of functions are in the syntax, and seen above

# What imports a module by a computed name, or executes a file or a text, and why.
EXECUTES = {
    "core.metrics": {"import_module"},  # its own files
    "registry": {"import_module"},  # the files of `baselines` and of `harness.tasks`
    "plugins": {
        "exec_module",
        "import_module",
        "module_from_spec",
        "spec_from_file_location",
    },  # what users name or install
}
BUILTINS = {"__import__", "compile", "eval", "exec"}
LOADERS = {
    *("import_module", "run_module", "run_path", "exec_module", "load_module"),
    *("module_from_spec", "spec_from_file_location", "spec_from_loader"),
}


def executing(tree: ast.AST) -> set[str]:
    """The functions called inside that can execute a module without an import statement."""
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = {function.id for function in called if isinstance(function, ast.Name)}
    attributes = {
        function.attr for function in called if isinstance(function, ast.Attribute)
    }
    return names & (BUILTINS | LOADERS) | attributes & LOADERS


def test_only_these_modules_execute_what_no_import_names():
    found = {name: executing(tree) for name, tree in HARNESS.items()}
    assert {
        name: functions for name, functions in found.items() if functions
    } == EXECUTES


# Prints, after the commands, each file that was executed and the file whose code asked
# for it: the closest in the stack that is neither Python's own nor an installed
# package's.
WATCHED = """
import json, os, sys, sysconfig
from pathlib import Path

LIBRARY = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib"))
edges = set()

def watch(event, arguments):
    if event != "exec" or getattr(arguments[0], "co_name", "") != "<module>":
        return
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(("<frozen", *LIBRARY)):
        frame = frame.f_back
    if frame:
        edges.add((frame.f_code.co_filename, arguments[0].co_filename))

sys.addaudithook(watch)
from harness.cli import main

for command in sys.argv[1:]:
    try:
        main(command.split())
    except SystemExit as ended:
        if ended.code:
            raise
Path("edges.json").write_text(json.dumps(sorted(edges)))
"""
COMMANDS = (
    "list",
    "new method mine",
    "run --dry-run -m glove-mini.mean -t mini-lexical",
    "run --plugin mine.py -m glove-mini.mean+mine@target -t mini-lexical",
    "check --baseline runs -m glove-mini.mean+mine@target -t mini-lexical",
    "report --results runs",
)


def test_nothing_is_executed_that_the_rooms_do_not_show(tmp_path):
    """A hidden import is one by the path of a file, or by a computed name."""
    done = processes.run(*COMMANDS, cwd=tmp_path, code=WATCHED)
    assert done.status == 0, done.err
    edges = json.loads((tmp_path / "edges.json").read_text())
    executed = {
        (checkout_module(importer), checkout_module(file)) for importer, file in edges
    }
    # By a computed name.
    assert ("harness.registry", "baselines.zipfian") in executed
    modules_executed = {name for _, name in executed if name}
    assert not [
        name
        for name in modules_executed
        if not name.startswith(("harness", "baselines"))
    ]
    assert not [
        f"{name} executes {other}"
        for name, other in executed
        if name in EVERY and other in EVERY and is_hidden(name, other)
    ]


def checkout_module(file: str) -> str:
    """The name of a file of the checkout as a module; empty for files of other packages."""
    path = Path(file)
    if not path.is_relative_to(ROOT) or "site-packages" in path.parts:
        return ""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def is_hidden(name: str, other: str) -> bool:
    """Whether a module of the engine executes another that its room may not import."""
    importer, executed = name.removeprefix("harness."), other.removeprefix("harness.")
    if (
        importer not in HARNESS
        or executed not in HARNESS
        or room_of(importer) == room_of(executed)
    ):
        return False
    return place_of_room(executed) >= place_of_room(importer)


# Words


def docstrings(tree: ast.AST) -> set[int]:
    scopes = ast.Module | ast.ClassDef | ast.FunctionDef
    first = [n.body[0] for n in ast.walk(tree) if isinstance(n, scopes) and n.body]
    return {id(n.value) for n in first if isinstance(n, ast.Expr)}


def strings(tree: ast.AST) -> set[str]:
    """Every string but docstrings."""
    told = docstrings(tree)
    nodes = [
        n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in told
    ]
    return {n.value for n in nodes if isinstance(n.value, str)}


def identifiers(tree: ast.AST) -> set[str]:
    fields = ("id", "attr", "name", "arg")
    found = {getattr(node, field, None) for node in ast.walk(tree) for field in fields}
    return {name for name in found if isinstance(name, str)}


def words(tree: ast.AST) -> set[str]:
    """The words of strings and identifiers, in lower case; CamelCase is one and several."""
    text = " ".join(strings(tree) | identifiers(tree))
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)} | set(
        re.findall(r"[a-z]+", text.lower())
    )


# BERT is an architecture, too, and as such transformers' own word.
FAMILIES = set(BASELINES) - {"bert"}


def test_the_engine_knows_no_method_by_name():
    found = {
        name: words(tree) & FAMILIES - NAMED.get(name, set())
        for name, tree in HARNESS.items()
    }
    assert not {name: families for name, families in found.items() if families}


def test_a_name_says_what_it_is():
    empty = {"utils", "helpers", "base", "manager", "misc", "common"}
    assert not [name for name in EVERY if empty & set(name.split("."))]


# Names of two things or more. The lists only shrink: one idea has one home, and a name
# of its own.
@pytest.mark.parametrize("kind", [ast.ClassDef, ast.FunctionDef])
def test_no_name_stands_for_two_things(kind):
    names = (
        n.name for tree in EVERY.values() for n in tree.body if isinstance(n, kind)
    )
    hooks = ("_", "pytest_")  # those of pytest have its names
    times = Counter(name for name in names if not name.startswith(hooks))
    assert [name for name, count in times.items() if count > 1] == []


# The tuples by which a file registers what it adds, or its one metric: each has its
# own.
REGISTERED = {*PLUGIN_LISTS, "METRIC"}
# These have two meanings still; the list only shrinks.
AMBIGUOUS = {
    *("CITE", "ENCODING_VERSION", "LOG"),  # one each of the files that need it
    *(
        "CLASSES",
        "FILES",
        "HEADER",
        "LEAST_SPREAD",
        "QUESTIONS",
        "SCALE",
        "SEED",
        "SPLITS",
    ),
}


def constants(tree: ast.Module) -> set[str]:
    """The public names that a module assigns: constants, and names of types."""
    names: set[str] = set()
    for statement in tree.body:
        targets = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        for target in targets:
            names |= {
                node.id for node in ast.walk(target) if isinstance(node, ast.Name)
            }
    return {name for name in names if not name.startswith("_")} - REGISTERED


def test_no_constant_of_the_engine_has_two_meanings():
    """A baseline is read alone, so its constants need to be told apart in their file alone."""
    modules_of = defaultdict(list)
    for module, tree in HARNESS.items():
        for name in constants(tree):
            modules_of[name].append(module)
    repeated = {name: found for name, found in modules_of.items() if len(found) > 1}
    assert not {
        name: found for name, found in repeated.items() if name not in AMBIGUOUS
    }


def test_no_name_of_a_method_is_a_preposition_or_adverb():
    """A maker says what it makes a thing from: `Protocol.from_score`, and not `Protocol.of`."""
    vague = {
        "of",
        "by",
        "here",
        "there",
        "own",
        "every",
        "known",
        "due",
        "left",
        "whole",
    }
    found = {
        f"{module}.{function.name}"
        for module, function in nodes(ast.FunctionDef)
        if function.name in vague
    }
    assert not found - VAGUE


# The names of these are older; the list only shrinks.
VAGUE = {
    "harness.transforms.affine.of"  # the moments of vectors, in the words of statistics
}

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


def nodes(kind: type[Node]) -> Iterator[tuple[str, Node]]:
    """Every node of a kind, with the module it stands in."""
    for name, tree in EVERY.items():
        yield from ((name, node) for node in ast.walk(tree) if isinstance(node, kind))


def calls() -> Iterator[tuple[str, str, set[str]]]:
    """Every call: its module, what is called, its keywords."""
    for name, node in nodes(ast.Call):
        yield name, ast.unparse(node.func), set(map(ast.unparse, node.keywords))


def test_nothing_is_unpickled():
    """The module is imported for the name of its error alone.

    Joblib carries the work of a run between its own processes, and reads no file.
    """
    uses = {ast.unparse(node) for _, node in nodes(ast.Attribute)}
    assert {use for use in uses if use.startswith("pickle.")} <= {
        "pickle.UnpicklingError"
    }
    foreign = r"(pickle\.|c?loudpickle|dill|joblib|shelve|marshal)"
    found = {
        (n, i)
        for n, tree in EVERY.items()
        for i in imported(tree)
        if re.match(foreign, i)
    }
    assert {module for module, _ in found} <= {"harness.evaluation.engines"}


def test_nothing_foreign_is_executed():
    found = list(calls())
    assert not [name for name, _, keywords in found if keywords & UNSAFE]
    loads = [keywords for _, called, keywords in found if called == "torch.load"]
    assert all("weights_only=True" in keywords for keywords in loads)


def test_no_generator_is_seeded_for_everybody():
    assert not [name for name, called, _ in calls() if called in GLOBAL_SEEDS]


# One cell's failure is not worth the others, a command ends in one line, and a plug-in
# is the code of others. The library tokenizers raises no type of its own but
# `Exception` itself.
CATCHES_ALL = {
    "harness.cli",
    "harness.contracts.laws",
    "harness.encoders.library",
    "harness.evaluation.run",
    "harness.plugins",
}


def test_only_expected_errors_are_caught():
    """What catches everything raises it again."""
    for name, handler in nodes(ast.ExceptHandler):
        if name in CATCHES_ALL:
            continue
        caught = "Exception" if handler.type is None else ast.unparse(handler.type)
        if re.search(r"\b(Base)?Exception\b", caught):
            assert ast.unparse(handler.body[-1]) == "raise", name


# Sizes and docstrings


def test_a_module_fits_in_a_head():
    for package, limit in {"harness": 640, "baselines": 180}.items():
        files = {
            path: path.read_text().count("\n")
            for path in (ROOT / package).rglob("*.py")
        }
        assert not {path: lines for path, lines in files.items() if lines > limit}


def test_whatever_is_public_says_what_it_is():
    public = [
        (f"{name}.{node.name}", node)
        for name, tree in EVERY.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not node.name.startswith("_")
    ]
    assert not [
        name for name, node in [*EVERY.items(), *public] if not ast.get_docstring(node)
    ]


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
