"""`tests/recompute` finds every committed page true, and a page with another number false."""

import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tiny_models import rest_slow

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "recompute"

PAGES = {
    "leaderboard": "results/LEADERBOARD.md",
    "claims": "results/tables/replication-in-miniature.md",
    "traps": "results/tables/protocols.md",
    "conformance": "results/tables/conformance.md",
    "README": "README.md",
    "site": "results/site/index.html",
}
# The check that finds it, with the page where it looks at several, and a text of which
# the group is replaced: a number by another, or by what is given.
MUTANTS = {
    "a score": ("leaderboard", r"\| `minilm\.mean` +\| +(\d\d\.\d\d)"),
    "an average": (
        "leaderboard",
        r"\| `minilm\.first-last` .*\| +(\d\d\.\d\d) \| +[\d.]+ \|",
    ),
    "a cost": ("leaderboard", r"\| `minilm\.last2` .*\| +([\d.]+) \|"),
    "a count of published numbers": (
        "leaderboard",
        r"\| all +\|.*\| +(\d+) \| +\d+ \|\n",
    ),
    "a mark of rows that are alike": ("leaderboard", r"\| `\S+`( ≈) *\|", "  "),
    "gold itself": ("leaderboard", r"\n[A-Z][^|\n]* (-\d+\.\d\d) "),
    "a spread over seeds": ("encoders minilm.md", r"\| +\d\d\.\d\d ± (\d\.\d\d)"),
    "a row that is left out": (
        "encoders bert-mini.md",
        r"(\| `bert-mini\.cls` .*\n)",
        "",
    ),
    "a hole": ("encoders glove-mini.md", r"\| +(\d\d\.\d\d)", "not run"),
    "a published number": ("papers papers/bert-flow.t2.md", r"(70\.72)"),
    "a measured number": (
        "papers papers/mteb.1-12-75.md",
        r"measured.*? (\d\d\.\d{4})",
    ),
    "a verdict": ("papers papers/sif.t1.md", r"measured\s(∼)", "="),
    "evidence": ("papers papers/bert-flow.t5.md", r"\| (◉)", "●"),
    "the count of a table": ("papers papers/CONTENTS.txt", r"(\d+)  bert-flow\.t2"),
    "the count of claims": ("claims", r"\n\*\*\D+(\d+)\D+\d+\D+\d+"),
    "an effect": (
        "claims",
        r"\| \[first-last-above-mean\][^\n]*?[-+.\d]+, [-+](\d+\.\d\d)",
    ),
    "an interval of a claim": (
        "claims",
        r" to ([-+]\d\.\d\d) \| +[<.\d]+ \| +higher \|",
    ),
    "an outcome": (
        "claims",
        r"\| +[-+.\d]+ to [-+.\d]+ \| +[<.\d]+ \| +(higher) \|",
        "undecided",
    ),
    "a search": ("claims", r"\| p = 0 .*?(\d\d\.\d\d)"),
    "a trap": ("traps", r"`wmean` +\| +`minilm\.mean` .*?(\d\d\.\d\d)"),
    "a difference from authors' code": ("conformance", r"[-+]\d\.\d{3}(\d) \|"),
    "scores of libraries": ("conformance", r"\n[^|\n]*\d\D+(\d+) of "),
    "a count of the README": ("README", r"\n(\d)\S+ \D+\d+ \D+\d+ "),
    "an inferred protocol": ("README", r"\n(?:[\d,]+\D+){5}([\d,]+)"),
    "a number of the README": ("README", r"\| SIF [^|]+\| +(\d+)"),
    "scores counted once": ("site", r"<li><strong>\d+</strong>[^<]*<span>\D*(\d+)"),
    "a board of the site": ("site", r"minilm\.mean</th><td>(\d\d\.\d\d)"),
    "a published number of the site": ("site", r"<td>△</td><td>(70\.72)"),
    "a measured number of the site": ("site", r"<td class=\"exact\">(65\.89) <"),
    "a verdict of the site": ("site", r"<abbr title=\"exact\">(=)<", "≃"),
    "a count of the site": ("site", r"<strong>(\d+)</strong> of \d,\d{3} "),
    "a score in a dialog": ("site", r'avg-glove":\{.*?"sick-r":.*?\[(\d\d\.\d{4})\],'),
    "a claim of the site": ("site", r"<td>(\d) of 7</td>"),
}


@pytest.fixture(scope="module")
def script() -> Mapping[str, Any]:
    """What the script defines, whose modules are found beside it."""
    return runpy.run_path(str(SCRIPT))


def test_every_number_on_the_committed_pages_follows_from_the_records():
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.findall(r"([\d,]+) on \w+", done.stdout)
    assert len(counts) == 8
    assert sum(int(count.replace(",", "")) for count in counts) > 30_000


@pytest.mark.parametrize(
    "what", rest_slow(MUTANTS, "a score", "a verdict", "an outcome")
)
def test_a_page_with_another_number_is_found_out(what, script, tmp_path):
    named, pattern, *given = MUTANTS[what]
    kind, _, file = named.partition(" ")
    (tmp_path / "results").mkdir()
    for path in (ROOT / "results").iterdir():
        if path.name not in ("LEADERBOARD.md", "tables", "site"):
            (tmp_path / "results" / path.name).symlink_to(path)
    for folder in ("results/tables", "results/site"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name in (PAGES["leaderboard"], PAGES["README"]):
        shutil.copy(ROOT / name, tmp_path / name)
    page = tmp_path / (f"results/tables/{file}" if file else PAGES[kind])
    text = page.read_text(encoding="utf-8")
    match = re.search(pattern, text)
    assert match, f"{pattern} is not on {page}"
    changed = given[0] if given else neighbour(match[1])
    start, end = match.span(1)
    page.write_text(text[:start] + changed + text[end:], encoding="utf-8")
    report = script["Report"]()
    script["CHECKS"][kind](script["read_inputs"](tmp_path / "results"), report)
    assert 1 <= len(report.faults) <= 3, (
        report.faults
    )  # this place, and what its line is part of


def neighbour(text: str) -> str:
    """A number whose last digit is another."""
    return text[:-1] + str((int(text[-1]) + 1) % 10)
