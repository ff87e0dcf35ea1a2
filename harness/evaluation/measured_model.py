"""A model measured under choices that its card need not state.

`MeasuredModel` measures a model under a choice, keeps the scores, and lists the choices
that are worth trying. A choice costs at most one encoding of the task's sentences, which
the cache of encodings keeps, as in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from time import perf_counter
from typing import Any

from harness.assets.places import Places
from harness.core.environment import one_blas_thread
from harness.core.errors import UsageError
from harness.core.hardware import FLOAT32, HALVES, Hardware
from harness.core.interfaces import EncoderConfig, Pooling, Transform
from harness.core.pairs import Pairs
from harness.core.types import Method, Progress, Task
from harness.encoders.modules import POOLING_MODES, Modules
from harness.encoders.native import NativeConfig, PromptedConfig, RepooledConfig
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.cell import measure
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings
from harness.evaluation.encoding_choice import (
    MODULES_PREFIX,
    OWN_CHOICE,
    EncodingChoice,
    FirstDimensions,
    UnitLength,
)
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import NATIVE, POOLINGS

# The values that are tried

E5_PROMPTS = ("query: ", "passage: ")  # which most models with prompts have
# Prompts of other public models: BGE's, and the prompts of models that have one for each
# task.
KNOWN_PROMPTS = (
    "Represent this sentence for searching relevant passages: ",
    "search_query: ",
    "search_document: ",
    "classification: ",
    "clustering: ",
    "Instruct: Retrieve semantically similar text.\nQuery: ",
)
# In tokens: defaults of libraries and papers, the most frequent ones first.
LENGTHS = (512, 256, 128, 64, 384, 32, 50, 100, 16, 8)
SHORTEST_CUT = 6  # tokens; a shorter text is little more than [CLS] and [SEP]
# Dimensions that Matryoshka models are trained for, and halves of usual ones.
DIMENSIONS = (1024, 768, 512, 384, 256, 128, 64, 32, 16)

TRIED_PROMPT = "tried"  # the name that a prompt gets that is not the model's own
TASK_KIND = "STS"  # mteb's name for the prompt of all tasks of pairs


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How texts are read under a choice.

    Attributes:
        encoder: The encoder.
        pooling: The pooling of its encodings.
        prefix: The text that is put before each sentence; empty if the encoder's
            modules do that.
    """

    encoder: EncoderConfig
    pooling: Pooling
    prefix: str = ""


@dataclass(frozen=True, eq=False)
class TaskVectors:
    """The vectors of all texts of a task under a choice."""

    choice: EncodingChoice
    task: str
    vectors: PooledEmbeddings


