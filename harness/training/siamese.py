"""Siamese training on labelled pairs: one encoder for both sentences, and a classifier over them.

SBERT (Reimers & Gurevych 2019, arXiv 1908.10084): softmax over (u, v, |u - v|) for NLI, mean
pooling. "ranking" is the variant that sentence-transformers recommended later: premise, entailment
and contradiction under the loss of `harness.training.contrastive`. Different from the first
releases, whose numbers the paper prints: AdamW corrects its bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Int64
from harness.core.errors import UsageError
from harness.training.contrastive import info_nce
from harness.training.distributed import (
    ProcessGroup,
    SingleProcess,
    add_gradients,
    gather_embeddings,
    share_of,
    total_of,
)
from harness.training.encoder import SentenceEncoder, Setup
from harness.training.gradcache import gradient, scaled
from harness.training.loop import Schedule
from harness.training.nli import LABELS, Batches, Columns, Labelled
from harness.transforms.pooling import MEAN

Objective = Literal["softmax", "ranking"]
FEATURES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "u": lambda u, _: u,
    "v": lambda _, v: v,
    "|u-v|": lambda u, v: (u - v).abs(),
    "u*v": lambda u, v: u * v,
}


def joined(
    u: Float[Tensor, "N D"], v: Float[Tensor, "N D"], features: Sequence[str]
) -> Float[Tensor, "N F"]:
    """What the classifier sees of two vectors, side by side (paper, Table 6)."""
    return torch.cat([FEATURES[feature](u, v) for feature in features], dim=1)


def softmax_nli(
    u: Float[Tensor, "N D"],
    v: Float[Tensor, "N D"],
    labels: Int64[Tensor, " N"],
    weight: Float[Tensor, "C F"],
    bias: Float[Tensor, " C"],
    features: Sequence[str] = ("u", "v", "|u-v|"),
) -> Float[Tensor, ""]:
    """Mean cross-entropy of the label under softmax(W (u, v, |u - v|) + b) (paper, section 3)."""
    return F.cross_entropy(F.linear(joined(u, v, features), weight, bias), labels)


@dataclass(frozen=True)
class Siamese:
    """The paper's settings; `warmup` is a share of the steps."""

    setup: Setup = field(default_factory=lambda: Setup(pooling=MEAN, max_length=128))
    batch: int = 16
    epochs: int = 1
    learning_rate: float = 2e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    objective: Objective = "softmax"
    features: tuple[str, ...] = ("u", "v", "|u-v|")
    temperature: float = 0.05
    tokens_at_once: int = 8192

    def __post_init__(self) -> None:
        if not self.features or not set(self.features) <= set(FEATURES):
            raise UsageError(f"wanted features of {', '.join(FEATURES)}, found {self.features}")
        if self.temperature <= 0 or not 0 <= self.warmup <= 1:
            raise UsageError(
                "wanted a temperature above 0 and a share of warm-up from 0 to 1, found "
                f"{self.temperature} and {self.warmup}"
            )

    @classmethod
    def ranking(cls) -> Siamese:
        """The variant with in-batch negatives, as sentence-transformers' `training_nli_v2.py`."""
        setup = Setup(pooling=MEAN, max_length=75)
        return cls(setup=setup, batch=128, objective="ranking")

    def schedule(self, count: int) -> Schedule:
        """Full epochs of so many examples: the rate rises, then falls linearly."""
        steps = self.epochs * Batches(count, self.batch, 0).steps
        return Schedule(
            steps=steps,
            learning_rate=self.learning_rate,
            warmup=math.ceil(self.warmup * steps),
            weight_decay=self.weight_decay,
        )


class SiameseTraining:
    """What the loop trains: labelled pairs for softmax, triplets for ranking.

    Every process gets all of the data and takes its share of each batch. `model` ends with a
    classifier that only softmax reads, and no checkpoint holds.
    """

    def __init__(
        self,
        settings: Siamese,
        tower: SentenceEncoder,
        data: Labelled | Columns,
        seed: int,
        together: ProcessGroup | None = None,
    ) -> None:
        if isinstance(data, Labelled) != (settings.objective == "softmax"):
            raise UsageError("softmax learns from labelled pairs and ranking from triplets")
        self.settings, self.tower = settings, tower
        self.together = together or SingleProcess()
        labels = data.labels if isinstance(data, Labelled) else ()
        self.labels = torch.tensor(labels, dtype=torch.long)
        self.columns: Columns = data.columns if isinstance(data, Labelled) else data
        self.batches = Batches(len(self.columns[0]), settings.batch, seed)
        self.classifier = _classifier(
            len(settings.features) * tower.size, np.random.default_rng((seed, 4))
        ).to(settings.setup.device)
        parts: dict[str, nn.Module] = {"tower": tower}
        self.model: nn.Module = nn.ModuleDict(
            parts | ({"classifier": self.classifier} if labels else {})
        )

    def backward(self, step: int) -> float:
        """The loss of a step's batch, in nats, over all processes; its gradient is added."""
        mine = share_of(self.batches(step), self.together)
        columns = [[column[row] for row in mine] for column in self.columns]
        rows = [row for column in columns for row in self.tower.tokenizer(column)]

        def run(scale: float) -> float:
            at_once = self.settings.tokens_at_once
            loss = gradient(self.tower, rows, lambda z: scale * self._loss(z, mine), at_once)
            if self.settings.objective == "softmax":
                loss = total_of(loss, self.together, self.settings.setup.device)
            add_gradients(self.model.parameters(), self.together)
            return loss

        half = self.settings.setup.precision == "fp16"
        return scaled(run, self.model.parameters(), half)

    def _loss(self, z: Float[Tensor, "all D"], mine: Int64[np.ndarray, " n"]) -> Float[Tensor, ""]:
        views = z.chunk(len(self.columns))
        if self.settings.objective == "ranking":
            a, b, *hard = (gather_embeddings(view, self.together) for view in views)
            return info_nce(a, b, self.settings.temperature, hard[0] if hard else None)
        u, v = views
        labels = self.labels[torch.from_numpy(mine)].to(z.device)
        classifier, features = self.classifier, self.settings.features
        loss = softmax_nli(u, v, labels, classifier.weight, classifier.bias, features)
        return loss / self.together.count  # the gradients of all processes are summed


def _classifier(inputs: int, rng: np.random.Generator) -> nn.Linear:
    """A linear layer drawn as torch draws one, from the given generator."""
    layer, bound = nn.Linear(inputs, len(LABELS)), 1 / math.sqrt(inputs)
    with torch.no_grad():
        for parameter in layer.parameters():
            drawn = rng.uniform(-bound, bound, size=parameter.shape).astype(np.float32)
            parameter.copy_(torch.from_numpy(drawn))
    return layer
