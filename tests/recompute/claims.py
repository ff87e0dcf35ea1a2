"""The claims of papers, tested on records; and the searches, which are on their page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import fmean, stdev

from pages import Cell, Comparison, Numbers, Page, Rounded, Table
from papers import ENOUGH_SEEDS, METRICS, Published, path_of_score, welch
from records import Fields, Results, ScorePath, Scores, content, mean_over_tasks
from scipy import stats

OUTCOMES = ("as claimed", "opposite", "undecided", "not measured")
LEVEL = 0.05
AVERAGE = "Avg."


@dataclass(frozen=True)
class Contrast:
    """Two rows on a task or on an average: the one that is claimed to be better is first."""

    label: str
    printed: Sequence[float]  # of both rows, or nothing
    scores: tuple[Scores, Scores]
    interval: tuple[float, float] | None = None
    p: float | None = None

    @cached_property
    def difference(self) -> float | None:
        better, worse = (scores.mean for scores in self.scores)
        return None if better is None or worse is None else better - worse

    @property
    def outcome(self) -> str:
        if not all(scores.by_seed for scores in self.scores):
            return "not measured"
        if self.p is None or self.p > LEVEL or not self.difference:
            return "undecided"
        return "as claimed" if self.difference > 0 else "opposite"

    @property
    def effects(self) -> tuple[Numbers, Numbers]:
        """The published and the measured difference."""
        published = [Rounded(self.printed[0] - self.printed[1])] if self.printed else []
        return published, [] if self.difference is None else [Rounded(self.difference)]

    @property
    def row(self) -> list[Cell]:
        """As a page prints it; the last cell says in words how it was decided."""
        published, measured = self.effects
        ours: list[Cell] = []
        for scores in self.scores:
            seeds = [len(scores.by_seed)] if scores.seeded and scores.by_seed else []
            ours.append([*scores.numbers, *seeds])
        theirs = [[Rounded(points)] for points in self.printed] or [[], []]
        ends = [Rounded(end) for end in self.interval or ()]
        p = [] if self.p is None else [_printed_p(self.p)]
        cells = [*theirs, published, *ours, measured, ends, p, self.outcome]
        return [self.label, *cells, None]


def _printed_p(p: float) -> str:
    """Three significant digits; what is below 0.001 is printed as less than it."""
    return "0.001" if p < 0.001 else f"{p:.3g}"


@dataclass(frozen=True)
class Claim:
    """A claim on its tasks, and on their average if there is one."""

    id: str
    text: str
    tasks: Sequence[Contrast]
    average: Sequence[Contrast]
    needs_every_task: bool

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many tasks have each outcome."""
        outcomes = [task.outcome for task in self.tasks]
        return {word: outcomes.count(word) for word in OUTCOMES}

    @cached_property
    def outcome(self) -> str:
        """What more than half of the tasks say, or every one; holes count as tasks."""
        total = len(self.tasks)
        majority = total // 2 + 1
        if self.counts["not measured"] == total:
            return "not measured"
        if self.counts["opposite"] >= (1 if self.needs_every_task else majority):
            return "opposite"
        enough = total if self.needs_every_task else majority
        return "as claimed" if self.counts["as claimed"] >= enough else "undecided"

    @property
    def count_in_paper(self) -> list[int]:
        """On how many tasks the printed numbers have the claimed order, if there are any."""
        printed = [task.printed for task in self.tasks]
        return [sum(a > b for a, b in printed)] if all(printed) else []


@cache
def all_claims(results: Results) -> list[Claim]:
    """Every claim, tested anew."""
    data = content(results.folder / "questions" / "claims.toml")
    return [_claim(entry, data["rows"], results) for entry in data["claim"]]


