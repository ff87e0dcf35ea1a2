"""README and its guides do what they say: commands parse, cheap ones are run, links hold."""

import re
from fnmatch import fnmatchcase

import numpy as np
import pytest
from documents import (
    FENCE,
    ROOT,
    blocks,
    broken_links,
    lines,
    parsed,
    recipe,
    starting,
    told,
)
from typer import BadParameter
from typer.main import get_command

from baselines.miniature import ENCODERS
from harness.assets.places import packaged
from harness.cli import app, main
from harness.core.interfaces import Trained
from harness.evaluation.select import PROFILES
from harness.registry import load_registry
from harness.results.verdict import CellState
from harness.tasks.mini import SPLITS

README = (ROOT / "README.md").read_text(encoding="utf-8")
INCLUDED = (ROOT / "docs/included.md").read_text(encoding="utf-8")
GUIDES = [
    README,
    INCLUDED,
    *((ROOT / f"docs/how-to/{n}.md").read_text("utf-8") for n in ("train", "offline")),
]
DOCUMENTS = "".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
LINES = [words for guide in GUIDES for words in lines(guide)]
SETTING = re.compile(r"[A-Z_]+=.*")


def mentions(text=README):
    """Commands in running text: they may leave out what they need."""
    spans = re.findall(r"`([^`]+)`", FENCE.sub("", text))
    every = (span.split() for span in spans)
    return [words for words in every if len(words) > 1 and words[0] in ("harness", "make")]


def of_make():
    """The harness commands of the Makefile, its variables without a value."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.findall(r"\$\(BIN\)/(harness [^&;\n]+)", makefile)
    return [re.sub(r"\$\(PROFILE\)", "all", line).replace("$(ARGS)", "").split() for line in found]


# Commands


def test_a_shell_block_holds_nothing_that_is_not_looked_at():
    assert {words[0] for words in LINES} == {"harness", "make", "export"}


@pytest.mark.parametrize("words", starting("harness", among=[*LINES, *of_make()]), ids=told)
def test_a_command_parses(words):
    parsed(words[1:])


@pytest.mark.parametrize("words", starting("harness", among=mentions()), ids=told)
def test_a_command_in_running_text_parses_as_far_as_it_goes(words):
    try:
        parsed(words[1:])
    except BadParameter:  # one that is missing
        assert not any(word.startswith("-") for word in words), "then it should be whole"


def test_a_renamed_option_would_be_noticed():
    with pytest.raises(Exception, match="No such option"):
        parsed(["train", "simcse-sup", "--form", "bert-mini"])
    with pytest.raises(AssertionError, match="there is no harness measure"):
        parsed(["measure"])


def test_every_command_is_shown():
    documented = [*LINES, *mentions(README + DOCUMENTS), *lines(DOCUMENTS), *of_make()]
    shown = {words[1] for words in starting("harness", among=documented)}
    assert shown == set(get_command(app).commands)


@pytest.mark.parametrize("words", starting("make", among=[*LINES, *mentions()]), ids=told)
def test_a_target_is_in_the_makefile_and_takes_the_arguments(words):
    settings = [word for word in words[1:] if SETTING.fullmatch(word)]
    [target] = [word for word in words[1:] if word not in settings]
    commands = recipe(target)
    for setting in settings:
        name, _, value = setting.partition("=")
        assert f"$({name})" in commands
        if value.startswith("-"):
            parsed([target, value])
        else:
            assert (ROOT / value).exists()


def test_the_profiles_are_those_that_there_are():
    [named] = re.findall(r"PROFILE=([a-z|]+)", README)
    assert set(named.split("|")) == set(PROFILES) - {"all"}  # the default


@pytest.mark.parametrize("words", starting("harness", "train", among=LINES), ids=told)
def test_a_training_starts_from_what_there_is(words):
    given, found = parsed(words[1:]), load_registry()
    if words[2] == "family":
        assert isinstance(found.encoders[given["name"]].source, Trained)
        return
    if words[2] == "search":
        assert (ROOT / given["spec"]).exists()
        return
    assert given.get("start", "bert-mini") in found.encoders
    assert given.get("file") or given["corpus"] in found.corpora


# What is cheap is run


@pytest.fixture
def said(tmp_path, monkeypatch, capfd):
    """The command line in a folder that holds what the README's examples name."""
    carried = packaged(ENCODERS[0])
    (tmp_path / "results").symlink_to(ROOT / "results")
    (tmp_path / "path" / "to").mkdir(parents=True)
    for name in ("path/to/folder", "my-simcse"):
        (tmp_path / name).symlink_to(carried)
    row = np.ones(3, np.float32).tobytes()
    (tmp_path / "vectors.bin").write_bytes(b"2 3\na " + row + b"\nb " + row + b"\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HARNESS_DATA_DIR", raising=False)

    def answer(arguments):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return ended.value.code or 0, *capfd.readouterr()

    return answer


