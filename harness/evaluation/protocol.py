"""How a number may have been measured: a model, and the settings that are not as it is stated.

A `Protocol` makes a cell, which is measured like any other: the method has an encoder and
a pooling of a name of their own for each setting that differs, and the task another form
of the data. `Model` is what is stated, and knows the prompts and modules of its folder. A
`Target` is a number, and reads its score off the record of the cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from harness.conclusions.cards import BEST_SIMILARITY
from harness.conclusions.found_protocols import Choice
from harness.core.errors import UsageError
from harness.core.hardware import FLOAT32, Hardware, in_precision, precision_of
from harness.core.interfaces import EncoderConfig, Pooling, PostProcessor
from harness.core.metrics.correlation import COSINE, SIMILARITIES, score_name
from harness.core.types import Method, Task, score_at
from harness.data.places import Places
from harness.data.tasks.loader import first_rows
from harness.encoders.modules import Modules
from harness.encoders.native import NativeConfig, PromptedConfig
from harness.encoders.transformer import ScriptConfig, TransformerConfig
from harness.registry import Registry, look_up
from harness.results.verdict import Published
from harness.transforms.pooling import (
    MEAN,
    POOLINGS,
    FirstDimensions,
    Native,
    UnitLength,
)

# Arguments of sentence-transformers' `encode`: those that are settings of a protocol, and
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

TASK_KIND = "STS"  # mteb's name for the prompt of all tasks of pairs

# The settings of a score, which need no other cell.
SCORE_SETTINGS = ("similarity", "correlation", "aggregation")


@dataclass(frozen=True)
class Prompt:
    """A text before each sentence, and the name of it in ids; both are empty for none."""

    name: str
    text: str


NO_PROMPT = Prompt("", "")


@dataclass(frozen=True)
class Target:
    """A number that a protocol has to give.

    Attributes:
        column: Its name in the answer.
        task: The task that it is stated for.
        similarity: The similarity function as it is stated, or `best` of all four.
        correlation: The correlation.
        aggregation: The aggregation.
        readings: The number in points, with its digits, as it may be meant.
        is_fixed: Whether it holds as it is stated, so that no other score is meant.
    """

    column: str
    task: Task
    similarity: str
    correlation: str
    aggregation: str
    readings: tuple[Published, ...]
    is_fixed: bool = False

    def score(self, scores: Mapping[str, Any], protocol: Protocol) -> float | None:
        """Its score under a protocol among the scores of a record; None without one."""
        names = {name: getattr(self, name) for name in SCORE_SETTINGS}
        if not self.is_fixed:
            for name in names:
                names[name] = getattr(protocol, name) or names[name]
        similarities: tuple[str, ...] = (names["similarity"],)
        if similarities == (BEST_SIMILARITY,):
            similarities = (COSINE, *SIMILARITIES)
        found = [
            score_at(
                scores, (score_name(each, names["correlation"]), names["aggregation"])
            )
            for each in similarities
        ]
        return max((score for score in found if score is not None), default=None)


# A model as it is stated


@dataclass(frozen=True)
class Model:
    """A method as it is stated, with the modules of its folder.

    Attributes:
        method: The method.
        modules: The modules; None for an encoder that is not under its own.
    """

    method: Method
    modules: Modules | None = field(default=None, compare=False)

    @classmethod
    def of(cls, method: Method, places: Places) -> Model:
        """The model of a method. Raises AssetMissing for one that is not here."""
        config = method.encoder.member(0)
        path = places.encoder(config)
        modules = config.modules(path) if isinstance(config, NativeConfig) else None
        return cls(method, modules)

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

    def prompt(self, task: Task) -> Prompt:
        """The prompt that the method's id names, or else the one that mteb uses for a task.

        A prompt for the task's name in mteb comes before a prompt for all tasks of its
        kind. If the model has neither, it is the one that its modules put there.
        """
        config = self.method.encoder
        if self.modules is None or not isinstance(config, NativeConfig):
            return NO_PROMPT
        if config.prompt:
            return Prompt(config.prompt, self.modules.prompt(config.prompt))
        data_set = task.name.partition(".")[0]
        name_in_mteb = {"sts-b": "STSBenchmark"}.get(data_set, data_set.upper())
        for name in (*task.aliases, name_in_mteb, TASK_KIND):
            if name in self.prompts:
                return Prompt(name, self.prompts[name])
        return Prompt("", self.modules.prompt(""))

    def known_prompt(self, text: str, name: str = "tried") -> Prompt:
        """The folder's prompt of this text; another under a name that the folder has not."""
        for own_name, own_text in self.prompts.items():
            if own_text == text:
                return Prompt(own_name, text)
        while name in self.prompts:
            name = f"tried-{name}"
        return Prompt(name, text)

    def stated(self, arguments: Mapping[str, Any]) -> Protocol:
        """The protocol of arguments of sentence-transformers' `encode`.

        Raises UsageError for an argument that is not measured here, and for a prompt that
        the model does not have.
        """
        settings: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in WITHOUT_EFFECT or value in (None, False, FLOAT32):
                continue
            if name not in SETTING_OF_ARGUMENT:
                raise UsageError(f"{name} = {value!r} of its run is not measured here")
            if name == "prompt_name":
                value = Prompt(value, look_up("prompt", value, self.prompts))
            elif name == "prompt":
                value = self.known_prompt(value)
            settings[SETTING_OF_ARGUMENT[name]] = value
        return Protocol(self, **settings)


