"""English made from scenes: scenes, sentences, edits, their gold, and the committed files."""

import re
from dataclasses import replace
from itertools import cycle, islice

import pytest
from english import grammar
from english.dice import Dice
from english.gold import RELATEDNESS, SIMILARITY
from english.lexicon import GENRES, lexicon
from english.pairs import SICK, STS
from english.scenes import PARTS, Entity, Scene, draw, frame_of, settings_of
from english.sets import files
from english.wording import say

from harness.assets.catalogue import EMBEDDED_SHA256
from harness.assets.places import EMBEDDED

SCALES = pytest.mark.parametrize("scale", [SIMILARITY, RELATEDNESS], ids=["sts", "sick"])
EDITS = {edit.__name__: edit for recipe, _ in (*STS, *SICK) for edit in recipe}
EACH = 40  # scenes of each genre and split


@pytest.fixture(scope="module")
def scenes() -> tuple[Scene, ...]:
    dice = Dice(7)
    return tuple(
        draw(dice, genre, split)
        for genre in GENRES
        for split in dict.fromkeys(PARTS)
        for _ in range(EACH)
    )


@pytest.fixture(scope="module")
def changed(scenes) -> tuple[tuple[Scene, Scene, str], ...]:
    """Every scene, what an edit makes of it, and the edit's name; each edit in its turn."""
    dice, turns = Dice(8), cycle(EDITS.items())
    made = ((scene, edit(dice, scene), name) for scene in scenes for name, edit in islice(turns, 3))
    return tuple((scene, other, name) for scene, other, name in made if other is not None)


# --- scenes --------------------------------------------------------------------------------------


def test_a_scene_keeps_to_its_frame_and_its_split(scenes):
    words, parts = lexicon(), list(dict.fromkeys(PARTS))
    for number, scene in enumerate(scenes):
        frame = frame_of(scene)
        assert scene.split == parts[number // EACH % 3]
        assert bool(scene.agent) == bool(frame.who)
        assert bool(scene.patient) == bool(frame.what)
        assert scene.agent is None or scene.agent.noun in frame.who
        assert scene.patient is None or scene.patient.noun in frame.what
        assert scene.setting in ("", *settings_of(scene))
        for thing in filter(None, (scene.agent, scene.patient)):
            assert thing.trait in ("", *words.traits_of[scene.genre, thing.noun])


# --- words ---------------------------------------------------------------------------------------


def test_a_sentence_is_well_formed(scenes):
    dice = Dice(3)
    for scene in scenes:
        text = say(dice, scene).text
        assert text[0] == text[0].upper()
        assert text[-1] in {"captions": ".", "questions": "?"}.get(scene.genre, text[-1])
        assert not re.search(r"[{}]|  | [.?,]|(?<!Can )\bsomeone\b", text)
        for article, following in re.findall(r"\b(an?) (\w+)", text, re.IGNORECASE):
            assert grammar.article(following) == f"{article.lower()} {following}"


# --- edits and gold ------------------------------------------------------------------------------


@SCALES
def test_gold_is_symmetric_and_on_its_scale_and_highest_for_the_same_alone(scale, changed):
    for scene, other, name in changed:
        assert scale.grade(scene, scene) == scale.high
        gold = scale.grade(scene, other)
        assert gold == scale.grade(other, scene)
        assert scale.low <= gold <= scale.high
        assert (gold == scale.high) == (replace(other, frame=scene.frame) == scene), name


MAN, DOG, CAT = Entity("man"), Entity("dog"), Entity("cat")
CHASE = Scene("captions.chase", 0, DOG, CAT, "park")


@pytest.mark.parametrize(
    ("other", "similar", "related"),
    [
        (CHASE, 5.0, 5.0),
        (replace(CHASE, denied=True), 3.0, 4.0),
        (replace(CHASE, setting=""), 4.5, 4.7),
        (replace(CHASE, setting="street"), 4.25, 4.7),
        (replace(CHASE, agent=CAT, patient=DOG), 4.17, 4.78),
        (replace(CHASE, agent=Entity("animal")), 4.38, 4.7),
        (replace(CHASE, agent=None), 4.44, 4.56),
        (Scene("captions.read", 0, MAN, Entity("book"), "park"), 0.0, 1.0),
    ],
)
def test_gold_is_what_the_formula_says(other, similar, related):
    assert SIMILARITY.grade(CHASE, other) == similar
    assert RELATEDNESS.grade(CHASE, other) == related


# --- the files that the package carries ----------------------------------------------------------


def test_the_generator_still_makes_every_committed_file():
    made = {name: content.encode() for name, content in files()}
    assert made.keys() == EMBEDDED_SHA256.keys()
    committed = {path.name for path in EMBEDDED.iterdir()}
    assert committed == made.keys() | {"README.md"}
    for name, content in made.items():
        assert content == (EMBEDDED / name).read_bytes(), name
