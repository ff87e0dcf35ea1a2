"""Contrastive learning: two views of a sentence agree, and differ from the others of the batch.

SimCSE (Gao, Yao & Chen 2021, arXiv 2104.08821). Unsupervised, both views are the sentence itself
under two dropout masks; supervised, a pair with an entailment and a contradiction as its hard
negative. Different from the released code: a batch larger than memory keeps all its negatives
(`harness.training.gradcache`); the vectors of several processes get the gradient of the one-process
loss, not its mean; the order of the data has its own generator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float
from harness.core.errors import UsageError
from harness.training.auxiliary_mlm import MaskedWords
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
from harness.training.nli import Batches
from harness.training.packing import Rows

Similarity = Literal["cosine", "dot"]
Objective = Literal["info-nce", "nt-xent"]

# Learning rate and batch (paper, appendix A), as in the released models' table.
UNSUPERVISED = {
    ("bert", "base"): (3e-5, 64),
    ("bert", "large"): (1e-5, 64),
    ("roberta", "base"): (1e-5, 512),
    ("roberta", "large"): (3e-5, 512),
}
SUPERVISED = {"base": (5e-5, 512), "large": (1e-5, 512)}
LARGE = 1024  # dimensions


def similarities(
    a: Float[Tensor, "N D"], b: Float[Tensor, "M D"], kind: Similarity = "cosine"
) -> Float[Tensor, "N M"]:
    """Every row of a with every row of b."""
    if kind == "cosine":
        a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    return a @ b.T


def info_nce(
    a: Float[Tensor, "N D"],
    b: Float[Tensor, "N D"],
    temperature: float,
    hard: Float[Tensor, "N D"] | None = None,
    hard_weight: float = 0.0,
    similarity: Similarity = "cosine",
) -> Float[Tensor, ""]:
    """Mean cross-entropy of finding b[i] for a[i] among all of b (paper, equation 1).

    N - 1 negatives a sentence; with `hard` 2N - 1, all of which count (equation 5). `hard_weight`
    is added to the logit of the sentence's own: the logarithm of the paper's alpha.
    """
    logits = similarities(a, b, similarity) / temperature
    if hard is not None:
        own = hard_weight * torch.eye(len(a), device=a.device)
        logits = torch.cat([logits, similarities(a, hard, similarity) / temperature + own], dim=1)
    return F.cross_entropy(logits, torch.arange(len(a), device=a.device))


def nt_xent(
    a: Float[Tensor, "N D"],
    b: Float[Tensor, "N D"],
    temperature: float,
    similarity: Similarity = "cosine",
) -> Float[Tensor, ""]:
    """The same over the rows [a0, b0, a1, b1, ...], each looking for its partner among all others.

    2N - 2 negatives a row: SimCLR's loss (Chen et al. 2020, arXiv 2002.05709), which the Keras
    version of SimCSE trains with.
    """
    z = torch.stack([a, b], dim=1).flatten(0, 1)  # (2N, D)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    logits = similarities(z, z, similarity).masked_fill(itself, -torch.inf) / temperature
    return F.cross_entropy(logits, torch.arange(len(z), device=z.device) ^ 1)


@dataclass(frozen=True)
class Contrastive:
    """What the paper varies. The defaults are unsupervised BERT-base.

    `same_mask` gives both views one dropout mask (Table 3); `hard_weight` is log(alpha) of Table 7,
    `masked_words` the weight of masked language modelling (Table D.2), `masked_share` how many of
    the word pieces it hides. `tokens_at_once` bounds memory and changes neither the loss nor the
    negatives.
    """

    setup: Setup = field(default_factory=lambda: Setup(head="train"))
    batch: int = 64
    epochs: int = 1
    learning_rate: float = 3e-5
    objective: Objective = "info-nce"
    similarity: Similarity = "cosine"
    temperature: float = 0.05
    same_mask: bool = False
    hard_negatives: bool = True
    hard_weight: float = 0.0
    masked_words: float = 0.0
    masked_share: float = 0.15
    tokens_at_once: int = 8192

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.masked_words < 0 or not 0 < self.masked_share < 1:
            raise UsageError(
                "wanted a temperature above 0, a weight of masked words of 0 or more and a share "
                f"of them between 0 and 1, found {self.temperature}, {self.masked_words}, "
                f"{self.masked_share}"
            )

    @classmethod
    def unsupervised(cls, config: Mapping[str, Any]) -> Contrastive:
        """The paper's settings for a checkpoint's config.json; any other size has BERT's."""
        family = "roberta" if "roberta" in str(config.get("model_type")) else "bert"
        learning_rate, batch = UNSUPERVISED[family, _size(config)]
        return cls(Setup(head="train"), batch, 1, learning_rate)

    @classmethod
    def supervised(cls, config: Mapping[str, Any]) -> Contrastive:
        """The same for triplets: three epochs, and a head that is kept."""
        learning_rate, batch = SUPERVISED[_size(config)]
        return cls(Setup(head="keep"), batch, 3, learning_rate)

    def schedule(self, count: int) -> Schedule:
        """Full epochs of so many examples; the rate falls linearly, nothing decays."""
        steps = self.epochs * Batches(count, self.batch, 0).steps
        return Schedule(steps=steps, learning_rate=self.learning_rate)

    def loss(
        self,
        a: Float[Tensor, "N D"],
        b: Float[Tensor, "N D"],
        hard: Float[Tensor, "N D"] | None = None,
    ) -> Float[Tensor, ""]:
        """The objective over two views, and a hard negative where there is one."""
        if self.objective == "nt-xent":
            return nt_xent(a, b, self.temperature, self.similarity)
        return info_nce(a, b, self.temperature, hard, self.hard_weight, self.similarity)


