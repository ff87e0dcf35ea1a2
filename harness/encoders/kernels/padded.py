"""A checkpoint folder opened with transformers: its tokenizer, and its forward pass in PyTorch.

The weights come in as tensors whose digest is known, so nothing is looked up by name:
no adapter, no other weights file, no remote code. Everything is opened in float32 and
evaluation mode, and what would give wrong vectors without an error is refused once,
here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from tokenizers import normalizers
from torch import nn
from transformers import MODEL_MAPPING, AutoConfig, AutoTokenizer
from transformers.utils import logging as chatter

from harness.core.arrays import Float32
from harness.core.errors import DataError, UsageError
from harness.core.hardware import Hardware
from harness.core.interfaces import Encoding
from harness.encoders.architectures import (
    FULL_ATTENTION,
    REFUSED_ARCHITECTURES,
    WITHOUT_PADDING,
)
from harness.encoders.checkpoint import (
    GOLDEN_SENTENCE,
    require_no_sampling,
    settings_and_tokenizer,
)

# What transformers raises, by experiment, over folders it cannot make sense of.
LOADING_ERRORS = (
    OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ImportError, RuntimeError,
    StrictDataclassError,
)  # fmt: skip

# Tensors that an encoder leaves unused: heads of pre-training and of tasks, and buffers
# that every model makes anew. Any other is a part of the encoder that its configuration
# has no place for.
UNUSED_TENSORS = re.compile(
    r"(^|\.)(position_ids|token_type_ids|masked_bias|inv_freq|attn\.bias)$"
    r"|^(cls|classifier|score|mlp|qa_outputs|qa_classifier|lm_head|lm_loss|mlm|pooler|predictions)\b"
    r"|^(discriminator_predictions|generator_predictions|generator_lm_head|pred_layer|sop_classifier)\b"
    r"|^(lm_predictions|mask_predictions|vocab_(transform|layer_norm|projector)|final_logits_bias)\b"
)

# Of several scripts, so that every tokenizer with a vocabulary distinguishes two of
# them.
PROBE_WORDS = (
    "man",
    "guitar",
    "the",
    "Haus",
    "maison",
    "человек",
    "東京",
    "إنسان",
    "1",
    "?",
)

# Of the largest coordinate: sums in another order differ by 1e-6 in deep models, tokens
# that are seen where none are by a hundred times as much.
LEAST_EFFECT = 1e-4
LARGEST_ROUNDING = 1e-6


@dataclass(frozen=True)
class CuttingTokenizer:
    """Texts to ids, cut to a maximum length that leaves room for the special tokens."""

    name: str
    tokenizer: Any
    max_length: int

    def __post_init__(self) -> None:
        # A fast tokenizer that has no room for a word leaves the text uncut, without a
        # word.
        special = self.tokenizer.num_special_tokens_to_add()
        if self.max_length <= special:
            raise UsageError(
                f"{self.name}: wanted room for a word, found {self.max_length} tokens of which "
                f"{special} are special; take a longer maximum length"
            )

    def lower_cased(self) -> CuttingTokenizer:
        """This tokenizer on texts in lower case."""
        tokenizer = deepcopy(self.tokenizer)
        before = tokenizer.backend_tokenizer.normalizer
        steps = [normalizers.Lowercase(), *([] if before is None else [before])]
        tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(steps)
        return replace(self, tokenizer=tokenizer)

    def prompt_length(self, prompt: str) -> int:
        """The tokens of a prompt, without a special one behind it."""
        [ids] = self([prompt])
        return len(ids) - (ids[-1] in self.tokenizer.all_special_ids)

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, special tokens included."""
        if not texts:
            return []
        encoded = self.tokenizer(
            list(texts),
            truncation=True,
            max_length=self.max_length,
            padding=False,
            return_attention_mask=False,  # without it and the next half the time
            return_token_type_ids=False,
            verbose=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids


Batch = Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class PaddedKernel:
    """The plain forward pass: one padded batch, every hidden state pooled over its real tokens.

    Padding is on the right whatever the tokenizer prefers: positions then count from
    the first real token in every architecture. `summary` is where CLS is among a text's
    tokens (0 first, -1 last, None nowhere); `has_pooler` says that the checkpoint holds
    the pooler. Where `alone` is set the model sees padding: a batch must hold sentences
    of one length.
    """

    model: Any
    padding: int
    summary: int | None
    has_pooler: bool
    alone: bool = False

    def on(self, hardware: Hardware) -> PaddedKernel:
        """The pass on a device and in a precision."""
        device = device_of(hardware.device)
        return replace(
            self, model=self.model.to(device, getattr(torch, hardware.dtype))
        )

    def states(
        self, batch: Batch
    ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, Any]:
        """What `padded_states` gives, without a graph."""
        with torch.inference_mode():
            return padded_states(self.model, batch, self.padding)

    def __call__(self, batch: Batch) -> Encoding:
        states, mask, out = self.states(batch)
        lengths = mask.sum(dim=1)
        with torch.inference_mode():
            sums = [
                mask[:, None].float() @ state.float() for state in states
            ]  # L x (B, 1, D)
            mean = torch.cat(sums, dim=1) / lengths[:, None, None]  # (B, L, D)
        at = lengths - 1 if self.summary == -1 else torch.zeros_like(lengths)
        cls = states[-1][torch.arange(len(batch), device=at.device), at]
        return Encoding(
            layers=tuple(range(len(states))),
            depth=len(states) - 1,
            mean=to_numpy(mean),
            cls=None if self.summary is None else to_numpy(cls),
            pooler=to_numpy(out.pooler_output) if self.has_pooler else None,
        )


def padded_states(
    model: Any, batch: Batch, padding: int
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, Any]:
    """The hidden states (B, T, D) of all layers, which tokens are real, and the output."""
    lengths = torch.tensor([len(ids) for ids in batch])
    width = int(lengths.max())
    ids = torch.tensor([[*row, *[padding] * (width - len(row))] for row in batch])
    mask = torch.arange(width) < lengths[:, None]
    ids, mask = ids.to(model.device), mask.to(model.device)
    out = model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True)
    # The last state as the model returns it: after a final norm, where there is one.
    return (*out.hidden_states[:-1], out.last_hidden_state), mask, out


