"""Semantic textual similarity: the STS Benchmark and the yearly SemEval tasks of 2012 to 2016.

Gold runs from 0 to 5. STS-B has three splits; a year has one, of several subsets, which
are its groups. STS13 has no SMT subset (its licence; SIF 2017 is the only paper that
scores it). STS-B is drawn from STS12-17: 1,006 of its 1,379 test pairs are also in the
files of STS12-16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from harness.core.errors import DataError, OtherData
from harness.core.types import LeaderboardColumn, Pairs, Task
from harness.tasks.readers import (
    FOLDERS,
    PublishedSet,
    ScoredPair,
    Text,
    fields,
    known_split,
    lines,
    number,
    pairs_of,
    published_rows,
    read_scored_pairs,
)

SCALE = (0.0, 5.0)

BENCHMARK = {s: (f"STS/STSBenchmark/sts-{s}.csv",) for s in ("train", "dev", "test")}
YEARS = range(12, 17)

# Terms of single sources: MSRpar and MSRvid are of 2012, answers of StackExchange of
# 2015 and 2016.
MICROSOFT = "Microsoft Research's terms for MSRpar and MSRvid"
STACK_EXCHANGE = "StackExchange texts CC BY-SA 3.0 with attribution"


@dataclass(frozen=True)
class StsYear:
    """Loads all subsets of one year; the only split is `test`."""

    year: int
    text: Text

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        known_split(split, ("test",))
        subsets = published_rows(f"sts{self.year}")
        read: list[Pairs] = []
        other: OtherData | None = None
        for name in subsets:
            try:
                read.append(self._subset(data_dir, name))
            except OtherData as error:
                read.append(cast(Pairs, error.pairs))
                other = error
        pairs = Pairs.concatenate(*read)
        if other is not None:
            raise OtherData(str(other), pairs)
        return pairs

    def _subset(self, data_dir: Path, name: str) -> Pairs:
        folder = f"STS/STS{self.year}-en-test"
        files = {
            name: (f"{folder}/STS.input.{name}.txt", f"{folder}/STS.gs.{name}.txt")
        }
        parse = partial(parse_subset, group=name)
        load = PublishedSet(
            f"sts{self.year}",
            f"sts-{self.text}",
            self.text,
            parse,
            files,
            FOLDERS[self.text],
        )
        return load(data_dir, name)


def parse_benchmark(path: Path) -> Pairs:
    """Genre, file, year, number, score, two sentences; in some raw rows then two source notes."""
    return read_scored_pairs(
        path, "sts-b", (5, 6, 4), partial(number, scale=SCALE), counts=(7, 9)
    )


def parse_subset(inputs: Path, gold: Path, group: str) -> Pairs:
    """Two sentences a line, and one score a line of a second file.

    Raw STS16 has two notes on sources after the sentences. An empty score marks a pair
    that was never annotated; it is dropped.
    """
    sentences, scores = list(lines(inputs)), list(lines(gold))
    if len(sentences) != len(scores):
        expected = f"wanted {len(sentences)} lines, as in {inputs.name}"
        raise DataError(f"{gold}: {expected}, found {len(scores)}")
    rows: list[ScoredPair] = []
    for (place, line), (gold_place, score) in zip(sentences, scores, strict=True):
        a, b, *_ = fields(place, line, 2, 4)
        if score.strip():
            rows.append((a, b, number(gold_place, score, SCALE)))
    return pairs_of(rows, group)


def benchmark(name: str, text: Text, scored: str) -> Task:
    """STS-B, scored on one split."""
    return Task(
        name=name,
        load=PublishedSet(
            "sts-b", f"sts-{text}", text, parse_benchmark, BENCHMARK, FOLDERS[text]
        ),
        splits=tuple(BENCHMARK),
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


def year(held: int, text: Text) -> Task:
    """One year's task in one text form."""
    terms = ["none stated by the publishers"]
    terms += [MICROSOFT] if held == 12 else []
    terms += [STACK_EXCHANGE] if held >= 15 else []
    return Task(
        name=f"sts{held}" if text == "raw" else f"sts{held}.{text}",
        load=StsYear(held, text),
        splits=("test",),
        scored=("test",),
        metric="correlation",
        asset=f"sts-{text}",
        text=text,
        graded=SCALE,
        cite=f"agirre20{held}sts",
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
    benchmark("sts-b.senteval", "senteval", "test"),
    benchmark("sts-b.senteval.dev", "senteval", "dev"),
    benchmark("sts-b.senteval.train", "senteval", "train"),
    *(year(held, "raw") for held in YEARS),
    *(replace(year(held, "senteval"), aliases=(f"STS{held}",)) for held in YEARS),
)
