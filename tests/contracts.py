"""The laws that every plug-in is held to. Each states one; none knows a plug-in by name.

`cases` pairs them with everything a registry holds, so that a new file is held to all of them as
soon as it is there.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from specimens import dimensions, encoding, enough, rows, view_of, with_constants

from harness.assets import places as assets
from harness.core.errors import AssetMissing, HarnessError, ScoreError, UsageError
from harness.core.files import pairs_digest
from harness.core.interfaces import EncoderConfig, Pooling, PostProcessor
from harness.core.types import Method, Task, is_method_id
from harness.evaluation.evaluate import FitData, fit, measure
from harness.registry import TARGETS, Registry
from harness.report.bibtex import entries
from harness.transforms.affine import Affine, Moments

NOWHERE = Path("no-such-folder")

# Fits of one map on the same rows in another order differ by rounding (1e-16 a number), which the
# inverse of the smallest kept spread amplifies; what comes out is about 1.
ROUNDING = 1e-8


# Files that keep the laws, for those whose own does not.
POST, ENCODER, TASK = "baselines/whitening.py", "baselines/minilm.py", "harness/tasks/sts.py"


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

    def law(self) -> None:
        """Hold the plug-in to the law; a failure says it in words, and where it is kept."""
        try:
            self.check(*self.arguments)
        except Exception as error:
            words = self.check.__name__.removeprefix("check_").replace("_", " ")
            error.add_note(f"{self.name} breaks the law: {words}. {self.keeper} keeps it.")
            raise


def cases(registry: Registry) -> Iterator[Case]:
    """Every plug-in of a registry x every law of its kind."""
    methods, encoders = registry.methods, registry.encoders
    chains = {method.post: method for method in methods.values() if method.post}
    posts = extremes(post for chain in chains for post in chain)
    named = {"+" + "+".join(p.name for p in chain): method for chain, method in chains.items()}
    by_moments = {name: m for name, m in named.items() if all(p.from_moments for p in m.post)}
    files = {**registry.tasks, **registry.corpora}
    inside = {name for name, x in files.items() if assets.asset_named(x.asset).embedded}
    for plug_ins, laws, keeper, *further in (
        ({**posts, **registry.poolings}, VALUE_LAWS, POST),
        ({**encoders, **methods, **files}, FROZEN, POST),
        (registry.poolings, POOLING_LAWS, "harness/transforms/pooling.py"),
        (posts, POST_LAWS, POST),
        ({name: p for name, p in posts.items() if p.from_moments}, MOMENT_LAWS, POST),
        (named, CHAIN_LAWS, POST),
        (by_moments, MOMENT_CHAIN_LAWS, POST),
        (methods, METHOD_LAWS, POST, registry),
        (encoders, ENCODER_LAWS, ENCODER),
        ({**methods, **encoders, **registry.tasks}, CITED, ENCODER),
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


def assert_one_line(error: Exception, *words: str) -> None:
    """What a person can act on: one line, and these words in it."""
    text = str(error)
    assert text
    assert "\n" not in text
    assert all(word in text for word in words)


# --- configuration -------------------------------------------------------------------------------


def check_configuration_is_frozen(thing: Any) -> None:
    assert is_dataclass(thing)
    assert hash(thing) == hash(replace(thing))
    for field in fields(thing):
        with pytest.raises(AttributeError):
            setattr(thing, field.name, getattr(thing, field.name))


def check_its_repr_is_it(value: Any) -> None:
    kind = type(value)
    assert eval(repr(value), {kind.__name__: kind}) == value  # noqa: S307 - its own repr


def check_what_it_cites_is_in_the_bibliography(thing: Any) -> None:
    assert thing.cite in entries()


FROZEN = (check_configuration_is_frozen,)
VALUE_LAWS = (check_configuration_is_frozen, check_its_repr_is_it)
CITED = (check_what_it_cites_is_in_the_bibliography,)


# --- poolings ------------------------------------------------------------------------------------


def check_pooling_gives_one_finite_row_a_sentence(pooling: Pooling) -> None:
    whole = encoding()
    pooled = pooling(whole)
    assert pooled.shape == (len(whole), whole.mean.shape[2])
    assert pooled.dtype == np.float32
    assert np.isfinite(pooled).all()


def check_pooling_keeps_rows_apart(pooling: Pooling) -> None:
    whole, chosen = encoding(), np.array([3, 0])
    parts = {name: getattr(whole, name)[chosen] for name in ("mean", "cls", "pooler", "native")}
    np.testing.assert_array_equal(pooling(replace(whole, **parts)), pooling(whole)[chosen])


def check_pooling_reads_only_the_layers_it_wants(pooling: Pooling) -> None:
    whole = encoding()
    layers = pooling.hidden_states(whole.depth) or (whole.depth,)
    part = replace(whole, layers=layers, mean=whole.mean[:, list(layers)])
    np.testing.assert_array_equal(pooling(part), pooling(whole))


def check_pooling_refuses_an_encoding_without_its_part(pooling: Pooling) -> None:
    whole = encoding()
    bare = replace(whole, layers=(), mean=whole.mean[:, :0], cls=None, pooler=None, native=None)
    with pytest.raises(UsageError) as refusal:
        pooling(bare)
    assert_one_line(refusal.value, pooling.name)


POOLING_LAWS = (
    check_pooling_gives_one_finite_row_a_sentence,
    check_pooling_keeps_rows_apart,
    check_pooling_reads_only_the_layers_it_wants,
    check_pooling_refuses_an_encoding_without_its_part,
)


# --- post-processors -----------------------------------------------------------------------------


def fitted(post: PostProcessor, x: np.ndarray | Moments, seed: int = 0) -> Any:
    return post.fit(x, np.random.default_rng(seed))


def check_it_declares_what_the_engine_asks(post: PostProcessor) -> None:
    assert isinstance(post, PostProcessor)
    assert 0 < post.share <= 1
    assert not post.from_moments or post.share == 1  # moments are of whole corpora


def check_fit_changes_nothing(post: PostProcessor) -> None:
    x, before = enough(post), (repr(post), hash(post))
    kept = x.copy()
    fitted(post, x)
    assert (repr(post), hash(post)) == before
    np.testing.assert_array_equal(x, kept)


def check_the_same_seed_fits_the_same_map(post: PostProcessor) -> None:
    x = enough(post)
    np.testing.assert_array_equal(fitted(post, x, seed=1)(x), fitted(post, x, seed=1)(x))


def check_a_deterministic_fit_draws_nothing(post: PostProcessor) -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    post.fit(enough(post), rng)
    assert (rng.bit_generator.state == before) is post.deterministic


def check_a_map_keeps_rows_apart(post: PostProcessor) -> None:
    x = enough(post)
    transform = fitted(post, x)
    by_row = np.concatenate([transform(x[row : row + 1]) for row in range(5)])
    # Rounding alone: the products of one row and of many are summed in another order.
    np.testing.assert_allclose(by_row, transform(x)[:5], rtol=1e-10, atol=1e-12)


def check_a_map_is_a_pure_function(post: PostProcessor) -> None:
    x = enough(post)
    transform, kept = fitted(post, x), x.copy()
    np.testing.assert_array_equal(transform(x), transform(x))
    np.testing.assert_array_equal(x, kept)


def check_a_map_gives_finite_float64_of_one_width(post: PostProcessor) -> None:
    x = enough(post)
    transform = fitted(post, x)
    y = transform(x)
    assert y.dtype == np.float64
    assert np.isfinite(y).all()
    assert y.shape == (len(x), transform(x[:1]).shape[1])
    assert transform(x[:0]).shape == (0, y.shape[1])


def check_equal_rows_are_refused(post: PostProcessor) -> None:
    row = rows(1, dimensions(post))
    for count in (1, 2, 7, 100):
        for dtype in (np.float32, np.float64):
            with pytest.raises(ScoreError) as refusal:
                fitted(post, np.repeat(row.astype(dtype) * np.pi, count, axis=0))
            assert_one_line(refusal.value)


def check_no_rows_are_refused(post: PostProcessor) -> None:
    with pytest.raises(ScoreError) as refusal:
        fitted(post, rows(0, dimensions(post)))
    assert_one_line(refusal.value, "no sentences")


def check_a_value_that_is_not_finite_is_refused(post: PostProcessor) -> None:
    for value in (np.nan, np.inf):
        x = enough(post)
        x[3, 1] = value
        with pytest.raises(ScoreError) as refusal:
            fitted(post, x)
        assert_one_line(refusal.value, "row 3", "not finite")


def check_noise_in_a_constant_coordinate_stays_small(post: PostProcessor) -> None:
    x = enough(post)
    noise = 1e-7 * rows(len(x), 3, seed=1)
    quiet, noisy = with_constants(x), with_constants(x, noise)
    transform = fitted(post, quiet)
    # What went in is below 1e-6. A spread that is rounding noise itself would divide it by 1e-17.
    assert np.abs(transform(noisy) - transform(quiet)).max() < 1e-6


def check_noise_in_a_constant_coordinate_is_not_fitted(post: PostProcessor) -> None:
    x = enough(post)
    noise = 1e-7 * rows(len(x), 3, seed=1)
    quiet, noisy = (with_constants(x, n) for n in (0.0, noise))
    one, other = fitted(post, quiet)(quiet), fitted(post, noisy)(noisy)
    assert one.shape == other.shape
    # Inner products, since a map is as good turned. Noise of 1e-7 moves them by as little, times
    # the inverse of the smallest spread; a coordinate that is divided by its noise adds 1 and more.
    np.testing.assert_allclose(one @ one[:5].T, other @ other[:5].T, atol=1e-3)


def check_few_rows_give_a_finite_map_or_a_refusal(post: PostProcessor) -> None:
    for count in (2, 3, 10):
        x = rows(count, dimensions(post))
        try:
            transform = fitted(post, x)
        except ScoreError as refusal:
            assert_one_line(refusal)
        else:
            assert np.isfinite(transform(rows(20, x.shape[1], seed=1))).all()


POST_LAWS = (
    check_it_declares_what_the_engine_asks,
    check_fit_changes_nothing,
    check_the_same_seed_fits_the_same_map,
    check_a_deterministic_fit_draws_nothing,
    check_a_map_keeps_rows_apart,
    check_a_map_is_a_pure_function,
    check_a_map_gives_finite_float64_of_one_width,
    check_equal_rows_are_refused,
    check_no_rows_are_refused,
    check_a_value_that_is_not_finite_is_refused,
    check_noise_in_a_constant_coordinate_stays_small,
    check_noise_in_a_constant_coordinate_is_not_fitted,
    check_few_rows_give_a_finite_map_or_a_refusal,
)


# --- post-processors that need no more than a mean and a covariance ------------------------------


def assert_same_map(one: Any, other: Any, x: np.ndarray) -> None:
    np.testing.assert_allclose(one(x), other(x), rtol=ROUNDING, atol=ROUNDING)


def check_fit_gives_an_affine_map_of_its_rank(post: PostProcessor) -> None:
    x = enough(post)
    transform = fitted(post, x)
    assert isinstance(transform, Affine)
    left = transform(x) - transform(x).mean(axis=0)
    assert transform.rank == np.linalg.matrix_rank(left, rtol=ROUNDING)  # nulled up to rounding


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


MOMENT_LAWS = (
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
        measure(method, task, pairs, view, data, seed=1, clock=lambda: 0.0) for _ in range(2)
    )
    assert first.scores == again.scores
    assert np.isfinite(first.cosines).all()
    assert np.isfinite([first.scores["spearman"]["wmean"], first.scores["uniformity"]]).all()


def check_a_chain_from_moments_is_the_chain_from_rows(method: Method) -> None:
    view, pairs = view_of(enough(*method.post))
    moments, _ = view.moments("target", pairs.sentences)
    results = []
    for fitted_on in (moments, view.matrix[view.rows(pairs.sentences)]):
        vectors = view.matrix
        for transform in fit(method, FitData(fitted_on), np.random.default_rng(0)):
            vectors = transform(vectors)
        results.append(vectors)
    np.testing.assert_allclose(*results, rtol=ROUNDING, atol=ROUNDING)


CHAIN_LAWS = (check_a_measured_chain_gives_the_same_finite_scores_again,)
MOMENT_CHAIN_LAWS = (check_a_chain_from_moments_is_the_chain_from_rows,)


# --- methods -------------------------------------------------------------------------------------


def check_its_id_parses_to_it(method: Method, registry: Registry) -> None:
    assert is_method_id(method.id)
    assert registry.parse(method.id) == method


def check_its_id_is_made_of_registered_parts(method: Method, registry: Registry) -> None:
    composed = replace(registry, methods={}).parse(method.id)
    assert repr(composed) == repr(method)


def check_its_corpus_is_known(method: Method, registry: Registry) -> None:
    assert method.fit_on in {None, *TARGETS, *registry.corpora}


def check_it_is_meant_for_some_task(method: Method, registry: Registry) -> None:
    for pattern in method.tasks:
        assert any(fnmatchcase(task, pattern) for task in registry.tasks)


METHOD_LAWS = (
    check_its_id_parses_to_it,
    check_its_id_is_made_of_registered_parts,
    check_its_corpus_is_known,
    check_it_is_meant_for_some_task,
)


# --- encoders ------------------------------------------------------------------------------------


def check_it_says_what_its_weights_are(encoder: EncoderConfig) -> None:
    assert isinstance(encoder, EncoderConfig)
    assert encoder.trained_on
    assert encoder.licence


def check_missing_weights_are_named_in_one_line(encoder: EncoderConfig) -> None:
    with pytest.raises(HarnessError) as refusal:
        encoder.identify(NOWHERE)
    assert_one_line(refusal.value, str(NOWHERE))


ENCODER_LAWS = (check_it_says_what_its_weights_are, check_missing_weights_are_named_in_one_line)


# --- tasks and corpora ---------------------------------------------------------------------------


def check_its_splits_hold_what_is_scored_and_trained_on(task: Task) -> None:
    assert task.scored
    assert {*task.scored, *([task.train] if task.train else [])} <= set(task.splits)


def check_another_split_is_wrong_usage(task: Task) -> None:
    with pytest.raises(UsageError) as refusal:
        task.load(NOWHERE, "no-such-split")
    assert_one_line(refusal.value, "no-such-split")


def check_only_graded_scores_have_a_scale(task: Task) -> None:
    ungraded = ("auc", "classification", "word-frequency")
    assert (task.graded is None) == (task.metric in ungraded)


def check_geometry_goes_with_correlation(task: Task) -> None:
    assert not task.geometry or task.metric == "correlation"


def check_it_names_its_licence(task: Task) -> None:
    assert task.licence


TASK_LAWS = (
    check_its_splits_hold_what_is_scored_and_trained_on,
    check_another_split_is_wrong_usage,
    check_only_graded_scores_have_a_scale,
    check_geometry_goes_with_correlation,
    check_it_names_its_licence,
)


def check_its_asset_says_how_to_get_it(thing: Any) -> None:
    (asset,) = (asset for asset in assets.DATA_ASSETS if asset.name == thing.asset)
    assert asset.get


def check_missing_files_are_named_in_one_line(thing: Any) -> None:
    read = thing.pairs if isinstance(thing, Task) else thing.sentences
    with pytest.raises(AssetMissing) as refusal:
        read(NOWHERE)
    assert_one_line(refusal.value, str(NOWHERE))


def check_it_needs_no_folder_and_is_the_same_again(thing: Any) -> None:
    read = thing.pairs if isinstance(thing, Task) else thing.sentences
    first, again = (read(NOWHERE) for _ in range(2))
    if isinstance(thing, Task):
        assert pairs_digest(first) == pairs_digest(again)
    else:
        assert list(islice(first, 50)) == list(islice(again, 50))


ASSET_LAWS = (check_its_asset_says_how_to_get_it,)
FILE_LAWS = (check_missing_files_are_named_in_one_line,)
EMBEDDED_LAWS = (check_it_needs_no_folder_and_is_the_same_again,)
