"""CoVe: the encoder of a translation model over GloVe vectors, from the file of its authors.

McCann et al. 2017, arXiv 1708.00107, github.com/salesforce/cove (`MTLSTM`). The weights are a
two-layer bidirectional LSTM; the vectors of GloVe 840 B lie beside them. Layer 0 is GloVe, twice
side by side so that all layers have 600 dimensions; layer 1 is the first LSTM, layer 2 is CoVe. As
its authors advise, a word that GloVe lacks is a zero vector, which the network reads; all words
count in the means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.errors import AssetMissing, UsageError
from harness.core.files import Sha256, digest_of, sha256_of
from harness.core.interfaces import Identity, Source, VectorFile
from harness.encoders.checkpoint import read_tensors, require_weights
from harness.encoders.elmo import BATCH_WORDS, UNKNOWN, RecurrentConfig, RecurrentEncoder
from harness.encoders.word_vector_files import read_cached
from harness.encoders.word_vectors import first_rows

# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = "1: float32; unknown words are read as zeros; means over all words"


@dataclass(frozen=True)
class CoveConfig(RecurrentConfig):
    """A translation encoder over word vectors: its weights, and the vectors beside them.

    Args:
        vectors: The file of word vectors, in the data folder; beside weights given by hand.
        vectors_sha256: The digest that the vectors must have, if given.

    Raises:
        UsageError: The weights have no place in the data folder.

    Examples:
        >>> from harness.encoders.cove import CoveConfig
        >>> str(CoveConfig("cove", "vectors/lstm.pth", vectors="vectors/glove.txt").source)
        'vectors/lstm.pth and vectors/glove.txt'
    """

    vectors: str = field(kw_only=True)
    vectors_sha256: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file is None:
            raise UsageError(f"{self.name}: wanted a place of the weights in the data folder")

    @property
    def source(self) -> Source:
        """The weights and the vectors in the data folder."""
        return VectorFile(str(self.file), self.weights_sha256, self.vectors)

    def identify(self, path: Path, sha256: Sha256 = sha256_of) -> Identity:
        """The key and digests of the two files, without torch; `sha256` may be memoised."""
        if not path.is_file():
            raise AssetMissing(f"{self.name}: no weights at {path}; fetch them, or name the file")
        vectors = self._vectors(path)
        digests = {"weights": sha256(path), "vectors": sha256(vectors)}
        self.require_weights(path, digests["weights"])
        if self.vectors_sha256 is not None:
            require_weights(self.name, vectors, self.vectors_sha256, digests["vectors"])
        facts = {"version": ENCODING_VERSION, "max_length": self.max_length}
        facts["tokeniser"] = repr(self.tokeniser)
        return Identity(digest_of({**facts, **digests}), digests, self.max_length)

    def load(self, path: Path, cache: Path, *, sha256: Sha256 = sha256_of) -> RecurrentEncoder:
        """The encoder, ready. The weights are unpickled, and text is parsed, once."""
        identity = self.identify(path, sha256)
        words, vectors = read_cached(self._vectors(path), identity.digests["vectors"], cache)
        tensors = read_tensors((path,), identity.digests["weights"], cache)

        from harness.encoders.kernels.mt_lstm import read_network

        network = read_network(self.name, path, tensors, vectors, self.hardware.device)
        return RecurrentEncoder(
            name=self.name,
            key=identity.key,
            read=self._reader(first_rows(words)),
            network=network,
            depth=network.depth,
            dimensions=network.dimensions,
            max_length=self.max_length,
            batch_words=self.hardware.batch_tokens or BATCH_WORDS,
            facts={"device": self.hardware.device, "dtype": self.hardware.dtype},
        )

    def _reader(self, rows: dict[str, int]) -> Callable[[str], Sequence[int]]:
        """What splits a text into the rows of its words."""
        tokeniser = self.tokeniser

        def read(text: str) -> list[int]:
            found = (tokeniser.row(word, rows) for word in tokeniser.words(text))
            return [UNKNOWN if row is None else row for row in found]

        return read

    def _vectors(self, path: Path) -> Path:
        file = path.parent / Path(self.vectors).name
        if not file.is_file():
            raise AssetMissing(
                f"{self.name}: no word vectors at {file}; fetch them, or put them beside the "
                "weights"
            )
        return file
