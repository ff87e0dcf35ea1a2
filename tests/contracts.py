"""The laws that every plug-in is held to, and all that comes with the harness. Each states one.

`cases` pairs them with everything that a registry holds, so that a new thing is held to all laws of
its kind as soon as it is there; no method or task is named. The wheel has this file as
`harness.contracts`: `pytest --harness-contracts` runs the cases one by one, and a plug-in that
breaks a law is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from harness.assets.places import asset_named, every_asset
from harness.core.arrays import read_only
from harness.core.errors import (
    AssetMissing,
    DataError,
    HarnessError,
    ScoreError,
    UsageError,
    is_interruption,
)
from harness.core.files import pairs_digest
from harness.core.interfaces import EncoderConfig, Encoding, Pooling, PostProcessor
from harness.core.metrics import Metric, PairRows, metrics
from harness.core.types import Corpus, Method, Pairs, Task, is_method_id
from harness.encoders.function import FunctionConfig
from harness.evaluation.embeddings import PooledEmbeddings
from harness.evaluation.evaluate import fit, measure
from harness.evaluation.fit_corpus import FitData
from harness.registry import Registry
from harness.tasks.loader import TARGETS
from harness.transforms.affine import Affine, Moments

NOWHERE = Path("no-such-folder")

# Fits of one map on the same rows in another order differ by rounding (1e-16 a number), which the
# inverse of the smallest kept spread amplifies; what comes out is about 1.
ROUNDING = 1e-8

# Files that keep the laws, for those whose own does not.
POST, ENCODER, TASK = "baselines/whitening.py", "baselines/minilm.py", "harness/tasks/sts.py"
POOLING, METRIC = "harness/transforms/pooling.py", "harness/core/metrics/auc.py"
WORDS_SHOWN = 200  # letters of what was found


class BrokenContract(AssertionError):
    """A contract that is broken, in one line: what it wants, what was found, what keeps it."""


@dataclass(frozen=True)
class Case:
    """One law over one plug-in, and a file that keeps it."""

    name: str
    check: Callable[..., None]
    keeper: str
    arguments: tuple[Any, ...]

    @property
    def id(self) -> str:
        return f"{self.name}:{self.check.__name__}"

    @property
    def words(self) -> str:
        """The law in words."""
        return self.check.__name__.removeprefix("check_").replace("_", " ")

    def law(self) -> None:
        """Hold the plug-in to the law.

        Raises BrokenContract: what the law wants, what was found, and a file that keeps it.
        """
        try:
            self.check(*self.arguments)
        except BaseException as error:
            if is_interruption(error):
                raise
            if isinstance(error, DataError):  # the fault is in the data, whatever the law is
                raise BrokenContract(f"{self.name}: {error}") from error
            raise BrokenContract(
                f"{self.name} fails a contract test: {self.words}: {found_in(error)}. "
                f"{self.keeper} keeps it."
            ) from error


def found_in(error: BaseException) -> str:
    """The first line of an error, with its type where neither a law nor the harness raised it."""
    line = next(iter(str(error).splitlines()), "")
    if isinstance(error, HarnessError) or (isinstance(error, AssertionError) and line):
        return line
    return f"found {type(error).__name__}" + (f": {line}" if line else "")


def cases(registry: Registry) -> Iterator[Case]:
    """Every plug-in of a registry x every law of its kind."""
    methods, encoders = registry.methods, registry.encoders
    chains = {method.post: method for method in methods.values() if method.post}
    posts = extremes(post for chain in chains for post in chain)
    named = {"+" + "+".join(p.name for p in chain): method for chain, method in chains.items()}
    by_moments = {name: m for name, m in named.items() if all(p.from_moments for p in m.post)}
    functions = {n: e for n, e in encoders.items() if isinstance(e, FunctionConfig)}
    files: dict[str, Task | Corpus] = {**registry.tasks, **registry.corpora}
    inside = {name for name, x in files.items() if asset_named(x.asset).embedded}
    for plug_ins, laws, keeper, *further in (
        ({**posts, **registry.poolings}, VALUE_LAWS, POST),
        ({**encoders, **methods, **files}, FROZEN, POST),
        (registry.poolings, POOLING_LAWS, POOLING),
        (metrics(), METRIC_LAWS, METRIC),
        (posts, POST_LAWS, POST),
        ({name: p for name, p in posts.items() if p.from_moments}, MOMENT_LAWS, POST),
        (named, CHAIN_LAWS, POST),
        (by_moments, MOMENT_CHAIN_LAWS, POST),
        (methods, METHOD_LAWS, POST, registry),
        (encoders, ENCODER_LAWS, ENCODER),
        (functions, FUNCTION_LAWS, ENCODER),
        ({n: e for n, e in encoders.items() if n not in functions}, MODEL_LAWS, ENCODER),
        (registry.tasks, TASK_LAWS, TASK),
        (files, ASSET_LAWS, TASK),
        ({name: x for name, x in files.items() if name not in inside}, FILE_LAWS, TASK),
        ({name: x for name, x in files.items() if name in inside}, EMBEDDED_LAWS, TASK),
    ):
        for name, plug_in in plug_ins.items():
            yield from (Case(name, law, keeper, (plug_in, *further)) for law in laws)


def extremes(posts: Iterable[PostProcessor]) -> dict[str, PostProcessor]:
    """By name; of those that differ in a count alone the least and the greatest."""
    named = {post.name: post for post in posts}
    counts: dict[str, list[int]] = {}
    for name in named:
        kind, _, argument = name.partition(":")
        if argument.isdigit():
            counts.setdefault(kind, []).append(int(argument))
    between = {f"{kind}:{k}" for kind, ks in counts.items() for k in ks if min(ks) < k < max(ks)}
    return {name: post for name, post in named.items() if name not in between}


# --- what a law says of what it finds -------------------------------------------------------------


def require(holds: bool, wanted: str, found: object) -> None:
    """Raise AssertionError, in one line, unless what a law wants holds."""
    assert holds, f"wanted {wanted}, found {' '.join(str(found).split())[:WORDS_SHOWN]}"


def require_equal(found: object, wanted: object, what: str) -> None:
    """Raise AssertionError unless two values are equal."""
    require(found == wanted, f"{what} {wanted}", found)


def require_close(
    found: np.ndarray, wanted: np.ndarray, what: str, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Raise AssertionError unless the numbers of two arrays agree; without a tolerance, exactly."""
    require(found.shape == wanted.shape, f"{what} of shape {wanted.shape}", found.shape)
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    gap = np.abs(found - wanted)
    apart = ~(gap <= atol + rtol * np.abs(wanted))  # a NaN is apart from everything
    if apart.any():
        row = np.unravel_index(int(apart.argmax()), apart.shape)[0]
        raise AssertionError(
            f"wanted {what}, found {gap.max():.3g} between them, first in row {row}"
        )


