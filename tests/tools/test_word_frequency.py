"""BERT-flow's Table 1: statistics of ranges of ranks against a plain search for neighbours."""

import numpy as np
import word_frequency
from committed import FOLDER
from word_frequency import readings, statistics

from harness.report.word_frequency import SQUARED, word_frequency_page


def test_the_statistics_are_those_of_a_plain_search(monkeypatch):
    monkeypatch.setattr(word_frequency, "RANGES", ((0, 3), (3, 20)))
    monkeypatch.setattr(word_frequency, "CHUNK", 4)
    matrix = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    matrix[7] = matrix[9]  # twins are neighbours of each other at distance 0
    ranks, rows = np.array([0, 2, 3, 8, 19]), np.array([7, 1, 4, 9, 12])
    candidates = np.arange(2, 30)
    found = statistics(matrix, ranks, rows, candidates)
    for place, words in enumerate(([7, 1], [4, 9, 12])):
        x = matrix.astype(float)
        norms = [np.linalg.norm(x[word]) for word in words]
        assert np.isclose(found["mean-l2-norm"][place], np.mean(norms), atol=1e-6)
        for k in (3, 5, 7):
            distances, squares, dots = [], [], []
            for word in words:
                others = [other for other in candidates if other != word]
                gaps = sorted(np.linalg.norm(x[word] - x[other]) for other in others)
                distances.append(np.mean(gaps[:k]))
                squares.append(np.mean(np.square(gaps[:k])))
                products = sorted(x[word] @ x[other] for other in others)
                dots.append(np.mean(products[-k:]))
            for name, expected in (
                (f"mean-k-nn-l2-dist-k-{k}", distances),
                (f"mean-k-nn-l2-dist-k-{k}{SQUARED}", squares),
                (f"mean-k-nn-dot-product-k-{k}", dots),
            ):
                assert np.isclose(found[name][place], np.mean(expected), atol=1e-6)


def test_a_word_that_is_not_one_piece_leaves_its_rank_empty(monkeypatch):
    monkeypatch.setattr(word_frequency, "RANGES", ((0, 2), (2, 40)))
    pieces = ["[PAD]", "the", *(f"w{number}" for number in range(20)), "##s"]
    counted = ["w3", "not-one-piece", "the", *(f"w{number}" for number in range(4, 20))]
    matrix = np.random.default_rng(0).normal(size=(len(pieces), 4)).astype(np.float32)
    by_count, _, by_order, _ = readings(matrix, pieces, counted)
    assert (by_count.words, by_order.words) == (18, 21)
    (first, _) = by_count.values["mean-l2-norm"]
    assert np.isclose(first, np.linalg.norm(matrix[5].astype(float)), atol=1e-6)


def test_the_page_has_every_printed_number_and_every_reading():
    table = FOLDER.table("bert-flow.t1")
    page = word_frequency_page(FOLDER)
    for row in table.rows:
        printed = [number.value for number in table.numbers if number.row.id == row.id]
        lines = [line for line in page.splitlines() if line.startswith("| printed")]
        assert any(
            [cell.strip() for cell in line.split("|")[2:-1]] == printed
            for line in lines
        )