def device_of(name: str) -> torch.device:
    """A torch device that multiplies whole float32 numbers. Raises UsageError for an unknown."""
    # TF32 keeps 19 bits of each factor: another precision than the one that records
    # name.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"wanted a device that torch has, found {name!r}: {reason}"
        ) from error


def to_numpy(output: torch.Tensor) -> Float32[np.ndarray, "..."]:
    """The output of a pass, in float32 and in main memory."""
    return output.float().cpu().numpy()


def open_checkpoint(
    name: str, folder: Path, tensors: Mapping[str, Any], max_length: int
) -> tuple[CuttingTokenizer, PaddedKernel, Encoding]:
    """The folder's tokenizer, its forward pass, and what that makes of the golden sentence."""
    with settings_and_tokenizer(folder) as copy, _readable(name, folder, copy):
        model, missing = _model(name, folder, copy, tensors)
        raw = AutoTokenizer.from_pretrained(
            copy, local_files_only=True, trust_remote_code=False
        )
        if raw.is_fast:
            require_no_sampling(folder / "tokenizer.json", raw.backend_tokenizer)
        half = any(
            name.endswith("EncoderModel") for name in model.config.architectures or ()
        )
        only_half = model.config.is_encoder_decoder or half
        encoder = model.get_encoder() if only_half else model
        tokenizer = CuttingTokenizer(name, raw, max_length)
        [ids] = tokenizer([GOLDEN_SENTENCE])
        has_pooler = _has_pooler(name, model, encoder, missing)
        kernel = PaddedKernel(encoder, raw.pad_token_id or 0, None, has_pooler)
        _verify(name, tokenizer, kernel, ids)
        if not only_half:
            kernel = replace(kernel, summary=_summary(kernel, ids, raw.cls_token_id))
        alone = model.config.model_type in WITHOUT_PADDING or _sees_padding(kernel, ids)
        kernel = replace(kernel, alone=alone)
        return tokenizer, kernel, kernel([ids])


@contextmanager
def _readable(name: str, folder: Path, copy: Path) -> Iterator[None]:
    """One line for whatever transformers says of a folder, and none of its chatter otherwise."""
    verbosity, bars = chatter.get_verbosity(), chatter.is_progress_bar_enabled()
    chatter.set_verbosity(logging.CRITICAL)
    chatter.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    except LOADING_ERRORS as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        reason = reason.replace(str(copy), str(folder))
        raise DataError(
            f"{name}: wanted an encoder that transformers opens at {folder}, found: {reason}"
        ) from error
    finally:
        chatter.set_verbosity(verbosity)
        if bars:
            chatter.enable_progress_bar()  # type: ignore[no-untyped-call]


def _model(
    name: str, folder: Path, copy: Path, tensors: Mapping[str, Any]
) -> tuple[Any, Collection[str]]:
    """The bare model with these weights, and the names of those that it had to make up.

    `copy` holds the folder's settings.
    """
    config = AutoConfig.from_pretrained(
        copy, local_files_only=True, trust_remote_code=False
    )
    if (reason := REFUSED_ARCHITECTURES.get(config.model_type)) is not None:
        raise DataError(f"{name}: {folder} holds a {config.model_type} model: {reason}")
    if getattr(config, "attention_type", None) == "block_sparse":  # BigBird's
        config.attention_type = (
            FULL_ATTENTION  # in place of random blocks, and whatever came before
        )
    config.use_cache = False  # for generating: a decoder would keep every key and value
    model, report = filled(MODEL_MAPPING[type(config)], config, tensors)
    if report["mismatched_keys"] or report["error_msgs"]:
        raise ValueError(
            f"weights do not fit: {report['mismatched_keys'] or report['error_msgs']}"
        )
    unplaced = sorted(
        key for key in report["unexpected_keys"] if not UNUSED_TENSORS.search(key)
    )
    if unplaced:
        raise ValueError(
            f"{len(unplaced)} weights that its configuration has no place for, first {unplaced[0]}"
        )
    return model.eval(), report["missing_keys"]


