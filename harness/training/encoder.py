"""An encoder in training: fast dropout, passes without padding, a head, gradients in chunks.

On a CPU, torch draws masks from its Mersenne twister, which takes longer than the layer
around them. Here one number of torch's generator seeds an SFC64 generator for a whole
forward pass, of which every mask value takes 16 bits; the state of torch's generator
gives the same masks again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Float32, Int, Int64
from harness.core.digests import digest_of_files, one_reading
from harness.core.errors import ScoreError, UsageError
from harness.core.interfaces import Pooling
from harness.encoders.checkpoint import maximum_length, read_tensors, weights_files
from harness.encoders.kernels.padded import (
    CuttingTokenizer,
    open_checkpoint,
    padded_states,
)
from harness.transforms.pooling import CLS, Cls, Mean

STEPS = 1 << 16  # a probability is rounded to a multiple of 1 / STEPS


class Noise:
    """The random bits of a forward pass, for all its masks in the order of their use."""

    def __init__(self) -> None:
        self.bits = np.random.SFC64(0)

    def restart(self, device: str) -> None:
        """Reseed from one number of torch's generator, on a GPU its own generator too."""
        seed = int(torch.randint(1 << 62, ()))
        if torch.device(device).type == "cuda":
            torch.cuda.manual_seed(seed)
        self.bits = np.random.SFC64((seed, 0))

    def mask(self, like: Float[Tensor, "..."], p: float) -> Float[Tensor, "..."]:
        """Independent values: 0 with probability p, else 1 / (1 - p)."""
        count, dropped = like.numel(), min(round(p * STEPS), STEPS - 1)
        words = self.bits.random_raw(-(-count // 4)).view(np.uint16)[:count]
        kept = torch.from_numpy(
            (words >= dropped).view(np.uint8)
        )  # converted faster than bool
        return kept.view(like.shape).to(like.dtype).mul_(STEPS / (STEPS - dropped))


class Dropout(nn.Module):
    """`nn.Dropout` whose masks on a CPU come from the noise of a forward pass."""

    def __init__(self, p: float, noise: Noise) -> None:
        super().__init__()
        self.p, self.noise = p, noise

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return x * self.noise.mask(x, self.p)


def use_dropout(model: nn.Module, p: float | None, noise: Noise) -> None:
    """Replace every dropout of the model, in place; p None keeps each module's own probability."""
    if p is not None and not 0 <= p < 1:
        raise UsageError(f"wanted a dropout probability from 0 to below 1, found {p}")
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, Dropout(child.p if p is None else p, noise))
        for name, value in list(vars(module).items()):
            if "dropout" in name and isinstance(
                value, float
            ):  # T5 and BART call the function
                setattr(module, name, value if p is None else p)


TokenIds = Sequence[Sequence[int]]  # the token ids of sentences
Groups = list[tuple[int, int]]  # runs of sentences of equal length: (count, length)


def groups_of(lengths: Int[np.ndarray, " N"]) -> Groups:
    """Runs of equal lengths; ascending lengths make few of them."""
    return [(len(list(run)), int(length)) for length, run in groupby(lengths)]


def packed_states(
    model: Any,
    rows: TokenIds,
    layers: Sequence[int],
    places: Int64[Tensor, " N"] | None = None,
) -> dict[int, Float[Tensor, "T D"]]:
    """The hidden states of these layers, 0 being the embedding layer's output.

    With `places`, one token of each sentence, the last layer is computed for those
    alone: (N, D).
    """
    groups = groups_of(np.array([len(row) for row in rows]))
    ids = torch.tensor(list(chain.from_iterable(rows)))
    first = (
        getattr(model.embeddings, "padding_idx", -1) + 1
    )  # RoBERTa's positions start behind it
    positions = torch.cat([torch.arange(first, first + L).repeat(n) for n, L in groups])
    h = model.embeddings(input_ids=ids[None], position_ids=positions[None])[0]
    states, depth = {0: h}, len(model.encoder.layer)
    for number, layer in enumerate(model.encoder.layer, start=1):
        x = h if places is None or number < depth else h[places]
        attended = layer.attention.output(
            _self_attention(layer.attention.self, x, h, groups), x
        )
        h = layer.output(layer.intermediate(attended), attended)
        if number in layers:
            states[number] = h
    return {layer: states[layer] for layer in layers}


def _self_attention(
    attention: Any, x: Float[Tensor, "Q D"], h: Float[Tensor, "T D"], groups: Groups
) -> Float[Tensor, "Q D"]:
    """Attention inside each sentence. Queries are all its tokens, or x holds one of each."""
    tokens = [n * L for n, L in groups]
    asking = tokens if len(x) == len(h) else [n for n, _ in groups]
    queries = torch.split(attention.query(x), asking)
    keys, values = (
        torch.split(attention.key(h), tokens),
        torch.split(attention.value(h), tokens),
    )
    outputs = []
    for (n, _), *qkv in zip(groups, queries, keys, values, strict=True):
        heads = (n, -1, attention.num_attention_heads, attention.attention_head_size)
        q, k, v = (
            matrix.view(heads).transpose(1, 2) for matrix in qkv
        )  # (n, heads, tokens, d)
        if attention.training and attention.dropout.p > 0:
            weights = torch.softmax(q @ k.transpose(2, 3) * attention.scaling, dim=-1)
            mixed = attention.dropout(weights) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        outputs.append(mixed.transpose(1, 2).reshape(len(qkv[0]), -1))
    return torch.cat(outputs)


def token_means(
    states: Float[Tensor, "T D"], lengths: Int[np.ndarray, " N"]
) -> Float[Tensor, "N D"]:
    """The mean over each sentence's tokens."""
    groups = groups_of(lengths)
    runs = zip(groups, torch.split(states, [n * L for n, L in groups]), strict=True)
    return torch.cat([run.view(n, L, -1).mean(dim=1) for (n, L), run in runs])


HeadUse = Literal["none", "train", "keep"]
Precision = Literal["float32", "bf16", "fp16"]
HALF: Mapping[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}

PACKED_ARCHITECTURES = frozenset({"bert", "roberta", "xlm-roberta", "camembert"})
LENGTH_STEP = 8  # padded chunks hold lengths up to the same multiple of this
HEAD_STD = 0.02  # of the weights of a new head, as in BERT
EMBED_CHUNK = 8192  # tokens at a time when no gradient is kept


@dataclass(frozen=True)
class Setup:
    """How an encoder is opened for training.

    `head` is a dense layer with tanh over the pooled vector, as BERT's pooler is: used
    in training only ("train") or kept as the checkpoint's pooler ("keep"). `max_length`
    is in tokens, special ones included; `dropout` None is the checkpoint's own
    probability.
    """

    pooling: Pooling = CLS
    head: HeadUse = "none"
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


class SentenceEncoder(nn.Module):
    """A transformer, a pooling over its hidden states, and a projection head.

    `tokenizer` truncates to the setup's length, `reader` to the checkpoint's own.
    `padding` is the padding token's id and `summary` the place of the summary token
    ([CLS]; -1 is the last token). `start_sha256` is the digest of the weights that it
    was opened with, where it was opened. `transformer` is what a checkpoint stores: its
    pooler is the head that is kept, or absent.
    """

    def __init__(
        self,
        transformer: nn.Module,
        tokenizer: CuttingTokenizer,
        reader: CuttingTokenizer,
        setup: Setup,
        *,
        padding: int,
        summary: int | None,
        rng: np.random.Generator,
    ) -> None:
        super().__init__()
        self.start_sha256 = ""
        self.transformer, self.setup = transformer, setup
        self.tokenizer, self.reader = tokenizer, reader
        self.padding, self.summary, self.noise = padding, summary, Noise()
        config: Any = transformer.config
        depth: int = config.num_hidden_layers
        self.layers = (
            setup.pooling.hidden_states(depth)
            if isinstance(setup.pooling, Mean)
            else (depth,)
        )
        if isinstance(setup.pooling, Cls) and summary is None:
            raise UsageError(
                f"{tokenizer.name}: this encoder has no summary token; use mean"
            )
        self.head = self._new_head(rng)
        use_dropout(self, setup.dropout, self.noise)
        self.to(setup.device)
        self.packs = config.model_type in PACKED_ARCHITECTURES and setup.device == "cpu"

    @property
    def size(self) -> int:
        return int(self.transformer.config.hidden_size)  # type: ignore[union-attr, arg-type]

    def forward(self, rows: TokenIds) -> Float32[Tensor, "N D"]:
        """One vector a sentence. In training mode every call draws new dropout masks."""
        order = np.argsort([len(row) for row in rows], kind="stable")
        self.noise.restart(self.setup.device)
        with self.autocast():
            chunks = self._length_chunks([rows[i] for i in order])
            z = torch.cat([self._pooled(chunk) for chunk in chunks])
            # A head for training only is left out in evaluation.
            if self.head is not None and (self.training or self.setup.head == "keep"):
                z = self.head(z)
        return z.float()[torch.from_numpy(np.argsort(order)).to(z.device)]

    def tokens(self, rows: TokenIds) -> Float[Tensor, "T D"]:
        """The last hidden states of all tokens, sentence after sentence."""
        last = int(self.transformer.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]
        self.noise.restart(self.setup.device)
        with self.autocast():
            return self._states(rows, (last,))[last]

    def embed(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
        """The vectors of texts, without dropout, truncated at the checkpoint's own length."""
        rows = self.reader(texts)
        order = np.argsort([len(row) for row in rows], kind="stable")
        vectors = np.empty((len(rows), self.size), np.float32)
        was_training = self.training
        self.eval()
        with torch.no_grad():
            for chunk in token_chunks([rows[i] for i in order], EMBED_CHUNK):
                vectors[order[chunk]] = (
                    self([rows[i] for i in order[chunk]]).cpu().numpy()
                )
        self.train(was_training)
        return vectors

    def autocast(self) -> torch.autocast:
        """Mixed precision as the setup has it; weights stay in float32."""
        half, device = (
            HALF.get(self.setup.precision),
            torch.device(self.setup.device).type,
        )
        return torch.autocast(device, half, enabled=half is not None)

    def _new_head(self, rng: np.random.Generator) -> nn.Module | None:
        """A head with new weights, in the transformer's pooler if it is kept.

        Otherwise the pooler is removed: it was trained with the weights from before.
        """
        transformer: Any = self.transformer
        pooler = getattr(transformer, "pooler", None)
        if self.setup.head == "keep":
            if not isinstance(getattr(pooler, "dense", None), nn.Linear):
                raise UsageError(
                    f"{self.tokenizer.name}: this architecture has no dense pooler to keep a head "
                    "in; train one that is not kept"
                )
            return _projection(transformer.pooler.dense, rng)
        if pooler is not None:
            transformer.pooler = None
        if self.setup.head == "none":
            return None
        return _projection(nn.Linear(self.size, self.size), rng)

    def _length_chunks(self, rows: TokenIds) -> list[TokenIds]:
        """Rows in ascending length, cut into one chunk for each forward pass."""
        if self.packs or self.setup.device != "cpu":
            return [rows]
        return [
            list(run)
            for _, run in groupby(rows, lambda row: -(-len(row) // LENGTH_STEP))
        ]

    def _states(
        self, rows: TokenIds, layers: Sequence[int]
    ) -> dict[int, Float[Tensor, "T D"]]:
        if self.packs:
            return packed_states(self.transformer, rows, layers)
        states, mask, _ = padded_states(self.transformer, rows, self.padding)
        return {layer: states[layer][mask] for layer in layers}

    def _pooled(self, rows: TokenIds) -> Float[Tensor, "n D"]:
        lengths = np.array([len(row) for row in rows])
        if isinstance(self.setup.pooling, Mean):
            states = self._states(rows, self.layers)
            means = [token_means(states[layer], lengths) for layer in self.layers]
            return torch.stack(means).mean(dim=0)
        ends = np.cumsum(lengths)
        places = torch.from_numpy(ends - 1 if self.summary == -1 else ends - lengths)
        if self.packs:
            return packed_states(self.transformer, rows, self.layers, places)[
                self.layers[0]
            ]
        return self._states(rows, self.layers)[self.layers[0]][
            places.to(self.setup.device)
        ]


def _projection(dense: nn.Linear, rng: np.random.Generator) -> nn.Module:
    """tanh(W x + b), the weights drawn anew as BERT initialises them."""
    weight = rng.normal(scale=HEAD_STD, size=dense.weight.shape).astype(np.float32)
    with torch.no_grad():
        dense.weight.copy_(torch.from_numpy(weight))
        dense.bias.zero_()
    return nn.Sequential(OrderedDict(dense=dense, activation=nn.Tanh()))


def token_chunks(rows: TokenIds, tokens: int) -> list[slice]:
    """Consecutive rows as slices of at most so many tokens; a longer row is alone in its slice."""
    cuts, held = [0], 0
    for number, row in enumerate(rows):
        if held and held + len(row) > tokens:
            cuts.append(number)
            held = 0
        held += len(row)
    return [
        slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(rows)], strict=True) if b > a
    ]


@one_reading()
def open_encoder(
    name: str, folder: Path, cache: Path, setup: Setup, seed: int
) -> SentenceEncoder:
    """A folder's checkpoint as an encoder to train; the seed draws the weights of a new head.

    Its `start_sha256` is of the bytes that the weights were read from.
    """
    if torch.device(setup.device).type == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            f"{name}: wanted to train on {setup.device}, found no CUDA device here"
        )
    start_sha256 = digest_of_files(weights_files(folder))
    tensors = read_tensors(folder, cache)
    length = maximum_length(name, folder, setup.max_length)
    tokenizer, kernel, _ = open_checkpoint(name, folder, tensors, length)
    full_length = maximum_length(name, folder)
    encoder = SentenceEncoder(
        kernel.model,
        tokenizer,
        CuttingTokenizer(name, tokenizer.tokenizer, full_length),
        setup,
        padding=kernel.padding,
        summary=kernel.summary,
        rng=np.random.default_rng((seed, 2)),
    )
    encoder.start_sha256 = start_sha256
    return encoder


# The gradient of a batch that does not fit in memory, or that underflows in 16 bits


Loss = Callable[[Float32[Tensor, "N D"]], Float[Tensor, ""]]

# What a loss in 16 bits is multiplied by: powers of two, which change no digit.
LOSS_SCALES = (4096.0, 256.0, 16.0, 1.0)


def backward_in_chunks(
    encoder: SentenceEncoder, rows: TokenIds, loss_of: Loss, chunk_tokens: int
) -> float:
    """Add the gradient of loss_of(encoder(rows)) to the parameters' gradients; return the loss.

    Activations of at most `chunk_tokens` tokens are held at a time, by GradCache (Gao
    et al. 2021, arXiv 2101.06983): all vectors without a graph, the loss over them and
    its gradient, then each chunk once more, under the same dropout masks, with that
    gradient.
    """
    order = np.argsort([len(row) for row in rows], kind="stable")
    chunks = [
        order[chunk] for chunk in token_chunks([rows[i] for i in order], chunk_tokens)
    ]
    if len(chunks) == 1:
        loss = loss_of(encoder(rows))
        torch.autograd.backward(loss)
        return loss.item()
    states, vectors = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append(torch.get_rng_state())
            vectors.append(encoder([rows[i] for i in chunk]))
    final_state = torch.get_rng_state()
    places = torch.from_numpy(np.argsort(np.concatenate(chunks))).to(vectors[0].device)
    z = torch.cat(vectors)[places].requires_grad_()
    loss = loss_of(z)
    torch.autograd.backward(loss)
    gradient = cast(Tensor, z.grad)
    for chunk, state in zip(chunks, states, strict=True):
        torch.set_rng_state(state)
        recomputed = encoder([rows[i] for i in chunk])
        torch.autograd.backward(
            recomputed, gradient[torch.from_numpy(chunk).to(z.device)]
        )
    torch.set_rng_state(final_state)
    return loss.item()


def with_loss_scaling(
    backward: Callable[[float], float], parameters: Iterable[nn.Parameter], half: bool
) -> float:
    """Run a backward pass with its loss scaled up, so that 16-bit gradients do not underflow.

    `backward` takes the scale, adds the gradient of the scaled loss and returns that
    loss. Where a gradient overflows, the pass is repeated at a smaller scale under the
    same dropout: unlike with a dynamic scale, no step is skipped and none depends on
    those before it. Raises ScoreError where a gradient overflows at every scale.
    """
    if not half:
        return backward(1.0)
    trained, state = list(parameters), torch.get_rng_state()
    for scale in LOSS_SCALES:
        torch.set_rng_state(state)
        loss = backward(scale)
        gradients = [p.grad for p in trained if p.grad is not None]
        if all(torch.isfinite(gradient).all() for gradient in gradients):
            torch._foreach_mul_(gradients, 1 / scale)
            return loss / scale
        torch._foreach_zero_(gradients)
    raise ScoreError("a gradient overflows 16 bits at any scale; take bf16 or float32")
