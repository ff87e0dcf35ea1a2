"""A model measured under choices that its card need not state: prompt, pooling, length, precision.

`MeasuredModel` keeps the scores of each choice on each task. What a choice costs is one encoding of
the task's sentences, kept in the cache of encodings as those of a run are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from time import perf_counter
from typing import Any

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float, Float64
from harness.core.environment import one_blas_thread
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.hardware import FLOAT32, HALVES, Hardware
from harness.core.interfaces import EncoderConfig, Pooling, Transform
from harness.core.metrics import directions
from harness.core.types import Method, Pairs, Progress, Task
from harness.encoders.modules import POOLING_MODES, Modules
from harness.encoders.native import NativeConfig, PromptedConfig, RepooledConfig
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.cell import measure
from harness.evaluation.embeddings import CachedEncoder
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import NATIVE, POOLINGS

TRIED_PROMPT = "tried"  # the name of a prompt that is not one of the model's

# Prompts that public models ask for: E5's, BGE's, and those of models with a prompt a task.
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
LENGTHS = (512, 256, 128, 64, 32, 16, 8)  # tokens, those of libraries' defaults first
MODULES_PREFIX = "modules:"  # before a pooling of tokens under the model's other modules
TASK_KIND = "STS"  # the name of a prompt for every task of pairs in mteb


@dataclass(frozen=True)
class EncodingChoice:
    """How sentences are encoded, where it is not as the model's files say.

    Attributes:
        prompt: The text before each sentence; None is the model's own for the task.
        pooling: A pooling of hidden states past the model's modules, or `modules:MODE`, a pooling
            of tokens among its other modules; empty is its own.
        max_length: Tokens that a text is cut to; None is the model's own.
        dtype: The precision of weights and states.
        unit_length: Whether vectors are divided by their length; None as the modules say.
    """

    prompt: str | None = None
    pooling: str = ""
    max_length: int | None = None
    dtype: str = FLOAT32
    unit_length: bool | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """What differs from the model's files, a phrase each."""
        phrases = []
        if self.prompt is not None:
            phrases.append(f"the prompt {self.prompt!r}" if self.prompt else "no prompt")
        if self.pooling:
            phrases.append(f"pooling {self.pooling.removeprefix(MODULES_PREFIX)}")
        if self.max_length is not None:
            phrases.append(f"max length {self.max_length}")
        if self.dtype != FLOAT32:
            phrases.append(self.dtype)
        if self.unit_length is not None:
            phrases.append("normalised vectors" if self.unit_length else "vectors not normalised")
        return tuple(phrases)

    def __or__(self, other: EncodingChoice) -> EncodingChoice:
        """Both choices together; where both choose, the other's."""
        chosen = {
            part.name: getattr(other, part.name)
            for part in fields(other)
            if getattr(other, part.name) != part.default
        }
        return replace(self, **chosen)


OWN_CHOICE = EncodingChoice()


@dataclass(frozen=True)
class UnitLength:
    """A map that divides vectors by their length."""

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m D"]:
        return directions(x)


