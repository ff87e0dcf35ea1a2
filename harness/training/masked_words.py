"""Masked language modelling as an auxiliary objective of SimCSE (paper, section 4.3).

As in SimCSE's released code, every view of a sentence is masked anew, and the output
embeddings of the head are not tied to the encoder's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig

from harness.core.arrays import Float, Int64
from harness.core.errors import DataError, UsageError
from harness.encoders.kernels.loading import model_with_weights
from harness.encoders.kernels.padded import TokenIds
from harness.encoders.weights import read_tensors
from harness.training.encoder import SentenceEncoder

MASKED_SHARE = 0.15  # of word pieces that are masked
# Of the masked pieces, the shares that become the mask token, and a random piece. All
# others stay as they are.
MASK_TOKEN_SHARE = 0.8
RANDOM_SHARE = 0.1


class MaskedLMHead(nn.Module):
    """The head of a masked language model: token states to logits over the vocabulary.

    Args:
        name: The name of the checkpoint, for messages.
        folder: Its folder, which holds the head.
        encoder: The encoder that was opened from the same folder.

    Raises:
        UsageError: The architecture has no such head.
        DataError: The checkpoint lacks a part of it.
    """

    def __init__(self, name: str, folder: Path, encoder: SentenceEncoder) -> None:
        super().__init__()
        config = AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
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

    Raises:
        UsageError: Every token is a special one.
    """
    maskable = np.flatnonzero(~np.isin(ids, special_ids))
    if len(maskable) == 0:
        raise UsageError("no word piece to mask: every token is a special one")
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
