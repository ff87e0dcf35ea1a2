"""The printed tables, byte for byte: one made-up table with every word, and the pages around it.

The golden files are written anew by `GOLDEN=write pytest tests/report/test_tables.py`; read their
difference before it is committed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeConfig, registry, results_folder
from golden import require_golden

from harness.core.toml import read_rows
from harness.core.types import Record
from harness.registry import load_registry as everything
from harness.report.leaderboard import leaderboard
from harness.report.pages import traps_page
from harness.report.paper_tables import latex, markdown
from harness.report.tallies import published_counts
from harness.results.comparisons import Comparisons, Neighbours
from harness.results.index import Results
from harness.results.protocols import SEVEN, SIMCSE
from harness.results.published import Table, load_table
from harness.results.questions import Trap
from harness.results.records import SCHEMA, Cell, Store
from harness.results.reproduction import Reproduction, reproductions
from harness.results.verdict import CellState

GOLDEN = Path(__file__).parent / "golden"
REGISTRY = registry(FakeConfig())
# The pages of papers are handed a digest; this one is no record's, so that only tables are held.
DIGEST = "0" * 64
# Words that no published cell can get: they belong to runs and to fits.
ELSEWHERE = {CellState.ASSET_MISSING, CellState.OTHER_CORPUS}

PLAIN, CENTRED, SEEDED = "fake.mean", "fake.mean+centre@target", "fake.mean+stretch@target"
CLS, WELCH = "fake.cls", "fake.cls+stretch@target"

TABLE = """
paper = "Nobody et al. 1999"
table = "Table 1"
title = "Every word that a table can say"
cite = "nobody1999"
source = "made up"
metric = "spearman"
aggregation = "wmean"
evidence = "code"
notes = ["No number here was ever measured."]
columns = [
  { id = "all", label = "STS12, all", task = "sts12", aggregation = "all" },
  { id = "wmean", label = "STS12, wmean", task = "sts12" },
  { id = "sts-b", label = "STS-B", task = "sts-b", aggregation = "single set" },
  { id = "sick-r", label = "SICK-R", task = "sick-r", aggregation = "single set" },
  { id = "avg", label = "Avg.", average_of = ["wmean", "sts-b", "sick-r"] },
  { id = "lexical", label = "Lexical", task = "lexical", metric = "edit_distance" },
  { id = "words", label = "Words", task = "sts-b", metric = "word statistic", note = "No score." },
  { id = "mr", label = "MR", why_not = "task", note = "Transfer tasks are not scored." },
]

[[row]]
id = "plain"
label = "Plain"
method = "fake.mean"
backbone = "fake"
fit = "none"
group = "Calibrated"
supervision = "none"
note = "Its average is printed with one decimal."
notes = { sick-r = "Perhaps a misprint." }
[row.values]
all = "70.00"
wmean = "60.00"
sts-b = "80.00"
sick-r = "50.00"
avg = "63.8"
words = "1.234567"
mr = "81.00"

[[row]]
id = "centred"
label = "Centred"
method = "fake.mean+centre@target"
backbone = "fake"
fit = "target"
group = "Calibrated"
transductive = true
supervision = "none"
note = "Its average is printed with one decimal."
values = { all = "71.00", wmean = "61.00", sts-b = "81.00", sick-r = "51.00", avg = "64.33" }

[[row]]
id = "seeded"
label = "Seeded"
method = "fake.mean+stretch@target"
backbone = "fake"
fit = "target"
group = "Calibrated"
evidence = "confirmed"
transductive = true
supervision = "none"
values = { all = "72.00", wmean = "62.00", sts-b = "82.00", sick-r = "52.00", avg = "66.00" }

[[row]]
id = "seeded-elsewhere"
label = "Seeded | printed elsewhere"
method = "fake.mean+stretch@target"
backbone = "fake"
fit = "target"
group = "Calibrated"
transductive = true
supervision = "none"
values = { all = "71.20" }

[[row]]
id = "mean"
label = "Mean of ten runs"
method = "fake.cls+stretch@target"
backbone = "fake"
fit = "target"
group = "Calibrated"
evidence = "paper"
transductive = true
supervision = "none"
n = 10
sd_row = "sd"
statistic = "mean"
values = { all = "73.00", wmean = "63.00", sts-b = "83.00", sick-r = "53.00" }

[[row]]
id = "sd"
label = "Their standard deviation"
why_not = "spread"
backbone = "fake"
fit = "target"
group = "Other rows"
supervision = "none"
values = { all = "0.20", wmean = "0.10", sts-b = "4.00", sick-r = "0.30" }

[[row]]
id = "gold"
label = "Gold"
method = "gold"
model_free = true
backbone = "none"
fit = "none"
group = "Other rows"
supervision = "gold"
values = { lexical = "-24.61" }

[[row]]
id = "stale"
label = "Measured with other settings"
method = "fake.cls"
backbone = "fake"
fit = "none"
group = "Other rows"
evidence = "inferred"
supervision = "none"
values = { all = "74.00", sts-b = "84.00", avg = "65.00" }

