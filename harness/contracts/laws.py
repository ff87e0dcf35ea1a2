"""The laws of post-processors, poolings, encoders, metrics, tasks, corpora and methods.

A law is a function over one registered thing. It raises an error where the thing breaks
it, and its docstring says in one sentence what is wanted. A thing that breaks a law would
give wrong scores, and is refused; the laws in ADVISED are only told.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from traceback import walk_tb
from typing import Any

import numpy as np

from harness.contracts.samples import (
    MISSING_FOLDER,
    encoding,
    pair_rows,
    rows,
    rows_to_fit_on,
    with_constants,
)
from harness.core.arrays import read_only
from harness.core.errors import (
    HarnessError,
    ScoreError,
    UsageError,
    error_line,
    first_line,
    is_interruption,
)
from harness.core.interfaces import EncoderConfig, Pooling, PostProcessor
from harness.core.metrics import Metric, metric_of, metrics
from harness.core.pairs import Pairs, pairs_digest
from harness.core.provenance import PLUGINS, Plugin
from harness.core.types import Corpus, Method, Task
from harness.data.places import asset_named, every_asset
from harness.data.tasks.loader import TARGETS
from harness.encoders.encodings import PREFIXES, STATISTICS
from harness.plugins import import_plugins, plugins_in_use
from harness.registry import Registry, load_registry
from harness.transforms.affine import Affine, Moments
from harness.transforms.pooling import statistics_of

Law = Callable[..., None]

# Fits on the same rows in another order differ by rounding (1e-16 a number), which the
# inverse of the smallest kept deviation amplifies. The mapped numbers are about 1.
ROUNDING = 1e-8
# A map may amplify rounding, as a root does near 0, or quantise.
ROUNDING_OF_MAPS = 1e-6


class BrokenLaw(AssertionError):
    """A broken law, in one line: what is wanted and what was found.

    Attributes:
        error: The error of the thing's own code, if it raised one.
    """

    def __init__(self, message: str, error: BaseException | None = None) -> None:
        super().__init__(message)
        self.error = error


def require(condition: bool, finding: object) -> None:
    """Raise AssertionError with a finding unless a condition holds."""
    if not condition:
        raise AssertionError(f"found {finding}")


def require_same(numbers: Any, others: Any, tolerance: float = 0.0) -> None:
    """Raise AssertionError unless two arrays agree, up to a difference of each number."""
    require(numbers.shape == others.shape, f"shapes {numbers.shape} and {others.shape}")
    difference = float(np.abs(numbers - others).max(initial=0.0))
    require(difference <= tolerance, f"a difference of {difference:.3g}")


# Settings


def is_frozen(thing: Any) -> None:
    """It is a frozen dataclass, and equal settings have equal hashes."""
    require(is_dataclass(type(thing)), f"{type(thing).__name__}, which is none")
    require(type(thing).__dataclass_params__.frozen, "one that can be changed")
    require(hash(thing) == hash(replace(thing)), "another hash of equal settings")


# Post-processors


def fitted(post: PostProcessor, x: Any, seed: int = 0) -> Any:
    """The post-processor, fitted with a generator of this seed."""
    return post.fit(x, np.random.default_rng(seed))


def declares_what_a_run_asks(post: PostProcessor) -> None:
    """It has the attributes name, from_moments, deterministic, share, dropout and fit."""
    for name in ("name", "from_moments", "deterministic", "share", "dropout", "fit"):
        require(hasattr(post, name), f"none called {name}")
    require(0 < post.share <= 1, f"the share {post.share}")


def maps_rows_to_finite_rows(post: PostProcessor) -> None:
    """A fitted map gives a finite row of one width for each row, and the same again."""
    x = read_only(rows_to_fit_on(post))
    transform = fitted(post, x)
    require(callable(transform), f"{type(transform).__name__} from fit")
    mapped = transform(x)
    require(isinstance(mapped, np.ndarray), f"{type(mapped).__name__}")
    require(mapped.ndim == 2 and len(mapped) == len(x), f"the shape {mapped.shape}")
    require(mapped.dtype.kind in "fiub", f"numbers of {mapped.dtype}")
    require(bool(np.isfinite(mapped).all()), "a number that is not finite")
    require_same(transform(x), mapped)


def writes_into_no_shared_rows(post: PostProcessor) -> None:
    """Neither fit nor map writes into the rows that it is given."""
    x = rows_to_fit_on(post)
    before = x.copy()
    fitted(post, x)(x)
    require(np.array_equal(x, before), "other numbers in them")


def fits_the_same_map_for_the_same_seed(post: PostProcessor) -> None:
    """Two fits with the same seed give the same map."""
    x = rows_to_fit_on(post)
    require_same(fitted(post, x, seed=1)(x), fitted(post, x, seed=1)(x))


def draws_nothing_if_deterministic(post: PostProcessor) -> None:
    """A fit that says that it is deterministic draws no random numbers."""
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    post.fit(rows_to_fit_on(post), rng)
    draws = rng.bit_generator.state != before
    require(not (post.deterministic and draws), "draws; say deterministic = False")


def maps_each_row_by_itself(post: PostProcessor) -> None:
    """The image of a row does not depend on the rows that are mapped with it."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x)
    alone = np.concatenate([transform(x[row : row + 1]) for row in range(5)])
    require_same(alone, transform(x)[:5], ROUNDING_OF_MAPS)


