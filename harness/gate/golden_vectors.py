"""Golden vectors: what an encoder makes of 32 fixed sentences, to tell it from everything after it.

They are the token means of the last layer, or what the model's own modules make of it (of
`minilm.native`), always encoded afresh and never from the cache, whose
vectors may be of another day. A few kilobytes an encoder,
`<results>/records/golden/<encoder>.safetensors`, with the encoder's key and the platform in the
metadata.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float, Float32
from harness.core.errors import DataError
from harness.core.files import file_name, text_digest, write_atomically
from harness.core.interfaces import EncoderConfig
from harness.core.metrics import directions
from harness.core.provenance import code_digest, environment
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import MethodId
from harness.gate.drift import GOLDEN_ACROSS_PLATFORMS, GOLDEN_SAME_PLATFORM, platform
from harness.results.layout import RECORDS
from harness.results.records import Cell, Store, sidecar_metadata
from harness.transforms.pooling import INPUT, NATIVE


@dataclass(frozen=True, eq=False)
class Golden:
    """The vectors of the golden sentences, whose they are (`subject`), and what made them.

    `code` is the digest of the sources; older files do not say it.
    """

    encoder: str
    key: str
    platform: Mapping[str, Any]
    sentences: str
    vectors: Float32[np.ndarray, "N D"]
    code: str = ""


@dataclass(frozen=True)
class Drift:
    """Golden vectors against the committed ones: the largest move of a normalised coordinate.

    `reason` says why there is none, or that another encoder was asked.
    """

    largest: float | None
    tolerance: float
    reason: str = ""

    @property
    def moved(self) -> bool:
        """Beyond the tolerance, or not the same encoder."""
        return bool(self.reason) or self.largest is None or not self.largest <= self.tolerance

    def __str__(self) -> str:
        found = "" if self.largest is None else f"{self.largest:.1e}, tolerance {self.tolerance:g}"
        return "; ".join(part for part in (self.reason, found) if part)


@cache
def sentences() -> tuple[str, ...]:
    """The golden sentences."""
    text = Path(__file__).with_name("golden_vectors.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["sentences"])


def subject(method: str) -> str:
    """The subject of a method's golden vectors: its encoder, or another reading of its files."""
    parts = MethodId.parse(method)
    if parts is not None and parts.pooling.partition(":")[0] in (INPUT.name, NATIVE.name):
        return f"{parts.encoder}.{parts.pooling}"
    return method.partition(".")[0]


def encode_encoder(name: str, config: EncoderConfig, places: Places) -> Golden:
    """Load an encoder and pass the golden sentences through it. Raises AssetMissing without it."""
    encoder = config.load(places.encoder(config), places.cache)
    encoding = encoder.encode(sentences())
    vectors = encoding.native
    if vectors is None:
        vectors = encoding.mean[:, encoding.layers.index(encoding.depth)]
    made = environment() | {"device": encoder.facts.get("device", "cpu")}
    here, asked = platform(made), text_digest(sentences())
    kept = np.ascontiguousarray(vectors)
    return Golden(name, encoder.key, here, asked, kept, code_digest())


def settings_that_differ(encoder: str) -> str:
    """The name under which the reason for missing vectors is noted."""
    return f"golden vectors of {encoder}"


def golden_path(results: Path, encoder: str) -> Path:
    """Where an encoder's golden vectors stand or would stand."""
    return results / RECORDS / "golden" / f"{file_name(encoder)}.safetensors"


def write_golden(results: Path, golden: Golden) -> None:
    """Store golden vectors, whole or not at all."""
    about = {
        "encoder": golden.encoder,
        "key": golden.key,
        "platform": json.dumps(golden.platform, sort_keys=True),
        "sentences": golden.sentences,
        "code": golden.code,
    }
    write_tensors(golden_path(results, golden.encoder), {"vectors": golden.vectors}, about)


