"""Digests: records and caches hold them, so every value here is one that a former version gave."""

import hashlib

import numpy as np
import pytest

from harness.core.digests import (
    digest_of,
    digest_of_files,
    digest_of_repr,
    sentence_key,
    sha256_of,
    text_digest,
)
from harness.core.pairs import Pairs, pairs_digest, rows_digest

PAIRS = Pairs(("a b", "é"), ("c", "d"), np.array([0.1, 5.0]), ("x", "y"))


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_sentences_are_digested_as_lines():
    assert text_digest(["a b", "é"]) == sha256("a b\né\n")
    assert text_digest([]) == sha256("")


def test_pairs_are_digested_with_their_gold_and_group_published_rows_without_the_group():
    assert pairs_digest(PAIRS) == sha256("a b\tc\t0.1\tx\né\td\t5.0\ty\n")
    assert rows_digest(PAIRS) == sha256("a b\tc\t0.1\né\td\t5.0\n")


def test_facts_are_digested_whatever_their_order():
    assert digest_of({"b": 1, "a": "x"}) == sha256('{"a": "x", "b": 1}')
    assert digest_of_repr(("a", 1)) == sha256("('a', 1)")


def test_one_file_has_its_own_digest_several_one_over_their_names(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)
    a, b = tmp_path / "a", tmp_path / "b"
    assert digest_of_files((a,)) == sha256_of(a) == sha256("a")
    assert digest_of_files((a, b)) == digest_of({"a": sha256("a"), "b": sha256("b")})


@pytest.mark.parametrize("text", ["é", " é ", "É", "e\u0301", ""])
def test_a_sentence_is_keyed_by_sixteen_bytes_of_all_its_text(text):
    assert sentence_key(text).hex() == sha256(text)[:32]
