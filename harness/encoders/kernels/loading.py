"""A checkpoint folder opened with transformers: its tokenizer and its plain forward pass.

The weights come in as tensors whose digest is known, so nothing is looked up by name:
no adapter, no other weights file, no remote code. Everything is opened in float32 and
evaluation mode. What would give wrong vectors without an error is refused here, once:
weights that are missing or left over, a tokenizer of another model, states that are not
one vector a token.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import MODEL_MAPPING
from transformers.utils import logging as transformers_logging

from harness.core.arrays import Float32
from harness.core.errors import DataError
from harness.encoders.checkpoint import CONFIG_FILE, library_errors, maximum_length
from harness.encoders.config import GOLDEN_SENTENCE
from harness.encoders.kernels.choose import relative_gap
from harness.encoders.kernels.passes import PaddedKernel
from harness.encoders.kernels.tokenizing import (
    PROBE_WORDS,
    CuttingTokenizer,
    open_config,
    open_tokenizer,
)
from harness.encoders.weights import UNUSED_TENSORS, read_tensors

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

# Shares of the largest coordinate. Sums in another order differ by 1e-6 in deep models;
# padding that a model sees moves a vector by 1e-4 and more.
LARGEST_ROUNDING = 1e-6
LEAST_EFFECT = 1e-4


def open_checkpoint(
    name: str,
    folder: Path,
    requested_length: int | None,
    *,
    rebuilt: bool = False,
    cache: Path | None = None,
) -> tuple[CuttingTokenizer, PaddedKernel]:
    """The tokenizer and the plain forward pass of a folder.

    Args:
        name: The name of the encoder, for messages.
        folder: The checkpoint folder.
        requested_length: The tokens that a text is cut to; None for the checkpoint's own.
        rebuilt: Whether the tokenizer is the one that transformers makes anew.
        cache: The cache folder, which keeps the safetensors form of a pickled checkpoint;
            None keeps none.

    Raises:
        DataError: The files are damaged, transformers does not open them, or it would
            give wrong vectors.
        UsageError: The maximum length leaves no room for a word.
    """
    tensors = read_tensors(folder, cache)
    length = maximum_length(name, folder, requested_length)
    with opening(name, folder):
        tokenizer = open_tokenizer(name, folder, length, rebuilt=rebuilt)
        [golden_ids] = tokenizer([GOLDEN_SENTENCE])
        model, missing = _load_model(name, folder, tensors)
        # The encoder of a model that has a decoder, or whose checkpoint was saved without.
        class_names = model.config.architectures or ()
        runs_encoder_alone = model.config.is_encoder_decoder or any(
            class_name.endswith("EncoderModel") for class_name in class_names
        )
        encoder = model.get_encoder() if runs_encoder_alone else model
        kernel = PaddedKernel(
            model=encoder,
            padding_id=tokenizer.tokenizer.pad_token_id or 0,
            has_pooler=_has_pooler(name, model, encoder, missing),
        )
        tokenizer = _with_vector_count(name, tokenizer, kernel)
        _require_agreement(name, tokenizer, kernel, golden_ids)
        # The pass over the golden sentence shows the two facts that are left.
        summary = None
        if not runs_encoder_alone:
            cls_id = tokenizer.tokenizer.cls_token_id
            summary = _summary_position(kernel, golden_ids, cls_id)
        needs_equal_lengths = model.config.model_type in WITHOUT_PADDING
        if not needs_equal_lengths:
            needs_equal_lengths = _sees_padding(kernel, golden_ids)
        ends = (tokenizer.tokenizer.sep_token_id, tokenizer.tokenizer.eos_token_id)
        return tokenizer, replace(
            kernel,
            summary=summary,
            needs_equal_lengths=needs_equal_lengths,
            has_separator=summary == 0 and golden_ids[-1] in ends,
        )


@contextmanager
def opening(
    name: str,
    folder: Path,
    library: str = "transformers",
    remedy: str = "mend the file, or fetch it again",
) -> Iterator[None]:
    """One line for each error of a library that opens a folder, and none of its log messages."""
    verbosity = transformers_logging.get_verbosity()
    shows_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with library_errors(
            f"{name}: wanted an encoder that {library} opens at {folder}", remedy
        ):
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if shows_bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


# The model


def _load_model(
    name: str, folder: Path, tensors: Mapping[str, Any]
) -> tuple[Any, set[str]]:
    """The model without heads, and the names of the weights that the checkpoint lacks.

    Raises ValueError for weights that do not fit, which `opening` reports.
    """
    config = open_config(folder)
    refusal = REFUSED_ARCHITECTURES.get(config.model_type)
    if refusal is not None:
        raise DataError(
            f"{name}: {folder} holds a {config.model_type} model: {refusal}"
        )
    _require_size(folder, config, tensors)
    config.return_dict = True  # a setting of the caller
    config.use_cache = False  # for generating: a decoder would keep every key and value
    if getattr(config, "attention_type", None) == "block_sparse":
        # BigBird's attention over blocks that are drawn at random. The model changes to
        # full attention at the first short text, so that texts would depend on others.
        config.attention_type = "original_full"
    model, loading = model_with_weights(MODEL_MAPPING[type(config)], config, tensors)
    unplaced = sorted(
        name for name in loading["unexpected_keys"] if not UNUSED_TENSORS.search(name)
    )
    if unplaced:
        raise ValueError(
            f"{len(unplaced)} weights that its configuration has no place for, first {unplaced[0]}"
        )
    weights = model.state_dict()
    for name, tensor in tensors.items():
        # A checkpoint with heads has the name of its encoder before each name.
        weight = weights.get(name, weights.get(name.partition(".")[2], tensor))
        if weight.is_floating_point() and not tensor.is_floating_point():
            raise ValueError(
                f"{tensor.dtype} as the weights {name}, which are real numbers"
            )
    return model.eval(), set(loading["missing_keys"])


def _require_size(folder: Path, config: Any, tensors: Mapping[str, Any]) -> None:
    """Refuse a configuration of a larger model than the weights are of.

    Transformers would make it before it looks at the weights, and take all memory.
    """
    numbers = sum(tensor.numel() for tensor in tensors.values())
    limits = {"num_hidden_layers": len(tensors)}
    limits |= dict.fromkeys(("hidden_size", "intermediate_size", "vocab_size"), numbers)
    for setting, limit in limits.items():
        value = getattr(config, setting, None)
        if isinstance(value, int) and value > limit:
            raise DataError(
                f"{folder / CONFIG_FILE}: {setting} = {value:,} is more than the weights have "
                f"({len(tensors):,} tensors of {numbers:,} numbers); fetch it again"
            )


def model_with_weights(
    architecture: Any, config: Any, tensors: Mapping[str, Any]
) -> tuple[Any, Any]:
    """A model in float32 with these weights, and the names of `missing_keys` and `unexpected_keys`.

    Transformers raises an error for a weight of another shape.
    """
    return architecture.from_pretrained(
        None,
        config=config,
        state_dict=dict(tensors),
        dtype=torch.float32,
        local_files_only=True,
        output_loading_info=True,
    )


def _has_pooler(name: str, model: Any, encoder: Any, missing: set[str]) -> bool:
    """Whether the checkpoint holds the pooler; refuses one that lacks any other encoder weight.

    Every architecture with such a head over CLS calls it `pooler`. A decoder that is
    not run may be absent, as from the encoder half of T5. `missing` names the weights of
    the model that the checkpoint lacks.
    """
    run = {id(weight) for weight in encoder.parameters()}
    for weight_name, weight in model.named_parameters(remove_duplicate=False):
        if id(weight) not in run:
            missing.discard(weight_name)
    refused = sorted(name for name in missing if not name.startswith("pooler."))
    if refused:
        raise DataError(
            f"{name}: the checkpoint lacks {len(refused)} of its encoder's weights, first "
            f"{refused[0]}; wanted all, for nothing newly initialised is scored: fetch it again"
        )
    return getattr(encoder, "pooler", None) is not None and not missing


# What the model and the tokenizer do with the golden sentence


def _with_vector_count(
    name: str, tokenizer: CuttingTokenizer, kernel: PaddedKernel
) -> CuttingTokenizer:
    """The tokenizer, with the number of vectors if it has more tokens.

    Tokens that were added behind the vocabulary may lack a vector, as `[PAD]` often does;
    a text that has one is refused. Raises DataError for words without a vector.
    """
    vector_count = len(kernel.model.get_input_embeddings().weight)
    token_by_id = {n: token for token, n in tokenizer.tokenizer.get_vocab().items()}
    added_ids = tokenizer.tokenizer.added_tokens_decoder.keys()
    lacking = {n for n in token_by_id if n >= vector_count}
    if not lacking:
        return tokenizer
    if lacking - added_ids:
        raise DataError(
            f"{name}: the tokenizer has {len(token_by_id)} tokens, the checkpoint vectors for "
            f"{vector_count}; they do not belong together: fetch the tokenizer and the weights of "
            "one model"
        )
    return replace(tokenizer, vector_count=vector_count)


def _require_agreement(
    name: str,
    tokenizer: CuttingTokenizer,
    kernel: PaddedKernel,
    golden_ids: Sequence[int],
) -> None:
    """Refuse a tokenizer and a model that do not give one vector for each token of a text."""
    ids_by_word = [set(ids) for ids in tokenizer(PROBE_WORDS)]
    if set.union(*ids_by_word) == set.intersection(*ids_by_word):
        raise DataError(
            f"{name}: the tokenizer makes each of {', '.join(PROBE_WORDS)} of the ids "
            f"{sorted(ids_by_word[0])}; it has no vocabulary: fetch the whole checkpoint"
        )
    # Types tell the two texts of a pair apart. They are not passed to a model here, which
    # then takes 0 for all tokens.
    types = tokenizer.tokenizer(GOLDEN_SENTENCE).get("token_type_ids", ())
    if any(types) and "token_type_ids" in signature(kernel.model.forward).parameters:
        raise DataError(
            f"{name}: wanted a tokenizer that gives the tokens of a text the type 0, found the "
            f"types {sorted(set(types))}, which are not passed to the model; take another encoder"
        )
    states, _, _ = kernel.states([golden_ids])
    shapes = [tuple(state.shape) for state in states]
    expected_shape = (1, len(golden_ids), shapes[-1][-1])
    if len(shapes) < 2 or set(shapes) != {expected_shape}:
        raise DataError(
            f"{name}: wanted states of the shape {expected_shape} from every layer of a "
            f"{kernel.model.config.model_type} model, found {shapes}; take an encoder that keeps "
            "all tokens"
        )


def _summary_position(
    kernel: PaddedKernel, golden_ids: Sequence[int], cls_id: int | None
) -> int | None:
    """The index of a text's summary token: 0 for the first, -1 for the last, None for none.

    In a causal model it is the last token, which alone has seen all others; in any
    other model it is the CLS token that the tokenizer adds.
    """
    prefix = _prefix(golden_ids)
    last_of_prefix = []  # the state of its last token in the whole text, and without the rest
    for ids in (golden_ids, prefix):
        states, _, _ = kernel.states([ids])
        last_of_prefix.append(states[-1][0, len(prefix) - 1].numpy())
    in_text, alone = last_of_prefix
    is_causal = relative_gap(in_text, alone) <= LARGEST_ROUNDING
    if golden_ids[0] == cls_id and not is_causal:
        return 0
    return -1 if is_causal or golden_ids[-1] == cls_id else None


def _sees_padding(kernel: PaddedKernel, ids: Sequence[int]) -> bool:
    """Whether the encoding of a text shows that it was padded."""
    prefix = _prefix(ids)
    unpadded: Float32[np.ndarray, "L D"] = kernel([prefix]).mean[0]
    padded: Float32[np.ndarray, "L D"] = kernel([ids, prefix]).mean[1]
    # `not <=`, so that a gap that is no number counts as an effect.
    return not relative_gap(unpadded, padded) <= LEAST_EFFECT


def _prefix(ids: Sequence[int]) -> Sequence[int]:
    """The first half of a sentence's tokens, at least one."""
    return ids[: max(1, len(ids) // 2)]