def filled(
    architecture: Any, config: Any, tensors: Mapping[str, Any]
) -> tuple[Any, Any]:
    """A model in float32 with these weights, and what of them was missing or did not fit."""
    return architecture.from_pretrained(
        None,
        config=config,
        state_dict=dict(tensors),
        dtype=torch.float32,
        local_files_only=True,
        output_loading_info=True,
    )


def _has_pooler(name: str, model: Any, encoder: Any, missing: Collection[str]) -> bool:
    """Whether the checkpoint holds the pooler; refuses one that lacks any other encoder weight.

    Every architecture with such a head over CLS calls it `pooler`. A decoder that is
    not run may be absent, as from the encoder half of T5.
    """
    used = {id(weight) for weight in encoder.parameters()}
    named = model.named_parameters(remove_duplicate=False)
    made_up = set(missing) - {key for key, weight in named if id(weight) not in used}
    lacking = sorted(key for key in made_up if not key.startswith("pooler."))
    if lacking:
        raise DataError(
            f"{name}: the checkpoint lacks {len(lacking)} of its encoder's weights, first "
            f"{lacking[0]}; wanted all, for nothing newly initialised is scored: fetch it again"
        )
    return getattr(encoder, "pooler", None) is not None and not made_up


def _verify(
    name: str, tokenizer: CuttingTokenizer, kernel: PaddedKernel, ids: Sequence[int]
) -> None:
    """Refuse a tokenizer and a model that do not give one vector for each token of a text."""
    tokens, vectors = (
        len(tokenizer.tokenizer),
        len(kernel.model.get_input_embeddings().weight),
    )
    if tokens > vectors:
        raise DataError(
            f"{name}: the tokenizer has {tokens} tokens, the checkpoint vectors for {vectors}; "
            "they do not belong together"
        )
    words = [set(row) for row in tokenizer(PROBE_WORDS)]
    if set.union(*words) == set.intersection(*words):
        raise DataError(
            f"{name}: the tokenizer makes each of {', '.join(PROBE_WORDS)} of the ids "
            f"{sorted(words[0])}; it has no vocabulary: fetch the whole checkpoint"
        )
    shapes = [tuple(state.shape) for state in kernel.states([ids])[0]]
    wanted = (1, len(ids), shapes[-1][-1])
    if len(shapes) < 2 or set(shapes) != {wanted}:
        raise DataError(
            f"{name}: wanted states of the shape {wanted} from every layer of a "
            f"{kernel.model.config.model_type} model, found {shapes}; take an encoder that keeps "
            "all tokens"
        )


def _summary(
    kernel: PaddedKernel, ids: Sequence[int], cls_id: int | None
) -> int | None:
    """The place of a text's summary token: 0, or -1 for the last, or None where there is none.

    In a causal model it is the last token, the one that has seen all, and in any other
    the CLS that the tokenizer puts. Causal is a model whose states of a prefix are
    those of it alone.
    """
    prefix = ids[: max(1, len(ids) // 2)]
    last = len(prefix) - 1  # in the text, this token has neighbours behind it
    in_text, in_prefix = (
        kernel.states([row])[0][-1][0, last].float() for row in (ids, prefix)
    )
    if (in_text - in_prefix).abs().max() <= LARGEST_ROUNDING * max(
        1.0, float(in_text.abs().max())
    ):
        return -1
    return 0 if ids[0] == cls_id else -1 if ids[-1] == cls_id else None


def _sees_padding(kernel: PaddedKernel, ids: Sequence[int]) -> bool:
    """Whether the encoding of a text shows that it was padded."""
    prefix = ids[: max(1, len(ids) // 2)]
    unpadded = kernel([prefix]).mean[0]
    padded = kernel([ids, prefix]).mean[1]
    return not np.abs(unpadded - padded).max() <= LEAST_EFFECT * max(
        1.0, float(np.abs(unpadded).max())
    )


class DroppingKernel:
    """The plain forward pass in training mode; each one draws a new seed.

    Raises UsageError for a checkpoint without dropout.
    """

    def __init__(self, name: str, plain: PaddedKernel, seed: int) -> None:
        modules = plain.model.modules()
        if not any(
            isinstance(module, nn.Dropout) and module.p > 0 for module in modules
        ):
            raise UsageError(
                f"{name}: wanted an encoder with dropout, found no probability above 0 in its "
                "configuration; its encodings with and without are the same"
            )
        self.plain, self.draws = plain, np.random.default_rng(seed)

    def __call__(self, batch: Batch) -> Encoding:
        model = self.plain.model
        # Dropout draws from the global generators alone, and these are put back behind
        # it.
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.random.manual_seed(self.draw())
            model.train()
            try:
                return self.plain(batch)
            finally:
                model.eval()

    def draw(self) -> int:
        """The seed of the next pass."""
        return int(self.draws.integers(2**63))
