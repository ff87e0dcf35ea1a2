"""English made from scenes: the gold of their edits, and the committed files."""

from dataclasses import replace

import pytest
from english.gold import RELATEDNESS, SIMILARITY
from english.scenes import Entity, Scene
from english.sets import files

from harness.assets.catalogue import EMBEDDED_SHA256
from harness.assets.places import EMBEDDED

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


def test_the_generator_still_makes_every_committed_file():
    made = {name: content.encode() for name, content in files()}
    assert made.keys() == EMBEDDED_SHA256.keys()
    committed = {path.name for path in EMBEDDED.iterdir()}
    assert committed == made.keys() | {"README.md"}
    for name, content in made.items():
        assert content == (EMBEDDED / name).read_bytes(), name
