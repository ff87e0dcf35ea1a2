"""SimCSE: contrastive learning of sentence embeddings (Gao et al. 2021, arXiv 2104.08821).

Unsupervised, a sentence and itself under another dropout mask agree; supervised, a
sentence and an entailed one, with a contradiction as a hard negative. Two variants of
the paper are here as well: discrete augmentations of the second view (Table 1) and
masked language modelling as an auxiliary objective (section 4.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig

from harness.core.arrays import Float, Int64
from harness.core.digests import digest_of_files, one_reading
from harness.core.errors import DataError, UsageError
from harness.encoders.checkpoint import read_tensors, weights_files
from harness.encoders.kernels.padded import filled
from harness.training.datasets import Batches
from harness.training.encoder import (
    SentenceEncoder,
    Setup,
    TokenIds,
    backward_in_chunks,
    token_chunks,
    with_loss_scaling,
)
from harness.training.loop import Schedule

LossSimilarity = Literal["cosine", "dot"]
ContrastiveObjective = Literal["info-nce", "nt-xent"]

# Learning rate and batch size (paper, appendix A), as in the released models' table.
UNSUPERVISED_SETTINGS = {
    ("bert", "base"): (3e-5, 64),
    ("bert", "large"): (1e-5, 64),
    ("roberta", "base"): (1e-5, 512),
    ("roberta", "large"): (3e-5, 512),
}
SUPERVISED_SETTINGS = {"base": (5e-5, 512), "large": (1e-5, 512)}
LARGE_WIDTH = 1024  # dimensions
MASKED_SHARE = 0.15  # the share of word pieces that is masked
AUGMENTATION = re.compile(r"(crop|deletion):(one|\d+)")


def similarities(
    a: Float[Tensor, "N D"], b: Float[Tensor, "M D"], kind: LossSimilarity = "cosine"
) -> Float[Tensor, "N M"]:
    """The cosine or dot product of every row of a with every row of b."""
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

    The loss of SimCSE's equation 1 (van den Oord et al. 2018, arXiv 1807.03748): each
    sentence has N - 1 in-batch negatives, with `hard` 2N - 1 (equation 5).
    `hard_weight`, the logarithm of the paper's alpha, is added to the logit of a
    sentence's own hard negative.
    """
    logits = similarities(a, b, similarity) / temperature
    if hard is not None:
        bonus = hard_weight * torch.eye(len(a), device=a.device)
        logits = torch.cat(
            [logits, similarities(a, hard, similarity) / temperature + bonus], dim=1
        )
    return F.cross_entropy(logits, torch.arange(len(a), device=a.device))


def nt_xent(
    a: Float[Tensor, "N D"],
    b: Float[Tensor, "N D"],
    temperature: float,
    similarity: LossSimilarity = "cosine",
) -> Float[Tensor, ""]:
    """NT-Xent: InfoNCE over the rows [a0, b0, a1, b1, ...], each classified among all others.

    2N - 2 negatives a row: SimCLR's loss (Chen et al. 2020, arXiv 2002.05709), which
    the Keras version of SimCSE trains with.
    """
    z = torch.stack([a, b], dim=1).flatten(0, 1)  # (2N, D)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    logits = (
        similarities(z, z, similarity).masked_fill(itself, -torch.inf) / temperature
    )
    return F.cross_entropy(logits, torch.arange(len(z), device=z.device) ^ 1)


@dataclass(frozen=True)
class Contrastive:
    """The settings that the paper varies; the defaults are those of unsupervised BERT-base.

    `same_mask` gives both views one dropout mask (Table 3), and `augmentation` changes
    the words of the second one (Table 1); `hard_weight` is log(alpha) of Table 7,
    `masked_words` the weight of the auxiliary masked-language-modelling loss (Table
    D.2). A `clip` of 0 bounds no gradient. `tokens_at_once` bounds memory and changes
    neither the loss nor the negatives.
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
    tokens_at_once: int = 8192

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.masked_words < 0:
            raise UsageError(
                "wanted a temperature above 0 and a weight of masked words of 0 or more, found "
                f"{self.temperature} and {self.masked_words}"
            )

    @classmethod
    def unsupervised(cls, config: Mapping[str, Any]) -> Contrastive:
        """The paper's settings for the architecture and size in a checkpoint's config.json."""
        family = "roberta" if "roberta" in str(config.get("model_type")) else "bert"
        learning_rate, batch = UNSUPERVISED_SETTINGS[family, _size(config)]
        return cls(Setup(head="train"), batch, 1, learning_rate)

    @classmethod
    def supervised(cls, config: Mapping[str, Any]) -> Contrastive:
        """The paper's settings for triplets: three epochs, and the head is kept."""
        learning_rate, batch = SUPERVISED_SETTINGS[_size(config)]
        return cls(Setup(head="keep"), batch, 3, learning_rate)

    def schedule(self, count: int) -> Schedule:
        """Full epochs over so many examples: linear learning-rate decay, no warm-up."""
        steps = self.epochs * Batches(count, self.batch, 0).steps
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
        return info_nce(a, b, self.temperature, hard, self.hard_weight, self.similarity)


