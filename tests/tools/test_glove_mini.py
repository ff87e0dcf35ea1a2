"""Word vectors from scratch: the counts, the published update, and a file that is an encoder."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import log, sqrt
from pathlib import Path

import cooccurrences
import glove_mini
import numpy as np
import pytest
import torch
from cooccurrences import Cooccurrences, Counting, count
from fakes import Told
from glove_mini import Model, Side, WordVectorSettings, descend, fit_vectors, stratify
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from harness.core.errors import DataError, ScoreError, UsageError
from harness.encoders.word_tokenizer import Tokeniser
from harness.encoders.word_vectors import StaticConfig
from harness.training.datasets import Text

SPACED = Tokeniser("whitespace", "keep")
EVERY = Counting(SPACED, least=1, window=3)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Counts


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


@pytest.mark.parametrize(
    ("tokeniser", "words"),
    [
        (Tokeniser("words", "lower"), "don ' t stop ( now ) ."),
        (Tokeniser("treebank", "lower"), "do n't stop ( now ) ."),
        (Tokeniser("whitespace", "keep"), "Don't don't STOP stop. (now)"),
        (Tokeniser("words", "fallback", stop_words="english"), "Don STOP stop"),
    ],
)
def test_a_word_is_what_it_is_when_it_is_encoded(tokeniser, words):
    text = ["Don't STOP (now)", "don't stop."]
    found = count(text, replace(EVERY, tokeniser=tokeniser), Told())
    assert set(found.words) == set(words.split())
    vocabulary = {word: row for row, word in enumerate(found.words)}
    rows = [row for sentence in text for row in tokeniser.rows(sentence, vocabulary)]
    assert np.bincount(rows).tolist() == found.occurrences.tolist()


def test_unknown_words_do_not_stand_between_known_ones():
    counting = Counting(SPACED, words=2, least=2, window=1)
    assert table(count(["a x b", "b a"], counting, Told())) == {("a", "b"): 2, ("b", "a"): 2}


@pytest.mark.parametrize("wrong", ["words", "least", "window"])
def test_an_impossible_counting_is_refused(wrong):
    with pytest.raises(UsageError, match="wanted a word, an occurrence"):
        Counting(SPACED, **{wrong: 0})


# Strata


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


def dense(found: Cooccurrences) -> np.ndarray:
    whole = np.zeros((len(found.words),) * 2)
    whole[found.rows, found.columns] = whole[found.columns, found.rows] = found.counts
    return whole


@given(st.integers(1, 23), st.integers(1, 6), st.integers(0, 9))
def test_strata_hold_every_entry_once_and_share_no_row_and_no_column(size, block, seed):
    found, settings = matrix(size, seed), WordVectorSettings(block=block)
    places, strata = stratify(found, settings, rng(seed))
    blocks = strata[0].blocks
    logs, weights = np.zeros((2, blocks * block, blocks * block))
    for stratum in strata:
        pairs = [
            (row, column)
            for rows, columns in stratum.groups()
            for row, column in zip(
                range(*rows.indices(99)), range(*columns.indices(99)), strict=True
            )
        ]
        assert [row for row, _ in pairs] == list(range(blocks))
        assert sorted(column for _, column in pairs) == list(range(blocks))
        for whole, cells in (
            (logs, stratum.dense(stratum.logs)),
            (weights, stratum.dense(stratum.weights)),
        ):
            for (row, column), cell in zip(pairs, cells.numpy(), strict=True):
                at = np.ix_(*(n * block + np.arange(block) for n in (row, column)))
                whole[at] += cell
                if stratum.mirrored:
                    whole.T[at] += cell
    counts = dense(found)
    there = counts > 0
    assert sum(stratum.entries for stratum in strata) == there.sum()
    wanted = np.log(counts, where=there, out=np.zeros_like(counts))
    at = np.ix_(places, places)
    np.testing.assert_allclose(logs[at], wanted, rtol=1e-6)  # float32
    np.testing.assert_allclose(weights[at], np.minimum(1, (counts / 10) ** 0.75), rtol=1e-6)
    assert np.count_nonzero(logs) <= there.sum()


# The update


def in_double(model: Model) -> Model:
    sides = (Side(s.values.double(), s.squares.double()) for s in (model.words, model.contexts))
    return Model(*sides)


class Port:
    """The released code's loop over entries, line by line; l1 is a word, l2 a context."""

    def __init__(self, model: Model, settings: WordVectorSettings) -> None:
        words, contexts = (
            side.values.flatten(0, 1).numpy().copy() for side in (model.words, model.contexts)
        )
        # There the bias is the last number of both.
        self.w, self.c = words[:, :-1], np.delete(contexts, -2, axis=1)
        self.gradsq_w, self.gradsq_c = np.ones_like(self.w), np.ones_like(self.c)
        self.settings = settings

    def entry(self, l1: int, l2: int, value: float) -> float:
        w, c, eta = self.w, self.c, self.settings.learning_rate
        diff = 0.0
        for b in range(self.settings.dimensions):
            diff += w[l1, b] * c[l2, b]
        # As a float32, since that is what is stored.
        diff += w[l1, -1] + c[l2, -1] - np.float32(log(value))
        over = value > self.settings.x_max
        fdiff = diff if over else np.float32((value / self.settings.x_max) ** 0.75) * diff
        cost = 0.5 * fdiff * diff
        fdiff *= eta
        for b in range(self.settings.dimensions):
            temp1, temp2 = fdiff * c[l2, b], fdiff * w[l1, b]
            w[l1, b] -= temp1 / sqrt(self.gradsq_w[l1, b])
            c[l2, b] -= temp2 / sqrt(self.gradsq_c[l2, b])
            self.gradsq_w[l1, b] += temp1 * temp1
            self.gradsq_c[l2, b] += temp2 * temp2
        w[l1, -1] -= fdiff / sqrt(self.gradsq_w[l1, -1])
        c[l2, -1] -= fdiff / sqrt(self.gradsq_c[l2, -1])
        self.gradsq_w[l1, -1] += fdiff * fdiff
        self.gradsq_c[l2, -1] += fdiff * fdiff
        return cost


