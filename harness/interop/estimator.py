"""Post-processors as transformers of scikit-learn, for pipelines, clones and searches."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (  # type: ignore[import-untyped]
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]

from harness.core.arrays import Float64
from harness.core.errors import ScoreError, UsageError
from harness.evaluation.embeddings import applied
from harness.evaluation.fits import fit
from harness.registry import load_registry


class Calibration(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A post-processor, or a chain of them, as a transformer of scikit-learn.

    Args:
        post: Post-processors as in the ids of methods, joined by `+`: `whitening:256`,
            `sn+natsv:6`.
        random_state: Seeds the generator of the fit.

    Attributes:
        transforms_: The fitted maps, in order.

    Raises:
        ValueError: The rows cannot be fitted, as scikit-learn raises it.

    Examples:
        >>> import numpy as np
        >>> from harness import Calibration
        >>> rows = np.random.default_rng(0).normal(size=(100, 8))
        >>> Calibration("whitening:4").fit_transform(rows).shape
        (100, 4)
    """

    # Any value is accepted here: scikit-learn wants parameters to be checked in `fit`.
    def __init__(self, post: Any, random_state: Any = 0) -> None:
        self.post = post
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Calibration:  # noqa: N803, ARG002 - scikit-learn's names
        """Fit on rows.

        Args:
            X: A matrix of n rows and D columns.
            y: Not used.

        Returns:
            This object, fitted.

        Raises:
            ValueError: The rows cannot be fitted.
            UsageError: There is no such post-processor.
        """
        rows = validate_data(self, X, dtype=(np.float64, np.float32))
        if not isinstance(self.post, str) or not self.post:
            raise UsageError(
                f"post: wanted post-processors joined by '+', found {self.post!r}"
            )
        posts = load_registry().parse_posts(self.post)
        rng = np.random.default_rng(self.random_state)
        try:
            self.transforms_ = fit(posts, rows, rng)
        except ScoreError as error:
            count, width = rows.shape
            raise ValueError(
                f"{error} (n_samples = {count}, n_features = {width})"
            ) from error
        self._n_features_out = self._mapped(rows[:1]).shape[1]
        return self

    def transform(self, X: Any) -> Float64[np.ndarray, "m K"]:  # noqa: N803 - scikit-learn's name
        """Map rows.

        Args:
            X: A matrix of m rows and D columns.

        Returns:
            A matrix of m rows and K columns.

        Raises:
            ValueError: The rows have another width, or hold a value that is not finite.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        return self._mapped(rows)

    def _mapped(self, rows: Any) -> Float64[np.ndarray, "m K"]:
        """The rows after all fitted maps."""
        for transform in self.transforms_:
            rows = applied(transform, rows)
        return np.array(rows, np.float64)