READING = ("list", "explain", "cite")  # to plan everything takes longer than to plan a run
RUNS = [words[1:] for words in starting("harness", "run", among=LINES) if "--quick" not in words]


def carried(arguments):
    """Whether all that a run reads comes with the package."""
    return all(task.startswith("mini-") for task in parsed(arguments)["task"])


@pytest.mark.parametrize(
    "arguments", [words[1:] for words in LINES if words[1] in READING], ids=told
)
def test_a_command_that_reads_answers(said, arguments):
    status, out, err = said(arguments)
    assert (status, err) == (0, "")
    assert out


@pytest.mark.parametrize("arguments", [a for a in RUNS if not carried(a)], ids=told)
def test_a_run_that_needs_data_can_be_planned(said, arguments):
    """Its methods, tasks and encoders are known; only data are missing, and the plan says which."""
    status, out, _ = said(["plan", *arguments[1:], *([] if "--json" in arguments else ["--json"])])
    assert (status, '"missing": {' in out) == (0, True)
    assert "get it: harness fetch" in out


@pytest.mark.parametrize("arguments", [a for a in RUNS if carried(a)], ids=told)
def test_a_run_of_what_is_carried_measures_without_anything_else(said, arguments, tmp_path):
    status, out, _ = said(arguments)
    methods = [m for m in load_registry().methods if fnmatchcase(m, *parsed(arguments)["method"])]
    measured = [line for line in out.splitlines() if " -> runs/records/" in line]
    assert (status, len(measured)) == (0, len(methods))
    assert len(list((tmp_path / "runs" / "records").rglob("seed-*.json"))) == len(methods)


def test_fetch_without_a_network_answers(said):
    """Nothing is here to be checked."""
    [words] = [w for w in starting("harness", "fetch", among=LINES) if "--offline" in w]
    status, _, err = said(words[1:])
    assert (status, err.startswith("harness: ")) == (3, True)


def test_a_check_without_a_run_says_so(said):
    assert ["harness", "check"] in LINES
    status, out, _ = said(["check"])
    assert (status, "could not run" in out) == (3, True)


@pytest.mark.parametrize("block", blocks(README, "python"))
def test_the_python_example_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    who, does = ("man", "dog", "girl", "crowd", "horse"), ("runs", "sits", "eats", "sleeps")
    where = ("in the park", "on a hill", "at home", "near the river", "by the sea")
    sentences = [f"A {a} {b} {c}." for a in who for b in does for c in where]
    (tmp_path / "my_sentences.txt").write_text("\n".join(sentences))
    names = {}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - our own text
    shape = tuple(map(int, re.search(r"# \((\d+), (\d+)\), float64", block).groups()))
    assert (names["vectors"].shape, names["vectors"].dtype) == (shape, np.float64)


# The rest


def test_links_lead_somewhere():
    assert not broken_links(ROOT / "README.md")


def test_every_verdict_and_state_is_explained():
    table = README.split("## How to read a verdict")[1].split("\n## ")[0]
    assert {state for state in CellState if f"`{state}`" not in table} == set()


def test_everything_that_is_carried_is_told():
    names = [e.name for e in ENCODERS] + [*SPLITS, "mini-lexical", "@mini-text"]
    assert [name for name in names if f"`{name}`" not in INCLUDED] == []
