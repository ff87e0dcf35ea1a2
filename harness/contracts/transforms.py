"""The contracts of poolings, of post-processors and of chains of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness.contracts.requirements import (
    refused,
    require,
    require_close,
    require_equal,
    require_finite,
    require_one_line,
    untouched,
)
from harness.contracts.samples import (
    dimensions,
    encoding,
    rows,
    rows_to_fit_on,
    view_of,
    with_constants,
)
from harness.core.errors import ScoreError, UsageError
from harness.core.interfaces import Pooling, PostProcessor
from harness.core.types import Method, Task
from harness.evaluation.cell import fit, measure
from harness.evaluation.fit_vectors import FitCorpusVectors
from harness.transforms.affine import Affine, Moments

# Fits of one map on the same rows in another order differ by rounding (1e-16 a number),
# which the inverse of the smallest kept spread amplifies; the mapped numbers are about
# 1.
ROUNDING = 1e-8

# --- poolings ------------------------------------------------------------------------------------


def check_pooling_gives_one_finite_row_a_sentence(pooling: Pooling) -> None:
    """A pooling returns one row for each sentence, finite and in float32."""
    whole = encoding()
    pooled = pooling(whole)
    require_equal(pooled.shape, (len(whole), whole.mean.shape[2]), "the shape")
    require_equal(pooled.dtype, np.dtype(np.float32), "numbers of type")
    require_finite(pooled, "numbers")


def check_pooling_keeps_rows_apart(pooling: Pooling) -> None:
    """The vector of a sentence does not depend on the other sentences of an encoding."""
    whole, chosen = encoding(), np.array([3, 0])
    parts = {
        name: getattr(whole, name)[chosen]
        for name in ("mean", "cls", "pooler", "native")
    }
    alone = pooling(replace(whole, **parts))
    require_close(
        alone, pooling(whole)[chosen], "rows that do not depend on the others"
    )


def check_pooling_reads_only_the_layers_it_wants(pooling: Pooling) -> None:
    """The layers that a pooling asks for are enough to compute it."""
    whole = encoding()
    layers = pooling.hidden_states(whole.depth) or (whole.depth,)
    part = replace(whole, layers=layers, mean=whole.mean[:, list(layers)])
    require_close(
        pooling(part), pooling(whole), f"the same rows of the layers {layers} alone"
    )


def check_pooling_refuses_an_encoding_without_its_part(pooling: Pooling) -> None:
    """A pooling raises UsageError for an encoding that lacks what it reads."""
    whole = encoding()
    bare = replace(
        whole, layers=(), mean=whole.mean[:, :0], cls=None, pooler=None, native=None
    )
    with refused(UsageError, pooling.name):
        pooling(bare)


def check_a_pooling_does_not_write_into_an_encoding(pooling: Pooling) -> None:
    """A pooling leaves the arrays of an encoding as they are."""
    whole = encoding()
    with untouched(*whole.arrays.values()):
        pooling(whole)


POOLING_CONTRACTS = (
    check_a_pooling_does_not_write_into_an_encoding,
    check_pooling_gives_one_finite_row_a_sentence,
    check_pooling_keeps_rows_apart,
    check_pooling_reads_only_the_layers_it_wants,
    check_pooling_refuses_an_encoding_without_its_part,
)


# --- post-processors -----------------------------------------------------------------------------


def fitted(post: PostProcessor, x: np.ndarray | Moments, seed: int = 0) -> Any:
    """The post-processor, fitted with a generator of this seed."""
    return post.fit(x, np.random.default_rng(seed))


def check_it_declares_what_the_engine_asks(post: PostProcessor) -> None:
    """A post-processor has all attributes of one, and its `share` is above 0 and at most 1."""
    lacking = [name for name in POST_FIELDS if not hasattr(post, name)]
    require(
        not lacking,
        f"the attributes {', '.join(POST_FIELDS)}",
        f"no {', '.join(lacking)}",
    )
    require(0 < post.share <= 1, "a share above 0 and at most 1", post.share)
    # Moments are of whole corpora.
    require(
        not post.from_moments or post.share == 1,
        "the share 1, from moments",
        post.share,
    )


POST_FIELDS = ("name", "from_moments", "deterministic", "share", "dropout", "fit")


def check_fit_changes_nothing(post: PostProcessor) -> None:
    """A fit changes neither the configuration nor the rows that it is fitted on."""
    x, before = rows_to_fit_on(post), (repr(post), hash(post))
    kept = x.copy()
    fitted(post, x)
    require_equal((repr(post), hash(post)), before, "the settings and their hash")
    require_close(x, kept, "the rows as they were")


def check_a_fit_does_not_write_into_shared_rows(post: PostProcessor) -> None:
    """A fit does not write into its rows, which other cells use too."""
    x = rows_to_fit_on(post)
    with untouched(x):
        fitted(post, x)


def check_a_map_does_not_write_into_shared_rows(post: PostProcessor) -> None:
    """A fitted map does not write into the rows that it maps."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x.copy())
    with untouched(x):
        transform(x)


