"""Pairs of sentences with a graded gold: a scene, an edited one, and each put into words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from english import edits
from english.dice import Dice
from english.edits import Edit
from english.gold import RELATEDNESS, SIMILARITY, Scale
from english.scenes import Scene, draw
from english.wording import Sentence, say

# What is done to the first scene to get the second, and how often.
Recipes = tuple[tuple[tuple[Edit, ...], int], ...]

STS: Recipes = (
    ((edits.same,), 5),
    ((edits.broaden,), 3),
    ((edits.broaden, edits.broaden), 2),
    ((edits.broaden, edits.setting), 2),
    ((edits.setting,), 1),
    ((edits.trait,), 1),
    ((edits.number,), 1),
    ((edits.setting, edits.trait), 1),
    ((edits.deny,), 2),
    ((edits.deny, edits.broaden), 2),
    ((edits.oppose,), 2),
    ((edits.oppose, edits.setting), 1),
    ((edits.contrast,), 1),
    ((edits.swap,), 2),
    ((edits.other_agent,), 3),
    ((edits.other_patient,), 3),
    ((edits.other_event,), 3),
    ((edits.other_ask,), 3),
    ((edits.other_ask, edits.other_patient), 3),
    ((edits.other_agent, edits.setting), 3),
    ((edits.other_patient, edits.setting), 3),
    ((edits.other_event, edits.setting), 3),
    ((edits.other_agent, edits.trait), 2),
    ((edits.other_agent, edits.deny), 2),
    ((edits.other_patient, edits.deny), 2),
    ((edits.other_event, edits.deny), 3),
    ((edits.other_ask, edits.other_event), 3),
    ((edits.other_event, edits.other_agent), 4),
    ((edits.other_event, edits.other_patient), 4),
    ((edits.other_agent, edits.other_patient), 4),
    ((edits.other_agent, edits.other_patient, edits.deny), 3),
    ((edits.other_agent, edits.other_patient, edits.setting), 3),
    ((edits.same_agent,), 4),
    ((edits.unrelated,), 8),
)

# SICK's own changes: meaning kept, turned, or kept in part; and pairs that have nothing in common.
SICK: Recipes = (
    ((edits.same,), 5),
    ((edits.unnamed,), 2),
    ((edits.broaden,), 3),
    ((edits.broaden, edits.setting), 2),
    ((edits.setting,), 2),
    ((edits.trait,), 1),
    ((edits.setting, edits.trait), 2),
    ((edits.number,), 1),
    ((edits.deny,), 4),
    ((edits.deny, edits.broaden), 2),
    ((edits.deny, edits.setting), 2),
    ((edits.oppose,), 2),
    ((edits.contrast,), 2),
    ((edits.swap,), 3),
    ((edits.other_agent,), 3),
    ((edits.other_patient,), 3),
    ((edits.other_event,), 3),
    ((edits.other_event, edits.setting), 3),
    ((edits.other_event, edits.deny), 2),
    ((edits.other_agent, edits.other_patient), 3),
    ((edits.other_event, edits.other_agent), 4),
    ((edits.other_event, edits.other_patient, edits.deny), 2),
    ((edits.other_agent, edits.other_patient, edits.deny), 3),
    ((edits.same_agent,), 4),
    ((edits.same_agent, edits.deny), 2),
    ((edits.unrelated,), 6),
    ((edits.unrelated, edits.deny), 1),
)


@dataclass(frozen=True)
class Example:
    """A pair of scenes in words, and its gold."""

    a: Sentence
    b: Sentence
    scenes: tuple[Scene, Scene]
    gold: float

    @property
    def genre(self) -> str:
        """What kind of text both are."""
        return self.scenes[0].genre


@dataclass(frozen=True)
class Graded:
    """A graded set of pairs: what it is about, how pairs are made, what the gold means."""

    seed: int
    genres: tuple[str, ...]
    recipes: Recipes
    scale: Scale

    def examples(self, split: str, count: int) -> Iterator[Example]:
        """So many pairs of one part of the data, no two alike."""
        dice = Dice(self.seed)
        seen: set[frozenset[str]] = set()
        while len(seen) < count:
            scene = draw(dice, self.genres[len(seen) % len(self.genres)], split)
            other = edited(dice, scene, dice.weighted(self.recipes))
            if other is None or other.split != split:
                continue
            a = say(dice, scene)
            b = say(dice, other, avoid=a.words)
            texts = frozenset((a.text, b.text))
            if len(texts) == 2 and texts not in seen:
                seen.add(texts)
                first = Example(a, b, (scene, other), self.scale.grade(scene, other))
                yield first if dice.chance(0.5) else Example(b, a, (other, scene), first.gold)


def edited(dice: Dice, scene: Scene, recipe: Sequence[Edit]) -> Scene | None:
    """The scene after these edits; None if one of them does not apply."""
    found: Scene | None = scene
    for edit in recipe:
        found = edit(dice, found) if found else None
    return found


SIMILAR = Graded(1, ("captions", "headlines", "questions"), STS, SIMILARITY)
RELATED = Graded(2, ("captions",), SICK, RELATEDNESS)
