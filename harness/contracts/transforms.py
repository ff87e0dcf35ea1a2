"""The contracts of poolings, of post-processors and of chains of them.

The sample data of `samples` are small, and like real encodings have correlated
dimensions, a mean that is not 0, and constant dimensions.
"""

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
    pooled_pairs,
    rows,
    rows_to_fit_on,
    with_constants,
)
from harness.core.errors import ScoreError, UsageError
from harness.core.interfaces import Pooling, PostProcessor
from harness.core.types import Method, Task
from harness.evaluation.cell import fit, measure
from harness.evaluation.fit_vectors import FitCorpusVectors
from harness.transforms.affine import Affine, Moments

# Fits on the same rows in another order differ by rounding (1e-16 a number), which the
# inverse of the smallest kept deviation amplifies. The mapped numbers are about 1.
ROUNDING = 1e-8

# Poolings


def check_pooling_gives_one_finite_row_a_sentence(pooling: Pooling) -> None:
    """A pooling returns one row for each sentence, finite and in float32."""
    all_rows = encoding()
    pooled = pooling(all_rows)
    require_equal(pooled.shape, (len(all_rows), all_rows.mean.shape[2]), "the shape")
    require_equal(pooled.dtype, np.dtype(np.float32), "numbers of type")
    require_finite(pooled, "numbers")


def check_pooling_keeps_rows_apart(pooling: Pooling) -> None:
    """The vector of a sentence does not depend on the other sentences of an encoding."""
    all_rows = encoding()
    chosen = np.array([3, 0])
    chosen_rows = replace(
        all_rows,
        mean=all_rows.mean[chosen],
        cls=_rows_of(all_rows.cls, chosen),
        pooler=_rows_of(all_rows.pooler, chosen),
        native=_rows_of(all_rows.native, chosen),
    )
    require_close(
        pooling(chosen_rows),
        pooling(all_rows)[chosen],
        "rows that do not depend on the others",
    )


def _rows_of(x: np.ndarray | None, chosen: np.ndarray) -> np.ndarray | None:
    """The chosen rows of a part of an encoding; None if there is no such part."""
    if x is None:
        return None
    return x[chosen]


def check_pooling_reads_only_the_layers_it_wants(pooling: Pooling) -> None:
    """The layers that a pooling asks for are enough to compute it."""
    all_layers = encoding()
    layers = pooling.hidden_states(all_layers.depth) or (all_layers.depth,)
    read_layers = replace(
        all_layers, layers=layers, mean=all_layers.mean[:, list(layers)]
    )
    require_close(
        pooling(read_layers),
        pooling(all_layers),
        f"the same rows of the layers {layers} alone",
    )


def check_pooling_refuses_an_encoding_without_its_part(pooling: Pooling) -> None:
    """A pooling raises UsageError for an encoding that lacks what it reads."""
    full = encoding()
    empty = replace(
        full, layers=(), mean=full.mean[:, :0], cls=None, pooler=None, native=None
    )
    with refused(UsageError, pooling.name):
        pooling(empty)


def check_a_pooling_does_not_write_into_an_encoding(pooling: Pooling) -> None:
    """A pooling leaves the arrays of an encoding as they are."""
    shared_encoding = encoding()
    with untouched(*shared_encoding.arrays.values()):
        pooling(shared_encoding)


POOLING_CONTRACTS = (
    check_a_pooling_does_not_write_into_an_encoding,
    check_pooling_gives_one_finite_row_a_sentence,
    check_pooling_keeps_rows_apart,
    check_pooling_reads_only_the_layers_it_wants,
    check_pooling_refuses_an_encoding_without_its_part,
)


# Post-processors

POST_FIELDS = ("name", "from_moments", "deterministic", "share", "dropout", "fit")


def fitted(post: PostProcessor, x: np.ndarray | Moments, seed: int = 0) -> Any:
    """The post-processor, fitted with a generator of this seed."""
    transform = post.fit(x, np.random.default_rng(seed))
    require(callable(transform), "a map of rows from fit", type(transform).__name__)
    return transform


def check_it_declares_what_the_engine_asks(post: PostProcessor) -> None:
    """A post-processor has all attributes of one, and its `share` is above 0 and at most 1."""
    missing_fields = [name for name in POST_FIELDS if not hasattr(post, name)]
    requirement = f"the attributes {', '.join(POST_FIELDS)}"
    require(not missing_fields, requirement, f"no {', '.join(missing_fields)}")
    require(0 < post.share <= 1, "a share above 0 and at most 1", post.share)
    if post.from_moments:  # moments are of whole corpora
        require(post.share == 1, "the share 1, from moments", post.share)


def check_fit_changes_nothing(post: PostProcessor) -> None:
    """A fit changes neither the configuration nor the rows that it is fitted on."""
    x = rows_to_fit_on(post)
    x_before, settings_before = x.copy(), (repr(post), hash(post))
    fitted(post, x)
    settings = (repr(post), hash(post))
    require_equal(settings, settings_before, "the settings and their hash")
    require_close(x, x_before, "the rows as they were")


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
    first, second = fitted(post, x, seed=1), fitted(post, x, seed=1)
    require_close(first(x), second(x), "the same rows of both maps")


