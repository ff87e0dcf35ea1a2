"""The two forward passes of a transformer: plain, on padded batches, and packed.

The plain pass is the model itself. It is the reference that the packed pass is compared
with (`choose.py`), and the only one that gives the states of tokens or can be run with
dropout.

The packed pass is that of BERT and its relatives without padding. A packed batch is one
matrix of states, a row for each token, sentence after sentence. Matrix products, norms
and activations take the whole matrix; attention takes a run of sentences of one length
at a time. The pass uses the layers of a model and not the model's own code. So it is
written for architectures whose layers are known to be these, in this order, and it is
not used where it gives other encodings than the model.

Its matrices are multiplied by torch, by oneDNN, or by MKL. oneDNN is several times as
fast as torch on some processors: it brings the weights into a layout of its own, once. A
row of its product does not depend on the number of rows. Where a processor has AVX2 and
no AVX-512, MKL is faster, which torch calls: oneDNN's GELU takes six times torch's there.
A row of MKL's product is the same for each number of rows from 4 on, so that fewer are
filled up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers.activations import ACT2FN

from harness.core.arrays import Bool, Float, Float32
from harness.core.errors import UsageError, first_line
from harness.core.hardware import Hardware
from harness.core.interfaces import Encoding

# oneDNN keeps compiled code for every number of rows that it has seen, by default for
# 1024 of them: some hundred megabytes. A batch uses four, and another batch hardly ever
# has the same ones. The variable is read at oneDNN's first product; a user's value is kept.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

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
        has_separator: Whether every text ends with a special token that is not the
            summary token.
        statistics: What is computed of each layer beside the mean and the summary token:
            some of `layer_max`, `layer_sep` and `layer_weighted`.
    """

    model: Any
    padding_id: int
    has_pooler: bool
    summary: int | None = None
    needs_equal_lengths: bool = False
    has_separator: bool = False
    statistics: frozenset[str] = frozenset()

    def with_statistics(self, statistics: frozenset[str]) -> PaddedKernel:
        """This pass, which computes further statistics of each layer."""
        return replace(self, statistics=statistics)

    def on(self, hardware: Hardware) -> PaddedKernel:
        """The pass on a device and in a precision; products are of whole float32 numbers.

        Raises UsageError for a device that torch does not have.
        """
        # TF32 would keep 19 bits of each factor, and a record would still say float32.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        dtype = getattr(torch, hardware.dtype)
        try:  # and not with the model, for which the memory of a device may be too small
            torch.empty(0, device=hardware.device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(
                f"wanted a device that torch has, found {hardware.device!r}: {first_line(error)}"
            ) from error
        return replace(self, model=self.model.to(hardware.device, dtype))

    def __call__(self, batch: TokenIds) -> Encoding:
        states, mask, output = self.states(batch)
        lengths = mask.sum(dim=1)
        with torch.inference_mode():
            weights = mask[:, None].float()  # (B, 1, T)
            sums = [weights @ state.float() for state in states]  # L x (B, 1, D)
            mean = torch.cat(sums, dim=1) / lengths[:, None, None]  # (B, L, D)
        outputs = {"mean": mean}
        if self.summary is not None:
            position = lengths - 1 if self.summary == -1 else torch.zeros_like(lengths)
            rows = torch.arange(len(batch), device=lengths.device)
            summaries = [state[rows, position] for state in states]  # L x (B, D)
            outputs["layer_cls"] = torch.stack(summaries, dim=1)
            outputs["cls"] = summaries[-1]
        if "layer_max" in self.statistics:
            padding = ~mask[:, :, None]  # (B, T, 1)
            largest = [state.masked_fill(padding, -inf).amax(dim=1) for state in states]
            outputs["layer_max"] = torch.stack(largest, dim=1)
        if "layer_weighted" in self.statistics:
            places = (mask.cumsum(dim=1) * mask)[:, None].float()  # (B, 1, T)
            weighted = [places @ state.float() for state in states]
            totals = places.sum(dim=2, keepdim=True)  # (B, 1, 1)
            outputs["layer_weighted"] = torch.cat(weighted, dim=1) / totals
        if "layer_sep" in self.statistics and self.has_separator:
            rows = torch.arange(len(batch), device=lengths.device)
            ends = [state[rows, lengths - 1] for state in states]
            outputs["layer_sep"] = torch.stack(ends, dim=1)
        if self.has_pooler:
            outputs["pooler"] = output.pooler_output
        return Encoding(
            layers=tuple(range(len(states))),
            depth=len(states) - 1,
            **{name: to_numpy(array) for name, array in outputs.items()},
            lengths=counted_tokens(batch),
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

    def multiplied_by_onednn(self) -> PaddedKernel:
        """This pass with the products of oneDNN; its masks of dropout are the same."""
        parameters = {id(parameter): parameter for parameter in self.model.parameters()}
        model = deepcopy(self.model, parameters)  # which shares them
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if type(child) is nn.Linear:
                    setattr(module, name, OneDnnLinear(child))
        return replace(self, model=model)

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


def counted_tokens(batch: TokenIds) -> Float32[np.ndarray, "N 1"]:
    """The number of tokens of each sentence."""
    return np.array([[len(ids)] for ids in batch], np.float32)


def to_numpy(output: Tensor) -> Float32[np.ndarray, "..."]:
    """The output of a pass, in float32 and in main memory."""
    return output.float().cpu().numpy()


# The packed pass

States = Float[Tensor, "T D"]  # of all tokens of a batch


# Architectures

# The `model_type` of transformers whose layers hold six linear layers (query, key, value,
# the output of attention, expansion, contraction) and two norms, in this order.
ARCHITECTURES = frozenset(
    {"bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta"}
)


def is_packable(model: Any) -> bool:
    """Whether the packed pass is written for the architecture of a model."""
    is_decoder = getattr(model.config, "is_decoder", False)
    return model.config.model_type in ARCHITECTURES and not is_decoder


# The modules of a layer


class Linear:
    """Linear layers over one input as a single product x W^T + b, and what follows it.

    Args:
        library: The library that multiplies: `torch` or `onednn`; `MklLinear` is for MKL.
        layers: Layers of torch; the outputs of several follow each other in a row.
        activation: The name of the activation after the product. oneDNN computes `gelu`
            with it.
    """

    def __init__(self, library: str, *layers: Any, activation: str = "linear") -> None:
        self.weight = torch.cat([layer.weight.detach() for layer in layers])
        self.bias: Float[Tensor, " O"] | None = None
        biases = [layer.bias for layer in layers]
        if all(bias is not None for bias in biases):
            self.bias = torch.cat([bias.detach() for bias in biases])
        self.onednn: Any = None  # oneDNN's product; None multiplies by torch
        self.fused_activation = "none"
        if library == "onednn":
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, None)
            self.onednn = torch.ops.mkldnn._linear_pointwise
            if activation == "gelu":
                self.fused_activation, activation = "gelu", "linear"
        self.activation: Callable[[States], States] = ACT2FN[activation]

    def __call__(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        """The activation of the product."""
        if self.onednn:
            product = self.onednn(
                x, self.weight, self.bias, self.fused_activation, [], "none"
            )
        else:
            product = F.linear(x, self.weight, self.bias)
        return self.activation(product)

    def plus(
        self, addend: Float[Tensor, "T O"], x: Float[Tensor, "T I"]
    ) -> Float[Tensor, "T O"]:
        """The product plus another matrix."""
        if self.onednn:
            return self.onednn.binary(x, addend, self.weight, self.bias, "add")
        return F.linear(x, self.weight, self.bias).add_(addend)


class OneDnnLinear(nn.Module):
    """A linear layer of a model, multiplied by oneDNN."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.linear = Linear("onednn", layer)

    def forward(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        """The product x W^T + b."""
        return self.linear(x)


TRIED_ROWS = (1, 2, 3, 4, 5, 17, 300, 600)  # on which the rule of rows is tested
LEAST_ROWS = 4  # of a product by MKL, which has other kernels for fewer


def filled_up(x: Float[Tensor, "T I"]) -> Float[Tensor, "t I"]:
    """The matrix with rows of zeros below it, where it has fewer than `LEAST_ROWS`."""
    lacking = LEAST_ROWS - len(x)
    return F.pad(x, (0, 0, 0, lacking)) if lacking > 0 else x


class Buffers(threading.local):
    """The memory that the products of a thread are written to, batch after batch.

    New memory costs a page fault for each 4 KiB, which is 6 % of the time of a batch.
    """

    def matrix(self, name: str, rows: int, columns: int) -> Float[Tensor, "T O"]:
        """A matrix in the buffer of this name, whose earlier content is lost."""
        buffer = self.__dict__.get(name)
        if buffer is None or len(buffer) < rows * columns:
            buffer = self.__dict__[name] = torch.empty(rows * columns)
        return buffer[: rows * columns].view(rows, columns)


class MklLinear(Linear):
    """Linear layers over one input as a single product by MKL, into a buffer.

    Args:
        buffers: The buffers of the pass. A product is lost with the next but one.
        layers: Layers of torch; the outputs of several follow each other in a row.
        activation: The name of the activation after the product.
    """

    def __init__(
        self, buffers: Buffers, *layers: Any, activation: str = "linear"
    ) -> None:
        super().__init__("torch", *layers, activation=activation)
        self.buffers = buffers
        if activation == "gelu":
            self.activation = torch.ops.aten.gelu_.default  # in place

    def __call__(self, x: Float[Tensor, "T I"]) -> Float[Tensor, "T O"]:
        """The activation of the product."""
        rows = filled_up(x)
        product = self.buffers.matrix("product", len(rows), len(self.weight))
        if self.bias is None:
            torch.mm(rows, self.weight.t(), out=product)
        else:
            torch.addmm(self.bias, rows, self.weight.t(), out=product)
        return self.activation(product[: len(x)])

    def plus(
        self, addend: Float[Tensor, "T O"], x: Float[Tensor, "T I"]
    ) -> Float[Tensor, "T O"]:
        """The product plus another matrix."""
        rows = filled_up(x)
        total = self.buffers.matrix("sum", len(rows), len(self.weight))
        torch.addmm(filled_up(addend), rows, self.weight.t(), out=total)
        if self.bias is not None:
            total += self.bias
        return total[: len(x)]


class Layer:
    """The modules of one layer: attention with its norm, then the two-layer network with its own.

    Args:
        layer: The layer of the model.
        linear: Makes one product of linear layers.
        activation: The name of the activation between the two layers.
    """

    def __init__(
        self, layer: nn.Module, linear: Callable[..., Linear], activation: str
    ) -> None:
        modules = list(layer.modules())
        linears = [module for module in modules if isinstance(module, nn.Linear)]
        norms = [module for module in modules if isinstance(module, nn.LayerNorm)]
        query, key, value, attention_output, expansion, contraction = linears
        self.query_key_value = linear(query, key, value)
        self.attention_output = linear(attention_output)
        self.expansion = linear(expansion, activation=activation)
        self.contraction = linear(contraction)
        self.attention_norm, self.norm = norms


# The pass


@dataclass(frozen=True)
class Run:
    """Sentences of one length that follow each other in a packed batch.

    Attributes:
        sentences: Their number.
        length: The tokens of each.
        tokens: The rows of all their tokens.
    """

    sentences: int
    length: int
    tokens: slice


class PackedKernel:
    """The packed pass of a model.

    Args:
        plain_kernel: The plain pass of the model.
        library: The library that multiplies: `torch`, `onednn` or `mkl`.
    """

    def __init__(self, plain_kernel: PaddedKernel, library: str) -> None:
        self.plain_kernel = plain_kernel
        self.library = library
        self.model = plain_kernel.model
        config = self.model.config
        # DistilBERT has a name of its own for it.
        activation = getattr(config, "hidden_act", None) or config.activation
        [layers, *_] = (
            module
            for module in self.model.modules()
            if isinstance(module, nn.ModuleList)
        )
        linear: Callable[..., Any] = partial(Linear, library)
        if library == "mkl":
            linear = partial(MklLinear, Buffers())
        self.layers = [Layer(layer, linear, activation) for layer in layers]
        self.heads: int = config.num_attention_heads
        # MPNet's attention adds a bias for the distance of two tokens.
        encoder = getattr(self.model, "encoder", None)
        self.position_bias = getattr(encoder, "compute_position_bias", None)

    def with_statistics(self, statistics: frozenset[str]) -> PackedKernel:
        """This pass, which computes further statistics of each layer; weights are shared."""
        kernel = copy(self)
        kernel.plain_kernel = self.plain_kernel.with_statistics(statistics)
        return kernel

    def __call__(self, batch: Sequence[Sequence[int]]) -> Encoding:
        # In the order of their lengths, sentences of one length follow each other.
        order = sorted(range(len(batch)), key=lambda row: len(batch[row]))
        sentences = [batch[row] for row in order]
        sentence_lengths = [len(ids) for ids in sentences]
        runs = runs_of(sentence_lengths)
        with torch.inference_mode():
            states = packed_embeddings(self.model, sentences)
            kept = LayerStatistics(
                self.plain_kernel, sentence_lengths, len(self.layers) + 1, states
            )
            kept.keep(0, states)
            for number, layer in enumerate(self.layers, start=1):
                attended = torch.empty_like(states)
                query_key_value = layer.query_key_value(states)
                for run in runs:
                    self._attend(query_key_value[run.tokens], run, attended[run.tokens])
                attended = layer.attention_output.plus(states, attended)
                states = layer.attention_norm(attended)
                expanded = layer.expansion(states)
                states = layer.norm(layer.contraction.plus(states, expanded))
                kept.keep(number, states)
            outputs = dict(kept.arrays)
            if self.plain_kernel.summary is not None:
                outputs["cls"] = kept.arrays["layer_cls"][:, -1]
            if self.plain_kernel.has_pooler:
                first_states = states[kept.first_tokens]
                if self.library == "mkl":
                    first_states = filled_up(first_states)
                pooled = self.model.pooler(first_states[:, None])
                outputs["pooler"] = pooled[: len(sentences)]
        rows = np.argsort(order)  # from the packed batch to the order of `batch`
        return Encoding(
            layers=tuple(range(len(self.layers) + 1)),
            depth=len(self.layers),
            **{name: to_numpy(output)[rows] for name, output in outputs.items()},
            lengths=counted_tokens(batch),
        )

    def multiplies_rows_alike(self) -> bool:
        """Whether rows of the first layer's products do not depend on the number of rows."""
        layer = self.layers[0]
        with torch.inference_mode():
            for linear in (
                layer.query_key_value,
                layer.attention_output,
                layer.expansion,
                layer.contraction,
            ):
                width, size = linear.weight.shape
                most = TRIED_ROWS[-1]
                x = torch.arange(most * size).sin().view(most, size)
                addend = torch.arange(most * width).cos().view(most, width)
                product, total = linear(x).clone(), linear.plus(addend, x).clone()
                for count in TRIED_ROWS:
                    part, part_total = (
                        x[-count:],
                        linear.plus(addend[-count:], x[-count:]),
                    )
                    if not torch.equal(linear(part), product[-count:]):
                        return False
                    if not torch.equal(part_total, total[-count:]):
                        return False
        return True

    def _attend(
        self,
        query_key_value: Float[Tensor, "t E"],
        run: Run,
        output: Float[Tensor, "t D"],
    ) -> None:
        """Self-attention inside each sentence of a run, written to `output`."""
        bias = None
        if self.position_bias is not None:
            # The model reads nothing of this tensor but its shape.
            positions = torch.empty((1, run.length, 0), device=self.model.device)
            bias = self.position_bias(positions)
        split = query_key_value.view(run.sentences, run.length, 3, self.heads, -1)
        # Each of the three: (sentences, heads, tokens, dimensions of a head).
        query, key, value = split.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        heads_side_by_side = output.view(run.sentences, run.length, self.heads, -1)
        heads_side_by_side.copy_(attended.transpose(1, 2))


def runs_of(lengths: Sequence[int]) -> list[Run]:
    """The runs of sentences of equal length; `lengths` are in the order of the batch."""
    runs = []
    start = 0
    for length, equal_lengths in groupby(lengths):
        count = len(list(equal_lengths))
        end = start + count * length
        runs.append(Run(sentences=count, length=length, tokens=slice(start, end)))
        start = end
    return runs


def packed_embeddings(model: Any, sentences: TokenIds) -> States:
    """The output of the embedding layer for the tokens of all sentences, one after the other.

    Positions begin at 0. RoBERTa's and MPNet's begin after the id of padding; a padding
    token that a text holds is not counted there, and has that id as its position, as in
    the model.
    """
    ids = torch.tensor(list(chain.from_iterable(sentences)))
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
    positions = torch.arange(len(ids)) - starts
    padding_id = getattr(model.embeddings, "padding_idx", None)
    if padding_id is not None:
        is_counted = (ids != padding_id).long()
        counts = is_counted.cumsum(0)  # up to each token, over all sentences
        counts_before_sentence = (counts - is_counted)[starts]
        positions = (counts - counts_before_sentence) * is_counted + padding_id
    if model.device.type != "cpu":
        # A GPU copies pinned memory by itself, while the processor goes on.
        ids = ids.pin_memory().to(model.device, non_blocking=True)
        positions = positions.pin_memory().to(model.device, non_blocking=True)
    states = model.embeddings(input_ids=ids[None], position_ids=positions[None])[0]
    # ELECTRA's embeddings may be narrower than its states.
    projection = getattr(model, "embeddings_project", None)
    return states if projection is None else projection(states)


class LayerStatistics:
    """The statistics over the tokens of each sentence that are kept of each layer.

    Args:
        plain_kernel: The plain pass, which says what is kept.
        sentence_lengths: The tokens of each of N sentences, ascending.
        layers: The number of layers, with the output of the embedding layer.
        states: The states of a layer, for their width and device.

    Attributes:
        runs: The runs of sentences of equal length.
        first_tokens: The row of the first token of each sentence.
        last_tokens: The row of the last token.
        arrays: Arrays (N, L, D) by the names of an encoding, in float32 whatever the
            precision of the model.
    """

    def __init__(
        self,
        plain_kernel: PaddedKernel,
        sentence_lengths: Sequence[int],
        layers: int,
        states: States,
    ) -> None:
        self.runs = runs_of(sentence_lengths)
        lengths = torch.tensor(sentence_lengths)
        ends = lengths.cumsum(0)
        self.first_tokens = (ends - lengths).to(states.device)
        self.last_tokens = (ends - 1).to(states.device)
        self.summary_tokens = self.first_tokens
        if plain_kernel.summary == -1:
            self.summary_tokens = self.last_tokens
        names = {"mean", *plain_kernel.statistics}
        if plain_kernel.summary is not None:
            names.add("layer_cls")
        if not plain_kernel.has_separator:
            names.discard("layer_sep")
        shape = (len(sentence_lengths), layers, states.shape[1])
        self.arrays = {name: torch.empty(shape, device=states.device) for name in names}

    def keep(self, number: int, states: States) -> None:
        """Keep the statistics of the layer of this number, whose states are given."""
        for name, array in self.arrays.items():
            of_layer = array[:, number]
            if name == "layer_cls":
                of_layer.copy_(states[self.summary_tokens])
            elif name == "layer_sep":
                of_layer.copy_(states[self.last_tokens])
            else:
                self._reduce(name, states, of_layer)

    def _reduce(self, name: str, states: States, output: Float[Tensor, "N D"]) -> None:
        """Write a mean or the maximum over the tokens of each sentence into a row."""
        row = 0
        for run in self.runs:
            tokens = states[run.tokens].view(run.sentences, run.length, -1)
            rows = output[row : row + run.sentences]
            if name == "mean":
                torch.mean(tokens, dim=1, dtype=output.dtype, out=rows)
            elif name == "layer_weighted":
                places = torch.arange(1, run.length + 1, device=tokens.device)
                shares = (places / places.sum()).to(output.dtype)
                rows.copy_(shares @ tokens.to(output.dtype))
            else:
                rows.copy_(tokens.amax(dim=1))
            row += run.sentences


# The libraries


def prefers_mkl(model: Any) -> bool:
    """Whether MKL multiplies a model's matrices faster than oneDNN: float32, AVX2 alone."""
    weight = next(model.parameters())
    return bool(
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.cpu.get_cpu_capability() == "AVX2"
    )


def has_onednn(model: Any) -> bool:
    """Whether oneDNN can multiply a model's matrices: of float32 or bfloat16, on the processor.

    Its operations are no part of torch's stable interface, and a build may lack them; a
    processor may lack products of bfloat16.
    """
    weight = next(model.parameters())
    operations = torch.ops.mkldnn
    names = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    is_built = torch.backends.mkldnn.is_available() and all(  # type: ignore[no-untyped-call]
        hasattr(operations, name) for name in names
    )
    if not is_built or weight.device.type != "cpu":
        return False
    if weight.dtype == torch.bfloat16:
        return bool(operations._is_mkldnn_bf16_supported())
    return bool(weight.dtype == torch.float32)
