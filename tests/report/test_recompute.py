"""`tests/recompute` finds every committed page true, and a page with another number false."""

import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tiny_models import rest_slow

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "recompute"
LEADERBOARD = "results/LEADERBOARD.md"
CLAIMS = "results/tables/replication-in-miniature.md"
TRAPS = "results/tables/protocols.md"
CONFORMANCE = "results/tables/conformance.md"
README = "README.md"
SITE = "results/site/index.html"
SIF = "results/tables/papers/sif.t1.md"
FLOW = "results/tables/papers/bert-flow.t2.md"
MTEB = "results/tables/papers/mteb.1-12-75.md"


@dataclass(frozen=True)
class Change:
    """A change of a page: the group of a pattern becomes another text, or the next number."""

    kind: str
    page: str
    pattern: str
    text: str | None = None


CHANGES = {
    "a score": Change(
        "leaderboard", LEADERBOARD, r"\| `minilm\.mean` +\| +(\d\d\.\d\d)"
    ),
    "an average": Change(
        "leaderboard",
        LEADERBOARD,
        r"\| `minilm\.first-last` +\|(?:[^|]+\|){7} +(\d\d\.\d\d) \|",
    ),
    "a cost": Change(
        "leaderboard", LEADERBOARD, r"\| `minilm\.last2` .*\| +([\d.]+) \|"
    ),
    "a count of published numbers": Change(
        "leaderboard", LEADERBOARD, r"sif\.t1\.md\) +\| +\d+ \| +(\d+) \|"
    ),
    "a row that is left out": Change(
        "encoders", "results/tables/bert-mini.md", r"(\| `bert-mini\.cls` .*\n)", ""
    ),
    "a hole": Change(
        "encoders", "results/tables/glove-mini.md", r"\| +(\d\d\.\d\d)", "not run"
    ),
    "a number of the first table": Change(
        "README", README, r"\| measured here: exact +\| +(\d\d\.\d\d)"
    ),
    "a count of the README": Change("README", README, r"numbers from (\d+) tables"),
    "a published number": Change("papers", FLOW, r"(70\.72)"),
    "a measured number": Change("papers", MTEB, r"measured.*? (\d\d\.\d{4})"),
    "a verdict": Change("papers", SIF, r"71\.83\s(∼)", "="),
    "an interval of a claim": Change(
        "claims", CLAIMS, r" to ([-+]\d\.\d\d) \| +[<.\d]+ \| +as claimed \|"
    ),
    "an outcome": Change(
        "claims",
        CLAIMS,
        r"\| +[-+.\d]+ to [-+.\d]+ \| +[<.\d]+ \| +(as claimed) \|",
        "undecided",
    ),
    "a trap": Change("traps", TRAPS, r"`wmean` +\| +`minilm\.mean` .*?(\d\d\.\d\d)"),
    "a difference from authors' code": Change(
        "conformance", CONFORMANCE, r"[-+]\d\.\d{3}(\d) \|"
    ),
    "a board of the site": Change(
        "site", SITE, r"minilm\.mean</code></th><td>(\d\d\.\d\d)"
    ),
    "a measured number of the site": Change(
        "site", SITE, r"<td class=\"exact\">(72\.63)<"
    ),
    "a score in a dialog": Change(
        "site", SITE, r'avg-glove/sick-r":.*?\[(\d\d\.\d{4})\],'
    ),
}


@pytest.fixture(scope="module")
def script() -> Mapping[str, Any]:
    """What the script defines, whose modules are in its folder."""
    return runpy.run_path(str(SCRIPT))


def test_every_number_on_the_committed_pages_follows_from_the_records():
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.findall(r"([\d,]+) on \w+", done.stdout)
    assert len(counts) == 8
    assert sum(int(count.replace(",", "")) for count in counts) > 30_000


@pytest.mark.parametrize(
    "name", rest_slow(CHANGES, "a score", "a verdict", "an outcome")
)
def test_a_page_with_another_number_is_found_out(name, script, tmp_path):
    change = CHANGES[name]
    copy_pages(tmp_path)
    page = tmp_path / change.page
    text = page.read_text(encoding="utf-8")
    match = re.search(change.pattern, text)
    assert match, f"{change.pattern} is not on {page}"
    changed = next_number(match[1]) if change.text is None else change.text
    start, end = match.span(1)
    page.write_text(text[:start] + changed + text[end:], encoding="utf-8")
    results = script["Results"](tmp_path / "results")
    comparisons = script["PAGES"][change.kind](results)
    faults = [one for one in comparisons if not one.is_equal]
    assert 1 <= len(faults) <= 3, faults  # this place, and what its row is part of


def copy_pages(folder: Path) -> None:
    """Copies of the pages, beside links to what they are made from."""
    (folder / "results").mkdir()
    for path in (ROOT / "results").iterdir():
        if path.name not in ("LEADERBOARD.md", "tables", "site"):
            (folder / "results" / path.name).symlink_to(path)
    for name in ("results/tables", "results/site"):
        shutil.copytree(ROOT / name, folder / name)
    for name in (LEADERBOARD, README):
        shutil.copy(ROOT / name, folder / name)


def next_number(text: str) -> str:
    """A number whose last digit is another."""
    return text[:-1] + str((int(text[-1]) + 1) % 10)
