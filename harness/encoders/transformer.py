"""Any Hugging Face encoder from a local folder: its configuration, its identity, its batches.

A `TransformerConfig` names the files; `identify` gives the key of its encodings and
`load` opens the checkpoint (`kernels/loading.py`). The loaded `TransformerEncoder` sorts
texts into batches of a bounded number of tokens and leaves the forward pass to a kernel,
which a rule chooses (`kernels/choose.py`). Importing this module does not import torch,
nor does `identify`: plans are made without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.core.digests import NOT_IN_IDENTITY, digest_of
from harness.core.errors import DataError, ScoreError, UsageError
from harness.core.hardware import FLOAT32, Hardware, precision_of
from harness.core.interfaces import Encoding, Identity, LengthGroup, MavenPackage
from harness.encoders.checkpoint import (
    folder_digests,
    maximum_length,
    read_settings,
    require_weights,
    weights_files,
)
from harness.encoders.config import GOLDEN_SENTENCE, BaseConfig
from harness.encoders.fingerprints import (
    Architecture,
    Fingerprint,
    Pin,
    fingerprint_of,
    require_architecture,
    tensors_of_folder,
)
from harness.encoders.kernels.choose import (
    PLAIN,
    Choice,
    Kernel,
    batches,
    choose_pass,
    multiplications,
    run_batches,
)
from harness.encoders.modules import transformer_folder
from harness.encoders.weights import parameter_count

# Part of the key of every encoding: change it with any change that moves a vector.
ENCODING_VERSION = "2: float32; token means with special tokens; ids of tokenizer.json"

# Settings of a tokenizer that have not always been followed, which are in the key where
# they are true.
FOLLOWED_SETTINGS = ("add_prefix_space", "add_bos_token", "add_eos_token")

# How texts are spread over batches. None of these moves a vector by more than rounding.
TOKEN_CHARACTERS = 5  # characters of a text for each of its tokens, roughly
SLICE_TEXTS = 256  # texts that are tokenised at a time, at least
SHORT_TEXT_TOKENS = 8  # tokens of a short text: as many texts as fill a batch of a GPU
WORKER_BATCHES = 4  # batches for each worker, so that all end at about the same time
LEAST_TOKENS = 256  # tokens of a batch; smaller matrices are multiplied at a lower rate

# Tokens of a batch with dropout. The masks of a text depend on the texts in its batch,
# so this is the same on every machine; it is small, because the masks of a batch that
# fits into no core's cache take twice the time.
DROPOUT_TOKENS = 1024

# Tokens of a batch without its padding, where texts are padded to a fixed length: some
# 30 texts of 15 tokens.
TOKENS_BEFORE_PADDING = 512

# Texts that go through the encoder together: their row numbers and their token ids.
TokenisedBatch = tuple[Sequence[int], Sequence[Sequence[int]]]


@dataclass(frozen=True)
class TransformerConfig(BaseConfig):
    """A transformer encoder: its name, the source of its files, and how the files are checked.

    Args:
        name: Its id in the grammar of methods.
        repo: Its repository on the hub; empty where it has none.
        revision: The pinned commit; None is unpinned.
        max_length: Tokens that texts are cut to; None is the checkpoint's own
            (`sentence_bert_config.json`, else the tokenizer's, else the number of
            positions).
        weights_sha256: The digest that the weights must have, if given.
        package: A folder in an installed package that carries the files; its code is
            never imported.
        asset: The name that `harness fetch` takes, if not `name`.
        download_size: Roughly the bytes that are downloaded.
        maven: A package of a Maven repository with the same model, which `harness fetch`
            asks where the hub does not answer.
        tokenizer: Which tokenizer splits the texts: the `file` tokenizer.json, or the one
            that transformers 5 makes of the folder, `rebuilt` from the class that the
            folder names.
        hardware: The device, precision and size of batches; `on` sets them, and the
            name.
        architecture: The kind and size of the model; a folder of another is refused.
        pin: What is known of its weights, settings and tokenizer; a folder with others
            is measured, and never compared with a published number.
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
    tokenizer: Literal["file", "rebuilt"] = "file"
    package: str | None = field(default=None, repr=False, metadata=NOT_IN_IDENTITY)
    asset: str | None = field(default=None, repr=False, metadata=NOT_IN_IDENTITY)
    download_size: int | None = field(
        default=None, repr=False, metadata=NOT_IN_IDENTITY
    )
    maven: MavenPackage | None = field(
        default=None, repr=False, metadata=NOT_IN_IDENTITY
    )
    hardware: Hardware = field(default=Hardware(), repr=False, metadata=NOT_IN_IDENTITY)
    architecture: Architecture | None = field(
        default=None, repr=False, metadata=NOT_IN_IDENTITY
    )
    pin: Pin = field(default=Pin(), repr=False, metadata=NOT_IN_IDENTITY)

    def __post_init__(self) -> None:
        super().__post_init__()
        dtype = self.hardware.dtype
        name_without_seed = self.name.partition(",")[0]  # of `family, seed 3`
        _, named_dtype = precision_of(name_without_seed)
        if dtype not in (FLOAT32, named_dtype):
            raise UsageError(
                f"{self.name}: wanted {dtype} in its name; `on` puts it there"
            )

    def identify(self, path: Path) -> Identity:
        """The key and digests of a checkpoint folder, without torch.

        Raises:
            DataError: The files are of another architecture or not those that are pinned,
                or are damaged.
            UsageError: The maximum length is longer than the model takes.
        """
        folder = transformer_folder(path)
        require_architecture(self.name, folder, self.architecture)
        files, parts = folder_digests(self.name, path, folder, None)
        if self.weights_sha256 not in (None, parts["weights"]):
            # The pinned tensors may be in a file of another form.
            tensors = tensors_of_folder(folder, parts["weights"])
            if not self.pin.knows_weights(parts["weights"], tensors):
                [file, *_] = weights_files(folder)
                require_weights(self.name, file, self.weights_sha256, parts["weights"])
        length = maximum_length(self.name, folder, self.max_length)
        shared_facts: dict[str, Any] = {"version": ENCODING_VERSION, "files": files}
        if self.tokenizer != "file":
            shared_facts["tokenizer"] = self.tokenizer
        settings = read_settings(folder / "tokenizer_config.json")
        followed = {name: True for name in FOLLOWED_SETTINGS if settings.get(name)}
        if followed:
            shared_facts["tokenizer_settings"] = followed
        key = digest_of({**shared_facts, "max_length": length})
        shared_key = digest_of(shared_facts)
        dtype = self.hardware.dtype
        if dtype != FLOAT32:
            key, shared_key = digest_of({dtype: key}), digest_of({dtype: shared_key})
        return Identity(
            key=key,
            digests=parts,
            max_length=length,
            parameters=parameter_count(folder),
            length_group=LengthGroup(key, shared_key),
        )

    def fingerprint(
        self, path: Path, digests: Mapping[str, str], cache: Path
    ) -> Fingerprint:
        """What the checkpoint in a folder is, whatever form its files have.

        Args:
            path: The folder.
            digests: The digests of its parts, as `identify` gives them.
            cache: The cache folder, which keeps what was computed.
        """
        folder = transformer_folder(path)
        return fingerprint_of(
            folder, digests, cache, rebuilt=self.tokenizer == "rebuilt"
        )

    def load(self, path: Path, cache: Path) -> TransformerEncoder:
        """The encoder, ready, with the forward pass that the rule has for this device.

        `cache` keeps the safetensors form of a pickled checkpoint.
        """
        key = self.identify(path).key

        from harness.encoders.kernels.loading import open_checkpoint

        tokenizer, plain_kernel = open_checkpoint(
            self.name,
            transformer_folder(path),
            self.max_length,
            rebuilt=self.tokenizer == "rebuilt",
            cache=cache,
        )
        plain_kernel = plain_kernel.on(self.hardware)
        [golden_ids] = tokenizer([GOLDEN_SENTENCE])
        kernel, choice = choose_pass(plain_kernel, golden_ids, self.hardware.dtype)
        if self.hardware.batch_tokens:
            choice = replace(choice, tokens=self.hardware.batch_tokens)
        sample = plain_kernel([golden_ids])
        return TransformerEncoder(
            name=self.name,
            key=key,
            tokenizer=tokenizer,
            kernel=kernel,
            plain_kernel=plain_kernel,
            sample=sample,
            multiplications=multiplications(sample.depth, sample.mean.shape[2]),
            choice=choice,
            hardware=self.hardware,
        )


