"""Encodings on disk: each distinct sentence goes through each encoder once, ever.

Each encoder has a folder, named by the digest of everything that changes an encoding
(weights, tokenizer, length; see `Encoder.key`), so that two encoders never serve each
other's vectors. The folder holds shards: a safetensors file for each batch of sentences
that was encoded, with a tensor for each statistic over the tokens of each layer, so that
a pooling reads only what it needs.

A shard is written as a whole or not at all. It states the key of its encoder, the
digest of each tensor, the seconds it cost, how it was made, and by which versions of
the libraries. A damaged shard is set aside, and its sentences are encoded again. Two
processes may fill one folder: at worst a sentence is encoded twice.

A shard also states which statistics its encoder was asked for. A sentence whose shard
was not asked for a statistic that a pooling reads counts as missing, and is encoded
again: shards of earlier versions have the summary token of the last layer alone.

A text that fits into two maximum lengths of a checkpoint has one encoding under both, up
to the rounding of another batch. So the caches of a checkpoint's lengths serve each
other: an empty file `SHARED_KEY.lengths/LENGTH-KEY` names each of them, and a shard has
the number of tokens of each text, which shows that a text was not cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from harness.core.arrays import Float32, Int
from harness.core.digests import sentence_key
from harness.core.environment import packages
from harness.core.errors import HarnessError, UsageError
from harness.core.files import parse_json
from harness.core.interfaces import Encoding, Identity
from harness.core.tensors import TensorFile, write_tensors

KEYS_TENSOR = "keys"  # the keys of the sentences
# The statistics over the tokens of a layer, by the attributes of an encoding, and what is
# before the number of the layer in the names of their tensors.
PREFIXES = {
    "mean": "mean.",
    "layer_cls": "cls.",
    "layer_max": "max.",
    "layer_sep": "sep.",
    "layer_weighted": "weighted.",
}
LENGTHS_TENSOR = "lengths"  # the tokens of each sentence, after it was cut
STATISTICS = frozenset({*PREFIXES, LENGTHS_TENSOR})
# What encoders are always asked for. The others are stored if a pooling reads them.
USUAL_STATISTICS = frozenset({"mean", "layer_cls", LENGTHS_TENSOR})
SENTENCE_VECTORS = ("cls", "pooler", "native")  # the other vectors of an encoding
COUNTS_TENSOR = "tokens"  # the tokens of each sentence, and those that have a vector
LENGTHS_SUFFIX = ".lengths"  # of the folder that names the caches of other lengths
DAMAGED_SUFFIX = ".damaged"  # of shards that were set aside

# The index of a shard, and a row in it. A plain tuple, since a cache may hold millions.
Location = tuple[int, int]


@dataclass(frozen=True)
class EncodingCost:
    """The cost of encoding distinct sentences, in this run or an earlier one.

    Attributes:
        sentences: Their number.
        seconds: The measured seconds.
        encoder_facts: The distinct ways in which they were encoded (kernel, device,
            precision); empty where the encoder has one way only.
        versions: For each library the versions that encoded them.
        coverage: The share of their tokens that has a vector; None for an encoder that
            does not look tokens up.
    """

    sentences: int
    seconds: float
    encoder_facts: tuple[Mapping[str, Any], ...]
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    coverage: float | None = None

    @property
    def rate(self) -> float | None:
        """Sentences a second; None where no second was measured."""
        return round(self.sentences / self.seconds, 1) if self.seconds else None


@dataclass
class EncoderCache:
    """The cached encodings of one encoder. `add` changes the object and its folder.

    Attributes:
        folder: The folder of the encoder, named by its key.
        max_length: The length in tokens at which the encoder cuts texts; None without a
            limit.
        shared_key: The key that it shares with itself under other maximum lengths; None
            for none.
        shards: The shards that are whole, those of other maximum lengths included.
        statistics: What the encoder was asked for, a set for each shard.
        locations: Where the encoding of a sentence is, by the sentence's key.
    """

    folder: Path
    max_length: int | None = None
    shared_key: str | None = None
    shards: list[TensorFile] = field(default_factory=list)
    statistics: list[frozenset[str]] = field(default_factory=list)
    locations: dict[bytes, Location] = field(default_factory=dict)

    @classmethod
    def open(cls, root: Path, identity: Identity) -> EncoderCache:
        """The cache of an encoder in the cache folder `root`; damaged shards are left out.

        Only headers, keys and numbers of tokens are read, and nothing is written.
        """
        cache = cls(
            root / "encodings" / identity.key, identity.max_length, identity.shared_key
        )
        for path in sorted(cache.folder.glob("*.safetensors")):
            cache._admit(path)
        for length, folder in cache._folders_of_other_lengths():
            for path in sorted(folder.glob("*.safetensors")):
                cache._admit(path, length)
        return cache

    @property
    def _lengths_folder(self) -> Path:
        """The folder of empty files that name the caches of all maximum lengths."""
        return self.folder.with_name(f"{self.shared_key}{LENGTHS_SUFFIX}")

    def _folders_of_other_lengths(self) -> Iterator[tuple[int, Path]]:
        """Each other maximum length of the encoder that has a cache, and its folder."""
        if self.shared_key is None:
            return
        for marker in sorted(self._lengths_folder.glob("*-*")):
            length, _, key = marker.name.partition("-")
            if length.isdecimal() and key != self.folder.name:
                yield int(length), self.folder.with_name(key)

    def _admit(self, path: Path, other_length: int | None = None) -> None:
        """Take a file into the cache, if it is a whole shard of its folder's encoder.

        Args:
            path: The file.
            other_length: The maximum length of its encoder, if that is not this one's:
                then the texts are taken that neither of the two cuts.
        """
        shard = TensorFile.parse(path)
        if shard is None or shard.metadata.get("key") != path.parent.name:
            return
        keys = shard.read(KEYS_TENSOR)
        if keys is None:
            return
        rows: Sequence[int] = range(len(keys))
        if other_length is not None:
            lengths = shard.read(LENGTHS_TENSOR)
            if lengths is None:
                return
            # A text as long as the limit may have been cut.
            is_uncut = (lengths < other_length) & (lengths <= (self.max_length or inf))
            rows = np.flatnonzero(is_uncut).tolist()
        index = len(self.shards)
        self.shards.append(shard)
        statistics = frozenset(parse_json(shard.metadata.get("statistics", "[]")))
        self.statistics.append(statistics)
        for row in rows:
            key = keys[row].tobytes()
            earlier = self.locations.get(key)
            # Of two shards with a sentence the one with more statistics counts.
            if earlier is None or self.statistics[earlier[0]] < statistics:
                self.locations[key] = (index, row)

    # Storing

    def missing(
        self, texts: Iterable[str], statistics: Collection[str] = ()
    ) -> list[str]:
        """The distinct texts that are not cached with these statistics, in first-seen order.

        The means are in every encoding.
        """
        distinct = list(dict.fromkeys(texts))
        if not self.locations:  # a plan asks the empty cache of every encoder
            return distinct
        wanted = set(statistics) - {"mean"}
        is_whole = [wanted <= asked_for for asked_for in self.statistics]
        missing = []
        for text in distinct:
            location = self.locations.get(sentence_key(text))
            if location is None or not is_whole[location[0]]:
                missing.append(text)
        return missing

    def statistics_of(self, texts: Iterable[str]) -> frozenset[str]:
        """The statistics that were asked for with any of the texts that are cached."""
        locations = [self.locations.get(sentence_key(text)) for text in texts]
        shards = {location[0] for location in locations if location is not None}
        return frozenset().union(*(self.statistics[index] for index in shards))

    def add(
        self,
        texts: Sequence[str],
        encoding: Encoding,
        seconds: float,
        encoder_facts: Mapping[str, Any] | None = None,
        statistics: Collection[str] = USUAL_STATISTICS,
    ) -> None:
        """Store the encodings of some texts as one shard, complete or not at all.

        Args:
            texts: The texts.
            encoding: Their encodings.
            seconds: What encoding them took.
            encoder_facts: `Encoder.facts`.
            statistics: The statistics that the encoder was asked for; it may lack some.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.shared_key is not None:
            self._lengths_folder.mkdir(exist_ok=True)
            (self._lengths_folder / f"{self.max_length}-{self.folder.name}").touch()
        keys = [list(sentence_key(text)) for text in texts]
        tensors = {KEYS_TENSOR: np.array(keys, dtype=np.uint8)}
        for name, array in encoding.arrays.items():
            if name in PREFIXES:
                for index, layer in enumerate(encoding.layers):
                    tensors[_tensor_name(name, layer, encoding.depth)] = array[:, index]
            else:
                tensors[name] = array
        metadata = {
            "statistics": json.dumps(sorted(statistics)),
            "depth": str(encoding.depth),
            "seconds": repr(seconds),
            "letters": str(sum(len(text) for text in texts)),
            "key": self.folder.name,
            "versions": json.dumps(packages()),
        }
        if encoder_facts:
            metadata["how"] = json.dumps(dict(encoder_facts), sort_keys=True)
        # A random name, since another process may write a shard of the same texts.
        path = self.folder / f"{uuid4().hex}.safetensors"
        write_tensors(path, tensors, metadata)
        self._admit(path)

    # Costs

    def cost(self, texts: Sequence[str]) -> EncodingCost:
        """The cost of encoding these distinct texts: their share of the cost of each shard."""
        locations = self._locations_of(texts)
        seconds = 0.0
        distinct_facts = set()  # as JSON
        versions: dict[str, set[str]] = {}
        counts_tokens = True
        for index, count in Counter(locations[:, 0].tolist()).items():
            shard = self.shards[index]
            shard_rows = shard.tensors[KEYS_TENSOR]["shape"][0]
            seconds += count * (float(shard.metadata["seconds"]) / shard_rows)
            distinct_facts.add(shard.metadata.get("how", ""))
            for library, version in parse_json(shard.metadata["versions"]).items():
                versions.setdefault(library, set()).add(str(version))
            counts_tokens = counts_tokens and COUNTS_TENSOR in shard.tensors
        coverage = None
        if counts_tokens:
            counts = self._gather(COUNTS_TENSOR, locations)
            tokens, with_vector = counts.sum(axis=0, dtype=np.float64)
            coverage = float(with_vector / tokens) if tokens else None
        return EncodingCost(
            sentences=len(locations),
            seconds=seconds,
            encoder_facts=tuple(map(parse_json, sorted(distinct_facts - {""}))),
            versions={name: sorted(numbers) for name, numbers in versions.items()},
            coverage=coverage,
        )

    @property
    def rate(self) -> float | None:
        """Characters a second that this encoder took here; None if it never ran."""
        seconds = sum(float(shard.metadata["seconds"]) for shard in self.shards)
        characters = sum(int(shard.metadata["letters"]) for shard in self.shards)
        return characters / seconds if seconds else None

    # Reading

    @property
    def depth(self) -> int:
        """The number of the last layer; the cache must hold something."""
        return int(self.shards[0].metadata["depth"])

    def read(
        self,
        texts: Sequence[str],
        layers: Sequence[int],
        statistics: Collection[str] = (),
    ) -> Encoding:
        """The encodings of cached texts, in the order of the texts.

        Args:
            texts: One text or more.
            layers: The layers whose means are read; without any, the vectors of sentences
                are.
            statistics: What is read of these layers beside the means, where the encoder
                gives it.

        Raises:
            HarnessError: A shard is damaged, which is then set aside.
            UsageError: The encoder has no such layer.
        """
        locations = self._locations_of(texts)
        tensors = self.shards[locations[0, 0]].tensors  # those of all shards
        vectors = {}
        if layers:
            for statistic in {"mean", *statistics} & PREFIXES.keys():
                names = [_tensor_name(statistic, n, self.depth) for n in layers]
                if set(names) <= set(tensors):
                    arrays = [self._gather(name, locations) for name in names]
                    vectors[statistic] = np.stack(arrays, axis=1)
            if LENGTHS_TENSOR in statistics and LENGTHS_TENSOR in tensors:
                vectors["lengths"] = self._gather(LENGTHS_TENSOR, locations)
            if "mean" not in vectors:
                raise UsageError(
                    f"wanted the layers {tuple(layers)} of an encoder, found vectors of its own "
                    "alone; it has only the pooling native"
                )
            mean = vectors.pop("mean")
        else:
            for name in SENTENCE_VECTORS:
                if name in tensors:
                    vectors[name] = self._gather(name, locations)
            width = max((array.shape[1] for array in vectors.values()), default=0)
            mean = np.empty((len(texts), 0, width), np.float32)
        return Encoding(layers=tuple(layers), depth=self.depth, mean=mean, **vectors)

    def _locations_of(self, texts: Iterable[str]) -> Int[np.ndarray, "N 2"]:
        """The shard and row of each text."""
        locations = [self.locations[sentence_key(text)] for text in texts]
        return np.array(locations, np.int64).reshape(-1, 2)

    def _gather(
        self, name: str, locations: Int[np.ndarray, "N 2"]
    ) -> Float32[np.ndarray, "N D"]:
        """The rows of a tensor at these locations, from all shards that hold one."""
        width = self.shards[locations[0, 0]].tensors[name]["shape"][1]
        gathered = np.empty((len(locations), width), dtype=np.float32)
        for index in np.unique(locations[:, 0]):
            shard = self.shards[index]
            tensor = shard.read(name)
            if tensor is None:
                with suppress(FileNotFoundError):  # another process has renamed it
                    shard.path.rename(shard.path.with_suffix(DAMAGED_SUFFIX))
                raise HarnessError(
                    f"{shard.path.name}: cached vectors are damaged and were set aside; run again "
                    "to encode their sentences anew"
                )
            is_in_shard = locations[:, 0] == index
            gathered[is_in_shard] = tensor[locations[is_in_shard, 1]]
        return gathered


def _tensor_name(statistic: str, layer: int, depth: int) -> str:
    """The name of the tensor of a statistic over the tokens of a layer."""
    if statistic == "layer_cls" and layer == depth:
        return "cls"  # the vector of a sentence with this name
    return f"{PREFIXES[statistic]}{layer}"
