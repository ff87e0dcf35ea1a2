"""SimCSE: contrastive learning of sentence embeddings (Gao et al. 2021, arXiv 2104.08821).

The vectors of two views of a sentence are drawn together, and apart from the other
vectors of the batch. In the unsupervised form the views are the sentence under two
dropout masks; in the supervised form they are a sentence and an entailed one, with a
contradiction as a hard negative. Two variants of the paper are here as well: discrete
augmentations of the second view (Table 1), and masked language modelling as an auxiliary
objective (`masked_words`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float
from harness.core.errors import UsageError
from harness.encoders.kernels.padded import TokenIds
from harness.training.datasets import Batches
from harness.training.encoder import SentenceEncoder, Setup
from harness.training.loop import Schedule
from harness.training.masked_words import MaskedLMHead

LossSimilarity = Literal["cosine", "dot"]
ContrastiveObjective = Literal["info-nce", "nt-xent"]

# Learning rate and batch size (paper, appendix A), by architecture and size.
UNSUPERVISED_SETTINGS = {
    ("bert", "base"): (3e-5, 64),
    ("bert", "large"): (1e-5, 64),
    ("roberta", "base"): (1e-5, 512),
    ("roberta", "large"): (3e-5, 512),
}
# By size alone.
SUPERVISED_SETTINGS = {"base": (5e-5, 512), "large": (1e-5, 512)}
LARGE_WIDTH = 1024  # a large model has at least so many dimensions
AUGMENTATION = re.compile(r"(crop|deletion):(?P<amount>one|\d+)")


def similarities(
    a: Float[Tensor, "N D"], b: Float[Tensor, "M D"], kind: LossSimilarity = "cosine"
) -> Float[Tensor, "N M"]:
    """The cosine or dot product of each row of a with each row of b."""
    if kind == "cosine":
        a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    return a @ b.T


def info_nce(
    a: Float[Tensor, "N D"],
    b: Float[Tensor, "N D"],
    temperature: float,
    hard: Float[Tensor, "N D"] | None = None,
    hard_weight: float = 0.0,
    similarity: LossSimilarity = "cosine",
) -> Float[Tensor, ""]:
    """InfoNCE: the mean cross-entropy of classifying b[i] as a[i]'s positive among all rows of b.

    The loss of SimCSE's equation 1 (van den Oord et al. 2018, arXiv 1807.03748). Each
    sentence has N - 1 in-batch negatives.

    Args:
        a: The vectors of the sentences.
        b: The vectors of their positives.
        temperature: The number that similarities are divided by.
        hard: The vectors of their hard negatives: each sentence has 2N - 1 negatives
            then (equation 5).
        hard_weight: The logarithm of the paper's alpha, which is added to the logit of a
            sentence's own hard negative.
        similarity: The similarity function.
    """
    logits = similarities(a, b, similarity) / temperature
    if hard is not None:
        bonus = hard_weight * torch.eye(len(a), device=a.device)
        hard_logits = similarities(a, hard, similarity) / temperature + bonus
        logits = torch.cat([logits, hard_logits], dim=1)
    positives = torch.arange(len(a), device=a.device)
    return F.cross_entropy(logits, positives)


def nt_xent(
    a: Float[Tensor, "N D"],
    b: Float[Tensor, "N D"],
    temperature: float,
    similarity: LossSimilarity = "cosine",
) -> Float[Tensor, ""]:
    """NT-Xent: InfoNCE over the rows [a0, b0, a1, b1, ...], each against all other rows.

    Each row has one positive and 2N - 2 negatives. It is SimCLR's loss (Chen et al. 2020,
    arXiv 2002.05709), which the Keras version of SimCSE trains with.
    """
    z = torch.stack([a, b], dim=1).flatten(0, 1)  # (2N, D)
    is_itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    cosines = similarities(z, z, similarity).masked_fill(is_itself, -torch.inf)
    # The positive of row 2n is row 2n + 1, and the other way round.
    positives = torch.arange(len(z), device=z.device) ^ 1
    return F.cross_entropy(cosines / temperature, positives)


@dataclass(frozen=True)
class Contrastive:
    """The settings that the paper varies; the defaults are for unsupervised BERT-base.

    Args:
        setup: How the encoder is opened.
        batch: The number of examples in a step.
        epochs: The number of passes over the examples.
        learning_rate: The learning rate of the first step, which decays linearly.
        weight_decay: The weight decay of AdamW.
        clip: The largest norm of a gradient; with 0 gradients are not clipped.
        objective: The loss.
        similarity: The similarity function of the loss.
        temperature: The number that similarities are divided by in the loss.
        same_mask: Whether both views of a sentence have one dropout mask (Table 3).
        augmentation: The change of the words of the second view (Table 1): `none`, or
            the name of an `Augmentation`.
        hard_negatives: Whether a third column of examples is used.
        hard_weight: log(alpha) of Table 7.
        masked_words: The weight of the auxiliary masked-language-modelling loss (Table
            D.2).

    Raises:
        UsageError: The temperature is not above 0.
    """

    setup: Setup = field(default_factory=lambda: Setup(head="train"))
    batch: int = 64
    epochs: int = 1
    learning_rate: float = 3e-5
    weight_decay: float = 0.0
    clip: float = 1.0
    objective: ContrastiveObjective = "info-nce"
    similarity: LossSimilarity = "cosine"
    temperature: float = 0.05
    same_mask: bool = False
    augmentation: str = "none"
    hard_negatives: bool = True
    hard_weight: float = 0.0
    masked_words: float = 0.0

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise UsageError(f"wanted a temperature above 0, found {self.temperature}")

    @classmethod
    def unsupervised(cls, config: Mapping[str, Any]) -> Contrastive:
        """The paper's settings for the architecture and size in a checkpoint's config.json."""
        family = "roberta" if "roberta" in str(config.get("model_type")) else "bert"
        learning_rate, batch = UNSUPERVISED_SETTINGS[family, _size(config)]
        return cls(
            setup=Setup(head="train"),
            batch=batch,
            epochs=1,
            learning_rate=learning_rate,
        )

    @classmethod
    def supervised(cls, config: Mapping[str, Any]) -> Contrastive:
        """The paper's settings for triplets: three epochs, and the head is kept."""
        learning_rate, batch = SUPERVISED_SETTINGS[_size(config)]
        return cls(
            setup=Setup(head="keep"), batch=batch, epochs=3, learning_rate=learning_rate
        )

    def schedule(self, count: int) -> Schedule:
        """The learning rate over full epochs of `count` examples: linear decay, no warm-up."""
        steps = self.epochs * Batches(count, self.batch, seed=0).steps
        return Schedule(
            steps=steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            clip=self.clip,
        )

    def loss(
        self,
        a: Float[Tensor, "N D"],
        b: Float[Tensor, "N D"],
        hard: Float[Tensor, "N D"] | None = None,
    ) -> Float[Tensor, ""]:
        """The objective over two views and, where there are any, hard negatives."""
        if self.objective == "nt-xent":
            return nt_xent(a, b, self.temperature, self.similarity)
        return info_nce(
            a,
            b,
            self.temperature,
            hard=hard,
            hard_weight=self.hard_weight,
            similarity=self.similarity,
        )


