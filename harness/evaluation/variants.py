"""A model measured under choices that its card need not state: prompt, pooling, length ...

A `Variant` holds the settings that differ from the model's files. `VariantScores`
measures a model under variants through the cache of encodings, as a run does, and lists
the variants that are worth trying.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.digests import digest_of
from harness.core.environment import one_blas_thread
from harness.core.errors import UsageError
from harness.core.hardware import FLOAT32, HALVES, Hardware
from harness.core.interfaces import EncoderConfig, Identity, Pooling, Transform
from harness.core.metrics import directions
from harness.core.pairs import Pairs
from harness.core.types import Method, Progress, Task
from harness.data.places import Places
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
from harness.transforms.pooling import MEAN, NATIVE, POOLINGS

# What is tried

# Prompts of public models: E5's, which most models with prompts have, BGE's, and those of
# models that have one for each task.
KNOWN_PROMPTS = (
    "query: ",
    "passage: ",
    "Represent this sentence for searching relevant passages: ",
    "search_query: ",
    "search_document: ",
    "classification: ",
    "clustering: ",
    "Instruct: Retrieve semantically similar text.\nQuery: ",
)
# In tokens: defaults of libraries and papers, the most frequent ones first.
LENGTHS = (512, 256, 128, 64, 384, 32, 50, 100, 16, 8)
# Dimensions that Matryoshka models are trained for, and halves of usual ones.
DIMENSIONS = (1024, 768, 512, 384, 256, 128, 64, 32, 16)
FIRST_PAIRS = (1000, 500, 100)  # of a script that was tried on a part of the data
PADDED_LENGTHS = (64, 128, 256, 512)  # in tokens, of programs that pad every text

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


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """How texts are read under a variant: by an encoder and a pooling, after a prefix."""

    encoder: EncoderConfig
    pooling: Pooling
    prefix: str
    lower_case: bool

    def text(self, sentence: str) -> str:
        """A sentence as the encoder gets it."""
        return self.prefix + (sentence.lower() if self.lower_case else sentence)


@dataclass
class VariantScores:
    """A model, and what was measured of it.

    Attributes:
        method: The method that is measured as it is: the model under its own modules, or
            under the pooling that its id names.
        loader: Reads the tasks, and knows where files are.
        progress: Counts the sentences that are encoded.
        measured: The scores so far, as a record has them, by variant and task.
    """

    method: Method
    loader: TaskLoader
    progress: Progress = field(default_factory=Progress)
    measured: dict[tuple[Variant, str], Mapping[str, Any]] = field(default_factory=dict)
    _opened: dict[EncoderConfig, CachedEncoder] = field(default_factory=dict)

    @property
    def places(self) -> Places:
        """Where its files are."""
        return self.loader.places

    @cached_property
    def modules(self) -> Modules | None:
        """Its modules; None for a model that has none."""
        config = self.method.encoder
        if not isinstance(config, NativeConfig):
            return None
        return config.modules(self.places.encoder(config))

    # Scores

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

    def needs_encoding(self, variant: Variant, task: Task) -> bool:
        """Whether sentences have to be encoded for its scores; what is cached has not.

        Raises UsageError for a variant that the model does not have.
        """
        if (variant, task.name) in self.measured:
            return False
        if variant.tokenizer == "rebuilt":
            # Importing transformers takes seconds.
            from harness.encoders.kernels.tokenizing import is_made_anew

            if not is_made_anew(self.places.encoder(self.method.encoder)):
                raise UsageError("the tokenizer of transformers 5 is that of the file")
        reading = self._reading(variant, task)
        sentences = set(self.loader.texts(task).pairs.sentences)
        encoder = self._open(reading.encoder)
        return bool(encoder.cache.missing(sorted(map(reading.text, sentences))))

    def encoding(self, variant: Variant, task: Task) -> tuple[Any, ...]:
        """What variants that share an encoding have in common.

        Raises UsageError for a variant that the model does not have.
        """
        reading = self._reading(variant, task)
        return reading.encoder, reading.prefix, variant.lower_case, task.name

    def characters(self, variant: Variant, task: Task) -> int:
        """The characters of the sentences of a task with their padding, each counted once."""
        sentences = set(self.loader.texts(task).pairs.sentences)
        least_length = TOKEN_CHARACTERS * (variant.padded_to or 0)
        return sum(max(len(sentence), least_length) for sentence in sentences)

    @property
    def characters_per_second(self) -> float | None:
        """How fast the model encoded earlier sentences; None if it has encoded none."""
        return self._open(self.method.encoder).cache.rate

    def _measure(self, variant: Variant, task: Task) -> Mapping[str, Any]:
        """Encode a task's sentences under a variant, and measure them."""
        pairs = self.loader.texts(task).pairs
        if variant.first_pairs is not None:
            pairs = _first_pairs(pairs, variant.first_pairs)
        reading = self._reading(variant, task)
        encoder = self._open(reading.encoder)
        text_of = {sentence: reading.text(sentence) for sentence in pairs.sentences}
        texts = sorted(set(text_of.values()))
        missing = encoder.cache.missing(texts)
        if missing:
            phase = ", ".join(variant.words) or "as it is"
            self.progress.phase(f"{phase}: encoding", len(missing))
            encoder.ensure(missing, self.progress)
        pooled = encoder.pooled(reading.pooling, texts)
        row = {sentence: pooled.row[text] for sentence, text in text_of.items()}
        maps: list[Transform] = []
        if variant.unit_length:
            maps.append(_unit_length)
        if variant.dimensions is not None:
            maps.append(partial(_first_dimensions, variant.dimensions))
        vectors = PooledEmbeddings(row, pooled.matrix)
        return measure(task, pairs, vectors, maps).scores

    def _open(self, config: EncoderConfig) -> CachedEncoder:
        """An encoder with its cache; the one that was used last is not opened again."""
        if config not in self._opened:
            self._opened.clear()  # one model is in memory at a time
            self._opened[config] = CachedEncoder.open(config, self.places)
        return self._opened[config]

    # Settings that are stated

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

    # How texts are read

    def own_prompt(self, task: Task) -> str | None:
        """The prompt of the model that mteb uses for a task.

        A prompt for the task's name in mteb comes before a prompt for all tasks of its
        kind. None if the model has neither: then its default prompt is used.
        """
        modules = self.modules
        if modules is None:
            return None
        data_set = task.name.partition(".")[0]
        names = [*task.aliases, data_set.upper()]
        if data_set == "sts-b":
            names.append("STSBenchmark")
        for name in (*names, TASK_KIND):
            if name in modules.prompts:
                return modules.prompts[name]
        return None

    def _reading(self, variant: Variant, task: Task) -> _Reading:
        """How the texts of a task are read under a variant.

        A pooling of hidden states leaves the modules out, and so do vectors that are not
        normalised: there the pooling is used that equals the modules without their last.
        """
        config, modules = self.method.encoder, self.modules
        if variant.tokenizer == "rebuilt":
            config = _with_rebuilt_tokenizer(config)
        prompt = variant.prompt
        if prompt is None:
            prompt = self.own_prompt(task)
        pooling_name = variant.pooling
        if variant.unit_length is False and modules is not None:
            pooling_name = modules.equal_pooling
        pooling = self.method.pooling
        if pooling_name:
            pooling = _pooling_named(pooling_name)
        encoder, prefix = config, prompt or ""
        inner = config.of if isinstance(config, NativeConfig) else None
        if isinstance(config, NativeConfig) and isinstance(inner, TransformerConfig):
            if pooling_name:
                encoder = inner
                prefix = self._default_prompt if prompt is None else prompt
            else:
                prefix = ""  # the modules put it before the texts themselves
                if prompt is not None:
                    encoder = _with_prompt(inner, prompt)
        if variant.max_length is not None:
            encoder = encoder.with_max_length(variant.max_length)
        if variant.padded_to is not None and isinstance(encoder, TransformerConfig):
            encoder = _padded(encoder, variant.padded_to)
        if variant.dtype != FLOAT32:
            encoder = encoder.on(Hardware("cpu", variant.dtype))
        return _Reading(
            encoder=encoder,
            pooling=pooling,
            prefix=prefix,
            lower_case=variant.lower_case,
        )

    @property
    def _default_prompt(self) -> str:
        """The prompt that the modules put before each sentence by themselves; empty without."""
        config = self.method.encoder
        if self.modules is None or not isinstance(config, NativeConfig):
            return ""
        return self.modules.prompt(config.prompt)

    # Variants that are worth trying

    def variants(self, task: Task) -> Iterator[Variant]:
        """Variants of one setting, the cheapest and likeliest first."""
        config, modules = self.method.encoder, self.modules
        is_native = isinstance(config, NativeConfig)
        if is_native or not isinstance(config, TransformerConfig):
            yield Variant(unit_length=True)
        if modules is not None and modules.is_normalised and modules.equal_pooling:
            yield Variant(unit_length=False)
        for dimensions in DIMENSIONS:
            yield Variant(dimensions=dimensions)
        pair_count = len(self.loader.texts(task).pairs)
        for count in FIRST_PAIRS:
            if count < pair_count:
                yield Variant(first_pairs=count)
        # All poolings after the first are read from the encoding that it made.
        for pooling in POOLINGS:
            if pooling.name != self.method.pooling.name:
                yield Variant(pooling=pooling.name)
        for prompt in self._prompts(task):
            yield Variant(prompt=prompt)
        for length in self._lengths(task):
            yield Variant(max_length=length)
        for dtype in HALVES:
            yield Variant(dtype=dtype)
        yield Variant(lower_case=True)
        inner = config.of if isinstance(config, NativeConfig) else config
        if isinstance(inner, TransformerConfig):
            yield Variant(tokenizer="rebuilt")

    def pairs_of_variants(self, task: Task) -> Iterator[Variant]:
        """Variants of two settings: a prompt with a pooling or length, a length with a pooling."""
        own_prompts = self._prompts(task, known=KNOWN_PROMPTS[:2])
        prompts = [Variant(prompt=prompt) for prompt in own_prompts]
        lengths = [Variant(max_length=length) for length in self._lengths(task)]
        poolings = [Variant(pooling=pooling.name) for pooling in POOLINGS]
        for first_settings, second_settings in (
            (prompts, poolings),
            (lengths, poolings),
            (prompts, lengths),
        ):
            for first, second in product(first_settings, second_settings):
                yield first | second
        config = self.method.encoder
        inner = config.of if isinstance(config, NativeConfig) else config
        if isinstance(inner, TransformerConfig):
            for length in PADDED_LENGTHS:
                yield Variant(pooling=MEAN.name, padded_to=length)

    def variants_of_mteb(self) -> Iterator[Variant]:
        """A variant for each prompt of mteb's implementation of the model; none without mteb.

        Importing mteb takes seconds.
        """
        config = self.method.encoder
        model = getattr(config.source, "repo", "") or self.places.encoder(config).name
        try:
            from mteb.models.model_implementations import MODEL_REGISTRY
        except ImportError:
            return
        for name, implementation in MODEL_REGISTRY.items():
            if model in (name, name.rpartition("/")[2]):
                prompts = implementation.loader_kwargs.get("model_prompts") or {}
                for prompt_name, prompt in prompts.items():
                    yield Variant(prompt=prompt, prompt_of_mteb=prompt_name)

    def _prompts(
        self, task: Task, known: Sequence[str] = KNOWN_PROMPTS
    ) -> Sequence[str]:
        """No prompt, the model's and those of others, but for the one that is used anyway."""
        prompts = ["", *known]
        if self.modules is not None:
            prompts[1:1] = self.modules.prompts.values()
        used_prompt = self.own_prompt(task)
        if used_prompt is None:
            used_prompt = self._default_prompt
        return [prompt for prompt in dict.fromkeys(prompts) if prompt != used_prompt]

    def _lengths(self, task: Task) -> Sequence[int]:
        """Usual lengths that may cut the task's texts elsewhere than the model's own does.

        A token has a character at least, so that a length above the characters of the
        longest text cuts nothing.
        """
        config = self.method.encoder
        own_length = self.places.identify(
            config, self.places.encoder(config)
        ).max_length
        if own_length is None:
            return []
        sentences = self.loader.texts(task).pairs.sentences
        longest = max(len(sentence) for sentence in sentences)
        uncut = min(own_length, longest)
        return [length for length in LENGTHS if min(length, longest) != uncut]


