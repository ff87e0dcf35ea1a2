"""The training loop and what it saves."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import Told
from refusals import refused
from torch import nn

from harness.core.errors import DataError, ScoreError
from harness.training.loop import train
from harness.training.objectives import Schedule


class Line:
    """Fits y = 3x with a dropped-out input: its steps depend on torch's generator."""

    def __init__(self, seed=0, stop_at=None):
        self.model = nn.Sequential(nn.Dropout(0.3), nn.Linear(4, 4), nn.Linear(4, 1))
        rng = np.random.default_rng(seed)
        for parameter in self.model.parameters():
            numbers = rng.normal(size=tuple(parameter.shape))
            parameter.data = torch.from_numpy(numbers).float()
        self.stop_at, self.trained = stop_at, []

    def loss(self, step):
        if step == self.stop_at:
            raise KeyboardInterrupt
        self.trained.append(self.model.training)
        numbers = np.random.default_rng((7, step)).normal(size=(16, 4))
        x = torch.from_numpy(numbers).float()
        return ((self.model(x) - 3 * x.sum(1, keepdim=True)) ** 2).mean()


SCHEDULE = Schedule(steps=20, learning_rate=0.05, warmup=4, weight_decay=0.1)


def weights(line):
    return torch.cat([p.detach().reshape(-1) for p in line.model.parameters()])


# The loop


def test_a_seed_gives_the_same_bits_and_another_seed_others():
    first, again, other = Line(), Line(), Line()
    torch.manual_seed(99)  # what stands outside makes no difference
    train(first, SCHEDULE, 1, Told())
    torch.manual_seed(7)
    train(again, SCHEDULE, 1, Told())
    train(other, SCHEDULE, 2, Told())
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))


@pytest.fixture
def saved_each_step(monkeypatch):
    monkeypatch.setattr("harness.training.loop.SAVE_SECONDS", 0.0)


@pytest.mark.usefixtures("saved_each_step")
@pytest.mark.parametrize("stop_at", [5, 19])
def test_an_interrupted_training_ends_with_the_same_bits(tmp_path, stop_at):
    def run(line, **more):
        def score():
            return -float(weights(line).norm())

        return train(line, SCHEDULE, 3, Told(), score=score, score_every=3, **more)

    whole = Line()
    wanted = run(whole)
    with pytest.raises(KeyboardInterrupt):
        run(Line(stop_at=stop_at), state_file=tmp_path / "state.pt")
    with refused(DataError, "corpus"):
        run(Line(), state_file=tmp_path / "state.pt", settings={"corpus": "b"})
    resumed = Line(seed=8)  # its weights come from the state
    found = run(resumed, state_file=tmp_path / "state.pt")
    assert len(resumed.trained) == 20 - stop_at
    assert torch.equal(weights(whole), weights(resumed))
    assert replace(found, seconds=0.0) == replace(wanted, seconds=0.0)


def test_the_weights_that_score_best_are_kept():
    line = Line()
    seen = []

    def score():
        assert not line.model.training
        torch.rand(5)  # a score may draw: the training does not notice
        seen.append(weights(line).clone())
        return {0: 7.0, 1: 1.0, 2: 5.0, 3: 2.0}.get(len(seen) - 1, 0.0)

    curve = train(line, SCHEDULE, 0, Told(), score=score, score_every=5)
    # The start is told and never kept.
    assert (curve.before, curve.best) == (7.0, (10, 5.0))
    assert [step for step, _ in curve.scores] == [5, 10, 15, 20]
    assert torch.equal(weights(line), seen[2])
    plain = Line()
    assert train(plain, SCHEDULE, 0, Told()).losses == curve.losses


class Given(Line):
    """Every number has this gradient, whatever the data."""

    def __init__(self, gradient):
        super().__init__()
        self.gradient = gradient

    def loss(self, step):
        return self.gradient * sum(p.sum() for p in self.model.parameters())


def test_a_loss_that_is_no_number_ends_the_training():
    with refused(ScoreError, "step 0 of 20; take a lower learning rate"):
        train(Given(math.nan), SCHEDULE, 0, Told())


def test_biases_do_not_decay():
    still, before = Given(0.0), Line()
    train(still, SCHEDULE, 0, Told())
    for after, first in zip(
        still.model.parameters(), before.model.parameters(), strict=True
    ):
        assert torch.equal(after, first) == (first.ndim == 1)


@pytest.mark.parametrize(("clip", "norm"), [(1.0, 1.0), (0.0, 500.0)])
def test_a_gradient_is_bounded_unless_the_bound_is_0(clip, norm):
    """With an epsilon and a rate far above each of the 25 gradients, AdamW takes their own step."""
    steep = Given(100.0)
    train(steep, Schedule(1, 1e6, epsilon=1e6, clip=clip), 0, Told())
    assert (weights(steep) - weights(Line())).norm().item() == pytest.approx(
        norm, rel=1e-3
    )
