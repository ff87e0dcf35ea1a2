"""The authored lexicon: concepts with words and kinds, events with who does what to what where.

Everything is text in the .toml files of this folder, which say how they are to be read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from harness.core.errors import DataError

FOLDER = Path(__file__).parent
Kind = Literal["nouns", "places", "events", "traits"]

GENRES = ("captions", "headlines", "questions")


@dataclass(frozen=True)
class Concept:
    """One meaning: its words, the commonest first, and its path of kinds, itself last."""

    name: str
    words: tuple[str, ...]
    path: tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """Who can do it to what, where or when; names of concepts, the commonest first.

    An empty `what` is a verb without object, an empty `who` the asker of a question.
    """

    who: tuple[str, ...]
    what: tuple[str, ...]
    where: tuple[str, ...]


@dataclass(frozen=True)
class Event:
    """Something that happens; `things` is how many it happens to: one, many, each, or any ("")."""

    concept: Concept
    frames: tuple[Frame, ...]
    opposite: str = ""
    things: str = ""
    asks: tuple[str, ...] = ("how",)


@dataclass(frozen=True)
class Trait:
    """A quality: of which dimension and nouns, in which genres, with which opposite."""

    concept: Concept
    genres: tuple[str, ...]
    of: frozenset[str]
    opposite: str = ""

    @property
    def dimension(self) -> str:
        """The table that it stands in; a thing has one value of a dimension at most."""
        return self.concept.path[0]


@dataclass(frozen=True, eq=False)
class Lexicon:
    """All of it. `below` lists, of each kind of thing or place, the concepts under it."""

    nouns: Mapping[str, Concept]
    places: Mapping[str, Concept]
    events: Mapping[str, Event]
    traits: Mapping[str, Trait]
    traits_of: Mapping[tuple[str, str], tuple[str, ...]] = field(repr=False)
    topics: Mapping[str, tuple[tuple[str, ...], ...]] = field(repr=False)

    def likeness(self, kind: Kind, a: str, b: str) -> float:
        """How near two concepts stand in their tree, 2 d(kind) / (d(a) + d(b)) with depths d.

        That is Wu and Palmer's (1994): `kind` is the deepest kind of both, the root has depth 0.
        1 for the same, 0 for those that share no kind; opposites share their topic.
        """
        if a == b:
            return 1.0
        one, other = self.concept(kind, a), self.concept(kind, b)
        shared = 0
        for x, y in zip(one.path, other.path, strict=False):
            if x != y:
                break
            shared += 1
        return 2 * shared / (len(one.path) + len(other.path))

    def concept(self, kind: Kind, name: str) -> Concept:
        """The concept of that name among nouns, places, events or traits."""
        if kind == "nouns":
            return self.nouns[name]
        if kind == "places":
            return self.places[name]
        return self.events[name].concept if kind == "events" else self.traits[name].concept

    def parent(self, kind: Kind, name: str) -> str | None:
        """The kind that it is a case of, if there is a word for it."""
        path = self.concept(kind, name).path
        if len(path) < 2:
            return None
        above = path[-2]
        if kind == "events":
            above = f"{name.partition('.')[0]}.{above}"
            return above if above in self.events else None
        return above if above in (self.nouns if kind == "nouns" else self.places) else None


@cache
def lexicon() -> Lexicon:
    """The lexicon, read once and checked. Raises DataError for a name that nothing has."""
    nouns, places = tree(read("nouns")), tree(read("places"))
    events = {name: event for genre in GENRES for name, event in _events(genre, nouns, places)}
    traits = dict(_traits(nouns))
    for things in (events, traits):
        for name, thing in things.items():
            if thing.opposite and name != getattr(things.get(thing.opposite), "opposite", ""):
                raise DataError(f"the opposite of {name} is {thing.opposite}, not so the other way")
    return Lexicon(
        nouns=nouns,
        places=places,
        events=events,
        traits=traits,
        traits_of={(genre, noun): _of(genre, noun, traits) for genre in GENRES for noun in nouns},
        topics={genre: _topics(genre, events) for genre in GENRES},
    )


def read(name: str) -> dict[str, Any]:
    """One file of this folder, anew."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def words(text: str) -> tuple[str, ...]:
    """Words separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def tree(tables: Mapping[str, Any], above: tuple[str, ...] = ()) -> dict[str, Concept]:
    """Every concept and kind of a tree of tables, in the order of the file."""
    found: dict[str, Concept] = {}
    for name, value in tables.items():
        path = above if name == "_" else (*above, name)
        inner = tree(value, path) if isinstance(value, dict) else {}
        own = {} if inner else {path[-1]: Concept(path[-1], words(value), path)}
        for concept in (own | inner).values():
            if concept.name in found:
                raise DataError(f"the lexicon has two concepts {concept.name!r}: rename one")
            found[concept.name] = concept
    return found


def below(names: str, sets: Mapping[str, str], concepts: Mapping[str, Concept]) -> tuple[str, ...]:
    """The concepts that these names stand for: a set its members, a kind all that is below it."""
    found: dict[str, None] = {}
    for name in names.split():
        if name in sets:
            found |= dict.fromkeys(below(sets[name], {**sets, name: ""}, concepts))
        else:
            inner = [c.name for c in concepts.values() if name in c.path[:-1]]
            if not inner and name not in concepts:
                raise DataError(f"the lexicon has no {name!r}: add it, or correct {names!r}")
            found |= dict.fromkeys(inner or [name])
    return tuple(found)


def _events(
    genre: str, nouns: Mapping[str, Concept], places: Mapping[str, Concept]
) -> Iterator[tuple[str, Event]]:
    file = read(genre)
    sets = file["sets"]

    def frame(text: str) -> Frame:
        left, _, where = text.partition("@")
        who, _, what = left.partition(">")
        return Frame(below(who, sets, nouns), below(what, sets, nouns), below(where, sets, places))

    for topic, table in file[genre].items():
        for name, entry in table.items():
            kind = (entry["kind"],) if "kind" in entry else ()
            full = f"{genre}.{name}"
            yield (
                full,
                Event(
                    concept=Concept(full, words(entry["say"]), (topic, *kind, name)),
                    frames=tuple(frame(text) for text in entry["in"]),
                    opposite=f"{genre}.{entry['not']}" if "not" in entry else "",
                    things=entry.get("things", ""),
                    asks=("how", *entry.get("ask", "").split()),
                ),
            )


def _topics(genre: str, events: Mapping[str, Event]) -> tuple[tuple[str, ...], ...]:
    """The events of a genre by topic."""
    found: dict[str, list[str]] = {}
    for name, event in events.items():
        if name.startswith(f"{genre}."):
            found.setdefault(event.concept.path[0], []).append(name)
    return tuple(tuple(names) for names in found.values())


def _traits(nouns: Mapping[str, Concept]) -> Iterator[tuple[str, Trait]]:
    for dimension, table in read("traits").items():
        genres = tuple(table.pop("in").split())
        for name, entry in table.items():
            concept = Concept(name, words(entry["say"]), (dimension, name))
            of = frozenset(below(entry["of"], {}, nouns))
            yield name, Trait(concept, genres, of, entry.get("not", ""))


def _of(genre: str, noun: str, traits: Mapping[str, Trait]) -> tuple[str, ...]:
    """The traits that a genre tells of a noun."""
    return tuple(name for name, t in traits.items() if noun in t.of and genre in t.genres)
