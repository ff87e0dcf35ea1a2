"""An encoder in training: a transformer, a pooling and a head, with fast dropout.

Two things are faster here than in transformers. The first is dropout: on a CPU, torch
draws masks from its Mersenne twister: 16 of the 108 ms of a layer of MiniLM's size for
64 texts of 32 tokens, on one thread. Here one number of torch's generator seeds an
SFC64 generator for a whole forward pass, which gives 16 bits for each value of a mask;
the state of torch's generator gives the same masks again. The second is a pass without
padding for BERT and its variants.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Float32, Int64
from harness.core.digests import digest_of_files
from harness.core.errors import UsageError
from harness.encoders.checkpoint import maximum_length, weights_files
from harness.encoders.kernels.loading import open_checkpoint
from harness.encoders.kernels.passes import (
    Run,
    TokenIds,
    packed_embeddings,
    padded_states,
    runs_of,
)
from harness.training.recipes import Sbert, Simcse
from harness.transforms.pooling import CLS, POOLINGS, Cls, Mean

# Dropout

PROBABILITY_STEPS = 1 << 16  # probabilities are multiples of 1 / PROBABILITY_STEPS


class Noise:
    """The random bits of a forward pass, which its dropout masks are made of in turn."""

    def __init__(self) -> None:
        self.bits = np.random.SFC64(0)

    def restart(self, device: str) -> None:
        """Seed the bits by a number of torch's generator; on a GPU, seed its generator, too."""
        seed = int(torch.randint(1 << 62, ()))
        if torch.device(device).type == "cuda":
            torch.cuda.manual_seed(seed)
        self.bits = np.random.SFC64((seed, 0))

    def mask(self, x: Float[Tensor, "..."], p: float) -> Float[Tensor, "..."]:
        """A mask in the shape of x: each value is 0 with probability p, else 1 / (1 - p)."""
        count = x.numel()
        dropped_steps = min(round(p * PROBABILITY_STEPS), PROBABILITY_STEPS - 1)
        raw_count = math.ceil(count / 4)  # a number of 64 bits is 4 of 16 bits
        steps = self.bits.random_raw(raw_count).view(np.uint16)[:count]
        # Bytes are converted to floats faster than truth values.
        is_kept = torch.from_numpy((steps >= dropped_steps).view(np.uint8))
        scale = PROBABILITY_STEPS / (PROBABILITY_STEPS - dropped_steps)
        return is_kept.view(x.shape).to(x.dtype).mul_(scale)


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
    """Replace every dropout of the model, in place.

    `p` is the probability; None keeps the probability of each module.
    """
    if p is not None and not 0 <= p < 1:
        raise UsageError(f"wanted a dropout probability from 0 to below 1, found {p}")
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, Dropout(child.p if p is None else p, noise))
        # T5 and BART call torch's function with a probability that is an attribute of a
        # module.
        for name, value in list(vars(module).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, value if p is None else p)


# The pass without padding: the tokens of all sentences as one matrix


def packed_states(
    model: Any,
    token_ids: TokenIds,
    layers: Sequence[int],
    tokens_of_last: Int64[Tensor, " N"] | None = None,
) -> list[Float[Tensor, "T D"]]:
    """The hidden states of some layers; layer 0 is the output of the embedding layer.

    Args:
        model: A model of PACKED_ARCHITECTURES.
        token_ids: The token ids of N sentences, T tokens in all.
        layers: The numbers of the layers.
        tokens_of_last: The position of one token of each sentence, among all T tokens.
            The last layer is computed for these tokens alone, and has the shape (N, D).
    """
    runs = runs_of([len(ids) for ids in token_ids])
    h = packed_embeddings(model, token_ids)
    states = [h]
    for layer in model.encoder.layer:
        x = h
        is_last = layer is model.encoder.layer[-1]
        if tokens_of_last is not None and is_last:
            x = h[tokens_of_last]
        mixed = _self_attention(layer.attention.self, x, h, runs)
        attended = layer.attention.output(mixed, x)
        h = layer.output(layer.intermediate(attended), attended)
        states.append(h)
    return [states[layer] for layer in layers]


