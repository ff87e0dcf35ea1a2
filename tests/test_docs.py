"""The documentation names what there is: files, functions, rooms, commands, verdicts, versions."""

import ast
import re
import tomllib
from importlib import import_module
from inspect import signature
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml
from committed import FOLDER
from documents import (
    ROOT,
    blocks,
    broken_links,
    expressions,
    lines,
    mentions,
    of_make,
    parsed,
    recipe,
    starting,
    told,
)
from test_architecture import HARNESS, ROOMS, of_harness
from typer import BadParameter
from typer.main import get_command

import harness
from baselines.sif import SifWeights
from baselines.whitening import Whitening
from harness.cli import app
from harness.encoders.word_vectors import Counted, Fitted
from harness.results.verdict import TOLERANCES, CellState

PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    )
}
ARCHITECTURE = PAGES["docs/architecture.md"]
REFERENCE = "".join(
    text for name, text in PAGES.items() if name.startswith("docs/reference/")
)

TOP = "harness|baselines|results|tests|docs|\\.ci"
SPAN = re.compile(rf"`((?:{TOP})/[\w./-]+)(?::([\w.]+))?`")


def named(page):
    """Every path of the project in backticks, and the function or class behind a colon."""
    return {(path, inner or None) for path, inner in SPAN.findall(page)}


def new_files(page):
    """The paths that a how-to page tells its reader to make."""
    return {
        path
        for row in page.split("\n")
        if re.match(r"\|[^|]+\| new", row)
        for path, _ in SPAN.findall(row.split("|")[1])
    }


def holds(path, name):
    """Whether a module has this function, class or constant, or a class this member."""
    thing = import_module(path.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        thing = getattr(thing, part, None)
    return thing is not None


# Names


@pytest.mark.parametrize("name", PAGES)
def test_every_path_and_function_that_is_named_exists(name):
    made = new_files(PAGES[name])
    assert all((ROOT / path).parent.is_dir() for path in made)
    for path, inner in named(PAGES[name]):
        assert path in made or (ROOT / path).exists(), path
        assert inner is None or holds(path, inner), (path, inner)


def test_each_term_of_the_glossary_is_used_and_no_other_word_for_it():
    section = ARCHITECTURE.partition("## Glossary")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \| ([^|]*?) ?\|$", section, re.MULTILINE)
    terms = dict(rows[1:])  # without the heading
    assert 30 <= len(terms) <= 40
    code = [
        path.read_text(encoding="utf-8") for path in (ROOT / "harness").rglob("*.py")
    ]
    pages = [page.replace(section, "") for page in PAGES.values()]
    text = " ".join("\n".join([*code, *pages]).lower().split())
    assert not [term for term in terms if not re.search(rf"\b{term}", text)]
    synonyms = filter(None, terms.values())
    assert not [word for word in synonyms if re.search(rf"\b{word}s?\b", text)]


@pytest.mark.parametrize("path", [*PAGES, "CHANGELOG.md"])
def test_links_lead_somewhere(path):
    assert not broken_links(ROOT / path)


# The architecture


@pytest.mark.parametrize("room", ["results", "conclusions"])
def test_the_largest_rooms_have_a_reading_order(room):
    table = ARCHITECTURE.split(f"| modules of `{room}` |")[1].split("\n\n")[0]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.M)))
    modules = {
        name: tree for name, tree in HARNESS.items() if name.startswith(f"{room}.")
    }
    assert sorted(f"{room}.{name}" for name in named) == sorted(modules)
    for place, name in enumerate(named):
        later = {f"{room}.{other}" for other in named[place + 1 :]}
        assert not of_harness(modules[f"{room}.{name}"]) & later, name


def test_the_rooms_stand_in_their_order():
    table = ARCHITECTURE.split("## The rooms")[1].split("\n## ")[0]
    rooms = [room for layer in ROOMS for room in layer]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == rooms


def test_the_reference_holds_every_public_name():
    shown = re.findall(r"^::: harness\.(\w+)$", REFERENCE, re.MULTILINE)
    assert sorted(shown) == sorted(set(harness.__all__) - {"__version__"})


def test_every_verdict_and_tolerance_is_explained():
    page = PAGES["docs/verdicts.md"]
    table = PAGES["README.md"].split("## How to read a verdict")[1].split("\n## ")[0]
    for text in (page, table):
        assert not {state for state in CellState if f"`{state}`" not in text}
    assert not {
        t for t in vars(TOLERANCES).values() if not re.search(rf"\b{t:g}\b", page)
    }


# Commands

COMMANDS = {told(words): words for page in PAGES.values() for words in lines(page)}
MENTIONS = [words for page in PAGES.values() for words in mentions(page)]
EVERY_COMMAND = [*COMMANDS.values(), *of_make()]


@pytest.mark.parametrize("words", starting("harness", among=EVERY_COMMAND), ids=told)
def test_a_command_parses(words):
    parsed(words[1:])