def _size(config: Mapping[str, Any]) -> str:
    return "large" if config.get("hidden_size", 0) >= LARGE else "base"


class ContrastiveTraining:
    """What the loop trains. One column is a sentence seen twice, three end with hard negatives.

    Every process gets the whole of the columns and takes its share of each batch.
    """

    def __init__(
        self,
        settings: Contrastive,
        tower: SentenceEncoder,
        columns: Sequence[Sequence[str]],
        seed: int,
        masked: MaskedWords | None = None,
        together: ProcessGroup | None = None,
    ) -> None:
        columns = columns if settings.hard_negatives else columns[:2]
        if len(columns) == 3 and settings.objective == "nt-xent":
            raise UsageError("nt-xent has no place for hard negatives; leave them out")
        if settings.same_mask and len(columns) > 1:
            raise UsageError("one mask for both views needs one sentence seen twice, found pairs")
        if (masked is None) != (settings.masked_words == 0):
            raise UsageError("masked words need a weight above 0 and a head, both or neither")
        self.settings, self.tower, self.columns, self.seed = settings, tower, columns, seed
        self.masked, self.together = masked, together or SingleProcess()
        self.batches = Batches(len(columns[0]), settings.batch, seed)
        parts = {"tower": tower} | ({} if masked is None else {"masked": masked})
        self.model: nn.Module = nn.ModuleDict(parts)

    def backward(self, step: int) -> float:
        """The loss of a step's batch, in nats, over all processes; its gradient is added."""
        views = self._views(step)
        rows = [row for view in views for row in view]

        def run(scale: float) -> float:
            at_once = self.settings.tokens_at_once
            loss = gradient(self.tower, rows, lambda z: scale * self._loss(z), at_once)
            if self.masked is not None:
                weight = scale * self.settings.masked_words
                loss += self._hide(self.masked, rows, weight, step)
            add_gradients(self.model.parameters(), self.together)
            return loss

        half = self.settings.setup.precision == "fp16"
        return scaled(run, self.model.parameters(), half)

    def _views(self, step: int) -> list[Rows]:
        """The token ids of this process's share of the batch, one list a view."""
        mine = share_of(self.batches(step), self.together)
        views: list[Rows] = [
            self.tower.tokenizer([column[row] for row in mine]) for column in self.columns
        ]
        return views * 2 if len(views) == 1 and not self.settings.same_mask else views

    def _loss(self, z: Float[Tensor, "all D"]) -> Float[Tensor, ""]:
        count = len(self.columns) if len(self.columns) > 1 or self.settings.same_mask else 2
        views = [gather_embeddings(view, self.together) for view in z.chunk(count)]
        return self.settings.loss(*(views * 2 if count == 1 else views))

    def _hide(self, masked: MaskedWords, rows: Rows, weight: float, step: int) -> float:
        """Masked language modelling over every view, hidden anew (paper, section 4.3)."""
        settings, together = self.settings, self.together
        rng = np.random.default_rng((self.seed, 3, step, together.rank))
        part = masked.backward(
            self.tower,
            rows,
            settings.masked_share,
            weight / together.count,
            settings.tokens_at_once,
            rng,
        )
        return total_of(part, together, settings.setup.device)