def check_a_deterministic_fit_draws_nothing(post: PostProcessor) -> None:
    """A fit draws random numbers if, and only if, it does not say that it is deterministic."""
    rng = np.random.default_rng(0)
    state_before = rng.bit_generator.state
    post.fit(rows_to_fit_on(post), rng)
    draws = rng.bit_generator.state != state_before
    if post.deterministic:
        require(not draws, "nothing drawn", "draws")
    else:
        require(draws, "something drawn, or deterministic = True", "none")


def check_a_map_keeps_rows_apart(post: PostProcessor) -> None:
    """The image of a row does not depend on the rows that are mapped with it."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x)
    together = transform(x)
    one_by_one = np.concatenate([transform(x[row : row + 1]) for row in range(5)])
    # The tolerance is for rounding: the products of one row and of many are summed in
    # another order. That a map gives float64 is another contract.
    rtol, atol = 1e-3, 1e-4
    if together.dtype == np.float64:
        rtol, atol = 1e-10, 1e-12
    requirement = "rows that do not depend on the others"
    require_close(one_by_one, together[:5], requirement, rtol=rtol, atol=atol)


def check_a_map_is_a_pure_function(post: PostProcessor) -> None:
    """A fitted map gives the same numbers when it is called again."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x)
    x_before = x.copy()
    require_close(transform(x), transform(x), "the same rows again")
    require_close(x, x_before, "the rows as they were")


