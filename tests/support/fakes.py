"""An encoder, tasks, a corpus and post-processors that live in memory, and what a run asks for.

The encoder's vectors are drawn from a digest of the text, so they are the same
everywhere and never mean anything; `log` is the list of every sentence that went
through it, the probe apart.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.conclusions.folder import Conclusions
from harness.core.errors import DataError, UsageError
from harness.core.hardware import Hardware, in_precision
from harness.core.interfaces import Encoding, Identity, LocalFiles, Source
from harness.core.pairs import Pairs
from harness.core.types import Corpus, Method, Progress, Record, Task
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.embeddings import NEIGHBOURS as PROBED
from harness.evaluation.embeddings import PooledEmbeddings
from harness.evaluation.processes import Jobs
from harness.evaluation.run import Outcome, RunContext, execute
from harness.evaluation.select import PlannedCell
from harness.registry import Registry
from harness.results.index import Results
from harness.results.published import Table
from harness.results.records import SCHEMA, Cell
from harness.results.reproduction import stale_cells
from harness.results.store import Store
from harness.transforms.affine import Affine, Moments
from harness.transforms.pooling import POOLINGS

DEPTH, DIMENSIONS, PAIRS = 3, 4, 30
# The fake data lie where QNLI's would: one file in the data folder says that they are
# there.
HERE, PROBE = "qnli", "glue/QNLI/dev.tsv"
AWAY = "sts-raw"


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@dataclass(frozen=True)
class FakeEncoder:
    """A few layers of numbers drawn from each text; the last letter of the salt is its weights."""

    key: str
    layers: ClassVar[tuple[int, ...]] = tuple(range(DEPTH + 1))
    has_pooler: bool = True
    has_layer_cls: bool = True
    log: list[str] = field(default_factory=list, compare=False)
    facts: Mapping[str, object] = field(default_factory=dict, compare=False)

    def encode(self, texts: Sequence[str]) -> Encoding:
        self.log.extend(text for text in texts if text not in PROBED)
        made = [self.rows_of(text) for text in texts]
        rows = np.array(made, np.float32).reshape(len(texts), DEPTH + 3, DIMENSIONS)
        return Encoding(
            self.layers,
            DEPTH,
            rows[:, list(self.layers)],
            # The row of [CLS], and what of it differs from layer to layer.
            layer_cls=rows[:, -2, None] + np.float32([[3], [2], [1], [0]])
            if self.has_layer_cls
            else None,
            cls=rows[:, -2],
            pooler=rows[:, -1] if self.has_pooler else None,
        )

    def rows_of(self, text: str) -> np.ndarray:
        seed = int(digest(self.key, text), 16)
        return np.random.default_rng(seed).normal(size=(DEPTH + 3, DIMENSIONS))


@dataclass(frozen=True)
class FakeConfig:
    """The description of a fake encoder; `weights` stands for the bytes of its files."""

    name: str = "fake"
    weights: str = "one"
    has_pooler: bool = True
    has_layer_cls: bool = True
    facts: tuple[tuple[str, object], ...] = field(default=(), compare=False, repr=False)
    trained_on: ClassVar[str] = "nothing"
    cite: ClassVar[str] = ""
    licence: ClassVar[str] = "none"
    source: ClassVar[Source] = LocalFiles()
    log: list[str] = field(default_factory=list, compare=False, repr=False)

    def member(self, seed: int) -> "FakeConfig":
        return self

    def with_max_length(self, max_length: int) -> "FakeConfig":
        raise UsageError(
            f"{self.name}:{max_length}: this encoder has no maximum length to set"
        )

    def on(self, hardware: Hardware) -> "FakeConfig":
        return replace(self, name=in_precision(self.name, hardware.dtype))

    def identify(self, path: Path) -> Identity:
        weights = digest(self.weights, self.has_pooler)
        return Identity(digest("key", weights), {"weights": weights}, max_length=8)

    def load(self, path: Path, cache: Path) -> FakeEncoder:
        key = self.identify(path).key
        facts = dict(self.facts)
        return FakeEncoder(
            key, self.has_pooler, self.has_layer_cls, log=self.log, facts=facts
        )


@dataclass(frozen=True)
class BrokenConfig(FakeConfig):
    """An encoder that is here and cannot be loaded."""

    name: str = "broken"

    def load(self, path: Path, cache: Path) -> FakeEncoder:
        raise DataError(f"{self.name}: wanted weights, found none; fetch them again")


@dataclass(frozen=True)
class Sentences:
    """Loads one split of 30 pairs; neighbouring ranges share sentences.

    `labels` makes another gold for the splits that are not scored.
    """

    start: int = 0
    broken: bool = False
    labels: int = 0

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        if self.broken:
            raise DataError(
                f"{data_dir / split}: wanted pairs, found none; get it again"
            )
        first = self.start + {"train": 40, "dev": 20, "test": 0}[split]
        a, b = numbered(first, PAIRS), numbered(first + PAIRS // 2, PAIRS)
        seed = first + (self.labels if split != "test" else 0)
        gold = np.random.default_rng(seed).integers(0, 6, PAIRS).astype(np.float64)
        group = ("left",) * (PAIRS // 3) + ("right",) * (PAIRS - PAIRS // 3)
        return Pairs(a, b, gold, group)


def numbered(first: int, size: int) -> tuple[str, ...]:
    return tuple(
        f"sentence number {i}{'!' * (i % 5)}" for i in range(first, first + size)
    )


def task(name: str = "toy", start: int = 0, **change: object) -> Task:
    given = {
        "load": Sentences(start),
        "splits": ("train", "dev", "test"),
        "scored": ("test",),
        "metric": "correlation",
        "asset": HERE,
        "text": "raw",
        "train": "train",
        "geometry": change.get("metric", "correlation") == "correlation",
    }
    return Task(name, **{**given, **change})


# One bears a name that the tables of reports know.
TOY, OTHER = task(), task("sts-b", start=10)
NO_TRAIN = task("no-train", splits=("test",), train=None)
NOT_HERE, BROKEN = task("away", asset=AWAY), task("broken", load=Sentences(broken=True))


def corpus(name: str, sentences: Sequence[str], asset: str = HERE) -> Corpus:
    return Corpus(name, lambda _: iter(sentences), asset)


@dataclass(frozen=True)
class Centre:
    """Takes the mean away; fitted from moments."""

    name: ClassVar[str] = "centre"
    from_moments: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    share: ClassVar[float] = 1.0
    dropout: ClassVar[bool] = False

    def fit(self, x: object, rng: np.random.Generator) -> Affine:
        mean = Moments.of(x).mean
        return Affine(mean, np.eye(len(mean)), rank=len(mean))


@dataclass(frozen=True)
class Stretch(Centre):
    """Scales each coordinate by its spread on the rows, and by chance."""

    name: ClassVar[str] = "stretch"
    from_moments: ClassVar[bool] = False
    deterministic: ClassVar[bool] = False

    def fit(self, x: np.ndarray, rng: np.random.Generator) -> Affine:
        spread = x.astype(np.float64).std(axis=0)
        return Affine(
            np.zeros(len(spread)), np.diag(spread * rng.uniform(size=len(spread))), 4
        )


POOLING = {pooling.name: pooling for pooling in POOLINGS}
POSTS = {"centre": Centre, "stretch": Stretch}


def method(
    pooling: str = "mean",
    *post: str,
    on: str | None = None,
    encoder: FakeConfig | None = None,
) -> Method:
    posts = tuple(POSTS[name]() for name in post)
    return Method(encoder or FakeConfig(), POOLING[pooling], posts, on)


def registry(encoder: FakeConfig, *corpora: Corpus) -> Registry:
    methods = [method(pooling, encoder=encoder) for pooling in ("mean", "cls")]
    methods += [method("mean", post, on="target", encoder=encoder) for post in POSTS]
    return Registry(
        encoders={encoder.name: encoder},
        poolings=dict(POOLING),
        posts=dict(POSTS),
        methods={m.id: m for m in methods},
        tasks={t.name: t for t in (TOY, OTHER, NO_TRAIN)},
        corpora={c.name: c for c in corpora},
    )


def made_record(
    method: str, task: str, scores: Mapping, seed: int = 0, **fields
) -> Record:
    """A record of 30 pairs that holds scores and these fields alone."""
    empty = {"timings": {}, "digests": {}, "environment": {}}
    given = {"method": method, "task": task, "scores": scores, "seed": seed}
    return Record(SCHEMA, **{"identity": "", "pairs": 30, **empty, **given, **fields})


def results_of(*records: Record, found: Registry | None = None) -> Results:
    """Records in memory, by their cells; with a registry it is known which of them are stale."""
    results = Results.of(records)
    if found is None:
        return results
    return replace(results, stale=stale_cells(results, found))


def results_folder(
    path: Path, found: Registry, records: Results, *tables: Table
) -> Conclusions:
    """A results folder with these records and published tables."""
    folder = Conclusions(path, found, path / "papers")
    folder.records, folder.tables = records, tables
    return folder


def library(folder: Path, *corpora: Corpus) -> TaskLoader:
    """Data folder, cache and encoders under one folder; the fake data are there, AWAY's are not."""
    probe = folder / "data" / PROBE
    if not probe.exists():
        probe.parent.mkdir(parents=True)
        probe.touch()
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    here = dict.fromkeys(("fake", "fine", "broken"), folder / "weights")
    places = Places(folder / "cache", folder / "data", here)
    return TaskLoader(places, {c.name: c for c in corpora})


