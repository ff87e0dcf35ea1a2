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

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float
from harness.core.errors import UsageError
from harness.encoders.kernels.padded import TokenIds
from harness.training.datasets import Batches, TextColumns
from harness.training.encoder import SentenceEncoder
from harness.training.loop import Schedule
from harness.training.masked_words import MaskedLMHead
from harness.training.recipes import LossSimilarity, Simcse, SimcseSup

AUGMENTATION = re.compile(r"(crop|deletion):(\d\d?)|(deletion):(one)")


# Losses


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


# The training


class ContrastiveTraining:
    """The training task of SimCSE.

    Args:
        recipe: The settings of the training.
        encoder: The encoder that is trained.
        columns: The sentences; for `SimcseSup` also their positives and, in a third
            column, hard negatives.
        masked: The head of masked words; it is given if they have a weight.

    Attributes:
        batches: The examples of each step.
        schedule: The learning rate of each step: linear decay, no warm-up.
    """

    def __init__(
        self,
        recipe: Simcse,
        encoder: SentenceEncoder,
        columns: TextColumns,
        masked: MaskedLMHead | None = None,
    ) -> None:
        self.recipe = recipe
        self.encoder = encoder
        self.columns = columns
        self.masked = masked
        batch, learning_rate = recipe.pace(encoder.model_type, encoder.size)
        self.batches = Batches(len(columns[0]), batch, recipe.seed)
        self.schedule = Schedule(
            steps=recipe.epochs * self.batches.steps,
            learning_rate=learning_rate,
            weight_decay=recipe.weight_decay,
            clip=recipe.clip,
        )
        modules: dict[str, nn.Module] = {"encoder": encoder}
        if masked is not None:
            modules["masked"] = masked
        self.model: nn.Module = nn.ModuleDict(modules)

    def loss(self, step: int) -> Float[Tensor, ""]:
        """The loss of a step's batch, in nats."""
        recipe = self.recipe
        views = self._views(step)
        token_ids = [ids for view in views for ids in view]
        vectors = self.encoder(token_ids).chunk(len(views))
        if isinstance(recipe, SimcseSup):
            loss = info_nce(
                vectors[0],
                vectors[1],
                recipe.temperature,
                hard=vectors[2] if len(vectors) > 2 else None,
                hard_weight=recipe.hard_weight,
                similarity=recipe.similarity,
            )
        else:
            objective = nt_xent if recipe.objective == "nt-xent" else info_nce
            # Under one mask the first view is the last one.
            loss = objective(
                vectors[0],
                vectors[-1],
                recipe.temperature,
                similarity=recipe.similarity,
            )
        if self.masked is not None:
            rng = np.random.default_rng((recipe.seed, 3, step, 0))
            masked_loss = self.masked.loss(self.encoder, token_ids, rng)
            loss = loss + recipe.masked_words * masked_loss
        return loss

    def _views(self, step: int) -> list[TokenIds]:
        """The token ids of the batch's sentences, one list for each view.

        If both views are one sentence under one dropout mask, there is one list.
        """
        recipe = self.recipe
        rows = self.batches(step)
        tokenizer = self.encoder.tokenizer
        columns = [[column[row] for row in rows] for column in self.columns]
        views: list[TokenIds] = [tokenizer(texts) for texts in columns]
        if isinstance(recipe, SimcseSup):
            return views if recipe.hard_negatives else views[:2]
        if recipe.augmentation != "none":
            rng = np.random.default_rng((recipe.seed, 5, step, 0))
            texts = [augmented(text, recipe.augmentation, rng) for text in columns[0]]
            views.append(tokenizer(texts))
        elif not recipe.same_mask:
            views.append(views[0])
        return views


def augmented(text: str, augmentation: str, rng: np.random.Generator) -> str:
    """The text without some of its words, which blanks separate; at least one remains.

    The paper does not say how counts are rounded; here it is to the nearest whole number.

    Args:
        text: A sentence.
        augmentation: `crop:P`, `deletion:P` or `deletion:one`: P percent of the words, or
            one, are removed. A crop keeps a run of neighbouring words, a deletion removes
            words at random.
        rng: Draws the words.

    Raises:
        UsageError: The augmentation has another form, or removes all words.
    """
    kind, _, amount = augmentation.partition(":")
    if AUGMENTATION.fullmatch(augmentation) is None:
        raise UsageError(
            f"--augmentation {augmentation}: wanted crop:P or deletion:P, P percent from 0 to 99, "
            "or deletion:one"
        )
    words = text.split()
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
