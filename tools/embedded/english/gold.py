"""How alike two scenes are: the gold of every graded pair, computed from what the scenes share.

A pair's gold is `low + (high - low) * core * kept`, both factors from 0 to 1.

`core` compares who does what to what. It is the mean likeness of event, patient and agent, weighted
4 : 3 : 2 (of a question: event, patient and what is asked, 4 : 3 : 2). Likeness is that of Wu and
Palmer (1994) in the lexicon's trees, squared for similarity; a part that only one of them names
counts as half shared. Where agent and patient stand crosswise (a dog chases a cat, a cat chases a
dog), what they share crosswise counts instead, at a discount, if that is more.

`kept` is what the details leave of it: a product of one factor a detail, 1 if it is equal in both
and 1 - cost * (1 - likeness) if not; half the cost if only one of them has it. Setting, trait,
number and denial each have a cost on the scale. Denial costs most, and is a detail all the same:
that somebody does not eat an apple is about eating an apple.
"""

from __future__ import annotations

from dataclasses import dataclass

from english.lexicon import Kind, lexicon
from english.scenes import Entity, Scene

EVENT, PATIENT, AGENT = 4.0, 3.0, 2.0  # the weights of the core
HALF = 0.5  # what a part counts that only one of the two names


@dataclass(frozen=True)
class Scale:
    """A gold scale: its ends, and what a difference costs on it."""

    low: float
    high: float
    squared: bool
    crossed: float
    setting: float
    trait: float
    number: float
    denial: float

    def grade(self, a: Scene, b: Scene) -> float:
        """The gold of a pair, to two decimals."""
        share = self.core(a, b) * self.kept(a, b)
        return round(self.low + (self.high - self.low) * share, 2)

    def core(self, a: Scene, b: Scene) -> float:
        """Who does what to what, 0 to 1."""
        parts = [(EVENT, self.like("events", a.event, b.event))]
        if a.ask or b.ask:
            parts.append((AGENT, float(a.ask == b.ask)))
        who, what = (a.agent, b.agent), (a.patient, b.patient)
        entities = [
            (w, self._alike(*two)) for w, two in ((AGENT, who), (PATIENT, what)) if any(two)
        ]
        straight = sum(w * s for w, s in entities)
        if all((*who, *what)):
            crosswise = self._alike(a.agent, b.patient) + self._alike(a.patient, b.agent)
            straight = max(straight, self.crossed * (AGENT + PATIENT) / 2 * crosswise)
        shared = straight + sum(w * s for w, s in parts)
        return shared / sum(w for w, _ in (*parts, *entities))

    def kept(self, a: Scene, b: Scene) -> float:
        """What differing details leave of it, 0 to 1."""
        left = 1 - self.denial * (a.denied != b.denied)
        left *= 1 - self.setting * self._lost("places", a.setting, b.setting)
        for one, other in ((a.agent, b.agent), (a.patient, b.patient)):
            if one and other:
                left *= 1 - self.trait * self._lost("traits", one.trait, other.trait)
                left *= 1 - self.number * _apart(one, other)
        return left

    def like(self, kind: Kind, a: str, b: str) -> float:
        """Likeness of two concepts on this scale."""
        found = lexicon().likeness(kind, a, b)
        return found * found if self.squared else found

    def _alike(self, a: Entity | None, b: Entity | None) -> float:
        return self.like("nouns", a.noun, b.noun) if a and b else HALF

    def _lost(self, kind: Kind, a: str, b: str) -> float:
        if not a or not b:
            return 0.0 if a == b else HALF
        return 1 - self.like(kind, a, b)


def _apart(a: Entity, b: Entity) -> float:
    """How far two numbers are: one and two are a whole step, two and several half of one."""
    if a.count == b.count:
        return 0.0
    return 1.0 if "one" in (a.count, b.count) else 0.5


# Similarity as STS asks for it: 5 the same, 0 about something else. Relatedness as SICK asks for
# it: kinship counts more, differing details and denial less.
SIMILARITY = Scale(0.0, 5.0, True, crossed=0.7, setting=0.2, trait=0.12, number=0.12, denial=0.4)
RELATEDNESS = Scale(1.0, 5.0, False, crossed=0.9, setting=0.15, trait=0.1, number=0.1, denial=0.25)
