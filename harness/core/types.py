"""The nouns of the harness, and nothing that does anything with them.

Axis letters, used in every signature: N sentences, P pairs, L kept layers, D dimensions of an
encoder, K dimensions after post-processing, n and m rows of any matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np

from harness.core.arrays import Float, Float32, Float64
from harness.core.errors import DataError, UsageError
from harness.core.ids import MethodId

# Seconds from any fixed moment, as `time.perf_counter` gives them.
Clock = Callable[[], float]


@runtime_checkable
class Progress(Protocol):
    """Where long work reports how far it is: a phase with a number of steps, then the steps.

    `harness.core.progress.Bar` shows it to people.
    """

    def phase(self, what: str, steps: int | None) -> None:
        """Begin a phase of so many steps; None where their number is unknown."""

    def step(self, steps: int) -> None:
        """Count further steps as done."""

    def note(self, text: str) -> None:
        """Put a short text beside the phase, such as the current loss."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two columns of text, one of gold, and the group (STS subset) of each pair.

    Sentences stand exactly as their file has them, line end removed. `gold` is the graded
    similarity on the task's own scale, or 1/0 where the task is a binary decision.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    gold: Float64[np.ndarray, " P"]
    group: tuple[str, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.a), len(self.b), len(self.gold), len(self.group)}
        if len(lengths) != 1:
            raise DataError(f"columns of unequal length: {sorted(lengths)}")
        if not np.isfinite(self.gold).all():
            raise DataError("a gold score is not a finite number")

    def __len__(self) -> int:
        return len(self.a)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Both columns, first a then b, with repetitions: what the papers fit on."""
        return self.a + self.b

    def concatenate(self, *others: Pairs) -> Pairs:
        """These pairs, then the others', in order."""
        every = (self, *others)
        return Pairs(
            a=sum((p.a for p in every), ()),
            b=sum((p.b for p in every), ()),
            gold=np.concatenate([p.gold for p in every]),
            group=sum((p.group for p in every), ()),
        )


@dataclass(frozen=True, eq=False)
class Encoding:
    """What one encoder pass keeps of N sentences.

    `layers` names the kept hidden states, ascending: 0 is the embedding layer's output, `depth`
    the last layer. `mean` holds their masked token means ([CLS] and [SEP] included); a mean over
    layers commutes with it, so these serve every pooling. `cls` is the last layer's summary token
    and `pooler` the checkpoint's own trained head over it; None where there is none.
    """

    layers: tuple[int, ...]
    depth: int
    mean: Float32[np.ndarray, "N L D"]
    cls: Float32[np.ndarray, "N D"] | None = None
    pooler: Float32[np.ndarray, "N D"] | None = None

    def __len__(self) -> int:
        return int(self.mean.shape[0])


@dataclass(frozen=True)
class Identity:
    """What makes two encoders one: `key` is what caches use, the rest says what went into it."""

    key: str
    digests: Mapping[str, str]
    max_length: int | None = None


@runtime_checkable
class Encoder(Protocol):
    """A loaded encoder: N texts in, Encoding out, in order. Rows do not depend on their neighbours.

    `key` is a hex digest of everything that changes the output: weights, tokenizer, length, case.
    `facts` are kernel, device and precision of its passes, for records; empty where none varies.
    """

    @property
    def key(self) -> str: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...

    def encode(self, texts: Sequence[str]) -> Encoding: ...


@runtime_checkable
class EncoderConfig(Protocol):
    """A frozen, cheap description of an encoder; loading it is what costs.

    `identify` digests the files at a path and imports no torch; `load` reads them, and may convert
    a legacy checkpoint once into the cache folder.

    `name` is its id in the grammar (`minilm`, `bert-base:64`), `trained_on` what its weights have
    seen (contamination must be visible), `licence` and `cite` what its weights ask for.
    """

    @property
    def name(self) -> str: ...
    @property
    def trained_on(self) -> str: ...
    @property
    def cite(self) -> str: ...
    @property
    def licence(self) -> str: ...

    def identify(self, path: Path) -> Identity: ...

    def load(self, path: Path, cache: Path) -> Encoder: ...


@runtime_checkable
class Family(Protocol):
    """An EncoderConfig of which every seed is another training, and so another encoder."""

    def member(self, seed: int) -> EncoderConfig: ...


def member(encoder: EncoderConfig, seed: int) -> EncoderConfig:
    """The encoder that a seed means: one of a family, else the only one there is."""
    # isinstance of a protocol looks at every part of it, and plans ask a thousand times.
    return cast(Family, encoder).member(seed) if hasattr(encoder, "member") else encoder


