"""Arrays: annotations of their shapes, and arrays that nobody can write into.

The tests check the annotations: `Float32[np.ndarray, "N D"]`. They are jaxtyping's
where it was imported before, as the tests do to check them, and for a type checker.
Elsewhere nobody evaluates them, and to import it takes longer than most commands run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Float32, Float64, Int, Int32, Int64, Num, UInt8
else:

    class _Unchecked:
        def __class_getitem__(cls, _: Any) -> Any:
            return Any

    Bool = Float = Float32 = Float64 = Int = Int32 = Int64 = Num = UInt8 = _Unchecked

__all__ = [
    "Bool", "Float", "Float32", "Float64", "Int", "Int32", "Int64", "Num", "UInt8",
    "read_only", "read_only_view",
]  # fmt: skip

Array = TypeVar("Array", bound=np.ndarray)


def read_only(x: Array) -> Array:
    """The array itself, which is read-only from now on, as are the arrays that it is a view of.

    For an array that cells share: whoever writes into it would move the scores of the
    others.
    """
    owner: Any = x
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
    return x


def read_only_view(x: Array) -> Array:
    """A read-only view of an array that stays its owner's to write into."""
    view = x.view()
    view.flags.writeable = False
    return view
