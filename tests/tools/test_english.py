"""English made from scenes: draws, forms of words, the lexicon, scenes, edits, their gold."""

import re
from collections import Counter
from dataclasses import replace
from itertools import cycle, islice

import numpy as np
import pytest
from english import edits, grammar
from english.dice import BLOCK, Dice
from english.gold import RELATEDNESS, SIMILARITY
from english.lexicon import GENRES, below, lexicon, read, tree
from english.pairs import SICK, STS, edited
from english.scenes import (
    PARTS,
    Entity,
    Scene,
    draw,
    frame_of,
    settings_of,
    split_of,
)
from english.sets import files
from english.wording import say, templates
from hypothesis import given
from hypothesis import strategies as st

from harness.assets.catalogue import EMBEDDED_SHA256
from harness.assets.places import EMBEDDED
from harness.core.errors import DataError

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


# --- draws ---------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
def test_a_number_is_that_of_numpys_own_generator(seed):
    dice, numpy = Dice(seed), np.random.default_rng(seed)
    assert [dice.unit() for _ in range(5)] == numpy.random(5).tolist()


def test_the_stream_is_pinned_across_its_blocks():
    dice = Dice(0)
    found = [dice.unit() for _ in range(BLOCK + 1)]
    assert (found[0], found[-1]) == (0.6369616873214543, 0.4180290042052578)


@pytest.mark.parametrize(
    ("choose", "wanted"),
    [
        (lambda dice: dice.zipf("abc"), [6 / 11, 3 / 11, 2 / 11]),
        (lambda dice: dice.pick("abc"), [1 / 3, 1 / 3, 1 / 3]),
        (lambda dice: dice.weighted([("a", 1), ("b", 0), ("c", 3)]), [1 / 4, 0, 3 / 4]),
        (lambda dice: "ac"[dice.chance(0.2)], [4 / 5, 0, 1 / 5]),
    ],
)
def test_choices_have_their_weights(choose, wanted):
    dice, draws = Dice(1), 4000
    counts = Counter(choose(dice) for _ in range(draws))
    found = [counts[letter] / draws for letter in "abc"]
    np.testing.assert_allclose(found, wanted, atol=4 * 0.5 / draws**0.5)  # four standard errors


# --- forms of words ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("play", "plays playing played played"),
        ("carry", "carries carrying carried carried"),
        ("watch", "watches watching watched watched"),
        ("slice", "slices slicing sliced sliced"),
        ("stop", "stops stopping stopped stopped"),
        ("repair", "repairs repairing repaired repaired"),
        ("fix", "fixes fixing fixed fixed"),
        ("open", "opens opening opened opened"),
        ("acquit", "acquits acquitting acquitted acquitted"),
        ("free", "frees freeing freed freed"),
        ("go", "goes going went gone"),
        ("cut", "cuts cutting cut cut"),
        ("eat", "eats eating ate eaten"),
    ],
)
def test_a_verb_has_its_forms(verb, forms):
    makers = (grammar.does, grammar.doing, grammar.did, grammar.done)
    assert " ".join(make(verb) for make in makers) == forms


def test_a_verb_of_several_words_inflects_in_the_first():
    assert grammar.doing("take care of") == "taking care of"
    assert grammar.done("tear up") == "torn up"


@pytest.mark.parametrize(
    ("noun", "several"),
    [
        ("dog", "dogs"),
        ("bus", "buses"),
        ("box", "boxes"),
        ("baby", "babies"),
        ("boy", "boys"),
        ("police officer", "police officers"),
        ("fair-haired woman", "fair-haired women"),
        ("piece of fruit", "pieces of fruit"),
        ("sheep", "sheep"),
    ],
)
def test_a_noun_has_its_plural(noun, several):
    assert grammar.plural(noun) == several


@pytest.mark.parametrize(
    "phrase", ["an apple", "a dog", "an old man", "a uniform", "an umbrella", "a user account"]
)
def test_an_article_goes_by_sound(phrase):
    assert grammar.article(phrase.partition(" ")[2]) == phrase