def fits_moments_as_rows(post: PostProcessor) -> None:
    """A fit from moments gives the affine map of the rows, whatever shards they are of."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x)
    require(isinstance(transform, Affine), f"{type(transform).__name__}")
    mapped = transform(x)
    moments = [Moments.of(shard) for shard in np.split(x, [1, 7, len(x) // 2])]
    require_same(fitted(post, Moments.merged(moments))(x), mapped, ROUNDING)
    shuffled = np.random.default_rng(1).permutation(x)
    require_same(fitted(post, shuffled)(x), mapped, ROUNDING)
    centred = mapped - mapped.mean(axis=0)
    rank = int(np.linalg.matrix_rank(centred, rtol=ROUNDING))
    require(transform.rank == rank, f"the rank {transform.rank} for {rank}")


def amplifies_no_rounding_noise(post: PostProcessor) -> None:
    """Rounding noise in a constant coordinate is not amplified."""
    x = rows_to_fit_on(post)
    noise = 1e-7 * rows(len(x), 3, seed=1)
    constant, noisy = with_constants(x), with_constants(x, noise)
    transform = fitted(post, constant)
    require_same(transform(noisy), transform(constant), 1e-6)
    # Inner products, since a fit determines a map up to a rotation.
    mapped, mapped_noisy = transform(constant), fitted(post, noisy)(noisy)
    require_same(mapped_noisy @ mapped_noisy[:5].T, mapped @ mapped[:5].T, 1e-3)


def is_finite_or_refused_on_few_rows(post: PostProcessor) -> None:
    """Few rows give a map with finite numbers, or ScoreError."""
    width = rows_to_fit_on(post).shape[1]
    for count in (2, 3, 10):
        try:
            transform = fitted(post, rows(count, width))
        except ScoreError:
            continue
        mapped = transform(rows(20, width, seed=1))
        require(bool(np.isfinite(mapped).all()), f"others, fitted on {count} rows")


# Poolings


def gives_a_finite_row_a_sentence(pooling: Pooling) -> None:
    """A pooling gives one row of finite numbers for each sentence, by itself."""
    together = pooling(encoding())
    require(len(together) == len(encoding()), f"the shape {together.shape}")
    require(bool(np.isfinite(together).all()), "a number that is not finite")
    chosen = np.array([3, 0])
    parts = {name: array[chosen] for name, array in encoding().arrays.items()}
    require_same(pooling(replace(encoding(), **parts)), together[chosen])


def reads_the_layers_that_it_asks_for(pooling: Pooling) -> None:
    """The layers and statistics that a pooling asks for are enough to compute it."""
    all_layers = encoding()
    statistics = statistics_of(pooling)
    require(set(statistics) <= STATISTICS, f"the statistics {statistics}")
    layers = pooling.hidden_states(all_layers.depth) or (all_layers.depth,)
    arrays: dict[str, Any] = {}
    for name in PREFIXES:
        is_read = name in ("mean", *statistics)
        array = getattr(all_layers, name)
        arrays[name] = array[:, list(layers)] if is_read else None
    asked = replace(all_layers, layers=layers, **arrays)
    require_same(pooling(asked), pooling(all_layers))


# Encoders, metrics


def has_the_attributes_of_an_encoder(encoder: EncoderConfig) -> None:
    """It has the attributes name, trained_on, cite, licence, source, identify and load."""
    for name in ("trained_on", "cite", "licence", "source", "identify", "load"):
        require(hasattr(encoder, name), f"none called {name}")


def gives_a_text_one_vector(encoder: Any) -> None:
    """A function gives a text the same vector whatever the texts next to it."""
    encoder.identify()  # it asks for vectors of probes, and refuses others


def scores_the_same_again(metric: Metric) -> None:
    """A metric gives finite scores, the same again, and writes into nothing shared."""
    x = read_only(rows(120, 8))
    splits = np.split(np.arange(len(x)), 3 if metric.learns else 1)
    for largest_gold in (1.0, 5.0):  # classes 0 and 1, and graded scores
        scored, *labelled = [pair_rows(split, largest_gold) for split in splits]
        texts = tuple(f"sentence {row}" for row in scored.a)
        pairs = Pairs(texts, texts, scored.gold, ("all",) * len(texts))
        try:
            values, _ = metric.compare(x, scored, labelled)
            scores = metric.score(read_only(values), pairs)
        except ScoreError:
            continue  # a metric may refuse one of the two kinds of gold
        again, _ = metric.compare(x, scored, labelled)
        require_same(again, values)
        require(metric.score(again, pairs) == scores, "others")


# Tasks, corpora, methods

# A name is a word of the command line, and a folder of records.
TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def has_a_word_as_name(task: Task) -> None:
    """A task's name is a word of letters, digits, dots, hyphens and underscores."""
    require(TASK_NAME.fullmatch(task.name) is not None, repr(task.name))