[[row]]
id = "undefined"
label = "Constant"
method = "fake.first-last"
backbone = "fake"
fit = "none"
group = "Other rows"
supervision = "none"
values = { wmean = "65.00", sts-b = "85.00", sick-r = "55.00", avg = "68.33" }

[[row]]
id = "not-run"
label = "Nobody ran it"
method = "fake.last2"
backbone = "fake"
fit = "none"
group = "Other rows"
supervision = "none"
values = { all = "76.00", avg = "69.33" }

[[row]]
id = "unknown"
label = "No such encoder"
method = "lost.mean"
backbone = "lost"
fit = "none"
group = "Other rows"
supervision = "NLI"
values = { all = "77.00" }

[[row]]
id = "quoted"
label = "Quoted"
why_not = "quoted"
backbone = "GloVe"
fit = "none"
trained_on = "web text"
group = "Other rows"
supervision = "none"
aggregation = "all"
values = { wmean = "55.14", avg = "58.02" }
"""

TRAPS = """
[[trap]]
title = "Aggregation"
text = "The same vectors and pairs."
rows = [
  { what = "`all`", method = "fake.mean", task = "sts12" },
  { what = "`wmean`", method = "fake.mean", task = "sts12", score = ["spearman", "wmean"] },
  { what = "never run", method = "fake.last2", task = "sts12" },
]

