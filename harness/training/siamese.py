"""SBERT (Reimers & Gurevych 2019): siamese training on labelled or scored pairs.

Both sentences of a pair go through the same encoder. The objective depends on the data:
a classifier of labelled pairs (softmax), or the cosine of scored pairs (regression).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Int64
from harness.core.errors import UsageError
from harness.core.pairs import pairs_digest
from harness.core.types import Task
from harness.data.places import Places
from harness.training.datasets import NLI_LABELS, Batches, Labelled, TextColumns
from harness.training.encoder import SentenceEncoder, Setup
from harness.training.loop import Schedule
from harness.transforms.pooling import MEAN


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of sentences with a score each.

    Attributes:
        columns: Two columns of sentences.
        scores: A number from 0 to 1 for each pair.
        digest: The digest of the pairs and their gold scores.
    """

    columns: TextColumns
    scores: tuple[float, ...]
    digest: str

    @classmethod
    def from_task(cls, task: Task, places: Places) -> ScoredPairs:
        """The scored pairs of a task: for `sts-b.train` the pairs of the train split."""
        if task.graded is None:
            raise UsageError(
                f"--task {task.name}: wanted pairs with graded gold, as sts-b.train"
            )
        pairs = task.pairs(places.require_data(task.asset))
        low, high = task.graded
        scores = tuple((gold - low) / (high - low) for gold in pairs.gold.tolist())
        return cls(columns=pairs.columns, scores=scores, digest=pairs_digest(pairs))


SiameseObjective = Literal["softmax", "regression"]


def softmax_nli(
    u: Float[Tensor, "N D"],
    v: Float[Tensor, "N D"],
    labels: Int64[Tensor, " N"],
    weight: Float[Tensor, "C F"],
    bias: Float[Tensor, " C"],
) -> Float[Tensor, ""]:
    """Mean cross-entropy of the labels under softmax(W (u, v, |u - v|) + b) (paper, section 3).

    F is 3 D, and C is the number of labels.
    """
    features = torch.cat([u, v, (u - v).abs()], dim=1)
    return F.cross_entropy(F.linear(features, weight, bias), labels)


@dataclass(frozen=True)
class Siamese:
    """The settings of a training; the defaults are the paper's.

    Args:
        setup: How the encoder is opened.
        batch: The number of examples in a step.
        epochs: The number of passes over the examples.
        learning_rate: The highest learning rate.
        warmup: The share of the steps in which the rate rises to it.
        weight_decay: The weight decay of AdamW.
        clip: The largest norm of a gradient; with 0 gradients are not clipped.
        objective: The loss.
    """

    setup: Setup = field(default_factory=lambda: Setup(pooling=MEAN, max_length=128))
    batch: int = 16
    epochs: int = 1
    learning_rate: float = 2e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    objective: SiameseObjective = "softmax"

    @classmethod
    def regression(cls) -> Siamese:
        """The settings of the first release's `training_stsbenchmark_bert.py`: four epochs."""
        return cls(epochs=4, objective="regression")

    def schedule(self, count: int) -> Schedule:
        """The learning rate over full epochs of `count` examples.

        It rises linearly in the warm-up, and then decays linearly to 0.
        """
        steps = self.epochs * Batches(count, self.batch, seed=0).steps
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
    """The training task of SBERT.

    Args:
        settings: The settings of the training.
        encoder: The encoder that is trained.
        data: Labelled pairs for softmax, scored pairs for regression.
        seed: Seeds the order of examples and the weights of the classifier.

    Attributes:
        columns: The sentences of the pairs.
        targets: The labels or scores of the pairs.
        classifier: The classifier of softmax, which no checkpoint stores; None for
            regression.

    Raises:
        UsageError: The data are not of the kind that the objective needs.
    """

    def __init__(
        self,
        settings: Siamese,
        encoder: SentenceEncoder,
        data: Labelled | ScoredPairs,
        seed: int,
    ) -> None:
        has_labels = isinstance(data, Labelled)
        if has_labels != (settings.objective == "softmax"):
            raise UsageError(
                "softmax learns from labelled pairs, regression from scored ones"
            )
        self.settings = settings
        self.encoder = encoder
        self.columns = data.columns
        targets = data.labels if isinstance(data, Labelled) else data.scores
        self.targets = torch.tensor(targets)
        self.batches = Batches(len(self.targets), settings.batch, seed)
        modules: dict[str, nn.Module] = {"encoder": encoder}
        self.classifier: nn.Linear | None = None
        if has_labels:
            # Initialised as `nn.Linear` is, from a generator of its own.
            rng = np.random.default_rng((seed, 4))
            inputs = 3 * encoder.size
            classifier = nn.Linear(inputs, len(NLI_LABELS))
            bound = 1 / math.sqrt(inputs)
            with torch.no_grad():
                for parameter in classifier.parameters():
                    values = rng.uniform(-bound, bound, size=parameter.shape)
                    parameter.copy_(torch.from_numpy(values.astype(np.float32)))
            self.classifier = classifier.to(settings.setup.device)
            modules["classifier"] = self.classifier
        self.model: nn.Module = nn.ModuleDict(modules)

    def loss(self, step: int) -> Float[Tensor, ""]:
        """The loss of a step's batch, in nats for softmax."""
        rows = self.batches(step)
        token_ids = []
        for column in self.columns:
            token_ids.extend(self.encoder.tokenizer([column[row] for row in rows]))
        u, v = self.encoder(token_ids).chunk(2)
        targets = self.targets[torch.tensor(rows)].to(u.device)
        if self.classifier is None:
            return F.mse_loss(F.cosine_similarity(u, v), targets)
        weight, bias = self.classifier.weight, self.classifier.bias
        return softmax_nli(u, v, targets, weight, bias)
