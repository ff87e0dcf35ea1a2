"""The objectives of SimCSE and SBERT, and the training that minimises one of them.

SimCSE (Gao et al. 2021, arXiv 2104.08821) draws the vectors of two views of a sentence
together, and apart from the other vectors of the batch. In the unsupervised form the
views are the sentence under two dropout masks; in the supervised form they are a sentence
and an entailed one, with a contradiction as a hard negative. Two variants of the paper
are here as well: discrete augmentations of the second view (Table 1), and masked language
modelling as an auxiliary objective (section 4.3).

SBERT (Reimers & Gurevych 2019, arXiv 1908.10084) sends both sentences of a pair through
one encoder: to a classifier of labelled pairs (softmax), or to the cosine of scored pairs
(regression).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import MODEL_FOR_MASKED_LM_MAPPING

from harness.core.arrays import Float, Int64
from harness.core.errors import DataError, UsageError
from harness.encoders.kernels.loading import model_with_weights
from harness.encoders.kernels.passes import TokenIds
from harness.encoders.kernels.tokenizing import open_config
from harness.encoders.weights import read_tensors
from harness.training.datasets import NLI_LABELS, Batches, TextColumns
from harness.training.encoder import SentenceEncoder
from harness.training.recipes import (
    LossSimilarity,
    Sbert,
    SbertNli,
    SbertSts,
    Simcse,
    SimcseSup,
    SimcseUnsup,
    pace,
)

SBERT_WARMUP = 0.1  # the share of SBERT's steps in which the learning rate rises

MASKED_SHARE = 0.15  # of word pieces that are masked
# Of the masked pieces, the shares that become the mask token, and a random piece. All
# others stay as they are.
MASK_TOKEN_SHARE = 0.8
RANDOM_SHARE = 0.1


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


# The training


@dataclass(frozen=True)
class Schedule:
    """AdamW with linear warm-up, and linear decay to 0 after it.

    Args:
        steps: The number of steps.
        learning_rate: The highest learning rate.
        warmup: The number of steps in which the rate rises to it. The first of them has
            a rate above 0, which transformers' has not.
        weight_decay: The decoupled weight decay (Loshchilov & Hutter 2019, arXiv
            1711.05101) of matrices; biases and norms do not decay.
        epsilon: The number that is added to the denominator.
        clip: The largest norm of the whole gradient; with 0 it is not clipped.
    """

    steps: int
    learning_rate: float
    warmup: int = 0
    weight_decay: float = 0.0
    epsilon: float = 1e-8
    clip: float = 1.0

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = (step + 1) / self.warmup if self.warmup else 1.0
        falling_share = 1 - self.warmup / self.steps
        fall = (self.steps - step) / (falling_share * self.steps)
        return self.learning_rate * min(1.0, rise, fall)


class EncoderTraining:
    """The training of an encoder by SimCSE or SBERT.

    Args:
        recipe: The settings of the training.
        encoder: The encoder that is trained.
        columns: The sentences; their positives, or the second sentences of pairs; and in
            a third column, hard negatives.
        targets: The label of each pair for `SbertNli`, its score from 0 to 1 for
            `SbertSts`.

    Attributes:
        batches: The examples of each step.
        schedule: The learning rate of each step: linear decay, after SBERT's warm-up.
        classifier: The classifier of softmax, and `masked` the head over masked words,
            which no checkpoint stores; None where the recipe has none.
    """

    def __init__(
        self,
        recipe: Simcse | Sbert,
        encoder: SentenceEncoder,
        columns: TextColumns,
        targets: Sequence[str] | Sequence[float] = (),
    ) -> None:
        self.recipe = recipe
        self.encoder = encoder
        self.columns = columns
        batch, rate = pace(recipe, encoder.model_type, encoder.size)
        warmup = SBERT_WARMUP if isinstance(recipe, Sbert) else 0.0
        self.batches = Batches(len(columns[0]), batch, recipe.seed)
        steps = recipe.epochs * self.batches.steps
        self.schedule = Schedule(
            steps=steps,
            learning_rate=rate,
            warmup=math.ceil(warmup * steps),
            weight_decay=recipe.weight_decay,
            clip=recipe.clip,
        )
        modules: dict[str, nn.Module] = {"encoder": encoder}
        self.classifier: Any = None
        if isinstance(recipe, SbertNli):
            targets = [NLI_LABELS.index(str(label)) for label in targets]
            self.classifier = modules["classifier"] = _new_classifier(encoder)
        self.targets = torch.tensor(targets)
        self.masked: MaskedLMHead | None = None
        if isinstance(recipe, Simcse) and recipe.masked_words:
            self.masked = modules["masked"] = MaskedLMHead(encoder)
        self.model: nn.Module = nn.ModuleDict(modules)

    def loss(self, step: int) -> Float[Tensor, ""]:
        """The loss of a step's batch, in nats but for the regression of scores."""
        recipe = self.recipe
        rows = self.batches(step)
        views = self._views(rows, step)
        token_ids = list(chain.from_iterable(views))
        vectors = self.encoder(token_ids).chunk(len(views))
        # Under one mask the first view is the last one.
        first, last = vectors[0], vectors[-1]
        match recipe:
            case SbertSts():
                scores = self.targets[torch.tensor(rows)].to(first.device)
                return F.mse_loss(F.cosine_similarity(first, last), scores)
            case SbertNli():
                labels = self.targets[torch.tensor(rows)].to(first.device)
                return softmax_nli(first, last, labels, *self.classifier.parameters())
            case SimcseSup():
                loss = info_nce(
                    first,
                    vectors[1],
                    recipe.temperature,
                    hard=last if len(vectors) > 2 else None,
                    hard_weight=recipe.hard_weight,
                    similarity=recipe.similarity,
                )
            case SimcseUnsup():
                objective = nt_xent if recipe.objective == "nt-xent" else info_nce
                loss = objective(
                    first, last, recipe.temperature, similarity=recipe.similarity
                )
        if self.masked is not None:
            rng = np.random.default_rng((recipe.seed, 3, step, 0))
            masked_loss = self.masked.loss(self.encoder, token_ids, rng)
            loss = loss + recipe.masked_words * masked_loss
        return loss

    def _views(self, rows: Int64[np.ndarray, " B"], step: int) -> list[TokenIds]:
        """The token ids of the sentences in these rows, one list for each view.

        If both views are one sentence under one dropout mask, there is one list.
        """
        recipe, tokenizer = self.recipe, self.encoder.tokenizer
        columns = self.columns
        if isinstance(recipe, SimcseSup) and not recipe.hard_negatives:
            columns = columns[:2]
        texts = [[column[row] for row in rows] for column in columns]
        views: list[TokenIds] = [tokenizer(texts_of_view) for texts_of_view in texts]
        if not isinstance(recipe, SimcseUnsup):
            return views
        if recipe.augmentation != "none":
            rng = np.random.default_rng((recipe.seed, 5, step, 0))
            fewer = [augmented(text, recipe.augmentation, rng) for text in texts[0]]
            views.append(tokenizer(fewer))
        elif not recipe.same_mask:
            views.append(views[0])
        return views