@runtime_checkable
class Pooling(Protocol):
    """Encoding -> one vector a sentence. A frozen dataclass; raises UsageError if it cannot.

    `hidden_states` are the layers that it averages in an encoder of this depth, ascending; none
    where it reads the summary token.
    """

    @property
    def name(self) -> str: ...

    def hidden_states(self, depth: int) -> tuple[int, ...]: ...

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]: ...


@runtime_checkable
class Transform(Protocol):
    """A fitted post-processor: a pure function of rows."""

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]: ...


@runtime_checkable
class PostProcessor(Protocol):
    """Frozen configuration; `fit` returns a new Transform and changes nothing.

    `from_moments`: a mean and a covariance are all it needs. Then `fit` also accepts
    `harness.transforms.affine.Moments`, and a corpus of any size streams.
    `deterministic`: the generator is never drawn from.
    `share`: below 1 where a fit ends before it has seen a whole corpus. Then a random sample of
    that size is encoded, and `fit` is told by the keyword `share` how much it is given.
    `dropout`: fitted on encodings with dropout, one an occurrence of a sentence, drawn by seed.
    """

    @property
    def name(self) -> str: ...
    @property
    def from_moments(self) -> bool: ...
    @property
    def deterministic(self) -> bool: ...
    @property
    def share(self) -> float: ...
    @property
    def dropout(self) -> bool: ...

    def fit(self, x: Any, rng: np.random.Generator) -> Transform: ...


@dataclass(frozen=True)
class Method:
    """An encoder, a pooling, and post-processors fitted in the written order on one corpus.

    `repr` is its identity. `cite` is the BibTeX key of its paper, `note` says where it differs from
    it; `tasks` (globs) where it is meaningful, for vectors of a restricted vocabulary.
    """

    encoder: EncoderConfig
    pooling: Pooling
    post: tuple[PostProcessor, ...] = ()
    fit_on: str | None = None
    cite: str = field(default="", repr=False)
    note: str = field(default="", repr=False)
    tasks: tuple[str, ...] = field(default=("*",), repr=False)

    def __post_init__(self) -> None:
        if bool(self.post) != bool(self.fit_on):
            raise UsageError(
                f"{self.id}: a post-processor needs a corpus to be fitted on (…@target), "
                "and a method without one takes none"
            )

    @property
    def id(self) -> str:
        """Its id in the grammar of `harness.core.ids`."""
        post = tuple(post.name for post in self.post)
        return str(MethodId(self.encoder.name, self.pooling.name, post, self.fit_on))

    @property
    def transductive(self) -> bool:
        """Fitted on the sentences that are scored (no labels seen)."""
        return self.fit_on == "target"

    @property
    def seeded(self) -> bool:
        """Whether another seed can give another score."""
        return isinstance(self.encoder, Family) or not all(p.deterministic for p in self.post)


@dataclass(frozen=True)
class Task:
    """One shape for every task: pairs, one metric, one scored selection of splits.

    `load(data_dir, split)` reads and checks one split. `scored` names the split or splits that are
    scored together; `splits` all that `@target` fits on, `train` the one for `@target-train`.
    `graded` is the gold scale (low, high) of a similarity task; `asset` what holds its files.
    `geometry`: alignment and uniformity are measured too, which SimCSE does on STS-B.
    """

    name: str
    load: Callable[[Path, str], Pairs]
    splits: tuple[str, ...]
    scored: tuple[str, ...]
    metric: str
    asset: str
    text: Literal["raw", "senteval"]
    train: str | None = None
    graded: tuple[float, float] | None = None
    geometry: bool = False
    cite: str = field(default="", repr=False)
    licence: str = field(default="", repr=False)
    note: str = field(default="", repr=False)

    def pairs(self, data_dir: Path) -> Pairs:
        """The scored pairs, checked. Raises AssetMissing or DataError."""
        return Pairs.concatenate(*(self.load(data_dir, split) for split in self.scored))


@dataclass(frozen=True)
class Corpus:
    """Sentences that are only fitted on. `published` marks a corpus that the papers name."""

    name: str
    sentences: Callable[[Path], Iterable[str]]
    asset: str
    published: bool = False
    licence: str = ""
    note: str = ""


@dataclass(frozen=True)
class Record:
    """One measured cell, as it is stored: everything needed to trust the number, or to doubt it.

    `scores` are in points (x100) except alignment and uniformity; None is `undefined` (a constant
    column has no rank correlation). `digests` covers data, fit sentences, weights, configuration
    and code; `environment` is what provenance saw; `facts` are ranks, zero vectors, cost.
    """

    schema: int
    method: str
    repr: str
    task: str
    seed: int
    scores: Mapping[str, Any]
    pairs: int
    timings: Mapping[str, float]
    digests: Mapping[str, str]
    environment: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