# A protocol


@dataclass(frozen=True)
class Protocol:
    """How numbers may have been measured. A setting at its default is as it is stated.

    Attributes:
        model: The model.
        pooling: The pooling. One of hidden states leaves the model's modules out.
        prompt: The prompt.
        max_length: The length that texts are cut to, in tokens.
        dtype: The precision of weights and states.
        rebuilds_tokenizer: Whether the tokenizer is the one that transformers 5 makes of
            a folder.
        padded_to: The tokens to which texts are padded, where the mean is taken over the
            padding, too; 0 for means over the tokens of the text.
        unit_length: Whether vectors are divided by their length.
        dimensions: How many of the first coordinates are kept.
        post: The post-processors.
        fit_on: Their fit corpus; without post-processors it is not read.
        form: What follows the data set in the names of tasks: `senteval`, `dev`.
        first_pairs: How many of the first pairs are scored.
        similarity: The similarity function.
        correlation: The correlation.
        aggregation: The aggregation.
    """

    model: Model
    pooling: Pooling | None = None
    prompt: Prompt | None = None
    max_length: int | None = None
    dtype: str = FLOAT32
    rebuilds_tokenizer: bool = False
    padded_to: int = 0
    unit_length: bool | None = None
    dimensions: int | None = None
    post: tuple[PostProcessor, ...] | None = None
    fit_on: str | None = None
    form: str | None = None
    first_pairs: int | None = None
    similarity: str = ""
    correlation: str = ""
    aggregation: str = ""

    def changed(self, choices: Iterable[Choice]) -> Protocol:
        """The protocol with choices, each of another setting."""
        values: dict[str, Any] = {choice.setting: choice.value for choice in choices}
        return replace(self, **values)

    def task(self, stated: Task, registry: Registry) -> Task:
        """The task of a number that states another; its data set may not have the form."""
        task = stated
        if self.form is not None:
            task = forms_of(stated, registry).get(self.form, stated)
        return task if self.first_pairs is None else first_rows(task, self.first_pairs)

    def method(self, task: Task) -> Method:
        """The method on a task. Raises UsageError for what the model does not have."""
        stated = self.model.method
        prompt = self.prompt or self.model.prompt(task)
        pooling = self._pooling()
        if isinstance(pooling, Native) and self.model.modules is not None:
            pooling = Native(prompt.name)
        encoder = self._encoder(pooling, prompt)
        if self.dimensions is not None:
            pooling = FirstDimensions(pooling, self.dimensions)
        if self.unit_length:
            pooling = UnitLength(pooling)
        post = stated.post if self.post is None else self.post
        fit_on = (self.fit_on or stated.fit_on) if post else None
        return Method(encoder, pooling, post, fit_on)

    def _pooling(self) -> Pooling:
        """The pooling of tokens.

        Vectors that are not normalised have the pooling that equals the modules without
        their last.
        """
        pooling = self.pooling or self.model.method.pooling
        if self.unit_length is False and self.model.modules is not None:
            name = self.model.modules.equal_pooling
            poolings = {pooling.name: pooling for pooling in POOLINGS}
            pooling = poolings.get(name, pooling)
        return MEAN if self.padded_to and isinstance(pooling, Native) else pooling

    def _encoder(self, pooling: Pooling, prompt: Prompt) -> EncoderConfig:
        """The encoder of a pooling: under the modules of the model, or its transformer alone."""
        encoder, transformer = self.model.method.encoder, self.model.transformer
        if self.rebuilds_tokenizer:
            if transformer is None:
                raise UsageError(
                    f"{encoder.name}: no transformer, whose tokenizer is rebuilt"
                )
            name = _renamed(transformer.name, "rebuilt")
            transformer = replace(transformer, name=name, tokenizer="rebuilt")
        if isinstance(encoder, NativeConfig):
            if isinstance(pooling, Native):
                encoder = self._native(encoder, transformer, prompt)
            elif transformer is None:
                raise UsageError(
                    f"{encoder.name}: no transformer, whose states are pooled"
                )
            else:
                encoder = self._script(transformer, prompt)
        elif transformer is not None:
            encoder = self._script(transformer, prompt)
        if self.max_length is not None:
            encoder = encoder.with_max_length(self.max_length)
        if self.dtype != FLOAT32:
            encoder = encoder.on(Hardware("cpu", self.dtype))
        return encoder

    def _native(
        self,
        stated: NativeConfig,
        transformer: TransformerConfig | None,
        prompt: Prompt,
    ) -> NativeConfig:
        """The modules of the model after a prompt, which may not be one of its folder."""
        config = replace(stated, of=transformer or stated.of, prompt=prompt.name)
        own_prompts = {**self.model.prompts, "": self.model.modules.prompt("")}  # type: ignore[union-attr]
        if own_prompts.get(prompt.name) == prompt.text:
            return config
        if transformer is None:
            raise UsageError(f"{stated.name}: no transformer, which is given a prompt")
        prompts = ((prompt.name, prompt.text),)
        return replace(
            config, of=PromptedConfig(**_settings(transformer), prompts=prompts)
        )

    def _script(
        self, transformer: TransformerConfig, prompt: Prompt
    ) -> TransformerConfig:
        """The transformer without modules, after a prompt or over the padding."""
        if not prompt.text and not self.padded_to:
            return transformer
        settings, name = _settings(transformer), transformer.name
        if prompt.text:
            word = re.sub(r"[^a-z0-9]+", "-", (prompt.name or "default").lower())
            name = _renamed(name, f"after-{word.strip('-')}")
        if self.padded_to:
            name = _renamed(name, f"padded-{self.padded_to}")
        settings |= {"name": name, "prompt": prompt.text, "padded_to": self.padded_to}
        encoder = ScriptConfig(**settings)
        return encoder.with_max_length(self.padded_to) if self.padded_to else encoder


