"""Golden vectors: the vectors of 32 fixed sentences, by which a moved encoder is recognised.

If a score moved and the golden vectors of its encoder did not, the cause comes after the
encoder. Golden vectors are the token means of the last layer, or for `minilm.native` the
output of the model's own modules. They are encoded anew each time and never taken from
the cache. Their file is `<results>/records/golden/<encoder>.safetensors`, with the
encoder's key and the platform.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
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
from harness.gate.outcome import PROMOTE, CheckResult, State
from harness.results.index import encoder_of_method
from harness.results.layout import GOLDEN, RECORDS
from harness.transforms.pooling import NATIVE

# The largest difference of a coordinate after normalisation. MiniLM's moves by 4e-7
# with threads, batches and instruction sets, and by 3e-4 with weights rounded to
# float16.
GOLDEN_SAME_PLATFORM = 1e-5
GOLDEN_ACROSS_PLATFORMS = 1e-4


@dataclass(frozen=True, eq=False)
class GoldenVectors:
    """The vectors of the golden sentences, and what made them.

    Attributes:
        encoder: The encoder, as `golden_name` has it.
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
def golden_sentences() -> tuple[str, ...]:
    """The golden sentences, from `golden_vectors.toml`."""
    text = Path(__file__).with_name("golden_vectors.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["sentences"])


def golden_name(method: str) -> str:
    """The name of a method's golden vectors.

    It is the encoder's name; for a model under its own modules also their name and
    prompt, as `minilm.native`.
    """
    method_id = MethodId.parse(method)
    if method_id is not None and is_native(method_id):
        return f"{method_id.encoder}.{method_id.pooling}"
    return encoder_of_method(method)


def is_native(method_id: MethodId) -> bool:
    """Whether a method pools by the model's own modules, with a prompt or without."""
    pooling, _, _prompt = method_id.pooling.partition(":")
    return pooling == NATIVE.name


def encode_golden_sentences(
    name: str, config: EncoderConfig, places: Places
) -> GoldenVectors:
    """Load an encoder and encode the golden sentences.

    Args:
        name: The name of the golden vectors.
        config: The encoder.
        places: Where its files are.

    Raises:
        AssetMissing: The files of the encoder are not here.
    """
    encoder = config.load(places.encoder(config), places.cache)
    encoding = encoder.encode(golden_sentences())
    vectors = encoding.native
    if vectors is None:
        last_layer = encoding.layers.index(encoding.depth)
        vectors = encoding.mean[:, last_layer]
    facts = environment()
    facts["device"] = encoder.facts.get("device", "cpu")
    platform_facts = platform(facts)
    return GoldenVectors(
        encoder=name,
        key=with_code(encoder.key, config),
        platform=json.dumps(platform_facts, sort_keys=True),
        sentences=text_digest(golden_sentences()),
        vectors=np.ascontiguousarray(vectors),
        code=code_digest(),
    )


def golden_path(results: Path, encoder: str) -> Path:
    """The file of an encoder's golden vectors, whether it is there or not."""
    return results / RECORDS / GOLDEN / f"{file_name(encoder)}.safetensors"


def write_golden_vectors(results: Path, golden: GoldenVectors) -> None:
    """Store golden vectors, whole or not at all."""
    metadata = asdict(golden)
    vectors = metadata.pop("vectors")
    write_tensors(golden_path(results, golden.encoder), {"vectors": vectors}, metadata)


def read_golden_vectors(results: Path, encoder: str) -> GoldenVectors | None:
    """An encoder's golden vectors, or None. Raises DataError for a file that holds none."""
    path = golden_path(results, encoder)
    if not path.exists():
        return None
    file = TensorFile.parse(path)
    vectors = file.read("vectors") if file else None
    if file is None or vectors is None or not _is_metadata(file.metadata):
        raise DataError(
            f"{path} holds no golden vectors (it was cut or changed); delete it"
        )
    golden = GoldenVectors(**file.metadata, vectors=vectors)
    if golden.encoder != encoder:
        raise DataError(
            f"{path}: wanted the vectors of {encoder}, found {golden.encoder}'s; delete it"
        )
    return golden


def _is_metadata(metadata: Mapping[str, str]) -> bool:
    """Whether a file's metadata has every field of golden vectors, and no others."""
    names = {field.name for field in fields(GoldenVectors)} - {"vectors"}
    required_names = names - {"code"}  # older files have no digest of the code
    return required_names <= metadata.keys() <= names


def check_encoder(committed: GoldenVectors, measured: GoldenVectors) -> CheckResult:
    """The check of an encoder: how far its golden vectors have moved.

    The distance is the largest difference of a coordinate after each vector was
    normalised.
    """
    name = measured.encoder
    if committed.sentences != measured.sentences:
        why = f"the committed vectors are of other golden sentences; {PROMOTE}"
        return CheckResult(name=name, state=State.NO_BASELINE, why=why)
    if committed.vectors.shape != measured.vectors.shape:
        committed_width = committed.vectors.shape[1]
        measured_width = measured.vectors.shape[1]
        why = f"{measured_width} dimensions, committed {committed_width}"
        return CheckResult(name=name, state=State.ENCODER, why=why)
    same_platform = committed.platform == measured.platform
    tolerance = GOLDEN_SAME_PLATFORM if same_platform else GOLDEN_ACROSS_PLATFORMS
    moves = np.abs(directions(committed.vectors) - directions(measured.vectors))
    distance = float(moves.max(initial=0.0))
    state = State.AGREES if distance <= tolerance else State.ENCODER
    why = f"{distance:.1e}, tolerance {tolerance:g}"
    if committed.key != measured.key:
        state = State.ENCODER
        why = f"other weights, tokenizer, modules or settings; {why}"
    return CheckResult(
        name=name, state=state, why=why, distance=distance, tolerance=tolerance
    )
