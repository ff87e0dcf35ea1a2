"""Masked language modelling as an auxiliary objective, with the checkpoint's own head for it.

SimCSE (Gao et al. 2021, arXiv 2104.08821, section 4.3 and Table D.2) adds it at a weight of 0.1. As
in the released code, every view of a sentence is masked anew, and the output embeddings of the head
are its own from the start, not tied to the encoder's.
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
from harness.core.files import digest_of_files, sha256_of
from harness.encoders.checkpoint import read_tensors, weights_files
from harness.encoders.kernels.padded import filled
from harness.training.encoder import SentenceEncoder, TokenIds, token_chunks

MASKED = 0.15  # the share of word pieces that is masked


class MaskedLMHead(nn.Module):
    """The head of a masked language model: token states to logits over the vocabulary."""

    def __init__(self, head: nn.Module, special: Sequence[int], mask_id: int, vocabulary: int):
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
        """Add the gradient of weight times the mean cross-entropy over the masked word pieces.

        At most `chunk_tokens` tokens are in memory at a time. Returns the weighted loss.
        """
        rows = sorted(rows, key=len)
        ids = np.concatenate([np.array(row, np.int64) for row in rows])[None]
        masked_ids, places = mask(ids, MASKED, self.vocabulary, self.special, self.mask_id, rng)
        starts = np.cumsum([0, *map(len, rows)])
        total = 0.0
        for chunk in token_chunks(rows, chunk_tokens):
            first, end = starts[chunk.start], starts[chunk.stop]
            inside = places[(places >= first) & (places < end)]
            if len(inside) == 0:
                continue
            masked_rows = [row.tolist() for row in np.split(masked_ids[0], starts[1:-1])[chunk]]
            loss = self._cross_entropy(encoder, masked_rows, inside - first, ids[0, inside])
            loss = weight * loss / len(places)
            torch.autograd.backward(loss)
            total += loss.item()
        return total

    def _cross_entropy(
        self,
        encoder: SentenceEncoder,
        rows: TokenIds,
        places: Int64[np.ndarray, " M"],
        targets: Int64[np.ndarray, " M"],
    ) -> Float[Tensor, ""]:
        """The sum over these places of the concatenated rows."""
        states = encoder.tokens(rows)
        with encoder.autocast():
            logits = self.head(states[torch.from_numpy(places).to(states.device)])
        labels = torch.from_numpy(targets).to(states.device)
        return F.cross_entropy(logits.float(), labels, reduction="sum")


def mask(
    ids: Int64[np.ndarray, "B T"],
    share: float,
    vocabulary: int,
    special: Sequence[int],
    mask_id: int,
    rng: np.random.Generator,
) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, " M"]]:
    """Mask a share of the word pieces, at least one (BERT, section 3.1).

    Returns the ids with masks and the flat places of the masked pieces. Raises UsageError where
    every token is a special one.
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


def open_mlm_head(name: str, folder: Path, cache: Path, encoder: SentenceEncoder) -> MaskedLMHead:
    """The masked-LM head that the checkpoint in a folder holds.

    Raises DataError if the checkpoint lacks weights of it, UsageError if its architecture has none.
    """
    files = weights_files(folder)
    tensors = read_tensors(files, digest_of_files(files, sha256_of), cache)
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise UsageError(f"{name}: this architecture models no masked words; leave them out")
    model, loading = filled(MODEL_FOR_MASKED_LM_MAPPING[type(config)], config, tensors)
    heads = [child for key, child in model.named_children() if key != model.base_model_prefix]
    if len(heads) != 1:
        raise UsageError(f"{name}: wanted one head over masked words, found {len(heads)} parts")
    missing = [k for k in loading["missing_keys"] if not k.startswith(model.base_model_prefix)]
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
