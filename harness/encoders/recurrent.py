"""Means over the words of texts that a network reads in context: ELMo and CoVe.

The rule on states: a recurrent network starts from zeros for each text, in both
directions. So what a text gets depends on no text before it, nor on its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from harness.core.arrays import Float32
from harness.core.interfaces import Encoding
from harness.encoders.kernels.choose import batches

# Words of a batch; the gates of 1,024 words of the largest ELMo take 67 MB.
BATCH_WORDS = 1024

# From the words of texts, all of one length, to the mean of each layer over the words of
# each text.
Network = Callable[[Sequence[Sequence[str]]], Float32[np.ndarray, "N L D"]]


def encoding_by(
    network: Network, texts: Sequence[Sequence[str]], *, layers: int, dimensions: int
) -> Encoding:
    """The mean of each layer over the words of each text; zeros for a text without words.

    Args:
        network: The network.
        texts: The words of each text.
        layers: The number of the network's layers.
        dimensions: The size of the vectors of each layer.
    """
    mean = np.zeros((len(texts), layers, dimensions), np.float32)
    filled_rows = [row for row, words in enumerate(texts) if words]
    lengths = [len(texts[row]) for row in filled_rows]
    for batch in batches(lengths, BATCH_WORDS, equal=True):
        rows = [filled_rows[number] for number in batch]
        mean[rows] = network([texts[row] for row in rows])
    return Encoding(layers=tuple(range(layers)), depth=layers - 1, mean=mean)
