"""The plain forward pass of a transformer: padded batches through the model itself.

It is the reference that the faster passes are compared with (`choose.py`), and the only
one that gives the states of tokens or can be run with dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.arrays import Bool, Float32
from harness.core.errors import UsageError
from harness.core.hardware import Hardware
from harness.core.interfaces import Encoding

TokenIds = Sequence[Sequence[int]]  # the token ids of each sentence


@dataclass(frozen=True, eq=False)
class PaddedKernel:
    """The plain forward pass: one padded batch, every hidden state pooled over its real tokens.

    Padding is on the right whatever the tokenizer prefers: positions then count from
    the first real token in every architecture.

    Attributes:
        model: The model of transformers, in evaluation mode.
        padding_id: The id that fills a batch up.
        has_pooler: Whether the checkpoint holds the weights of the pooler.
        summary: The index of the summary token: 0 is the first, -1 the last; None for a
            model without one.
        needs_equal_lengths: Whether padding changes what the model gives, so that a
            batch must hold sentences of one length.
    """

    model: Any
    padding_id: int
    has_pooler: bool
    summary: int | None = None
    needs_equal_lengths: bool = False

    def on(self, hardware: Hardware) -> PaddedKernel:
        """The pass on a device and in a precision."""
        device = device_of(hardware.device)
        dtype = getattr(torch, hardware.dtype)
        return replace(self, model=self.model.to(device, dtype))

    def __call__(self, batch: TokenIds) -> Encoding:
        states, mask, output = self.states(batch)
        lengths = mask.sum(dim=1)
        with torch.inference_mode():
            weights = mask[:, None].float()  # (B, 1, T)
            sums = [weights @ state.float() for state in states]  # L x (B, 1, D)
            mean = torch.cat(sums, dim=1) / lengths[:, None, None]  # (B, L, D)
        cls = None
        if self.summary is not None:
            position = lengths - 1 if self.summary == -1 else torch.zeros_like(lengths)
            rows = torch.arange(len(batch), device=lengths.device)
            cls = to_numpy(states[-1][rows, position])
        return Encoding(
            layers=tuple(range(len(states))),
            depth=len(states) - 1,
            mean=to_numpy(mean),
            cls=cls,
            pooler=to_numpy(output.pooler_output) if self.has_pooler else None,
        )

    def states(
        self, batch: TokenIds
    ) -> tuple[tuple[Tensor, ...], Bool[Tensor, "B T"], Any]:
        """What `padded_states` gives, without a graph for gradients."""
        with torch.inference_mode():
            return padded_states(self.model, batch, self.padding_id)

    def with_dropout(self, name: str, seed: int) -> Callable[[TokenIds], Encoding]:
        """This pass with dropout on; each pass draws a new seed for its masks.

        Args:
            name: The name of the encoder, for messages.
            seed: The seed of the generator that draws the seeds of the passes.

        Raises:
            UsageError: The checkpoint has no dropout.
        """
        model = self.model
        has_dropout = any(
            isinstance(module, nn.Dropout) and module.p > 0
            for module in model.modules()
        )
        if not has_dropout:
            raise UsageError(
                f"{name}: wanted an encoder with dropout, found no probability above 0 in its "
                "configuration; its encodings with and without are the same"
            )
        generator = np.random.default_rng(seed)

        def with_dropout(batch: TokenIds) -> Encoding:
            # Dropout draws from torch's global generators alone: their states are
            # restored at the end.
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                torch.random.manual_seed(int(generator.integers(2**63)))
                model.train()
                try:
                    return self(batch)
                finally:
                    model.eval()

        return with_dropout

    def over_padding(self, width: int) -> Callable[[TokenIds], Encoding]:
        """This pass of texts that are padded to `width` tokens, in means over the padding.

        Programs that pad to a length and average without the mask compute this by
        accident. The state of a padding token depends on its text and position alone.
        """

        def with_padding(batch: TokenIds) -> Encoding:
            with torch.inference_mode():
                states, _, _ = padded_states(self.model, batch, self.padding_id, width)
                means = [state.float().mean(dim=1, keepdim=True) for state in states]
                mean = torch.cat(means, dim=1)  # (B, L, D)
            layers = tuple(range(len(states)))
            return Encoding(layers=layers, depth=layers[-1], mean=to_numpy(mean))

        return with_padding


def padded_states(
    model: Any, batch: TokenIds, padding_id: int, width: int = 0
) -> tuple[tuple[Tensor, ...], Bool[Tensor, "B T"], Any]:
    """The hidden states of all layers, which tokens are real, and the model's output.

    The states of a layer have the shape (B, T, D); `loading.py` refuses a model whose
    states have another. T is the longest text's number of tokens, and `width` at least.
    """
    lengths = torch.tensor([len(ids) for ids in batch])
    width = max(width, int(lengths.max()))
    rows = []
    for ids in batch:
        padding = [padding_id] * (width - len(ids))
        rows.append([*ids, *padding])
    padded_ids = torch.tensor(rows).to(model.device)
    mask = (torch.arange(width) < lengths[:, None]).to(model.device)
    output = model(
        input_ids=padded_ids, attention_mask=mask.long(), output_hidden_states=True
    )
    # The last state as the model returns it: after a final norm, where there is one.
    states = (*output.hidden_states[:-1], output.last_hidden_state)
    return states, mask, output


def device_of(name: str) -> torch.device:
    """The torch device of a name, set to multiply in full float32.

    Raises UsageError for a device that torch does not have.
    """
    # TF32 would keep 19 bits of each factor, and a record would still say float32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"wanted a device that torch has, found {name!r}: {reason}"
        ) from error


def to_numpy(output: Tensor) -> Float32[np.ndarray, "..."]:
    """The output of a pass, in float32 and in main memory."""
    return output.float().cpu().numpy()
