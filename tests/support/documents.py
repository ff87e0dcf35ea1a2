"""Markdown pages and the commands in them, read as a reader would type them."""

import ast
import re
import shlex
from contextlib import suppress
from unittest import mock

from processes import ROOT
from typer.main import get_command

from harness.cli import app

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    """The fenced blocks of a language."""
    return [text for found, text in FENCE.findall(page) if found == language]


def lines(page):
    """Every line of a shell block, as words; what follows a # is for the reader."""
    every = (
        shlex.split(x, comments=True)
        for text in blocks(page, "sh")
        for x in text.split("\n")
    )
    return [words for words in every if words]


def expressions(page):
    """The Python expressions in running text, such as `f(x).y`: trees by their text."""
    trees = {}
    for span in re.findall(r"`([^`]+)`", FENCE.sub("", page)):
        with suppress(SyntaxError):
            trees[span] = ast.parse(span, mode="eval").body
    return trees


def mentions(page):
    """The commands in running text: they may leave out what they need."""
    spans = (span.split() for span in re.findall(r"`([^`]+)`", FENCE.sub("", page)))
    return [
        words for words in spans if len(words) > 1 and words[0] in ("harness", "make")
    ]


def of_make():
    """The harness commands of the Makefile, its variables without a value."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"\$\(BIN\)/(harness [^&;\n]+)", makefile)
    return [
        re.sub(r"\$\(PROFILE\)", "all", c).replace("$(ARGS)", "").split()
        for c in commands
    ]


def starting(*words, among):
    """The lines that begin with these words."""
    return [line for line in among if tuple(line[: len(words)]) == words]


def told(words):
    """A command as it is typed: the name of its case."""
    return " ".join(words)


def parsed(arguments):
    """The subcommand's own arguments after Click has parsed them; nothing is run."""
    command, name = get_command(app), "harness"
    while hasattr(command, "commands"):
        name, *arguments = arguments
        assert name in command.commands, f"there is no harness {name}"
        command = command.get_command(None, name)
    with (
        mock.patch("torch.cuda.device_count", return_value=4),
        mock.patch("harness.cli.options.plugins_in_use"),
        mock.patch("harness.cli.options.plugin_of_file"),
        mock.patch("harness.contracts.laws.open_plugins"),
    ):
        return command.make_context(name, list(arguments)).params


def recipe(target):
    """The lines of a make target."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)*)", makefile, re.MULTILINE)
    assert found, f"there is no make {target}"
    return found[1]


def anchors(page):
    """The fragments that its headings can be linked by."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


def broken_links(path):
    """The relative links of a page that lead nowhere; addresses on the web are not looked at."""
    page = path.read_text(encoding="utf-8")
    broken = []
    for target in re.findall(r"\]\((?!http)([^)]+)\)", page):
        file, _, anchor = target.partition("#")
        other = path.parent / file if file else path
        in_page = bool(anchor) and not anchor.startswith("harness.")
        if not other.exists() or (
            in_page and anchor not in anchors(other.read_text("utf-8"))
        ):
            broken.append(target)
    return broken
