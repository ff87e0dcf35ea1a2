"""SBERT (Reimers & Gurevych 2019): siamese training on labelled pairs, scored pairs or triplets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.assets.places import Places
from harness.core.arrays import Float, Int64
from harness.core.errors import UsageError
from harness.core.types import Task, pairs_digest
from harness.training.contrastive import info_nce
from harness.training.datasets import NLI_LABELS, Batches, Labelled, TextColumns
from harness.training.encoder import (
    SentenceEncoder,
    Setup,
    backward_in_chunks,
    with_loss_scaling,
)
from harness.training.loop import Schedule
from harness.transforms.pooling import MEAN


@dataclass(frozen=True)
class ScoredPairs:
    """Two columns of sentences and a score from 0 to 1 for each row; the digest of their source."""

    columns: TextColumns
    scores: tuple[float, ...]
    digest: str

    @classmethod
    def from_task(cls, task: Task, places: Places) -> ScoredPairs:
        """The scored pairs of a task: of `sts-b.train` those of the train split."""
        if task.graded is None:
            raise UsageError(
                f"--task {task.name}: wanted pairs with graded gold, as sts-b.train"
            )
        pairs = task.pairs(places.require_data(task.asset))
        low, high = task.graded
        scores = ((gold - low) / (high - low) for gold in pairs.gold.tolist())
        return cls(pairs.columns, tuple(scores), pairs_digest(pairs))


SiameseObjective = Literal["softmax", "regression", "ranking"]


def softmax_nli(
    u: Float[Tensor, "N D"],
    v: Float[Tensor, "N D"],
    labels: Int64[Tensor, " N"],
    weight: Float[Tensor, "C F"],
    bias: Float[Tensor, " C"],
) -> Float[Tensor, ""]:
    """Mean cross-entropy of the label under softmax(W (u, v, |u - v|) + b) (paper, section 3)."""
    features = torch.cat([u, v, (u - v).abs()], dim=1)
    return F.cross_entropy(F.linear(features, weight, bias), labels)


@dataclass(frozen=True)
class Siamese:
    """The paper's settings; `warmup` is a share of the steps."""

    setup: Setup = field(default_factory=lambda: Setup(pooling=MEAN, max_length=128))
    batch: int = 16
    epochs: int = 1
    learning_rate: float = 2e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    objective: SiameseObjective = "softmax"
    temperature: float = 0.05
    tokens_at_once: int = 8192

    def __post_init__(self) -> None:
        if self.temperature <= 0 or not 0 <= self.warmup <= 1:
            raise UsageError(
                "wanted a temperature above 0 and a share of warm-up from 0 to 1, found "
                f"{self.temperature} and {self.warmup}"
            )

    @classmethod
    def ranking(cls) -> Siamese:
        """The settings of sentence-transformers' `training_nli_v2.py`: in-batch negatives."""
        setup = Setup(pooling=MEAN, max_length=75)
        return cls(setup=setup, batch=128, objective="ranking")

    @classmethod
    def regression(cls) -> Siamese:
        """The settings of the first release's `training_stsbenchmark_bert.py`: four epochs."""
        return cls(epochs=4, objective="regression")

    def schedule(self, count: int) -> Schedule:
        """Full epochs over so many examples: linear warm-up, then linear decay from its end."""
        steps = self.epochs * Batches(count, self.batch, 0).steps
        warmup = math.ceil(self.warmup * steps)
        return Schedule(
            steps=steps,
            learning_rate=self.learning_rate,
            warmup=warmup,
            decay=1 - warmup / steps,
            weight_decay=self.weight_decay,
            clip=self.clip,
        )


class SiameseTraining:
    """The training task of SBERT: labelled pairs (softmax), scored ones (regression), triplets.

    The classifier is read by softmax only, and no checkpoint stores it.
    """

    def __init__(
        self,
        settings: Siamese,
        encoder: SentenceEncoder,
        data: Labelled | ScoredPairs | TextColumns,
        seed: int,
    ) -> None:
        kinds = {"softmax": Labelled, "regression": ScoredPairs, "ranking": tuple}
        if not isinstance(data, kinds[settings.objective]):
            raise UsageError(
                "softmax learns from labelled pairs, regression from scored ones and ranking from "
                "triplets"
            )
        self.settings, self.encoder = settings, encoder
        self.columns: TextColumns = data if isinstance(data, tuple) else data.columns
        self.labels = torch.tensor(data.labels if isinstance(data, Labelled) else ())
        self.scores = torch.tensor(data.scores if isinstance(data, ScoredPairs) else ())
        self.batches = Batches(len(self.columns[0]), settings.batch, seed)
        classifier = _classifier(3 * encoder.size, np.random.default_rng((seed, 4)))
        self.classifier = classifier.to(settings.setup.device)
        modules: dict[str, nn.Module] = {"encoder": encoder}
        self.model: nn.Module = nn.ModuleDict(
            modules | ({"classifier": self.classifier} if len(self.labels) else {})
        )

    def backward(self, step: int) -> float:
        """Add the gradient of a step's batch; return its loss, in nats."""
        settings, batch = self.settings, self.batches(step)
        columns = [[column[row] for row in batch] for column in self.columns]
        rows = [row for column in columns for row in self.encoder.tokenizer(column)]

        def backward(scale: float) -> float:
            return backward_in_chunks(
                self.encoder,
                rows,
                lambda z: scale * self._loss(batch, z),
                settings.tokens_at_once,
            )

        half = settings.setup.precision == "fp16"
        return with_loss_scaling(backward, self.model.parameters(), half)

    def _loss(
        self, batch: Int64[np.ndarray, " B"], z: Float[Tensor, "N D"]
    ) -> Float[Tensor, ""]:
        views = z.chunk(len(self.columns))
        if self.settings.objective == "ranking":
            a, b, *hard = views
            return info_nce(a, b, self.settings.temperature, hard[0] if hard else None)
        (u, v), rows = views, torch.tensor(batch)
        if self.settings.objective == "regression":
            return F.mse_loss(F.cosine_similarity(u, v), self.scores[rows].to(z.device))
        labels = self.labels[rows].to(z.device)
        return softmax_nli(u, v, labels, self.classifier.weight, self.classifier.bias)


def _classifier(inputs: int, rng: np.random.Generator) -> nn.Linear:
    """A linear layer initialised as `nn.Linear` is, from the given generator."""
    layer, bound = nn.Linear(inputs, len(NLI_LABELS)), 1 / math.sqrt(inputs)
    with torch.no_grad():
        for parameter in layer.parameters():
            values = rng.uniform(-bound, bound, size=parameter.shape).astype(np.float32)
            parameter.copy_(torch.from_numpy(values))
    return layer