def _claim(entry: Fields, stand_ins: Fields, results: Results) -> Claim:
    table = results.published[entry["table"]]
    names = entry["better"], entry["worse"]
    methods = entry.get("methods") or [stand_ins[entry["table"]][n] for n in names]
    rows = [row for name in names for row in table["row"] if row["id"] == name]
    tasks: list[Contrast] = []
    cells: list[tuple[str, ScorePath]] = []
    metrics = set()
    for column in table["columns"]:
        metric = column.get("metric", table["metric"])
        is_chosen = column["id"] in entry.get("columns", [column["id"]])
        if not is_chosen or not column.get("task") or metric not in METRICS:
            continue
        way = column.get("aggregation") or table.get("aggregation")
        cells.append((column["task"], path_of_score(metric, way)))
        printed = [float(Published(table, row, column).digits) for row in rows]
        known = printed if len(rows) == 2 else []
        contrast = _contrast(column["label"], known, methods, cells[-1:], results)
        tasks.append(contrast)
        metrics.add(metric)
    average = []
    if len(cells) > 1 and len(metrics) == 1:
        pairs = [task.printed for task in tasks if task.printed]
        means = [fmean(values) for values in zip(*pairs, strict=True)]
        average = [_contrast(AVERAGE, means, methods, cells, results)]
    return Claim(
        id=entry["id"],
        text=entry["claim"],
        tasks=_corrected(tasks),
        average=average,
        needs_every_task=bool(entry.get("conjunction")),
    )


def _contrast(
    label: str,
    printed: Sequence[float],
    methods: Sequence[str],
    cells: Sequence[tuple[str, ScorePath]],
    results: Results,
) -> Contrast:
    """Two methods on cells or their average, by a stored interval or by their seeds."""
    better, worse = (
        mean_over_tasks([results.scores(method, *cell) for cell in cells])
        for method in methods
    )
    contrast = Contrast(label, printed, (better, worse))
    seeded = [scores for scores in (better, worse) if scores.seeded]
    too_few = any(len(scores.by_seed) < ENOUGH_SEEDS for scores in seeded)
    if contrast.difference is None or too_few:
        return contrast
    on = [[task, list(path)] for task, path in cells]
    wanted = {"first": methods[0], "second": methods[1], "scores": on}
    for stored in results.differences:
        shift = contrast.difference - stored["points"]
        if stored["contrast"] == wanted and abs(shift) <= (0.1 if seeded else 0.01):
            interval, p = _shifted(stored, shift)
            return replace(contrast, interval=interval, p=p)
    if not seeded:
        return contrast
    half, p = welch(contrast.difference, *(scores.spread for scores in seeded))
    interval = contrast.difference - half, contrast.difference + half
    return replace(contrast, interval=interval, p=p)


def _shifted(stored: Fields, shift: float) -> tuple[tuple[float, float], float]:
    """A stored interval and its p, moved where new fits of the same seeds moved the scores."""
    low, high, p = stored["low"], stored["high"], stored["p"]
    if abs(shift) <= 0.01:
        return (low, high), p
    error = (high - low) / (2 * stats.norm.ppf(0.975))
    moved = 2 * float(stats.norm.sf(abs(stored["points"] + shift) / error))
    return (low + shift, high + shift), max(p, moved)


def _corrected(tasks: Sequence[Contrast]) -> list[Contrast]:
    """Holm's procedure over the tasks of a claim: the k-th smallest p times what is left."""
    ps = sorted(task.p for task in tasks if task.p is not None)
    corrected: dict[float | None, float | None] = {None: None}
    largest = 0.0
    for k, p in enumerate(ps):
        largest = max(largest, p * (len(ps) - k))
        corrected[p] = min(1.0, largest)
    return [replace(task, p=corrected[task.p]) for task in tasks]


def _page(results: Results) -> Page:
    return Page(results.folder / "tables" / "replication-in-miniature.md")


def compare_claims(results: Results) -> Iterator[Comparison]:
    """The overviews, the section of each claim, the counts in sentences, the searches."""
    page = _page(results)
    claims = {claim.id: claim for claim in all_claims(results)}
    by_title = {table.title: table for table in page.tables}
    printed: Counter[str] = Counter()
    for table in page.tables:
        if {*table.names} <= {*claims}:
            due = [_overview_row(table, claims[name]) for name in table.names]
            yield from page.rows(table, due)
            printed.update(table.names)
    yield page.equal("claims in overviews", printed, Counter(2 * [*claims]))
    for name, claim in claims.items():
        rows = [contrast.row for contrast in (*claim.tasks, *claim.average)]
        yield from page.rows(by_title[name], rows)
        counts = [len(claim.tasks), *claim.counts.values(), *claim.count_in_paper]
        yield page.sentence(name, counts, page.section(name))
    for group in _groups([*claims.values()], results):
        outcomes = [task.outcome for claim in group for task in claim.tasks]
        counts = [*_counts([claim.outcome for claim in group]), *_counts(outcomes)]
        yield page.sentence(f"claims as {group[0].id}", counts)
    yield from _compare_searches(page, results)


