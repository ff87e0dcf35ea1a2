"""From a scene to a sentence: a template, words for every concept, and their forms.

A scene can be worded in many ways that mean the same: voice, relative clause, position of the
place, simple or continuous tense, kind of sentence, and a synonym for every word. Templates
(templates.toml) are drawn by what the scene has, never by what a pair of scenes has in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from english import grammar
from english.dice import Dice
from english.lexicon import Kind, lexicon, read
from english.scenes import Entity, Scene

COUNTED = {
    "two": ("two", "a couple of", "a pair of"),
    "three": ("three",),
    "several": ("several", "a number of", "a few"),
}
# Kinds of nouns: of whom one says "who", and what the asker of a question may call "my".
PEOPLE = {"person", "politician", "expert", "criminal", "victim"}
OWNED = {"animal", "ailment", "appliance", "clothes", "covering", "data", "device", "fixture"} | {
    "furniture", "instrument", "money", "paperwork", "person", "structure", "vehicle",
}  # fmt: skip
NOT_A_PLACE = {"weather", "time"}  # nobody "is in the morning"

PASSIVE = 0.4  # how often a scene that can be told in the passive is
DEFINITE = 0.3  # how often a single thing is "the" and not "a"
FRESH = 0.8  # how often a second sentence avoids the words of the first where there are others


@dataclass(frozen=True)
class Sentence:
    """A text, the template that it was made by, and the words that were chosen for its concepts."""

    text: str
    template: str
    words: frozenset[str] = field(default=frozenset(), repr=False)


def say(dice: Dice, scene: Scene, avoid: frozenset[str] = frozenset()) -> Sentence:
    """One sentence that says the scene, in other words than these where the lexicon has others."""
    phrase = _Phrase(dice, scene, _Words(dice, avoid))
    template = dice.pick(templates(_form(scene, phrase.passive), *_settings(scene)))
    text = " ".join(template.format_map(phrase).split())
    text = text.replace(" .", ".").replace(" ?", "?").replace(" ,", ",")
    return Sentence(text[0].upper() + text[1:], template, frozenset(phrase.words.chosen))


@cache
def templates(form: tuple[str, ...], setting: bool, place: bool) -> tuple[str, ...]:
    """The templates of a form: a genre, then voices or what is asked.

    Without a setting, or with one that is no place, some cannot be used.
    """
    genre, *parts = form
    return tuple(
        template
        for part in parts
        for template in read("templates")[genre][part]
        if (setting or "{setting}," not in template) and (place or "{place}" not in template)
    )


def _form(scene: Scene, passive: bool) -> tuple[str, ...]:
    if scene.genre == "questions":
        return scene.genre, scene.ask
    voice = "passive" if passive else "active"
    if not scene.denied:
        return scene.genre, voice
    one = scene.agent is not None and scene.agent.count == "one" and not passive
    return (scene.genre, f"denied-{voice}", *(["denied-one"] if one else []))


def _settings(scene: Scene) -> tuple[bool, bool]:
    """Whether the scene has a setting, and whether that is a place."""
    path = lexicon().places[scene.setting].path if scene.setting else ("time",)
    return bool(scene.setting), path[0] not in NOT_A_PLACE


@dataclass
class _Words:
    """Chooses words, and remembers which."""

    dice: Dice
    avoid: frozenset[str]
    chosen: set[str] = field(default_factory=set)

    def __call__(self, kind: Kind, name: str) -> str:
        known = lexicon().concept(kind, name).words
        if self.avoid and len(known) > 1 and self.dice.chance(FRESH):
            known = tuple(word for word in known if word not in self.avoid) or known
        word = self.dice.zipf(known)
        self.chosen.add(word)
        return word


class _Noun:
    """A noun phrase: somebody or something in words."""

    def __init__(self, dice: Dice, words: _Words, entity: Entity) -> None:
        self.dice, self.count = dice, entity.count
        self.kind = lexicon().nouns[entity.noun].path[0]
        self.noun = words("nouns", entity.noun)
        self.trait = words("traits", entity.trait) if entity.trait else ""
        self.plural = self.count != "one" or grammar.is_plural(self.noun)

    @property
    def bare(self) -> str:
        """Without determiner: "tall men"."""
        noun = grammar.plural(self.noun) if self.count != "one" else self.noun
        return f"{self.trait} {noun}" if self.trait else noun

    @property
    def short(self) -> str:
        """As headlines have it: "three hikers", "bank"."""
        return f"{self.count} {self.bare}" if self.count in COUNTED else self.bare

    def full(self, new: bool = False, some: str = "some", own: bool = False) -> str:
        """With a determiner: "a tall man", "the tall man", "some water", "my car"."""
        if self.count in COUNTED:
            return f"{self.dice.zipf(COUNTED[self.count])} {self.bare}"
        if self.count == "plain" or grammar.is_bare(self.noun):
            return self.bare
        if grammar.is_sole(self.noun):
            return f"the {self.bare}"
        if own and self.kind in OWNED and self.dice.chance(DEFINITE):
            return f"my {self.bare}"
        if grammar.is_mass(self.noun):
            return f"{some} {self.bare}"
        if not new and self.dice.chance(DEFINITE):
            return f"the {self.bare}"
        return grammar.article(self.bare)


class _Phrase:
    """A scene in words: what stands in the braces of a template."""

    def __init__(self, dice: Dice, scene: Scene, words: _Words) -> None:
        self.scene, self.words = scene, words
        self.verb = words("events", scene.event)
        self.agent = _Noun(dice, words, scene.agent) if scene.agent else None
        self.patient = _Noun(dice, words, scene.patient) if scene.patient else None
        self.setting = words("places", scene.setting) if scene.setting else ""
        self.asked = scene.genre == "questions"
        can = self.patient is not None and not self.asked and grammar.has_passive(self.verb)
        self.passive = can and (self.agent is None or dice.chance(PASSIVE))
        subject = self.patient if self.passive else self.agent
        self.plural = subject is not None and subject.plural

    def __getitem__(self, slot: str) -> str:
        return SLOTS[slot](self)

    def object(self) -> str:
        """What is acted on: any water if nobody drinks it, one's own if one asks about it."""
        if self.patient is None:
            return ""
        if self.asked:
            return self.patient.full(new=True, some="", own=True)
        denied = "the" if self.passive else "any"
        return self.patient.full(some=denied if self.scene.denied else "some")