def test_with_blocks_of_one_word_it_is_the_released_code():
    """Three epochs, entry after entry in the order of the strata; the rate is a large one."""
    found, settings = matrix(7), WordVectorSettings(dimensions=5, block=1, learning_rate=0.4)
    places, strata = stratify(found, settings, rng())
    model = in_double(Model.start(7, settings, rng(1)))
    port = Port(model, settings)
    value = dense(found)[np.ix_(np.argsort(places), np.argsort(places))]
    for _ in range(3):
        for stratum in strata:
            in_float64 = replace(
                stratum, logs=stratum.logs.double(), weights=stratum.weights.double()
            )
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


def blocks(seed: int = 0) -> tuple[Side, Side, torch.Tensor, torch.Tensor]:
    """Two pairs of blocks of three words, four dimensions, a bias and a one; cells; weights."""
    draw = rng(seed)
    one, other = (torch.from_numpy(draw.normal(size=(2, 3, 6))) for _ in range(2))
    one[..., -1], other[..., -2] = 1, 1
    squares = [torch.from_numpy(draw.uniform(1, 3, size=(2, 3, 6))) for _ in range(2)]
    logs, weights = (torch.from_numpy(draw.random((2, 3, 3))) for _ in range(2))
    weights[0, 1, 2] = logs[0, 1, 2] = 0  # no entry
    return Side(one, squares[0]), Side(other, squares[1]), logs, weights


def test_the_step_of_a_block_is_against_the_gradient():
    one, other, logs, weights = blocks()
    before = [side.values.clone().requires_grad_() for side in (one, other)]
    divisors = [side.squares.sqrt() for side in (one, other)]
    cost = 0.5 * (weights * (before[0] @ before[1].mT - logs) ** 2).sum()
    assert descend(one, other, logs, weights, 0.1) == pytest.approx(cost.item(), rel=1e-12)
    cost.backward()
    for side, start, divisor in zip((one, other), before, divisors, strict=True):
        wanted = (start - 0.1 * start.grad / divisor).detach()
        torch.testing.assert_close(side.values, wanted, rtol=0, atol=1e-12)


