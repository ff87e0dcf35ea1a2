"""Semantic textual similarity: the STS Benchmark and the yearly SemEval tasks of 2012 to 2016.

Gold is from 0 to 5. STS-B has three splits. The task of a year has one split of several
subsets, which are its groups. STS13 is without the subset SMT, whose licence forbids
it; of the papers in `results/papers`, SIF (2017) alone scores it. STS-B was drawn from
STS12-17: 1,007 of its 1,379 test pairs are also among those of STS12-16, one of them
with its sentences exchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness.core.errors import DataError
from harness.core.pairs import Pairs
from harness.core.types import LeaderboardColumn, Task
from harness.data.tasks.readers import (
    FOLDERS,
    PublishedSet,
    ScoredPair,
    Text,
    fields,
    lines,
    number,
    pairs_of,
    published_rows,
    read_scored_pairs,
)

SCALE = (0.0, 5.0)

BENCHMARK_FILES = {
    split: (f"STS/STSBenchmark/sts-{split}.csv",) for split in ("train", "dev", "test")
}
YEARS = range(12, 17)
SECOND_VERSION = "-v2"  # ends the names of the splits of STSBenchmark.v2

# Terms of single sources: MSRpar and MSRvid are in STS12, answers of StackExchange in
# STS15 and STS16.
MICROSOFT = "Microsoft Research's terms for MSRpar and MSRvid"
STACK_EXCHANGE = "StackExchange texts CC BY-SA 3.0 with attribution"


@dataclass(frozen=True)
class StsYear:
    """Loads all subsets of one year (12 to 16) as its only split, `test`."""

    year: int
    text: Text

    def __call__(self, data_dir: Path, split: str) -> Pairs:  # noqa: ARG002 - it has one
        family, folder = f"sts{self.year}", f"STS/STS{self.year}-en-test"
        pairs_of_subsets: list[Pairs] = []
        for name in published_rows(family):
            sentences = f"{folder}/STS.input.{name}.txt"
            gold = f"{folder}/STS.gs.{name}.txt"
            load = PublishedSet(
                family=family,
                asset=f"sts-{self.text}",
                text=self.text,
                parse=partial(parse_subset, group=name),
                files={name: (sentences, gold)},
                folders=FOLDERS[self.text],
            )
            pairs_of_subsets.append(load(data_dir, name))
        return Pairs.concatenate(*pairs_of_subsets)


@dataclass(frozen=True)
class BenchmarkWithoutRepeats:
    """Loads a split of STS-B as mteb's task STSBenchmark.v2 has it.

    Its dev and test split, `dev-v2` and `test-v2`, are without every pair that is also in
    another split, or twice in its own, in either order of the sentences and whatever
    their case and blanks (mteb 4798). The train split is that of STS-B.

    Attributes:
        benchmark: Loads the splits of STS-B.
    """

    benchmark: Callable[[Path, str], Pairs]

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        name = split.removesuffix(SECOND_VERSION)
        pairs = self.benchmark(data_dir, name)
        if name == split:
            return pairs
        own = _unordered(pairs)
        in_other_splits: set[frozenset[str]] = set()
        for other in BENCHMARK_FILES.keys() - {name}:
            in_other_splits.update(_unordered(self.benchmark(data_dir, other)))
        count = Counter(own)
        kept = [
            row
            for row, pair in enumerate(own)
            if count[pair] == 1 and pair not in in_other_splits
        ]
        return Pairs(
            a=tuple(pairs.a[row] for row in kept),
            b=tuple(pairs.b[row] for row in kept),
            gold=pairs.gold[kept],
            group=tuple(pairs.group[row] for row in kept),
        )


BLANKS = re.compile(r"\s+")


def _unordered(pairs: Pairs) -> list[frozenset[str]]:
    """The two sentences of each pair without their order, case and blanks around words."""
    return [
        frozenset(BLANKS.sub(" ", text.strip().lower()) for text in sentences)
        for sentences in zip(pairs.a, pairs.b, strict=True)
    ]


def parse_benchmark(path: Path) -> Pairs:
    """Genre, file, year, number, score, two sentences; in some raw rows then two source notes."""
    return read_scored_pairs(
        path,
        "sts-b",
        columns=(5, 6, 4),
        gold=partial(number, scale=SCALE),
        counts=(7, 9),
    )


def parse_subset(inputs: Path, gold: Path, group: str) -> Pairs:
    """A file with two sentences a line, and a second one with a gold score a line.

    Raw STS16 has two notes on sources after the sentences. A pair without a score was
    never annotated, and is left out.
    """
    input_lines, gold_lines = list(lines(inputs)), list(lines(gold))
    if len(input_lines) != len(gold_lines):
        raise DataError(
            f"{gold}: wanted {len(input_lines)} lines, as in {inputs.name}, found "
            f"{len(gold_lines)}"
        )
    rows: list[ScoredPair] = []
    for (place, line), (gold_place, score) in zip(input_lines, gold_lines, strict=True):
        a, b, *_ = fields(place, line, 2, 4)
        if score.strip():
            rows.append((a, b, number(gold_place, score, SCALE)))
    return pairs_of(rows, group)


def benchmark(name: str, text: Text, scored: str) -> Task:
    """STS-B, scored on one split."""
    return Task(
        name=name,
        load=PublishedSet(
            family="sts-b",
            asset=f"sts-{text}",
            text=text,
            parse=parse_benchmark,
            files=BENCHMARK_FILES,
            folders=FOLDERS[text],
        ),
        splits=tuple(BENCHMARK_FILES),
        scored=(scored,),
        metric="correlation",
        asset=f"sts-{text}",
        text=text,
        train="train",
        graded=SCALE,
        geometry=True,
        cite="cer2017stsb",
        licence=f"scores CC BY-SA 4.0, texts per source: {MICROSOFT}, {STACK_EXCHANGE}",
    )


def second_version(scored: str) -> Task:
    """STSBenchmark.v2, scored on its dev or test split."""
    first = benchmark("sts-b.v2" if scored == "test" else "sts-b.v2.dev", "raw", scored)
    return replace(
        first,
        load=BenchmarkWithoutRepeats(first.load),
        splits=("train", *(split + SECOND_VERSION for split in ("dev", "test"))),
        scored=(scored + SECOND_VERSION,),
        on_request=True,
        note="mteb's STSBenchmark.v2: without pairs that another split has, or that it has twice",
    )


def yearly_task(year: int, text: Text) -> Task:
    """The task of a year, 12 to 16, in a text form."""
    terms = ["none stated by the publishers"]
    if year == 12:
        terms.append(MICROSOFT)
    if year >= 15:
        terms.append(STACK_EXCHANGE)
    return Task(
        name=f"sts{year}" if text == "raw" else f"sts{year}.{text}",
        load=StsYear(year, text),
        splits=("test",),
        scored=("test",),
        metric="correlation",
        asset=f"sts-{text}",
        text=text,
        graded=SCALE,
        cite=f"agirre20{year}sts",
        licence="; ".join(terms),
    )


REGRESSION_NOTE = (
    "predicted by a regressor trained on labels, as SentEval's default; no paper here"
)

GEOMETRY = (
    LeaderboardColumn("other", "alignment", ("alignment",)),
    LeaderboardColumn("other", "uniformity", ("uniformity",)),
)

TASKS = (
    replace(
        benchmark("sts-b", "raw", "test"), columns=GEOMETRY, aliases=("STSBenchmark",)
    ),
    replace(
        benchmark("sts-b.dev", "raw", "dev"),
        columns=(LeaderboardColumn("other", "STS-B dev"),),
    ),
    benchmark("sts-b.train", "raw", "train"),
    replace(
        benchmark("sts-b.regression", "raw", "test"),
        metric="regression",
        geometry=False,
        note=REGRESSION_NOTE,
    ),
    replace(second_version("test"), aliases=("STSBenchmark.v2",)),
    second_version("dev"),
    benchmark("sts-b.senteval", "senteval", "test"),
    benchmark("sts-b.senteval.dev", "senteval", "dev"),
    benchmark("sts-b.senteval.train", "senteval", "train"),
    *(yearly_task(year, "raw") for year in YEARS),
    *(
        replace(yearly_task(year, "senteval"), aliases=(f"STS{year}",))
        for year in YEARS
    ),
)
