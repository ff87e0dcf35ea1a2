"""ELMo: a bidirectional language model over characters, from the files that AllenNLP published.

Peters et al. 2018, arXiv 1802.05365. A folder holds `*options.json` and `*weights.hdf5`; the latter
becomes safetensors in the cache, once (extra `elmo`). Layer 0 is the character network's vector of
a word, twice side by side as in AllenNLP's code; layers 1 and 2 are the forward and the backward
LSTM. Means are over the words; the sentence's boundaries are read and left out, as there.

AllenNLP's module keeps the last state of a batch as the first of the next, so that its vectors
depend on what was encoded before and on how it was batched. Here each text starts from zeros, which
is AllenNLP's very first batch (`stateful = False` there): the vector of a text must not depend on
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.digests import Sha256, digest_of, sha256_of
from harness.core.errors import AssetMissing, DataError
from harness.core.interfaces import Identity
from harness.encoders.bilm_options import Options
from harness.encoders.recurrent import BATCH_WORDS, RecurrentConfig, RecurrentEncoder

# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = "1: float32; each text from zeros; means over words without boundaries"

OPTIONS, WEIGHTS = "*options.json", "*weights.hdf5"


@dataclass(frozen=True)
class ElmoConfig(RecurrentConfig):
    """An ELMo model in a folder of `*options.json` and `*weights.hdf5`.

    Examples:
        >>> from harness.encoders.bilm import ElmoConfig
        >>> str(ElmoConfig("elmo", "elmo/original").source)
        'elmo/original'
    """

    def identify(self, path: Path, sha256: Sha256 = sha256_of) -> Identity:
        """The key and digests of a folder, without torch; `sha256` may be memoised."""
        options, weights = _files(self.name, path)
        Options.read(options)
        digests = {"weights": sha256(weights), "config": sha256(options)}
        self.require_weights(weights, digests["weights"])
        facts = {"version": ENCODING_VERSION, "max_length": self.max_length}
        facts["tokeniser"] = repr(self.tokeniser)
        return Identity(digest_of({**facts, **digests}), digests, self.max_length)

    def load(self, path: Path, cache: Path, *, sha256: Sha256 = sha256_of) -> RecurrentEncoder:
        """The encoder, ready. Raises DataError for weights that do not fit the options."""
        identity = self.identify(path, sha256)
        file, weights = _files(self.name, path)
        options = Options.read(file)

        from harness.encoders.hdf5 import read_hdf5
        from harness.encoders.kernels.bilm import read_network

        tensors: Mapping[str, Any] = read_hdf5(weights, identity.digests["weights"], cache)
        return RecurrentEncoder(
            name=self.name,
            key=identity.key,
            read=self.tokeniser.words,
            network=read_network(self.name, weights, tensors, options, self.hardware.device),
            depth=options.layers,
            dimensions=2 * options.projection,
            max_length=self.max_length,
            batch_words=self.hardware.batch_tokens or BATCH_WORDS,
            facts={"device": self.hardware.device, "dtype": self.hardware.dtype},
        )


def _files(name: str, folder: Path) -> tuple[Path, Path]:
    """The options and the weights of a folder."""
    if not folder.is_dir():
        raise AssetMissing(f"{name}: no folder at {folder}; fetch it, or name another one")
    found = []
    for pattern in (OPTIONS, WEIGHTS):
        files = sorted(folder.glob(pattern))
        if len(files) != 1:
            raise DataError(
                f"{name}: wanted one file {pattern} in {folder}, found {len(files)}; fetch both "
                "files of one model into a folder of their own"
            )
        found.append(files[0])
    return found[0], found[1]