def read_golden(results: Path, encoder: str) -> Golden | None:
    """An encoder's golden vectors, or None. Raises DataError for a file that holds none."""
    path = golden_path(results, encoder)
    if not path.exists():
        return None
    file = TensorFile.parse(path)
    vectors = file.read("vectors") if file else None
    if file is None or vectors is None:
        raise DataError(f"{path} holds no golden vectors (it was cut or changed); delete it")
    about = file.metadata
    try:
        made = json.loads(about["platform"])
        named = (about["encoder"], about["key"], made, about["sentences"])
        golden = Golden(*named, vectors, about.get("code", ""))
    except (KeyError, ValueError, RecursionError) as error:
        raise DataError(f"{path} holds no golden vectors ({error}); delete it") from None
    if vectors.dtype != np.float32 or vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise DataError(f"{path}: wanted finite float32 vectors, found others; delete it")
    return golden


def encoder_drift(committed: Golden, found: Golden) -> Drift:
    """How far the encoder has moved."""
    same = committed.platform == found.platform
    tolerance = GOLDEN_SAME_PLATFORM if same else GOLDEN_ACROSS_PLATFORMS
    if committed.sentences != found.sentences:
        return Drift(None, tolerance, "other golden sentences")
    if committed.vectors.shape != found.vectors.shape:
        shapes = f"{found.vectors.shape[1]} dimensions, committed {committed.vectors.shape[1]}"
        return Drift(None, tolerance, shapes)
    largest = float(
        np.abs(directions(committed.vectors) - directions(found.vectors)).max(initial=0.0)
    )
    other = committed.key != found.key
    return Drift(
        largest, tolerance, "other weights, tokenizer, modules or settings" if other else ""
    )


MOST = 10

# Similarities that agree to here are the same: encoders repeat their coordinates to 4e-7, and a
# calibration may stretch that.
SAME = 1e-5


@dataclass(frozen=True)
class PairMove:
    """One pair, counted from 1: its similarity and its rank (mid-ranks for ties), then and now."""

    pair: int
    committed: float
    measured: float
    committed_rank: float
    measured_rank: float
    texts: tuple[str, str] | None = None

    def __str__(self) -> str:
        texts = "" if self.texts is None else f"  {self.texts[0]!r} | {self.texts[1]!r}"
        return (
            f"pair {self.pair}: similarity {self.committed:.4f} -> {self.measured:.4f}, "
            f"rank {self.committed_rank:g} -> {self.measured_rank:g}{texts}"
        )


def pair_path(results: Path, cell: Cell) -> Path:
    """Where the committed similarities of a cell stand or would stand."""
    return (results / RECORDS).joinpath("quick", *cell.names).with_suffix(".safetensors")


def read_pairs(results: Path, cell: Cell) -> Float[np.ndarray, " P"] | None:
    """The committed similarities of a cell, or None where there are no whole ones."""
    file = TensorFile.parse(pair_path(results, cell))
    return file.read("cosine") if file else None


def promote_pairs(cell: Cell, runs: Path, committed: Path) -> bool:
    """Copy a cell's similarities from a run; those that agree stay as they are."""
    source, target = Store(runs).path(cell).with_suffix(".safetensors"), pair_path(committed, cell)
    new, old = Store(runs).cosines(cell), read_pairs(committed, cell)
    if new is None:
        return False
    if (
        old is not None
        and _measured_with(source) == _measured_with(target)
        and old.shape == new.shape
        and np.abs(old - new).max(initial=0.0) <= SAME
    ):
        return False
    write_atomically(target, source.read_bytes())
    return True


def _measured_with(path: Path) -> dict[str, str]:
    """A sidecar's identity but for the code."""
    return {k: v for k, v in (sidecar_metadata(path) or {}).items() if k != "code"}


def most_moved(
    committed: Float[np.ndarray, " P"], measured: Float[np.ndarray, " P"], most: int = MOST
) -> tuple[PairMove, ...]:
    """The pairs whose rank moved, most moved first."""
    from scipy.stats import rankdata

    old, new = rankdata(committed), rankdata(measured)
    moves = np.abs(new - old)
    order = [i for i in np.argsort(-moves, kind="stable")[:most] if moves[i] > 0]
    return tuple(
        PairMove(int(i) + 1, float(committed[i]), float(measured[i]), float(old[i]), float(new[i]))
        for i in order
    )
