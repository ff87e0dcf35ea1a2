"""Tasks that pictures need: their words in order, and no run that nobody asked for."""

import pytest

from harness.core.errors import DataError
from harness.evaluation.select import default_tasks
from harness.registry import load_registry
from harness.tasks.geometry import TASKS, parse_words


def test_the_gold_of_a_word_is_its_rank(tmp_path):
    path = tmp_path / "counts.txt"
    path.write_text("the 9\nof 7\nin 7\na 1\n")
    words = parse_words(path, 3)
    assert (words.a, words.b, words.gold.tolist()) == (("the", "of", "in"), (), [1, 2, 3])


@pytest.mark.parametrize("line", ["a 10", "a", "a x", ""])
def test_a_line_without_a_count_or_out_of_order_is_refused(tmp_path, line):
    path = tmp_path / "counts.txt"
    path.write_text(f"the 9\n{line}\n")
    with pytest.raises(DataError, match=r"counts\.txt:2: wanted a word and a count"):
        parse_words(path, 5)


def test_they_run_where_they_are_named_alone():
    registry = load_registry()
    pictured = {task for task in TASKS if not task.name.startswith("lexical")}
    assert not pictured & set(default_tasks(registry))
    assert set(registry.select_tasks(["spectrum", "word-frequency"])) <= set(TASKS)


@pytest.mark.data
def test_the_words_are_the_published_ones(data_dir):
    words = next(task for task in TASKS if task.name == "word-frequency").pairs(data_dir)
    assert (len(words), words.a[0], words.gold[-1]) == (10_000, "the", 10_000)