def _size(config: Mapping[str, Any]) -> str:
    """The size of a model by its config.json: `base` or `large`."""
    return "large" if config.get("hidden_size", 0) >= LARGE_WIDTH else "base"


class ContrastiveTraining:
    """The training task of SimCSE over columns of equally many sentences.

    If there is one column, both views of a sentence are the sentence itself. Two or three
    columns hold sentences, their positives, and their hard negatives.

    Args:
        settings: The settings of the training.
        encoder: The encoder that is trained.
        columns: The sentences.
        seed: Seeds the order of examples, the augmentations and the masked words.
        masked: The head of masked words; it is given if they have a weight.

    Raises:
        UsageError: The settings and the columns do not go together.
    """

    def __init__(
        self,
        settings: Contrastive,
        encoder: SentenceEncoder,
        columns: Sequence[Sequence[str]],
        seed: int,
        masked: MaskedLMHead | None = None,
    ) -> None:
        if not settings.hard_negatives:
            columns = columns[:2]
        if len(columns) == 3 and settings.objective == "nt-xent":
            raise UsageError("nt-xent has no place for hard negatives; leave them out")
        is_augmented = settings.augmentation != "none"
        if settings.same_mask and (is_augmented or len(columns) > 1):
            raise UsageError(
                "one mask for both views needs one sentence seen twice, found other views"
            )
        if is_augmented and len(columns) > 1:
            raise UsageError(
                "an augmentation needs one sentence seen twice, found pairs"
            )
        self.settings = settings
        self.encoder = encoder
        self.columns = columns
        self.seed = seed
        self.masked = masked
        self.augmentation = None
        if is_augmented:
            self.augmentation = Augmentation(settings.augmentation)
        self.batches = Batches(len(columns[0]), settings.batch, seed)
        modules: dict[str, nn.Module] = {"encoder": encoder}
        if masked is not None:
            modules["masked"] = masked
        self.model: nn.Module = nn.ModuleDict(modules)

    def loss(self, step: int) -> Float[Tensor, ""]:
        """The loss of a step's batch, in nats."""
        views = self._views(step)
        token_ids = [ids for view in views for ids in view]
        vectors = self.encoder(token_ids).chunk(len(views))
        if len(vectors) == 1:  # both views are this one
            vectors = (*vectors, *vectors)
        loss = self.settings.loss(*vectors)
        if self.masked is not None:
            rng = np.random.default_rng((self.seed, 3, step, 0))
            masked_loss = self.masked.loss(self.encoder, token_ids, rng)
            loss = loss + self.settings.masked_words * masked_loss
        return loss

    def _views(self, step: int) -> list[TokenIds]:
        """The token ids of the batch's sentences, one list for each view.

        If both views are one sentence under one dropout mask, there is one list.
        """
        rows = self.batches(step)
        tokenizer = self.encoder.tokenizer
        views: list[TokenIds] = []
        for column in self.columns:
            views.append(tokenizer([column[row] for row in rows]))
        if self.augmentation is not None:
            rng = np.random.default_rng((self.seed, 5, step, 0))
            texts = [self.augmentation(self.columns[0][row], rng) for row in rows]
            views.append(tokenizer(texts))
        elif len(views) == 1 and not self.settings.same_mask:
            views.append(views[0])
        return views


