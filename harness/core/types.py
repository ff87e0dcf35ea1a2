"""The nouns of the harness: method ids, pairs, methods, tasks, corpora, records.

A method id reads `bert-base:64.mean+sn+natsv:6@target`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Any, Literal, get_args

import numpy as np

from harness.core.arrays import Float64, read_only
from harness.core.errors import DataError, UsageError
from harness.core.identity import NOT_IN_IDENTITY, identity_text
from harness.core.interfaces import EncoderConfig, Pooling, PostProcessor, Trained
from harness.core.scores import ScorePath
from harness.core.texts import text_digest, why_no_text

METHOD_GRAMMAR = "encoder[:max-length].pooling[:prompt](+post[:argument])*(@fit-corpus)"
METHOD_ID = re.compile(
    r"(?P<encoder>[a-z0-9-]+(?::[0-9]+)?)\.(?P<pooling>[a-z0-9-]+(?::[A-Za-z0-9_-]+)?)"
    r"(?P<post>(?:\+[a-z-]+(?::[a-z0-9.-]+)?)*)(?:@(?P<fit_on>[a-z0-9-]+))?"
)

LONGEST_ID = 150  # characters of an id, which is a folder's name among the records

# The fit corpora that hold the very sentences that are scored.
TRANSDUCTIVE = ("target", "target-splits")


@dataclass(frozen=True)
class MethodId:
    """The parts of an id, as they are written in it; `str` puts them together again.

    `encoder` includes a maximum length, and each of `post` its argument.
    """

    encoder: str
    pooling: str
    post: tuple[str, ...] = ()
    fit_on: str | None = None

    def __str__(self) -> str:
        post = "".join(f"+{name}" for name in self.post)
        return f"{self.encoder}.{self.pooling}{post}" + (
            f"@{self.fit_on}" if self.fit_on else ""
        )

    @classmethod
    def parse(cls, text: str) -> MethodId | None:
        """Take an id apart; None for a text that does not have its form."""
        match = METHOD_ID.fullmatch(text)
        if match is None:
            return None
        post = tuple(match["post"].split("+")[1:])
        return cls(match["encoder"], match["pooling"], post, match["fit_on"])


def is_transductive(method: str) -> bool:
    """Whether an id names a method that is fitted on the very sentences that are scored."""
    return method.partition("@")[2] in TRANSDUCTIVE


def is_method_id(text: str) -> bool:
    """Whether a text has the form of an id, with post-processors and a corpus or with neither."""
    parts = MethodId.parse(text)
    return parts is not None and bool(parts.post) == bool(parts.fit_on)


# How the subsets of a task become one score: concatenated, averaged, averaged by their
# pairs.
Aggregation = Literal["all", "mean", "wmean"]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)

# The sections of the leaderboard after the seven STS tasks of the papers.
Section = Literal["other", "transfer", "embedded"]


@dataclass(frozen=True)
class LeaderboardColumn:
    """A column of the leaderboard: its section, its heading, and where a record holds its score.

    Without `score` it is the task's main score. `legend` is a sentence for the section;
    names in braces are scores of a record that need no model, such as
    `{gold_edit_distance}`.
    """

    section: Section
    heading: str
    score: ScorePath = ()
    legend: str = ""

    @property
    def legend_scores(self) -> tuple[str, ...]:
        """The scores that the legend names."""
        return tuple(name for _, name, _, _ in Formatter().parse(self.legend) if name)


# Seconds from any fixed moment, as `time.perf_counter` gives them.
Clock = Callable[[], float]


class Progress:
    """Where long work reports how far it is; this one shows nothing.

    `progress.Bar` shows a bar and `progress.Lines` prints lines.
    """

    def phase(self, what: str, steps: int | None) -> None:
        """Begin a phase of so many steps; None where their number is unknown."""

    def step(self, steps: int) -> None:
        """Count further steps as done."""

    def note(self, text: str) -> None:
        """Put a short text after the phase, such as the current loss."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """P pairs of sentences with their gold scores, or P labelled sentences: these have no `b`.

    All cells of a task share them: the columns are tuples, and gold is a read-only
    copy.

    Attributes:
        a: The first column, each sentence as its file has it without the line end.
        b: The second column; empty for labelled sentences.
        gold: Graded similarity on the task's own scale, or a class: 1 and 0 for a
            binary decision.
        group: The group of each pair: its subset in STS12 to STS16, else the task's
            name.

    Raises:
        DataError: The columns differ in length, a sentence is no text (None, or one
            half of a character), or a gold score is not a finite number. It names the
            pair, from 1.

    Examples:
        >>> import numpy as np
        >>> from harness import Pairs
        >>> pairs = Pairs(("A man eats.",), ("Someone is eating.",), np.array([4.2]), ("made up",))
        >>> pairs.concatenate(pairs).sentences[1:3]
        ('A man eats.', 'Someone is eating.')
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    gold: Float64[np.ndarray, " P"]
    group: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("a", "b", "group"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "gold", _gold_scores(self.gold))
        lengths = {*map(len, self.columns), len(self.gold), len(self.group)}
        if len(lengths) != 1:
            raise DataError(f"columns of unequal length: {sorted(lengths)}")
        for column, texts in (("first", self.a), ("second", self.b)):
            for pair, text in enumerate(texts, start=1):
                if (why := why_no_text(text)) is not None:
                    place = (
                        f"pair {pair}, {column} sentence"
                        if self.b
                        else f"sentence {pair}"
                    )
                    raise DataError(
                        f"{place}: wanted a text, {why}; mend it, or leave it out"
                    )

    def __len__(self) -> int:
        return len(self.a)

    @property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """The columns of text: a and b, or a alone."""
        return (self.a, self.b) if self.b else (self.a,)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All columns, first a then b, with repetitions, as the papers fit on them."""
        return self.a + self.b

    def concatenate(self, *others: Pairs) -> Pairs:
        """These pairs, then the others', in order."""
        parts = (self, *others)
        return Pairs(
            a=sum((p.a for p in parts), ()),
            b=sum((p.b for p in parts), ()),
            gold=np.concatenate([p.gold for p in parts]),
            group=sum((p.group for p in parts), ()),
        )