def has_the_splits_that_it_scores(task: Task) -> None:
    """A task scores and trains on splits that it has, by a metric that is registered."""
    metric_of(task)
    used = {*task.scored, task.train or task.scored[0]}
    require(used <= set(task.splits), f"{', '.join(sorted(used))}")


def says_where_its_data_are(thing: Task | Corpus) -> None:
    """The asset of a task or corpus is in ASSETS or in the catalogue."""
    asset_named(thing.asset)


def is_read_the_same_twice(thing: Any) -> None:
    """Data that come with a task or corpus are the same at each reading."""
    if isinstance(thing, Corpus):
        first, second = [list(thing.sentences(MISSING_FOLDER)) for _ in range(2)]
        require(first == second, "other sentences")
    else:
        pairs = [thing.pairs(MISSING_FOLDER) for _ in range(2)]
        require(pairs_digest(pairs[0]) == pairs_digest(pairs[1]), "other pairs")


def is_made_of_registered_parts(method: Method, registry: Registry) -> None:
    """The id of a method is read as the method, and its corpus is registered."""
    composed = replace(registry, methods={}).parse(method.id)
    require(repr(composed) == repr(method), repr(composed))
    corpora = [None, *TARGETS, *registry.corpora]
    require(method.fit_on in corpora, f"@{method.fit_on}")


# Which laws are of which things

POST_LAWS = (
    is_frozen,
    declares_what_a_run_asks,
    maps_rows_to_finite_rows,
    writes_into_no_shared_rows,
    fits_the_same_map_for_the_same_seed,
    draws_nothing_if_deterministic,
    maps_each_row_by_itself,
)
POOLING_LAWS = (
    is_frozen,
    gives_a_finite_row_a_sentence,
    reads_the_layers_that_it_asks_for,
)
ADVISED = (amplifies_no_rounding_noise, is_finite_or_refused_on_few_rows)


@dataclass(frozen=True)
class Case:
    """One law of one registered thing."""

    name: str
    law: Law
    arguments: tuple[Any, ...]

    @property
    def id(self) -> str:
        """The id of its test."""
        return f"{self.name}:{self.law.__name__}"

    @property
    def is_required(self) -> bool:
        """Whether a thing that breaks the law is refused."""
        return self.law not in ADVISED

    def run(self) -> None:
        """Test the law on the thing. Raises BrokenLaw."""
        try:
            self.law(*self.arguments)
        except BaseException as error:  # a plug-in may even call sys.exit
            if is_interruption(error):
                raise
            wanted = f"{self.name}: {str(self.law.__doc__).rstrip('.')}"
            if isinstance(error, AssertionError | HarnessError):
                raise BrokenLaw(f"{wanted}: {first_line(error)}") from error
            finding = error_line(error).removeprefix("unexpected ")
            finding = finding.removesuffix(" (--debug shows where)")
            raise BrokenLaw(f"{wanted}: {finding}", error) from error


