"""The encoder as training sees it: token ids in, one vector a sentence out, with gradients.

A batch is never padded where the architecture is BERT's or RoBERTa's and the device a CPU; where
[CLS] alone is read, the last layer then computes nothing else. Other architectures get padded
pieces of similar lengths, and a GPU gets one. In evaluation mode the vectors are those of the same
pooling over `harness.encoders`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.arrays import Float, Float32
from harness.core.digests import digest_of_files, sha256_of
from harness.core.errors import UsageError
from harness.core.types import Pooling
from harness.encoders.checkpoint import read_tensors, weights_files
from harness.encoders.kernels.padded import CuttingTokenizer, open_checkpoint
from harness.encoders.transformer import TransformerConfig, maximum_length
from harness.training.dropout import Noise, use_dropout
from harness.training.packing import Rows, packed_states, padded_states, token_means
from harness.transforms.pooling import CLS, Cls, Mean

Head = Literal["none", "train", "keep"]
Precision = Literal["float32", "bf16", "fp16"]
HALF: Mapping[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}

PACKED = frozenset({"bert", "roberta", "xlm-roberta", "camembert"})
PIECE = 8  # padded pieces hold lengths up to the same multiple of this
FIRST_WEIGHTS = 0.02  # their standard deviation in a new head, as in BERT
EMBEDDED_AT_ONCE = 8192  # tokens, when no gradient is kept


class Projection(nn.Module):
    """Dense and tanh over the pooled vector: what BERT's pooler is."""

    def __init__(self, dense: nn.Linear) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        return torch.tanh(self.dense(x))


def drawn(dense: nn.Linear, rng: np.random.Generator) -> nn.Linear:
    """The layer with new weights, as BERT's begin."""
    weight = rng.normal(scale=FIRST_WEIGHTS, size=dense.weight.shape).astype(np.float32)
    with torch.no_grad():
        dense.weight.copy_(torch.from_numpy(weight))
        dense.bias.zero_()
    return dense


@dataclass(frozen=True)
class Setup:
    """How an encoder is opened for training.

    `head` is a projection that only training reads ("train") or that is kept as the checkpoint's
    pooler ("keep"). `max_length` counts special tokens; `dropout` None is the checkpoint's own.
    """

    pooling: Pooling = CLS
    head: Head = "none"
    max_length: int = 32
    dropout: float | None = None
    precision: Precision = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not isinstance(self.pooling, Cls | Mean):
            raise UsageError(
                f"wanted to train cls or a mean over tokens, found {self.pooling.name}; a pooler "
                "is cls with a head"
            )
        if self.precision == "fp16" and self.device == "cpu":
            raise UsageError("fp16 needs a GPU; take bf16 or float32 on a CPU")

    @property
    def half(self) -> torch.dtype | None:
        """What autocast computes in; None where it is off."""
        return HALF.get(self.precision)


