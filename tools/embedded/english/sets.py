"""What the generator makes: graded pairs, questions and answers, NLI, sentences; as files, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from english import facts, pairs
from english.inference import labelled, sentences, triplets
from english.pairs import Example
from harness.core.types import Pairs
from harness.tasks.mini import SPLITS

GRADED = {"mini-sts": pairs.SIMILAR, "mini-sick": pairs.RELATED}
QNLI_SEED = 4
LABELS = ("entailment", "neutral", "contradiction")  # as `labelled` numbers them
SENTENCES, ROWS = 20_000, 5_000  # of the corpora


@cache
def examples(name: str, split: str, count: int) -> tuple[Example, ...]:
    """So many pairs of a graded split with all that is known of them: scenes, templates, gold."""
    return tuple(GRADED[name].examples(split, count))


def graded(name: str, split: str, count: int) -> Pairs:
    """A graded split as columns; the groups are the kinds of text."""
    every = examples(name, split, count)
    return Pairs(
        a=tuple(example.a.text for example in every),
        b=tuple(example.b.text for example in every),
        gold=np.array([example.gold for example in every], dtype=np.float64),
        group=tuple(example.genre for example in every),
    )


def answers(count: int) -> Pairs:
    """So many questions and sentences; gold is 1 where the sentence answers the question."""
    every = tuple(facts.answers(QNLI_SEED, count))
    return Pairs(
        a=tuple(answer.question for answer in every),
        b=tuple(answer.sentence for answer in every),
        gold=np.array([answer.answered for answer in every], dtype=np.float64),
        group=("mini-qnli",) * count,
    )


def files() -> Iterator[tuple[str, str]]:
    """Name and content of every file that the package carries (harness/assets/embedded/mini)."""
    for name, splits in SPLITS.items():
        for split, count in splits.items():
            pairs = answers(count) if name == "mini-qnli" else graded(name, split, count)
            rows = zip(pairs.group, map(repr, pairs.gold.tolist()), pairs.a, pairs.b, strict=True)
            yield f"{name.removeprefix('mini-')}-{split}.tsv", _lines(rows)
    yield "text.txt", _lines([text] for text in sentences(SENTENCES))
    yield "nli.tsv", _lines((*texts, LABELS[label]) for *texts, label in labelled(ROWS))
    yield "triplets.tsv", _lines(triplets(ROWS))


def _lines(rows: Iterable[Iterable[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)
