"""The interfaces of encoders, poolings and post-processors, and the sources of encoders.

A source names files; `harness.data.places` finds them on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from harness.core.arrays import Float, Float32, Float64, read_only
from harness.core.errors import ScoreError
from harness.core.hardware import Hardware

# Sources


@dataclass(frozen=True)
class MavenPackage:
    """A package of a Maven repository that holds a model in TensorFlow's files.

    Attributes:
        coordinates: Its group, artifact and version, with colons between them.
        sha256: The digest of its archive, a jar.
        member: The path in the archive of another one, whose files are the model's.
        download_size: The size of the archive, in bytes.
    """

    coordinates: str
    sha256: str
    member: str
    download_size: int

    @property
    def title(self) -> str:
        """Its artifact and version: the name of its archive, without the suffix."""
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}"

    def __str__(self) -> str:
        return f"Maven {self.coordinates}"


@dataclass(frozen=True)
class Hub:
    """A model repository on the Hugging Face hub.

    Attributes:
        repo: Its name, `owner/name`.
        revision: The pinned commit; None for the newest.
        sha256: The digest of the weights, where it is known.
        package: A folder of an installed package with the same files, which is
            preferred: `package/folder`.
        asset: The name that `harness fetch` takes, if it is not the encoder's.
        download_size: The approximate size of the files, in bytes.
        maven: A package with the same model, which is asked where the hub does not answer.
    """

    repo: str
    revision: str | None = None
    sha256: str | None = None
    package: str | None = None
    asset: str | None = None
    download_size: int | None = None
    maven: MavenPackage | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Where `harness fetch` looks for it, in order."""
        hub = f"hub {self.repo}"
        return (hub,) if self.maven is None else (hub, str(self.maven))

    def __str__(self) -> str:
        if self.revision is None:
            return f"{self.repo}, unpinned"
        return f"{self.repo}@{self.revision[:12]}"


@dataclass(frozen=True)
class Packaged:
    """Files in an installed package, whose code is never imported.

    Attributes:
        package: The package and a folder in it, `package/folder`.
        file: A file of the folder; None for the folder itself.
        sha256: The digest of the weights, where it is known.
    """

    package: str
    file: str | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        return f"package {self.package}"


