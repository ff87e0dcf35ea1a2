"""SBERT (Reimers & Gurevych 2019): siamese training on labelled pairs, scored pairs or triplets.

All sentences of an example go through the same encoder. The objective depends on the
data: a classifier of labelled pairs (softmax), the cosine of scored pairs (regression),
or in-batch negatives for triplets (ranking).
"""

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
from harness.core.pairs import pairs_digest
from harness.core.types import Task
from harness.training.contrastive import info_nce
from harness.training.datasets import NLI_LABELS, Batches, Labelled, TextColumns
from harness.training.encoder import SentenceEncoder, Setup
from harness.training.gradients import backward_in_chunks, with_loss_scaling
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


SiameseObjective = Literal["softmax", "regression", "ranking"]


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
        temperature: The number that similarities are divided by in the loss of `ranking`.
        tokens_at_once: The number of tokens whose activations are held at a time. It
            limits memory, and changes neither the loss nor the negatives.

    Raises:
        UsageError: The temperature is not above 0, or the warm-up is no share.
    """

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
        data: Labelled pairs for softmax, scored pairs for regression, columns of triplets
            for ranking.
        seed: Seeds the order of examples and the weights of the classifier.

    Attributes:
        columns: The sentences of the examples.
        labels: The labels of the examples; empty for other objectives than softmax.
        scores: Their scores; empty for other objectives than regression.
        classifier: The classifier of softmax, which no checkpoint stores. It is made for
            every objective.

    Raises:
        UsageError: The data are not of the kind that the objective needs.
    """

    def __init__(
        self,
        settings: Siamese,
        encoder: SentenceEncoder,
        data: Labelled | ScoredPairs | TextColumns,
        seed: int,
    ) -> None:
        data_types = {"softmax": Labelled, "regression": ScoredPairs, "ranking": tuple}
        if not isinstance(data, data_types[settings.objective]):
            raise UsageError(
                "softmax learns from labelled pairs, regression from scored ones and ranking from "
                "triplets"
            )
        self.settings = settings
        self.encoder = encoder
        self.columns: TextColumns = data if isinstance(data, tuple) else data.columns
        self.labels = torch.tensor(())
        self.scores = torch.tensor(())
        if isinstance(data, Labelled):
            self.labels = torch.tensor(data.labels)
        elif isinstance(data, ScoredPairs):
            self.scores = torch.tensor(data.scores)
        self.batches = Batches(len(self.columns[0]), settings.batch, seed)
        classifier = _new_classifier(3 * encoder.size, np.random.default_rng((seed, 4)))
        self.classifier = classifier.to(settings.setup.device)
        modules: dict[str, nn.Module] = {"encoder": encoder}
        if isinstance(data, Labelled):
            modules["classifier"] = self.classifier
        self.model: nn.Module = nn.ModuleDict(modules)

    def backward(self, step: int) -> float:
        """Add the gradient of a step's batch; return its loss, in nats."""
        rows = self.batches(step)
        token_ids = []
        for column in self.columns:
            token_ids.extend(self.encoder.tokenizer([column[row] for row in rows]))

        def backward_of_scaled_loss(scale: float) -> float:
            return backward_in_chunks(
                self.encoder,
                token_ids,
                lambda z: scale * self._loss(rows, z),
                self.settings.tokens_at_once,
            )

        is_half = self.settings.setup.precision == "fp16"
        return with_loss_scaling(
            backward_of_scaled_loss, self.model.parameters(), is_half
        )

    def _loss(
        self, rows: Int64[np.ndarray, " B"], z: Float[Tensor, "N D"]
    ) -> Float[Tensor, ""]:
        """The loss over a batch.

        Args:
            rows: The numbers of the batch's examples.
            z: The vectors of all sentences of the first column, then of the second, and
                so on.
        """
        vectors_of_columns = z.chunk(len(self.columns))
        if self.settings.objective == "ranking":
            anchors, positives, *hard_negatives = vectors_of_columns
            hard = hard_negatives[0] if hard_negatives else None
            return info_nce(anchors, positives, self.settings.temperature, hard)
        u, v = vectors_of_columns
        row_indices = torch.tensor(rows)
        if self.settings.objective == "regression":
            scores = self.scores[row_indices].to(z.device)
            return F.mse_loss(F.cosine_similarity(u, v), scores)
        labels = self.labels[row_indices].to(z.device)
        return softmax_nli(u, v, labels, self.classifier.weight, self.classifier.bias)


def _new_classifier(inputs: int, rng: np.random.Generator) -> nn.Linear:
    """A linear layer initialised as `nn.Linear` is, from the given generator."""
    layer = nn.Linear(inputs, len(NLI_LABELS))
    bound = 1 / math.sqrt(inputs)
    with torch.no_grad():
        for parameter in layer.parameters():
            values = rng.uniform(-bound, bound, size=parameter.shape).astype(np.float32)
            parameter.copy_(torch.from_numpy(values))
    return layer
