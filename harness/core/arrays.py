"""Annotations of arrays with their shapes, which the tests check: `Float32[np.ndarray, "N D"]`.

They are jaxtyping's where it was imported before, as the tests do to check them, and for a type
checker. Elsewhere nobody evaluates them, and to import it takes longer than most commands run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Float32, Float64, Int, Int32, Int64, Num, UInt8
else:

    class _Unchecked:
        def __class_getitem__(cls, _: Any) -> Any:
            return Any

    Bool = Float = Float32 = Float64 = Int = Int32 = Int64 = Num = UInt8 = _Unchecked

__all__ = ["Bool", "Float", "Float32", "Float64", "Int", "Int32", "Int64", "Num", "UInt8"]
