"""Masked language modelling beside another objective, with the checkpoint's own head for it.

SimCSE (Gao et al. 2021, section 4.3 and Table D.2) adds it at a weight of 0.1. As in the released
code, every view of a sentence is hidden anew, and the head's vectors are its own from the start,
not tied to the encoder's.
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
from harness.core.digests import digest_of_files, sha256_of
from harness.core.errors import DataError, UsageError
from harness.encoders.checkpoint import read_tensors, weights_files
from harness.encoders.kernels.padded import filled
from harness.training.encoder import SentenceEncoder, portions
from harness.training.mlm import mask
from harness.training.packing import Rows


class MaskedWords(nn.Module):
    """A head over tokens that tells which word piece stood there."""

    def __init__(self, head: nn.Module, special: Sequence[int], mask_id: int, vocabulary: int):
        super().__init__()
        self.head, self.special = head, tuple(special)
        self.mask_id, self.vocabulary = mask_id, vocabulary

    def backward(
        self,
        tower: SentenceEncoder,
        rows: Rows,
        share: float,
        weight: float,
        at_once: int,
        rng: np.random.Generator,
    ) -> float:
        """Add the gradient of weight times the mean cross-entropy over the hidden pieces."""
        rows = sorted(rows, key=len)
        ids = np.concatenate([np.array(row, np.int64) for row in rows])[None]
        hidden, places = mask(ids, share, self.vocabulary, self.special, self.mask_id, rng)
        starts = np.cumsum([0, *map(len, rows)])
        total = 0.0
        for part in portions(rows, at_once):
            first, end = starts[part.start], starts[part.stop]
            here = places[(places >= first) & (places < end)]
            if len(here) == 0:
                continue
            cut = np.split(hidden[0], starts[1:-1])[part]
            loss = self._lost(tower, [row.tolist() for row in cut], here - first, ids[0, here])
            loss = weight * loss / len(places)
            torch.autograd.backward(loss)
            total += loss.item()
        return total

    def _lost(
        self,
        tower: SentenceEncoder,
        rows: Rows,
        places: Int64[np.ndarray, " M"],
        wanted: Int64[np.ndarray, " M"],
    ) -> Float[Tensor, ""]:
        """The cross-entropy of what stood at these places of the rows, summed."""
        states = tower.tokens(rows)
        with tower.autocast():
            logits = self.head(states[torch.from_numpy(places).to(states.device)])
        labels = torch.from_numpy(wanted).to(states.device)
        return F.cross_entropy(logits.float(), labels, reduction="sum")


def open_masked_words(name: str, folder: Path, cache: Path, tower: SentenceEncoder) -> MaskedWords:
    """The head that the checkpoint holds. Raises DataError if it holds none."""
    files = weights_files(folder)
    tensors = read_tensors(files, digest_of_files(files, sha256_of), cache)
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise UsageError(f"{name}: this architecture models no masked words; leave them out")
    model, found = filled(MODEL_FOR_MASKED_LM_MAPPING[type(config)], config, tensors)
    heads = [part for key, part in model.named_children() if key != model.base_model_prefix]
    if len(heads) != 1:
        raise UsageError(f"{name}: wanted one head over masked words, found {len(heads)} parts")
    made_up = [k for k in found["missing_keys"] if not k.startswith(model.base_model_prefix)]
    if made_up:
        raise DataError(
            f"{name}: the checkpoint lacks {made_up[0]}, wanted its whole head over masked words; "
            "take one that was pretrained with it, or leave masked words out"
        )
    tokenizer = tower.tokenizer.tokenizer
    words = MaskedWords(
        heads[0], tokenizer.all_special_ids, tokenizer.mask_token_id, len(tokenizer)
    )
    return words.to(tower.setup.device)