@dataclass(frozen=True)
class VectorFile:
    """A file or folder of an encoder under the data folder, such as word vectors.

    Attributes:
        file: Its path under the data folder.
        sha256: Its digest, where it is known.
        companion: The path of a second file that the encoder reads, such as word
            counts.
    """

    file: str
    sha256: str | None = None
    companion: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of both files."""
        return (self.file,) if self.companion is None else (self.file, self.companion)

    def __str__(self) -> str:
        return " and ".join(self.files)


@dataclass(frozen=True)
class LocalFiles:
    """Files that a user names by `--encoder NAME=PATH`."""

    sha256: str | None = None

    def __str__(self) -> str:
        return "local files"


@dataclass(frozen=True)
class Trained:
    """A family of encoders that are trained on this machine, one for each seed.

    Attributes:
        recipe: The arguments of `harness train`, without the seed and the folders.
        family: The name of the family.
        folder: The family's folder among the trained encoders of the cache.
        seed: The seed of one member; None for the family itself, which has no files.
        on_the_spot: Whether a run that needs a member trains it.
    """

    recipe: str
    family: str
    folder: str
    seed: int | None = None
    on_the_spot: bool = False

    def __str__(self) -> str:
        return f"harness train {self.recipe}"


Source = Hub | Packaged | VectorFile | LocalFiles | Trained


# Encodings

# The shapes of an encoding's arrays: sentences, layers, numbers.
ENCODING_SHAPES = {
    "mean": "(N, L, D)",
    "layer_cls": "(N, L, D)",
    "layer_max": "(N, L, D)",
    "layer_weighted": "(N, L, D)",
    "layer_sep": "(N, L, D)",
    "cls": "(N, D)",
    "pooler": "(N, D)",
    "native": "(N, K)",
    "tokens": "(N, 2)",
    "lengths": "(N, 1)",
}


@dataclass(frozen=True, eq=False)
class Encoding:
    """Statistics over the tokens of N sentences in each layer, as the cache keeps them.

    A mean over layers commutes with the mean over tokens, so that every pooling can be
    computed from them, and the states of tokens are never stored. All poolings share an
    encoding, so that its arrays are made read-only.

    Attributes:
        layers: The numbers of the kept layers, ascending; 0 is the output of the
            embedding layer.
        depth: The number of the last layer.
        mean: The mean over the tokens, for each kept layer; [CLS] and [SEP] count as
            tokens, padding does not.
        layer_cls: The summary token of each kept layer; None where the encoder has none,
            or gives that of the last layer alone.
        layer_max: The largest value of each coordinate over the tokens, for each kept
            layer; None where the encoder was not asked for it.
        layer_weighted: The mean over the tokens of each kept layer in which the first token
            counts once, the second twice and so on; None where the encoder was not asked
            for it.
        layer_sep: The special token that ends a text, [SEP], in each kept layer; None
            where the encoder has none, or was not asked for it.
        cls: The last layer's summary token; None where the encoder has none.
        pooler: The output of the checkpoint's trained head over the summary token; None
            where there is none.
        native: The sentence vectors of a model under its own modules, or of its input
            embeddings; None where the encoder gives hidden states.
        tokens: The number of tokens of each sentence, and the number of tokens that
            have a vector; None where every token has one.
        lengths: The number of tokens of each sentence, special ones included, after it
            was cut; None where no encoder cuts it.

    Raises:
        ScoreError: An array has another number of rows or layers than `mean` or another
            number of axes, or holds no real numbers; or the layers are not those of
            `mean`.

    Examples:
        >>> import numpy as np
        >>> from harness import Encoding
        >>> encoding = Encoding(layers=(0, 4), depth=4, mean=np.zeros((3, 2, 256), np.float32))
        >>> len(encoding), encoding.cls is None
        (3, True)
    """

    layers: tuple[int, ...]
    depth: int
    mean: Float32[np.ndarray, "N L D"]
    cls: Float32[np.ndarray, "N D"] | None = None
    pooler: Float32[np.ndarray, "N D"] | None = None
    native: Float32[np.ndarray, "N K"] | None = None
    tokens: Float32[np.ndarray, "N 2"] | None = None
    layer_cls: Float32[np.ndarray, "N L D"] | None = None
    lengths: Float32[np.ndarray, "N 1"] | None = None
    layer_max: Float32[np.ndarray, "N L D"] | None = None
    layer_sep: Float32[np.ndarray, "N L D"] | None = None
    layer_weighted: Float32[np.ndarray, "N L D"] | None = None

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
                kind = getattr(array, "dtype", type(array).__name__)
                raise ScoreError(
                    f"an encoding's {name}: wanted an array of float32, found {kind}"
                )
            shared = 2 if ENCODING_SHAPES[name] == "(N, L, D)" else 1  # axes as in mean
            is_as_mean = array.shape[:shared] == self.mean.shape[:shared]
            if array.ndim != shared + 1 or not is_as_mean:
                raise ScoreError(
                    f"an encoding's {name}: wanted an array of shape {ENCODING_SHAPES[name]}, "
                    f"found shape {array.shape}"
                )
            read_only(array)
        is_of_mean = len(set(self.layers)) == len(self.layers) == self.mean.shape[1]
        if not is_of_mean or not set(self.layers) <= set(range(self.depth + 1)):
            raise ScoreError(
                f"an encoding's layers: wanted {self.mean.shape[1]} different layers as in mean, "
                f"of 0 to {self.depth}, found {self.layers}"
            )

    def __len__(self) -> int:
        return int(self.mean.shape[0])

    @property
    def arrays(self) -> dict[str, Float32[np.ndarray, "N ..."]]:
        """Its arrays by the names of their attributes, without those that are None."""
        arrays = {name: getattr(self, name) for name in ENCODING_SHAPES}
        return {name: array for name, array in arrays.items() if array is not None}


# Encoders


def native_encoding(
    vectors: Float32[np.ndarray, "N K"],
    tokens: Float32[np.ndarray, "N 2"] | None = None,
) -> Encoding:
    """The encoding of one vector a sentence, without hidden states."""
    no_layers = np.empty((len(vectors), 0, vectors.shape[1]), np.float32)
    return Encoding(layers=(), depth=0, mean=no_layers, native=vectors, tokens=tokens)


@dataclass(frozen=True)
class LengthGroup:
    """The encoders that differ in the length alone at which they cut texts.

    They give the same encoding of a text that none of them cuts.

    Attributes:
        key: The key of the encoder. An identity with another key, which was made of this
            one, is in no group.
        shared_key: The digest of everything that changes the output but the length.
    """

    key: str
    shared_key: str


@dataclass(frozen=True)
class Identity:
    """The digests of an encoder: two encoders are the same if their keys are equal.

    Attributes:
        key: The hex digest of everything that changes the output; the address of its
            cache.
        digests: The digests of its parts: `weights`, `tokenizer`, `config`.
        max_length: The length in tokens at which texts are cut; None without a limit.
        parameters: The number of parameters of the checkpoint; None where its files do
            not tell.
        length_group: The group of the same encoder with other maximum lengths, if its
            encodings of uncut texts serve them.
    """

    key: str
    digests: Mapping[str, str] = field(hash=False)
    max_length: int | None = None
    parameters: int | None = None
    length_group: LengthGroup | None = None

    @property
    def shared_key(self) -> str | None:
        """The key that it shares with itself under other maximum lengths; None for none."""
        group = self.length_group
        return group.shared_key if group and group.key == self.key else None


@runtime_checkable
class Encoder(Protocol):
    """A loaded encoder. The encoding of a text does not depend on the other texts.

    Examples:
        >>> from pathlib import Path
        >>> from harness import Places, load_registry
        >>> config = load_registry().encoders["glove-mini"]
        >>> encoder = config.load(Places(Path("cache")).encoder(config), Path("cache"))
        >>> encoder.encode(["A man is eating.", "Someone eats."]).mean.shape
        (2, 1, 100)
    """

    @property
    def key(self) -> str:
        """The hex digest of all that changes the output: weights, tokenizer, length, case."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Kernel, device and precision, for records; empty where they never vary."""

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The encoding of N texts, N rows in their order. A repeated text is encoded again.

        Raises:
            ScoreError: A hidden state is not finite.
        """


@runtime_checkable
class EncoderConfig(Protocol):
    """The configuration of an encoder, a frozen dataclass; its files are read by `load`.

    Examples:
        >>> from harness import load_registry
        >>> load_registry().encoders["bert-mini"].trained_on
        '1,000,000 sentences of English Wikipedia'
    """

    @property
    def name(self) -> str:
        """Its id in the grammar of methods: `minilm`, `bert-base:64`."""

    @property
    def trained_on(self) -> str:
        """The data that its weights were trained on, which may include scored sentences."""

    @property
    def cite(self) -> str:
        """The BibTeX key of the paper that its weights ask to cite."""

    @property
    def licence(self) -> str:
        """The licence of its weights."""

    @property
    def source(self) -> Source:
        """Where its files come from: the hub, a package, a vector file, or a training here."""

    def member(self, seed: int) -> EncoderConfig:
        """The encoder of a seed: a member of a family; any other encoder is itself."""

    def with_max_length(self, max_length: int) -> EncoderConfig:
        """The encoder that cuts texts at a number of tokens, special ones included.

        Its name says so: `bert-base:64`.

        Raises:
            UsageError: The encoder has no maximum length to set.
        """

    def on(self, hardware: Hardware) -> EncoderConfig:
        """The encoder on a device and in a precision, which is in its name if not float32.

        An example of such a name is `bert-base-bfloat16`.

        Raises:
            UsageError: The encoder has no precision to choose.
        """

    def identify(self, path: Path) -> Identity:
        """The identity of the files that `load` reads; torch is not imported.

        Args:
            path: The folder or file that holds them, as `Places.encoder` finds it.

        Raises:
            DataError: The files are not those that the configuration pins.
        """

    def load(self, path: Path, cache: Path) -> Encoder:
        """Read an encoder's files, and return the encoder.

        Its `key` must be the one that `identify` gives for the bytes that were read, or
        a run refuses it.

        Args:
            path: The folder or file that holds them, as `Places.encoder` finds it.
            cache: The folder into which a checkpoint in an old format may be converted.

        Raises:
            DataError: The files are not those that the configuration pins.
        """


# Poolings and post-processors


@runtime_checkable
class Pooling(Protocol):
    """A rule that makes one vector a sentence of an encoding: a frozen dataclass.

    A pooling that reads other statistics of its layers than the mean over tokens has the
    class attribute `statistics`, a tuple of names of an encoding's attributes, such as
    `("layer_cls",)`. The encoder is then asked for them.

    Examples:
        >>> import numpy as np
        >>> from harness import Encoding, load_registry
        >>> encoding = Encoding(layers=(0, 4), depth=4, mean=np.ones((3, 2, 256), np.float32))
        >>> load_registry().poolings["static-last"](encoding).shape
        (3, 256)
    """

    @property
    def name(self) -> str:
        """Its name in ids: `mean`, `first-last`."""

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The layers that it reads, ascending; none where it reads no layer.

        `depth` is the number of the encoder's last layer.

        Raises:
            UsageError: The encoder has too few layers.
        """

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        """The vectors of the sentences, one a row.

        Raises:
            UsageError: The encoding lacks a layer, a summary token or a pooler that
                this needs.
        """