def test_the_squares_of_a_block_are_those_of_its_entries_one_by_one():
    one, other, logs, weights = blocks()
    w, c, before = one.values.clone(), other.values.clone(), one.squares.clone()
    descend(one, other, logs, weights, 0.1)
    for b, i, e in np.ndindex(2, 3, 6):
        steps = [0.1 * weights[b, i, j] * (w[b, i] @ c[b, j] - logs[b, i, j]) * c[b, j, e]
                 for j in range(3)]  # fmt: skip
        assert one.squares[b, i, e] - before[b, i, e] == pytest.approx(sum(s**2 for s in steps))


def test_how_many_blocks_are_taken_at_once_moves_nothing(monkeypatch):
    found, settings = matrix(30), WordVectorSettings(dimensions=8, epochs=2, block=4)
    first = fit_vectors(found, settings, rng(), Told())
    monkeypatch.setattr(glove_mini, "GROUP", 3)
    again = fit_vectors(found, settings, rng(), Told())
    np.testing.assert_allclose(first[0], again[0], atol=1e-6)  # float32, in another order
    assert first[1] == pytest.approx(again[1], rel=1e-6)


def test_counts_that_have_vectors_are_fitted():
    """Their logarithms are products of eight numbers and two biases."""
    draw, size = rng(), 24
    w, c = draw.normal(size=(2, size, 4)) / 2
    one = w @ c.T + draw.normal(size=size)
    found = matrix(size, share=1.0)
    counts = np.exp((one + one.T)[found.rows, found.columns])
    settings = WordVectorSettings(dimensions=8, epochs=200, learning_rate=0.1, x_max=1.0, block=6)
    _, losses = fit_vectors(replace(found, counts=counts), settings, rng(), Told())
    assert losses[-1] < losses[0] / 100


def test_a_loss_is_the_mean_over_all_entries_of_half_the_weighted_squared_error():
    found = matrix(20)
    settings = WordVectorSettings(dimensions=200, epochs=2, learning_rate=0.0, block=4)
    _, losses = fit_vectors(found, settings, rng(), Told())
    counts = dense(found)[dense(found) > 0]
    wanted = np.mean(0.5 * np.minimum(1, (counts / 10) ** 0.75) * np.log(counts) ** 2)
    # Whatever a start of 0.0025 at most moves: two biases beside logarithms of up to 6.
    assert losses == pytest.approx((wanted, wanted), rel=0.005)


@pytest.mark.parametrize(
    "wrong", [{"dimensions": 0}, {"epochs": 0}, {"block": 0}, {"x_max": 0.0}], ids=str
)
def test_an_impossible_recipe_is_refused(wrong):
    with pytest.raises(UsageError, match="wanted a dimension, an epoch"):
        WordVectorSettings(**wrong)


# From sentences to an encoder

THEMES = ("cat dog fur paw tail", "oil gas fuel pump tank", "bread salt oven cake flour")


def sentences(number: int = 400) -> Iterator[str]:
    """Each speaks of one theme, in common words and its own."""
    draw = rng()
    for _ in range(number):
        theme = THEMES[draw.integers(3)].split()
        yield " ".join(draw.choice([*theme, "The", "a", "of", "."], 12)) + " ."


SMALL = WordVectorSettings(Counting(window=5), dimensions=12, epochs=15, learning_rate=0.1, block=8)


def trained(
    folder: Path, seed: int = 0, settings: WordVectorSettings = SMALL, **text
) -> tuple[Path, dict]:
    corpus = Text("themes", list(sentences()), **text)
    curve = glove_mini.train_vectors(corpus, settings, seed, folder, Told(), "harness train")
    assert len(curve.losses) == settings.epochs
    return folder / "vectors.safetensors", json.loads((folder / "training.json").read_text())


