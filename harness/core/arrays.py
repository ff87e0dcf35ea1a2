"""Arrays: annotations of their shapes, and read-only arrays.

The tests and the type checker check the annotations, `Float32[np.ndarray, "N D"]`, with
jaxtyping. Elsewhere they are not evaluated, and jaxtyping is not imported, since that
takes longer than most commands.
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
    """Make an array read-only, with the arrays that it is a view of, and return it.

    Cells share arrays, so that one that writes into them would change the scores of
    others.
    """
    owner: Any = x
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
    return x


def read_only_view(x: Array) -> Array:
    """A read-only view of an array, which itself stays writable."""
    view = x.view()
    view.flags.writeable = False
    return view
