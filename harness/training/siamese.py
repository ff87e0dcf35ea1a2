"""SBERT (Reimers & Gurevych 2019): siamese training on labelled or scored pairs.

Both sentences of a pair go through the same encoder. The objective depends on the recipe:
a classifier of labelled pairs (softmax), or the cosine of scored pairs (regression).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Int64
from harness.training.datasets import NLI_LABELS, Batches, TextColumns
from harness.training.encoder import SentenceEncoder
from harness.training.loop import Schedule
from harness.training.recipes import Sbert, SbertNli

WARMUP = 0.1  # the share of the steps in which the learning rate rises


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


class SiameseTraining:
    """The training task of SBERT.

    Args:
        recipe: The settings of the training.
        encoder: The encoder that is trained.
        columns: The sentences of the pairs, in two columns.
        targets: The label of each pair for `SbertNli`, its score from 0 to 1 for
            `SbertSts`.

    Attributes:
        batches: The examples of each step.
        schedule: The learning rate of each step: it rises linearly in the warm-up, and
            then falls linearly to 0.
        classifier: The classifier of softmax, which no checkpoint stores; None for
            regression.
    """

    def __init__(
        self,
        recipe: Sbert,
        encoder: SentenceEncoder,
        columns: TextColumns,
        targets: Sequence[str] | Sequence[float],
    ) -> None:
        self.recipe = recipe
        self.encoder = encoder
        self.columns = columns
        self.batches = Batches(len(targets), recipe.batch, recipe.seed)
        steps = recipe.epochs * self.batches.steps
        self.schedule = Schedule(
            steps=steps,
            learning_rate=recipe.learning_rate,
            warmup=math.ceil(WARMUP * steps),
            weight_decay=recipe.weight_decay,
            clip=recipe.clip,
        )
        modules: dict[str, nn.Module] = {"encoder": encoder}
        self.classifier: nn.Linear | None = None
        if isinstance(recipe, SbertNli):
            targets = [NLI_LABELS.index(str(label)) for label in targets]
            self.classifier = self._new_classifier()
            modules["classifier"] = self.classifier
        self.targets = torch.tensor(targets)
        self.model: nn.Module = nn.ModuleDict(modules)

    def _new_classifier(self) -> nn.Linear:
        """A classifier initialised as `nn.Linear` is, from a generator of its own."""
        rng = np.random.default_rng((self.recipe.seed, 4))
        inputs = 3 * self.encoder.size
        classifier = nn.Linear(inputs, len(NLI_LABELS))
        bound = 1 / math.sqrt(inputs)
        with torch.no_grad():
            for parameter in classifier.parameters():
                values = rng.uniform(-bound, bound, size=parameter.shape)
                parameter.copy_(torch.from_numpy(values.astype(np.float32)))
        return classifier.to(self.recipe.device)

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
