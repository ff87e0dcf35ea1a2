"""Word vectors from scratch: the counts, the published update, and a file that is an encoder."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import log

import cooccurrences
import glove_mini
import numpy as np
import pytest
from cooccurrences import Cooccurrences, Counting, count
from fakes import Told
from glove_mini import Model, Side, WordVectorSettings, stratify
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import DataError, ScoreError
from harness.encoders.word_tokenizer import Tokeniser
from harness.training.datasets import Text

SPACED = Tokeniser("whitespace", "keep")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def met(sentences: list[str], known: set[str], window: int) -> dict[tuple[str, str], float]:
    """Word by word, as the released code counts."""
    counts = defaultdict(float)
    for sentence in sentences:
        words = [word for word in sentence.split() if word in known]
        for (i, one), (j, other) in combinations(enumerate(words), 2):
            if j - i <= window:
                counts[one, other] += 1 / (j - i)
                counts[other, one] += 1 / (j - i)
    return dict(counts)


def table(found: Cooccurrences) -> dict[tuple[str, str], float]:
    """Both directions, by the words."""
    triples = list(zip(found.rows, found.columns, found.counts, strict=True))
    assert all(row <= column for row, column, _ in triples)
    one = {(found.words[i], found.words[j]): x for i, j, x in triples}
    assert len(one) == len(triples)
    return one | {(other, word): x for (word, other), x in one.items()}


SENTENCES = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=9).map(" ".join), max_size=9)


@given(SENTENCES, st.integers(1, 4), st.integers(1, 8), st.integers(1, 5))
def test_counts_are_those_of_counting_word_by_word(sentences, least, words, window):
    text = " ".join(sentences).split()
    enough = sorted((-text.count(w), w) for w in set(text) if text.count(w) >= least)[:words]
    wanted = met(sentences, {word for _, word in enough}, window)
    counting = Counting(SPACED, words, least, window)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cooccurrences, "PIECE", 5)  # words: pairs reach over the end of a piece
        if not wanted:
            with pytest.raises(DataError, match="wanted words that stand together"):
                count(sentences, counting, Told())
            return
        found = count(sentences, counting, Told())
    assert found.words == tuple(word for _, word in enough)
    assert found.occurrences.tolist() == [-number for number, _ in enough]
    assert (found.sentences, found.tokens) == (len(sentences), len(text))
    assert found.facts()["entries"] == len(wanted)
    assert table(found) == pytest.approx(wanted, rel=1e-12)  # sums of a few fractions


def matrix(size: int, seed: int = 0, share: float = 0.6) -> Cooccurrences:
    """Symmetric counts between a tenth and a few hundred; where there is none, none."""
    draw = rng(seed)
    rows, columns = np.triu_indices(size)
    kept = draw.random(len(rows)) < share
    kept[0] = True
    rows, columns = rows[kept].astype(np.int32), columns[kept].astype(np.int32)
    counts = np.exp(draw.uniform(-2, 6, len(rows)))
    words = tuple(f"w{n}" for n in range(size))
    return Cooccurrences(words, np.ones(size, int), rows, columns, counts, 1, 1)


class Port:
    """The released code's update, entry by entry; l1 is a word, l2 a context."""

    def __init__(self, model: Model, settings: WordVectorSettings) -> None:
        sides = (model.words, model.contexts)
        words, contexts = (side.values.flatten(0, 1).numpy().copy() for side in sides)
        # There the bias is the last number of both.
        self.w, self.c = words[:, :-1], np.delete(contexts, -2, axis=1)
        self.gradsq_w, self.gradsq_c = np.ones_like(self.w), np.ones_like(self.c)
        self.settings = settings

    def entry(self, l1: int, l2: int, value: float) -> float:
        w, c = self.w[l1], self.c[l2]
        # As a float32, since that is what is stored.
        diff = w[:-1] @ c[:-1] + w[-1] + c[-1] - np.float32(log(value))
        over = value > self.settings.x_max
        fdiff = diff if over else np.float32((value / self.settings.x_max) ** 0.75) * diff
        cost = 0.5 * fdiff * diff
        fdiff *= self.settings.learning_rate
        of_w, of_c = fdiff * np.append(c[:-1], 1), fdiff * np.append(w[:-1], 1)
        w -= of_w / np.sqrt(self.gradsq_w[l1])
        c -= of_c / np.sqrt(self.gradsq_c[l2])
        self.gradsq_w[l1] += of_w**2
        self.gradsq_c[l2] += of_c**2
        return cost


