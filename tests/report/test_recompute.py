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

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "recompute"

LEADERBOARD, README, TABLES = "results/LEADERBOARD.md", "README.md", "results/tables"
SITE = "results/site/index.html"
CLAIMS = f"{TABLES}/replication-in-miniature.md"
# The check that finds it, a page, and a text on it of which the group is replaced: a number by
# another, or by what is given.
MUTANTS = {
    "a score of the leaderboard": (
        "leaderboard",
        LEADERBOARD,
        r"\| `minilm\.mean` +\| +(\d\d\.\d\d)",
    ),
    "an average": (
        "leaderboard",
        LEADERBOARD,
        r"\| `minilm\.first-last` .*\| +(\d\d\.\d\d) \| +[\d.]+ \|",
    ),
    "a cost": ("leaderboard", LEADERBOARD, r"\| `minilm\.last2` .*\| +([\d.]+) \|"),
    "a count of published numbers": (
        "leaderboard",
        LEADERBOARD,
        r"\| all +\|.*\| +(\d+) \| +\d+ \|\n",
    ),
    "a mark of rows that are alike": ("leaderboard", LEADERBOARD, r"\| `\S+`( ≈) *\|", "  "),
    "gold itself": ("leaderboard", LEADERBOARD, r"gold itself has (-\d+\.\d\d) over all"),
    "a spread over seeds": ("encoders", f"{TABLES}/minilm.md", r"\| +\d\d\.\d\d ± (\d\.\d\d)"),
    "a row that is left out": (
        "encoders",
        f"{TABLES}/bert-mini.md",
        r"(\| `bert-mini\.cls` .*\n)",
        "",
    ),
    "a hole": ("encoders", f"{TABLES}/glove-mini.md", r"\| +(\d\d\.\d\d)", "not run"),
    "a map": ("flows", f"{TABLES}/flows.md", r"\| `sn` +\| linear \| +(\d\d\.\d\d)"),
    "an interval of an answer": (
        "flows",
        f"{TABLES}/flows.md",
        r"minus `flow`: STS12 \S+ ± (\d\.\d\d)",
    ),
    "an answer": ("flows", f"{TABLES}/flows.md", r"is ahead on (\d)"),
    "a published number": ("papers", f"{TABLES}/papers/bert-flow.t2.md", r"(70\.72)"),
    "the same in LaTeX": ("papers", f"{TABLES}/papers/bert-flow.t2.tex", r"(70\.72)"),
    "a measured number": (
        "papers",
        f"{TABLES}/papers/mteb.1-12-75.md",
        r"measured.*? (\d\d\.\d{4})",
    ),
    "that in LaTeX": ("papers", f"{TABLES}/papers/mteb.1-12-75.tex", r"measured.*? (\d\d\.\d{4})"),
    "a verdict": ("papers", f"{TABLES}/papers/sif.t1.md", r"measured\s(∼)", "="),
    "evidence": ("papers", f"{TABLES}/papers/bert-flow.t5.md", r"\| (◉)", "●"),
    "evidence in LaTeX": (
        "papers",
        f"{TABLES}/papers/bert-flow.t5.tex",
        r"& (\$\\odot\$)",
        r"$\bullet$",
    ),
    "the count of a table": ("papers", f"{TABLES}/papers/CONTENTS.txt", r"(\d+)  bert-flow\.t2"),
    "the count of claims": ("claims", CLAIMS, r"\*\*Of (\d+) claims"),
    "an effect": (
        "claims",
        CLAIMS,
        r"\| \[first-last-above-mean\]\S+ +\| +[-+.\d]+, [-+](\d+\.\d\d)",
    ),
    "an interval of a claim": ("claims", CLAIMS, r" to ([-+]\d\.\d\d) \| +holds \|"),
    "an outcome": ("claims", CLAIMS, r"\| +[-+.\d]+ to [-+.\d]+ \| +(holds) \|", "undecided"),
    "an order of rows": ("claims", CLAIMS, r"\+1\.00 \((\d) of \d\)"),
    "a search": ("claims", CLAIMS, r"\| p = 0 .*?(\d\d\.\d\d)"),
    "a trap": ("traps", f"{TABLES}/protocols.md", r"`wmean` +\| +`minilm\.mean` .*?(\d\d\.\d\d)"),
    "a difference from authors' code": (
        "conformance",
        f"{TABLES}/conformance.md",
        r"[-+]\d\.\d{3}(\d) \|",
    ),
    "a count of the README": ("README", README, r"\n(\d)\S+ published numbers from \d+ tables of"),
    "an inferred protocol": ("README", README, r"here and ([\d,]+) rest on an inferred protocol"),
    "claims on a failed training": ("claims", CLAIMS, r"(\d) claims \(.*?\) rest on a training"),
    "scores of libraries": ("conformance", f"{TABLES}/conformance.md", r"released, (\d+) of libr"),
    "scores counted once": ("site", SITE, r"by (\d+) different scores"),
    "a board of the site": ("site", SITE, r"minilm\.mean</th><td>(\d\d\.\d\d)"),
    "a published number of the site": ("site", SITE, r"<td>△</td><td>(70\.72)"),
    "a measured number of the site": ("site", SITE, r"<td class=\"exact\">(65\.89) <"),
    "a verdict of the site": ("site", SITE, r"measured: (exact)<", "match"),
    "a count of the site": ("site", SITE, r"<strong>(\d+)</strong> of \d,\d{3} "),
    "a score in a dialog": ("site", SITE, r'avg-glove":\{.*?"sick-r":.*?\[(\d\d\.\d{4})\],'),
    "a claim of the site": ("site", SITE, r"<td>(\d) of 7</td>"),
    "a number of the README": ("README", README, r"\| BERT-flow [^|]+\| +(\d+)"),
}


@pytest.fixture(scope="module")
def script() -> Mapping[str, Any]:
    """What the script defines, whose modules are found beside it."""
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def inputs(script) -> tuple[Any, Any]:
    """The committed records and published tables, read by the script."""
    tables = script["papers"].read_tables(ROOT / "results" / "papers")
    return script["read_records"](ROOT / "results"), tables


def test_every_number_on_the_committed_pages_follows_from_the_records():
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.findall(r"([\d,]+) on \w+", done.stdout)
    assert len(counts) == 9
    assert sum(int(count.replace(",", "")) for count in counts) > 30_000


@pytest.mark.parametrize("what", MUTANTS)
def test_a_page_with_another_number_is_found_out(what, script, inputs, tmp_path):
    kind, name, pattern, *given = MUTANTS[what]
    (tmp_path / "results").mkdir()
    for one in (ROOT / "results").iterdir():
        if one.name not in ("LEADERBOARD.md", "tables", "site"):
            (tmp_path / "results" / one.name).symlink_to(one)
    for folder in (TABLES, "results/site"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / LEADERBOARD, tmp_path / LEADERBOARD)
    shutil.copy(ROOT / README, tmp_path / README)
    page = tmp_path / name
    text = page.read_text(encoding="utf-8")
    found = re.search(pattern, text)
    assert found, f"{pattern} is not on {name}"
    changed = given[0] if given else neighbour(found[1])
    start, end = found.span(1)
    page.write_text(text[:start] + changed + text[end:], encoding="utf-8")
    report = script["Report"]()
    script["CHECKS"][kind](tmp_path / "results", *inputs, report)
    assert 1 <= len(report.faults) <= 3, report.faults  # this place, and what its line is part of


def neighbour(text: str) -> str:
    """A number whose last digit is another."""
    return text[:-1] + str((int(text[-1]) + 1) % 10)
