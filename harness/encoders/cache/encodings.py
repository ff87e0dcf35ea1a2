"""Embeddings on disk: each distinct sentence goes through each encoder once, ever.

A folder an encoder key, named by everything that changes an encoding (weights,
tokenizer, length; see `Encoder.key`), so that two encoders never serve each other's
vectors. In it, shards: one safetensors file a batch of sentences, one tensor a layer,
so that a pooling reads only its layers. A shard is complete or absent (temporary file,
flush, rename). It carries the key of its encoder, the digest of each tensor, the
seconds it cost, how it was made, and by which versions of the libraries. A damaged one,
and one of another encoder, is set aside and its sentences are encoded again. Two
processes may fill one folder: at worst a sentence is encoded twice; while one has it
open, nobody clears it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from harness.core.arrays import Float32, Int, UInt8
from harness.core.digests import digest_of
from harness.core.environment import packages
from harness.core.errors import HarnessError
from harness.core.files import share, write_atomically
from harness.core.interfaces import Encoding, Identity
from harness.core.json_text import parse_json
from harness.core.tensors import TensorFile, write_tensors
from harness.core.texts import KEY_BYTES, sentence_key

SENTENCE_VECTORS = ("cls", "pooler", "native")  # of an encoding, besides its layers
COUNTS_TENSOR = (
    "tokens"  # how many there are of each sentence, and how many have a vector
)
SENTENCE_CHARACTERS = 60  # letters of a sentence, about


def keys_in(rows: UInt8[np.ndarray, "N 16"]) -> list[bytes]:
    """Keys that are stored as the rows of a matrix, in its order."""
    whole = np.dtype((np.void, KEY_BYTES))
    keys: list[bytes] = np.ascontiguousarray(rows).view(whole)[:, 0].tolist()
    return keys


@dataclass(frozen=True)
class CacheShard(TensorFile):
    """The encodings of a batch of sentences, and what they cost."""

    @property
    def rows(self) -> int:
        return int(self.tensors["keys"]["shape"][0])

    @property
    def seconds(self) -> float:
        """The cost of encoding them, as it was measured."""
        return float(self.metadata["seconds"])


@dataclass(frozen=True)
class EncodingCost:
    """The cost of encoding distinct sentences, in this run or an earlier one.

    `how` holds the distinct ways in which they were encoded (kernel, device,
    precision), none where the encoder has but one; `versions` those of each library
    that encoded them.
    """

    sentences: int
    seconds: float
    how: tuple[Mapping[str, Any], ...]
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def rate(self) -> float | None:
        """Sentences a second; None where nothing was paid."""
        return round(self.sentences / self.seconds, 1) if self.seconds else None


@dataclass
class EncoderCache:
    """The cached encodings of one encoder: `place` maps a sentence's key to (shard, row).

    `others` are the shards in the folder that do not name its key.
    """

    folder: Path
    shards: list[CacheShard] = field(default_factory=list)
    place: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    held: bool = False
    others: list[Path] = field(default_factory=list)

    @classmethod
    def open(cls, root: Path, key: str) -> EncoderCache:
        """Read the shards' headers and keys; damaged shards are passed over. Writes nothing."""
        cache = cls(root / "encodings" / key)
        cache.hold()
        for path in sorted(cache.folder.glob("*.safetensors")):
            cache._admit(path)
        return cache

    def hold(self) -> None:
        """Keep others from clearing the folder, if there is one, as long as this object lives."""
        if not self.held and (handle := share(self.folder)) is not None:
            self.held = True
            weakref.finalize(self, os.close, handle)

    def _admit(self, path: Path) -> None:
        shard = CacheShard.parse(path)
        if shard is not None and shard.metadata.get("key") != self.folder.name:
            self.others.append(path)
            return
        keys = shard.read("keys") if shard else None
        if shard is None or keys is None:
            return
        number = len(self.shards)
        self.shards.append(shard)
        self.place.update(
            zip(keys_in(keys), zip(repeat(number), range(len(keys))), strict=True)
        )

    def missing(self, texts: Sequence[str]) -> list[str]:
        """The distinct texts that are not cached, in first-seen order."""
        return [t for t in dict.fromkeys(texts) if sentence_key(t) not in self.place]

    def add(
        self,
        texts: Sequence[str],
        encoding: Encoding,
        seconds: float,
        how: Mapping[str, Any] | None = None,
    ) -> None:
        """Store one shard, complete or not at all, its seconds, and the encoder's facts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.hold()
        tensors = {
            "keys": np.array([list(sentence_key(t)) for t in texts], dtype=np.uint8)
        }
        for i, layer in enumerate(encoding.layers):
            tensors[f"mean.{layer}"] = encoding.mean[:, i]
        tensors |= {
            name: array for name, array in encoding.arrays.items() if name != "mean"
        }
        letters = str(sum(map(len, texts)))
        about = {
            "depth": str(encoding.depth),
            "seconds": repr(seconds),
            "letters": letters,
        }
        about |= {"key": self.folder.name, "versions": json.dumps(packages())}
        about |= {"how": json.dumps(dict(how), sort_keys=True)} if how else {}
        path = (
            self.folder / f"{uuid4().hex}.safetensors"
        )  # another process may write such a shard
        write_tensors(path, tensors, about)
        self._admit(path)

    @property
    def depth(self) -> int:
        """The number of the last layer; the cache must hold something."""
        return int(self.shards[0].metadata["depth"])

    def paid(self, texts: Iterable[str]) -> EncodingCost:
        """The cost of encoding these distinct texts."""
        counts = Counter(self.place[sentence_key(text)][0] for text in texts)
        shares = [
            (self.shards[index], count) for index, count in sorted(counts.items())
        ]
        seconds = sum(
            count * (shard.seconds / max(1, shard.rows)) for shard, count in shares
        )
        stated_facts = {shard.metadata.get("how") for shard, _ in shares}
        how = tuple(parse_json(facts) for facts in sorted(filter(None, stated_facts)))
        versions: dict[str, set[str]] = {}
        for stated in {shard.metadata["versions"] for shard, _ in shares}:
            for library, version in parse_json(stated).items():
                versions.setdefault(library, set()).add(str(version))
        by_library = {library: sorted(found) for library, found in versions.items()}
        return EncodingCost(sum(counts.values()), seconds, how, by_library)

    @property
    def rate(self) -> float | None:
        """Letters a second that this encoder took here; None if it never ran."""
        seconds = sum(shard.seconds for shard in self.shards)
        letters = (
            int(s.metadata.get("letters", s.rows * SENTENCE_CHARACTERS))
            for s in self.shards
        )
        return sum(letters) / seconds if seconds else None

    def coverage(self, texts: Iterable[str]) -> float | None:
        """The share of cached texts' tokens that have a vector; None where none are counted."""
        places = self._places(texts)
        shards = [self.shards[index] for index in np.unique(places[:, 0])]
        if any(COUNTS_TENSOR not in shard.tensors for shard in shards):
            return None
        tokens, with_vector = self._gather(COUNTS_TENSOR, places).sum(
            axis=0, dtype=np.float64
        )
        return float(with_vector / tokens) if tokens else None

    def read(
        self,
        texts: Sequence[str],
        layers: Sequence[int] | None = None,
        parts: Sequence[str] = SENTENCE_VECTORS,
    ) -> Encoding:
        """The encodings of cached texts in the given order: these layers and parts, or all."""
        if not texts:
            raise HarnessError("no texts were asked for; an encoding has one or more")
        places = self._places(texts)
        first = self.shards[places[0, 0]]
        kept = sorted(int(n[5:]) for n in first.tensors if n.startswith("mean."))
        layers = tuple(kept if layers is None else layers)
        rest = {n: self._gather(n, places) for n in parts if n in first.tensors}
        means = [self._gather(f"mean.{layer}", places) for layer in layers]
        width = max((part.shape[1] for part in rest.values()), default=0)
        none = np.empty((len(texts), 0, width), np.float32)
        mean = np.stack(means, axis=1) if means else none
        return Encoding(layers, self.depth, mean, **rest)

    def _places(self, texts: Iterable[str]) -> Int[np.ndarray, "N 2"]:
        return np.array([self.place[sentence_key(t)] for t in texts], np.int64).reshape(
            -1, 2
        )

    def _gather(
        self, name: str, places: Int[np.ndarray, "N 2"]
    ) -> Float32[np.ndarray, "N D"]:
        width = self.shards[places[0, 0]].tensors[name]["shape"][1]
        out = np.empty((len(places), width), dtype=np.float32)
        for index in np.unique(places[:, 0]):
            shard = self.shards[index]
            tensor = shard.read(name)
            if tensor is None:
                with contextlib.suppress(
                    FileNotFoundError
                ):  # another process was quicker
                    shard.path.rename(shard.path.with_suffix(".damaged"))
                raise HarnessError(
                    f"{shard.path.name}: cached vectors are damaged and were set aside; run again "
                    "to encode their sentences anew"
                )
            rows = places[:, 0] == index
            out[rows] = tensor[places[rows, 1]]
        return out


