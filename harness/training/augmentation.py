"""Discrete augmentations of a sentence: SimCSE's Table 1 compares them with dropout alone.

Gao et al. 2021, arXiv 2104.08821, section 3. Words are what blanks separate. The paper does not say
how counts are rounded, nor whether one view is augmented or both: here a count is rounded to the
nearest whole number, and `harness.training.contrastive` augments the second view.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from harness.core.errors import UsageError

FORM = re.compile(r"(crop|deletion):(one|\d+)")


@dataclass(frozen=True)
class Augmentation:
    """`crop:P`, `deletion:P` or `deletion:one`, which take P percent of the words, or one, away.

    A crop keeps a run of neighbouring words, a deletion takes words out at random; one word at
    least is left.

    Raises:
        UsageError: The name has another form, or takes everything away.
    """

    name: str

    def __post_init__(self) -> None:
        match = FORM.fullmatch(self.name)
        if match is None or self.name == "crop:one" or (match[2] != "one" and int(match[2]) > 99):
            raise UsageError(
                f"--augmentation {self.name}: wanted crop:P or deletion:P, P percent from 0 to 99, "
                "or deletion:one"
            )

    def __call__(self, text: str, rng: np.random.Generator) -> str:
        """The text without the words that are taken away."""
        words = text.split()
        kind, amount = self.name.split(":")
        taken = 1 if amount == "one" else round(len(words) * int(amount) / 100)
        left = max(1, len(words) - taken)
        if left >= len(words):
            return text
        if kind == "crop":
            start = int(rng.integers(len(words) - left + 1))
            return " ".join(words[start : start + left])
        kept = np.sort(rng.permutation(len(words))[:left])
        return " ".join(words[n] for n in kept)
