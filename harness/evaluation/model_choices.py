"""A model measured under choices that its card need not state: prompt, pooling, length, precision.

`MeasuredModel` keeps the scores of each choice on each task. What a choice costs is one
encoding of the task's sentences, kept in the cache of encodings as those of a run are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from time import perf_counter
from typing import Any

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float, Float64
from harness.core.environment import one_blas_thread
from harness.core.errors import UsageError
from harness.core.hardware import FLOAT32, HALVES, Hardware
from harness.core.interfaces import EncoderConfig, Pooling, Transform
from harness.core.metrics import directions
from harness.core.types import Method, Pairs, Progress, Task
from harness.encoders.modules import POOLING_MODES, Modules
from harness.encoders.native import NativeConfig, PromptedConfig, RepooledConfig
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.cell import measure
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import NATIVE, POOLINGS

TRIED_PROMPT = "tried"  # the name of a prompt that is not one of the model's

E5_PROMPTS = ("query: ", "passage: ")  # which most models with prompts have
# Prompts that other public models ask for: BGE's, and those of models with a prompt a
# task.
KNOWN_PROMPTS = (
    "Represent this sentence for searching relevant passages: ",
    "search_query: ",
    "search_document: ",
    "classification: ",
    "clustering: ",
    "Instruct: Retrieve semantically similar text.\nQuery: ",
)
LENGTHS = (
    512,
    256,
    128,
    64,
    384,
    32,
    50,
    100,
    16,
    8,
)  # tokens: defaults of libraries and papers
SHORTEST_CUT = 6  # tokens: below, little but [CLS] and [SEP] is left of a text
# Of Matryoshka models, and halves of others.
DIMENSIONS = (1024, 768, 512, 384, 256, 128, 64, 32, 16)
MODULES_PREFIX = (
    "modules:"  # before a pooling of tokens under the model's other modules
)
TASK_KIND = "STS"  # the name of a prompt for every task of pairs in mteb


@dataclass(frozen=True)
class EncodingChoice:
    """How sentences are encoded, where it is not as the model's files say.

    Attributes:
        prompt: The text before each sentence; None is the model's own for the task.
        pooling: A pooling of hidden states past the model's modules, or `modules:MODE`,
            a pooling of tokens among its other modules; empty is its own.
        max_length: Tokens that a text is cut to; None is the model's own.
        dtype: The precision of weights and states.
        unit_length: Whether vectors are divided by their length; None as the modules
            say.
        dimensions: How many of the first coordinates are kept; None keeps those of the
            modules.
        lower_case: Whether texts are put into lower case before all else.
    """

    prompt: str | None = None
    pooling: str = ""
    max_length: int | None = None
    dtype: str = FLOAT32
    unit_length: bool | None = None
    dimensions: int | None = None
    lower_case: bool = False

    @property
    def encoding(self) -> EncodingChoice:
        """What of it makes another encoding: poolings of hidden states are read from one."""
        pooling = self.pooling
        is_hidden = self.unit_length is False or not pooling.startswith(MODULES_PREFIX)
        if is_hidden and (pooling or self.unit_length is False):
            pooling = POOLINGS[0].name
        return replace(self, pooling=pooling, unit_length=None, dimensions=None)

    @property
    def words(self) -> tuple[str, ...]:
        """What differs from the model's files, a phrase each."""
        phrases = []
        if self.prompt is not None:
            phrases.append(
                f"the prompt {self.prompt!r}" if self.prompt else "no prompt"
            )
        if self.pooling:
            phrases.append(f"pooling {self.pooling.removeprefix(MODULES_PREFIX)}")
        if self.max_length is not None:
            phrases.append(f"max length {self.max_length}")
        if self.dtype != FLOAT32:
            phrases.append(self.dtype)
        if self.unit_length is not None:
            phrases.append(
                "normalised vectors" if self.unit_length else "vectors not normalised"
            )
        if self.dimensions is not None:
            phrases.append(f"the first {self.dimensions} dimensions")
        if self.lower_case:
            phrases.append("lower-cased text")
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


@dataclass(frozen=True)
class FirstDimensions:
    """A map that keeps the first coordinates of vectors."""

    count: int

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]:
        if not self.count < x.shape[1]:
            raise UsageError(
                f"wanted fewer than {x.shape[1]} dimensions, found {self.count}"
            )
        return np.asarray(x[:, : self.count], np.float64)