def check_a_map_gives_finite_float64_of_one_width(post: PostProcessor) -> None:
    """A fitted map gives finite float64 of one width, also for no rows."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x)
    y = transform(x)
    require_finite(y, "numbers")
    require_equal(y.dtype, np.dtype(np.float64), "numbers of type")
    is_matrix = y.ndim == 2 and y.shape[1] > 0
    require(is_matrix, f"a matrix of {len(x)} rows", f"shape {y.shape}")
    require_equal(y.shape, (len(x), transform(x[:1]).shape[1]), "the shape")
    require_equal(transform(x[:0]).shape, (0, y.shape[1]), "of no rows the shape")


def check_equal_rows_are_refused(post: PostProcessor) -> None:
    """A fit raises ScoreError where all rows are equal."""
    # Times pi, so that sums of the numbers are rounded in both precisions.
    row = rows(1, dimensions(post)) * np.pi
    for count in (1, 2, 7, 100):
        for dtype in (np.float32, np.float64):
            equal_rows = np.repeat(row.astype(dtype), count, axis=0)
            with refused(ScoreError):
                fitted(post, equal_rows)


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
    constant, noisy = with_constants(x), with_constants(x, noise)
    transform = fitted(post, constant)
    # A map that wrongly divides by the deviation of a constant coordinate divides by
    # about 1e-17, so that the noise becomes much larger than 1e-6.
    amplified = float(np.abs(transform(noisy) - transform(constant)).max())
    require(amplified < 1e-6, "noise of 1e-7 to stay below 1e-6", f"{amplified:.3g}")


def check_noise_in_a_constant_coordinate_is_not_fitted(post: PostProcessor) -> None:
    """Rounding noise in a constant coordinate does not change what is fitted."""
    x = rows_to_fit_on(post)
    noise = 1e-7 * rows(len(x), 3, seed=1)
    constant, noisy = with_constants(x), with_constants(x, noise)
    mapped = fitted(post, constant)(constant)
    mapped_noisy = fitted(post, noisy)(noisy)
    require_equal(mapped_noisy.shape, mapped.shape, "with noise the shape")
    # Inner products are compared, since a fit determines a map up to a rotation. Noise
    # of 1e-7 moves them by about 1e-7 times the inverse of the smallest deviation. A
    # coordinate that is divided by its noise adds 1 and more.
    require_close(
        mapped_noisy @ mapped_noisy[:5].T,
        mapped @ mapped[:5].T,
        "the same inner products with noise of 1e-7",
        rtol=1e-7,
        atol=1e-3,
    )


def check_few_rows_give_a_finite_map_or_a_refusal(post: PostProcessor) -> None:
    """Few rows give a map with finite numbers, or ScoreError."""
    for count in (2, 3, 10):
        x = rows(count, dimensions(post))
        try:
            transform = fitted(post, x)
        except ScoreError as refusal:
            require_one_line(refusal)
        else:
            mapped = transform(rows(20, x.shape[1], seed=1))
            require_finite(mapped, f"numbers, fitted on {count},")


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


# Post-processors that are fitted on a mean and a covariance


def require_same_map(first: Any, second: Any, x: np.ndarray) -> None:
    """Raise AssertionError unless two maps agree on these rows."""
    requirement = "the same rows of both maps"
    require_close(first(x), second(x), requirement, rtol=ROUNDING, atol=ROUNDING)


def check_fit_gives_an_affine_map_of_its_rank(post: PostProcessor) -> None:
    """A fit on moments gives an `Affine` that states the rank of its image."""
    x = rows_to_fit_on(post)
    transform = fitted(post, x)
    require(isinstance(transform, Affine), "an Affine", type(transform).__name__)
    mapped = transform(x)
    centred = mapped - mapped.mean(axis=0)
    # Directions that the map takes out are 0 but for rounding.
    rank = int(np.linalg.matrix_rank(centred, rtol=ROUNDING))
    require_equal(transform.rank, rank, "the rank")


def check_fit_on_rows_is_fit_on_their_moments(post: PostProcessor) -> None:
    """A fit on rows and a fit on their moments give the same map."""
    x = rows_to_fit_on(post)
    require_same_map(fitted(post, x), fitted(post, Moments.of(x)), x)


def check_shards_fit_as_one(post: PostProcessor) -> None:
    """Moments of shards that are merged give the map of all rows."""
    x = rows_to_fit_on(post)
    moments = [Moments.of(shard) for shard in np.split(x, [1, 7, len(x) // 2])]
    require_same_map(fitted(post, x), fitted(post, Moments.merged(moments)), x)


def check_the_order_of_rows_does_not_matter(post: PostProcessor) -> None:
    """A fit does not depend on the order of rows."""
    x = rows_to_fit_on(post)
    shuffled = np.random.default_rng(1).permutation(x)
    require_same_map(fitted(post, x), fitted(post, shuffled), x)


def check_a_repeated_row_counts_again(post: PostProcessor) -> None:
    """A row that is repeated counts as often as it is repeated."""
    x = rows_to_fit_on(post)
    repeats = np.random.default_rng(1).integers(1, 4, len(x))
    repeated, counted = np.repeat(x, repeats, axis=0), Moments.of(x, repeats)
    require_same_map(fitted(post, repeated), fitted(post, counted), x)


def check_a_fit_does_not_write_into_shared_moments(post: PostProcessor) -> None:
    """A fit does not write into moments, which other cells use too."""
    moments = Moments.of(rows_to_fit_on(post))
    principal, uncentred = moments.principal, moments.principal_uncentred
    with untouched(
        moments.mean,
        moments.scatter,
        principal.values,
        principal.vectors,
        uncentred.values,
        uncentred.vectors,
    ):
        fitted(post, moments)


MOMENT_CONTRACTS = (
    check_a_fit_does_not_write_into_shared_moments,
    check_fit_gives_an_affine_map_of_its_rank,
    check_fit_on_rows_is_fit_on_their_moments,
    check_shards_fit_as_one,
    check_the_order_of_rows_does_not_matter,
    check_a_repeated_row_counts_again,
)


# Chains of post-processors


def check_a_measured_chain_gives_the_same_finite_scores_again(method: Method) -> None:
    """A chain of post-processors gives finite scores, and the same again for the same seed."""
    pooled, pairs = pooled_pairs(rows_to_fit_on(*method.post))
    task = Task(
        name="sample",
        load=lambda *_: pairs,
        splits=("test",),
        scored=("test",),
        metric="correlation",
        asset="none",
        text="raw",
        geometry=True,
    )
    fit_vectors = FitCorpusVectors(pooled.matrix[pooled.rows(pairs.sentences)])
    measurements = []
    for _ in range(2):
        transforms = fit(method, fit_vectors, np.random.default_rng(1))
        measurements.append(measure(task, pairs, pooled, transforms, lambda: 0.0))
    first, second = measurements
    require_equal(second.scores, first.scores, "the scores")
    require_finite(first.values, "values")
    scores = [first.scores["spearman"]["wmean"], first.scores["uniformity"]]
    require(None not in scores, "scores that are defined", scores)
    require_finite(np.array(scores, dtype=np.float64), "scores")


def check_a_chain_from_moments_is_the_chain_from_rows(method: Method) -> None:
    """A chain that is fitted on moments maps rows as the chain that is fitted on rows."""
    pooled, pairs = pooled_pairs(rows_to_fit_on(*method.post))
    moments, _ = pooled.moments("target", pairs.sentences)
    fit_rows = pooled.matrix[pooled.rows(pairs.sentences)]
    require_close(
        _mapped_by_chain(method, moments, pooled.matrix),
        _mapped_by_chain(method, fit_rows, pooled.matrix),
        "the same rows from moments as from rows",
        rtol=ROUNDING,
        atol=ROUNDING,
    )


def _mapped_by_chain(
    method: Method, fit_data: np.ndarray | Moments, x: np.ndarray
) -> np.ndarray:
    """The rows x after a method's chain of post-processors, which is fitted on `fit_data`."""
    fit_vectors = FitCorpusVectors(fit_data)
    for transform in fit(method, fit_vectors, np.random.default_rng(0)):
        x = transform(x)
    return x


CHAIN_CONTRACTS = (check_a_measured_chain_gives_the_same_finite_scores_again,)
MOMENT_CHAIN_CONTRACTS = (check_a_chain_from_moments_is_the_chain_from_rows,)