@runtime_checkable
class Transform(Protocol):
    """A fitted post-processor: a pure function of vectors, one a row."""

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]:
        """Map m rows of D columns to m rows of K columns, in float64."""


@runtime_checkable
class PostProcessor(Protocol):
    """The configuration of a post-processor: a frozen dataclass with its settings.

    Examples:
        >>> import numpy as np
        >>> from harness import load_registry
        >>> rows = np.random.default_rng(0).normal(size=(100, 8))
        >>> whitening = load_registry().posts["whitening"](4)
        >>> whitened = whitening.fit(rows, np.random.default_rng(0))(rows)
        >>> bool(np.allclose(np.cov(whitened.T, bias=True), np.eye(4)))
        True
    """

    @property
    def name(self) -> str:
        """Its name in ids, with its argument: `natsv:6`."""

    @property
    def from_moments(self) -> bool:
        """Whether it is fitted on the mean and the covariance of the vectors alone.

        Then `fit` also accepts `Moments`, so that a corpus of any size can be read once
        without keeping its vectors, and returns an `Affine`.
        """

    @property
    def deterministic(self) -> bool:
        """Whether `fit` does not use its generator, so that one seed is enough."""

    @property
    def share(self) -> float:
        """The share of a corpus that a fit uses; below 1 if it stops before the end.

        Then only a random sample of that size is encoded, and `fit` is told its share
        by the keyword `share`.
        """

    @property
    def dropout(self) -> bool:
        """Whether it is fitted on encodings under dropout.

        The seed draws another mask for each occurrence of a sentence.
        """

    def fit(self, x: Any, rng: np.random.Generator) -> Transform:
        """Fit on rows; the configuration itself does not change.

        A post-processor whose fit takes minutes has the class attribute
        `reports_progress = True`. Then `fit` is also given `progress`, a `Progress`.

        Args:
            x: A matrix of n rows and D columns, or their `Moments` if `from_moments`.
            rng: The only source of randomness.

        Raises:
            ScoreError: There are too few rows, they are all equal, or a value is not
                finite.
        """