def _unit_length(x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m D"]:
    """Vectors divided by their length."""
    return directions(x)


def _first_dimensions(
    count: int, x: Float[np.ndarray, "m D"]
) -> Float64[np.ndarray, "m K"]:
    """The first coordinates of vectors. Raises UsageError where there are no others."""
    if not count < x.shape[1]:
        raise UsageError(f"wanted fewer than {x.shape[1]} dimensions, found {count}")
    return np.asarray(x[:, :count], np.float64)


def _first_pairs(pairs: Pairs, count: int) -> Pairs:
    """The first pairs of a task."""
    return replace(
        pairs,
        a=pairs.a[:count],
        b=pairs.b[:count],
        gold=pairs.gold[:count],
        group=pairs.group[:count],
    )


def _pooling_named(name: str) -> Pooling:
    """The pooling of a name. Raises UsageError for a name that no pooling has."""
    for pooling in (*POOLINGS, NATIVE):
        if pooling.name == name:
            return pooling
    raise UsageError(f"pooling {name}: this encoder has no such pooling")


def _with_rebuilt_tokenizer(config: EncoderConfig) -> EncoderConfig:
    """A transformer with the tokenizer that transformers makes of its folder."""
    if isinstance(config, NativeConfig):
        return replace(config, of=_with_rebuilt_tokenizer(config.of))
    if isinstance(config, TransformerConfig):
        return replace(config, tokenizer="rebuilt")
    raise UsageError("the tokenizer: this encoder is no transformer")


def _with_prompt(transformer: TransformerConfig, prompt: str) -> NativeConfig:
    """A transformer under the modules of its folder, with this text before each sentence."""
    own_prompts: tuple[tuple[str, str], ...] = ()
    if isinstance(transformer, PromptedConfig):
        own_prompts = transformer.prompts
    prompts = (*own_prompts, (TRIED_PROMPT, prompt))
    prompted = PromptedConfig(**_settings(transformer), prompts=prompts)
    return NativeConfig(prompted, TRIED_PROMPT)


def _padded(transformer: TransformerConfig, length: int) -> PaddedConfig:
    """A transformer whose texts are cut and padded to a length, with means over the padding."""
    cut = transformer.with_max_length(length)
    return PaddedConfig(**_settings(cut), padded_to=length)


def _settings(transformer: TransformerConfig) -> dict[str, Any]:
    """The settings of a transformer that are not those of a subclass."""
    return {
        setting.name: getattr(transformer, setting.name)
        for setting in fields(TransformerConfig)
        if setting.init
    }
