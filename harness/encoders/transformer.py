"""Any Hugging Face encoder from a local folder: its description, its identity, its batches.

Importing this module costs no torch, nor does `identify`: plans are made without it.
`load` opens the checkpoint (`kernels/padded.py`) and returns an encoder that sorts
texts into batches of a bounded number of tokens and leaves the forward pass to a
kernel, which a rule chooses (`kernels/choose.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import digest_of, one_reading
from harness.core.errors import DataError, ScoreError, UsageError
from harness.core.hardware import FLOAT32, Hardware, in_precision, precision_of
from harness.core.identity import NOT_IN_IDENTITY
from harness.core.interfaces import (
    Encoding,
    Hub,
    Identity,
    LocalFiles,
    Packaged,
    Source,
)
from harness.encoders.architectures import facts_of
from harness.encoders.checkpoint import (
    GOLDEN_SENTENCE,
    Fingerprint,
    digests_of,
    maximum_length,
    parameters_of,
    read_settings,
    read_tensors,
    transformer_folder,
)
from harness.encoders.config import BaseConfig
from harness.encoders.kernels.choose import (
    PLAIN,
    Choice,
    Kernel,
    batches,
    choose_pass,
    run_batches,
)

# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = (
    "1: float32; token means with special tokens; cls where the tokenizer puts it"
)

TOKEN_CHARACTERS = 5  # of a token and what is around it, about
# Texts that are tokenised at once, or as many short ones as a batch of a GPU holds.
SLICE_TEXTS = 256
SHORT_TEXT_TOKENS = 8  # of a short text
WORKER_BATCHES = 4  # wanted of a worker, so that all end together
LEAST_TOKENS = 256  # of a batch; smaller matrices are multiplied at a lower rate
# Of a batch with dropout: who shares one is part of the draw, so this is the same on
# every machine; small, because the masks of a batch that no core's cache holds take
# twice the time.
DROPOUT_TOKENS = 1024


@dataclass(frozen=True)
class TransformerConfig(BaseConfig):
    """A transformer encoder: its name, the source of its files, and the checks of these.

    Args:
        name: Its id in the grammar of methods.
        repo: Its repository on the hub; empty where it has none.
        revision: The pinned commit; None is unpinned.
        max_length: Tokens that texts are cut to; None is the checkpoint's own
            (`sentence_bert_config.json`, else the tokenizer's, else the number of
            positions).
        weights_sha256: The digest that the weights must have, if given.
        fingerprint: What vocabulary, settings and maximum length must be, if given.
        package: A folder in an installed package that carries the files; its code is
            never imported.
        asset: The name that `harness fetch` takes, if not `name`.
        download_size: Roughly the bytes that are downloaded.
        plain_pass: Whether to keep to the model's own forward pass, whatever the
            device's rule.
        hardware: The device, precision and size of batches; `on` sets them, and the
            name.
        trained_on: The texts that its weights have seen.
        cite: The BibTeX key of its paper.
        licence: The licence of its weights.

    Raises:
        UsageError: The maximum length is below 1.

    Examples:
        >>> from harness import TransformerConfig
        >>> bert = TransformerConfig("bert", "google-bert/bert-base-uncased")
        >>> bert.with_max_length(64).name, str(bert.source)
        ('bert:64', 'google-bert/bert-base-uncased, unpinned')
    """

    repo: str
    revision: str | None = None
    max_length: int | None = None
    weights_sha256: str | None = None
    fingerprint: Fingerprint | None = field(
        default=None, repr=False, metadata=NOT_IN_IDENTITY
    )
    package: str | None = field(default=None, repr=False, metadata=NOT_IN_IDENTITY)
    asset: str | None = field(default=None, repr=False, metadata=NOT_IN_IDENTITY)
    download_size: int | None = field(
        default=None, repr=False, metadata=NOT_IN_IDENTITY
    )
    plain_pass: bool = field(default=False, repr=False, metadata=NOT_IN_IDENTITY)
    hardware: Hardware = field(default=Hardware(), repr=False, metadata=NOT_IN_IDENTITY)

    def __post_init__(self) -> None:
        super().__post_init__()
        named = precision_of(self.name.partition(",")[0])[
            1
        ]  # a member's is `kin, seed 3`
        if (dtype := self.hardware.dtype) not in (FLOAT32, named):
            raise UsageError(
                f"{self.name}: wanted {dtype} in its name; `on` puts it there"
            )

    @property
    def source(self) -> Source:
        """The hub repository, or the package alone, that its files come from."""
        if self.repo:
            return Hub(
                repo=self.repo,
                revision=self.revision,
                sha256=self.weights_sha256,
                package=self.package,
                asset=self.asset,
                download_size=self.download_size,
            )
        if self.package:
            return Packaged(self.package, sha256=self.weights_sha256)
        return LocalFiles(self.weights_sha256)

    def on(self, hardware: Hardware) -> TransformerConfig:
        """This encoder in a precision, which its name shows unless it is float32."""
        return replace(
            self, name=in_precision(self.name, hardware.dtype), hardware=hardware
        )

    def identify(self, path: Path) -> Identity:
        """The key and digests of a checkpoint folder, without torch."""
        path = transformer_folder(path)
        digests = digests_of(self.name, path, self.weights_sha256)
        length = maximum_length(self.name, path, self.max_length)
        if self.fingerprint is not None:
            self.fingerprint.require(self.name, path)
        facts = facts_of(read_settings(path / "config.json"))
        key = digest_of(
            {"version": ENCODING_VERSION, "max_length": length, **facts, **digests}
        )
        if (dtype := self.hardware.dtype) != FLOAT32:
            key = digest_of({dtype: key})
        return Identity(key, digests, length, parameters_of(path))

    @one_reading()
    def load(self, path: Path, cache: Path) -> TransformerEncoder:
        """The encoder, ready: its forward pass as the rule has it for this device.

        `cache` keeps the safetensors form of a pickled checkpoint.
        """
        key = self.identify(path).key
        path = transformer_folder(path)
        tensors = read_tensors(path, cache)

        from harness.encoders.kernels.padded import open_checkpoint

        length = maximum_length(self.name, path, self.max_length)
        tokenizer, plain, shape = open_checkpoint(self.name, path, tensors, length)
        plain = plain.on(self.hardware)
        kernel: Kernel = plain
        choice = PLAIN
        if not self.plain_pass:
            [ids] = tokenizer([GOLDEN_SENTENCE])
            kernel, choice = choose_pass(plain, ids, self.hardware.dtype)
        if self.hardware.batch_tokens:
            choice = replace(choice, tokens=self.hardware.batch_tokens)
        return TransformerEncoder(
            self.name, key, tokenizer, kernel, plain, shape, choice, self.hardware
        )


@dataclass(frozen=True, eq=False)
class TransformerEncoder:
    """A loaded encoder. `shape` is the encoding of one sentence, which says what there will be."""

    name: str
    key: str
    tokenizer: Any  # a CuttingTokenizer
    kernel: Kernel
    plain: Any  # the PaddedKernel of the model
    shape: Encoding = field(repr=False)
    choice: Choice = PLAIN
    hardware: Hardware = field(default=Hardware(), repr=False)

    @property
    def facts(self) -> Mapping[str, Any]:
        """How it runs here, which moves what comes out by no more than rounding."""
        device, dtype = self.hardware.device, self.hardware.dtype
        return {**asdict(self.choice), "device": device, "dtype": dtype}

    @property
    def dimensions(self) -> int:
        return int(self.shape.mean.shape[2])

    @property
    def depth(self) -> int:
        return self.shape.depth

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The encodings of the texts, in order; ScoreError for a state that is not finite."""
        shapes = {name: array.shape[1:] for name, array in self.shape.arrays.items()}
        arrays: dict[str, Any] = {
            name: np.empty((len(texts), *shape), np.float32)
            for name, shape in shapes.items()
        }

        def encoded(
            batch: tuple[list[int], list[list[int]]],
        ) -> tuple[list[int], Encoding]:
            rows, ids = batch
            return rows, self.kernel(ids)

        for rows, part in run_batches(encoded, self._batches(texts), self.choice):
            for name, piece in part.arrays.items():
                self._require_finite(piece, rows)
                arrays[name][rows] = piece
        return replace(self.shape, **arrays)

    def with_dropout(self, seed: int) -> TransformerEncoder:
        """This encoder with its dropout on, drawn from the seed from call to call."""
        from harness.encoders.kernels.padded import DroppingKernel

        noisy = DroppingKernel(self.name, self.plain, seed)
        return replace(self, kernel=noisy, choice=replace(PLAIN, tokens=DROPOUT_TOKENS))

    def pass_over(self, texts: Sequence[str]) -> None:
        """Draw what encoding the texts with dropout would draw, and encode nothing."""
        kernel: Any = self.kernel  # a DroppingKernel
        for _ in self._batches(texts):
            kernel.draw()

    def _batches(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[list[int], list[list[int]]]]:
        """The rows of each batch and their token ids, the longest texts first.

        They are tokenised a slice at a time while others are under way; all of them
        first for the plain pass.
        """
        order: Sequence[int] = range(len(texts))
        budget, at_once = self.choice.tokens, max(1, len(texts))
        if self.choice.threads:
            order = sorted(order, key=lambda row: len(texts[row]), reverse=True)
            # Few texts are a few batches for everybody, too.
            share = sum(map(len, texts)) // (
                TOKEN_CHARACTERS * WORKER_BATCHES * self.choice.workers
            )
            at_once = max(SLICE_TEXTS, budget // SHORT_TEXT_TOKENS)
            budget = min(budget, max(LEAST_TOKENS, share))
        for start in range(0, len(order), at_once):
            part = order[start : start + at_once]
            tokens = self.tokenizer([texts[row] for row in part])
            for row, ids in zip(part, tokens, strict=True):
                if not ids:
                    raise DataError(
                        f"{self.name}: text {row} ({texts[row]!r}) has no token, and this "
                        "tokenizer adds none of its own; leave such texts out"
                    )
            for rows in batches([len(ids) for ids in tokens], budget, self.plain.alone):
                yield [part[row] for row in rows], [tokens[row] for row in rows]

    def _require_finite(
        self, piece: Float32[np.ndarray, "B ..."], rows: Sequence[int]
    ) -> None:
        finite = np.isfinite(piece).reshape(len(rows), -1).all(axis=1)
        if not finite.all():
            row = rows[int(finite.argmin())]
            raise ScoreError(
                f"{self.name}: wanted finite numbers, found others in the encoding of text {row}; "
                "look for a damaged checkpoint"
            )
