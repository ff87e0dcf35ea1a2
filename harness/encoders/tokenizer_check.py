"""One sentence whose token ids guard a tokenizer, and the ids it must give where they are known."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.errors import DataError

# Case, accents, a clitic, digits, currency, a dash, scripts, an emoji, and a rare word that splits.
GOLDEN_SENTENCE = (
    "Zoë's naïve CAFÉ-owner didn't pay $1,234.50 — for 東京 sushi 🙂 "
    "(antidisestablishmentarianism)!"
)

# bert-base-uncased, and every encoder with its vocabulary: SimCSE's and SBERT's of BERT, MiniLM.
BERT_UNCASED_IDS = (
    101, 11199, 1005, 1055, 15743, 7668, 1011, 3954, 2134, 1005, 1056, 3477, 1002, 1015, 1010,
    22018, 1012, 2753, 1517, 2005, 1879, 1755, 10514, 6182, 100, 1006, 3424, 10521, 4355, 7875,
    13602, 3672, 12199, 2964, 1007, 999, 102,
)  # fmt: skip


# Of several scripts, so that every tokenizer knows two of them apart.
WORDS = ("man", "guitar", "the", "Haus", "maison", "человек", "東京", "إنسان", "1", "?")


def require_words(name: str, ids: Sequence[Sequence[int]]) -> None:
    """Refuse a tokenizer that makes each of WORDS of the same few ids: it has no vocabulary."""
    sets = [set(row) for row in ids]
    if set.union(*sets) == set.intersection(*sets):
        raise DataError(
            f"{name}: the tokenizer makes each of {', '.join(WORDS)} of the ids "
            f"{sorted(sets[0])}; it has no vocabulary: fetch the whole checkpoint"
        )


def require_golden_ids(name: str, wanted: Sequence[int], found: Sequence[int]) -> None:
    """Refuse a tokenizer that splits the golden sentence otherwise; nothing wanted, no check."""
    if not wanted or tuple(wanted) == tuple(found):
        return
    pairs = zip(wanted, found, strict=False)
    same = min(len(wanted), len(found))
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), same)
    raise DataError(
        f"{name}: the tokenizer gives other ids for the golden sentence: from token {at} on, "
        f"wanted {list(wanted[at : at + 3])}, found {list(found[at : at + 3])}; "
        "the tokenizer files or the transformers version have changed"
    )


def require_beginning(name: str, cut: Sequence[int], whole: Sequence[int]) -> None:
    """Refuse a tokenizer that does not cut at the end of a text.

    Up to two special tokens stand behind what is kept.
    """
    kept = len(cut) - 2
    if list(cut[:kept]) != list(whole[:kept]):
        raise DataError(
            f"{name}: wanted the beginning of a long text, found that the tokenizer keeps another "
            "part of it; fetch the pinned revision, or give this checkpoint a name of its own"
        )
