"""The embedded tasks: made the same everywhere, kept apart, and measuring what they should."""

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from baselines.minilm import MINILM
from harness.assets.places import Places
from harness.core.errors import DataError
from harness.core.metrics import cosine, edit_distance, roc_auc, spearman
from harness.core.types import Pairs
from harness.registry import registry
from harness.tasks import mini as miniature
from harness.tasks.english import sets
from harness.tasks.english.facts import Answer, answers, kinds
from harness.tasks.loader import Library
from harness.transforms.pooling import MEAN

NOWHERE = Path("no-such-folder")
GRADED = [(name, split) for name in miniature.SCALES for split in miniature.SPLITS[name]]
MARGIN = 15  # points that a real encoder must be ahead of token overlap
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the is are isn aren t not no being been by there who that in on at to of for with "
        "and has have was were did my i it do does how what can some any several few number couple",
    )
)


def tokens(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def overlap(pairs: Pairs, without: frozenset[str] = frozenset()) -> np.ndarray:
    """Jaccard index of the two sentences' tokens."""
    sides = zip(map(tokens, pairs.a), map(tokens, pairs.b), strict=True)
    return np.array([len((a & b) - without) / max(1, len((a | b) - without)) for a, b in sides])


def explained(gold: np.ndarray, *features: np.ndarray) -> float:
    """The share of the gold's variance that least squares explains on the pairs it is fitted on."""
    x = np.column_stack([np.ones(len(gold)), *features])
    left = gold - x @ np.linalg.lstsq(x, gold, rcond=None)[0]
    return float(1 - left.var() / gold.var())


def one_hot(values: list[str]) -> np.ndarray:
    return np.array([[value == known for known in sorted(set(values))] for value in values], float)


def examples(name: str, split: str) -> tuple:
    return sets.examples(name, split, miniature.SPLITS[name][split][0])


def words_of(texts: tuple[str, ...]) -> np.ndarray:
    return np.array([len(text.split()) for text in texts], float)


# --- what is made --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", miniature.SPLITS)
def test_every_split_holds_at_least_a_thousand_pairs(name):
    for split, (count, _) in miniature.SPLITS[name].items():
        pairs = miniature.made(name, split)
        assert (
            count == len(pairs) == len({frozenset(p) for p in zip(pairs.a, pairs.b, strict=True)})
        )
        assert count >= 1000


def test_no_data_folder_is_needed(tmp_path):
    library = Library(Places(cache=tmp_path), registry().corpora)
    for task in miniature.TASKS:
        assert len(library.pairs(task)) >= 1000
        assert library.sentences(task, "target") >= set(library.pairs(task).sentences)
        assert library.sentences(task, "mini-text") == set(library.pairs(task).sentences)


def test_other_rows_than_have_always_been_made_are_refused(monkeypatch):
    monkeypatch.setitem(miniature.SPLITS["mini-qnli"], "dev", (1000, "0" * 64))
    with pytest.raises(DataError, match="mini-qnli, dev: wanted sha256 0000000000000000…, made"):
        miniature.made.__wrapped__("mini-qnli", "dev")
    made = miniature.Made("mini-text", "sentences", 3, "0" * 64)
    with pytest.raises(DataError, match="mini-text: wanted sha256"):
        list(made(NOWHERE))


def test_the_corpora_have_their_digests():
    """In a process of its own, where no types are checked: that is ten times faster."""
    code = (
        "from pathlib import Path\n"
        "from harness.tasks.mini import CORPORA\n"
        "for c in CORPORA: print(c.name, len({*c.sentences(Path())}), c.sentences.count)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [line.split() for line in out.stdout.splitlines()]
    found = {name: int(distinct) / int(count) for name, distinct, count in lines}
    assert set(found) == {corpus.name for corpus in miniature.CORPORA}
    assert found["mini-text"] == 1
    assert min(found.values()) > 0.9


def test_the_tasks_say_how_their_gold_is_scaled():
    ends = {name: (graded.scale.low, graded.scale.high) for name, graded in sets.GRADED.items()}
    assert ends == miniature.SCALES


def test_importing_the_generator_loads_neither_torch_nor_scipy():
    code = "import sys, harness.tasks.english.sets\nprint({'torch', 'scipy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_no_sentence_stands_in_two_splits():
    for name in miniature.SCALES:
        splits = [set(miniature.made(name, s).sentences) for s in ("train", "dev", "test")]
        assert not splits[0] & splits[1]
        assert not splits[0] & splits[2]
        assert not splits[1] & splits[2]


def test_nothing_to_train_or_fit_on_is_ever_scored():
    scored = {
        text
        for name, split in GRADED
        if split != "train"
        for text in miniature.made(name, split).sentences
    }
    seen = {text for triplet in sets.triplets(300) for text in triplet}
    seen |= {text for pair in sets.labelled(300) for text in pair[:2]}
    seen |= set(sets.sentences(1000))
    assert not seen & scored


def test_the_graded_tasks_have_their_scales_and_groups():
    tasks = {task.name: task for task in miniature.TASKS}
    for name, scale, groups in (
        ("mini-sts", (0, 5), {"captions", "headlines", "questions"}),
        ("mini-sick", (1, 5), {"captions"}),
    ):
        pairs = tasks[name].pairs(NOWHERE)
        assert tasks[name].graded == scale
        assert (pairs.gold.min() >= scale[0], pairs.gold.max()) == (True, scale[1])
        assert set(pairs.group) == groups
        assert len(set(pairs.gold.tolist())) > 90
        quarters = np.histogram(pairs.gold, bins=4, range=scale)[0] / len(pairs)
        assert quarters.min() > 0.08


# --- what the gold does not depend on ------------------------------------------------------------


@pytest.mark.parametrize(("name", "split"), GRADED)
def test_template_and_length_explain_less_than_a_tenth_of_the_gold(name, split):
    pairs, every = miniature.made(name, split), examples(name, split)
    a, b = words_of(pairs.a), words_of(pairs.b)
    first, second = ([getattr(e, side).template for e in every] for side in "ab")
    same = np.array([x == y for x, y in zip(first, second, strict=True)], float)
    lengths = (a, b, a * a, b * b, a * b, np.abs(a - b))
    assert explained(pairs.gold, *lengths) < 0.05
    assert explained(pairs.gold, one_hot(first), one_hot(second), same, *lengths) < 0.1


def test_the_regression_sees_a_template_that_gives_the_gold_away():
    every = examples("mini-sick", "dev")
    gold = miniature.made("mini-sick", "dev").gold
    told = [example.a.template if g < 3 else "?" for example, g in zip(every, gold, strict=True)]
    assert explained(gold, one_hot(told)) > 0.3


@pytest.mark.parametrize(("name", "split"), GRADED)
def test_token_overlap_alone_stays_below(name, split):
    pairs = miniature.made(name, split)
    at_most = 75 - MARGIN if name == "mini-sts" else 65
    assert 30 < spearman(overlap(pairs), pairs.gold) < at_most
    assert 30 < spearman(overlap(pairs, FUNCTION_WORDS), pairs.gold) < at_most


def test_similarity_follows_edit_distance_less_than_meaning():
    pairs = miniature.made("mini-sts", "dev")
    assert -40 < edit_distance(pairs.gold, pairs)["gold_edit_distance"] < -10


# --- questions and answers -----------------------------------------------------------------------


@cache
def many_answers() -> tuple[Answer, ...]:
    return tuple(answers(11, 1500))


def test_half_of_the_questions_are_answered_and_length_does_not_tell_which():
    pairs = miniature.made("mini-qnli", "dev")
    assert pairs.gold.mean() == 0.5
    for side in (pairs.a, pairs.b):
        assert abs(roc_auc(words_of(side), pairs.gold) - 50) < 3
    assert roc_auc(overlap(pairs), pairs.gold) < 70
    assert roc_auc(overlap(pairs, FUNCTION_WORDS), pairs.gold) < 70


def test_taking_the_thing_up_by_it_does_not_tell_who_answers():
    made = many_answers()
    named = np.array([bool(re.search(r"\b(It|it)\b", answer.sentence)) for answer in made], float)
    told = np.array([answer.answered for answer in made], float)
    assert abs(named[told == 1].mean() - named[told == 0].mean()) < 0.05


def test_every_kind_of_thing_is_asked_about():
    assert {answer.fact.partition(".")[0] for answer in many_answers()} == set(kinds())
    assert not any(set("{}") & set(answer.question + answer.sentence) for answer in many_answers())


# --- what encoders train on ----------------------------------------------------------------------


def test_labelled_pairs_take_turns_and_a_shorter_list_is_the_beginning_of_a_longer():
    pairs = sets.labelled(300)
    assert Counter(label for *_, label in pairs) == {0: 100, 1: 100, 2: 100}
    assert sets.labelled(60) == pairs[:60]
    triplets = sets.triplets(200)
    assert sets.triplets(40) == triplets[:40]
    assert all(len({*triplet}) == 3 for triplet in triplets)


def test_a_label_is_not_told_by_either_sentence_alone():
    """A denial is no sure sign of a contradiction: it stands elsewhere, too."""
    denials = re.compile(r"\b(not|no|isn't|aren't|fails? to)\b", re.IGNORECASE)
    pairs = sets.labelled(900)
    shares = {
        label: np.mean([bool(denials.search(h)) for _, h, found in pairs if found == label])
        for label in (0, 1, 2)
    }
    assert shares[2] < 0.7
    assert min(shares[0], shares[1]) > 0.05


# --- what a real encoder makes of them -----------------------------------------------------------


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    places = Places(cache=tmp_path_factory.mktemp("minilm"))
    if not places.has_encoder(MINILM):
        pytest.skip("the minilm extra is not installed")
    return MINILM.load(places.encoder(MINILM), places.cache)


def similarity(encoder, pairs: Pairs) -> np.ndarray:
    texts = list(dict.fromkeys(pairs.sentences))
    rows = {text: row for row, text in enumerate(texts)}
    vectors = MEAN(encoder.encode(texts))
    a, b = ([rows[text] for text in side] for side in (pairs.a, pairs.b))
    return np.round(cosine(vectors[a], vectors[b])[0], 10)


@pytest.mark.weights
@pytest.mark.slow
def test_a_real_encoder_follows_the_gold_and_token_overlap_does_not(minilm):
    pairs = miniature.made("mini-sts", "test")
    found = spearman(similarity(minilm, pairs), pairs.gold)
    assert found >= 75
    for without in (frozenset(), FUNCTION_WORDS):
        assert spearman(overlap(pairs, without), pairs.gold) <= found - MARGIN


@pytest.mark.weights
@pytest.mark.slow
def test_a_real_encoder_tells_answers_better_than_overlap_does(minilm):
    pairs = miniature.made("mini-qnli", "dev")
    found = roc_auc(similarity(minilm, pairs), pairs.gold)
    assert found > roc_auc(overlap(pairs), pairs.gold) + 5