def test_with_blocks_of_one_word_it_is_the_released_code():
    """Three epochs, entry after entry in the order of the strata; the rate is a large one."""
    found, settings = matrix(7), WordVectorSettings(dimensions=5, block=1, learning_rate=0.4)
    places, strata = stratify(found, settings, rng())
    model = Model.start(7, settings, rng(1))
    sides = (Side(s.values.double(), s.squares.double()) for s in (model.words, model.contexts))
    model = Model(*sides)
    port = Port(model, settings)
    dense = np.zeros((7, 7))
    dense[found.rows, found.columns] = dense[found.columns, found.rows] = found.counts
    value = dense[np.ix_(np.argsort(places), np.argsort(places))]
    for _ in range(3):
        for stratum in strata:
            logs, weights = stratum.logs.double(), stratum.weights.double()
            in_float64 = replace(stratum, logs=logs, weights=weights)
            cost = model.step(in_float64, settings.learning_rate)
            pairs = [(a, (a + stratum.shift) % 7) for a in range(7)]
            pairs += [(b, a) for a, b in pairs] if stratum.mirrored else []
            wanted = sum(port.entry(a, b, value[a, b]) for a, b in pairs if value[a, b])
            assert cost == pytest.approx(wanted, rel=1e-12)  # float64 rounding, here and below
    words, contexts = (s.values[:, 0].numpy() for s in (model.words, model.contexts))
    np.testing.assert_allclose(words[:, :-1], port.w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.delete(contexts, -2, 1), port.c, rtol=0, atol=1e-12)
    squares = model.words.squares[:, 0, :-1].numpy()
    np.testing.assert_allclose(squares, port.gradsq_w, rtol=1e-12)
    assert squares.max() > 1.5  # they have come to matter
    assert (words[:, -1] == 1).all()
    assert (contexts[:, -2] == 1).all()
    np.testing.assert_array_equal(model.vectors(), words[:, :-2] + contexts[:, :-2])


THEMES = ("cat dog fur paw tail", "oil gas fuel pump tank", "bread salt oven cake flour")


def sentences(number: int = 400) -> Iterator[str]:
    """Each speaks of one theme, in common words and its own."""
    draw = rng()
    for _ in range(number):
        theme = THEMES[draw.integers(3)].split()
        yield " ".join(draw.choice([*theme, "The", "a", "of", "."], 12)) + " ."


SMALL = WordVectorSettings(Counting(window=5), dimensions=12, epochs=15, learning_rate=0.1, block=8)


@pytest.mark.parametrize(
    ("settings", "first", "kind", "message"),
    [
        (replace(SMALL, learning_rate=1e4), None, ScoreError, r"diverged: its cost is .* in epoch"),
        (SMALL, 401, DataError, "wanted 401 sentences, found 400"),
        (replace(SMALL, counting=Counting(least=9999)), None, DataError, "stand together"),
    ],
)
def test_what_fails_leaves_nothing(settings, first, kind, message, tmp_path):
    corpus = Text("themes", list(sentences()), first=first)
    with pytest.raises(kind, match=message):
        glove_mini.train_vectors(corpus, settings, 0, tmp_path / "v", Told(), "harness train")
    assert not (tmp_path / "v").exists()


def test_the_command_line_trains_vectors(tmp_path, capfd):
    file = tmp_path / "themes.txt"
    file.write_text("".join(f"{line}\n" for line in sentences()))
    line = ["--out", str(tmp_path / "v"), "--corpus", str(file)]
    glove_mini.main([*line, "--dimensions", "8", "--epochs", "2"])
    assert "2 epochs, loss " in capfd.readouterr().out
    about = json.loads((tmp_path / "v" / "training.json").read_text())
    command = "python tools/embedded/glove_mini.py --corpus themes.txt --dimensions 8 --epochs 2"
    assert about["command"] == command