LABEL_FILE, LABEL_SEAL = "label.json", "sha256"
DAY = 86_400.0  # seconds: a run again on the same day changes no file


@dataclass(frozen=True)
class Label:
    """The names of encoders that filled a folder, and the digests of their files.

    Several names may mean the same weights, tokenizer and length, and then share a key.
    """

    names: Sequence[str] = ()
    digests: Mapping[str, str] = field(default_factory=dict)


def read_label(folder: Path) -> Label:
    """The label in a folder; an empty one where there is none, or it was damaged."""
    try:
        content: Any = parse_json((folder / LABEL_FILE).read_text(encoding="utf-8"))
        is_sealed = content.pop(LABEL_SEAL) == digest_of(content)
        return Label(**content) if is_sealed else Label()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Label()


def open_labelled(root: Path, name: str, identity: Identity) -> EncoderCache:
    """The cache of an encoder that is about to run: held, labelled, and marked as used today."""
    cache = EncoderCache.open(root, identity.key)
    # A cache that may only be read still serves what it holds; filling it fails where
    # it must.
    with contextlib.suppress(OSError):
        cache.folder.mkdir(parents=True, exist_ok=True)
        cache.hold()
        for path in cache.others:
            path.rename(path.with_suffix(".damaged"))
        label, file = read_label(cache.folder), cache.folder / LABEL_FILE
        changed = Label(sorted({*label.names, name}), identity.digests)
        if changed != label:
            content = asdict(changed) | {LABEL_SEAL: digest_of(asdict(changed))}
            write_atomically(file, json.dumps(content, indent=1).encode() + b"\n")
        elif time.time() - file.stat().st_mtime > DAY:
            file.touch()
    return cache
