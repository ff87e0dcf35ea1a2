"""ELMo, and what all encoders share that run recurrent networks over the words of a text.

Peters et al. 2018, arXiv 1802.05365. The weights are AllenNLP's, as published: `*options.json` and
`*weights.hdf5` in a folder; `kernels/bilm.py` is the forward pass. A text is split into words,
whose states are averaged in each layer. The networks start from zeros for each text, so that texts
never see each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from harness.core.arrays import Float32
from harness.core.errors import AssetMissing, DataError, ScoreError
from harness.core.files import digest_of, sha256_of
from harness.core.hardware import Hardware, require_float32
from harness.core.interfaces import Encoding, Identity, LocalFiles, Source, VectorFile
from harness.core.provenance import extra
from harness.encoders.checkpoint import convert_once, read_settings, require_weights
from harness.encoders.config import BaseConfig
from harness.encoders.kernels.choose import batches
from harness.encoders.word_tokenizer import PENN, Tokeniser

BATCH_WORDS = 1024  # a step's gates of 4 x 4096 numbers for each word take 67 MB
UNKNOWN = -1  # in the place of a row: a word without a vector

Recurrent = TypeVar("Recurrent", bound="RecurrentConfig")


@dataclass(frozen=True)
class RecurrentConfig(BaseConfig):
    """A recurrent network over words: its name, its files, and the rule that splits text.

    `file` is its place in the data folder, None where a path is given by hand; texts are cut to
    `max_length` words; the weights must have the digest `weights_sha256`, or one that begins so.
    """

    file: str | None = None
    tokeniser: Tokeniser = PENN
    max_length: int | None = None
    weights_sha256: str | None = None
    hardware: Hardware = field(default=Hardware(), repr=False)

    @property
    def source(self) -> Source:
        """The place in the data folder that its files come from."""
        if self.file:
            return VectorFile(self.file, self.weights_sha256)
        return LocalFiles(self.weights_sha256)

    def on(self: Recurrent, hardware: Hardware) -> Recurrent:
        """This encoder on a device, in float32."""
        require_float32(self.name, hardware)
        return replace(self, hardware=hardware)

    def identity(self, version: str, weights: Path, digests: Mapping[str, str]) -> Identity:
        """The identity behind the digests of the files, of which the weights are checked."""
        require_weights(self.name, weights, self.weights_sha256, digests["weights"])
        facts = {"version": version, "max_length": self.max_length}
        facts["tokeniser"] = repr(self.tokeniser)
        return Identity(digest_of({**facts, **digests}), digests, self.max_length)


@dataclass(frozen=True, eq=False)
class RecurrentEncoder:
    """A loaded network over words. No summary token, no pooler.

    `read` splits a text into the network's words, UNKNOWN for one without a vector; `network` takes
    the words of texts, longest first, to the mean states of all layers. Layer 0 holds the vectors
    of the words without context, the last is layer `depth`.
    """

    config: RecurrentConfig
    key: str
    read: Callable[[str], Sequence[Any]] = field(repr=False)
    network: Callable[[Sequence[Sequence[Any]]], Float32[np.ndarray, "B L D"]] = field(repr=False)
    depth: int
    dimensions: int

    @property
    def facts(self) -> Mapping[str, Any]:
        """Device and precision, for records."""
        return {"device": self.config.hardware.device, "dtype": self.config.hardware.dtype}

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The mean of each layer over the words of each text.

        A text without words is the zero vector, as an average of word vectors is. Raises ScoreError
        for a state that is not finite.
        """
        words = [self.read(text)[: self.config.max_length] for text in texts]
        filled = [row for row, part in enumerate(words) if len(part)]
        mean = np.zeros((len(texts), self.depth + 1, self.dimensions), np.float32)
        most = self.config.hardware.batch_tokens or BATCH_WORDS
        for batch in batches([len(words[row]) for row in filled], most):
            rows = [filled[number] for number in batch]
            mean[rows] = self.network([words[row] for row in rows])
            finite = np.isfinite(mean[rows]).all(axis=(1, 2))
            if not finite.all():
                raise ScoreError(
                    f"{self.config.name}: wanted finite numbers, found others in the encoding of "
                    f"text {rows[int(finite.argmin())]}; look for damaged weights"
                )
        counts = [(len(part), sum(word != UNKNOWN for word in part)) for part in words]
        tokens = np.array(counts, np.float32).reshape(len(texts), 2)
        return Encoding(tuple(range(self.depth + 1)), self.depth, mean, tokens=tokens)


# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = "1: float32; each text from zeros; means over words without boundaries"

OPTIONS, WEIGHTS = "*options.json", "*weights.hdf5"


