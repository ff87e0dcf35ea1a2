"""What encoders, poolings and post-processors promise, and where an encoder's files come from.

A source only holds names; `harness.assets.places` finds the files on this machine.
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


def fixed_by(**pins: object) -> str:
    """The names of those pins that hold something, or `unpinned`."""
    return ", ".join(name for name, held in pins.items() if held) or "unpinned"


@dataclass(frozen=True)
class Hub:
    """A model repository on the Hugging Face hub: `owner/name`, at a pinned commit or at none."""

    repo: str
    revision: str | None = None
    sha256: str | None = None  # of the weights, where it is known
    package: str | None = None  # a folder in it carries the same files and goes first
    asset: str | None = (
        None  # the name that `harness fetch` takes, if not the encoder's
    )
    download_size: int | None = None  # roughly, in bytes

    def __str__(self) -> str:
        return (
            f"{self.repo}@{self.revision[:12]}"
            if self.revision
            else f"{self.repo}, unpinned"
        )


@dataclass(frozen=True)
class Packaged:
    """A folder, or a file in it, inside an installed package whose code is never imported."""

    package: str
    file: str | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        return f"package {self.package}"


@dataclass(frozen=True)
class VectorFile:
    """A file or folder of an encoder under the data folder, such as word vectors.

    `companion` is a second file that the encoder reads, such as word counts.
    """

    file: str
    sha256: str | None = None
    companion: str | None = None

    def __str__(self) -> str:
        return f"{self.file} and {self.companion}" if self.companion else self.file


@dataclass(frozen=True)
class LocalFiles:
    """Files that `--encoder NAME=PATH` names, and nothing else is known of."""

    sha256: str | None = None

    def __str__(self) -> str:
        return "local files"


@dataclass(frozen=True)
class Trained:
    """A training on this machine, of which every seed gives another encoder of the family."""

    recipe: str  # the arguments of `harness train`, without seed and folders
    family: str
    folder: str  # below the trained encoders of the cache
    seed: int | None = (
        None  # of one member; None is the family itself, which has no files
    )
    on_the_spot: bool = False  # whether a run that needs a member trains it

    def __str__(self) -> str:
        return f"harness train {self.recipe}"


Source = Hub | Packaged | VectorFile | LocalFiles | Trained


@dataclass(frozen=True, eq=False)
class Encoding:
    """The pooled hidden states that one encoder pass keeps of N sentences.

    A mean over layers commutes with the mean over tokens, so these serve every pooling
    and token states are never stored. All poolings share them: the arrays that it is
    made of are read-only from then on.

    Attributes:
        layers: The kept hidden states, ascending: 0 is the embedding layer's output.
        depth: The number of the last layer.
        mean: Masked token means of the kept layers, [CLS] and [SEP] included.
        cls: The last layer's summary token; None where the encoder has none.
        pooler: The checkpoint's own trained head over it; None where there is none.
        native: The one vector a sentence of a model's own modules, or of its input
            embeddings; None where the encoder gives hidden states.
        tokens: How many tokens each sentence has, and how many of them have a vector;
            None for an encoder that has one for every text.

    Raises:
        ScoreError: An array has another number of rows than `mean`, or holds no real
            numbers.

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

    def __post_init__(self) -> None:
        for name, x in self.arrays.items():
            if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
                kind = (
                    f"an array of {x.dtype}"
                    if isinstance(x, np.ndarray)
                    else type(x).__name__
                )
                raise ScoreError(
                    f"an encoding's {name}: wanted an array of float32, found {kind}"
                )
            if len(x) != len(self.mean):
                rows = f"wanted {len(self.mean)} rows as in mean, found {len(x)}"
                raise ScoreError(f"an encoding's {name}: {rows}")
            read_only(x)

    def __len__(self) -> int:
        return int(self.mean.shape[0])

    @property
    def arrays(self) -> dict[str, Float32[np.ndarray, "N ..."]]:
        """Those of its arrays that there are, by the name of the attribute."""
        names = ("mean", "cls", "pooler", "native", "tokens")
        return {name: x for name in names if (x := getattr(self, name)) is not None}


def native_encoding(
    vectors: Float32[np.ndarray, "N K"],
    tokens: Float32[np.ndarray, "N 2"] | None = None,
) -> Encoding:
    """The encoding of one vector a sentence, without hidden states."""
    no_layers = np.empty((len(vectors), 0, vectors.shape[1]), np.float32)
    return Encoding(layers=(), depth=0, mean=no_layers, native=vectors, tokens=tokens)


