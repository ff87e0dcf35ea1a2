"""Architectures that need other treatment than BERT, by transformers' `model_type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Architectures whose batches hold sentences of one length, without padding: their
# convolutions, Fourier transforms, hashes and neighbours' embeddings reach over the end
# of a sentence, so that padding would change its encoding.
WITHOUT_PADDING = frozenset({"convbert", "fnet", "mobilebert", "nystromformer", "yoso"})

# Architectures that cannot be pooled by layers and tokens, and what to do instead.
REFUSED_ARCHITECTURES: Mapping[str, str] = {
    "canine": "it pools characters by fours between its layers, so that its states "
    "are not those of tokens; take an encoder of sub-words",
    "dpr": "its model returns the pooler's output alone; save its `bert_model` with "
    "transformers and name that folder, a BERT",
    "funnel": "its layers shorten the sentence, so that their states are not those of tokens; "
    "take an encoder that keeps all of them",
    "mra": "without CUDA kernels that are downloaded its attention is zero; take an encoder "
    "whose attention PyTorch computes",
    "perceiver": "its states are of latent places and not of tokens; take another encoder",
    "reformer": "its attention is drawn at random for each pass; take another encoder",
}

# The model types whose tokenizers put the summary token first, of those that are most
# frequent. Others may put it last, as XLNet does, or have none, as causal models.
CLS_FIRST = frozenset(
    {"bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta"}
)


def own_pooling_is(mode: str, config: Mapping[str, Any]) -> bool:
    """Whether the pooling `mean` or `cls` of the harness pools as sentence-transformers' own does.

    sentence-transformers takes the first token for `cls`, whatever the architecture, and
    the states of the decoder of a model that has one. `config` is the content of
    config.json.
    """
    if mode == "cls":
        return config.get("model_type") in CLS_FIRST and not config.get("is_decoder")
    return not pools_decoder(config)


def pools_decoder(config: Mapping[str, Any]) -> bool:
    """Whether sentence-transformers pools a decoder, of which the harness has the encoder."""
    model_type = str(config.get("model_type"))
    return bool(config.get("is_encoder_decoder")) and not model_type.endswith("t5")
