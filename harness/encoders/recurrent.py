"""Encoders that read the words of a text in context, and average them: ELMo and CoVe.

The rule on states: a recurrent network starts from zeros for each text, in both
directions. So what a text gets depends on no text before it, nor on its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from harness.core.arrays import Float32
from harness.core.interfaces import Encoding
from harness.encoders.kernels.choose import batches
from harness.encoders.word_tokenizer import Tokeniser

# Words of a batch; the gates of 1,024 words of the largest ELMo take 67 MB.
BATCH_WORDS = 1024

# From the words of texts, the longest text first, to the mean of each layer over the
# words of each text.
Network = Callable[[Sequence[Sequence[str]]], Float32[np.ndarray, "N L D"]]


@dataclass(frozen=True, eq=False)
class RecurrentEncoder:
    """A loaded network over the words of a text; it has no summary token and no pooler.

    Attributes:
        key: The digest of everything that changes its vectors.
        tokeniser: The rule that splits a text into words.
        network: The network.
        layers: The number of its layers.
        dimensions: The size of the vectors of each layer.
    """

    key: str
    tokeniser: Tokeniser
    network: Network = field(repr=False)
    layers: int
    dimensions: int

    facts: ClassVar[Mapping[str, object]] = {}

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The mean of each layer over the words of each text; zeros for a text without words."""
        words = [self.tokeniser.words(text) for text in texts]
        shape = (len(texts), self.layers, self.dimensions)
        mean = np.zeros(shape, np.float32)
        filled_rows = [row for row, of_text in enumerate(words) if of_text]
        lengths = [len(words[row]) for row in filled_rows]
        for batch in batches(lengths, BATCH_WORDS):
            rows = [filled_rows[number] for number in batch]
            mean[rows] = self.network([words[row] for row in rows])
        layers = tuple(range(self.layers))
        return Encoding(layers=layers, depth=self.layers - 1, mean=mean)