def _size(config: Mapping[str, Any]) -> str:
    return "large" if config.get("hidden_size", 0) >= LARGE_WIDTH else "base"


class ContrastiveTraining:
    """The training task of SimCSE over columns of equally many sentences.

    One column: both views are the sentence itself. Two or three: sentence, positive,
    hard negative.
    """

    def __init__(
        self,
        settings: Contrastive,
        encoder: SentenceEncoder,
        columns: Sequence[Sequence[str]],
        seed: int,
        masked: MaskedLMHead | None = None,
    ) -> None:
        columns = columns if settings.hard_negatives else columns[:2]
        if len(columns) == 3 and settings.objective == "nt-xent":
            raise UsageError("nt-xent has no place for hard negatives; leave them out")
        if settings.same_mask and len(columns) > 1:
            raise UsageError(
                "one mask for both views needs one sentence seen twice, found pairs"
            )
        augmented = settings.augmentation != "none"
        if augmented and (settings.same_mask or len(columns) > 1):
            raise UsageError(
                "an augmentation needs one sentence seen twice, under two masks"
            )
        self.augment = Augmentation(settings.augmentation) if augmented else None
        if (masked is None) != (settings.masked_words == 0):
            raise UsageError(
                "masked words need a weight above 0 and a head, both or neither"
            )
        self.settings, self.encoder, self.columns, self.seed = (
            settings,
            encoder,
            columns,
            seed,
        )
        self.masked = masked
        self.batches = Batches(len(columns[0]), settings.batch, seed)
        modules = {"encoder": encoder} | ({} if masked is None else {"masked": masked})
        self.model: nn.Module = nn.ModuleDict(modules)

    def backward(self, step: int) -> float:
        """Add the gradient of a step's batch; return its loss, in nats."""
        settings, encoder, head = self.settings, self.encoder, self.masked
        rows = [row for view in self._views(step) for row in view]

        def backward(scale: float) -> float:
            loss = backward_in_chunks(
                encoder, rows, lambda z: scale * self._loss(z), settings.tokens_at_once
            )
            if head is not None:
                rng = np.random.default_rng((self.seed, 3, step, 0))
                weight = scale * settings.masked_words
                loss += head.backward(
                    encoder, rows, weight, settings.tokens_at_once, rng
                )
            return loss

        half = settings.setup.precision == "fp16"
        return with_loss_scaling(backward, self.model.parameters(), half)

    def _views(self, step: int) -> list[TokenIds]:
        """The token ids of the batch, one list a view."""
        batch = self.batches(step)
        views: list[TokenIds] = [
            self.encoder.tokenizer([column[row] for row in batch])
            for column in self.columns
        ]
        if self.augment is not None:
            rng = np.random.default_rng((self.seed, 5, step, 0))
            second = [self.augment(self.columns[0][row], rng) for row in batch]
            return [*views, self.encoder.tokenizer(second)]
        return views * 2 if len(views) == 1 and not self.settings.same_mask else views

    def _loss(self, z: Float[Tensor, "all D"]) -> Float[Tensor, ""]:
        count = (
            len(self.columns) if len(self.columns) > 1 or self.settings.same_mask else 2
        )
        views = z.chunk(count)
        return self.settings.loss(*(views * 2 if count == 1 else views))


@dataclass(frozen=True)
class Augmentation:
    """`crop:P`, `deletion:P` or `deletion:one`, which take P percent of the words, or one, away.

    Words are what blanks separate. A crop keeps a run of neighbouring words, a deletion
    takes words out at random; at least one word is left. The paper does not say how
    counts are rounded: here to the nearest whole number.

    Raises:
        UsageError: The name has another form, or takes everything away.
    """

    name: str

    def __post_init__(self) -> None:
        match = AUGMENTATION.fullmatch(self.name)
        if (
            match is None
            or self.name == "crop:one"
            or (match[2] != "one" and int(match[2]) > 99)
        ):
            raise UsageError(
                f"--augmentation {self.name}: wanted crop:P or deletion:P, P percent from 0 to 99, "
                "or deletion:one"
            )

    def __call__(self, text: str, rng: np.random.Generator) -> str:
        """The text without the words that are taken away."""
        words = text.split()
        kind, amount = self.name.split(":")
        taken = 1 if amount == "one" else round(len(words) * int(amount) / 100)
        kept_count = max(1, len(words) - taken)
        if kept_count >= len(words):
            return text
        if kind == "crop":
            start = int(rng.integers(len(words) - kept_count + 1))
            return " ".join(words[start : start + kept_count])
        kept = np.sort(rng.permutation(len(words))[:kept_count])
        return " ".join(words[n] for n in kept)