def check_the_same_seed_fits_the_same_map(post: PostProcessor) -> None:
    """Two fits with the same seed map rows to the same numbers."""
    x = rows_to_fit_on(post)
    one, other = fitted(post, x, seed=1), fitted(post, x, seed=1)
    require_close(one(x), other(x), "the same rows of both maps")


def check_a_deterministic_fit_draws_nothing(post: PostProcessor) -> None:
    """A fit draws random numbers if, and only if, it does not say that it is deterministic."""
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    post.fit(rows_to_fit_on(post), rng)
    drawn = rng.bit_generator.state != before
    wanted = (
        "nothing drawn"
        if post.deterministic
        else "something drawn, or deterministic = True"
    )
    require(drawn is not post.deterministic, wanted, "draws" if drawn else "none")


def check_a_map_keeps_rows_apart(post: PostProcessor) -> None:
    """The image of a row does not depend on the rows that are mapped with it."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x)
    together = transform(x)
    by_row = np.concatenate([transform(x[row : row + 1]) for row in range(5)])
    # Rounding alone: the products of one row and of many are summed in another order.
    exact = (
        together.dtype == np.float64
    )  # another contract says of others that they should be
    rtol, atol = (1e-10, 1e-12) if exact else (1e-3, 1e-4)
    require_close(
        by_row, together[:5], "rows that do not depend on the others", rtol, atol
    )


def check_a_map_is_a_pure_function(post: PostProcessor) -> None:
    """A fitted map gives the same numbers when it is called again."""
    x = rows_to_fit_on(post)
    transform, kept = fitted(post, x), x.copy()
    require_close(transform(x), transform(x), "the same rows again")
    require_close(x, kept, "the rows as they were")


def check_a_map_gives_finite_float64_of_one_width(post: PostProcessor) -> None:
    """A fitted map gives finite float64 of one width, also for no rows."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x)
    y = transform(x)
    require(isinstance(y, np.ndarray), "an array", type(y).__name__)
    require_equal(y.dtype, np.dtype(np.float64), "numbers of type")
    require_finite(y, "numbers")
    require_equal(y.shape, (len(x), transform(x[:1]).shape[1]), "the shape")
    require_equal(transform(x[:0]).shape, (0, y.shape[1]), "of no rows the shape")


def check_equal_rows_are_refused(post: PostProcessor) -> None:
    """A fit raises ScoreError where all rows are equal."""
    row = rows(1, dimensions(post))
    for count in (1, 2, 7, 100):
        for dtype in (np.float32, np.float64):
            with refused(ScoreError):
                fitted(post, np.repeat((row * np.pi).astype(dtype), count, axis=0))


def check_no_rows_are_refused(post: PostProcessor) -> None:
    """A fit raises ScoreError where there are no rows."""
    with refused(ScoreError, "no sentences"):
        fitted(post, rows(0, dimensions(post)))


def check_a_value_that_is_not_finite_is_refused(post: PostProcessor) -> None:
    """A fit raises ScoreError for a value that is not finite, and names its row."""
    for value in (np.nan, np.inf):
        x = rows_to_fit_on(post)
        x[3, 1] = value
        with refused(ScoreError, "row 3", "not finite"):
            fitted(post, x)


def check_noise_in_a_constant_coordinate_stays_small(post: PostProcessor) -> None:
    """Rounding noise in a constant coordinate is not amplified by the fitted map."""
    x = rows_to_fit_on(post)
    noise = 1e-7 * rows(len(x), 3, seed=1)
    quiet, noisy = with_constants(x), with_constants(x, noise)
    transform = fitted(post, quiet)
    # What went in is below 1e-6. A spread that is rounding noise itself would divide it
    # by 1e-17.
    moved = float(np.abs(transform(noisy) - transform(quiet)).max())
    require(moved < 1e-6, "noise of 1e-7 to stay below 1e-6", f"{moved:.3g}")


def check_noise_in_a_constant_coordinate_is_not_fitted(post: PostProcessor) -> None:
    """Rounding noise in a constant coordinate does not change what is fitted."""
    x = rows_to_fit_on(post)
    noise = 1e-7 * rows(len(x), 3, seed=1)
    quiet, noisy = (with_constants(x, n) for n in (0.0, noise))
    one, other = fitted(post, quiet)(quiet), fitted(post, noisy)(noisy)
    require_equal(other.shape, one.shape, "with noise the shape")
    # Inner products, since a map is as good turned. Noise of 1e-7 moves them by as
    # little, times the inverse of the smallest spread; a coordinate that is divided by
    # its noise adds 1 and more.
    products = "the same inner products with noise of 1e-7"
    require_close(other @ other[:5].T, one @ one[:5].T, products, rtol=1e-7, atol=1e-3)


def check_few_rows_give_a_finite_map_or_a_refusal(post: PostProcessor) -> None:
    """Few rows give a map with finite numbers, or ScoreError."""
    for count in (2, 3, 10):
        x = rows(count, dimensions(post))
        try:
            transform = fitted(post, x)
        except ScoreError as refusal:
            require_one_line(refusal)
        else:
            require_finite(
                transform(rows(20, x.shape[1], seed=1)), f"numbers, fitted on {count},"
            )


