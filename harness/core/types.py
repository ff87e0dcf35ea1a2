"""The nouns of the harness: method ids, methods, tasks, corpora, records.

A method id such as `bert-base:64.mean+sn+natsv:6@target` names an encoder with its
maximum length, a pooling, post-processors with their arguments, and the fit corpus.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any, Literal, Self, get_args

from harness.core.digests import NOT_IN_IDENTITY, identity_text
from harness.core.errors import DataError, UsageError
from harness.core.interfaces import EncoderConfig, Pooling, PostProcessor, Trained
from harness.core.pairs import Pairs

METHOD_GRAMMAR = (
    "encoder[:max-length].pooling[:argument](+post[:argument])*(@fit-corpus)"
)
METHOD_ID = re.compile(
    r"(?P<encoder>[a-z0-9-]+(?::[0-9]+)?)\.(?P<pooling>[a-z0-9-]+(?::[A-Za-z0-9_.-]+)?)"
    r"(?P<post>(?:\+[a-z0-9-]+(?::[a-z0-9.-]+)?)*)(?:@(?P<fit_on>[a-z0-9-]+))?"
)

LONGEST_ID = 150  # characters; an id is also the name of a folder of records

# The fit corpora that hold the sentences that are scored.
TRANSDUCTIVE = ("target", "target-splits")


@dataclass(frozen=True)
class MethodId:
    """The parts of an id; `str` gives the id.

    Attributes:
        encoder: The encoder, with its maximum length if there is one.
        pooling: The pooling, with its argument if there is one.
        post: The post-processors, each with its argument if there is one.
        fit_on: The fit corpus; None without post-processors.
    """

    encoder: str
    pooling: str
    post: tuple[str, ...] = ()
    fit_on: str | None = None

    def __str__(self) -> str:
        corpus = f"@{self.fit_on}" if self.fit_on else ""
        return f"{self.encoder}.{'+'.join((self.pooling, *self.post))}{corpus}"

    @classmethod
    @cache  # each id is parsed for every score of it
    def parse(cls, text: str) -> MethodId | None:
        """The parts of an id; None for a text that does not have its form."""
        match = METHOD_ID.fullmatch(text)
        if match is None:
            return None
        post = match["post"].removeprefix("+")
        return cls(
            encoder=match["encoder"],
            pooling=match["pooling"],
            post=tuple(post.split("+")) if post else (),
            fit_on=match["fit_on"],
        )


def is_transductive(method: str) -> bool:
    """Whether an id names a method that is fitted on the sentences that are scored."""
    return method.partition("@")[2] in TRANSDUCTIVE


# How the subsets of a task become one score: all pairs together, the mean over subsets,
# the mean weighted by their numbers of pairs.
Aggregation = Literal["all", "mean", "wmean"]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)

# The keys that lead to a score. `("spearman", "all")` is Spearman's correlation over all
# pairs, `("spearman", "groups", "MSRpar")` the correlation in a subset, `("auc",)` a
# score without aggregations.
ScorePath = tuple[str, ...]

# Numbers, None for an undefined score, and further trees.
ScoreTree = Mapping[str, Any]


def score_at(scores: ScoreTree, path: ScorePath) -> float | None:
    """The score at a path; None where the path does not lead to a number."""
    value: Any = scores
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value if isinstance(value, int | float) else None


def score_paths(scores: ScoreTree, root: ScorePath = ()) -> Iterator[ScorePath]:
    """The path of every score, in the order of the tree; `root` is the path of the tree."""
    for key, value in scores.items():
        path = (*root, key)
        if isinstance(value, Mapping):
            yield from score_paths(value, path)
        else:
            yield path


# The sections of the leaderboard after the seven STS tasks of the papers.
Section = Literal["other", "transfer", "embedded"]


@dataclass(frozen=True)
class LeaderboardColumn:
    """A column of the leaderboard.

    Attributes:
        section: The section that it is in.
        heading: Its heading.
        score: The path of its score in a record; empty for the task's main score.
        legend: A sentence for the section. Names in braces, such as
            `{gold_edit_distance}`, are replaced by scores that need no model.
    """

    section: Section
    heading: str
    score: ScorePath = ()
    legend: str = ""

    @property
    def legend_scores(self) -> tuple[str, ...]:
        """The names in braces of the legend."""
        fields = Formatter().parse(self.legend)
        return tuple(name for _, name, _, _ in fields if name)


class Progress:
    """What long work reports its progress to. This class shows nothing.

    `harness.core.terminal.Bar` shows a bar and `Lines` prints lines. A bar ends
    with its context.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def phase(self, name: str, steps: int | None) -> None:
        """Begin a phase of so many steps; None where their number is unknown."""

    def step(self, steps: int) -> None:
        """Count further steps as done."""

    def note(self, text: str) -> None:
        """Put a short text after the phase, such as the current loss; an empty one ends it."""

    def of_worker(self) -> Progress:
        """What a process reports to that works for this one: nothing, or lines of its own."""
        return Progress()