@dataclass
class MeasuredModel:
    """A model, and what was measured of it.

    Attributes:
        method: The model under its own modules, or what else its id names.
        loader: Reads the tasks, and knows where files are.
        progress: Is told of the encodings.
        scores_by_choice: The scores of each choice on each task, as a record has them.
        longest: The tokens of the longest text of each task.
    """

    method: Method
    loader: TaskLoader
    progress: Progress = field(default_factory=Progress)
    scores_by_choice: dict[tuple[EncodingChoice, str], Mapping[str, Any]] = field(
        default_factory=dict
    )
    longest: dict[str, int] = field(default_factory=dict)

    @property
    def places(self) -> Places:
        """Where its files are."""
        return self.loader.places

    @property
    def modules(self) -> Modules | None:
        """Its modules; None for a model that has none."""
        config = self.method.encoder
        if not isinstance(config, NativeConfig):
            return None
        return config.modules(self.places.encoder(config))

    @property
    def max_length(self) -> int | None:
        """The length that it cuts texts to by itself."""
        config = self.method.encoder
        return self.places.identify(config, self.places.encoder(config)).max_length

    def own_prompt(self, task: Task) -> str | None:
        """The prompt that mteb takes for a task, among the model's; None leaves it its default.

        That of the task's name in mteb goes before that of all tasks of its kind.
        """
        modules = self.modules
        prompts = modules.prompts if modules is not None else {}
        base = task.name.partition(".")[0]
        names = [*task.aliases, base.upper(), *(["STSBenchmark"] if base == "sts-b" else [])]
        return next((prompts[name] for name in (*names, TASK_KIND) if name in prompts), None)

    def scores(self, choice: EncodingChoice, task: Task) -> Mapping[str, Any]:
        """The scores under a choice, as a record has them.

        Raises:
            AssetMissing: The model or the data set is not on this machine.
            UsageError: The model does not have the choice.
            HarnessError: It cannot be measured.
        """
        key = (choice, task.name)
        if key not in self.scores_by_choice:
            with one_blas_thread():
                self.scores_by_choice[key] = self._measured(choice, task)
        return self.scores_by_choice[key]

    def _measured(self, choice: EncodingChoice, task: Task) -> Mapping[str, Any]:
        config, pooling, prefix = self._reading(choice, task)
        pairs = _prefixed(self.loader.texts(task).pairs, prefix)
        encoder = CachedEncoder.open(config, self.places, perf_counter)
        texts = sorted(set(pairs.sentences))
        if missing := encoder.cache.missing(texts):
            self.progress.phase(f"{', '.join(choice.words) or 'as it is'}: encoding", len(missing))
            encoder.ensure(missing, self.progress)
        pooled = encoder.pooled(pooling, texts)
        maps: list[Transform] = [UnitLength()] if choice.unit_length else []
        return measure(task, pairs, pooled, maps, perf_counter).scores

    def _reading(self, choice: EncodingChoice, task: Task) -> tuple[EncoderConfig, Pooling, str]:
        """The encoder and the pooling of a choice, and what is put before each text by hand."""
        config, pooling = self.method.encoder, self.method.pooling
        prompt = self.own_prompt(task) if choice.prompt is None else choice.prompt
        prefix = ""
        inner = config.of if isinstance(config, NativeConfig) else None
        if isinstance(inner, TransformerConfig):
            own, mode = isinstance(config, NativeConfig) and config.prompt, ""
            if choice.pooling.startswith(MODULES_PREFIX):
                mode = choice.pooling.removeprefix(MODULES_PREFIX)
            if choice.pooling and not mode:
                if prompt is None:
                    prompt = self._default_prompt()
                config, pooling, prefix = inner, _pooling_named(choice.pooling), prompt
            elif prompt is None:
                config = _native(inner, str(own or ""), mode)
            else:
                config = _native(_with_prompt(inner, prompt), TRIED_PROMPT, mode)
        else:
            if choice.pooling:
                pooling = _pooling_named(choice.pooling.removeprefix(MODULES_PREFIX))
            prefix = prompt or ""
        if choice.max_length is not None:
            config = config.with_max_length(choice.max_length)
        if choice.dtype != FLOAT32:
            config = config.on(Hardware("cpu", choice.dtype))
        return config, pooling, prefix

    def _default_prompt(self) -> str:
        config, modules = self.method.encoder, self.modules
        name = config.prompt if isinstance(config, NativeConfig) else ""
        return modules.prompt(name) if modules is not None else ""

    def single_choices(self, task: Task) -> Iterator[EncodingChoice]:
        """Choices in one place, those that encode the least first."""
        native = isinstance(self.method.encoder, NativeConfig)
        if native or not isinstance(self.method.encoder, TransformerConfig):
            yield EncodingChoice(unit_length=True)
        own = self.method.pooling.name
        for pooling in POOLINGS:  # one encoding, of which all but the first are read
            if pooling.name != own:
                yield EncodingChoice(pooling=pooling.name)
        yield from (EncodingChoice(prompt=prompt) for prompt in self.prompts(task))
        yield from (EncodingChoice(max_length=length) for length in self.lengths(task))
        if native:
            yield from (EncodingChoice(pooling=f"{MODULES_PREFIX}{mode}") for mode in POOLING_MODES)
        yield from (EncodingChoice(prompt=prompt) for prompt in KNOWN_PROMPTS)
        yield from (EncodingChoice(dtype=dtype) for dtype in HALVES)

    def choices_of_two(self, task: Task) -> Iterator[EncodingChoice]:
        """Choices in two places: a prompt, and a length or pooling; a pooling and a length."""
        prompts = [EncodingChoice(prompt=p) for p in (*self.prompts(task), *KNOWN_PROMPTS[:2])]
        lengths = [EncodingChoice(max_length=length) for length in self.lengths(task)]
        poolings = [EncodingChoice(pooling=pooling.name) for pooling in POOLINGS]
        for first, second in ((prompts, poolings), (prompts, lengths), (lengths, poolings)):
            for one in first:
                yield from (one | other for other in second)

    def prompts(self, task: Task) -> list[str]:
        """The model's prompts and none, without that which it uses on the task anyway."""
        modules = self.modules
        texts = ["", *(modules.prompts.values() if modules is not None else ())]
        used = self.own_prompt(task)
        if used is None:
            used = self._default_prompt()
        return [text for text in dict.fromkeys(texts) if text != used]

    def lengths(self, task: Task) -> list[int]:
        """Other lengths that cut another number of the task's tokens than the model's own."""
        own, longest = self.max_length, self._longest_text(task)
        if own is None:
            return []
        kept = min(own, longest)
        return [length for length in LENGTHS if length != own and min(length, longest) != kept]

    def _longest_text(self, task: Task) -> int:
        """The tokens of the longest text; without a tokenizer, more than any text has."""
        if task.name not in self.longest:
            config = self.method.encoder
            of_tokens = config.of if isinstance(config, NativeConfig) else config
            longest = max(LENGTHS)
            if isinstance(of_tokens, TransformerConfig):
                loaded: Any = None
                for length in (max(LENGTHS), None):
                    try:
                        chosen = of_tokens.with_max_length(length) if length else of_tokens
                        loaded = chosen.load(self.places.encoder(chosen), self.places.cache)
                        break
                    except (AssetMissing, UsageError):
                        continue
                if loaded is not None:
                    texts = sorted(set(self.loader.texts(task).pairs.sentences))
                    longest = max(map(len, loaded.tokenizer(texts)), default=0)
            self.longest[task.name] = longest
        return self.longest[task.name]

    def possible(self, choice: EncodingChoice, task: Task) -> Mapping[str, Any] | None:
        """The scores under a choice; None for one that the model does not have."""
        try:
            return self.scores(choice, task)
        except AssetMissing:
            raise
        except HarnessError:
            return None


def _prefixed(pairs: Pairs, prefix: str) -> Pairs:
    """The pairs with a text before each sentence."""
    if not prefix:
        return pairs
    a, b = (tuple(prefix + text for text in column) for column in (pairs.a, pairs.b))
    return replace(pairs, a=a, b=b)


def _pooling_named(name: str) -> Pooling:
    for pooling in (*POOLINGS, NATIVE):
        if pooling.name == name:
            return pooling
    raise UsageError(f"pooling {name}: this encoder has no such pooling")


def _native(of: TransformerConfig, prompt: str, mode: str) -> NativeConfig:
    return RepooledConfig(of, prompt, mode=mode) if mode else NativeConfig(of, prompt)


def _with_prompt(config: TransformerConfig, text: str) -> PromptedConfig:
    """An encoder with one more prompt, called `tried`."""
    before = config.prompts if isinstance(config, PromptedConfig) else ()
    prompts = (*(pair for pair in before if pair[0] != TRIED_PROMPT), (TRIED_PROMPT, text))
    kept: dict[str, Any] = {
        part.name: getattr(config, part.name) for part in fields(TransformerConfig) if part.init
    }
    return PromptedConfig(**kept, prompts=prompts)
