"""The embedded tasks: frozen, kept apart, and measuring what they should."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from english import sets
from english.facts import Answer, answers, kinds

from baselines.minilm import MINILM
from harness.assets.places import EMBEDDED, Places
from harness.core.errors import DataError
from harness.core.files import rows_digest, text_digest
from harness.core.metrics import cosine, edit_distance, roc_auc, spearman
from harness.core.types import Pairs
from harness.registry import load_registry
from harness.tasks import mini as miniature
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import MEAN

# Digests in the records of version 0.1.0: of rows, and of the sentences of a corpus.
ROWS = {
    ("mini-sts", "train"): "c8d484ae11cecc01a2ce6b6b18a6fccb930f9a84744f1195cde05cbf627d57d6",
    ("mini-sts", "dev"): "44355dde870462566e458a2f22225487eff54aa83d512c9cab8dfa544320e34f",
    ("mini-sts", "test"): "6c7186657f40a0e35103a8219b39587702023f9a91c78e537838f15d86738786",
    ("mini-sick", "train"): "d6e8468bb834ee5e5085dd3889f888b7e0f6c176be6f9351b4a02349bbf0fce6",
    ("mini-sick", "dev"): "3e733f5fe4816b387beadfd9143c15121053e61230f02870f0c7533660bb5ed0",
    ("mini-sick", "test"): "943606774eaec541b6b5b1e30670c52c9f1ad7a6709c9cac4142f4556a6ecd5c",
    ("mini-qnli", "dev"): "616ffb93f2a00ea0049b4d0717b36f91e60750147e7a5d8a167094b2820d50c2",
}
SENTENCES = {
    "mini-text": "dbea07d9607058254ad8ace6d69c3728ad698ba182cce62f149e3bf3a9d0cf52",
    "mini-nli": "c14ad3a2e06a65fe535e6765790bcb59c13e5ed698e8601e7411a0f7486eb882",
    "mini-triplets": "85baacacd5bd9aa84d46959ab45649d8580a4d7967ec7573ad773525febdb8ca",
}
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
    return sets.examples(name, split, miniature.SPLITS[name][split])


def words_of(texts: tuple[str, ...]) -> np.ndarray:
    return np.array([len(text.split()) for text in texts], float)


# --- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", miniature.SPLITS)
def test_every_split_holds_at_least_a_thousand_pairs(name):
    for split, count in miniature.SPLITS[name].items():
        pairs = miniature.embedded_pairs(name, split)
        assert (
            count == len(pairs) == len({frozenset(p) for p in zip(pairs.a, pairs.b, strict=True)})
        )
        assert count >= 1000


def test_no_data_folder_is_needed(tmp_path):
    loader = TaskLoader(Places(cache=tmp_path), load_registry().corpora)
    for task in miniature.TASKS:
        pairs = loader.inputs(task).pairs
        assert len(pairs) >= 1000
        assert loader.inputs(task, "target").sentences >= set(pairs.sentences)
        assert loader.inputs(task, "mini-text").sentences == loader.inputs(task).sentences


@pytest.mark.parametrize(("line", "found"), [("a\tb\tc\td\n", "50f9dff0"), ("", "e3b0c442")])
def test_a_changed_file_is_refused(tmp_path, monkeypatch, line, found):
    monkeypatch.setattr(miniature, "EMBEDDED", tmp_path)
    for name in ("qnli-dev.tsv", "text.txt"):
        (tmp_path / name).write_text(line)
    refused = (
        rf"qnli-dev\.tsv: wanted lines with sha256 b9ed786d\w+…, found {found}\w+…: the file was"
    )
    with pytest.raises(DataError, match=refused):
        miniature.embedded_pairs.__wrapped__("mini-qnli", "dev")
    with pytest.raises(DataError, match=r"text\.txt: wanted lines with sha256 dbea"):
        list(miniature.CORPORA[0].sentences(NOWHERE))


def test_another_line_end_is_no_other_content(tmp_path, monkeypatch):
    monkeypatch.setattr(miniature, "EMBEDDED", tmp_path)
    content = (EMBEDDED / "sick-dev.tsv").read_bytes()
    (tmp_path / "sick-dev.tsv").write_bytes(content.replace(b"\n", b"\r\n"))
    found = miniature.embedded_pairs.__wrapped__("mini-sick", "dev")
    assert rows_digest(found) == ROWS["mini-sick", "dev"]


def test_records_hold_the_digests_of_these_rows_and_sentences():
    for (name, split), digest in ROWS.items():
        assert rows_digest(miniature.embedded_pairs(name, split)) == digest
    assert len(ROWS) == sum(map(len, miniature.SPLITS.values()))
    for corpus in miniature.CORPORA:
        assert text_digest(corpus.sentences(NOWHERE)) == SENTENCES[corpus.name]


def test_the_corpora_repeat_hardly_a_sentence():
    distinct = {}
    for corpus in miniature.CORPORA:
        texts = list(corpus.sentences(NOWHERE))
        distinct[corpus.name] = len(set(texts)) / len(texts)
    assert distinct["mini-text"] == 1
    assert min(distinct.values()) > 0.9


def test_the_tasks_say_how_their_gold_is_scaled():
    ends = {name: (graded.scale.low, graded.scale.high) for name, graded in sets.GRADED.items()}
    assert ends == miniature.SCALES


def test_no_sentence_stands_in_two_splits():
    for name in miniature.SCALES:
        splits = [
            set(miniature.embedded_pairs(name, s).sentences) for s in ("train", "dev", "test")
        ]
        assert not splits[0] & splits[1]
        assert not splits[0] & splits[2]
        assert not splits[1] & splits[2]


def test_nothing_to_train_or_fit_on_is_ever_scored():
    scored = {
        text
        for name, split in GRADED
        if split != "train"
        for text in miniature.embedded_pairs(name, split).sentences
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
    pairs, every = miniature.embedded_pairs(name, split), examples(name, split)
    a, b = words_of(pairs.a), words_of(pairs.b)
    first, second = ([getattr(e, side).template for e in every] for side in "ab")
    same = np.array([x == y for x, y in zip(first, second, strict=True)], float)
    lengths = (a, b, a * a, b * b, a * b, np.abs(a - b))
    assert explained(pairs.gold, *lengths) < 0.05
    assert explained(pairs.gold, one_hot(first), one_hot(second), same, *lengths) < 0.1


def test_the_regression_sees_a_template_that_gives_the_gold_away():
    every = examples("mini-sick", "dev")
    gold = miniature.embedded_pairs("mini-sick", "dev").gold
    told = [example.a.template if g < 3 else "?" for example, g in zip(every, gold, strict=True)]
    assert explained(gold, one_hot(told)) > 0.3


@pytest.mark.parametrize(("name", "split"), GRADED)
def test_token_overlap_alone_stays_below(name, split):
    pairs = miniature.embedded_pairs(name, split)
    at_most = 75 - MARGIN if name == "mini-sts" else 65
    assert 30 < spearman(overlap(pairs), pairs.gold) < at_most
    assert 30 < spearman(overlap(pairs, FUNCTION_WORDS), pairs.gold) < at_most


def test_similarity_follows_edit_distance_less_than_meaning():
    pairs = miniature.embedded_pairs("mini-sts", "dev")
    assert -40 < edit_distance(pairs.gold, pairs)["gold_edit_distance"] < -10


# --- questions and answers -----------------------------------------------------------------------


@cache
def many_answers() -> tuple[Answer, ...]:
    return tuple(answers(11, 1500))


def test_half_of_the_questions_are_answered_and_length_does_not_tell_which():
    pairs = miniature.embedded_pairs("mini-qnli", "dev")
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
    pairs = miniature.embedded_pairs("mini-sts", "test")
    found = spearman(similarity(minilm, pairs), pairs.gold)
    assert found >= 75
    for without in (frozenset(), FUNCTION_WORDS):
        assert spearman(overlap(pairs, without), pairs.gold) <= found - MARGIN


@pytest.mark.weights
@pytest.mark.slow
def test_a_real_encoder_tells_answers_better_than_overlap_does(minilm):
    pairs = miniature.embedded_pairs("mini-qnli", "dev")
    found = roc_auc(similarity(minilm, pairs), pairs.gold)
    assert found > roc_auc(overlap(pairs), pairs.gold) + 5