def cases(registry: Registry) -> Iterator[Case]:
    """Every law of everything in a registry."""
    posts = _post_processors(registry)
    moment_posts = {
        name: post
        for name, post in posts.items()
        if getattr(post, "from_moments", False)  # a law of its own says what is lacking
    }
    functions = {
        name: encoder
        for name, encoder in registry.encoders.items()
        if hasattr(encoder, "function")
    }
    data: dict[str, Task | Corpus] = {**registry.tasks, **registry.corpora}
    yield from _paired((*POST_LAWS, *ADVISED), posts)
    yield from _paired((fits_moments_as_rows,), moment_posts)
    yield from _paired(POOLING_LAWS, registry.poolings)
    yield from _paired((is_frozen, has_the_attributes_of_an_encoder), registry.encoders)
    yield from _paired((gives_a_text_one_vector,), functions)
    yield from _paired((scores_the_same_again,), metrics())
    yield from _paired((is_frozen, says_where_its_data_are), data)
    yield from _paired(
        (has_a_word_as_name, has_the_splits_that_it_scores), registry.tasks
    )
    embedded_assets = {asset.name for asset in every_asset() if asset.embedded}
    embedded = {
        name: thing for name, thing in data.items() if thing.asset in embedded_assets
    }
    yield from _paired((is_read_the_same_twice,), embedded)
    yield from _paired((is_frozen,), registry.methods)
    yield from _paired((is_made_of_registered_parts,), registry.methods, registry)


def _paired(
    laws: tuple[Law, ...], things: Mapping[str, Any], *further_arguments: Any
) -> Iterator[Case]:
    """A case for each thing, by its name, and each law."""
    for name, thing in things.items():
        for law in laws:
            yield Case(name, law, (thing, *further_arguments))


def _post_processors(registry: Registry) -> dict[str, PostProcessor]:
    """The post-processors of all methods, by name, and one for each word without a method.

    Of those that differ in a number alone, as `natsv:1` to `natsv:15`, two are taken.
    """
    names_by_word: dict[str, list[str]] = {}
    posts: dict[str, PostProcessor] = {}
    for method in registry.methods.values():
        for post in method.post:
            word, _, argument = post.name.partition(":")
            kin = names_by_word.setdefault(word, [])
            if post.name not in posts and not (argument.isdigit() and len(kin) >= 2):
                kin.append(post.name)
                posts[post.name] = post
    for word in registry.posts.keys() - names_by_word.keys():
        try:
            [posts[word]] = registry.parse_posts(word)
        except UsageError:  # it takes a number
            [posts[word]] = registry.parse_posts(f"{word}:2")
    return posts


# Loading of plug-ins, which have to keep the laws


def load_plugins(files: Iterable[str | Path] = ()) -> Registry:
    """Load plug-ins, as a command with `--plugin` does: `load_registry` has what they register.

    Args:
        files: Python files, or folders with an `__init__.py`. Those that
            HARNESS_PLUGINS names are loaded as well, and installed distributions that
            declare the entry point group `sentence_embedding_harness`.

    Returns:
        The registry, with what they register.

    Raises:
        UsageError: A file is not there, cannot be imported, registers a name that is
            taken, or something in it breaks a law of its kind.

    Examples:
        >>> import harness
        >>> registry = harness.load_plugins()  # of this folder, and the installed ones
        >>> "whitening" in registry.posts
        True
    """
    open_plugins(plugins_in_use(files))
    return load_registry()


def open_plugins(plugins: Iterable[Plugin]) -> list[str]:
    """Load plug-ins.

    Returns:
        A line for each law that is advised and that something breaks.

    Raises:
        UsageError: A line for each law that is required and that something breaks.
    """
    advice: list[str] = []
    for plugin in plugins:
        if PLUGINS.get(plugin.name) == plugin:
            continue
        ids_before = {case.id for case in cases(load_registry())}
        import_plugins([plugin])
        broken_laws: list[str] = []
        raised: set[str] = set()
        for case in cases(load_registry()):
            if case.id in ids_before:
                continue
            try:
                with warnings.catch_warnings():  # a law says what comes of them
                    warnings.simplefilter("ignore")
                    case.run()
            except BrokenLaw as broken:
                place = plugin.origin
                if broken.error is not None:
                    place += line_of_error(broken.error, plugin, case.arguments[0])
                    # One fault of the code breaks many laws, of each setting.
                    fault = f"{place} {case.is_required} {broken.error!r}"
                    if fault in raised:
                        continue
                    raised.add(fault)
                lines = broken_laws if case.is_required else advice
                lines.append(f"{place}: {broken}")
        if broken_laws:
            raise UsageError("\n".join(broken_laws))
    return advice


def line_of_error(error: BaseException, plugin: Plugin, thing: object) -> str:
    """Where a plug-in's code raised an error, as `:12`; where a thing is defined, if it did not.

    It raised none if a call had other arguments than its function takes. Empty where the
    definition is not found.
    """
    for frame, line in reversed([*walk_tb(error.__traceback__)]):
        if plugin.owns(str(frame.f_globals.get("__name__"))):
            return f":{line}"
    with suppress(OSError, TypeError):
        return f":{inspect.getsourcelines(type(thing))[1]}"
    return ""
