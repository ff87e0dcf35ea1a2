"""A model measured under choices that its card need not state: prompt, pooling, length ...

A `Variant` holds the settings that differ from the model's files. It decides how texts are
read (`Reading`): by the model's encoder with another setting, after a prefix, under a
pooling. All else is as in a run: the cache of encodings, and the measurement of vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.conclusions.cards import BatchEffect
from harness.core.digests import digest_of
from harness.core.environment import one_blas_thread
from harness.core.errors import HarnessError, UsageError
from harness.core.hardware import FLOAT32, Hardware
from harness.core.interfaces import EncoderConfig, Identity, Pooling
from harness.core.metrics import unit_rows
from harness.core.pairs import Pairs
from harness.core.types import Method, Progress, Task
from harness.data.tasks.loader import TaskLoader
from harness.encoders.config import FunctionConfig, FunctionEncoder
from harness.encoders.modules import Modules
from harness.encoders.native import NativeConfig, PromptedConfig
from harness.encoders.transformer import (
    TOKEN_CHARACTERS,
    TransformerConfig,
    TransformerEncoder,
)
from harness.evaluation.cell import measure
from harness.evaluation.embeddings import CachedEncoder
from harness.registry import look_up
from harness.transforms.pooling import POOLINGS, statistics_of

# Arguments of sentence-transformers' `encode`: those that are settings of a variant, and
# those that move no vector.
SETTING_OF_ARGUMENT = {
    "prompt": "prompt",
    "prompt_name": "prompt",
    "normalize_embeddings": "unit_length",
    "truncate_dim": "dimensions",
}
WITHOUT_EFFECT = (
    "batch_size",
    "show_progress_bar",
    "device",
    "convert_to_tensor",
    "convert_to_numpy",
)

# Texts that are encoded alone and in one batch, and the share of their largest number by
# which the order of sums moves a vector in float32.
COMPARED_TEXTS = 64
ROUNDING_OF_BATCHES = 1e-4

TRIED_PROMPT = "tried"  # the name that a prompt gets that is not the model's own
TASK_KIND = "STS"  # mteb's name for the prompt of all tasks of pairs

# How each setting of a variant is said, and those values that are said otherwise.
WORDS = {
    "prompt": "the prompt {!r}",
    "pooling": "pooling {}",
    "max_length": "max length {}",
    "dtype": "{}",
    "dimensions": "the first {} dimensions",
    "first_pairs": "the first {:,} pairs",
    "lower_case": "lower-cased text",
    "rebuilds_tokenizer": "the tokenizer as transformers 5 rebuilds it",
    "padded_to": "the padding to {} tokens in the mean",
}
WORDS_OF_VALUES = {
    ("prompt", ""): "no prompt",
    ("unit_length", True): "normalised vectors",
    ("unit_length", False): "vectors not normalised",
}


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
        rebuilds_tokenizer: Whether the tokenizer is the one that transformers 5 makes of
            a folder, where that is not the one of its file.
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
    rebuilds_tokenizer: bool = False
    padded_to: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that differ from the model's files, by name."""
        defaults = vars(Variant)
        return {
            name: value for name, value in vars(self).items() if value != defaults[name]
        }

    @property
    def moves_little(self) -> bool:
        """Whether it moves few sentences, or last digits alone."""
        return bool(self.settings.keys() & {"max_length", "dtype", "unit_length"})

    @property
    def words(self) -> tuple[str, ...]:
        """The differences from the model's files, a phrase each."""
        settings = self.settings
        phrases = []
        if settings.pop("prompt_of_mteb", None):
            prompt = settings.pop("prompt")
            phrases.append(f"mteb's prompt {self.prompt_of_mteb} ({prompt!r})")
        for name, value in settings.items():
            words = WORDS_OF_VALUES.get((name, value)) or WORDS[name]
            phrases.append(words.format(value))
        return tuple(phrases)

    def __or__(self, other: Variant) -> Variant:
        """Both variants together. A setting that both have is taken from `other`."""
        return replace(self, **other.settings)


AS_IT_IS = Variant()


# How texts are read under a variant


