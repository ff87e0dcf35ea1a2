"""Architectures whose forward pass needs care, by transformers' word for them (`model_type`).

Any other is opened as it is and tried out as it is loaded (`kernels/probe.py`): one whose states do
not stand for tokens is refused there, and one whose padding leaves a trace is encoded without.
Importing this module costs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

# Sentences of one length share a batch, so that there is no padding to be seen.
WITHOUT_PADDING: Mapping[str, str] = MappingProxyType(
    {
        "convbert": "its convolutions reach over the end of a sentence",
        "fnet": "its Fourier transforms mix all places, and it takes no mask",
        "mobilebert": "the embeddings of a token's neighbours are part of its own",
        "nystromformer": "its convolutions reach over the end of a sentence",
        "yoso": "its hashing counts all places",
    }
)

# What cannot be pooled by layers and tokens, and what to do instead.
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "canine": "it pools characters by fours between its layers, so that its states do not "
        "stand for tokens; take an encoder of sub-words",
        "dpr": "its model returns the pooler's output alone; save its `bert_model` with "
        "transformers and name that folder, a BERT",
        "funnel": "its layers shorten the sentence, so that their states do not stand for tokens; "
        "take an encoder that keeps all of them",
        "mra": "without CUDA kernels that are downloaded its attention is zero; take an encoder "
        "whose attention PyTorch computes",
        "perceiver": "its states are of latent places and not of tokens; take another encoder",
        "reformer": "its attention is drawn at random for each pass; take another encoder",
    }
)

BLOCK_SPARSE = "block_sparse"  # BigBird's attention, which its model leaves at its first short text
FULL = "original_full"


def facts_of(config: Mapping[str, Any]) -> dict[str, str]:
    """`padding: none` and `attention: original_full`, for architectures that are run so.

    They are part of the key of a checkpoint's encodings; empty for all other architectures.

    Args:
        config: The checkpoint's `config.json`.
    """
    facts = {}
    if config.get("model_type") in WITHOUT_PADDING:
        facts["padding"] = "none"
    if config.get("model_type") in ("big_bird", "bigbird_pegasus"):
        facts["attention"] = FULL
    return facts
