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
from harness.core.files import Sha256, digest_of, sha256_of
from harness.core.hardware import Hardware, require_float32
from harness.core.interfaces import Encoding, Identity, LocalFiles, Source, VectorFile
from harness.core.provenance import extra
from harness.encoders.checkpoint import convert_once, read_json, require_weights
from harness.encoders.config import BaseConfig
from harness.encoders.kernels.choose import batches
from harness.encoders.word_tokenizer import PENN, Tokeniser

BATCH_WORDS = 1024  # a step's gates of 4 x 4096 numbers for each word take 67 MB
UNKNOWN = -1  # in the place of a row: a word without a vector

Recurrent = TypeVar("Recurrent", bound="RecurrentConfig")
# Words of texts, longest first, to the mean states of all layers.
Network = Callable[[Sequence[Sequence[Any]]], Float32[np.ndarray, "B L D"]]


@dataclass(frozen=True)
class RecurrentConfig(BaseConfig):
    """A recurrent network over words: its name, its files, and the rule that splits text.

    Args:
        name: Its id in the grammar of methods.
        file: Its place in the data folder; None where a path is given by hand.
        tokeniser: The rule that splits a text into words.
        max_length: Words that texts are cut to; None cuts nothing.
        weights_sha256: The digest that the weights must have, or how it begins, if given.
        hardware: The device and the words of a batch; the precision is always float32.
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

    def loaded(
        self,
        key: str,
        read: Callable[[str], Sequence[Any]],
        network: Network,
        depth: int,
        dimensions: int,
    ) -> RecurrentEncoder:
        """The encoder of a loaded network."""
        return RecurrentEncoder(
            name=self.name,
            key=key,
            read=read,
            network=network,
            depth=depth,
            dimensions=dimensions,
            max_length=self.max_length,
            batch_words=self.hardware.batch_tokens or BATCH_WORDS,
            facts={"device": self.hardware.device, "dtype": self.hardware.dtype},
        )


@dataclass(frozen=True, eq=False)
class RecurrentEncoder:
    """A loaded network over words. No summary token, no pooler.

    `read` splits a text into the network's words, UNKNOWN for one without a vector. Layer 0 holds
    the vectors of the words without context, the last is layer `depth`.
    """

    name: str
    key: str
    read: Callable[[str], Sequence[Any]] = field(repr=False)
    network: Network = field(repr=False)
    depth: int
    dimensions: int
    max_length: int | None
    batch_words: int
    facts: Mapping[str, Any] = field(repr=False)

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The mean of each layer over the words of each text.

        A text without words is the zero vector, as an average of word vectors is. Raises ScoreError
        for a state that is not finite.
        """
        words = [self.read(text)[: self.max_length] for text in texts]
        filled = [row for row, part in enumerate(words) if len(part)]
        mean = np.zeros((len(texts), self.depth + 1, self.dimensions), np.float32)
        counts = [(len(part), sum(word != UNKNOWN for word in part)) for part in words]
        for batch in batches([len(words[row]) for row in filled], self.batch_words):
            rows = [filled[number] for number in batch]
            mean[rows] = self.network([words[row] for row in rows])
            finite = np.isfinite(mean[rows]).all(axis=(1, 2))
            if not finite.all():
                raise ScoreError(
                    f"{self.name}: wanted finite numbers, found others in the encoding of text "
                    f"{rows[int(finite.argmin())]}; look for damaged weights"
                )
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

    def identify(self, path: Path, sha256: Sha256 = sha256_of) -> Identity:
        """The key and digests of a folder, without torch; `sha256` may be memoised."""
        options, weights = (self._file(path, pattern) for pattern in (OPTIONS, WEIGHTS))
        Options.read(options)
        digests = {"weights": sha256(weights), "config": sha256(options)}
        return self.identity(ENCODING_VERSION, weights, digests)

    def load(self, path: Path, cache: Path, *, sha256: Sha256 = sha256_of) -> RecurrentEncoder:
        """The encoder, ready. Raises DataError for weights that do not fit the options."""
        identity = self.identify(path, sha256)
        options, weights = Options.read(self._file(path, OPTIONS)), self._file(path, WEIGHTS)

        from harness.encoders.kernels.bilm import read_network

        tensors = read_hdf5(weights, identity.digests["weights"], cache)
        options.require_shapes(self.name, weights, tensors)
        clips = options.cell_clip, options.state_clip
        network = read_network(tensors, options.activation, clips, self.hardware.device)
        sizes = options.layers, 2 * options.projection
        return self.loaded(identity.key, self.tokeniser.words, network, *sizes)

    def _file(self, folder: Path, pattern: str) -> Path:
        """The only file of a folder with such a name."""
        if not folder.is_dir():
            raise AssetMissing(f"{self.name}: no folder at {folder}; fetch it, or name another one")
        files = sorted(folder.glob(pattern))
        if len(files) != 1:
            raise DataError(
                f"{self.name}: wanted one file {pattern} in {folder}, found {len(files)}; fetch "
                "both files of one model into a folder of their own"
            )
        return files[0]


LETTERS_OF_A_WORD = 50  # bytes, its beginning and end included
CHARACTERS = 261  # ids: 256 bytes, the ends of sentences and words, padding
PARTS = ("CNN", "RNN", "char")  # arrays named so must all be known; others are ignored


