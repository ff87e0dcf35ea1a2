"""Questions about invented things, each with a sentence that answers it or does not.

A card is one thing with a name; facts.toml lists, for its kind, what is known of it. A question
about one fact goes with a sentence that tells that fact, or with one that tells another fact of the
same thing, or the same fact of another thing. Half the pairs are answered, as in QNLI, where
question and sentence stand in one article, and words in common prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from english.dice import Dice
from english.lexicon import read

SLOT = re.compile(r"\{(\w+)\}")

# Of sentences that do not answer, how many tell another fact of the thing; others tell of another.
OTHER_FACT = 0.7
# How often a sentence takes the thing up by "it" or its kind: whether it answers or not.
TAKEN_UP = 0.42

YEARS = range(1861, 1989)


@dataclass(frozen=True)
class Answer:
    """A question, a sentence, and whether the sentence answers it."""

    question: str
    sentence: str
    answered: bool
    fact: str


def answers(seed: int, count: int) -> Iterator[Answer]:
    """So many pairs, answered and not in turn, no two alike."""
    dice, seen = Dice(seed), set[tuple[str, str]]()
    while len(seen) < count:
        made = _answer(dice, answered=len(seen) % 2 == 0)
        if (made.question, made.sentence) not in seen:
            seen.add((made.question, made.sentence))
            yield made


def _answer(dice: Dice, answered: bool) -> Answer:
    kind = dice.pick(kinds())
    card = _card(kind)
    facts = tuple(name for name, fact in card.items() if isinstance(fact, Mapping))
    fact = told = dice.pick(facts)
    name = about = filled(dice, dice.pick(card["name"]))
    taken_up = dice.chance(TAKEN_UP)
    if not answered and (taken_up or dice.chance(_other_fact_if_named())):
        told = dice.pick([other for other in facts if other != fact])
    elif not answered:
        while about == name:
            about = filled(dice, dice.pick(card["name"]))
    question = dice.pick(card[fact]["ask"]).replace("{name}", name)
    text = dice.pick(card[told]["tell"])
    # "it" begins a sentence; elsewhere ("the doors of it") the kind of thing reads better.
    again = [word for word in card["it"] if word != "it" or text.startswith("{it}")]
    sentence = filled(dice, text, dice.pick(again) if taken_up else about)
    return Answer(question, sentence, answered, f"{kind}.{fact}")


def _other_fact_if_named() -> float:
    """How often a sentence that does not answer tells another fact, where it names its thing.

    One that says "it" always does, since "it" would be the thing that was asked about.
    """
    return (OTHER_FACT - TAKEN_UP) / (1 - TAKEN_UP)


@cache
def kinds() -> tuple[str, ...]:
    """The kinds of things there are cards of."""
    return tuple(name for name in read("facts") if name != "pools")


@cache
def _file() -> dict[str, Any]:
    return read("facts")


def _card(kind: str) -> Mapping[str, Any]:
    return _file()[kind]


@cache
def _pool(name: str) -> tuple[str, ...]:
    # A comma inside a number has no blank after it.
    return tuple(re.split(r",\s+", _file()["pools"][name]))


def filled(dice: Dice, text: str, it: str = "") -> str:
    """The text with every slot filled, as a sentence begins if it is one."""
    found = SLOT.sub(lambda slot: it if slot[1] == "it" else _value(dice, slot[1]), text)
    return found[0].upper() + found[1:] if it else found


def _value(dice: Dice, slot: str) -> str:
    if slot == "year":
        return str(dice.pick(YEARS))
    if slot == "person":
        return f"{dice.pick(_pool('first'))} {dice.pick(_pool('last'))}"
    if slot == "town":
        return dice.pick(_pool("stem")) + dice.pick(_pool("ending"))
    return dice.pick(_pool(slot))