def require_finite(x: np.ndarray, what: str) -> None:
    """Raise AssertionError unless all numbers of an array are finite."""
    finite = np.isfinite(x)
    if not finite.all():
        row = np.unravel_index(int(finite.argmin()), finite.shape)[0]
        raise AssertionError(f"wanted {what} that are finite, found another in row {row}")


@contextmanager
def refused(kind: type[HarnessError], *words: str) -> Iterator[None]:
    """Context that must raise such an error: one line to act on, with these words."""
    wanted = f"{kind.__name__}, in one line" + (f" with {' and '.join(words)}" if words else "")
    try:
        yield
    except kind as refusal:
        require_one_line(refusal, *words)
    except Exception as error:
        raise AssertionError(f"wanted {wanted}, {found_in(error)}") from error
    else:
        raise AssertionError(f"wanted {wanted}, found no error")


def require_one_line(error: Exception, *words: str) -> None:
    text = str(error)
    require(bool(text), "a line that says why", "none")
    require("\n" not in text, "one line", repr(text))
    require(all(word in text for word in words), " and ".join(words), repr(text))


@contextmanager
def untouched(*shared: np.ndarray) -> Iterator[None]:
    """Context in which nobody may write into these arrays, of which cells share such ones."""
    before = [x.copy() for x in map(read_only, shared)]
    yield
    for x, kept in zip(shared, before, strict=True):  # other libraries write in spite of the flag
        require(np.array_equal(x, kept), "a shared array as it was", "other numbers in it")