def outcomes_of_run(
    folder: Path,
    planned: Sequence[PlannedCell],
    *corpora: Corpus,
    told: Progress | None = None,
    jobs: Jobs = 1,
    **options: object,
) -> dict[Cell, Outcome]:
    """The outcomes of a run under one folder, by cell; `options` are of its RunContext."""
    loader, store = library(folder, *corpora), Store(folder / "runs")
    context = RunContext(loader, store, told or Told(), **options)
    return {outcome.cell: outcome for outcome in execute(planned, context, jobs)}


class Vandal:
    """Unpickled, it touches a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


@dataclass
class Told(Progress):
    """What a run told of its progress."""

    phases: list[tuple[str, int | None]] = field(default_factory=list)
    steps: int = 0
    noted: str = ""

    def phase(self, what: str, steps: int | None) -> None:
        self.phases.append((what, steps))

    def step(self, steps: int) -> None:
        self.steps += steps

    def note(self, text: str) -> None:
        self.noted = text


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file under a folder: its bytes and when they were written."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def pooled_pairs(x: np.ndarray) -> tuple[PooledEmbeddings, Pairs]:
    """The rows as vectors of sentences, and pairs of the first two, the next two, and so on.

    Gold scores go from 0 to 5, and the pairs are in two groups.
    """
    texts = [f"sentence {row}" for row in range(len(x))]
    gold = np.random.default_rng(0).integers(0, 11, len(x) // 2) / 2
    group = tuple("near" if number % 3 else "far" for number in range(len(gold)))
    pairs = Pairs(tuple(texts[0::2]), tuple(texts[1::2]), gold, group)
    row_of_text = {text: row for row, text in enumerate(texts)}
    return PooledEmbeddings(row_of_text, x), pairs
