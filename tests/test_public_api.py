"""What `harness` exports: lazily, completely, with examples that are run."""

import doctest
import inspect
import re
import subprocess
import sys
from enum import Enum

import pytest
from processes import ROOT

import harness

HEAVY = ("numpy", "scipy", "torch", "transformers", "mteb", "datasets")
FUNCTIONS = [
    n
    for n in harness.__all__
    if inspect.isfunction(inspect.unwrap(getattr(harness, n)))
]
CLASSES = [n for n in harness.__all__ if inspect.isclass(getattr(harness, n))]


def members(name):
    """The public methods of an exported class that are its own."""
    return {
        f"{name}.{key}": value.__func__ if isinstance(value, classmethod) else value
        for key, value in vars(getattr(harness, name)).items()
        if not key.startswith("_")
        and (callable(value) or isinstance(value, classmethod))
    }


DOCUMENTED = {name: getattr(harness, name) for name in (*FUNCTIONS, *CLASSES)} | {
    name: member for owner in CLASSES for name, member in members(owner).items()
}


def signature(exported):
    """The arguments of a function or class, without the addresses of functions among them."""
    return re.sub(r" at 0x\w+", "", str(inspect.signature(exported)))


def signatures():
    """Every exported name with its arguments, and below a class its public members."""
    for name in sorted(harness.__all__):
        exported = getattr(harness, name)
        if name not in CLASSES:
            yield f"{name}{signature(exported) if name in FUNCTIONS else ''}"
            continue
        if issubclass(exported, Enum):
            yield f"{name}: {', '.join(map(repr, map(str, exported)))}"
        elif "__init__" not in vars(exported) or getattr(
            exported, "_is_protocol", False
        ):
            yield f"{name}({exported.__base__.__name__})"
        else:
            yield f"{name}{signature(exported)}"
        own = {
            f"{name}.{k}": ""
            for k, v in vars(exported).items()
            if isinstance(v, property)
        }
        own |= {key: signature(member) for key, member in members(name).items()}
        yield from (f"    {key}{own[key]}" for key in sorted(own))


EXAMPLES = {
    name: test
    for name, documented in DOCUMENTED.items()
    if (
        test := doctest.DocTestParser().get_doctest(
            inspect.getdoc(documented), {}, name, "", 0
        )
    ).examples
}


def test_importing_the_package_imports_nothing_heavy():
    asked = f"import harness, sys; sys.exit(str([m for m in {HEAVY} if m in sys.modules] or ''))"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""


def test_a_name_that_is_not_exported_is_refused_and_a_submodule_is_none():
    with pytest.raises(
        AttributeError, match="module 'harness' has no attribute 'nothing'"
    ):
        _ = harness.nothing
    assert not {path.stem for path in (ROOT / "harness").iterdir()} & set(
        harness.__all__
    )


def test_the_exported_names_and_signatures_are_the_committed_ones(approved):
    assert "\n".join([*signatures(), ""]) == approved("public_api.txt")


def parameters(function):
    return set(inspect.signature(function).parameters) - {"self", "cls", "_"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_documents_its_arguments_and_what_it_returns(name):
    text = inspect.getdoc(getattr(harness, name))
    assert "Returns:" in text
    assert ("Raises:" in text) == (
        name != "verdict"
    )  # which judges whatever could be made
    missing = {
        p for p in parameters(getattr(harness, name)) if f"\n    {p}: " not in text
    }
    assert not missing


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(
        EXAMPLES[name], out=report.append
    )
    assert not report, "".join(report)