def _self_attention(
    attention: Any,
    x: Float[Tensor, "Q D"],
    h: Float[Tensor, "T D"],
    runs: Sequence[Run],
) -> Float[Tensor, "Q D"]:
    """Attention inside each sentence.

    Args:
        attention: The attention of a layer.
        x: The states that queries are made of: of all tokens, or of one token of each
            sentence.
        h: The states of all tokens, which keys and values are made of.
        runs: The runs of sentences of equal length.
    """
    token_counts = [run.sentences * run.length for run in runs]
    query_counts = token_counts
    if len(x) != len(h):
        query_counts = [run.sentences for run in runs]
    queries = torch.split(attention.query(x), query_counts)
    keys = torch.split(attention.key(h), token_counts)
    values = torch.split(attention.value(h), token_counts)
    outputs = []
    for run, *matrices in zip(runs, queries, keys, values, strict=True):
        shape = (
            run.sentences,
            -1,
            attention.num_attention_heads,
            attention.attention_head_size,
        )
        # Each of the three is (sentences, heads, tokens, d).
        q, k, v = (matrix.view(shape).transpose(1, 2) for matrix in matrices)
        if attention.training and attention.dropout.p > 0:
            weights = torch.softmax(q @ k.transpose(2, 3) * attention.scaling, dim=-1)
            mixed = attention.dropout(weights) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        query_count = len(matrices[0])
        outputs.append(mixed.transpose(1, 2).reshape(query_count, -1))
    return torch.cat(outputs)


# The encoder

PACKED_ARCHITECTURES = frozenset({"bert", "roberta", "xlm-roberta", "camembert"})
HEAD_STD = 0.02  # standard deviation of the weights of a new head, as in BERT
EMBED_BATCH = 256  # sentences that are encoded at a time without a gradient
TRAINABLE = {p.name: p for p in POOLINGS if isinstance(p, Cls | Mean)}