class MaskedLMHead(nn.Module):
    """The head of a masked language model: token states to logits over the vocabulary.

    As in SimCSE's released code, every view of a sentence is masked anew, and the
    head's output embeddings are not tied to the encoder's.
    """

    def __init__(
        self, head: nn.Module, special: Sequence[int], mask_id: int, vocabulary: int
    ):
        super().__init__()
        self.head, self.special = head, tuple(special)
        self.mask_id, self.vocabulary = mask_id, vocabulary

    def backward(
        self,
        encoder: SentenceEncoder,
        rows: TokenIds,
        weight: float,
        chunk_tokens: int,
        rng: np.random.Generator,
    ) -> float:
        """Add the gradient of weight times the mean cross-entropy over the masked word pieces."""
        rows = sorted(rows, key=len)
        ids = np.concatenate([np.array(row, np.int64) for row in rows])[None]
        masked_ids, places = mask(
            ids, MASKED_SHARE, self.vocabulary, self.special, self.mask_id, rng
        )
        starts = np.cumsum([0, *map(len, rows)])
        total = 0.0
        for chunk in token_chunks(rows, chunk_tokens):
            first, end = starts[chunk.start], starts[chunk.stop]
            inside = places[(places >= first) & (places < end)]
            if len(inside) == 0:
                continue
            masked_rows = [
                row.tolist() for row in np.split(masked_ids[0], starts[1:-1])[chunk]
            ]
            states = encoder.tokens(masked_rows)
            with encoder.autocast():
                logits = self.head(
                    states[torch.from_numpy(inside - first).to(states.device)]
                )
            labels = torch.from_numpy(ids[0, inside]).to(states.device)
            loss = F.cross_entropy(logits.float(), labels, reduction="sum")
            loss = weight * loss / len(places)
            torch.autograd.backward(loss)
            total += loss.item()
        return total


def mask(
    ids: Int64[np.ndarray, "B T"],
    share: float,
    vocabulary: int,
    special: Sequence[int],
    mask_id: int,
    rng: np.random.Generator,
) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, " M"]]:
    """Mask a share of the word pieces, at least one (BERT, section 3.1).

    Returns the ids with masks and the flat places of the masked pieces. Raises
    UsageError where every token is a special one.
    """
    free = np.flatnonzero(~np.isin(ids, special))
    if len(free) == 0:
        raise UsageError("no word piece to hide: every token is a special one")
    places = np.sort(rng.permutation(free)[: max(1, round(share * len(free)))])
    fate = rng.random(len(places))
    masked = ids.reshape(-1).copy()
    masked[places[fate < 0.8]] = mask_id
    random = (fate >= 0.8) & (fate < 0.9)
    masked[places[random]] = rng.integers(len(special), vocabulary, random.sum())
    return masked.reshape(ids.shape), places


@one_reading()
def open_mlm_head(
    name: str, folder: Path, cache: Path, encoder: SentenceEncoder
) -> MaskedLMHead:
    """The masked-LM head that the checkpoint in a folder holds, of which the encoder was opened."""
    if digest_of_files(weights_files(folder)) != encoder.start_sha256:
        raise DataError(f"{folder}: its weights changed while it was opened; run again")
    tensors = read_tensors(folder, cache)
    config = AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise UsageError(
            f"{name}: this architecture models no masked words; leave them out"
        )
    model, loading = filled(MODEL_FOR_MASKED_LM_MAPPING[type(config)], config, tensors)
    heads = [
        child for key, child in model.named_children() if key != model.base_model_prefix
    ]
    if len(heads) != 1:
        raise UsageError(
            f"{name}: wanted one head over masked words, found {len(heads)} parts"
        )
    missing = [
        k for k in loading["missing_keys"] if not k.startswith(model.base_model_prefix)
    ]
    if missing:
        raise DataError(
            f"{name}: the checkpoint lacks {missing[0]}, wanted its whole head over masked words; "
            "take one that was pretrained with it, or leave masked words out"
        )
    tokenizer = encoder.tokenizer.tokenizer
    head = MaskedLMHead(
        heads[0], tokenizer.all_special_ids, tokenizer.mask_token_id, len(tokenizer)
    )
    return head.to(encoder.setup.device)
