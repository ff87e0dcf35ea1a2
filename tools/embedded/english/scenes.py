"""A scene is what a sentence says, before any words: who does what to what, where, how many.

Scenes are drawn from the frames of the lexicon, so that nothing absurd happens in them, and every
scene belongs to one part of the data: train, dev or test.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Literal
from zlib import crc32

from english.dice import Dice
from english.grammar import is_bare, is_mass, is_plural, is_sole
from english.lexicon import Event, Frame, lexicon

Count = Literal["one", "two", "three", "several", "plain"]  # plain: "apples"

# Half of all scenes are for training, a quarter each for development and test.
PARTS = ("train", "train", "dev", "test")

# How often a scene says so much.
SETTING, TRAIT, DENIED = 0.6, 0.3, 0.15
COUNTS: tuple[tuple[Count, int], ...] = (("one", 76), ("two", 10), ("several", 9), ("three", 5))
PLAIN = 0.5  # of what is acted on in headlines and questions, where that is said of many at once


@dataclass(frozen=True)
class Entity:
    """Somebody or something: a noun of the lexicon, how many, and at most one trait."""

    noun: str
    count: Count = "one"
    trait: str = ""


@dataclass(frozen=True)
class Scene:
    """Who (agent) does what (event) to what (patient) where or when (setting), or does not.

    A question has no agent; `ask` is what it wants to know: how, how long, at what cost, ...
    """

    event: str
    frame: int
    agent: Entity | None
    patient: Entity | None
    setting: str = ""
    denied: bool = False
    ask: str = ""

    @property
    def genre(self) -> str:
        """captions, headlines or questions."""
        return self.event.partition(".")[0]

    @property
    def split(self) -> str:
        """The only part of the data that this scene may occur in, whatever its details.

        Who does what to what decides: two scenes that differ in place, number or trait go together.
        """
        who, what = (entity.noun if entity else "" for entity in (self.agent, self.patient))
        return split_of(self.event, who, what)


def draw(dice: Dice, genre: str, split: str) -> Scene:
    """A scene of this genre that belongs to this part of the data."""
    sums, cores = cores_of(genre, split)
    name, which, who, what = cores[bisect(sums, dice.unit() * sums[-1])]
    event = lexicon().events[name]
    frame = event.frames[which]
    agent = entity(dice, genre, who)
    ask = asked(dice, event) if genre == "questions" else ""
    where = settings(frame, ask) if dice.chance(SETTING) else ()
    return Scene(
        event=name,
        frame=which,
        agent=agent,
        patient=acted_on(dice, event, genre, what, agent),
        setting=dice.zipf(where) if where else "",
        denied=genre != "questions" and dice.chance(DENIED),
        ask=ask,
    )


@cache
def cores_of(genre: str, split: str) -> tuple[list[float], list[tuple[str, int, str, str]]]:
    """Every event, frame, agent and patient of a genre and split, and the sums of their weights.

    Each topic weighs the same; in it, and in every slot of a frame, weights follow Zipf's law.
    """
    weights, cores = [], []
    for topic in lexicon().topics[genre]:
        for name, of_event in shares(topic):
            frames = lexicon().events[name].frames
            for which, frame in enumerate(frames):
                for who, of_who in shares(frame.who or ("",)):
                    others = tuple(what for what in frame.what if what != who)
                    for what, of_what in shares(others or ("",)):
                        if split_of(name, who, what) == split:
                            weights.append(of_event * of_who * of_what / len(frames))
                            cores.append((name, which, who, what))
    return list(accumulate(weights)), cores


def shares(things: tuple[str, ...]) -> list[tuple[str, float]]:
    """Each with its share of 1, the n-th in proportion to 1/n."""
    total = sum(1 / n for n in range(1, len(things) + 1))
    return [(thing, 1 / n / total) for n, thing in enumerate(things, start=1)]


@cache
def split_of(event: str, who: str, what: str) -> str:
    """The part of the data that who does what to what belongs to."""
    return PARTS[crc32(f"{event}|{who}|{what}".encode()) % len(PARTS)]


def object_of(dice: Dice, frame: Frame, who: str) -> str:
    """What is acted on, but not the agent's kind again; nothing if the verb takes no object."""
    if not frame.what:
        return ""
    while True:
        what = dice.zipf(frame.what)
        if what != who:
            return what


@cache
def settings(frame: Frame, ask: str) -> tuple[str, ...]:
    """Where it can happen; the manner of doing it is said only where that is what is asked."""
    if ask in ("", "how"):
        return frame.where
    return tuple(x for x in frame.where if lexicon().places[x].path[0] != "manner")


def asked(dice: Dice, event: Event) -> str:
    """What a question wants to know of the event."""
    return event.asks[0] if dice.chance(0.5) else dice.pick(event.asks)


def entity(dice: Dice, genre: str, noun: str) -> Entity | None:
    """Somebody or something, in some number, perhaps with a trait; nobody without a noun."""
    if not noun:
        return None
    counted = genre == "captions" and countable(noun)
    known = lexicon().traits_of[genre, noun]
    trait = dice.pick(known) if known and dice.chance(TRAIT) else ""
    return Entity(noun, dice.weighted(COUNTS) if counted else "one", trait)


def acted_on(
    dice: Dice, event: Event, genre: str, noun: str, agent: Entity | None
) -> Entity | None:
    """What is acted on, in a number that fits the event and its agent."""
    found = entity(dice, genre, noun)
    return found and replace(found, count=amount(dice, event, genre, found, agent))


def amount(dice: Dice, event: Event, genre: str, thing: Entity, agent: Entity | None) -> Count:
    """How many are acted on, given who acts."""
    if not countable(thing.noun):
        return "one"
    if event.things == "each":
        return "plain" if agent and agent.count != "one" else "one"
    if event.things:
        return "one" if event.things == "one" else "plain"
    if genre == "headlines" and many(thing.noun) and dice.chance(PLAIN):
        return "plain"
    return thing.count


@cache
def countable(noun: str) -> bool:
    """Whether there can be two of it, whichever of its words is said."""
    odd = (is_mass, is_bare, is_sole, is_plural)
    return not any(test(word) for word in lexicon().nouns[noun].words for test in odd)


@cache
def many(noun: str) -> bool:
    """Whether headlines speak of several at once: people and prices, not a budget or a bank."""
    return lexicon().nouns[noun].path[0] in {"person", "criminal", "victim", "rate", "product"}


@cache
def places(genre: str, role: str, noun: str) -> tuple[tuple[str, int], ...]:
    """The frames that have the noun in a role, `who` or `what`: their event and number."""
    return tuple(
        (name, number)
        for name, event in lexicon().events.items()
        if name.startswith(f"{genre}.")
        for number, frame in enumerate(event.frames)
        if noun in getattr(frame, role)
    )


def frame_of(scene: Scene) -> Frame:
    """The frame that the scene was drawn from."""
    return lexicon().events[scene.event].frames[scene.frame]


def settings_of(scene: Scene) -> tuple[str, ...]:
    """The settings that the scene can have."""
    return settings(frame_of(scene), scene.ask)