SLOTS: dict[str, Callable[[_Phrase], str]] = {
    "agent": lambda p: p.agent.full() if p.agent else "someone",
    "new_agent": lambda p: p.agent.full(new=True) if p.agent else "someone",
    "short_agent": lambda p: p.agent.short if p.agent else "someone",
    "bare": lambda p: p.agent.bare if p.agent else "one",
    "by": lambda p: f"by {p.agent.full()}" if p.agent else "",
    "short_by": lambda p: f"by {p.agent.short}" if p.agent else "",
    "who": lambda p: "who" if p.agent is None or p.agent.kind in PEOPLE else "that",
    "patient": lambda p: p.object(),
    "new_patient": lambda p: p.patient.full(new=True) if p.patient else "",
    "short_patient": lambda p: p.patient.short if p.patient else "",
    "setting": lambda p: p.setting,
    "place": lambda p: p.setting,
    "be": lambda p: "are" if p.plural else "is",
    "was": lambda p: "were" if p.plural else "was",
    "has": lambda p: "have" if p.plural else "has",
    "fails": lambda p: "fail" if p.plural else "fails",
    "verb": lambda p: p.verb,
    "verbs": lambda p: p.verb if p.plural else grammar.does(p.verb),
    "doing": lambda p: grammar.doing(p.verb),
    "did": lambda p: grammar.did(p.verb),
    "done": lambda p: grammar.done(p.verb),
}