def test_a_tiny_training_gives_an_encoder_that_knows_the_themes(tmp_path):
    file, told = trained(tmp_path / "v")
    losses = [loss for _, loss in told["curve"]]
    assert losses[-1] < losses[0] / 2
    config = StaticConfig("tiny", SMALL.counting.tokeniser, file=file.name)
    encoder = config.load(file.parent, tmp_path)
    assert encoder.vectors.dtype == np.float32
    assert load_file(file)["vectors"].dtype == np.float16
    assert set(encoder.vocabulary) == {*" ".join(THEMES).split(), "the", "a", "of", "."}
    x = np.array([encoder.encode([half]).mean[0, 0] for theme in THEMES for half in halves(theme)])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    near = (unit @ unit.T).reshape(3, 2, 3, 2)[:, 0, :, 1]
    assert near.argmax(axis=1).tolist() == [0, 1, 2]


def halves(theme: str) -> tuple[str, str]:
    words = theme.split()
    return " ".join(words[:2]), " ".join(words[2:])


def test_a_training_says_how_it_was_made(tmp_path):
    _, told = trained(tmp_path / "v", seed=3)
    assert told["command"] == "harness train"
    assert told["seed"] == 3
    assert told["settings"]["counting"]["tokeniser"] == {
        "split": "words", "case": "lower", "strip": False, "stop_words": "none"
    }  # fmt: skip
    assert told["settings"]["dimensions"] == 12
    assert told["data"] == {"themes": Text("", list(sentences())).digest()}
    assert told["environment"]["threads"] == 1
    assert told["environment"]["packages"]["torch"] == torch.__version__
    assert told["seconds"] >= 0
    counted = told["counted"]
    assert (counted["sentences"], counted["tokens"], counted["words"]) == (400, 400 * 13, 19)
    assert counted["known_tokens"] == counted["tokens"]
    assert counted["entries"] <= 19**2


def test_a_seed_gives_the_same_bytes_on_any_number_of_threads(tmp_path):
    before = torch.get_num_threads()
    first, _ = trained(tmp_path / "1")
    torch.set_num_threads(3)
    try:
        again, told = trained(tmp_path / "2")
        assert told["environment"]["threads"] == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    other, _ = trained(tmp_path / "3", seed=1)
    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes() != other.read_bytes()


def test_what_is_there_is_not_written_over(tmp_path):
    file, _ = trained(tmp_path / "v")
    before = file.read_bytes()
    with pytest.raises(UsageError, match="a checkpoint stands there"):
        trained(tmp_path / "v", seed=1)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "first", "kind", "message"),
    [
        (replace(SMALL, learning_rate=1e4), None, ScoreError, r"diverged: its cost is .* in epoch"),
        (SMALL, 401, DataError, "wanted 401 sentences, found 400"),
        (replace(SMALL, counting=Counting(least=9999)), None, DataError, "stand together"),
    ],
)
def test_what_fails_leaves_nothing(settings, first, kind, message, tmp_path):
    with pytest.raises(kind, match=message):
        trained(tmp_path / "v", settings=settings, first=first)
    assert not (tmp_path / "v").exists()


def test_a_training_tells_how_far_it_is(tmp_path):
    told, text = Told(), list(sentences())
    glove_mini.train_vectors(Text("", text), SMALL, 0, tmp_path / "v", told, "")
    names = [name for name, _ in told.phases]
    assert names == ["reading", "counting", "training"]
    _, (_, tokens), (_, strata) = told.phases
    assert strata == SMALL.epochs * 2  # of three blocks: the diagonal, and both others as one
    assert told.steps == len(text) + tokens + strata
    assert told.noted.startswith("loss 0.")


def test_the_command_line_trains_vectors(tmp_path, capfd):
    file = tmp_path / "themes.txt"
    file.write_text("".join(f"{line}\n" for line in sentences()))
    line = ["--out", str(tmp_path / "v"), "--corpus", str(file)]
    glove_mini.main([*line, "--dimensions", "8", "--epochs", "2"])
    assert "2 epochs, loss " in capfd.readouterr().out
    about = json.loads((tmp_path / "v" / "training.json").read_text())
    command = "python tools/embedded/glove_mini.py --corpus themes.txt --dimensions 8 --epochs 2"
    assert about["command"] == command