def _new_classifier(encoder: SentenceEncoder) -> nn.Linear:
    """SBERT's classifier, initialised as `nn.Linear` is, from a generator of its own."""
    rng = np.random.default_rng((encoder.recipe.seed, 4))
    inputs = 3 * encoder.size
    classifier = nn.Linear(inputs, len(NLI_LABELS))
    bound = 1 / math.sqrt(inputs)
    with torch.no_grad():
        for parameter in classifier.parameters():
            values = rng.uniform(-bound, bound, size=parameter.shape)
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))
    return classifier.to(encoder.recipe.device)


def augmented(text: str, augmentation: str, rng: np.random.Generator) -> str:
    """The text without some of its words, which blanks separate; at least one remains.

    The paper does not say how counts are rounded; here it is to the nearest whole number.

    Args:
        text: A sentence.
        augmentation: `crop:P`, `deletion:P` or `deletion:one`: P percent of the words, or
            one, are removed. A crop keeps a run of neighbouring words, a deletion removes
            words at random.
        rng: Draws the words.
    """
    kind, _, amount = augmentation.partition(":")
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


# Masked words


class MaskedLMHead(nn.Module):
    """The head of a masked language model: token states to logits over the vocabulary.

    As in SimCSE's released code, every view of a sentence is masked anew, and the output
    embeddings of the head are not tied to the encoder's.

    Args:
        encoder: The encoder, whose folder holds the head.

    Raises:
        UsageError: The architecture has no such head.
        DataError: The checkpoint lacks a part of it.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        name, folder = encoder.tokenizer.name, encoder.folder
        config = open_config(folder)
        if type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
            raise UsageError(
                f"{name}: this architecture models no masked words; leave them out"
            )
        architecture = MODEL_FOR_MASKED_LM_MAPPING[type(config)]
        tensors = read_tensors(folder)
        model, loading = model_with_weights(architecture, config, tensors)
        encoder_name = model.base_model_prefix
        for weight_name in loading["missing_keys"]:
            if not weight_name.startswith(encoder_name):
                raise DataError(
                    f"{name}: the checkpoint lacks {weight_name}, wanted its complete head over "
                    "masked words; take one that was pretrained with it, or leave masked words out"
                )
        heads = [
            child
            for child_name, child in model.named_children()
            if child_name != encoder_name
        ]
        if len(heads) != 1:
            raise UsageError(
                f"{name}: wanted one head over masked words, found {len(heads)} parts"
            )
        self.head = heads[0].to(encoder.recipe.device)
        self.tokenizer = encoder.tokenizer.tokenizer

    def loss(
        self, encoder: SentenceEncoder, token_ids: TokenIds, rng: np.random.Generator
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy over the masked word pieces, in nats.

        Args:
            encoder: The encoder that is trained.
            token_ids: The token ids of the sentences of a batch.
            rng: Draws the pieces that are masked.
        """
        sentences = sorted(token_ids, key=len)
        ids = np.concatenate([np.array(sentence, np.int64) for sentence in sentences])
        masked_ids, positions = mask(
            ids,
            vocabulary=len(self.tokenizer),
            special_ids=self.tokenizer.all_special_ids,
            mask_id=self.tokenizer.mask_token_id,
            rng=rng,
        )
        ends = np.cumsum([len(sentence) for sentence in sentences])
        masked_sentences = np.split(masked_ids, ends[:-1])
        states = encoder.tokens([sentence.tolist() for sentence in masked_sentences])
        rows = torch.from_numpy(positions).to(states.device)
        labels = torch.from_numpy(ids[positions]).to(states.device)
        with encoder.autocast():
            logits = self.head(states[rows])
        return F.cross_entropy(logits.float(), labels)