@pytest.mark.parametrize(
    "words", starting("harness", among=mentions(PAGES["README.md"])), ids=told
)
def test_a_command_in_running_text_parses_as_far_as_it_goes(words):
    try:
        parsed(words[1:])
    except BadParameter:  # one that is missing
        assert not any(word.startswith("-") for word in words), (
            "then it should be whole"
        )


def test_every_command_is_shown():
    shown = {words[1] for words in starting("harness", among=EVERY_COMMAND + MENTIONS)}
    assert shown == set(get_command(app).commands)


@pytest.mark.parametrize(
    "words", starting("make", among=[*EVERY_COMMAND, *MENTIONS]), ids=told
)
def test_a_target_takes_its_arguments(words):
    [target] = [word for word in words[1:] if not re.fullmatch(r"[A-Z_]+=.*", word)]
    commands = recipe(target)
    for setting in {*words[1:]} - {target}:
        name, _, value = setting.partition("=")
        assert f"$({name})" in commands
        if target == "reproduce" and value.startswith("-"):
            parsed([target, value])


@pytest.mark.parametrize(
    "block", [b for page in PAGES.values() for b in blocks(page, "python")]
)
def test_a_python_example_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("man", "dog", "girl", "crowd", "horse"), ("runs", "sits", "eats", "sleeps")
    where = ("in the park", "on a hill", "at home", "near the river", "by the sea")
    sentences = map("A {} {} {}.".format, *zip(*product(*words, where), strict=True))
    (tmp_path / "my_sentences.txt").write_text("\n".join(sentences))
    names = {}
    exec(compile(block, "docs", "exec"), names)  # noqa: S102 - our own text
    shape = re.search(r"# \((\d+), (\d+)\), float64", block)
    if shape is None:
        assert "assert " in block
    else:
        assert names["vectors"].shape == tuple(map(int, shape.groups()))
        assert names["vectors"].dtype == np.float64


# What the words of running text stand for.
NAMES = {
    "harness": harness,
    "Places": harness.Places,
    "TransformerConfig": harness.TransformerConfig,
    "read_results": harness.read_results,
    "folder": FOLDER,
    "cells": [],
    "Path": Path,
    "__file__": __file__,
    "Counted": Counted,
    "Fitted": Fitted,
    "SifWeights": SifWeights,
    "Whitening": Whitening,
    "loss": lambda step: step,  # the reader's own
}
THEIRS = {"mteb", "SentenceTransformer"}  # which take seconds to import
CALLS = {
    span: tree
    for page in PAGES.values()
    for span, tree in expressions(page).items()
    if "(" in span or span.startswith("folder.")
}


@pytest.mark.parametrize("span", CALLS)
def test_what_running_text_calls_can_be_called_with_these_arguments(span):
    tree = CALLS[span]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if names & THEIRS:
        return
    called = isinstance(tree, ast.Call)
    named = ast.Expression(tree.func if called else tree)
    found = eval(compile(named, span, "eval"), {**NAMES})  # noqa: S307 - our own text
    if called:  # with `...` for further arguments
        keywords = {each.arg: each for each in tree.keywords}
        if any(ast.unparse(each) == "..." for each in tree.args):
            signature(found).bind_partial(**keywords)
        else:
            signature(found).bind(*tree.args, **keywords)


@pytest.mark.parametrize(
    ("page", "kind"), [("claim", "claim"), ("trap", "trap"), ("trap", "cause")]
)
def test_an_example_of_an_entry_has_the_keys_of_its_file(page, kind):
    file = ROOT / f"results/questions/{kind}s.toml"
    entries = tomllib.loads(file.read_text(encoding="utf-8"))[kind]
    known = {key for entry in entries for key in entry}
    shown = map(tomllib.loads, blocks(PAGES[f"docs/how-to/{page}.md"], "toml"))
    [example] = [entry for block in shown for entry in block.get(kind, ())]
    assert {*example} <= known


# Versions

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_changelog_has_the_version_of_the_project():
    """Until a release it is a development version of the next one (PEP 440)."""
    newest, date = re.search(r"^## (\S+) - (.*)$", CHANGELOG, re.MULTILINE).groups()
    assert newest == VERSION.partition(".dev")[0]
    assert (date == "unreleased") == (".dev" in VERSION)


def test_the_example_of_a_workflow_pins_the_last_release_and_what_computes():
    workflow = yaml.safe_load((ROOT / ".ci" / "workflow-example.yml").read_text())
    [install] = [
        step["run"]
        for step in workflow["jobs"]["embeddings"]["steps"]
        if "pip install" in step.get("run", "")
    ]
    pins = dict(word.split("==") for word in install.split() if "==" in word)
    released = re.findall(r"^## (\S+) - \d", CHANGELOG, re.MULTILINE)
    assert pins.pop("sentence-embedding-harness") == released[0]
    constraints = (ROOT / ".ci" / "constraints.txt").read_text().split()
    assert {f"{name}=={version}" for name, version in pins.items()} <= {*constraints}
    assert {"torch", "transformers", "tokenizers"} <= {*pins}