@dataclass(frozen=True)
class ElmoConfig(RecurrentConfig):
    """An ELMo model in a folder of `*options.json` and `*weights.hdf5`.

    Examples:
        >>> from harness.encoders.elmo import ElmoConfig
        >>> str(ElmoConfig("elmo", "elmo/original").source)
        'elmo/original'
    """

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder, without torch."""
        options, weights = (self._file(path, pattern) for pattern in (OPTIONS, WEIGHTS))
        Options.read(options)
        digests = {"weights": sha256_of(weights), "config": sha256_of(options)}
        return self.identity(ENCODING_VERSION, weights, digests)

    def load(self, path: Path, cache: Path) -> RecurrentEncoder:
        """The encoder, ready. Raises DataError for weights that do not fit the options."""
        identity = self.identify(path)
        options, weights = Options.read(self._file(path, OPTIONS)), self._file(path, WEIGHTS)

        from safetensors.torch import load_file

        from harness.encoders.kernels.bilm import BidirectionalNetwork

        digest = identity.digests["weights"]
        tensors = load_file(convert_once(cache, digest, lambda new: convert_hdf5(weights, new)))
        options.require_shapes(self.name, weights, tensors)
        network = BidirectionalNetwork(tensors, options.clips, self.hardware.device)
        words, sizes = self.tokeniser.words, (options.layers, 2 * options.projection)
        return RecurrentEncoder(self, identity.key, words, network, *sizes)

    def _file(self, folder: Path, pattern: str) -> Path:
        """The only file of a folder with such a name."""
        files = sorted(folder.glob(pattern))
        if len(files) != 1:
            raise (DataError if files else AssetMissing)(
                f"{self.name}: wanted one file {pattern} in {folder}, found {len(files)}; fetch "
                "both files of one model into a folder of their own"
            )
        return files[0]


CHARACTERS = 261  # ids: 256 bytes, the ends of sentences and words, padding
PARTS = ("CNN", "RNN", "char")  # arrays named so must all be in the options; others are ignored


@dataclass(frozen=True)
class Options:
    """A model, as AllenNLP's `options.json` states it: sizes, and the shape of every array.

    `clips` are the largest absolute values of a memory and of a projected state, 0 for none.
    """

    projection: int
    layers: int
    clips: tuple[float, float]
    shapes: Mapping[str, tuple[int, ...]] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Options:
        """The options of a file. Raises DataError for a model that is none of AllenNLP's."""
        content = read_settings(path)
        try:
            lstm, cnn = content["lstm"], content["char_cnn"]
            settings = (
                ("lstm.use_skip_connections", bool(lstm["use_skip_connections"]), True),
                ("char_cnn.max_characters_per_token", cnn["max_characters_per_token"], 50),
                ("char_cnn.activation", cnn["activation"], "relu"),
            )
            clips = float(lstm["cell_clip"] or 0), float(lstm["proj_clip"] or 0)
            size, layers = int(lstm["projection_dim"]), int(lstm["n_layers"])
            options = cls(size, layers, clips, dict(_shapes(lstm, cnn)))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}: wanted the options of an ELMo model, found {error!r}; fetch it again"
            ) from error
        for name, value, published in settings:
            if value != published:
                raise DataError(f"{path}: wanted {name} = {published!r}, found {value!r}")
        return options

    def require_shapes(self, name: str, path: Path, tensors: Mapping[str, Any]) -> None:
        """Refuse arrays that are missing, too many, or of other sizes. Raises DataError."""
        shapes = {key: tuple(array.shape) for key, array in tensors.items()}
        present = {key for key in shapes if key.startswith(PARTS)}
        for key in sorted(present | {*self.shapes}):
            if shapes.get(key) != self.shapes.get(key):
                raise DataError(
                    f"{name}: wanted {key} of shape {self.shapes.get(key, 'none')} in {path}, "
                    f"found {shapes.get(key, 'none')}; options and weights do not belong together: "
                    "fetch both again"
                )


def _shapes(
    lstm: Mapping[str, Any], cnn: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    characters, cell, size = cnn["embedding"]["dim"], lstm["dim"], lstm["projection_dim"]
    width = sum(number for _, number in cnn["filters"])
    yield "char_embed", (CHARACTERS, characters)
    for n, (places, number) in enumerate(cnn["filters"]):
        yield f"CNN/W_cnn_{n}", (1, places, characters, number)
        yield f"CNN/b_cnn_{n}", (number,)
    for highway in (f"CNN_high_{n}" for n in range(cnn["n_highway"])):
        for part in ("transform", "carry"):
            yield f"{highway}/W_{part}", (width, width)
            yield f"{highway}/b_{part}", (width,)
    yield "CNN_proj/W_proj", (width, size)
    yield "CNN_proj/b_proj", (size,)
    for direction in (0, 1):
        for layer in range(lstm["n_layers"]):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield f"{name}/W_0", (2 * size, 4 * cell)
            yield f"{name}/B", (4 * cell,)
            yield f"{name}/W_P_0", (cell, size)


MOST_BYTES = 4 * 2**30  # of all arrays, unpacked: a small file may claim to hold any number


def convert_hdf5(path: Path, new: Path) -> None:
    """Write every array of an HDF5 file in float32 as safetensors, by its path: `CNN/W_cnn_0`.

    Links to other files are not followed. Raises DataError for anything but arrays of numbers,
    UsageError where h5py is missing.
    """
    from safetensors.numpy import save_file

    with extra("elmo"):
        import h5py
    arrays: dict[str, Any] = {}

    def collect(name: str, item: Any) -> None:
        if isinstance(item, h5py.Group):
            return
        stored = isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external)
        if not stored or item.dtype.kind != "f":
            raise DataError(f"{path}: wanted arrays of numbers in the file itself, found {name!r}")
        arrays[name] = item

    try:
        with h5py.File(path, "r") as file:
            file.visititems(collect)
            total = sum(array.size * 4 for array in arrays.values())
            if not arrays or total > MOST_BYTES:
                raise DataError(
                    f"{path}: wanted arrays of {MOST_BYTES} bytes at most, found {len(arrays)} of "
                    f"{total} bytes; fetch it again"
                )
            save_file({name: np.asarray(a[...], np.float32) for name, a in arrays.items()}, new)
    except (OSError, RuntimeError, KeyError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(
            f"{path}: wanted HDF5, found otherwise ({reason}); fetch it again"
        ) from error
