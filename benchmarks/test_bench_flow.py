"""A flow's fit beside the same maths over images of one pixel, and beside zuko's flow."""

import math
from statistics import median
from time import perf_counter

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from harness.transforms.flow_layers import SCALE_FACTOR, initialise_from_data
from harness.transforms.flows import Architecture, FitSettings, fit_flow, one_thread

STEPS, ROWS, SIZE = (
    539,
    32,
    384,
)  # one epoch of STS-B's sentences, one side a step, on MiniLM
GLOW = Architecture(3, 3, 32, ("actnorm", "reversal", "additive"))
SETTINGS = FitSettings(rows=ROWS)
SHORT, TRIES = 20, 3  # steps and fits that tell how many threads are best
ROUNDS = 9  # so many, since a machine's pace changes from one to the next
WANTED = 2.5  # times the convolutions' speed
FIRST, EQUAL = (
    5,
    1e-3,
)  # steps whose losses agree so far in float32: rounding grows from there
MEAN_EQUAL = 0.01  # of the curve's mean


class Norm(nn.Module):
    """Actnorm over channels."""

    def __init__(self, ours):
        super().__init__()
        self.shift, self.log_scale = (
            nn.Parameter(p.detach().clone().reshape(1, -1, 1, 1))
            for p in (ours.shift, ours.log_scale)
        )

    def forward(self, x):
        log_scale = SCALE_FACTOR * self.log_scale
        return (x + self.shift) * log_scale.exp(), log_scale.sum()


def convolution(weight, bias=None):
    """A 1x1 convolution that does what rows @ weight + bias does."""
    inputs, outputs = weight.shape
    layer = nn.Conv2d(inputs, outputs, 1, bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight.T[:, :, None, None])
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


class Coupling(nn.Module):
    """Additive coupling over channels."""

    def __init__(self, ours):
        super().__init__()
        net = ours.shift
        self.first, self.second = (
            convolution(net.first_weight),
            convolution(net.second_weight),
        )
        self.norms = nn.ModuleList([Norm(norm) for norm in net.norms])
        self.last = convolution(net.last_weight, net.bias)
        self.log_scale = nn.Parameter(
            net.log_scale.detach().clone().reshape(1, -1, 1, 1)
        )

    def forward(self, x):
        stays, moves = x.chunk(2, dim=1)
        h = functional.relu(self.norms[0](self.first(stays))[0])
        h = functional.relu(self.norms[1](self.second(h))[0])
        h = self.last(h) * (SCALE_FACTOR * self.log_scale).exp()
        return torch.cat([stays, moves + h], dim=1), 0.0


class Images(nn.Module):
    """The released architecture, as Glow has it for images: (N, C, 1, 1), a layer at a time."""

    def __init__(self, ours):
        super().__init__()
        levels = [
            [p for p in level.pieces if list(p.parameters())] for level in ours.levels
        ]
        self.levels = nn.ModuleList(
            nn.ModuleList(
                Norm(p) if hasattr(p, "standardise") else Coupling(p) for p in level
            )
            for level in levels
        )

    def forward(self, x):
        """Bits per dimension."""
        size, log_det, nats = x.shape[1], 0.0, 0.0
        for number, level in enumerate(self.levels):
            for norm, coupling in zip(level[::2], level[1::2], strict=True):
                x, gained = norm(x)
                x, _ = coupling(x.flip(1))
                log_det = log_det + gained
            if number < len(self.levels) - 1:
                x, done = x.chunk(2, dim=1)
                nats = nats + 0.5 * done.square().sum(dim=(1, 2, 3))
        nats = nats + 0.5 * x.square().sum(dim=(1, 2, 3)) - log_det
        return (nats.mean() + 0.5 * size * math.log(2 * math.pi)) / (size * math.log(2))


class PlainAdamW:
    """The recipe's optimiser a parameter at a time, as it is usually written."""

    def __init__(self, model):
        self.parameters = list(model.parameters())
        self.state = [
            (torch.zeros_like(p), torch.zeros_like(p)) for p in self.parameters
        ]

    @torch.no_grad()
    def step(self):
        nn.utils.clip_grad_norm_(self.parameters, SETTINGS.clip)
        b1, b2 = SETTINGS.betas
        for p, (mean, square) in zip(self.parameters, self.state, strict=True):
            mean.mul_(b1).add_(p.grad, alpha=1 - b1)
            square.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            p.mul_(1 - SETTINGS.learning_rate * SETTINGS.weight_decay)
            p.addcdiv_(
                mean,
                square.sqrt().add_(SETTINGS.epsilon),
                value=-SETTINGS.learning_rate,
            )
            p.grad = None