@dataclass(frozen=True)
class Reading:
    """How the sentences of a task are encoded; equal readings share their encodings.

    Attributes:
        encoder: The encoder.
        texts: The sentences as the encoder gets them.
        pooling: The pooling, which is read from the encodings.
    """

    encoder: EncoderConfig
    texts: tuple[str, ...]
    pooling: Pooling = field(compare=False)

    @property
    def characters(self) -> int:
        """The characters of the texts, with their padding."""
        padding = TOKEN_CHARACTERS * getattr(self.encoder, "padded_to", 0)
        return sum(max(len(text), padding) for text in self.texts)


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


def _settings(transformer: TransformerConfig) -> dict[str, Any]:
    """The settings of a transformer that are not those of a subclass."""
    names = [setting.name for setting in fields(TransformerConfig)]
    return {name: getattr(transformer, name) for name in names}


# Measurement


@dataclass
class VariantScores:
    """A model, and what was measured of it.

    Attributes:
        method: The method that is measured as it is: the model under its own modules, or
            under the pooling that its id names.
        loader: Reads the tasks, and knows where files are.
        progress: Counts the sentences that are encoded.
        measured: The scores so far, as a record has them, by variant and task; or why
            there are none.
        opened: The encoder that was used last.
    """

    method: Method
    loader: TaskLoader
    progress: Progress = field(default_factory=Progress)
    measured: dict[tuple[Variant, str], Mapping[str, Any] | HarnessError] = field(
        default_factory=dict
    )
    opened: CachedEncoder | None = None

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

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts of its folder, by name."""
        return {} if self.modules is None else self.modules.prompts

    @property
    def default_prompt(self) -> str:
        """The prompt that the modules put before each sentence by themselves; empty without."""
        config = self.method.encoder
        if self.modules is None or not isinstance(config, NativeConfig):
            return ""
        return self.modules.prompt(config.prompt)

    def prompt(self, task: Task) -> str:
        """The prompt of the model that mteb uses for a task.

        A prompt for the task's name in mteb comes before a prompt for all tasks of its
        kind. If the model has neither, it is the default prompt.
        """
        data_set = task.name.partition(".")[0]
        name_in_mteb = {"sts-b": "STSBenchmark"}.get(data_set, data_set.upper())
        for name in (*task.aliases, name_in_mteb, TASK_KIND):
            if name in self.prompts:
                return self.prompts[name]
        return self.default_prompt

    def reading(self, variant: Variant, task: Task) -> Reading:
        """How the texts of a task are read under a variant.

        A pooling of hidden states leaves the modules out, and so do vectors that are not
        normalised: there the pooling is used that equals the modules without their last.
        Raises UsageError for a length or a precision that the encoder does not have.
        """
        encoder, transformer = self.method.encoder, self.transformer
        prompt = self.prompt(task) if variant.prompt is None else variant.prompt
        prefix = prompt
        pooling_name = variant.pooling
        if variant.unit_length is False and self.modules is not None:
            pooling_name = self.modules.equal_pooling
        if transformer is not None and variant.rebuilds_tokenizer:
            transformer = replace(transformer, tokenizer="rebuilt")
        if transformer is None:
            # The modules put the default prompt before the texts themselves.
            prefix = "" if prompt == self.default_prompt else prompt
        elif isinstance(encoder, NativeConfig) and not pooling_name:
            prefix = ""
            prompts = ((TRIED_PROMPT, prompt),)
            prompted = PromptedConfig(**_settings(transformer), prompts=prompts)
            encoder = NativeConfig(prompted, TRIED_PROMPT)
        else:
            encoder = transformer
        if variant.max_length is not None:
            encoder = encoder.with_max_length(variant.max_length)
        if variant.padded_to is not None and isinstance(encoder, TransformerConfig):
            cut = encoder.with_max_length(variant.padded_to)
            encoder = PaddedConfig(**_settings(cut), padded_to=variant.padded_to)
        if variant.dtype != FLOAT32:
            encoder = encoder.on(Hardware("cpu", variant.dtype))
        poolings = {pooling.name: pooling for pooling in POOLINGS}
        pooling = poolings.get(pooling_name, self.method.pooling)
        sentences = list(self.loader.texts(task).sentences)
        if variant.lower_case:
            sentences = [sentence.lower() for sentence in sentences]
        texts = tuple(prefix + sentence for sentence in sentences)
        return Reading(encoder, texts, pooling)

    def open(self, config: EncoderConfig) -> CachedEncoder:
        """An encoder with its cache; the one that was used last is not opened again."""
        if self.opened is None or self.opened.config != config:
            self.opened = CachedEncoder.open(config, self.loader.places)
        return self.opened

    def batch_effect(self, task: Task) -> BatchEffect | None:
        """What the batch does to vectors of a task's first texts; None within rounding.

        It is looked for where the library or a function of the user encodes: the passes
        that are run here give a text the same vector in every batch.
        """
        config = self.method.encoder
        is_of_library = self.modules is not None and self.modules.is_of_library
        if not is_of_library and not isinstance(config, FunctionConfig):
            return None
        loaded = self.open(config).loaded
        if not isinstance(loaded, FunctionEncoder):
            return None
        sentences = dict.fromkeys(self.loader.texts(task).pairs.sentences)
        texts = [*sentences][:COMPARED_TEXTS]
        gap = loaded.batch_gap(texts)
        if gap <= ROUNDING_OF_BATCHES:
            return None
        return BatchEffect(task=task.name, texts=len(texts), largest=gap)

    def needs_encoding(self, reading: Reading) -> bool:
        """Whether texts have to be encoded; what is cached has not."""
        cache = self.open(reading.encoder).cache
        return bool(cache.missing(reading.texts, statistics_of(reading.pooling)))

    def scores(self, variant: Variant, task: Task) -> Mapping[str, Any]:
        """The scores under a variant, as a record has them.

        Raises:
            AssetMissing: The model or the data set is not on this machine.
            UsageError: The model does not have the variant.
            HarnessError: It cannot be measured.
        """
        key = (variant, task.name)
        if key not in self.measured:
            try:
                with one_blas_thread():
                    self.measured[key] = self._measure(variant, task)
            except HarnessError as error:
                self.measured[key] = error
        scores = self.measured[key]
        if isinstance(scores, HarnessError):
            raise scores
        return scores

    def _measure(self, variant: Variant, task: Task) -> Mapping[str, Any]:
        """Encode a task's sentences under a variant, and measure them."""
        texts = self.loader.texts(task)
        pairs = texts.pairs
        columns: tuple[Any, ...] = (pairs.a, pairs.b, pairs.gold, pairs.group)
        pairs = Pairs(*(column[: variant.first_pairs] for column in columns))
        reading = self.reading(variant, task)
        text_of = dict(zip(texts.sentences, reading.texts, strict=True))
        scored_texts = sorted({text_of[sentence] for sentence in pairs.sentences})
        encoder = self.open(reading.encoder)
        statistics = statistics_of(reading.pooling)
        missing = encoder.cache.missing(scored_texts, statistics)
        if missing:
            phase = ", ".join(variant.words) or "as it is"
            self.progress.phase(f"{phase}: encoding tokens", encoder.tokens(missing))
            for count in encoder.encode(missing, statistics):
                self.progress.step(count)
        pooled = encoder.pooled(reading.pooling, scored_texts)
        row = {sentence: pooled.row[text_of[sentence]] for sentence in pairs.sentences}
        maps: list[Any] = [unit_rows] if variant.unit_length else []
        if variant.dimensions is not None:
            maps.append(lambda vectors: vectors[:, : variant.dimensions])
        return measure(task, pairs, replace(pooled, row=row), maps).scores

    def stated_variant(self, arguments: Mapping[str, Any]) -> Variant:
        """The variant of arguments of sentence-transformers' `encode`.

        Raises UsageError for an argument that is not measured here, and for a prompt that
        the model does not have.
        """
        settings = {}
        for name, value in arguments.items():
            if name in WITHOUT_EFFECT or value in (None, False, FLOAT32):
                continue
            if name not in SETTING_OF_ARGUMENT:
                raise UsageError(f"{name} = {value!r} of its run is not measured here")
            if name == "prompt_name":
                value = look_up("prompt", value, self.prompts)
            settings[SETTING_OF_ARGUMENT[name]] = value
        return Variant(**settings)