@dataclass(frozen=True, eq=False)
class TransformerEncoder:
    """A loaded transformer encoder.

    Attributes:
        name: The name of its configuration, for messages.
        key: The digest of everything that changes its encodings.
        tokenizer: The `CuttingTokenizer` of its folder.
        kernel: The forward pass.
        plain_kernel: The `PaddedKernel` of its model, the reference for other passes.
        sample: The encoding of one sentence, for the shapes of its arrays.
        choice: Which pass the kernel is, and how batches are spread over workers.
        hardware: The device, precision and size of batches.
        prompt: The text that is put before each sentence.
        multiplications: The multiplications that a token takes, roughly.
    """

    name: str
    key: str
    tokenizer: Any
    kernel: Kernel
    plain_kernel: Any
    sample: Encoding = field(repr=False)
    multiplications: int
    choice: Choice = PLAIN
    hardware: Hardware = field(default=Hardware(), repr=False)
    prompt: str = ""

    @property
    def facts(self) -> Mapping[str, Any]:
        """How it runs on this machine, which moves a vector by no more than rounding."""
        return {
            **asdict(self.choice),
            "device": self.hardware.device,
            "dtype": self.hardware.dtype,
        }

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The encodings of the texts, in order; ScoreError for a state that is not finite."""
        texts = [self.prompt + text for text in texts]
        arrays: dict[str, Any] = {}
        for name, sample_array in self.sample.arrays.items():
            shape = (len(texts), *sample_array.shape[1:])
            arrays[name] = np.empty(shape, np.float32)
        work = run_batches(
            lambda batch: (batch[0], self.kernel(batch[1])),
            self._batches(texts),
            self.choice,
        )
        for rows, encoding in work:
            for name, batch_array in encoding.arrays.items():
                is_finite = np.isfinite(batch_array).reshape(len(rows), -1).all(axis=1)
                if not is_finite.all():
                    raise ScoreError(
                        f"{self.name}: wanted finite numbers, found others in the encoding of text "
                        f"{rows[int(is_finite.argmin())]}; look for a damaged checkpoint"
                    )
                arrays[name][rows] = batch_array
        return replace(self.sample, **arrays)

    def with_statistics(self, statistics: frozenset[str]) -> TransformerEncoder:
        """This encoder, which gives these statistics of each layer beside the usual ones.

        Statistics that it does not have are left out.
        """
        # A pass over padding, or through modules, gives no others.
        with_statistics = getattr(self.kernel, "with_statistics", None)
        further = statistics & {"layer_max", "layer_sep", "layer_weighted"}
        if with_statistics is None or further <= self.plain_kernel.statistics:
            return self
        further |= self.plain_kernel.statistics
        plain_kernel = self.plain_kernel.with_statistics(further)
        [golden_ids] = self.tokenizer([GOLDEN_SENTENCE])
        return replace(
            self,
            kernel=with_statistics(further),
            plain_kernel=plain_kernel,
            sample=plain_kernel([golden_ids]),
        )

    def with_dropout(self, seed: int) -> TransformerEncoder:
        """This encoder with its dropout on; its masks are drawn from the seed, call after call."""
        plain_kernel = self.plain_kernel
        if self.choice.library == "onednn":
            plain_kernel = plain_kernel.multiplied_by_onednn()
        return replace(
            self,
            kernel=plain_kernel.with_dropout(self.name, seed),
            choice=replace(PLAIN, library=self.choice.library, tokens=DROPOUT_TOKENS),
        )

    def with_padding_in_mean(self, width: int) -> TransformerEncoder:
        """This encoder with texts padded to `width` tokens, and means over the padding."""
        return replace(
            self,
            kernel=self.plain_kernel.over_padding(width),
            sample=replace(
                self.sample, layer_cls=None, cls=None, pooler=None, lengths=None
            ),
            choice=replace(PLAIN, tokens=TOKENS_BEFORE_PADDING),
        )

    def _batches(self, texts: Sequence[str]) -> Iterator[TokenisedBatch]:
        """The texts in batches, the longest first; DataError for a text without tokens.

        The plain pass takes all texts tokenised and sorted by tokens. For workers the
        texts are sorted by characters, the longest first, and tokenised a slice at a
        time, while earlier batches are being encoded.
        """
        order: Sequence[int] = range(len(texts))
        batch_tokens = self.choice.tokens
        slice_size = max(1, len(texts))
        if self.choice.threads:
            order = sorted(order, key=lambda row: len(texts[row]), reverse=True)
            # Few texts still are a few batches for each worker.
            tokens = sum(len(text) for text in texts) // TOKEN_CHARACTERS
            tokens_for_each = tokens // (WORKER_BATCHES * self.choice.workers)
            batch_tokens = min(batch_tokens, max(LEAST_TOKENS, tokens_for_each))
            slice_size = max(SLICE_TEXTS, self.choice.tokens // SHORT_TEXT_TOKENS)
        for start in range(0, len(order), slice_size):
            rows = order[start : start + slice_size]
            token_ids = self.tokenizer([texts[row] for row in rows])
            lengths = [len(ids) for ids in token_ids]
            if 0 in lengths:
                row = rows[lengths.index(0)]
                raise DataError(
                    f"{self.name}: text {row} ({texts[row]!r}) has no token, and this "
                    "tokenizer adds none of its own; leave such texts out"
                )
            for members in batches(
                lengths, batch_tokens, self.plain_kernel.needs_equal_lengths
            ):
                batch_rows = [rows[member] for member in members]
                yield batch_rows, [token_ids[member] for member in members]


# As scripts run it


@dataclass(frozen=True)
class ScriptConfig(TransformerConfig):
    """A transformer as scripts run it: after a prompt, or with means over the padding.

    Args:
        prompt: The text that is put before each sentence, whose tokens are pooled, too.
        padded_to: The length in tokens to which texts are padded, where the mean is taken
            over the padding; 0 for means over the tokens of the text.

    Examples:
        >>> from harness.encoders.transformer import ScriptConfig
        >>> ScriptConfig("bert-after-query", "bert-base-uncased", prompt="query: ").prompt
        'query: '
    """

    prompt: str = ""
    padded_to: int = 0

    def identify(self, path: Path) -> Identity:
        """The key and digests of a checkpoint folder, with the prompt and the padding."""
        identity = super().identify(path)
        facts: dict[str, Any] = {"encoder": identity.key}
        if self.prompt:
            facts["prompt"] = self.prompt
        if self.padded_to:
            facts["padded_to"] = self.padded_to
        return replace(identity, key=digest_of(facts)) if len(facts) > 1 else identity

    def load(self, path: Path, cache: Path) -> TransformerEncoder:
        """The encoder, ready."""
        encoder = replace(super().load(path, cache), prompt=self.prompt)
        if self.padded_to:
            return encoder.with_padding_in_mean(self.padded_to)
        return encoder
