"""Golden vectors: what an encoder makes of 32 fixed sentences, to tell it from everything after it.

They are the token means of the last layer, or what the model's own modules make of it
(of `minilm.native`), always encoded afresh and never from the cache. Their file is
`<results>/records/golden/<encoder>.safetensors`, with the encoder's key and the
platform.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float32
from harness.core.environment import environment
from harness.core.errors import DataError
from harness.core.files import file_name
from harness.core.interfaces import EncoderConfig
from harness.core.metrics import directions
from harness.core.provenance import code_digest, with_code
from harness.core.tensors import TensorFile, write_tensors
from harness.core.texts import text_digest
from harness.core.types import MethodId
from harness.gate.drift import platform
from harness.gate.outcome import PROMOTE, Checked, State
from harness.results.layout import GOLDEN, RECORDS
from harness.transforms.pooling import NATIVE

# The largest difference of a coordinate after normalisation. MiniLM's moves by 4e-7
# with threads, batches and instruction sets, and by 3e-4 with weights rounded to
# float16.
GOLDEN_SAME_PLATFORM = 1e-5
GOLDEN_ACROSS_PLATFORMS = 1e-4


@dataclass(frozen=True, eq=False)
class Golden:
    """The vectors of the golden sentences, and what made them.

    Attributes:
        encoder: Whose vectors they are: the `subject` of a method.
        key: The key of the encoder's files.
        platform: The platform, as JSON.
        sentences: The digest of the golden sentences.
        vectors: One row for each sentence.
        code: The digest of the sources; empty in older files.
    """

    encoder: str
    key: str
    platform: str
    sentences: str
    vectors: Float32[np.ndarray, "N D"]
    code: str = ""


@cache
def sentences() -> tuple[str, ...]:
    """The golden sentences."""
    text = Path(__file__).with_name("golden_vectors.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["sentences"])


def subject(method: str) -> str:
    """The subject of a method's golden vectors: its encoder, or another reading of its files."""
    parts = MethodId.parse(method)
    if parts is not None and parts.pooling.partition(":")[0] == NATIVE.name:
        return f"{parts.encoder}.{parts.pooling}"
    return method.partition(".")[0]


def encode_encoder(name: str, config: EncoderConfig, places: Places) -> Golden:
    """Load an encoder and pass the golden sentences through it. Raises AssetMissing without it."""
    encoder = config.load(places.encoder(config), places.cache)
    encoding = encoder.encode(sentences())
    vectors = encoding.native
    if vectors is None:
        vectors = encoding.mean[:, encoding.layers.index(encoding.depth)]
    device = encoder.facts.get("device", "cpu")
    return Golden(
        encoder=name,
        key=with_code(encoder.key, config),
        platform=json.dumps(
            platform(environment() | {"device": device}), sort_keys=True
        ),
        sentences=text_digest(sentences()),
        vectors=np.ascontiguousarray(vectors),
        code=code_digest(),
    )


def golden_path(results: Path, encoder: str) -> Path:
    """The file of an encoder's golden vectors, whether it is there or not."""
    return results / RECORDS / GOLDEN / f"{file_name(encoder)}.safetensors"


def write_golden(results: Path, golden: Golden) -> None:
    """Store golden vectors, whole or not at all."""
    metadata = asdict(golden)
    vectors = metadata.pop("vectors")
    write_tensors(golden_path(results, golden.encoder), {"vectors": vectors}, metadata)


def read_golden(results: Path, encoder: str) -> Golden | None:
    """An encoder's golden vectors, or None. Raises DataError for a file that holds none."""
    path = golden_path(results, encoder)
    if not path.exists():
        return None
    file = TensorFile.parse(path)
    vectors = file.read("vectors") if file else None
    names = {field.name for field in fields(Golden)} - {"vectors"}
    if (
        file is None
        or vectors is None
        or not names - {"code"} <= file.metadata.keys() <= names
    ):
        raise DataError(
            f"{path} holds no golden vectors (it was cut or changed); delete it"
        )
    golden = Golden(**file.metadata, vectors=vectors)
    if golden.encoder != encoder:
        raise DataError(
            f"{path}: wanted the vectors of {encoder}, found {golden.encoder}'s; delete it"
        )
    return golden


def check_encoder(committed: Golden, measured: Golden) -> Checked:
    """How far the encoder has moved: the largest move of a normalised coordinate."""
    name = measured.encoder
    if committed.sentences != measured.sentences:
        why = f"the committed vectors are of other golden sentences; {PROMOTE}"
        return Checked(name=name, state=State.NO_BASELINE, why=why)
    if committed.vectors.shape != measured.vectors.shape:
        widths = f"{measured.vectors.shape[1]} dimensions, committed {committed.vectors.shape[1]}"
        return Checked(name=name, state=State.ENCODER, why=widths)
    same_platform = committed.platform == measured.platform
    tolerance = GOLDEN_SAME_PLATFORM if same_platform else GOLDEN_ACROSS_PLATFORMS
    moves = np.abs(directions(committed.vectors) - directions(measured.vectors))
    distance = float(moves.max(initial=0.0))
    state = State.AGREES if distance <= tolerance else State.ENCODER
    why = f"{distance:.1e}, tolerance {tolerance:g}"
    if committed.key != measured.key:
        state, why = (
            State.ENCODER,
            f"other weights, tokenizer, modules or settings; {why}",
        )
    return Checked(
        name=name, state=state, why=why, distance=distance, tolerance=tolerance
    )