[[trap]]
title = "The first row is a hole"
text = "Then there is nothing to differ from."
rows = [
  { what = "never run", method = "fake.last2", task = "sts-b" },
  { what = "run", method = "fake.mean", task = "sts-b" },
]
"""


def correlations(every: float | None, wmean: float | None = None) -> Mapping[str, Any]:
    """The scores of a task; a single set has the same under both aggregations."""
    return {"spearman": {"all": every, "wmean": every if wmean is None else wmean}}


def record(method: str, task: str, scores: Mapping[str, Any], seed: int = 0) -> Record:
    written = repr(REGISTRY.parse(method))
    return Record(SCHEMA, method, written, task, seed, scores, 30, {}, {}, {})


def seeds(method: str, task: str, spread: float, *means: float, k: int = 5) -> list[Record]:
    """k seeds whose scores lie evenly about the means, one spread apart."""
    steps = [(i - (k - 1) / 2) * spread for i in range(k)]
    scores = (correlations(*(round(m + step, 6) for m in means)) for step in steps)
    return [record(method, task, one, seed) for seed, one in enumerate(scores)]


def measured() -> list[Record]:
    """The records under the table: each number is the printed one and what its word asks for."""
    gold = {"gold_edit_distance": -24.61, "edit_distance": -20.0}
    words = {"word statistic": {"wmean": 1.5}}
    old = replace(record(CLS, "sts12", correlations(74.0, 64.0)), repr="another description")
    return [
        record(PLAIN, "sts12", correlations(70.004, 60.04)),  # exact, match
        record(PLAIN, "sts-b", correlations(80.45) | words),  # close
        record(PLAIN, "sick-r", correlations(50.9)),  # differs
        record(PLAIN, "lexical", gold),
        record(CENTRED, "sts12", correlations(70.97, 60.6)),  # match, close: both from below
        record(CENTRED, "sts-b", correlations(80.0)),  # differs; and no SICK-R: no average
        *seeds(SEEDED, "sts12", 0.1, 71.0, 63.5),  # differs, from below and from above
        *seeds(SEEDED, "sts-b", 2.0, 82.5),  # inconclusive
        *seeds(SEEDED, "sick-r", 0.1, 52.0, k=3),  # too few seeds, in the average too
        *seeds(WELCH, "sts12", 0.1, 75.0, 63.2),  # differs from above, consistent
        *seeds(WELCH, "sts-b", 2.0, 84.0),  # inconclusive
        *seeds(WELCH, "sick-r", 0.1, 51.0),  # differs from below
        old,
        record(CLS, "sts-b", correlations(84.0)),
        record(CLS, "sick-r", correlations(54.0)),
        record("fake.first-last", "sts12", correlations(65.0)),
        record("fake.first-last", "sts-b", correlations(85.0)),
        record("fake.first-last", "sick-r", correlations(None)),  # undefined
    ]


def seven(method: str, first: float, *but: str) -> list[Record]:
    """The seven tasks of the leaderboard but some, each a point above the one before it."""
    scores = {task: correlations(first + i, first + i - 5) for i, task in enumerate(SEVEN)}
    return [
        replace(record(method, SIMCSE.task(task), score), repr="")
        for task, score in scores.items()
        if task not in but
    ]


def place(one: Record) -> Path:
    return Store(Path()).path(Cell(one.method, one.task, one.seed))


@dataclass
class World:
    """A folder with a published table and records; what its pages say."""

    folder: Path
    table: str = TABLE
    records: list[Record] = field(default_factory=measured)

    def results(self) -> Results:
        """The records in memory, in the order in which a store reads them."""
        by_cell: dict[tuple[str, str], list[Record]] = {}
        for one in sorted(self.records, key=place):
            by_cell.setdefault((one.method, one.task), []).append(one)
        return Results(by_cell)

    def published(self) -> Table:
        path = self.folder / "synthetic.toml"
        path.write_text(self.table, encoding="utf-8")
        return load_table(path)

    def judged(self) -> dict[str, Reproduction]:
        return reproductions(self.published(), self.results(), REGISTRY)

    def page(self) -> str:
        return markdown(self.published(), self.judged(), REGISTRY, DIGEST)

    def tex(self) -> str:
        return latex(self.published(), self.judged(), REGISTRY, DIGEST)

    def counts(self) -> str:
        folder = results_folder(self.folder, REGISTRY, self.results(), self.published())
        return published_counts(folder)


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def board(tmp_path) -> World:
    """Complete rows, of which two are tied, a fitted one, a seeded one with a hole, a stray one."""
    seeded = [replace(one, seed=seed) for seed in (0, 1) for one in seven(SEEDED, 70.0 + seed)]
    holes = [one for one in seeded if one.task != "sts14.senteval"]
    stray = replace(seven(PLAIN, 30.0)[5], method="words.mean")
    undefined = replace(seven(CLS, 0.0)[0], method="words.mean", scores=correlations(None))
    clocks = {"timings": {"encode": 0.3, "apply": 0.03}, "facts": {"distinct_sentences": 60}}
    timed = [replace(one, **clocks) for one in (*seven(PLAIN, 60.0), *seven(CLS, 60.1))]
    complete = [*timed, *seven(CENTRED, 65.0)]
    raw = [replace(record(PLAIN, t, correlations(50.0, 40.0)), repr="") for t in SEVEN]
    records = [*complete, *raw, *holes, *seven("fake.last2", 55.0, "sick-r"), stray, undefined]
    return World(tmp_path / "board", records=records)


def leaderboard_of(world: World, counts: str) -> str:
    found = Comparisons(
        "fake",
        SIMCSE.id,
        resamples=100,
        seed=0,
        averages={CENTRED: 68.0, CLS: 63.1, PLAIN: 63.0},
        rows=(
            Neighbours(CENTRED, CLS, -5.0, -4.0, p=0.001, p_holm=0.002),
            Neighbours(CLS, PLAIN, -0.3, 0.1, p=0.3, p_holm=0.3),
        ),
    )
    return leaderboard(world.results(), REGISTRY, counts, {found.name: found})


def traps_of(world: World) -> str:
    path = world.folder / "traps.toml"
    path.write_text(TRAPS, encoding="utf-8")
    return traps_page(world.results(), read_rows(Trap, path, "trap"))


def hold(name: str, made: str) -> None:
    """The page is the golden one to the byte."""
    require_golden(GOLDEN / name, made)


def line(page: str, start: str, offset: int = 0) -> Sequence[str]:
    """The cells of the row of a page that begins so, or of one below it."""
    lines = page.splitlines()
    at = next(i for i, text in enumerate(lines) if text.startswith(f"| {start}"))
    return [cell.strip(" ") for cell in re.split(r"(?<!\\)\|", lines[at + offset])[1:-1]]


def words(judged: Iterable[Reproduction]) -> set[CellState]:
    return {one.state for one in judged}


def test_the_synthetic_table_holds_every_word_that_a_cell_can_have(world):
    assert words(world.judged().values()) == set(CellState) - ELSEWHERE


def test_markdown_is_golden(world):
    hold("synthetic.md", world.page())


def test_latex_is_golden(world):
    hold("synthetic.tex", world.tex())


def test_leaderboard_is_golden(world, board):
    hold("leaderboard.md", leaderboard_of(board, world.counts()))


def test_a_run_of_embedded_tasks_alone_has_a_leaderboard_of_them(tmp_path):
    gold = {"gold_edit_distance": -16.2, "gold_edit_distance_near": -25.6, "edit_distance": -18.0}
    records = [
        record(CLS, "mini-sts", correlations(70.0)),
        record(CLS, "mini-qnli", {"auc": 66.0}),
        record(PLAIN, "mini-sick", correlations(60.0)),
        record(CENTRED, "mini-sts", correlations(80.0)),
        record(CENTRED, "mini-lexical", gold),
    ]
    page = leaderboard(World(tmp_path, records=records).results(), everything(), "", {})
    assert "gold itself has -16.20 over all pairs" in page
    assert "On some tasks only" not in page
    table = page[page.index("### Embedded tasks") :]
    rows = [re.split(r" *\| *", line)[1:-1] for line in table.splitlines() if line.startswith("|")]
    assert rows[2:] == [
        [f"`{CENTRED}` †", "80.00", "not run", "not run", "-18.00", *["not run"] * 2],
        [f"`{CLS}`", "70.00", "not run", "66.00", *["not run"] * 3],
        [f"`{PLAIN}`", "not run", "60.00", *["not run"] * 4],
    ]
    nothing = leaderboard(World(tmp_path / "none", records=[]).results(), everything(), "", {})
    assert "Embedded tasks" not in nothing


def test_traps_are_golden(world):
    hold("protocols.md", traps_of(world))
