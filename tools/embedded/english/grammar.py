"""Forms of English words: articles, plurals, verbs. Rules here, what they miss in grammar.toml.

A phrase inflects where English does: the first word of a verb ("picks up"), the last of a noun
("police officers"), unless the table has the whole phrase ("pieces of fruit").
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

VOWELS = "aeiou"

# One syllable that ends in one vowel and one consonant: "run", "stop", not "rain" or "box".
DOUBLING = re.compile(r"[^aeiou]*(?:qu)?[aeiou][^aeiouwxy]")


@cache
def table() -> dict[str, Any]:
    """What English does not do by rule."""
    return tomllib.loads(Path(__file__).with_name("grammar.toml").read_text(encoding="utf-8"))


@cache
def is_mass(noun: str) -> bool:
    """Whether it is never counted: "water"."""
    return noun in table()["mass"]


@cache
def is_bare(noun: str) -> bool:
    """Whether it takes no determiner: "chess"."""
    return noun in table()["bare"]


@cache
def is_sole(noun: str) -> bool:
    """Whether there is one of it in a story: "the government"."""
    return noun in table()["sole"]


@cache
def is_plural(noun: str) -> bool:
    """Whether it has no singular: "police"."""
    return noun in table()["plural_only"]


@cache
def has_passive(verb: str) -> bool:
    """Whether it reads well as "is being …"."""
    return verb not in table()["active_only"]


@cache
def article(phrase: str) -> str:
    """The phrase with "a" or "an" before it."""
    first = phrase.split()[0]
    vowel = first[0].lower() in VOWELS and first not in table()["a"]
    return f"{'an' if vowel else 'a'} {phrase}"


@cache
def plural(noun: str) -> str:
    """More than one."""
    irregular = table()["plural"]
    if noun in irregular:
        return irregular[noun]
    rest, space, last = noun.rpartition(" ")
    if last in irregular:
        return rest + space + irregular[last]
    if last.endswith("y") and last[-2] not in VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if last.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


@cache
def does(verb: str) -> str:
    """Third person: "picks up"."""
    first, space, rest = verb.partition(" ")
    if first.endswith("y") and first[-2] not in VOWELS:
        first = f"{first[:-1]}ies"
    else:
        first += "es" if first.endswith(("s", "x", "z", "ch", "sh", "o")) else "s"
    return first + space + rest


@cache
def doing(verb: str) -> str:
    """Present participle: "picking up"."""
    first, space, rest = verb.partition(" ")
    if first.endswith("ie"):
        first = f"{first[:-2]}y"
    elif first.endswith("e") and not first.endswith(("ee", "oe", "ye")):
        first = first[:-1]
    else:
        first = _doubled(first)
    return f"{first}ing{space}{rest}"


@cache
def did(verb: str) -> str:
    """Past: "picked up"."""
    return _past(verb, 0)


@cache
def done(verb: str) -> str:
    """Past participle: "picked up"."""
    return _past(verb, 1)


def _past(verb: str, which: int) -> str:
    first, space, rest = verb.partition(" ")
    irregular = table()["verbs"]
    if first in irregular:
        first = irregular[first].split(", ")[which]
    elif first.endswith("e"):
        first += "d"
    elif first.endswith("y") and first[-2] not in VOWELS:
        first = f"{first[:-1]}ied"
    else:
        first = f"{_doubled(first)}ed"
    return first + space + rest


def _doubled(verb: str) -> str:
    return verb + verb[-1] if DOUBLING.fullmatch(verb) or verb in table()["double"] else verb
