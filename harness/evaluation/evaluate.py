"""The functions that a program calls: `evaluate` measures a model, others embed texts.

`encoder` opens a model by its name, and `fit_method` fits a method on texts; both return
an `Embedder`, a function from texts to vectors. All of them measure and fit as a run
does, and read only files of this machine.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float32
from harness.core.digests import text_digest, text_fault
from harness.core.environment import one_blas_thread
from harness.core.errors import AssetMissing, HarnessError, ScoreError, UsageError
from harness.core.interfaces import Encoder, Transform
from harness.core.types import Method, Progress, Record, Task
from harness.data.places import Places
from harness.data.tasks.loader import OWN_TEXTS, TaskLoader
from harness.encoders.config import Function, FunctionConfig
from harness.encoders.tensorflow_bert import readable_files
from harness.evaluation.embeddings import (
    PROBE_TEXT,
    SHARD,
    CachedEncoder,
    PooledEmbeddings,
    applied,
    asked_for,
    dropout_batch,
    encoded,
    pooled_rows,
)
from harness.evaluation.fits import fit, needs_dropout, vectors_of, with_dropout
from harness.evaluation.run import RunContext, execute, fit_cell, require_coverage
from harness.evaluation.select import MIN_COVERAGE, PlannedCell, planned_cells
from harness.registry import NAME_FORMS, load_registry
from harness.resolve import resolve
from harness.results.index import Results
from harness.results.layout import OWN, own_or_committed, papers_of, tables_naming
from harness.results.published_tables import load_tables
from harness.results.score_rows import score_rows, to_frame
from harness.results.store import Store
from harness.transforms.pooling import NATIVE, statistics_of

WARNED_COVERAGE = 0.5  # the share of tokens with a vector below which a call warns
# A cell has a task. For a cell that is only fitted, on a corpus, any task will do.
SMALL_TASK = "mini-sts"

Model = str | Path | Method | Function | Any  # the last is an object with `encode`


# Scores


def evaluate(
    model: Model | Sequence[str | Method],
    tasks: str | Task | Sequence[str | Task],
    *,
    name: str = "function",
    seeds: int = 1,
    output: Path | str | None = None,
    places: Places | None = None,
    every_score: bool = False,
    min_coverage: float = MIN_COVERAGE,
) -> Any:
    """Measure a model on tasks.

    Args:
        model: What `harness run -m` takes (the id of a method, an encoder's name, a hub
            repository or a folder), a `Method`, several of these; or a function from a
            list of N texts to N rows of numbers, or an object with such an `encode`, as
            a SentenceTransformer has.
        tasks: Names and globs of tasks and files of pairs, as `harness run -t` takes them, and
            `Task`s.
        name: The encoder's name in the ids, if it is a function; no registered one.
        seeds: How many seeds a method with randomness is measured with.
        output: A folder that keeps the records, as `harness run -o` does; by default
            none does.
        places: Where files are looked for; by default where the command line looks.
        every_score: One row for each score of a cell and not for its main score alone.
        min_coverage: The share of a task's tokens that word vectors must have a vector
            for; 0 allows any. The column `coverage` holds the share that they have.

    Returns:
        A data frame, one row per cell and seed, as
        [`read_results`][harness.read_results] makes it: the score or why it is
        undefined (`state`), the published number, the verdict, the seconds that it took.

    Raises:
        UsageError: A name is unknown, there is no model or no task, or pandas is not
            installed.
        AssetMissing: A model or data are not on this machine.
        ScoreError: The function does not give one finite row a text, or not the same
            one twice.
        HarnessError: A cell cannot be measured, or too few of its tokens have a vector.

    Examples:
        >>> import harness
        >>> frame = harness.evaluate("bert-mini", ["mini-sts", "mini-sick"])
        >>> frame[["method", "task", "metric"]].values.tolist()
        [['bert-mini.mean', 'mini-sts', 'spearman'], ['bert-mini.mean', 'mini-sick',
        'spearman']]
        >>> frame = harness.evaluate(lambda texts: [[len(t), 1] for t in texts], "mini-sts")
        >>> frame.method[0], bool(frame.score[0] < 30)
        ('function.native', True)
    """
    to_frame(())  # raises before anything is measured if pandas is not installed
    places = Places.from_environment(os.environ) if places is None else places
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        scratch = Path(folder)
        registry = resolve(places).registry
        chosen_tasks = _tasks(tasks, places)
        function: Any = getattr(model, "encode", model)
        methods: list[Method] = []
        if callable(function) and not isinstance(model, str):
            is_name = NAME_FORMS["encoder"].fullmatch(name) is not None
            if not is_name or name in registry.encoders:
                raise UsageError(
                    f"name={name!r}: wanted lower-case letters, digits and hyphens, and no "
                    "encoder's name; take another"
                )
            config = FunctionConfig(name, function)
            config.identify()  # raises the function's errors before anything is measured
            encoders = {**places.encoders, name: scratch}
            places = replace(places, cache=scratch / "cache", encoders=encoders)
            methods.append(Method(config, NATIVE))
        else:
            is_single = isinstance(model, str) or not isinstance(model, Iterable)
            models: Any = [model] if is_single else model
            for name_or_method in models:
                method, places = resolved(name_or_method, places)
                methods.append(method)
        if not methods or not chosen_tasks:
            raise UsageError(
                f"wanted models and tasks, found {len(methods)} models and "
                f"{len(chosen_tasks)} tasks; name one of each"
            )
        papers = papers_of(own_or_committed(OWN))
        paths = tables_naming(papers, {method.id for method in methods})
        tables = load_tables(papers, registry, paths)
        context = RunContext(
            loader=TaskLoader(places, registry.corpora),
            store=Store(scratch if output is None else Path(output)),
            min_coverage=min_coverage,
        )
        records: list[Record] = []
        for outcome in execute(planned_cells(methods, chosen_tasks, seeds), context):
            if outcome.status == "asset missing":
                raise AssetMissing(outcome.message)
            if outcome.record is None:
                raise HarnessError(outcome.message)
            records.append(outcome.record)
    return to_frame(score_rows(Results.of(records), tables, registry, every_score))


def _tasks(tasks: str | Task | Sequence[str | Task], places: Places) -> list[Task]:
    """The tasks that a caller means, each once; of two with the same name the first."""
    task_by_name: dict[str, Task] = {}
    for name_or_task in [tasks] if isinstance(tasks, str | Task) else tasks:
        if isinstance(name_or_task, Task):
            task_by_name.setdefault(name_or_task.name, name_or_task)
            continue
        known = resolve(places, tasks=[str(name_or_task)])
        for task in known.registry.select_tasks(known.tasks):
            task_by_name.setdefault(task.name, task)
    return list(task_by_name.values())


def resolved(model: str | Path | Method, places: Places) -> tuple[Method, Places]:
    """The method that a name, a folder or a `Method` means, and places with its files."""
    if isinstance(model, Method):
        return model, places
    if not isinstance(model, str | Path) or model == "":
        raise UsageError(
            "wanted the name, the folder or the Method of a model, found "
            f"{model!r:.60}; harness.evaluate takes a function, one at a time"
        )
    known = resolve(places, methods=[str(model)])
    method = known.method
    for note in (*known.assumptions, *known.bypass_notes([method])):
        warnings.warn(note, stacklevel=3)
    return method, known.places


# Vectors


def encoder(
    model: str | Path | Method,
    *,
    texts: Iterable[str] | None = None,
    seed: int = 0,
    places: Places | None = None,
    min_coverage: float = MIN_COVERAGE,
) -> Embedder:
    """Open a model as a function from texts to vectors.

    Args:
        model: What `harness run -m` takes: the id of a method, an encoder's name, a hub
            repository or a folder, which then mean the model's own modules; or a
            `Method`. Where the modules only pool and divide by the length, that is the
            pooling `mean` or `cls`, whose vectors keep their length; `.native` divides.
        texts: What post-processors are fitted on; by default the corpus that the id
            names, as a run fits on it, with the same cache. What is fitted on a task's
            sentences (`@target`) needs them.
        seed: Seeds the fits; of a family, it names the training.
        places: Where files are looked for; by default where the command line looks, as
            HARNESS_CACHE_DIR and HARNESS_DATA_DIR say. Nothing is downloaded.
        min_coverage: The share of the tokens of each call's texts that word vectors
            must have a vector for; 0 allows any. Below one half, there is a warning.

    Returns:
        The method, fitted: called with N texts, it gives a matrix of N rows. The id of
        one that was fitted on `texts` ends with `@own-texts`.

    Raises:
        UsageError: The name is unknown, or there are no texts to fit on.
        AssetMissing: The model or the corpus is not on this machine; the message says
            how to get it.
        DataError: Its files are not what they should be.

    Examples:
        >>> import harness
        >>> embed = harness.encoder("bert-mini")
        >>> embed(["A man is eating.", "Someone eats."]).shape
        (2, 256)
        >>> embed.method.id
        'bert-mini.mean'
    """
    places = Places.from_environment(os.environ) if places is None else places
    method, places = resolved(model, places)
    registry = load_registry()
    if texts is None and method.fit_on in registry.corpora:
        cell = PlannedCell(method, registry.tasks[SMALL_TASK], seed)
        cached = CachedEncoder.open(cell.encoder, places)
        loader = TaskLoader(places, registry.corpora)
        fitted = fit_cell(cell, loader, Progress(), cached)
        embedder = Embedder(method, cached.loaded, fitted.transforms, fitted.fitted_on)
    else:
        config = method.encoder.member(seed)
        loaded = config.load(readable_files(config, places), places.cache)
        embedder = fit_method(method, loaded, texts, seed)
    return replace(embedder, min_coverage=min_coverage)


@dataclass(frozen=True, eq=False)
class Embedder:
    """A fitted method, which maps texts to vectors when it is called.

    Attributes:
        method: The method.
        encoder: Its encoder, loaded.
        transforms: Its post-processors as they were fitted, in order.
        fitted_on: The sha256 of the sentences that they were fitted on; None where
            there are none.
        min_coverage: The share of the tokens of a call's texts that must have a vector.
    """

    method: Method
    encoder: Encoder
    transforms: tuple[Transform, ...] = ()
    fitted_on: str | None = None
    min_coverage: float = MIN_COVERAGE

    def __call__(self, texts: Iterable[str]) -> Float[np.ndarray, "N K"]:
        """Embed texts.

        Args:
            texts: N texts; each distinct one is encoded once.

        Returns:
            A matrix of N rows in the order of the texts: float64 after a
            post-processor, else as the encoder gives them.

        Raises:
            ScoreError: The vector of a text is not finite, or too few of the tokens
                have one.
            UsageError: It is a single string, or holds something other than strings.
        """
        texts = as_texts(texts)
        distinct_texts = list(dict.fromkeys(texts))
        vectors, coverage = _pooled(self.method, self.encoder, distinct_texts)
        require_coverage(self.method.id, coverage, self.min_coverage, "min_coverage=0")
        if coverage is not None and coverage < WARNED_COVERAGE:
            warnings.warn(
                f"{self.method.id}: {100 * coverage:.1f} % of the tokens have a vector",
                stacklevel=2,
            )
        for transform in self.transforms:
            vectors = applied(transform, vectors)
        is_finite = np.isfinite(vectors).all(axis=1)
        if not is_finite.all():
            text = distinct_texts[int(is_finite.argmin())]
            raise ScoreError(f"{self.method.id}: the vector of {text!r} is not finite")
        row = {text: number for number, text in enumerate(distinct_texts)}
        return vectors[[row[text] for text in texts]]


def fit_method(
    method: Method, encoder: Encoder, texts: Iterable[str] | None = None, seed: int = 0
) -> Embedder:
    """Fit a method's post-processors on texts, repetitions included.

    A cell of a run that is fitted on these texts with this seed gets the same maps, but for
    rounding. Only a method that takes a share of a corpus (`flow:paper-nli`) does not: in a
    run it draws other sentences.

    Args:
        method: The method.
        encoder: Its encoder, loaded.
        texts: The texts to fit on, instead of the corpus that the method's id names; a
            method without post-processors needs none.
        seed: Seeds the generator of every fit.

    Returns:
        The method as a function from texts to vectors. If it was fitted, its id ends
        with `@own-texts`, and `fitted_on` is the digest of the texts.

    Raises:
        UsageError: The method has post-processors and there are no texts to fit them
            on, or these contain something other than strings.
        ScoreError: The vectors of the texts span too few directions, or are not finite.

    Examples:
        >>> from pathlib import Path
        >>> from harness import Places, fit_method, load_registry
        >>> method = load_registry().parse("bert-mini.mean+natsv:1@target")
        >>> places = Places(cache=Path("cache"))
        >>> encoder = method.encoder.load(places.encoder(method.encoder), places.cache)
        >>> embed = fit_method(method, encoder, texts=["A man eats.", "A dog runs.", "It rains."])
        >>> embed(["A man runs.", "A man runs."]).shape
        (2, 256)
        >>> embed.method.id
        'bert-mini.mean+natsv:1@own-texts'
    """
    if not isinstance(method, Method):
        raise UsageError(
            f"wanted a Method, as load_registry().parse(id) gives it, found {method!r:.60}"
        )
    if not method.post:
        return Embedder(method, encoder)
    texts = as_texts(() if texts is None else texts)
    if not texts:
        raise UsageError(
            f"{method.id}: wanted texts to fit it on, found none; give some"
        )
    vectors: Any
    if needs_dropout(method):
        # Each occurrence of a text is encoded, since each is encoded with other dropout.
        batch_size = dropout_batch(encoder, encoded(encoder, [PROBE_TEXT]))
        vectors, _ = _pooled(method, with_dropout(encoder, seed), texts, batch_size)
    else:
        distinct_texts = list(dict.fromkeys(texts))
        row = {text: number for number, text in enumerate(distinct_texts)}
        pooled = PooledEmbeddings(row, _pooled(method, encoder, distinct_texts)[0])
        vectors, _ = vectors_of(method, pooled, tuple(texts))
    with one_blas_thread():
        transforms = fit(method.post, vectors, np.random.default_rng(seed))
    fitted_method = replace(method, fit_on=OWN_TEXTS)
    return Embedder(fitted_method, encoder, transforms, text_digest(texts))


def _pooled(
    method: Method, encoder: Encoder, texts: Sequence[str], batch_size: int = SHARD
) -> tuple[Float32[np.ndarray, "N D"], float | None]:
    """Encode texts, `batch_size` at a time, and pool them as a method does.

    Returns:
        One row a text, and the share of their tokens that have a vector; None if tokens
        are not counted, or if there are none.
    """
    batches = [
        texts[start : start + batch_size] for start in range(0, len(texts), batch_size)
    ]
    encoder = asked_for(encoder, statistics_of(method.pooling))
    vectors = []
    # Of all texts so far, the tokens, and the tokens that have a vector.
    counts = np.zeros(2)
    for batch in batches or [[]]:  # the empty matrix has the encoder's width, too
        encoding = encoded(encoder, batch)
        vectors.append(pooled_rows(method.pooling, encoding))
        if encoding.tokens is not None:
            counts += encoding.tokens.sum(axis=0)
    coverage = float(counts[1] / counts[0]) if counts[0] else None
    return np.concatenate(vectors), coverage


def as_texts(texts: Iterable[str]) -> list[str]:
    """The texts as a list. Raises UsageError for one string, a set, and anything but strings.

    A dictionary is refused, too, since its keys would be taken.
    """
    if isinstance(texts, str | Set | Mapping) or not isinstance(texts, Iterable):
        kind = "one text" if isinstance(texts, str) else f"a {type(texts).__name__}"
        raise UsageError(f"wanted a list of texts, found {kind}; put it into a list")
    texts = list(texts)
    for row, text in enumerate(texts):
        fault = text_fault(text)
        if fault is not None:
            raise UsageError(
                f"wanted texts, {fault} in row {row}; leave it out, or make a str of it"
            )
    return texts