def test_every_irregular_word_is_in_the_lexicon():
    words = lexicon()
    nouns = {word for noun in words.nouns.values() for word in noun.words}
    verbs = {word for event in words.events.values() for word in event.concept.words}
    table, last = grammar.table(), {noun.split()[-1] for noun in nouns}
    for name in ("mass", "bare", "sole", "plural_only"):
        assert set(table[name]) <= nouns, name
    assert set(table["plural"]) <= nouns | last
    assert set(table["verbs"]) <= {verb.split()[0] for verb in verbs}
    assert set(table["active_only"]) <= verbs
    traits = {word for trait in words.traits.values() for word in trait.concept.words}
    assert set(table["a"]) <= {phrase.split()[0] for phrase in nouns | traits}
    assert set(table["double"]) <= {verb.split()[0] for verb in verbs}


# --- the lexicon ---------------------------------------------------------------------------------


def test_the_lexicon_has_some_hundreds_of_nouns_and_verbs_with_synonyms_and_kinds():
    words = lexicon()
    assert len(words.nouns) > 500
    assert len(words.events) > 200
    assert len(words.traits) > 70
    assert len(words.places) > 80
    several = [c for c in (*words.nouns.values(), *words.places.values()) if len(c.words) > 1]
    assert len(several) > 250
    assert sum(bool(event.opposite) for event in words.events.values()) > 50


def test_a_word_names_one_thing():
    """Else one sentence would say two scenes, and the split of a sentence were undecided."""
    for concepts in (lexicon().nouns, lexicon().places):
        counts = Counter(word for concept in concepts.values() for word in concept.words)
        assert not [word for word, count in counts.items() if count > 1]


def test_everything_in_the_lexicon_can_be_said():
    words = lexicon()
    frames = [frame for event in words.events.values() for frame in event.frames]
    said = {name for frame in frames for name in (*frame.who, *frame.what)}
    kinds = {kind for noun in words.nouns.values() for kind in noun.path[:-1]}
    assert set(words.nouns) == said | kinds & set(words.nouns)
    where = {name for frame in frames for name in frame.where}
    assert set(words.places) - where == {"indoors", "outdoors", "water", "region", "moment"}
    of = {trait for traits in words.traits_of.values() for trait in traits}
    assert of == set(words.traits)


def test_no_set_hides_a_concept():
    for genre in GENRES:
        names = set(read(genre)["sets"])
        assert not names & (set(lexicon().nouns) | set(lexicon().places)), genre


def test_a_name_that_the_lexicon_lacks_is_refused():
    with pytest.raises(DataError, match="the lexicon has no 'unicorn'"):
        below("man unicorn", {}, lexicon().nouns)
    with pytest.raises(DataError, match="two concepts 'dog'"):
        tree({"animal": {"dog": "dog"}, "food": {"dog": "hot dog"}})


def test_likeness_is_that_of_wu_and_palmer():
    words = lexicon()
    assert words.likeness("nouns", "dog", "dog") == 1
    assert words.likeness("nouns", "man", "woman") == pytest.approx(2 * 2 / 6)
    assert words.likeness("nouns", "potato", "vegetable") == pytest.approx(2 * 2 / 5)
    assert words.likeness("nouns", "dog", "potato") == 0
    assert words.likeness("events", "captions.fry", "captions.cook") == pytest.approx(2 * 2 / 5)


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


def test_details_do_not_change_the_split(scenes):
    dice = Dice(1)
    for scene in scenes:
        for edit in (edits.setting, edits.trait, edits.number, edits.deny, edits.shorten):
            other = edit(dice, scene)
            assert other is None or other.split == scene.split


def test_the_parts_have_their_shares():
    dice = Dice(2)
    counts = Counter(draw(dice, "captions", part).split for part in PARTS for _ in range(50))
    assert counts == {"train": 100, "dev": 50, "test": 50}
    every = [split_of("captions.cut", f"{n}", "apple") for n in range(4000)]
    assert Counter(every)["train"] / len(every) == pytest.approx(1 / 2, abs=0.04)  # five errors


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


def test_a_verb_agrees_with_its_subject(scenes):
    dice, checked = Dice(4), 0
    for scene in scenes:
        sentence = say(dice, scene)
        subject = scene.patient if "{done}" in sentence.template else scene.agent
        found = re.search(r"\b(is|are)\b", sentence.text)
        if scene.genre == "captions" and subject is not None and found:
            words = lexicon().nouns[subject.noun].words
            several = subject.count != "one" or any(map(grammar.is_plural, words))
            assert (found[1] == "are") == several, sentence
            checked += 1
    assert checked > EACH