@dataclass(frozen=True)
class Options:
    """The sizes of a model, as AllenNLP's `options.json` states them.

    Attributes:
        filters: Width and number of the filters of each convolution over characters.
        highways: The number of highway layers.
        activation: Of the convolutions: `relu` or `tanh`.
        characters: The dimensions of a character's vector.
        cell: The dimensions of an LSTM's memory.
        projection: The dimensions of its state.
        layers: The number of LSTM layers.
        cell_clip: The largest absolute value of a memory; 0 for none.
        state_clip: The largest absolute value of a projected state; 0 for none.
    """

    filters: tuple[tuple[int, int], ...]
    highways: int
    activation: str
    characters: int
    cell: int
    projection: int
    layers: int
    cell_clip: float
    state_clip: float

    @classmethod
    def read(cls, path: Path) -> Options:
        """The options of a file. Raises DataError for a model that is none of AllenNLP's."""
        content = read_json(path)
        try:
            lstm, cnn = content["lstm"], content["char_cnn"]
            options = cls(
                filters=tuple((int(width), int(number)) for width, number in cnn["filters"]),
                highways=int(cnn["n_highway"]),
                activation=str(cnn["activation"]),
                characters=int(cnn["embedding"]["dim"]),
                cell=int(lstm["dim"]),
                projection=int(lstm["projection_dim"]),
                layers=int(lstm["n_layers"]),
                cell_clip=float(lstm["cell_clip"] or 0),
                state_clip=float(lstm["proj_clip"] or 0),
            )
            letters, skip = cnn["max_characters_per_token"], lstm["use_skip_connections"]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}: wanted the options of an ELMo model, found {error!r}; fetch it again"
            ) from error
        for name, value, allowed in (
            ("lstm.use_skip_connections", bool(skip), (True,)),
            ("char_cnn.max_characters_per_token", letters, (LETTERS_OF_A_WORD,)),
            ("char_cnn.activation", options.activation, ("relu", "tanh")),
        ):
            if value not in allowed:
                raise DataError(f"{path}: wanted {name} = {allowed[0]!r}, found {value!r}")
        return options

    def require_shapes(self, name: str, path: Path, tensors: Mapping[str, Any]) -> None:
        """Refuse arrays that are missing, too many, or of other sizes. Raises DataError."""
        wanted = self._shapes()
        found = {key: tuple(array.shape) for key, array in tensors.items()}
        present = {key for key in found if key.startswith(PARTS)}
        unlike = sorted(k for k in present | set(wanted) if found.get(k) != wanted.get(k))
        if unlike:
            key = unlike[0]
            raise DataError(
                f"{name}: wanted {key} of shape {wanted.get(key, 'none')} in {path}, found "
                f"{found.get(key, 'none')}; options and weights do not belong together: fetch both "
                "again"
            )

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array of the weights."""
        size, width = self.projection, sum(number for _, number in self.filters)
        shapes: dict[str, tuple[int, ...]] = {"char_embed": (CHARACTERS, self.characters)}
        for n, (places, number) in enumerate(self.filters):
            shapes[f"CNN/W_cnn_{n}"] = (1, places, self.characters, number)
            shapes[f"CNN/b_cnn_{n}"] = (number,)
        for n in range(self.highways):
            for part in ("transform", "carry"):
                shapes[f"CNN_high_{n}/W_{part}"] = (width, width)
                shapes[f"CNN_high_{n}/b_{part}"] = (width,)
        shapes |= {"CNN_proj/W_proj": (width, size), "CNN_proj/b_proj": (size,)}
        for direction in (0, 1):
            for layer in range(self.layers):
                cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                shapes[f"{cell}/W_0"] = (2 * size, 4 * self.cell)
                shapes[f"{cell}/B"] = (4 * self.cell,)
                shapes[f"{cell}/W_P_0"] = (self.cell, size)
        return shapes


DEEPEST = 16  # of groups in groups, which may hold themselves
MOST_BYTES = 4 * 2**30  # of all arrays, unpacked: a small file may claim to hold any number


def read_hdf5(path: Path, digest: str, cache: Path) -> dict[str, Any]:
    """Every array of an HDF5 file in float32, by its path: `CNN/W_cnn_0`.

    `cache` keeps the safetensors form of the file with this digest, for which h5py is not needed.
    Raises DataError for anything but arrays of numbers, UsageError where h5py is missing.
    """
    from safetensors.torch import load_file

    return load_file(convert_once(cache, digest, lambda new: _convert(path, new)))


def _convert(path: Path, new: Path) -> None:
    from safetensors.numpy import save_file

    with extra("elmo"):
        import h5py
    try:
        with h5py.File(path, "r") as file:
            arrays = dict(_arrays(path, file, h5py))
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


def _arrays(path: Path, group: Any, h5py: Any) -> Iterator[tuple[str, Any]]:
    """The arrays below a group that lie in the file itself, none of them read yet."""
    for name in group:
        where = f"{group.name.rstrip('/')}/{name}"[1:]
        is_link = not isinstance(group.get(name, getlink=True), h5py.HardLink)
        item: Any = None if is_link else group[name]
        if isinstance(item, h5py.Group) and where.count("/") < DEEPEST:
            yield from _arrays(path, item, h5py)
            continue
        stored = isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external)
        if not stored or item.dtype.kind != "f":
            raise DataError(f"{path}: wanted arrays of numbers in the file itself, found {where!r}")
        yield where, item