def compare_claims_of_website(page: Page, results: Results) -> Iterator[Comparison]:
    """Tables with a row for each claim: the outcome, and on how many tasks it is as claimed."""
    by_text = {claim.text: claim for claim in all_claims(results)}
    printed: list[str] = []
    for table in page.tables:
        if {*table.names} <= {*by_text}:
            due: list[list[Cell]] = []
            for claim in map(by_text.__getitem__, table.names):
                tasks = [claim.counts["as claimed"], len(claim.tasks)]
                due.append([claim.text, claim.outcome, None, None, tasks])
            yield from page.rows(table, due)
            printed += table.names
    yield page.equal("claims", sorted(printed), sorted(by_text))


def compare_counts_of_claims(page: Page, results: Results) -> Iterator[Comparison]:
    """The sentences that count the outcomes of the claims that were measured."""
    measured = [c for c in all_claims(results) if c.outcome != "not measured"]
    for group in _groups(measured, results):
        counts = _counts([claim.outcome for claim in group])
        yield page.sentence(f"claims as {group[0].id}", counts)


def _groups(claims: Sequence[Claim], results: Results) -> list[list[Claim]]:
    """The claims in each table of the page, which has one for each size of encoders."""
    every = [table.names for table in _page(results).tables]
    groups = [[claim for claim in claims if claim.id in names] for names in every]
    return [group for group in groups if 0 < len(group) < len(claims)]


def _counts(outcomes: Sequence[str]) -> list[int]:
    """How many there are, and how many of each that is among them."""
    return [len(outcomes), *(outcomes.count(w) for w in OUTCOMES if w in outcomes)]


def _overview_row(table: Table, claim: Claim) -> list[Cell]:
    """Effects below the labels of tasks; or outcomes, and how many tasks are as claimed."""
    if AVERAGE not in table.head:
        counts = [[count] for count in claim.counts.values()]
        tasks = [[len(claim.tasks)], claim.count_in_paper]
        return [claim.id, None, None, None, *counts, *tasks, claim.outcome]
    contrasts = (*claim.tasks, *claim.average)
    effects = {
        one.label: [n for cell in one.effects for n in cell] for one in contrasts
    }
    return [claim.id, None, *(effects.get(head, []) for head in table.head[2:])]


def _compare_searches(page: Page, results: Results) -> Iterator[Comparison]:
    """The trials of every search, and the numbers that are published for them."""
    by_title = {table.title: table for table in page.tables}
    for file in sorted((results.folder / "questions" / "searches").glob("*.toml")):
        search = content(file)
        kept = results.folder / "records" / "searches" / f"{file.stem}.json"
        trials = content(kept) if kept.exists() else {}
        due: list[list[Cell]] = []
        for row in search["row"]:
            own = trials.get(f"{search['recipe']} {row['options']}".strip(), [])
            cells = [*_trials(own), *_published(search, row, results)]
            due.append([row["label"], None, *cells])
        yield from page.rows(by_title[search["title"]], due)


def _trials(trials: Sequence[Fields]) -> list[Numbers]:
    """Over the seeds: scores before and at best, the steps of the best, the loss, the seeds."""
    if not trials:
        return [[], [], [], [], []]
    scores: list[Numbers] = []
    for values in ([trial[name] for trial in trials] for name in ("before", "best")):
        spread = [Rounded(stdev(values))] if len({*values}) > 1 else []
        scores.append([Rounded(fmean(values)), *spread])
    steps = dict.fromkeys((trial["step"], trial["steps"]) for trial in trials)
    loss = Rounded(fmean(trial["loss"] for trial in trials), 3)
    return [*scores, [n for pair in steps for n in pair], [loss], [len(trials)]]


def _published(search: Fields, row: Fields, results: Results) -> list[Numbers]:
    """The column of published numbers, where a search has one."""
    if "table" not in search:
        return []
    table = results.published[search["table"]]
    column = next(column for column in table["columns"] if column.get("task"))
    rows = [one for one in table["row"] if one["id"] == row.get("published")]
    return [[Rounded(float(Published(table, r, column).digits), 1) for r in rows]]
