"""What `harness` exports: lazily, completely, with examples that are run."""

import ast
import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import harness

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("numpy", "scipy", "torch", "transformers", "mteb", "datasets")
FUNCTIONS = [n for n in harness.__all__ if inspect.isfunction(inspect.unwrap(getattr(harness, n)))]
CLASSES = [n for n in harness.__all__ if inspect.isclass(getattr(harness, n))]


def members(name):
    """The public methods of an exported class that are its own."""
    return {
        f"{name}.{key}": value.__func__ if isinstance(value, classmethod) else value
        for key, value in vars(getattr(harness, name)).items()
        if not key.startswith("_") and (callable(value) or isinstance(value, classmethod))
    }


DOCUMENTED = {name: getattr(harness, name) for name in (*FUNCTIONS, *CLASSES)} | {
    name: member for owner in CLASSES for name, member in members(owner).items()
}
EXAMPLES = {
    name: test
    for name, documented in DOCUMENTED.items()
    if (
        test := doctest.DocTestParser().get_doctest(inspect.getdoc(documented), {}, name, "", 0)
    ).examples
}


def test_importing_the_package_imports_nothing_heavy():
    asked = f"import harness, sys; sys.exit(str([m for m in {HEAVY} if m in sys.modules] or ''))"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""


def test_type_checkers_and_the_interpreter_are_told_the_same_names():
    tree = ast.parse((ROOT / "harness" / "__init__.py").read_text(encoding="utf-8"))
    [typed] = [n for n in tree.body if isinstance(n, ast.If)]
    told = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted({*told, "__version__"}) == sorted(harness.__all__)
    for name, home in told.items():
        module, _, original = home.rpartition(".")
        assert getattr(harness, name) is getattr(sys.modules[module], original), name


def test_a_name_that_is_not_exported_is_refused_and_a_submodule_is_none():
    with pytest.raises(AttributeError, match="module 'harness' has no attribute 'nothing'"):
        _ = harness.nothing
    assert not {path.stem for path in (ROOT / "harness").iterdir()} & set(harness.__all__)


def test_the_version_is_that_of_the_project():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{harness.__version__}"\n' in project
    assert f"\nversion: {harness.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def parameters(function):
    return set(inspect.signature(function).parameters) - {"self", "cls", "_"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_documents_its_arguments_and_what_it_returns(name):
    text = inspect.getdoc(getattr(harness, name))
    assert "Returns:" in text
    assert ("Raises:" in text) == (name != "verdict")  # which judges whatever could be made
    missing = {p for p in parameters(getattr(harness, name)) if f"\n    {p}: " not in text}
    assert not missing


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(
        EXAMPLES[name], out=report.append
    )
    assert not report, "".join(report)
