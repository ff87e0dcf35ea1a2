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
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import text_digest
from harness.core.environment import environment
from harness.core.errors import DataError
from harness.core.files import file_name
from harness.core.interfaces import EncoderConfig
from harness.core.provenance import code_digest, with_code
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import MethodId
from harness.data.places import Places
from harness.encoders.tensorflow_bert import readable_files
from harness.results.index import encoder_of_method
from harness.results.layout import GOLDEN, RECORDS
from harness.transforms.pooling import NATIVE

# Two environments that agree in these facts are one platform.
PLATFORM_FACTS = ("system", "machine", "processor", "threads", "packages", "device")


def platform(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment that can move a number."""
    return {name: environment.get(name) for name in PLATFORM_FACTS}


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
    if method_id is not None and method_id.pooling.split(":")[0] == NATIVE.name:
        return f"{method_id.encoder}.{method_id.pooling}"
    return encoder_of_method(method)


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
    encoder = config.load(readable_files(config, places), places.cache)
    encoding = encoder.encode(golden_sentences())
    vectors = encoding.native
    if vectors is None:
        last_layer = encoding.layers.index(encoding.depth)
        vectors = encoding.mean[:, last_layer]
    facts = {**environment(), "device": encoder.facts.get("device", "cpu")}
    return GoldenVectors(
        encoder=name,
        key=with_code(encoder.key, config),
        platform=json.dumps(platform(facts), sort_keys=True),
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
    try:
        if file is None or vectors is None:
            raise TypeError("no tensor of this name")
        golden = GoldenVectors(**file.metadata, vectors=vectors)
    except TypeError:
        raise DataError(
            f"{path} holds no golden vectors (it was cut or changed); delete it"
        ) from None
    if golden.encoder != encoder:
        raise DataError(
            f"{path}: wanted the vectors of {encoder}, found {golden.encoder}'s; delete it"
        )
    return golden