POST_CONTRACTS = (
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
    """Raise AssertionError unless two maps agree on these rows."""
    require_close(
        one(x), other(x), "the same rows of both maps", rtol=ROUNDING, atol=ROUNDING
    )


def check_fit_gives_an_affine_map_of_its_rank(post: PostProcessor) -> None:
    """A fit on moments gives an `Affine` that states the rank of its image."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x)
    require(isinstance(transform, Affine), "an Affine", type(transform).__name__)
    left = transform(x) - transform(x).mean(axis=0)
    rank = int(np.linalg.matrix_rank(left, rtol=ROUNDING))  # nulled up to rounding
    require_equal(transform.rank, rank, "the rank")


def check_fit_on_rows_is_fit_on_their_moments(post: PostProcessor) -> None:
    """A fit on rows and one on their moments give the same map."""
    x = rows_to_fit_on(post)
    assert_same_map(fitted(post, x), fitted(post, Moments.of(x)), x)


def check_shards_fit_as_one(post: PostProcessor) -> None:
    """Moments of parts that are merged give the map of the whole."""
    x = rows_to_fit_on(post)
    shards = (Moments.of(part) for part in np.split(x, [1, 7, len(x) // 2]))
    assert_same_map(fitted(post, x), fitted(post, Moments.merged(shards)), x)


def check_the_order_of_rows_does_not_matter(post: PostProcessor) -> None:
    """A fit does not depend on the order of rows."""
    x = rows_to_fit_on(post)
    shuffled = np.random.default_rng(1).permutation(x)
    assert_same_map(fitted(post, x), fitted(post, shuffled), x)


def check_a_repeated_row_counts_again(post: PostProcessor) -> None:
    """A row that is repeated weighs as often as it is repeated."""
    x = rows_to_fit_on(post)
    repeats = np.random.default_rng(1).integers(1, 4, len(x))
    repeated, counted = np.repeat(x, repeats, axis=0), Moments.of(x, repeats)
    assert_same_map(fitted(post, repeated), fitted(post, counted), x)


def check_a_fit_does_not_write_into_shared_moments(post: PostProcessor) -> None:
    """A fit does not write into moments, which other cells use too."""
    moments = Moments.of(rows_to_fit_on(post))
    principal, uncentred = moments.principal, moments.principal_uncentred
    directions = (
        principal.values,
        principal.vectors,
        uncentred.values,
        uncentred.vectors,
    )
    with untouched(moments.mean, moments.scatter, *directions):
        fitted(post, moments)


MOMENT_CONTRACTS = (
    check_a_fit_does_not_write_into_shared_moments,
    check_fit_gives_an_affine_map_of_its_rank,
    check_fit_on_rows_is_fit_on_their_moments,
    check_shards_fit_as_one,
    check_the_order_of_rows_does_not_matter,
    check_a_repeated_row_counts_again,
)


# --- chains of post-processors -------------------------------------------------------------------


def check_a_measured_chain_gives_the_same_finite_scores_again(method: Method) -> None:
    """A chain of post-processors gives finite scores, and the same again for the same seed."""
    view, pairs = view_of(rows_to_fit_on(*method.post))
    task = Task(
        "t",
        lambda *_: pairs,
        ("test",),
        ("test",),
        "correlation",
        "none",
        "raw",
        geometry=True,
    )
    data = FitCorpusVectors(view.matrix[view.rows(pairs.sentences)])
    first, again = (
        measure(
            task, pairs, view, fit(method, data, np.random.default_rng(1)), lambda: 0.0
        )
        for _ in range(2)
    )
    require_equal(again.scores, first.scores, "the scores")
    require_finite(first.values, "values")
    numbers = [first.scores["spearman"]["wmean"], first.scores["uniformity"]]
    require(None not in numbers, "scores that are defined", numbers)
    require_finite(np.array(numbers, dtype=np.float64), "scores")


def check_a_chain_from_moments_is_the_chain_from_rows(method: Method) -> None:
    """A chain that is fitted on moments is the chain that is fitted on the rows."""
    view, pairs = view_of(rows_to_fit_on(*method.post))
    moments, _ = view.moments("target", pairs.sentences)
    results = []
    for fitted_on in (moments, view.matrix[view.rows(pairs.sentences)]):
        vectors = view.matrix
        for transform in fit(
            method, FitCorpusVectors(fitted_on), np.random.default_rng(0)
        ):
            vectors = transform(vectors)
        results.append(vectors)
    same = "the same rows from moments as from rows"
    require_close(results[0], results[1], same, rtol=ROUNDING, atol=ROUNDING)


CHAIN_CONTRACTS = (check_a_measured_chain_gives_the_same_finite_scores_again,)
MOMENT_CHAIN_CONTRACTS = (check_a_chain_from_moments_is_the_chain_from_rows,)