@dataclass
class MeasuredModel:
    """A model, and what was measured of it.

    Attributes:
        method: The method that is measured without a choice: the model under its own
            modules, or under the pooling that its id names.
        loader: Reads the tasks, and knows where files are.
        progress: Counts the sentences that are encoded.
        scores_by_choice: The scores that were measured so far, as a record has them, by
            choice and name of the task.
        tokens_by_task: The number of tokens of each text of the tasks so far.
        last_encoder: The encoder that was used last, which several poolings share.
        last_vectors: The vectors that were made last. First dimensions, vectors of length
            1 and shorter texts are computed with them.
    """

    method: Method
    loader: TaskLoader
    progress: Progress = field(default_factory=Progress)
    scores_by_choice: dict[tuple[EncodingChoice, str], Mapping[str, Any]] = field(
        default_factory=dict
    )
    tokens_by_task: dict[str, Mapping[str, int]] = field(default_factory=dict)
    last_encoder: CachedEncoder | None = None
    last_vectors: TaskVectors | None = None

    # The model without a choice

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
        """The length that it cuts texts to by itself, in tokens."""
        config = self.method.encoder
        return self.places.identify(config, self.places.encoder(config)).max_length

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
        names.append(TASK_KIND)
        for name in names:
            if name in modules.prompts:
                return modules.prompts[name]
        return None

    def _default_prompt(self) -> str:
        """The prompt that the model's modules put before each sentence; empty without one."""
        config, modules = self.method.encoder, self.modules
        if modules is None or not isinstance(config, NativeConfig):
            return ""
        return modules.prompt(config.prompt)

    def _chosen_prompt(self, choice: EncodingChoice, task: Task) -> str | None:
        """The prompt of a choice, else the one that mteb uses; None for the modules' default."""
        if choice.prompt is not None:
            return choice.prompt
        return self.own_prompt(task)

    def _prompt(self, choice: EncodingChoice, task: Task) -> str:
        """The text before each sentence of a task under a choice; empty without one."""
        prompt = self._chosen_prompt(choice, task)
        return self._default_prompt() if prompt is None else prompt

    # Scores under a choice

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
        """Encode a task's sentences under a choice, and measure them."""
        pairs = self.loader.texts(task).pairs
        if choice.lower_case:
            pairs = _lower_cased(pairs)
        texts = sorted(set(pairs.sentences))
        pooled = self._vectors(choice, task, texts)
        maps: list[Transform] = []
        if choice.unit_length:
            maps.append(UnitLength())
        if choice.dimensions is not None:
            maps.append(FirstDimensions(choice.dimensions))
        return measure(task, pairs, pooled, maps, perf_counter).scores

    def _vectors(
        self, choice: EncodingChoice, task: Task, texts: Sequence[str]
    ) -> PooledEmbeddings:
        """The vectors of texts under a choice, before maps are applied to them.

        Under another length, only the texts are encoded that it cuts at another place.
        """
        all_recut_texts = self.recut_texts(choice, task)
        if all_recut_texts is None:
            return self._vectors_of_all(choice, task, texts)
        choice_of_own_length = replace(choice, max_length=None)
        vectors = self._vectors_of_all(choice_of_own_length, task, texts)
        recut_texts = [text for text in texts if text in all_recut_texts]
        if not recut_texts:
            return vectors
        recut_vectors = self._encoded(choice, task, recut_texts)
        recut_rows = recut_vectors.matrix[recut_vectors.rows(recut_texts)]
        matrix = vectors.matrix.copy()
        matrix[vectors.rows(recut_texts)] = recut_rows
        return PooledEmbeddings(vectors.row, matrix, perf_counter)

    def _vectors_of_all(
        self, choice: EncodingChoice, task: Task, texts: Sequence[str]
    ) -> PooledEmbeddings:
        """The vectors of all texts of a task, kept for the next choice.

        Dimensions and unit length are left out of the choice, since they are maps of
        these vectors.
        """
        choice = replace(choice, dimensions=None)
        if choice.unit_length:
            choice = replace(choice, unit_length=None)
        last_vectors = self.last_vectors
        if last_vectors is not None:
            is_same_task = last_vectors.task == task.name
            if is_same_task and last_vectors.choice == choice:
                return last_vectors.vectors
        vectors = self._encoded(choice, task, texts)
        self.last_vectors = TaskVectors(choice, task.name, vectors)
        return vectors

    def _encoded(
        self, choice: EncodingChoice, task: Task, texts: Sequence[str]
    ) -> PooledEmbeddings:
        """The vectors of texts under a choice, from the cache or encoded now."""
        reading = self._reading(choice, task)
        encoder = self._opened(reading.encoder)
        prefixed_texts = [reading.prefix + text for text in texts]
        missing = encoder.cache.missing(prefixed_texts)
        if missing:
            phase = ", ".join(choice.words) or "as it is"
            self.progress.phase(f"{phase}: encoding", len(missing))
            encoder.ensure(missing, self.progress)
        pooled = encoder.pooled(reading.pooling, prefixed_texts)
        row = {
            text: pooled.row[prefixed]
            for text, prefixed in zip(texts, prefixed_texts, strict=True)
        }
        return PooledEmbeddings(row, pooled.matrix, perf_counter)

    def _opened(self, config: EncoderConfig) -> CachedEncoder:
        """An encoder with its cache; the one that was used last is not opened again."""
        if self.last_encoder is None or self.last_encoder.config != config:
            self.last_encoder = CachedEncoder.open(config, self.places, perf_counter)
        return self.last_encoder

    # How texts are read under a choice

    def _reading(self, choice: EncodingChoice, task: Task) -> Reading:
        """How the texts of a task are read under a choice."""
        config = self.method.encoder
        inner = config.of if isinstance(config, NativeConfig) else None
        if isinstance(config, NativeConfig) and isinstance(inner, TransformerConfig):
            reading = self._reading_by_modules(choice, task, config, inner)
        else:
            pooling = self.method.pooling
            if choice.pooling:
                pooling = _pooling_named(choice.token_mode or choice.pooling)
            prompt = self._chosen_prompt(choice, task)
            reading = Reading(encoder=config, pooling=pooling, prefix=prompt or "")
        encoder = reading.encoder
        if choice.max_length is not None:
            encoder = encoder.with_max_length(choice.max_length)
        if choice.dtype != FLOAT32:
            encoder = encoder.on(Hardware("cpu", choice.dtype))
        return replace(reading, encoder=encoder)

    def _reading_by_modules(
        self,
        choice: EncodingChoice,
        task: Task,
        config: NativeConfig,
        transformer: TransformerConfig,
    ) -> Reading:
        """How a transformer in a folder with modules reads the texts of a task.

        A pooling of hidden states leaves the modules out, and so do vectors that are not
        normalised: there the pooling is used that equals the modules without their last.
        """
        hidden_pooling = "" if choice.token_mode else choice.pooling
        if choice.unit_length is False and self.modules is not None:
            hidden_pooling = self.modules.equal_pooling
        if hidden_pooling:
            return Reading(
                encoder=transformer,
                pooling=_pooling_named(hidden_pooling),
                prefix=self._prompt(choice, task),
            )
        prompt = self._chosen_prompt(choice, task)
        if prompt is None:
            encoder = _native(transformer, config.prompt, choice.token_mode)
        else:
            prompted = _with_prompt(transformer, prompt)
            encoder = _native(prompted, TRIED_PROMPT, choice.token_mode)
        return Reading(encoder=encoder, pooling=self.method.pooling)

    # Choices that are worth trying

    def single_choices(self, task: Task) -> Iterator[EncodingChoice]:
        """Choices of one setting; the ones that encode the fewest texts come first."""
        config, modules = self.method.encoder, self.modules
        is_native = isinstance(config, NativeConfig)
        if is_native or not isinstance(config, TransformerConfig):
            yield EncodingChoice(unit_length=True)
        if modules is not None and modules.is_normalised and modules.equal_pooling:
            yield EncodingChoice(unit_length=False)
        for dimensions in DIMENSIONS:
            yield EncodingChoice(dimensions=dimensions)
        # All poolings after the first are read from the encoding that it made.
        for pooling in POOLINGS:
            if pooling.name != self.method.pooling.name:
                yield EncodingChoice(pooling=pooling.name)
        for prompt in self.prompts(task):
            yield EncodingChoice(prompt=prompt)
        for length in self.lengths(task):
            yield EncodingChoice(max_length=length)
        for prompt in E5_PROMPTS:
            yield EncodingChoice(prompt=prompt)
        if is_native:
            own_modes = modules.modes if modules is not None else ()
            for mode in POOLING_MODES:
                if (mode,) != own_modes:
                    yield EncodingChoice(pooling=f"{MODULES_PREFIX}{mode}")
        for dtype in HALVES:
            yield EncodingChoice(dtype=dtype)

    def rare_choices(self, task: Task) -> Iterator[EncodingChoice]:
        """Choices that few authors make: prompts of other models, any length, lower case."""
        for prompt in KNOWN_PROMPTS:
            yield EncodingChoice(prompt=prompt)
        for length in self.rare_lengths(task):
            yield EncodingChoice(max_length=length)
        yield EncodingChoice(lower_case=True)

    def choices_of_two(self, task: Task) -> Iterator[EncodingChoice]:
        """Choices of two settings: a prompt with a pooling or length, a length with a pooling."""
        prompts = [
            EncodingChoice(prompt=prompt)
            for prompt in (*self.prompts(task), *E5_PROMPTS)
        ]
        lengths = [EncodingChoice(max_length=length) for length in self.lengths(task)]
        poolings = [EncodingChoice(pooling=pooling.name) for pooling in POOLINGS]
        combinations = ((prompts, poolings), (prompts, lengths), (lengths, poolings))
        for first_choices, second_choices in combinations:
            for first, second in product(first_choices, second_choices):
                yield first | second

    def prompts(self, task: Task) -> list[str]:
        """No prompt and the model's prompts, but for the one that it uses on the task anyway."""
        prompts = [""]
        if self.modules is not None:
            prompts += self.modules.prompts.values()
        used_prompt = self._prompt(OWN_CHOICE, task)
        return [prompt for prompt in dict.fromkeys(prompts) if prompt != used_prompt]

    def lengths(self, task: Task) -> list[int]:
        """Usual lengths that cut the task's texts elsewhere than the model's own length does."""
        return [length for length in LENGTHS if self._cuts_elsewhere(length, task)]

    def rare_lengths(self, task: Task) -> list[int]:
        """All other lengths that cut the texts elsewhere, the longest first.

        They cut the fewest texts, so that the least is encoded for them.
        """
        longest = max(self.tokens(task).values(), default=0)
        return [
            length
            for length in range(longest, SHORTEST_CUT - 1, -1)
            if length not in LENGTHS and self._cuts_elsewhere(length, task)
        ]

    def _cuts_elsewhere(self, length: int, task: Task) -> bool:
        """Whether a length cuts some text of a task at another place than the model's own."""
        own_length, tokens = self.max_length, self.tokens(task)
        if own_length is None or not tokens:
            return False
        longest = max(tokens.values())
        return min(length, longest) != min(own_length, longest)

    # The cost of a choice

    def recut_texts(self, choice: EncodingChoice, task: Task) -> set[str] | None:
        """The texts that a choice cuts elsewhere than the model's own length does.

        None for a choice without a length, and if they are not known. Then all texts are
        encoded.
        """
        own_length, tokens = self.max_length, self.tokens(task)
        if choice.max_length is None or own_length is None:
            return None
        if choice.lower_case or not tokens:
            return None
        # A prompt has no more tokens than bytes, since each token has a byte at least.
        most_prompt_tokens = len(self._prompt(choice, task).encode())
        shorter_length = min(own_length, choice.max_length)
        longest_uncut = shorter_length - most_prompt_tokens
        return {text for text, count in tokens.items() if count > longest_uncut}

    def tokens(self, task: Task) -> Mapping[str, int]:
        """The number of tokens of each text of a task, [CLS] and [SEP] included.

        Empty for a model that is no transformer.
        """
        if task.name not in self.tokens_by_task:
            config = self.method.encoder
            inner = config.of if isinstance(config, NativeConfig) else config
            counts: dict[str, int] = {}
            if isinstance(inner, TransformerConfig):
                tokenizer = self._tokenizer(inner)
                texts = sorted(set(self.loader.texts(task).pairs.sentences))
                for text, pieces in zip(texts, tokenizer(texts), strict=True):
                    counts[text] = len(pieces)
            self.tokens_by_task[task.name] = counts
        return self.tokens_by_task[task.name]

    def _tokenizer(self, config: TransformerConfig) -> Any:
        """The tokenizer, cut at the longest of LENGTHS if the model can be that long."""
        longest = config.with_max_length(max(LENGTHS))
        try:
            encoder = longest.load(self.places.encoder(longest), self.places.cache)
        except UsageError:  # the model cannot be that long
            encoder = config.load(self.places.encoder(config), self.places.cache)
        return encoder.tokenizer

    def characters(self, choice: EncodingChoice, task: Task) -> int:
        """The characters of the texts that are encoded for a choice."""
        texts = self.recut_texts(choice, task)
        if texts is None:
            texts = set(self.loader.texts(task).pairs.sentences)
        return sum(len(text) for text in texts)

    @property
    def characters_per_second(self) -> float | None:
        """How fast the model encoded earlier sentences; None if it has encoded none."""
        return self._opened(self.method.encoder).cache.rate


