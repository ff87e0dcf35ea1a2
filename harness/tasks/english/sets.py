"""The sets that the generator makes: graded pairs, questions and answers, NLI, plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from harness.core.types import Pairs
from harness.tasks.english import facts, pairs
from harness.tasks.english.inference import labelled, sentences, triplets
from harness.tasks.english.pairs import Example

GRADED = {"mini-sts": pairs.SIMILAR, "mini-sick": pairs.RELATED}
QNLI_SEED = 4


@cache
def examples(name: str, split: str, count: int) -> tuple[Example, ...]:
    """So many pairs of a graded split with all that is known of them: scenes, templates, gold."""
    return tuple(GRADED[name].examples(split, count))


def graded(name: str, split: str, count: int) -> Pairs:
    """The same as columns; the groups are the kinds of text."""
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


def texts_of_pairs(count: int) -> Iterator[str]:
    """Premise and hypothesis of every labelled pair."""
    return (text for pair in labelled(count // 2) for text in pair[:2])


def texts_of_triplets(count: int) -> Iterator[str]:
    """All three sentences of every triplet."""
    return (text for triplet in triplets(count // 3) for text in triplet)


__all__ = ["labelled", "sentences", "triplets"]  # and what stands here