@dataclass(frozen=True)
class Augmentation:
    """`crop:P`, `deletion:P` or `deletion:one`: P percent of the words, or one, are removed.

    Words are separated by blanks. A crop keeps a run of neighbouring words, a deletion
    removes words at random; at least one word remains. The paper does not say how counts
    are rounded; here it is to the nearest whole number.

    Raises:
        UsageError: The name has another form, or removes all words.
    """

    name: str

    def __post_init__(self) -> None:
        match = AUGMENTATION.fullmatch(self.name)
        is_valid = match is not None and self.name != "crop:one"
        if match is not None and match["amount"] != "one":
            is_valid = int(match["amount"]) <= 99
        if not is_valid:
            raise UsageError(
                f"--augmentation {self.name}: wanted crop:P or deletion:P, P percent from 0 to 99, "
                "or deletion:one"
            )

    def __call__(self, text: str, rng: np.random.Generator) -> str:
        """The text without the words that are removed."""
        words = text.split()
        kind, amount = self.name.split(":")
        removed_count = 1
        if amount != "one":
            removed_count = round(len(words) * int(amount) / 100)
        kept_count = max(1, len(words) - removed_count)
        if kept_count >= len(words):
            return text
        if kind == "crop":
            start = int(rng.integers(len(words) - kept_count + 1))
            return " ".join(words[start : start + kept_count])
        kept_indices = np.sort(rng.permutation(len(words))[:kept_count])
        return " ".join(words[index] for index in kept_indices)
