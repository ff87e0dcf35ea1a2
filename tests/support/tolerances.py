"""How far apart float32 values are, in units of the largest magnitude.

The instruction set and the number of threads decide the order in which a sum is added
up. float32 rounds each step by up to 6e-8 of the value, so what the order changes grows
with the values. A small coordinate that is the difference of large terms keeps their
error: hence the largest one.
"""

import numpy as np

# With AVX2 and AVX-512, on 1 to 4 threads, the largest gap between two forward passes
# was 8e-7, and
# 1.5e-6 for a sum of 384 rows. A layer norm's epsilon of 1e-5 instead of 1e-12 moves 6e-6.
ROUNDING = 3e-6


def relative_gap(found, wanted):
    """The largest difference of two arrays, divided by the largest magnitude of `wanted`."""
    found, wanted = (np.asarray(values, np.float64) for values in (found, wanted))
    assert found.shape == wanted.shape
    difference = np.abs(found - wanted).max()
    return difference / np.abs(wanted).max() if difference else 0.0


def encoding_gap(found, wanted):
    """The largest relative gap of two encodings, which hold the same arrays."""
    pairs = [
        (getattr(found, name), getattr(wanted, name))
        for name in ("mean", "cls", "pooler")
    ]
    assert [a is None for a, _ in pairs] == [b is None for _, b in pairs]
    return np.max([relative_gap(a, b) for a, b in pairs if a is not None])