class SentenceEncoder(nn.Module):
    """The checkpoint in a folder to train: a transformer, a pooling over its states, and a head.

    Args:
        name: Its name, for messages.
        folder: The checkpoint folder.
        recipe: The settings of the training.

    Attributes:
        head_use: The use of a head, a dense layer with tanh over the pooled vector, as
            BERT's pooler is: in training only ("train"), or kept as the checkpoint's
            pooler ("keep"), or no head ("none").
        transformer: The model that a checkpoint stores. Its pooler is the head that is
            kept; without such a head it has none.
        tokenizer: The tokenizer for training, which cuts texts to the recipe's length.
        reader: The tokenizer for evaluation, which cuts texts to the checkpoint's own
            length.
        pooling: CLS, or a mean over tokens.
        padding_id: The id of the padding token.
        summary: The index of the summary token, such as [CLS]: 0 for the first token, -1
            for the last; None for an encoder without one.
        start_sha256: The digest of the weights that it was opened with.
    """

    def __init__(self, name: str, folder: Path, recipe: Simcse | Sbert) -> None:
        super().__init__()
        if recipe.pooling not in TRAINABLE:
            raise UsageError(
                f"--pooling {recipe.pooling}: wanted one of {', '.join(TRAINABLE)}, found another; "
                "a pooler is cls with a head"
            )
        self.pooling = TRAINABLE[recipe.pooling]
        self.folder = folder
        self.start_sha256 = digest_of_files(weights_files(folder))
        self.tokenizer, kernel = open_checkpoint(name, folder, recipe.max_length)
        self.summary = kernel.summary
        if self.pooling is CLS and self.summary is None:
            raise UsageError(f"{name}: {CLS.refusal}")
        self.transformer = kernel.model
        self.padding_id = kernel.padding_id
        own_length = maximum_length(name, folder)
        self.reader = replace(self.tokenizer, max_length=own_length)
        self.recipe = recipe
        self.noise = Noise()
        config: Any = self.transformer.config
        self.size = int(config.hidden_size)
        self.model_type = str(config.model_type)
        self.depth = int(config.num_hidden_layers)
        self.layers: tuple[int, ...] = (self.depth,)
        if isinstance(self.pooling, Mean):
            self.layers = self.pooling.hidden_states(self.depth)
        self.head_use = recipe.head if isinstance(recipe, Simcse) else "none"
        self.head = self._new_head(np.random.default_rng((recipe.seed, 2)))
        use_dropout(self, recipe.dropout, self.noise)
        self.to(recipe.device)
        self.packs = self.model_type in PACKED_ARCHITECTURES and recipe.device == "cpu"

    def forward(self, token_ids: TokenIds) -> Float32[Tensor, "N D"]:
        """One vector a sentence. In training mode every call draws new dropout masks."""
        order = np.argsort([len(ids) for ids in token_ids], kind="stable")
        self.noise.restart(self.recipe.device)
        with self.autocast():
            z = self._pooled([token_ids[row] for row in order])
            # A head for training only is left out in evaluation.
            if self.head is not None and (self.training or self.head_use == "keep"):
                z = self.head(z)
        original_order = torch.from_numpy(np.argsort(order))
        return z.float()[original_order.to(z.device)]

    def tokens(self, token_ids: TokenIds) -> Float[Tensor, "T D"]:
        """The last hidden states of all tokens, sentence after sentence."""
        self.noise.restart(self.recipe.device)
        with self.autocast():
            [states] = self._states(token_ids, (self.depth,))
            return states

    def embed(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
        """The vectors of texts, without dropout, cut to the checkpoint's own length."""
        token_ids = self.reader(texts)
        order = np.argsort([len(ids) for ids in token_ids], kind="stable")
        vectors = np.empty((len(token_ids), self.size), np.float32)
        was_training = self.training
        self.eval()
        with torch.no_grad():
            for start in range(0, len(order), EMBED_BATCH):
                rows = order[start : start + EMBED_BATCH]
                vectors[rows] = self([token_ids[row] for row in rows]).cpu().numpy()
        self.train(was_training)
        return vectors

    def autocast(self) -> torch.autocast:
        """The context of the recipe's precision; weights stay in float32."""
        device = torch.device(self.recipe.device).type
        is_half = self.recipe.dtype == "bfloat16"
        return torch.autocast(device, torch.bfloat16, enabled=is_half)

    def _new_head(self, rng: np.random.Generator) -> nn.Module | None:
        """A head with new weights, drawn as BERT initialises them; None for a recipe without one.

        A head that is kept takes the place of the transformer's pooler. Otherwise the
        pooler is removed, since it was trained with other weights.
        """
        transformer: Any = self.transformer
        pooler = getattr(transformer, "pooler", None)
        if self.head_use == "keep":
            dense = getattr(pooler, "dense", None)
            if not isinstance(dense, nn.Linear):
                raise UsageError(
                    f"{self.tokenizer.name}: this architecture has no dense pooler to keep a head "
                    "in; train one that is not kept"
                )
        else:
            if pooler is not None:
                transformer.pooler = None
            if self.head_use == "none":
                return None
            dense = nn.Linear(self.size, self.size)
        weight = rng.normal(scale=HEAD_STD, size=dense.weight.shape).astype(np.float32)
        with torch.no_grad():
            dense.weight.copy_(torch.from_numpy(weight))
            dense.bias.zero_()
        return nn.Sequential(OrderedDict(dense=dense, activation=nn.Tanh()))

    def _states(
        self,
        token_ids: TokenIds,
        layers: Sequence[int],
        tokens: Int64[Tensor, " N"] | None = None,
    ) -> list[Float[Tensor, "T D"]]:
        """The hidden states of some layers, sentence after sentence, without padding.

        `tokens` are the positions of the tokens whose states are needed, one of each
        sentence; None needs those of all.
        """
        if self.packs:
            return packed_states(self.transformer, token_ids, layers, tokens)
        states, mask, _ = padded_states(self.transformer, token_ids, self.padding_id)
        of_layers = [states[layer][mask] for layer in layers]
        if tokens is None:
            return of_layers
        return [of_layer[tokens.to(of_layer.device)] for of_layer in of_layers]

    def _pooled(self, token_ids: TokenIds) -> Float[Tensor, "n D"]:
        """The pooled vectors of sentences of ascending length."""
        lengths = [len(ids) for ids in token_ids]
        if isinstance(self.pooling, Cls):
            ends = np.cumsum(lengths)
            summary_rows = ends - 1 if self.summary == -1 else ends - lengths
            summary_tokens = torch.from_numpy(summary_rows)
            [states] = self._states(token_ids, self.layers, summary_tokens)
            return states
        runs = runs_of(lengths)
        token_counts = [run.sentences * run.length for run in runs]
        layer_means = []
        for states in self._states(token_ids, self.layers):
            means = []
            for run, part in zip(runs, torch.split(states, token_counts), strict=True):
                tokens = part.view(run.sentences, run.length, -1)
                means.append(tokens.mean(dim=1))
            layer_means.append(torch.cat(means))
        return torch.stack(layer_means).mean(dim=0)
