"""The page of moved pairs: what is committed, and some of it measured anew."""

import pytest
from moved_pairs import CHOICES, COUNT, measure

from harness import Places, load_registry
from harness.core.toml import read_rows
from harness.evaluation.run import RunContext
from harness.report.moved_pairs import MethodChoice, move_key, read_moves
from harness.results.store import Store
from harness.tasks.loader import TaskLoader

STORED = read_moves(CHOICES).moved
ROWS = read_rows(MethodChoice, CHOICES)


def test_every_choice_is_measured_and_no_sentence_of_another_licence_is_printed():
    assert sorted(STORED) == sorted(
        move_key(choice, task) for choice in ROWS for task in choice.tasks
    )
    for choice in ROWS:
        assert choice.sentences == all(
            task.startswith("mini-") for task in choice.tasks
        )
        for task in choice.tasks:
            found = STORED[move_key(choice, task)]
            assert [bool(pair.sentences) for pair in found.moved] == [
                choice.sentences
            ] * COUNT
            moves = [abs(pair.after - pair.before) for pair in found.moved]
            assert moves == sorted(moves, reverse=True)
            assert all(
                1 <= r <= found.pairs for p in found.moved for r in (p.before, p.after)
            )


@pytest.mark.slow
def test_pairs_measured_anew_have_the_committed_ranks(tmp_path):
    choice, registry = ROWS[0], load_registry()
    loader = TaskLoader(Places(tmp_path / "cache"), registry.corpora)
    found = measure(choice, "mini-sick", registry, RunContext(loader, Store(tmp_path)))
    stored = STORED[move_key(choice, "mini-sick")]
    assert found.pairs == stored.pairs
    # Cosines of the last bits trade places with their neighbours: a few of a thousand
    # ranks.
    wanted = {
        pair.pair: pytest.approx((pair.before, pair.after), abs=5)
        for pair in stored.moved
    }
    ranks = {pair.pair: (pair.before, pair.after) for pair in found.moved}
    assert len(wanted.keys() & ranks.keys()) >= COUNT - 1
    assert all(ranks[pair] == wanted[pair] for pair in wanted.keys() & ranks.keys())