def test_a_second_sentence_finds_other_words(scenes):
    dice = Dice(5)
    firsts = [say(dice, scene) for scene in scenes]
    pairs = list(zip(firsts, scenes, strict=True))
    shared = [len(first.words & say(dice, scene, first.words).words) for first, scene in pairs]
    again = [len(first.words & say(dice, scene).words) for first, scene in pairs]
    assert np.mean(shared) < 0.7 * np.mean(again)


def test_every_template_is_used():
    dice, used = Dice(0), set()
    for genre in GENRES:
        used |= {say(dice, draw(dice, genre, "train")).template for _ in range(1200)}
    written = {t for forms in read("templates").values() for form in forms.values() for t in form}
    assert used == written


def test_no_template_needs_what_a_scene_lacks():
    for genre, forms in read("templates").items():
        for form in forms:
            assert not [t for t in templates((genre, form), False, False) if "{setting}," in t]
            assert not [t for t in templates((genre, form), True, False) if "{place}" in t]


# --- edits and gold ------------------------------------------------------------------------------


def test_an_edited_scene_can_be_said_and_stays_in_its_genre(changed):
    dice = Dice(6)
    assert {name for *_, name in changed} == set(EDITS)
    for scene, other, _ in changed:
        assert other.genre == scene.genre
        assert say(dice, other).text


@pytest.mark.parametrize("recipes", [STS, SICK], ids=["sts", "sick"])
def test_every_recipe_applies_to_some_scene(recipes, scenes):
    dice = Dice(9)
    fit = [scene for scene in scenes if recipes is STS or scene.genre == "captions"]
    for recipe, _ in recipes:
        assert any(edited(dice, scene, recipe) for scene in fit), recipe


def test_some_edits_undo_themselves(scenes):
    dice = Dice(10)
    for scene in scenes:
        for edit in (edits.deny, edits.swap):
            other = edit(dice, scene)
            back = edit(dice, other) if other else None
            if other:
                assert replace(back, frame=scene.frame) == scene


def test_the_opposite_of_the_opposite_is_the_event(scenes):
    dice = Dice(11)
    for scene in scenes:
        other = edits.oppose(dice, scene)
        if other is not None:
            assert lexicon().events[other.event].opposite == scene.event
            assert (other.agent, other.patient) == (scene.agent, scene.patient)


@SCALES
def test_gold_is_symmetric_and_on_its_scale_and_highest_for_the_same_alone(scale, changed):
    for scene, other, name in changed:
        assert scale.grade(scene, scene) == scale.high
        gold = scale.grade(scene, other)
        assert gold == scale.grade(other, scene)
        assert scale.low <= gold <= scale.high
        assert (gold == scale.high) == (replace(other, frame=scene.frame) == scene), name


@SCALES
def test_one_more_difference_never_raises_gold(scale, changed):
    for scene, other, _ in changed:
        gold = scale.grade(scene, other)
        assert scale.grade(scene, replace(other, setting=scene.setting)) >= gold
        assert scale.grade(scene, replace(other, denied=scene.denied)) >= gold
        assert scale.grade(scene, replace(other, denied=not scene.denied)) <= max(
            gold, scale.grade(scene, replace(other, denied=scene.denied))
        )


MAN, DOG, CAT = Entity("man"), Entity("dog"), Entity("cat")
CHASE = Scene("captions.chase", 0, DOG, CAT, "park")


@pytest.mark.parametrize(
    ("other", "similar", "related"),
    [
        (CHASE, 5.0, 5.0),
        (replace(CHASE, denied=True), 3.0, 4.0),
        (replace(CHASE, setting=""), 4.5, 4.7),
        (replace(CHASE, setting="street"), 4.25, 4.7),
        (replace(CHASE, agent=replace(DOG, trait="black")), 4.7, 4.8),
        (replace(CHASE, agent=replace(DOG, count="two")), 4.4, 4.6),
        (replace(CHASE, agent=CAT, patient=DOG), 4.17, 4.78),
        (replace(CHASE, agent=Entity("animal")), 4.38, 4.7),
        (replace(CHASE, agent=MAN), 3.89, 4.11),
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
