"""Scores of other programs, and the traps of protocols: each with its difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from pages import Cell, Comparison, Page, Rounded
from papers import welch
from records import Fields, Results, content


@dataclass(frozen=True)
class ReferenceScore:
    """A score of another program, and ours where it was measured."""

    encoder: str  # none where it is of a training
    name: str
    theirs: float
    ours: float | None
    tolerance: float
    of_authors: bool  # of a paper; else of a library
    half: float = 0.0  # of Welch's interval, where theirs is a mean over seeds too

    @property
    def gap(self) -> float | None:
        return None if self.ours is None else round(self.ours - self.theirs, 9)

    @property
    def is_equal(self) -> bool:
        if self.gap is None or abs(self.gap) > self.tolerance:
            return False
        return abs(self.gap) + self.half <= 1.0 or not self.half

    @property
    def row(self) -> list[Cell]:
        """As a page prints it."""
        measured = [n for n in (self.ours, self.gap) if n is not None]
        ours, gap = [[Rounded(n, 4)] for n in measured] or [[], []]
        theirs, tolerance = [Rounded(self.theirs, 4)], [f"{self.tolerance:g}"]
        return [None, None, self.name, theirs, ours, gap, tolerance, None]


def reference_scores(results: Results) -> Mapping[str, list[ReferenceScore]]:
    """Those of each file of references."""
    trials: dict[str, Sequence[Fields]] = {}
    for path in sorted((results.folder / "records" / "conformance").glob("*.json")):
        trials |= content(path)
    found: dict[str, list[ReferenceScore]] = {}
    for path in sorted((results.folder / "references").glob("*.json")):
        reference = content(path)
        tolerance = reference.get("tolerance", 1e-3)
        for cell in reference["cells"]:
            for name, theirs in cell["scores"].items():
                score = ReferenceScore(
                    encoder=re.split("[.:]", cell.get("method", ""))[0],
                    name=name,
                    theirs=theirs,
                    ours=_ours(cell, name, trials, results),
                    tolerance=cell.get("tolerance", tolerance),
                    of_authors="authors_of" in reference,
                    half=_half_of_means(cell, name, trials),
                )
                found.setdefault(path.name, []).append(score)
    return found


def _half_of_means(
    cell: Fields, name: str, trials: Mapping[str, Sequence[Fields]]
) -> float:
    """Half of Welch's interval of two means over seeds; 0 where theirs has no spread."""
    values = [trial[name] for trial in trials.get(cell.get("training", ""), ())]
    if "sd" not in cell or len(values) < 2:
        return 0.0
    return welch(0.0, (stdev(values), len(values)), (cell["sd"], cell["n"]))[0]


def _ours(
    cell: Fields, name: str, trials: Mapping[str, Sequence[Fields]], results: Results
) -> float | None:
    """The mean over the seeds of a training or of a cell."""
    if "training" in cell:
        values = [trial[name] for trial in trials.get(cell["training"], ())]
        return fmean(values) if values else None
    is_aggregation = name in ("all", "mean", "wmean")
    path = ["spearman", name] if is_aggregation else name.split(".")
    return results.scores(cell["method"], cell["task"], path).mean


def compare_conformance(results: Results) -> Iterator[Comparison]:
    """A row of counts for each file, then a table of its scores, and a sentence."""
    page = Page(results.folder / "tables" / "conformance.md")
    overview, *by_file = page.tables
    scores_by_file = reference_scores(results)
    titles = [table.title for table in by_file]
    yield page.equal("files", titles, [*scores_by_file])
    counts: list[list[Cell]] = []
    for table, (file, scores) in zip(by_file, scores_by_file.items(), strict=False):
        yield from page.rows(table, [s.row for s in scores])
        gaps = [abs(score.gap) for score in scores if score.gap is not None]
        equal = sum(score.is_equal for score in scores)
        largest = [Rounded(max(gaps), 4)] if gaps else []
        counts.append([file, None, [len(scores)], [len(gaps)], [equal], largest])
    yield from page.rows(overview, counts)
    origins = [
        score.of_authors for scores in scores_by_file.values() for score in scores
    ]
    due = [origins.count(True), origins.count(False)]
    yield page.sentence("scores", due)


def compare_counts_of_references(page: Page, results: Results) -> Iterator[Comparison]:
    """How many scores of authors' programs, and of libraries, are equal, by encoder."""
    every = [s for scores in reference_scores(results).values() for s in scores]
    for of_authors in (True, False):
        own = [s for s in every if s.of_authors == of_authors and s.ours is not None]
        equal = Counter((s.encoder, s.tolerance) for s in own if s.is_equal)
        due = [equal.total(), len(own)]
        yield page.sentence("programs", due)


def compare_traps(results: Results) -> Iterator[Comparison]:
    """Each score, and its difference from the first of its trap, task and score."""
    page = Page(results.folder / "tables" / "protocols.md")
    traps = content(results.folder / "questions" / "traps.toml")["trap"]
    yield page.equal("traps", len(page.tables), len(traps))
    for table, trap in zip(page.tables, traps, strict=False):
        is_about_scores = {"aggregation", "metric"} & {*trap.get("about", ())}
        first: dict[tuple[str, ...], float | None] = {}
        due: list[list[Cell]] = []
        for row in trap["rows"]:
            task, path_of_score = row["task"], row.get("score", ["spearman", "all"])
            scores = results.scores(row["method"], task, path_of_score)
            kind = [] if is_about_scores else path_of_score
            subject = (task.partition(".")[0], *kind)
            start = first.get(subject)
            first.setdefault(subject, scores.mean)
            gap = None if None in (start, scores.mean) else scores.mean - start
            gap_cell = [] if gap is None else [Rounded(gap)]
            due.append([None, row["method"], task, scores.numbers, gap_cell])
        yield from page.rows(table, due)