def _settings(transformer: TransformerConfig) -> dict[str, Any]:
    """The settings of a transformer that are not those of a subclass."""
    names = [setting.name for setting in fields(TransformerConfig)]
    return {name: getattr(transformer, name) for name in names}


def _renamed(name: str, word: str) -> str:
    """An encoder's name with a word before its precision and length: `minilm-rebuilt:64`."""
    name, dtype = precision_of(name)
    base, colon, length = name.partition(":")
    return in_precision(f"{base}-{word}{colon}{length}", dtype)


def forms_of(task: Task, registry: Registry) -> dict[str, Task]:
    """The other tasks on a task's data set, by what follows its name: `senteval`, `dev`.

    A test split together with the dev split (`test-dev`) is among them.
    """
    data_set = task.name.partition(".")[0]
    forms: dict[str, Task] = {}
    for name, other in registry.tasks.items():
        base, _, form = name.partition(".")
        if base != data_set or other.metric != task.metric:
            continue
        forms[form] = other
        if other.scored == ("test",) and "dev" in other.splits:
            both = f"{form}.test-dev" if form else "test-dev"
            scored = ("test", "dev")
            forms[both] = replace(other, name=f"{data_set}.{both}", scored=scored)
    return {form: other for form, other in forms.items() if other.name != task.name}