@dataclass(frozen=True)
class Identity:
    """The digests by which two encoders are known to be the same.

    Attributes:
        key: Hex digest of everything that changes the output; caches are addressed by
            it.
        digests: The digests that went into it, by what they are of: weights, tokenizer,
            config.
        max_length: The length that texts are cut to, in tokens; None where there is
            none.
        parameters: The number of parameters in the checkpoint; None where its files do
            not say.
    """

    key: str
    digests: Mapping[str, str] = field(hash=False)
    max_length: int | None = None
    parameters: int | None = None


@runtime_checkable
class Encoder(Protocol):
    """A loaded encoder. The row of a text does not depend on the other texts.

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
        """Hex digest of everything that changes the output: weights, tokenizer, length, case."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Kernel, device and precision of its passes, for records; empty where none varies."""

    def encode(self, texts: Sequence[str]) -> Encoding:
        """An encoding of N rows, in the order of the N texts; repetitions are encoded each time.

        Raises:
            ScoreError: A hidden state is not finite.
        """


@runtime_checkable
class EncoderConfig(Protocol):
    """The description of an encoder: a frozen dataclass, cheap to make. Loading is what costs.

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
        """The data that its weights have seen, since contamination must be visible."""

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
        """The encoder that a seed means: of a family another for each, else this one."""

    def with_max_length(self, max_length: int) -> EncoderConfig:
        """The encoder that cuts texts at so many tokens, special ones included: `bert-base:64`.

        Raises:
            UsageError: The encoder has no maximum length to set.
        """

    def on(self, hardware: Hardware) -> EncoderConfig:
        """The encoder on a device, and in a precision that its name says: `bert-base-bfloat16`.

        Raises:
            UsageError: The encoder has no precision to choose.
        """

    def identify(self, path: Path) -> Identity:
        """Digest an encoder's files, without importing torch: the identity of what `load` reads.

        Args:
            path: The folder or file that holds them, as `Places.encoder` finds it.

        Raises:
            DataError: The files are not those that the configuration pins.
        """

    def load(self, path: Path, cache: Path) -> Encoder:
        """Read an encoder's files, ready to encode.

        The encoder's `key` is that of `identify` for the very bytes that are read; else
        a run refuses it.

        Args:
            path: The folder or file that holds them, as `Places.encoder` finds it.
            cache: The folder into which a legacy checkpoint may be converted, once.

        Raises:
            DataError: The files are not those that the configuration pins.
        """


@runtime_checkable
class Pooling(Protocol):
    """A map from an encoding to one vector a sentence: a frozen dataclass.

    Examples:
        >>> import numpy as np
        >>> from harness import Encoding, load_registry
        >>> encoding = Encoding(layers=(0, 4), depth=4, mean=np.ones((3, 2, 256), np.float32))
        >>> load_registry().poolings["static-last"](encoding).shape
        (3, 256)
    """

    @property
    def name(self) -> str:
        """Its word in ids: `mean`, `first-last`."""

    def hidden_states(self, depth: int) -> tuple[int, ...]:
        """The layers that it averages in an encoder whose last layer has the number `depth`.

        Ascending; none where it reads the summary token.

        Raises:
            UsageError: The encoder has too few layers.
        """

    def __call__(self, encoding: Encoding) -> Float[np.ndarray, "N D"]:
        """A row for each sentence of an encoding.

        Raises:
            UsageError: The encoding lacks a layer, a summary token or a pooler that
                this needs.
        """


@runtime_checkable
class Transform(Protocol):
    """A fitted post-processor: a pure function of rows."""

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]:
        """Map m rows of D columns to m rows of K columns, in float64."""


@runtime_checkable
class PostProcessor(Protocol):
    """The configuration of a post-processor: a frozen dataclass of settings, nothing fitted.

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
        """Its word in ids, with its argument: `natsv:6`."""

    @property
    def from_moments(self) -> bool:
        """Whether a mean and a covariance are all that it is fitted from.

        Then `fit` also accepts `Moments`, and a corpus of any size streams.
        """

    @property
    def deterministic(self) -> bool:
        """Whether the generator is never drawn from, so that one seed is enough."""

    @property
    def share(self) -> float:
        """The share of a corpus that a fit sees; 1 but where it ends before the corpus does.

        Below 1, a random sample of that size is encoded, and `fit` is told by the
        keyword `share` how much it is given.
        """

    @property
    def dropout(self) -> bool:
        """Whether it is fitted on encodings with dropout, drawn by seed for each occurrence."""

    def fit(self, x: Any, rng: np.random.Generator) -> Transform:
        """Fit on rows; the configuration itself does not change.

        Args:
            x: A matrix of n rows and D columns, or their `Moments` if `from_moments`.
            rng: The only source of randomness.

        Raises:
            ScoreError: The rows have no direction, or too few, or a value is not
                finite.
        """