class SentenceEncoder(nn.Module):
    """An encoder, what is read of it, and a projection over that.

    `tokenizer` cuts to the length of training, `reader` to the checkpoint's own. `stream` sets the
    masks of several processes apart. `encoder` ends as what is to be written: a head that is kept
    is its pooler, and it has no other.
    """

    def __init__(
        self,
        encoder: nn.Module,
        tokenizer: CuttingTokenizer,
        reader: CuttingTokenizer,
        setup: Setup,
        *,
        padding: int,
        summary: int | None,
        rng: np.random.Generator,
        stream: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.tokenizer, self.reader, self.setup = encoder, tokenizer, reader, setup
        self.padding, self.summary, self.noise = padding, summary, Noise(stream)
        config: Any = encoder.config
        depth: int = config.num_hidden_layers
        self.layers = (
            setup.pooling.hidden_states(depth) if isinstance(setup.pooling, Mean) else (depth,)
        )
        if isinstance(setup.pooling, Cls) and summary is None:
            raise UsageError(f"{tokenizer.name}: this encoder has no summary token; use mean")
        self.head = self._headed(rng)
        use_dropout(self, setup.dropout, self.noise)
        self.to(setup.device)
        self.packs = config.model_type in PACKED and setup.device == "cpu"

    @property
    def size(self) -> int:
        """The dimensions of a vector."""
        return int(self.encoder.config.hidden_size)  # type: ignore[union-attr, arg-type]

    def forward(self, rows: Rows) -> Float32[Tensor, "N D"]:
        """One vector a sentence. In training mode dropout draws new masks."""
        order = np.argsort([len(row) for row in rows], kind="stable")
        ascending = [rows[i] for i in order]
        self.noise.restart(self.setup.device)
        with self.autocast():
            z = torch.cat([self._pooled(piece) for piece in self._pieces(ascending)])
            # A head that only training reads is not there in evaluation.
            if self.head is not None and (self.training or self.setup.head == "keep"):
                z = self.head(z)
        return z.float()[torch.from_numpy(np.argsort(order)).to(z.device)]

    def tokens(self, rows: Rows) -> Float[Tensor, "T D"]:
        """The last layer's state of every token, sentence after sentence."""
        last = int(self.encoder.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]
        self.noise.restart(self.setup.device)
        with self.autocast():
            return self._states(rows, (last,))[last]

    def embed(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
        """The vectors of texts in their order, without dropout, at the checkpoint's own length."""
        rows = self.reader(texts)
        order = np.argsort([len(row) for row in rows], kind="stable")
        found = np.empty((len(rows), self.size), np.float32)
        before = self.training
        self.eval()
        with torch.no_grad():
            for part in portions([rows[i] for i in order], EMBEDDED_AT_ONCE):
                found[order[part]] = self([rows[i] for i in order[part]]).cpu().numpy()
        self.train(before)
        return found

    def autocast(self) -> torch.autocast:
        """The precision of the setup: weights stay in float32."""
        half, device = self.setup.half, torch.device(self.setup.device).type
        return torch.autocast(device, half, enabled=half is not None)

    def _headed(self, rng: np.random.Generator) -> Projection | None:
        """A new head. One that is kept stands in the encoder, as its pooler; else that has none.

        The pooler of the checkpoint would belong to the encoder as it was before.
        """
        encoder: Any = self.encoder
        pooler = getattr(encoder, "pooler", None)
        if self.setup.head == "keep":
            if not isinstance(getattr(pooler, "dense", None), nn.Linear):
                raise UsageError(
                    f"{self.tokenizer.name}: this architecture has no dense pooler to keep a head "
                    "in; train one that is not kept"
                )
            return Projection(drawn(encoder.pooler.dense, rng))
        if pooler is not None:
            encoder.pooler = None
        if self.setup.head == "none":
            return None
        return Projection(drawn(nn.Linear(self.size, self.size), rng))

    def _pieces(self, rows: Rows) -> list[Rows]:
        """Rows in ascending length, in pieces for one forward pass each."""
        if self.packs or self.setup.device != "cpu":
            return [rows]
        return [list(piece) for _, piece in groupby(rows, lambda row: -(-len(row) // PIECE))]

    def _states(self, rows: Rows, layers: Sequence[int]) -> dict[int, Float[Tensor, "T D"]]:
        if self.packs:
            return packed_states(self.encoder, rows, layers)
        return padded_states(self.encoder, rows, layers, self.padding)

    def _pooled(self, rows: Rows) -> Float[Tensor, "n D"]:
        lengths = np.array([len(row) for row in rows])
        if isinstance(self.setup.pooling, Mean):
            states = self._states(rows, self.layers)
            means = [token_means(states[layer], lengths) for layer in self.layers]
            return torch.stack(means).mean(dim=0)
        ends = np.cumsum(lengths)
        places = torch.from_numpy(ends - 1 if self.summary == -1 else ends - lengths)
        if self.packs:
            return packed_states(self.encoder, rows, self.layers, places)[self.layers[0]]
        return self._states(rows, self.layers)[self.layers[0]][places.to(self.setup.device)]


def portions(rows: Rows, tokens: int) -> list[slice]:
    """Rows in their order, cut where the next one would exceed so many tokens."""
    cuts, held = [0], 0
    for number, row in enumerate(rows):
        if held and held + len(row) > tokens:
            cuts.append(number)
            held = 0
        held += len(row)
    return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(rows)], strict=True) if b > a]


def open_encoder(
    name: str, folder: Path, cache: Path, setup: Setup, seed: int, stream: int = 0
) -> SentenceEncoder:
    """The checkpoint in a folder, ready to be trained; the seed draws the weights of a new head.

    `cache` keeps the safetensors form of a pickled checkpoint. Raises AssetMissing, DataError,
    and UsageError for a setup that the checkpoint cannot follow.
    """
    files = weights_files(folder)
    tensors = read_tensors(files, digest_of_files(files, sha256_of), cache)
    length = maximum_length(TransformerConfig(name, name, max_length=setup.max_length), folder)
    tokenizer, kernel, _ = open_checkpoint(name, folder, tensors, length)
    whole = maximum_length(TransformerConfig(name, name), folder)
    return SentenceEncoder(
        kernel.model,
        tokenizer,
        CuttingTokenizer(name, tokenizer.tokenizer, whole),
        setup,
        padding=kernel.padding,
        summary=kernel.summary,
        rng=np.random.default_rng((seed, 2)),
        stream=stream,
    )
