"""A model measured under choices that its card need not state: prompt, pooling, length ...

A `Variant` holds the settings that differ from the model's files. It decides how texts are
read (`Reading`): by the model's encoder with another setting, after a prefix, under a
pooling. All else is as in a run: the cache of encodings, and the measurement of vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from harness.core.digests import digest_of
from harness.core.environment import one_blas_thread
from harness.core.errors import UsageError
from harness.core.hardware import FLOAT32, Hardware
from harness.core.interfaces import EncoderConfig, Identity, Pooling
from harness.core.metrics import unit_rows
from harness.core.pairs import Pairs
from harness.core.types import Method, Progress, Task
from harness.data.tasks.loader import TaskLoader
from harness.encoders.modules import Modules
from harness.encoders.native import NativeConfig, PromptedConfig
from harness.encoders.transformer import (
    TOKEN_CHARACTERS,
    TransformerConfig,
    TransformerEncoder,
)
from harness.evaluation.cell import measure
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings
from harness.registry import look_up
from harness.transforms.pooling import POOLINGS

# Arguments of sentence-transformers' `encode` that move no vector.
WITHOUT_EFFECT = (
    "batch_size",
    "show_progress_bar",
    "device",
    "convert_to_tensor",
    "convert_to_numpy",
)

TRIED_PROMPT = "tried"  # the name that a prompt gets that is not the model's own
TASK_KIND = "STS"  # mteb's name for the prompt of all tasks of pairs


@dataclass(frozen=True)
class Variant:
    """The settings of a measurement that differ from the model's files.

    Attributes:
        prompt: The text before each sentence; None for the model's own prompt of the
            task.
        prompt_of_mteb: The name of the prompt in mteb's implementation of the model;
            empty for other prompts.
        pooling: A pooling of hidden states, without the model's modules; empty for the
            model's own pooling.
        max_length: The length that texts are cut to, in tokens; None for the model's
            own.
        dtype: The precision of weights and states.
        unit_length: Whether vectors are divided by their length; None for what the
            modules say.
        dimensions: How many of the first coordinates are kept; None for all that the
            modules give.
        first_pairs: How many of the first pairs are scored; None for all.
        lower_case: Whether texts are put into lower case, before anything else.
        tokenizer: `rebuilt` for the tokenizer that transformers 5 makes of a folder,
            where it is not the one of its file.
        padded_to: The tokens to which texts are padded, where the mean is taken over the
            padding, too; None for means over the tokens of the text.
    """

    prompt: str | None = None
    prompt_of_mteb: str = ""
    pooling: str = ""
    max_length: int | None = None
    dtype: str = FLOAT32
    unit_length: bool | None = None
    dimensions: int | None = None
    first_pairs: int | None = None
    lower_case: bool = False
    tokenizer: Literal["file", "rebuilt"] = "file"
    padded_to: int | None = None

    @property
    def moves_little(self) -> bool:
        """Whether it moves few sentences, or last digits alone."""
        is_cut_or_half = self.max_length is not None or self.dtype != FLOAT32
        return is_cut_or_half or self.unit_length is not None

    @property
    def words(self) -> tuple[str, ...]:
        """The differences from the model's files, a phrase each."""
        phrases = []
        if self.prompt_of_mteb:
            phrases.append(f"mteb's prompt {self.prompt_of_mteb} ({self.prompt!r})")
        elif self.prompt:
            phrases.append(f"the prompt {self.prompt!r}")
        elif self.prompt is not None:
            phrases.append("no prompt")
        if self.pooling:
            phrases.append(f"pooling {self.pooling}")
        if self.max_length is not None:
            phrases.append(f"max length {self.max_length}")
        if self.dtype != FLOAT32:
            phrases.append(self.dtype)
        if self.unit_length:
            phrases.append("normalised vectors")
        elif self.unit_length is not None:
            phrases.append("vectors not normalised")
        if self.dimensions is not None:
            phrases.append(f"the first {self.dimensions} dimensions")
        if self.first_pairs is not None:
            phrases.append(f"the first {self.first_pairs:,} pairs")
        if self.lower_case:
            phrases.append("lower-cased text")
        if self.tokenizer == "rebuilt":
            phrases.append("the tokenizer as transformers 5 rebuilds it")
        if self.padded_to is not None:
            phrases.append(f"the padding to {self.padded_to} tokens in the mean")
        return tuple(phrases)

    def __or__(self, other: Variant) -> Variant:
        """Both variants together. A setting that both have is taken from `other`."""
        changes = {
            setting.name: getattr(other, setting.name)
            for setting in fields(other)
            if getattr(other, setting.name) != setting.default
        }
        return replace(self, **changes)


AS_IT_IS = Variant()