# --- what plug-ins are tried on: small, fresh, the same on every run -----------------------------


def rows(count: int, width: int, seed: int = 0) -> np.ndarray:
    """Correlated, off-centre float32 rows, like an encoder's; spreads fall from 1 to 0.05."""
    rng = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(rng.normal(size=(width, width)))
    spread = np.geomspace(1, 0.05, width)
    cloud = (rng.normal(size=(count, width)) * spread) @ directions
    return (cloud + rng.normal(size=width)).astype(np.float32)


def with_constants(x: np.ndarray, noise: np.ndarray | float = 0.0) -> np.ndarray:
    """The rows with three constant coordinates more, as MiniLM has them, and noise in these."""
    constant = np.full((len(x), 3), 0.1, np.float32) + np.float32(noise)
    return np.concatenate([x, constant.astype(np.float32)], axis=1)


def dimensions(*posts: PostProcessor) -> int:
    """More than any of these asks for: the argument in a name counts directions."""
    arguments = (post.name.partition(":")[2] for post in posts)
    return 16 + sum(int(a) for a in arguments if a.isdigit())


def enough(*posts: PostProcessor) -> np.ndarray:
    """Rows that these can be fitted on, one after the other."""
    width = dimensions(*posts)
    return rows(2 * width, width)


def encoding(count: int = 5, depth: int = 4, width: int = 6) -> Encoding:
    """An encoding that keeps every layer, a summary token, a pooler and what modules make."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(count, depth + 1, width)).astype(np.float32)
    cls, pooler, native = rng.normal(size=(3, count, width)).astype(np.float32)
    return Encoding(tuple(range(depth + 1)), depth, mean, cls, pooler, native)


def view_of(x: np.ndarray) -> tuple[PooledEmbeddings, Pairs]:
    """The rows as the sentences of a view, and neighbouring ones as pairs in two groups."""
    texts = [f"sentence {row}" for row in range(len(x))]
    gold = np.random.default_rng(0).integers(0, 11, len(x) // 2) / 2
    group = tuple("near" if row % 3 else "far" for row in range(len(gold)))
    pairs = Pairs(tuple(texts[0::2]), tuple(texts[1::2]), gold, group)
    return PooledEmbeddings(
        {text: row for row, text in enumerate(texts)}, x, clock=lambda: 0.0
    ), pairs


# --- configuration -------------------------------------------------------------------------------


def check_configuration_is_frozen(thing: Any) -> None:
    require(is_dataclass(type(thing)), "a frozen dataclass", type(thing).__name__)
    require(hash(thing) == hash(replace(thing)), "equal hashes of equal settings", "others")
    for field in fields(thing):
        with suppress(AttributeError):
            setattr(thing, field.name, getattr(thing, field.name))
            require(False, "a frozen dataclass", f"that {field.name} can be set")


def check_its_repr_is_it(value: Any) -> None:
    kind = type(value)
    made = eval(repr(value), {kind.__name__: kind})  # noqa: S307 - its own repr
    require_equal(made, value, "its repr to make")


FROZEN = (check_configuration_is_frozen,)
VALUE_LAWS = (check_configuration_is_frozen, check_its_repr_is_it)


# --- poolings ------------------------------------------------------------------------------------


def check_pooling_gives_one_finite_row_a_sentence(pooling: Pooling) -> None:
    whole = encoding()
    pooled = pooling(whole)
    require_equal(pooled.shape, (len(whole), whole.mean.shape[2]), "the shape")
    require_equal(pooled.dtype, np.dtype(np.float32), "numbers of type")
    require_finite(pooled, "numbers")


def check_pooling_keeps_rows_apart(pooling: Pooling) -> None:
    whole, chosen = encoding(), np.array([3, 0])
    parts = {name: getattr(whole, name)[chosen] for name in ("mean", "cls", "pooler", "native")}
    alone = pooling(replace(whole, **parts))
    require_close(alone, pooling(whole)[chosen], "rows that do not depend on the others")


def check_pooling_reads_only_the_layers_it_wants(pooling: Pooling) -> None:
    whole = encoding()
    layers = pooling.hidden_states(whole.depth) or (whole.depth,)
    part = replace(whole, layers=layers, mean=whole.mean[:, list(layers)])
    require_close(pooling(part), pooling(whole), f"the same rows of the layers {layers} alone")


def check_pooling_refuses_an_encoding_without_its_part(pooling: Pooling) -> None:
    whole = encoding()
    bare = replace(whole, layers=(), mean=whole.mean[:, :0], cls=None, pooler=None, native=None)
    with refused(UsageError, pooling.name):
        pooling(bare)


def check_a_pooling_does_not_write_into_an_encoding(pooling: Pooling) -> None:
    whole = encoding()
    with untouched(*whole.arrays.values()):
        pooling(whole)


POOLING_LAWS = (
    check_a_pooling_does_not_write_into_an_encoding,
    check_pooling_gives_one_finite_row_a_sentence,
    check_pooling_keeps_rows_apart,
    check_pooling_reads_only_the_layers_it_wants,
    check_pooling_refuses_an_encoding_without_its_part,
)


# --- post-processors -----------------------------------------------------------------------------


def fitted(post: PostProcessor, x: np.ndarray | Moments, seed: int = 0) -> Any:
    return post.fit(x, np.random.default_rng(seed))


def check_it_declares_what_the_engine_asks(post: PostProcessor) -> None:
    lacking = [name for name in POST_FIELDS if not hasattr(post, name)]
    require(not lacking, f"the attributes {', '.join(POST_FIELDS)}", f"no {', '.join(lacking)}")
    require(0 < post.share <= 1, "a share above 0 and at most 1", post.share)
    # Moments are of whole corpora.
    require(not post.from_moments or post.share == 1, "the share 1, from moments", post.share)


POST_FIELDS = ("name", "from_moments", "deterministic", "share", "dropout", "fit")


def check_fit_changes_nothing(post: PostProcessor) -> None:
    x, before = enough(post), (repr(post), hash(post))
    kept = x.copy()
    fitted(post, x)
    require_equal((repr(post), hash(post)), before, "the settings and their hash")
    require_close(x, kept, "the rows as they were")


def check_a_fit_does_not_write_into_shared_rows(post: PostProcessor) -> None:
    x = enough(post)
    with untouched(x):
        fitted(post, x)


def check_a_map_does_not_write_into_shared_rows(post: PostProcessor) -> None:
    x = enough(post)
    transform = fitted(post, x.copy())
    with untouched(x):
        transform(x)


def check_the_same_seed_fits_the_same_map(post: PostProcessor) -> None:
    x = enough(post)
    one, other = fitted(post, x, seed=1), fitted(post, x, seed=1)
    require_close(one(x), other(x), "the same rows of both maps")


def check_a_deterministic_fit_draws_nothing(post: PostProcessor) -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    post.fit(enough(post), rng)
    drawn = rng.bit_generator.state != before
    wanted = "nothing drawn" if post.deterministic else "something drawn, or deterministic = True"
    require(drawn is not post.deterministic, wanted, "draws" if drawn else "none")


def check_a_map_keeps_rows_apart(post: PostProcessor) -> None:
    x = enough(post)
    transform = fitted(post, x)
    together = transform(x)
    by_row = np.concatenate([transform(x[row : row + 1]) for row in range(5)])
    # Rounding alone: the products of one row and of many are summed in another order.
    exact = together.dtype == np.float64  # another law says of others that they should be
    rtol, atol = (1e-10, 1e-12) if exact else (1e-3, 1e-4)
    require_close(by_row, together[:5], "rows that do not depend on the others", rtol, atol)


def check_a_map_is_a_pure_function(post: PostProcessor) -> None:
    x = enough(post)
    transform, kept = fitted(post, x), x.copy()
    require_close(transform(x), transform(x), "the same rows again")
    require_close(x, kept, "the rows as they were")


def check_a_map_gives_finite_float64_of_one_width(post: PostProcessor) -> None:
    x = enough(post)
    transform = fitted(post, x)
    y = transform(x)
    require(isinstance(y, np.ndarray), "an array", type(y).__name__)
    require_equal(y.dtype, np.dtype(np.float64), "numbers of type")
    require_finite(y, "numbers")
    require_equal(y.shape, (len(x), transform(x[:1]).shape[1]), "the shape")
    require_equal(transform(x[:0]).shape, (0, y.shape[1]), "of no rows the shape")


def check_equal_rows_are_refused(post: PostProcessor) -> None:
    row = rows(1, dimensions(post))
    for count in (1, 2, 7, 100):
        for dtype in (np.float32, np.float64):
            with refused(ScoreError):
                fitted(post, np.repeat((row * np.pi).astype(dtype), count, axis=0))


def check_no_rows_are_refused(post: PostProcessor) -> None:
    with refused(ScoreError, "no sentences"):
        fitted(post, rows(0, dimensions(post)))


def check_a_value_that_is_not_finite_is_refused(post: PostProcessor) -> None:
    for value in (np.nan, np.inf):
        x = enough(post)
        x[3, 1] = value
        with refused(ScoreError, "row 3", "not finite"):
            fitted(post, x)


def check_noise_in_a_constant_coordinate_stays_small(post: PostProcessor) -> None:
    x = enough(post)
    noise = 1e-7 * rows(len(x), 3, seed=1)
    quiet, noisy = with_constants(x), with_constants(x, noise)
    transform = fitted(post, quiet)
    # What went in is below 1e-6. A spread that is rounding noise itself would divide it by 1e-17.
    moved = float(np.abs(transform(noisy) - transform(quiet)).max())
    require(moved < 1e-6, "noise of 1e-7 to stay below 1e-6", f"{moved:.3g}")


def check_noise_in_a_constant_coordinate_is_not_fitted(post: PostProcessor) -> None:
    x = enough(post)
    noise = 1e-7 * rows(len(x), 3, seed=1)
    quiet, noisy = (with_constants(x, n) for n in (0.0, noise))
    one, other = fitted(post, quiet)(quiet), fitted(post, noisy)(noisy)
    require_equal(other.shape, one.shape, "with noise the shape")
    # Inner products, since a map is as good turned. Noise of 1e-7 moves them by as little, times
    # the inverse of the smallest spread; a coordinate that is divided by its noise adds 1 and more.
    products = "the same inner products with noise of 1e-7"
    require_close(other @ other[:5].T, one @ one[:5].T, products, rtol=1e-7, atol=1e-3)


def check_few_rows_give_a_finite_map_or_a_refusal(post: PostProcessor) -> None:
    for count in (2, 3, 10):
        x = rows(count, dimensions(post))
        try:
            transform = fitted(post, x)
        except ScoreError as refusal:
            require_one_line(refusal)
        else:
            require_finite(transform(rows(20, x.shape[1], seed=1)), f"numbers, fitted on {count},")


POST_LAWS = (
    check_it_declares_what_the_engine_asks,
    check_a_fit_does_not_write_into_shared_rows,
    check_a_map_does_not_write_into_shared_rows,
    check_a_map_gives_finite_float64_of_one_width,
    check_fit_changes_nothing,
    check_the_same_seed_fits_the_same_map,
    check_a_deterministic_fit_draws_nothing,
    check_a_map_keeps_rows_apart,
    check_a_map_is_a_pure_function,
    check_equal_rows_are_refused,
    check_no_rows_are_refused,
    check_a_value_that_is_not_finite_is_refused,
    check_noise_in_a_constant_coordinate_stays_small,
    check_noise_in_a_constant_coordinate_is_not_fitted,
    check_few_rows_give_a_finite_map_or_a_refusal,
)


# --- post-processors that need no more than a mean and a covariance ------------------------------


def assert_same_map(one: Any, other: Any, x: np.ndarray) -> None:
    require_close(one(x), other(x), "the same rows of both maps", rtol=ROUNDING, atol=ROUNDING)


def check_fit_gives_an_affine_map_of_its_rank(post: PostProcessor) -> None:
    x = enough(post)
    transform = fitted(post, x)
    require(isinstance(transform, Affine), "an Affine", type(transform).__name__)
    left = transform(x) - transform(x).mean(axis=0)
    rank = int(np.linalg.matrix_rank(left, rtol=ROUNDING))  # nulled up to rounding
    require_equal(transform.rank, rank, "the rank")


def check_fit_on_rows_is_fit_on_their_moments(post: PostProcessor) -> None:
    x = enough(post)
    assert_same_map(fitted(post, x), fitted(post, Moments.of(x)), x)


def check_shards_fit_as_one(post: PostProcessor) -> None:
    x = enough(post)
    shards = (Moments.of(part) for part in np.split(x, [1, 7, len(x) // 2]))
    assert_same_map(fitted(post, x), fitted(post, Moments.merged(shards)), x)


def check_the_order_of_rows_does_not_matter(post: PostProcessor) -> None:
    x = enough(post)
    shuffled = np.random.default_rng(1).permutation(x)
    assert_same_map(fitted(post, x), fitted(post, shuffled), x)


def check_a_repeated_row_counts_again(post: PostProcessor) -> None:
    x = enough(post)
    repeats = np.random.default_rng(1).integers(1, 4, len(x))
    repeated, counted = np.repeat(x, repeats, axis=0), Moments.of(x, repeats)
    assert_same_map(fitted(post, repeated), fitted(post, counted), x)


def check_a_fit_does_not_write_into_shared_moments(post: PostProcessor) -> None:
    moments = Moments.of(enough(post))
    principal, uncentred = moments.principal, moments.principal_uncentred
    directions = (principal.values, principal.vectors, uncentred.values, uncentred.vectors)
    with untouched(moments.mean, moments.scatter, *directions):
        fitted(post, moments)


MOMENT_LAWS = (
    check_a_fit_does_not_write_into_shared_moments,
    check_fit_gives_an_affine_map_of_its_rank,
    check_fit_on_rows_is_fit_on_their_moments,
    check_shards_fit_as_one,
    check_the_order_of_rows_does_not_matter,
    check_a_repeated_row_counts_again,
)


# --- chains of post-processors -------------------------------------------------------------------


def check_a_measured_chain_gives_the_same_finite_scores_again(method: Method) -> None:
    view, pairs = view_of(enough(*method.post))
    task = Task(
        "t", lambda *_: pairs, ("test",), ("test",), "correlation", "none", "raw", geometry=True
    )
    data = FitData(view.matrix[view.rows(pairs.sentences)])
    first, again = (
        measure(task, pairs, view, fit(method, data, np.random.default_rng(1)), lambda: 0.0)
        for _ in range(2)
    )
    require_equal(again.scores, first.scores, "the scores")
    require_finite(first.cosines, "cosines")
    numbers = [first.scores["spearman"]["wmean"], first.scores["uniformity"]]
    require(None not in numbers, "scores that are defined", numbers)
    require_finite(np.array(numbers, dtype=np.float64), "scores")


def check_a_chain_from_moments_is_the_chain_from_rows(method: Method) -> None:
    view, pairs = view_of(enough(*method.post))
    moments, _ = view.moments("target", pairs.sentences)
    results = []
    for fitted_on in (moments, view.matrix[view.rows(pairs.sentences)]):
        vectors = view.matrix
        for transform in fit(method, FitData(fitted_on), np.random.default_rng(0)):
            vectors = transform(vectors)
        results.append(vectors)
    same = "the same rows from moments as from rows"
    require_close(results[0], results[1], same, rtol=ROUNDING, atol=ROUNDING)


CHAIN_LAWS = (check_a_measured_chain_gives_the_same_finite_scores_again,)
MOMENT_CHAIN_LAWS = (check_a_chain_from_moments_is_the_chain_from_rows,)


# --- methods -------------------------------------------------------------------------------------


def check_its_id_parses_to_it(method: Method, registry: Registry) -> None:
    require(is_method_id(method.id), "a method id", method.id)
    require_equal(registry.parse(method.id), method, "its id to mean")


def check_its_id_is_made_of_registered_parts(method: Method, registry: Registry) -> None:
    composed = replace(registry, methods={}).parse(method.id)
    require_equal(repr(composed), repr(method), "its id to make")


def check_its_corpus_is_known(method: Method, registry: Registry) -> None:
    known = [*TARGETS, *registry.corpora]
    require(method.fit_on in {None, *known}, f"one of {', '.join(known)}", method.fit_on)


def check_it_is_meant_for_some_task(method: Method, registry: Registry) -> None:
    for pattern in method.tasks:
        some = any(fnmatchcase(task, pattern) for task in registry.tasks)
        require(some, "globs that match a task", pattern)


METHOD_LAWS = (
    check_its_id_parses_to_it,
    check_its_id_is_made_of_registered_parts,
    check_its_corpus_is_known,
    check_it_is_meant_for_some_task,
)


# --- encoders ------------------------------------------------------------------------------------


def check_it_says_what_its_weights_are(encoder: EncoderConfig) -> None:
    lacking = [name for name in ENCODER_FIELDS if not hasattr(encoder, name)]
    wanted = f"the attributes {', '.join(ENCODER_FIELDS)}"
    require(not lacking, wanted, f"no {', '.join(lacking)}")
    require(bool(encoder.trained_on), "trained_on: the texts that its weights have seen", "none")
    require(bool(encoder.licence), "the licence of its weights", "none")


ENCODER_FIELDS = ("name", "trained_on", "cite", "licence", "source", "identify", "load")


def check_missing_weights_are_named_in_one_line(encoder: EncoderConfig) -> None:
    with refused(HarnessError, str(NOWHERE)):
        encoder.identify(NOWHERE)


def check_a_text_has_one_vector_whatever_stands_beside_it(encoder: FunctionConfig) -> None:
    texts = ["A man is eating.", "Someone eats.", "A man is eating."]
    together = encoder.vectors(texts)
    require_equal(encoder.identify().key, encoder.identify().key, "the key")
    for text, row in zip(texts, together, strict=True):
        same = f"the same vector of {text!r} alone"
        require_close(encoder.vectors([text])[:1], row[None], same, rtol=1e-3, atol=1e-5)


def check_an_encoder_does_not_write_into_what_it_gave(encoder: FunctionConfig) -> None:
    loaded = encoder.load()
    with untouched(*loaded.encode(["A man is eating."]).arrays.values()):
        loaded.encode(["Someone eats."])


ENCODER_LAWS = (check_it_says_what_its_weights_are,)
MODEL_LAWS = (check_missing_weights_are_named_in_one_line,)
FUNCTION_LAWS = (
    check_a_text_has_one_vector_whatever_stands_beside_it,
    check_an_encoder_does_not_write_into_what_it_gave,
)


# --- metrics -------------------------------------------------------------------------------------


def check_a_metric_does_not_write_into_shared_pairs(metric: Metric) -> None:
    x = rows(120, 8)
    splits = np.split(np.arange(len(x)), 3 if metric.learns else 1)
    for classes in (False, True):
        gold = [np.arange(len(split) // 2) % 2 / (1 if classes else 7) for split in splits]
        scored, *labelled = (
            PairRows(split[0::2], split[1::2], of_split)
            for split, of_split in zip(splits, gold, strict=True)
        )
        texts = [f"sentence {row}" for row in splits[0]]
        pairs = Pairs(texts[0::2], texts[1::2], gold[0], ("all",) * len(gold[0]))
        shared = (x, scored.a, scored.b, pairs.gold, *gold)
        with untouched(*shared), suppress(HarnessError):  # another kind of gold than it scores
            values, _ = metric.compare(x, scored, labelled)
            with untouched(values):
                metric.score(values, pairs)


METRIC_LAWS = (check_a_metric_does_not_write_into_shared_pairs,)


# --- tasks and corpora ---------------------------------------------------------------------------


def check_its_splits_hold_what_is_scored_and_trained_on(task: Task) -> None:
    used = {*task.scored, *([task.train] if task.train else [])}
    require(bool(task.scored), "a split that is scored", "none")
    require(used <= set(task.splits), f"some of the splits {', '.join(task.splits)}", used)


def check_another_split_is_wrong_usage(task: Task) -> None:
    with refused(UsageError, "no-such-split"):
        task.load(NOWHERE, "no-such-split")


def check_only_graded_scores_have_a_scale(task: Task) -> None:
    ungraded = ("auc", "classification", "word-frequency")
    needs_none = task.metric in ungraded
    wanted = f"{'no scale' if needs_none else 'a scale'} for the metric {task.metric}"
    require((task.graded is None) == needs_none, wanted, task.graded)


def check_geometry_goes_with_correlation(task: Task) -> None:
    require(not task.geometry or task.metric == "correlation", "correlation", task.metric)


def check_it_names_its_licence(task: Task) -> None:
    require(bool(task.licence), "the licence of its data", "none")


TASK_LAWS = (
    check_its_splits_hold_what_is_scored_and_trained_on,
    check_another_split_is_wrong_usage,
    check_only_graded_scores_have_a_scale,
    check_geometry_goes_with_correlation,
    check_it_names_its_licence,
)


def check_its_asset_says_how_to_get_it(thing: Any) -> None:
    assets = [asset for asset in every_asset() if asset.name == thing.asset]
    require(len(assets) == 1, f"one asset {thing.asset!r}, as in ASSETS", len(assets))
    require(bool(assets[0].get), "how to get it", "nothing")


def check_missing_files_are_named_in_one_line(thing: Any) -> None:
    read = thing.pairs if isinstance(thing, Task) else thing.sentences
    with refused(AssetMissing, str(NOWHERE)):
        read(NOWHERE)


def check_it_needs_no_folder_and_is_the_same_again(thing: Any) -> None:
    if isinstance(thing, Task):
        first, again = (pairs_digest(thing.pairs(NOWHERE)) for _ in range(2))
        require_equal(again, first, "pairs with the digest")
    else:
        sentences, again = (list(islice(thing.sentences(NOWHERE), 50)) for _ in range(2))
        require(sentences == again, "the same first 50 sentences", "others")


def check_a_task_does_not_write_into_what_it_gave(thing: Any) -> None:
    if isinstance(thing, Task):
        pairs = [thing.load(NOWHERE, split) for split in thing.splits]
        with untouched(*(part.gold for part in pairs)):
            for split in thing.splits:
                thing.load(NOWHERE, split)


ASSET_LAWS = (check_its_asset_says_how_to_get_it,)
FILE_LAWS = (check_missing_files_are_named_in_one_line,)
EMBEDDED_LAWS = (
    check_it_needs_no_folder_and_is_the_same_again,
    check_a_task_does_not_write_into_what_it_gave,
)
