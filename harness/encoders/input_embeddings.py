"""A transformer's input embedding matrix read as a table of word vectors: `bert-base.input`.

Row i of the matrix is the vector of token i before position, segment and layer norm are added. A
word that the tokenizer keeps whole has its row; one that it splits into pieces has none, as a word
that a file of word vectors lacks. So Li et al. (2020, arXiv 2011.05864, Table 1) look at BERT's
word embeddings; what they do with words that BERT splits, they do not say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import UsageError
from harness.core.files import Sha256, digest_of, sha256_of
from harness.core.hardware import Hardware, require_float32
from harness.core.interfaces import Encoding, Identity
from harness.encoders.kernels.choose import PLAIN
from harness.encoders.native import DerivedConfig
from harness.encoders.transformer import TransformerConfig
from harness.encoders.word_vectors import AverageEncoder

# Part of every key: raise it with any change that moves a vector.
INPUT_VERSION = "1: mean over the rows of whole words in float64; no whole word is the zero vector"


@dataclass(frozen=True)
class InputConfig(DerivedConfig):
    """An average of the rows of a transformer's input embedding matrix.

    Args:
        of: The transformer.

    Examples:
        >>> from harness import load_registry
        >>> load_registry().parse("bert-mini.input").encoder.of.name
        'bert-mini'
    """

    def on(self, hardware: Hardware) -> InputConfig:
        """This encoder, on the processor and in float32 whatever the device."""
        require_float32(f"{self.name}.input", hardware)
        return self

    def identify(self, path: Path, sha256: Sha256 = sha256_of) -> Identity:
        """The digests of the transformer's files, and a key of its own.

        Raises UsageError where it is no transformer, not in float32, or cut at a length.
        """
        base = self._transformer().identify(path, sha256)
        key = digest_of({"version": INPUT_VERSION, "encoder": base.key})
        return replace(base, key=key, max_length=None)

    def load(self, path: Path, cache: Path, *, sha256: Sha256 = sha256_of) -> InputEncoder:
        """The encoder, ready. Raises UsageError for a tokenizer that does not tell words apart."""
        of = self._transformer()
        whole: Any = of.load(path, cache, sha256=sha256, choice=PLAIN, device="cpu")
        tokenizer, matrix = whole.tokenizer.tokenizer, whole.plain.model.get_input_embeddings()
        if not tokenizer.is_fast:
            raise UsageError(
                f"{self.name}.input: wanted a tokenizer that tells words apart, found a "
                f"{type(tokenizer).__name__}; take mean"
            )
        vectors = matrix.weight.detach().float().numpy()
        return InputEncoder(self.name, self.identify(path, sha256).key, vectors, tokenizer)

    def _transformer(self) -> TransformerConfig:
        """The transformer. Raises UsageError for what has no such matrix, or asks for a length."""
        if not isinstance(self.of, TransformerConfig):
            raise UsageError(
                f"{self.name}.input: wanted a transformer, found a {type(self.of).__name__}, whose "
                "input embeddings are not read; take mean"
            )
        if ":" in self.name:
            name = self.name.partition(":")[0]
            raise UsageError(f"{self.name}.input: whole texts are averaged; take {name}.input")
        require_float32(f"{self.name}.input", self.of.hardware)
        return self.of


@dataclass(frozen=True, eq=False)
class InputEncoder(AverageEncoder):
    """A loaded input embedding matrix, with the tokenizer that numbers its rows."""

    tokenizer: Any = field(repr=False)

    def look_up(self, texts: Sequence[str]) -> Iterator[tuple[list[int], int]]:
        """The rows of the words that are one token and known, and how many words there are."""
        if not texts:
            return
        unknown = self.tokenizer.unk_token_id
        found = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        for number, ids in enumerate(found["input_ids"]):
            words: dict[int, list[int]] = {}
            for word, token in zip(found.word_ids(number), ids, strict=True):
                words.setdefault(word, []).append(token)
            yield [w[0] for w in words.values() if len(w) == 1 and w[0] != unknown], len(words)

    def encode(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> Encoding:
        """One vector a text, in order."""
        averaged = super().encode(texts, progress=progress)
        vectors = np.ascontiguousarray(averaged.mean[:, 0])
        return replace(averaged, layers=(), mean=averaged.mean[:, :0], native=vectors)