def pairs_digest(pairs: Pairs) -> str:
    """The digest of scored pairs: both sentences, gold and group of each."""
    return rows_digest(pairs, pairs.group)


def rows_digest(pairs: Pairs, *further: Iterable[str]) -> str:
    """The digest of rows "a TAB b TAB gold", gold as Python prints it; a label has no b."""
    columns = (*pairs.columns, map(repr, pairs.gold.tolist()), *further)
    return text_digest(map("\t".join, zip(*columns, strict=True)))


def _gold_scores(gold: Any) -> Float64[np.ndarray, " P"]:
    """A read-only copy of gold scores. Raises DataError unless they are finite numbers."""
    given = np.asarray(gold)
    if given.ndim != 1 or given.dtype.kind not in "fiubO":
        raise DataError(
            f"gold: wanted a number a pair, found an array of {given.dtype} of shape {given.shape}"
        )
    try:
        numbers = read_only(np.array(given, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise DataError(
            f"gold: wanted a number a pair, found others: {error}"
        ) from None
    if not (finite := np.isfinite(numbers)).all():
        pair = int(finite.argmin())
        raise DataError(
            f"pair {pair + 1}: wanted a finite number as gold, found {numbers[pair]}; mend it, or "
            "leave the pair out"
        )
    return numbers


@dataclass(frozen=True)
class Method:
    """An encoder, a pooling, and post-processors fitted in the written order on one corpus.

    Every record holds its `identity`, the text of its settings.

    Attributes:
        encoder: The encoder's description.
        pooling: How an encoding becomes one vector a sentence.
        post: Post-processors, each fitted on the output of those before it.
        fit_on: The corpus they are fitted on: `target`, `target-splits`, `target-train`
            or a corpus's name.
        cite: The BibTeX key of its paper; of several, with commas between.
        note: One sentence on how it differs from its paper.
        tasks: Globs of the tasks where it is meaningful; word vectors may cover but one
            task.

    Raises:
        UsageError: There are post-processors without a corpus, or a corpus without any.

    Examples:
        >>> from harness import Method, load_registry
        >>> registry = load_registry()
        >>> Method(registry.encoders["bert-mini"], registry.poolings["cls"]).id
        'bert-mini.cls'
    """

    encoder: EncoderConfig
    pooling: Pooling
    post: tuple[PostProcessor, ...] = ()
    fit_on: str | None = None
    cite: str = field(default="", repr=False, metadata=NOT_IN_IDENTITY)
    note: str = field(default="", repr=False, metadata=NOT_IN_IDENTITY)
    tasks: tuple[str, ...] = field(default=("*",), repr=False, metadata=NOT_IN_IDENTITY)

    def __post_init__(self) -> None:
        if bool(self.post) != bool(self.fit_on):
            raise UsageError(
                f"{self.id}: a post-processor needs a corpus to be fitted on (…@target), "
                "and a method without one takes none"
            )

    @property
    def id(self) -> str:
        """Its id in the grammar of `harness.core.types`."""
        post = tuple(post.name for post in self.post)
        return str(MethodId(self.encoder.name, self.pooling.name, post, self.fit_on))

    @cached_property
    def identity(self) -> str:
        """The text of its settings, of which those at their default are left out."""
        return identity_text(self)

    @property
    def transductive(self) -> bool:
        """Whether it is fitted on the very sentences that are scored (no labels seen)."""
        return self.fit_on in TRANSDUCTIVE

    @property
    def seeded(self) -> bool:
        """Whether another seed can give another score."""
        trained = isinstance(self.encoder.source, Trained)
        return trained or not all(post.deterministic for post in self.post)


@dataclass(frozen=True)
class Task:
    """Pairs with gold, or labelled sentences or pairs; one metric, one scored selection of splits.

    There are two shapes of task and no third. Pairs are compared by the cosine of their
    vectors; labelled ones (`metric="classification"`) are classified, which learns from
    the splits that are not scored, or from folds of the scored one where there is no
    other.

    Attributes:
        name: Its id: `sts-b`, `sick-r.dev`, `sts12.senteval`.
        load: Reads and checks one split, given the data folder and the split's name.
        splits: All splits; `@target` fits on their sentences.
        scored: The split or splits that are scored together.
        metric: What is computed from vectors and gold.
        asset: The name of the asset that holds its files.
        text: Raw sentences, or SentEval's tokenised form.
        train: The split that `@target-train` fits on; None where there is none.
        graded: The scale of the gold scores (lowest, highest); None for classes.
        geometry: Whether alignment and uniformity are measured too, as SimCSE does on
            STS-B.
        on_request: Whether a run that names no tasks leaves it out, since a cell takes
            minutes or serves a picture alone.
        cite: The BibTeX key of its paper; of several, with commas between.
        licence: The licence of its data.
        note: One sentence on what is peculiar about it.
        columns: The columns of the leaderboard that show it.
        aliases: Names that other programs give this very protocol, in their spelling:
            mteb's.

    Examples:
        >>> from pathlib import Path
        >>> from harness import Places, load_registry
        >>> task = load_registry().tasks["mini-sts"]
        >>> task.metric, task.scored, task.graded
        ('correlation', ('test',), (0.0, 5.0))
        >>> len(task.pairs(Places(Path("cache")).require_data(task.asset)))
        1500
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
    on_request: bool = False
    cite: str = field(default="", repr=False)
    licence: str = field(default="", repr=False)
    note: str = field(default="", repr=False)
    columns: tuple[LeaderboardColumn, ...] = field(default=(), repr=False)
    aliases: tuple[str, ...] = field(default=(), repr=False)

    def pairs(self, data_dir: Path) -> Pairs:
        """Read and check the pairs of all scored splits, in order.

        Args:
            data_dir: The folder that holds the task's asset, as `Places.require_data`
                finds it.

        Raises:
            AssetMissing: A file is not there.
            DataError: A file is not what it should be.
        """
        parts = (
            self.checked(self.load(data_dir, split), split) for split in self.scored
        )
        return Pairs.concatenate(*parts)

    def checked(self, pairs: Pairs, split: str) -> Pairs:
        """The pairs of a split, as `load` gave them.

        Raises:
            DataError: They are no `Pairs`, there are none, or a gold score is outside
                `graded`.
        """
        place = f"{self.name}, split {split}"
        if not isinstance(pairs, Pairs):
            raise DataError(f"{place}: wanted Pairs, found {type(pairs).__name__}")
        if not len(pairs):
            raise DataError(f"{place}: wanted one pair or more, found none")
        low, high = self.graded or (-np.inf, np.inf)
        outside = (pairs.gold < low) | (pairs.gold > high)
        if outside.any():
            pair = int(outside.argmax())
            raise DataError(
                f"{place}, pair {pair + 1}: wanted a score from {low} to {high}, found "
                f"{pairs.gold[pair]}; mend it, or the scale (`graded`)"
            )
        return pairs


@dataclass(frozen=True)
class Corpus:
    """Sentences that are only fitted on.

    Attributes:
        name: Its word after the `@` of an id.
        sentences: Streams them, given the data folder.
        asset: The name of the asset that holds its files.
        published: Whether it is a corpus that the papers name, and all of it.
        licence: The licence of its data.
        note: One sentence on what it holds.
        count: How many sentences it has, by which plans estimate a pass over it; None
            is not known.

    Examples:
        >>> from harness import load_registry
        >>> load_registry().corpora["mini-text"].published
        False
    """

    name: str
    sentences: Callable[[Path], Iterable[str]]
    asset: str
    published: bool = False
    licence: str = ""
    note: str = ""
    count: int | None = None


@dataclass(frozen=True)
class Record:
    """One measured cell, as it is stored: everything needed to trust the number, or to doubt it.

    Attributes:
        schema: The version of this list.
        method: The method's id.
        identity: The method's identity: the text of its settings, without those at
            their default.
        task: The task's name.
        seed: The seed of the fits; of a family, that of the training.
        scores: In points (x100) except alignment and uniformity; None is undefined, as
            the rank correlation of a constant column is.
        pairs: How many pairs were scored.
        timings: Seconds, by what took them.
        digests: Of data, fit sentences, weights, configuration and code.
        environment: Commit, versions, processor and threads.
        facts: Ranks, zero vectors, cost, how the sentences were encoded, and of word
            vectors the share of tokens that have one (`coverage`).
    """

    schema: int
    method: str
    identity: str
    task: str
    seed: int
    scores: Mapping[str, Any]
    pairs: int
    timings: Mapping[str, float]
    digests: Mapping[str, str]
    environment: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
