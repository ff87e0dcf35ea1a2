"""Pairs labelled as entailment, neutral or contradiction, and triplets: what encoders train on.

A label follows from what was done to the scene. Made less specific, a scene that happens still
happens (a dog runs: an animal runs), and what is denied stays so only in other words. A scene and
its denial, its opposite or an opposite trait exclude each other. What adds a detail, narrows a part
or changes who or what may be true or not. Everything is from the training part of the data.
"""

from __future__ import annotations

from collections.abc import Iterator

from english import edits
from english.dice import Dice
from english.pairs import Recipes, edited
from english.scenes import Scene, draw
from english.wording import say

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
LABELS = (ENTAILMENT, NEUTRAL, CONTRADICTION)

SEED = 3
GENRES = ("captions", "headlines", "captions", "questions")

# Of a scene that happens; what is denied is only paraphrased, or happens after all.
FOLLOWS: Recipes = (
    ((edits.same,), 2),
    ((edits.broaden,), 3),
    ((edits.shorten,), 2),
    ((edits.shorten, edits.broaden), 2),
    ((edits.unnamed,), 1),
)
EXCLUDES: Recipes = (
    ((edits.deny,), 3),
    ((edits.broaden, edits.deny), 1),
    ((edits.shorten, edits.deny), 1),
    ((edits.oppose,), 3),
    ((edits.contrast,), 2),
)
# The other way round, what says more is open.
LESS: Recipes = (((edits.broaden,), 2), ((edits.shorten,), 2), ((edits.shorten, edits.broaden), 1))
OPEN: Recipes = (
    ((edits.other_patient,), 2),
    ((edits.other_event,), 2),
    ((edits.other_agent,), 1),
    ((edits.swap,), 1),
    ((edits.same_agent,), 1),
)
# A question is neither true nor false: another question is what is kept apart from it.
ASKED: Recipes = (
    ((edits.oppose,), 3),
    ((edits.other_ask,), 3),
    ((edits.other_patient,), 2),
    ((edits.other_event,), 2),
)
REWORDED: Recipes = (((edits.same,), 1),)
DENIED: Recipes = (((edits.deny,), 1),)


def labelled(count: int) -> list[tuple[str, str, int]]:
    """So many premises, hypotheses and labels: 0 entailment, 1 neutral, 2 contradiction.

    The labels take turns. Captions and headlines only, since questions claim nothing.
    """
    dice, found = Dice(SEED), dict[tuple[str, str], int]()
    while len(found) < count:
        label = LABELS[len(found) % len(LABELS)]
        scene = draw(dice, GENRES[len(found) % 2], "train")
        turned = label == NEUTRAL and not scene.denied and dice.chance(0.5)
        other = _edit(dice, scene, LESS if turned else _recipes(scene, label))
        if other:
            premise, hypothesis = (other, scene) if turned else (scene, other)
            first = say(dice, premise)
            second = say(dice, hypothesis, first.words)
            if first.text != second.text:
                found.setdefault((first.text, second.text), label)
    return [(premise, hypothesis, label) for (premise, hypothesis), label in found.items()]


def triplets(count: int) -> list[tuple[str, str, str]]:
    """So many anchors, each with a sentence that follows from it and one that it excludes."""
    dice, found = Dice(SEED + 1), dict[str, tuple[str, str]]()
    while len(found) < count:
        anchor = draw(dice, GENRES[len(found) % len(GENRES)], "train")
        first = say(dice, anchor)
        near = _edit(dice, anchor, _recipes(anchor, ENTAILMENT))
        far = _edit(dice, anchor, _recipes(anchor, CONTRADICTION))
        if near and far:
            positive, negative = (say(dice, scene, first.words).text for scene in (near, far))
            if len({first.text, positive, negative}) == 3:
                found.setdefault(first.text, (positive, negative))
    return [(anchor, *others) for anchor, others in found.items()]


def sentences(count: int) -> Iterator[str]:
    """So many different sentences of all genres."""
    dice, seen = Dice(SEED + 2), set[str]()
    while len(seen) < count:
        text = say(dice, draw(dice, GENRES[len(seen) % len(GENRES)], "train")).text
        if text not in seen:
            seen.add(text)
            yield text


def _recipes(scene: Scene, label: int) -> Recipes:
    """What gives this label; of a denied scene only what logic allows without its details."""
    if scene.genre == "questions":
        return REWORDED if label == ENTAILMENT else ASKED
    if label == NEUTRAL:
        return OPEN
    if scene.denied:
        return REWORDED if label == ENTAILMENT else DENIED
    return FOLLOWS if label == ENTAILMENT else EXCLUDES


def _edit(dice: Dice, scene: Scene, recipes: Recipes) -> Scene | None:
    found = edited(dice, scene, dice.weighted(recipes))
    return found if found and found.split == "train" else None