def rows(count, size):
    """In float32, and most of their spread in few directions, as encodings are."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(size // 8, size)) / np.sqrt(size // 8)
    inside = rng.normal(size=(count, size // 8)) @ mixing
    return (inside + rng.normal(scale=0.1, size=(count, size)) + 2).astype(np.float32)


def begun(x):
    """What `fit` begins with: its batches, and its model behind the first of them."""
    rng = np.random.default_rng(0)
    batches = SETTINGS.batches(len(x), rng)
    model = GLOW.build(x.shape[1], rng)
    initialise_from_data(model, torch.from_numpy(x[batches[0]]).double())
    return batches, model


def fit_images(x, dtype=torch.float32):
    """The losses of the same fit over (N, C, 1, 1)."""
    batches, ours = begun(x)
    model = Images(ours).to(dtype)
    optimiser, losses = PlainAdamW(model), []
    for batch in batches:
        loss = model(torch.from_numpy(x[batch]).to(dtype)[:, :, None, None])
        losses.append(loss.item())
        torch.autograd.backward(SETTINGS.sides * loss)
        optimiser.step()
    return losses


def alone(work):
    """On one thread."""
    with one_thread():
        return work()


def faster(x):
    """How many threads take the images through a short fit in less time, and such fits."""
    fits = {"one thread": lambda x: alone(lambda: fit_images(x))}
    if (threads := torch.get_num_threads()) > 1:
        fits[f"{threads} threads"] = fit_images
    taken = {name: [] for name in fits}
    for _ in range(TRIES):
        for name, fit_of in fits.items():
            start = perf_counter()
            fit_of(x)
            taken[name].append(perf_counter() - start)
    best = min(taken, key=lambda name: median(taken[name]))
    return best, fits[best]


def fit_rows(x):
    return fit_flow(x, GLOW.build, SETTINGS, np.random.default_rng(0)).losses


def test_over_convolutions_the_curve_is_the_same():
    x = rows(30 * ROWS, 24)
    found = alone(lambda: fit_images(x, torch.float64))
    # The norm that gradients are clipped by has 1e-6 added there.
    assert fit_rows(x) == pytest.approx(found, abs=1e-5)
    assert found[-1] < found[0] - 0.5


def test_a_fit_beside_convolutions(side_by_side):
    x = rows(STEPS * ROWS, SIZE) if side_by_side.on else rows(6 * ROWS, 24)
    found, theirs = fit_rows(x), fit_images(x)
    assert len(found) == len(theirs) == len(x) // ROWS
    assert found[:FIRST] == pytest.approx(theirs[:FIRST], abs=EQUAL)
    assert np.mean(found) == pytest.approx(np.mean(theirs), rel=MEAN_EQUAL)

    best, convolutions = faster(x[: SHORT * ROWS])
    others = {best: lambda: convolutions(x)}
    side_by_side.run(lambda: fit_rows(x), others, rounds=ROUNDS, warm=False)
    facts = {
        "steps": len(found),
        "rows": ROWS,
        "size": x.shape[1],
        "convolutions on": best,
    }
    ratios = side_by_side.ratios(best) if side_by_side.on else [1.0]
    side_by_side.require("flow-fit", ratios, WANTED, **facts)


def test_a_step_beside_zuko(side_by_side):
    """As many couplings of that width; zuko has no actnorm and finishes no coordinate early."""
    zuko = pytest.importorskip("zuko", reason="zuko is not installed: pip install zuko")
    x = rows(STEPS * ROWS, SIZE) if side_by_side.on else rows(3 * ROWS, 24)
    batches, _ = begun(x)
    couplings, width = GLOW.levels * GLOW.depth, GLOW.width

    def fit_zuko():
        flow = zuko.flows.NICE(
            x.shape[1], transforms=couplings, hidden_features=(width, width)
        )
        optimiser = torch.optim.AdamW(
            flow.parameters(), lr=SETTINGS.learning_rate, fused=True
        )
        for batch in batches:
            loss = -flow().log_prob(torch.from_numpy(x[batch])).mean() / x.shape[1]
            loss.backward()
            nn.utils.clip_grad_norm_(flow.parameters(), SETTINGS.clip)
            optimiser.step()
            optimiser.zero_grad()
        return loss.item()

    assert math.isfinite(alone(fit_zuko))
    side_by_side.run(lambda: fit_rows(x), {"one thread": lambda: alone(fit_zuko)})
    ratios = side_by_side.ratios("one thread") if side_by_side.on else [1.0]
    facts = {
        "steps": len(batches),
        "rows": ROWS,
        "size": x.shape[1],
        "couplings": couplings,
    }
    side_by_side.require("flow-step-zuko", ratios, 1.0, zuko=zuko.__version__, **facts)