# How texts are read under a variant


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the sentences of a task are encoded; equal readings share their encodings.

    Attributes:
        task: The task.
        encoder: The encoder.
        prefix: The text before each sentence.
        lower_case: Whether sentences are put into lower case.
        pooling: The pooling, which is read from the encodings.
    """

    task: Task
    encoder: EncoderConfig
    prefix: str
    lower_case: bool
    pooling: Pooling = field(compare=False)

    def text(self, sentence: str) -> str:
        """A sentence as the encoder gets it."""
        return self.prefix + (sentence.lower() if self.lower_case else sentence)


@dataclass(frozen=True)
class PaddedConfig(TransformerConfig):
    """A transformer whose means are over texts that are padded to one length.

    Args:
        padded_to: This length in tokens.
    """

    padded_to: int = field(kw_only=True)

    def identify(self, path: Path) -> Identity:
        """The key and digests of a checkpoint folder, with the length."""
        identity = super().identify(path)
        facts = {"encoder": identity.key, "padded_to": self.padded_to}
        return replace(identity, key=digest_of(facts))

    def load(self, path: Path, cache: Path) -> TransformerEncoder:
        """The encoder, ready."""
        return super().load(path, cache).with_padding_in_mean(self.padded_to)


def _with_prompt(transformer: TransformerConfig, prompt: str) -> NativeConfig:
    """A transformer under the modules of its folder, with this text before each sentence."""
    own_prompts: tuple[tuple[str, str], ...] = ()
    if isinstance(transformer, PromptedConfig):
        own_prompts = transformer.prompts
    prompts = (*own_prompts, (TRIED_PROMPT, prompt))
    prompted = PromptedConfig(**_settings(transformer), prompts=prompts)
    return NativeConfig(prompted, TRIED_PROMPT)


def _settings(transformer: TransformerConfig) -> dict[str, Any]:
    """The settings of a transformer that are not those of a subclass."""
    return {
        setting.name: getattr(transformer, setting.name)
        for setting in fields(TransformerConfig)
        if setting.init
    }


# Measurement


@dataclass
class VariantScores:
    """A model, and what was measured of it.

    Attributes:
        method: The method that is measured as it is: the model under its own modules, or
            under the pooling that its id names.
        loader: Reads the tasks, and knows where files are.
        progress: Counts the sentences that are encoded.
        measured: The scores so far, as a record has them, by variant and task.
        opened: The encoder that was used last, by its configuration.
    """

    method: Method
    loader: TaskLoader
    progress: Progress = field(default_factory=Progress)
    measured: dict[tuple[Variant, str], Mapping[str, Any]] = field(default_factory=dict)
    opened: dict[EncoderConfig, CachedEncoder] = field(default_factory=dict)

    @cached_property
    def modules(self) -> Modules | None:
        """Its modules; None for a model that has none."""
        config = self.method.encoder
        if not isinstance(config, NativeConfig):
            return None
        return config.modules(self.loader.places.encoder(config))

    @property
    def transformer(self) -> TransformerConfig | None:
        """Its transformer without the modules; None for another encoder."""
        config = self.method.encoder
        inner = config.of if isinstance(config, NativeConfig) else config
        return inner if isinstance(inner, TransformerConfig) else None

    def own_prompt(self, task: Task) -> str | None:
        """The prompt of the model that mteb uses for a task.

        A prompt for the task's name in mteb comes before a prompt for all tasks of its
        kind. None if the model has neither: then its default prompt is used.
        """
        prompts = {} if self.modules is None else self.modules.prompts
        data_set = task.name.partition(".")[0]
        names = [*task.aliases, data_set.upper()]
        if data_set == "sts-b":
            names.append("STSBenchmark")
        for name in (*names, TASK_KIND):
            if name in prompts:
                return prompts[name]
        return None

    @property
    def default_prompt(self) -> str:
        """The prompt that the modules put before each sentence by themselves; empty without."""
        config = self.method.encoder
        if self.modules is None or not isinstance(config, NativeConfig):
            return ""
        return self.modules.prompt(config.prompt)

    def reading(self, variant: Variant, task: Task) -> Reading:
        """How the texts of a task are read under a variant.

        A pooling of hidden states leaves the modules out, and so do vectors that are not
        normalised: there the pooling is used that equals the modules without their last.
        Raises UsageError for a length or a precision that the encoder does not have.
        """
        config, transformer = self.method.encoder, self.transformer
        if transformer is not None and variant.tokenizer == "rebuilt":
            transformer = replace(transformer, tokenizer="rebuilt")
        pooling_name = variant.pooling
        if variant.unit_length is False and self.modules is not None:
            pooling_name = self.modules.equal_pooling
        pooling = self.method.pooling
        if pooling_name:
            [pooling] = (known for known in POOLINGS if known.name == pooling_name)
        prompt = variant.prompt
        if prompt is None:
            prompt = self.own_prompt(task)
        encoder, prefix = config, prompt or ""
        if transformer is not None and isinstance(config, NativeConfig):
            if pooling_name:
                encoder = transformer
                prefix = self.default_prompt if prompt is None else prompt
            else:
                prefix = ""  # the modules put it before the texts themselves
                encoder = replace(config, of=transformer)
                if prompt is not None:
                    encoder = _with_prompt(transformer, prompt)
        elif transformer is not None:
            encoder = transformer
        if variant.max_length is not None:
            encoder = encoder.with_max_length(variant.max_length)
        if variant.padded_to is not None and isinstance(encoder, TransformerConfig):
            cut = encoder.with_max_length(variant.padded_to)
            encoder = PaddedConfig(**_settings(cut), padded_to=variant.padded_to)
        if variant.dtype != FLOAT32:
            encoder = encoder.on(Hardware("cpu", variant.dtype))
        return Reading(
            task=task,
            encoder=encoder,
            prefix=prefix,
            lower_case=variant.lower_case,
            pooling=pooling,
        )

    def open(self, config: EncoderConfig) -> CachedEncoder:
        """An encoder with its cache; the one that was used last is not opened again."""
        if config not in self.opened:
            self.opened.clear()  # one model is in memory at a time
            self.opened[config] = CachedEncoder.open(config, self.loader.places)
        return self.opened[config]

    def needs_encoding(self, reading: Reading) -> bool:
        """Whether sentences of its task have to be encoded; what is cached has not."""
        sentences = self.loader.texts(reading.task).sentences
        texts = [reading.text(sentence) for sentence in sentences]
        return bool(self.open(reading.encoder).cache.missing(texts))

    def characters(self, reading: Reading) -> int:
        """The characters of the sentences of its task with their padding, each counted once."""
        padded_to = getattr(reading.encoder, "padded_to", 0)
        sentences = self.loader.texts(reading.task).sentences
        return sum(max(len(text), TOKEN_CHARACTERS * padded_to) for text in sentences)

    def scores(self, variant: Variant, task: Task) -> Mapping[str, Any]:
        """The scores under a variant, as a record has them.

        Raises:
            AssetMissing: The model or the data set is not on this machine.
            UsageError: The model does not have the variant.
            HarnessError: It cannot be measured.
        """
        key = (variant, task.name)
        if key not in self.measured:
            with one_blas_thread():
                self.measured[key] = self._measure(variant, task)
        return self.measured[key]

    def _measure(self, variant: Variant, task: Task) -> Mapping[str, Any]:
        """Encode a task's sentences under a variant, and measure them."""
        pairs = self.loader.texts(task).pairs
        if variant.first_pairs is not None:
            first = slice(variant.first_pairs)
            pairs = Pairs(
                pairs.a[first], pairs.b[first], pairs.gold[first], pairs.group[first]
            )
        reading = self.reading(variant, task)
        encoder = self.open(reading.encoder)
        text_of = {sentence: reading.text(sentence) for sentence in pairs.sentences}
        texts = sorted(set(text_of.values()))
        missing = encoder.cache.missing(texts)
        if missing:
            phase = ", ".join(variant.words) or "as it is"
            self.progress.phase(f"{phase}: encoding", len(missing))
            for count in encoder.encode(missing):
                self.progress.step(count)
        pooled = encoder.pooled(reading.pooling, texts)
        vectors: Any = pooled.matrix
        if variant.unit_length:
            vectors = unit_rows(vectors)
        if variant.dimensions is not None:
            width = vectors.shape[1]
            if variant.dimensions >= width:
                raise UsageError(
                    f"wanted fewer than {width} dimensions, found {variant.dimensions}"
                )
            vectors = vectors[:, : variant.dimensions]
        row = {sentence: pooled.row[text] for sentence, text in text_of.items()}
        return measure(task, pairs, PooledEmbeddings(row, vectors), ()).scores

    def stated_variant(self, settings: Iterable[tuple[str, Any]]) -> Variant:
        """The variant of arguments of sentence-transformers' `encode`.

        Raises UsageError for an argument that is not measured here, and for a prompt that
        the model does not have.
        """
        stated = AS_IT_IS
        for name, value in settings:
            if name in WITHOUT_EFFECT or value in (None, False, FLOAT32):
                continue
            if name == "prompt":
                stated |= Variant(prompt=str(value))
            elif name == "prompt_name":
                prompts = {} if self.modules is None else self.modules.prompts
                stated |= Variant(prompt=look_up("prompt", str(value), prompts))
            elif name == "normalize_embeddings":
                stated |= Variant(unit_length=True)
            elif name == "truncate_dim":
                stated |= Variant(dimensions=int(value))
            else:
                raise UsageError(f"{name} = {value!r} of its run is not measured here")
        return stated
