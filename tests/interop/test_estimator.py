"""Every post-processor is a transformer of scikit-learn, by scikit-learn's own checks."""

import inspect

import numpy as np
import pytest
from fixtures import rest_slow
from refusals import refused
from sklearn.utils.estimator_checks import check_estimator

from harness.contracts.samples import rows
from harness.core.errors import UsageError
from harness.evaluation.fits import fit
from harness.interop.estimator import Calibration
from harness.registry import load_registry


def smallest(name, make):
    """The word of a post-processor, with the argument 1 where it needs one."""
    needed = [
        p for p in inspect.signature(make).parameters.values() if p.default is p.empty
    ]
    return f"{name}:1" if needed else name


OF_PAIRS = "natsv-first"  # which is no map of rows
POSTS = [
    smallest(*item) for item in load_registry().posts.items() if item[0] != OF_PAIRS
]
QUICK = ("sn", "natsv:1", "natsv-c:1", "whitening", "whitening:1", "sn+natsv:1")


@pytest.mark.filterwarnings(
    "ignore"
)  # of checks that are skipped, and of what they provoke
@pytest.mark.parametrize("post", rest_slow([*POSTS, *QUICK[-2:]], "flow", *QUICK))
def test_it_passes_the_checks_of_scikit_learn(post):
    found = check_estimator(Calibration(post), on_fail=None)
    failed = {c["check_name"]: c["exception"] for c in found if c["status"] == "failed"}
    assert not failed
    assert len(found) > 40


def test_a_map_of_pairs_is_refused():
    with refused(UsageError, "first sentence of each pair"):
        Calibration(f"{OF_PAIRS}:1").fit(rows(20, 4))


def test_it_is_the_map_that_a_method_fits():
    x = rows(100, 8)
    method = load_registry().parse("minilm.mean+sn+whitening:4@target")
    wanted = x
    for transform in fit(method.post, x, np.random.default_rng(0)):
        wanted = transform(wanted)
    np.testing.assert_array_equal(
        Calibration("sn+whitening:4").fit_transform(x), wanted
    )


def test_what_it_cannot_fit_or_does_not_know_is_refused():
    with pytest.raises(ValueError, match=r"n_samples = 5, n_features = 4"):
        Calibration("natsv:4").fit(rows(5, 4))
    with refused(UsageError, "did you mean whitening"):
        Calibration("whitning").fit(rows(5, 4))
    for post in ("", None, ("sn",)):
        with refused(UsageError, "wanted post-processors joined by"):
            Calibration(post).fit(rows(5, 4))
