"""Augmentations take away the share of words that their name says, and nothing else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.training.contrastive import Augmentation

WORDS = st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=30)


def is_subsequence(part, whole):
    rest = iter(whole)
    return all(word in rest for word in part)


@given(words=WORDS, percent=st.integers(0, 99), seed=st.integers(0, 99))
def test_a_crop_is_a_run_of_neighbouring_words(words, percent, seed):
    left = Augmentation(f"crop:{percent}")(" ".join(words), np.random.default_rng(seed)).split()
    assert len(left) == max(1, len(words) - round(len(words) * percent / 100))
    assert any(words[n : n + len(left)] == left for n in range(len(words)))


@given(words=WORDS, percent=st.integers(0, 99), seed=st.integers(0, 99))
def test_a_deletion_keeps_the_order_of_the_others(words, percent, seed):
    rng = np.random.default_rng(seed)
    left = Augmentation(f"deletion:{percent}")(" ".join(words), rng).split()
    assert len(left) == max(1, len(words) - round(len(words) * percent / 100))
    assert is_subsequence(left, words)


def test_one_word_is_taken_at_random_and_a_single_word_is_left():
    one = Augmentation("deletion:one")
    rng = np.random.default_rng(0)
    found = {one("a b c", rng) for _ in range(200)}
    assert found == {"a b", "a c", "b c"}
    assert one("a", rng) == "a"
    found = {Augmentation("crop:50")("a b c d", rng) for _ in range(200)}
    assert found == {"a b", "b c", "c d"}