@dataclass
class MeasuredModel:
    """A model, and what was measured of it.

    Attributes:
        method: The model under its own modules, or what else its id names.
        loader: Reads the tasks, and knows where files are.
        progress: Is told of the encodings.
        scores_by_choice: The scores of each choice on each task, as a record has them.
        tokens_by_task: The tokens of each text of each task.
        last_encoder: The encoder of the last choice: poolings share it.
        last_vectors: The vectors of all texts of the last choice and task: first
            dimensions and other lengths of the same are made of them.
    """

    method: Method
    loader: TaskLoader
    progress: Progress = field(default_factory=Progress)
    scores_by_choice: dict[tuple[EncodingChoice, str], Mapping[str, Any]] = field(
        default_factory=dict
    )
    tokens_by_task: dict[str, Mapping[str, int]] = field(default_factory=dict)
    last_encoder: CachedEncoder | None = None
    last_vectors: tuple[EncodingChoice, str, PooledEmbeddings] | None = None

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
        names = [
            *task.aliases,
            base.upper(),
            *(["STSBenchmark"] if base == "sts-b" else []),
        ]
        return next(
            (prompts[name] for name in (*names, TASK_KIND) if name in prompts), None
        )

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
        pairs = self.loader.texts(task).pairs
        if choice.lower_case:
            pairs = _changed(pairs, str.lower)
        texts = sorted(set(pairs.sentences))
        pooled = self._pooled(choice, task, texts)
        maps: list[Transform] = [UnitLength()] if choice.unit_length else []
        if choice.dimensions is not None:
            maps.append(FirstDimensions(choice.dimensions))
        return measure(task, pairs, pooled, maps, perf_counter).scores

    def _pooled(
        self, choice: EncodingChoice, task: Task, texts: Sequence[str]
    ) -> PooledEmbeddings:
        """The vectors of texts under a choice; those that its length cuts are encoded alone."""
        cut = self.cut_texts(choice, task)
        if choice.max_length is None or cut is None:
            return self._whole(choice, task, texts)
        whole = self._whole(replace(choice, max_length=None), task, texts)
        others = [text for text in texts if text in cut]
        if not others:
            return whole
        found = self._encoded(choice, task, others)
        matrix = whole.matrix.copy()
        matrix[whole.rows(others)] = found.matrix[found.rows(others)]
        return PooledEmbeddings(whole.row, matrix, perf_counter)

    def _whole(
        self, choice: EncodingChoice, task: Task, texts: Sequence[str]
    ) -> PooledEmbeddings:
        """The vectors of all texts of a task, before first dimensions are taken."""
        choice = replace(
            choice,
            dimensions=None,
            unit_length=None if choice.unit_length else choice.unit_length,
        )
        if self.last_vectors is None or self.last_vectors[:2] != (choice, task.name):
            self.last_vectors = choice, task.name, self._encoded(choice, task, texts)
        return self.last_vectors[2]

    def _encoded(
        self, choice: EncodingChoice, task: Task, texts: Sequence[str]
    ) -> PooledEmbeddings:
        config, pooling, prefix = self._reading(choice, task)
        encoder = self._opened(config)
        prefixed = [prefix + text for text in texts]
        if missing := encoder.cache.missing(prefixed):
            self.progress.phase(
                f"{', '.join(choice.words) or 'as it is'}: encoding", len(missing)
            )
            encoder.ensure(missing, self.progress)
        pooled = encoder.pooled(pooling, prefixed)
        rows = {
            text: pooled.row[before]
            for text, before in zip(texts, prefixed, strict=True)
        }
        return PooledEmbeddings(rows, pooled.matrix, perf_counter)

    def _opened(self, config: EncoderConfig) -> CachedEncoder:
        """An encoder with its cache."""
        if self.last_encoder is None or self.last_encoder.config != config:
            self.last_encoder = CachedEncoder.open(config, self.places, perf_counter)
        return self.last_encoder

    def _reading(
        self, choice: EncodingChoice, task: Task
    ) -> tuple[EncoderConfig, Pooling, str]:
        """The encoder and the pooling of a choice, and what is put before each text by hand."""
        config, pooling = self.method.encoder, self.method.pooling
        prompt = self.own_prompt(task) if choice.prompt is None else choice.prompt
        prefix = ""
        inner = config.of if isinstance(config, NativeConfig) else None
        if isinstance(inner, TransformerConfig):
            own, mode = isinstance(config, NativeConfig) and config.prompt, ""
            if choice.pooling.startswith(MODULES_PREFIX):
                mode = choice.pooling.removeprefix(MODULES_PREFIX)
            if choice.unit_length is False and self.modules is not None:
                choice = replace(choice, pooling=self.modules.alike)
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
        if (
            self.modules is not None
            and self.modules.is_normalised
            and self.modules.alike
        ):
            yield EncodingChoice(unit_length=False)
        yield from (EncodingChoice(dimensions=count) for count in DIMENSIONS)
        own = self.method.pooling.name
        for pooling in POOLINGS:  # one encoding, of which all but the first are read
            if pooling.name != own:
                yield EncodingChoice(pooling=pooling.name)
        yield from (EncodingChoice(prompt=prompt) for prompt in self.prompts(task))
        yield from (EncodingChoice(max_length=length) for length in self.lengths(task))
        yield from (EncodingChoice(prompt=prompt) for prompt in E5_PROMPTS)
        if native:
            own_modes = self.modules.modes if self.modules is not None else ()
            others = (mode for mode in POOLING_MODES if (mode,) != own_modes)
            yield from (
                EncodingChoice(pooling=f"{MODULES_PREFIX}{mode}") for mode in others
            )
        yield from (EncodingChoice(dtype=dtype) for dtype in HALVES)

    def rare_choices(self, task: Task) -> Iterator[EncodingChoice]:
        """Choices that few authors make: prompts of other models, any length, lower case."""
        yield from (EncodingChoice(prompt=prompt) for prompt in KNOWN_PROMPTS)
        yield from (
            EncodingChoice(max_length=length) for length in self.rare_lengths(task)
        )
        yield EncodingChoice(lower_case=True)

    def choices_of_two(self, task: Task) -> Iterator[EncodingChoice]:
        """Choices in two places: a prompt, and a length or pooling; a pooling and a length."""
        prompts = [EncodingChoice(prompt=p) for p in (*self.prompts(task), *E5_PROMPTS)]
        lengths = [EncodingChoice(max_length=length) for length in self.lengths(task)]
        poolings = [EncodingChoice(pooling=pooling.name) for pooling in POOLINGS]
        for first, second in (
            (prompts, poolings),
            (prompts, lengths),
            (lengths, poolings),
        ):
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
        return [length for length in LENGTHS if self._cuts_otherwise(length, task)]

    def rare_lengths(self, task: Task) -> list[int]:
        """All other lengths, the longest first: they cut the fewest texts."""
        longest = max(self.tokens(task).values(), default=0)
        lengths = (
            length
            for length in range(longest, SHORTEST_CUT - 1, -1)
            if length not in LENGTHS
        )
        return [length for length in lengths if self._cuts_otherwise(length, task)]

    def _cuts_otherwise(self, length: int, task: Task) -> bool:
        own, tokens = self.max_length, self.tokens(task)
        if own is None or not tokens:
            return False
        longest = max(tokens.values())
        return length != own and min(length, longest) != min(own, longest)

    def cut_texts(self, choice: EncodingChoice, task: Task) -> set[str] | None:
        """The texts that a choice cuts elsewhere than the own length does; None: not known."""
        own, tokens = self.max_length, self.tokens(task)
        if choice.max_length is None or own is None or choice.lower_case or not tokens:
            return None
        prompt = self.own_prompt(task) if choice.prompt is None else choice.prompt
        if prompt is None:
            prompt = self._default_prompt()
        # A token has a byte at least: no prompt takes more tokens.
        shortest = min(own, choice.max_length) - len(prompt.encode())
        return {text for text, count in tokens.items() if count > shortest}

    def tokens(self, task: Task) -> Mapping[str, int]:
        """The tokens of each text of a task, [CLS] and [SEP] included; none without a tokenizer."""
        if task.name not in self.tokens_by_task:
            config = self.method.encoder
            of_tokens = config.of if isinstance(config, NativeConfig) else config
            counts: Mapping[str, int] = {}
            if isinstance(of_tokens, TransformerConfig):
                tokenizer = self._tokenizer(of_tokens)
                texts = sorted(set(self.loader.texts(task).pairs.sentences))
                counts = dict(zip(texts, map(len, tokenizer(texts)), strict=True))
            self.tokens_by_task[task.name] = counts
        return self.tokens_by_task[task.name]

    def _tokenizer(self, config: TransformerConfig) -> Any:
        """The tokenizer, cut at the longest of the lengths that the model can have."""
        try:
            longest = config.with_max_length(max(LENGTHS))
            return longest.load(
                self.places.encoder(longest), self.places.cache
            ).tokenizer
        except UsageError:
            return config.load(self.places.encoder(config), self.places.cache).tokenizer

    def letters(self, choice: EncodingChoice, task: Task) -> int:
        """The letters of the texts that are encoded for a choice."""
        cut = self.cut_texts(choice, task)
        texts = set(self.loader.texts(task).pairs.sentences) if cut is None else cut
        return sum(map(len, texts))

    @property
    def letters_per_second(self) -> float | None:
        """How fast it encodes, by its own encodings; None where it never ran."""
        return self._opened(self.method.encoder).cache.rate


def _changed(pairs: Pairs, change: Callable[[str], str]) -> Pairs:
    """The pairs with each of their texts changed."""
    a, b = (tuple(change(text) for text in column) for column in (pairs.a, pairs.b))
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
    prompts = (
        *(pair for pair in before if pair[0] != TRIED_PROMPT),
        (TRIED_PROMPT, text),
    )
    kept: dict[str, Any] = {
        part.name: getattr(config, part.name)
        for part in fields(TransformerConfig)
        if part.init
    }
    return PromptedConfig(**kept, prompts=prompts)