@dataclass(frozen=True)
class Method:
    """An encoder, a pooling, and post-processors fitted in the written order on one corpus.

    Every record holds the `identity` of its method, the text of the settings.

    Attributes:
        encoder: The encoder's configuration.
        pooling: How an encoding becomes one vector a sentence.
        post: Post-processors, each fitted on the output of the one before it.
        fit_on: The corpus they are fitted on: `target`, `target-splits`, `target-train`
            or a corpus's name.
        cite: The BibTeX key of its paper, or several keys with commas between them.
        note: One sentence on how it differs from its paper.
        tasks: Patterns of the tasks where it is meaningful, since a file of word
            vectors may have the words of a single task.

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
        """The text of its settings, without those at their default."""
        return identity_text(self)

    @property
    def transductive(self) -> bool:
        """Whether it is fitted on the sentences that are scored, without their labels."""
        return self.fit_on in TRANSDUCTIVE

    @property
    def seeded(self) -> bool:
        """Whether another seed can give another score."""
        if isinstance(self.encoder.source, Trained):
            return True
        return not all(post.deterministic for post in self.post)


def grid(
    encoders: Iterable[EncoderConfig],
    poolings: Iterable[Pooling],
    posts: Iterable[tuple[PostProcessor, ...]] = ((),),
    fit_on: Iterable[str | None] = (None,),
    *,
    cite: str = "",
    tasks: tuple[str, ...] = ("*",),
) -> tuple[Method, ...]:
    """The methods of every encoder, pooling, fit corpus and chain of post-processors.

    Args:
        encoders: The encoders.
        poolings: The poolings of each encoder.
        posts: The chains of post-processors on each corpus.
        fit_on: The corpora that each chain is fitted on.
        cite: The BibTeX key of the methods' paper; by default each encoder's.
        tasks: Patterns of the tasks where the methods are meaningful.
    """
    methods: list[Method] = []
    for encoder, pooling, corpus, post in product(encoders, poolings, fit_on, posts):
        keys = cite or encoder.cite
        methods.append(Method(encoder, pooling, post, corpus, cite=keys, tasks=tasks))
    return tuple(methods)


@dataclass(frozen=True)
class Task:
    """Sentences with gold, the splits that are scored, and a metric.

    There are two shapes of task. Pairs of sentences are compared by the similarity of
    their vectors. Labelled sentences or pairs (`metric="classification"`) are told
    apart by a classifier, which learns from the splits that are not scored; where there
    are none, from folds of the scored one.

    Attributes:
        name: Its id: `sts-b`, `sick-r.dev`, `sts12.senteval`.
        load: Reads and checks one split, given the data folder and the split's name.
        splits: All splits; `@target` fits on their sentences.
        scored: The split or splits that are scored together.
        metric: The name of the metric.
        asset: The name of the asset that holds its files.
        text: Raw sentences, or SentEval's tokenised form.
        train: The split that `@target-train` fits on; None where there is none.
        graded: The scale of the gold scores (lowest, highest); None for classes.
        geometry: Whether alignment and uniformity are measured too, as SimCSE does on
            STS-B.
        on_request: Whether a run that names no tasks leaves it out, since its cells take
            minutes, are only drawn in a picture, or nearly repeat those of another task.
        cite: The BibTeX key of its paper, or several keys with commas between them.
        licence: The licence of its data.
        note: One sentence on its peculiarity.
        columns: The columns of the leaderboard that show it.
        aliases: Names of the same task, with the same protocol, in other programs
            such as mteb.

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
        splits = [self.checked(self.load(data_dir, s), s) for s in self.scored]
        return Pairs.concatenate(*splits)

    def checked(self, pairs: Pairs, split: str) -> Pairs:
        """Check the pairs of a split that `load` returned, and return them.

        Raises:
            DataError: There are none, or a gold score is outside `graded`.
        """
        place = f"{self.name}, split {split}"
        if not len(pairs):
            raise DataError(f"{place}: wanted one pair or more, found none")
        if self.graded is None:
            return pairs
        low, high = self.graded
        is_outside = (pairs.gold < low) | (pairs.gold > high)
        if is_outside.any():
            index = int(is_outside.argmax())
            raise DataError(
                f"{place}, pair {index + 1}: wanted a score from {low} to {high}, found "
                f"{pairs.gold[index]}; mend it, or the scale (`graded`)"
            )
        return pairs


@dataclass(frozen=True)
class Corpus:
    """Sentences that post-processors are fitted on.

    Attributes:
        name: The name after the `@` of an id.
        sentences: Streams them, given the data folder.
        asset: The name of the asset that holds its files.
        published: Whether it is the whole of a corpus that the papers name.
        licence: The licence of its data.
        note: One sentence on what it holds.
        count: The number of sentences, from which plans estimate the time of a pass;
            None where it is not known.

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
        schema: The version of this list of attributes.
        method: The method's id.
        identity: The method's identity: the text of its settings, without those at
            their default.
        task: The task's name.
        seed: The seed of the fits, or of the training of an encoder that is trained here.
        scores: In points (x100) except alignment and uniformity; None for a score that
            is undefined, such as the rank correlation of a constant column.
        pairs: The number of scored pairs.
        timings: Seconds, by the name of the step.
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