def _lower_cased(pairs: Pairs) -> Pairs:
    """The pairs with their texts in lower case."""
    a = tuple(text.lower() for text in pairs.a)
    b = tuple(text.lower() for text in pairs.b)
    return replace(pairs, a=a, b=b)


def _pooling_named(name: str) -> Pooling:
    """The pooling of a name. Raises UsageError for a name that no pooling has."""
    for pooling in (*POOLINGS, NATIVE):
        if pooling.name == name:
            return pooling
    raise UsageError(f"pooling {name}: this encoder has no such pooling")


def _native(encoder: TransformerConfig, prompt: str, token_mode: str) -> NativeConfig:
    """An encoder under the modules of its folder; `token_mode` replaces their pooling, if any."""
    if token_mode:
        return RepooledConfig(encoder, prompt, mode=token_mode)
    return NativeConfig(encoder, prompt)


def _with_prompt(config: TransformerConfig, text: str) -> PromptedConfig:
    """The encoder with one more prompt, which is called TRIED_PROMPT."""
    prompts: list[tuple[str, str]] = []
    if isinstance(config, PromptedConfig):
        prompts += config.prompts
    prompts = [(name, own_text) for name, own_text in prompts if name != TRIED_PROMPT]
    prompts.append((TRIED_PROMPT, text))
    settings: dict[str, Any] = {
        setting.name: getattr(config, setting.name)
        for setting in fields(TransformerConfig)
        if setting.init
    }
    return PromptedConfig(**settings, prompts=tuple(prompts))
