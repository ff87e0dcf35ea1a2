import numpy as np
import pytest
from jaxtyping import TypeCheckError

from harness.core.arrays import read_only, read_only_view
from harness.evaluation.bootstrap import interval_and_p
from harness.transforms.affine import Affine

# What loads every module that annotates a shape, short of those that import torch.


def test_shapes_are_checked_while_tests_run():
    affine = Affine(np.zeros(2), np.eye(2), rank=2)
    with pytest.raises(TypeCheckError):
        interval_and_p(np.zeros(3), np.zeros(4))
    with pytest.raises(TypeCheckError):
        affine(np.zeros(2))
    with pytest.raises(TypeCheckError):
        affine(np.zeros((3, 2), dtype=int))


def test_an_array_is_read_only_with_all_that_it_is_a_view_of():
    owner = np.zeros((4, 3))
    view = owner[:, 1:].T[0]
    assert read_only(view) is view
    for x in (view, owner, owner[0]):
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1


def test_a_read_only_view_leaves_its_owner_alone():
    owner = np.zeros(3)
    view = read_only_view(owner)
    with pytest.raises(ValueError, match="read-only"):
        view += 1
    owner += 1
    assert view.tolist() == [1, 1, 1]