def mask(
    ids: Int64[np.ndarray, " T"],
    vocabulary: int,
    special_ids: Sequence[int],
    mask_id: int,
    rng: np.random.Generator,
) -> tuple[Int64[np.ndarray, " T"], Int64[np.ndarray, " M"]]:
    """Mask 15 % of the word pieces, and at least one (BERT, section 3.1).

    Args:
        ids: The ids of tokens.
        vocabulary: The number of ids in the vocabulary.
        special_ids: The ids of special tokens, which are never masked.
        mask_id: The id of the mask token.
        rng: Draws the pieces that are masked, and what replaces them.

    Returns:
        The ids with the masks, and the positions of the masked pieces, ascending.
    """
    maskable = np.flatnonzero(~np.isin(ids, special_ids))
    count = max(1, round(MASKED_SHARE * len(maskable)))
    positions = np.sort(rng.permutation(maskable)[:count])
    draws = rng.random(count)
    becomes_mask = draws < MASK_TOKEN_SHARE
    becomes_random = ~becomes_mask & (draws < MASK_TOKEN_SHARE + RANDOM_SHARE)
    masked_ids = ids.copy()
    masked_ids[positions[becomes_mask]] = mask_id
    # The first ids of a vocabulary are taken to be the special tokens.
    random_ids = rng.integers(len(special_ids), vocabulary, becomes_random.sum())
    masked_ids[positions[becomes_random]] = random_ids
    return masked_ids, positions
