"""What a checkpoint is, whatever form its files have: its architecture and its fingerprint.

The digest of a file tells a copy from its original even if only names or the format
were changed. A fingerprint does not: it has the digest of the tensors by their present
names, that of the ids of probe texts, and the settings which differ from the defaults
of transformers. A conversion has the fingerprint of its original; a checkpoint that was
tuned, rounded to 16 bits, or given another activation or tokenizer has another one.

A registered encoder has an `Architecture`, without which a folder is refused under its
name, and a `Pin` where it is known what its weights, settings and tokenizer are. A
folder with others is measured under the name, since the user asked for it, and named in
what is said of its scores. Importing this module does not import torch.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from harness.core.arrays import Num, UInt8
from harness.core.digests import digest_of
from harness.core.errors import CACHE_SETTING, DataError
from harness.core.files import make_folder, parse_json, write_json
from harness.core.tensors import Layout
from harness.encoders.checkpoint import CONFIG_FILE, library_errors, read_settings
from harness.encoders.weights import UNUSED_TENSORS, safetensors_of

# Part of the name of a kept fingerprint: change it with any change that moves one.
FINGERPRINT_VERSION = "1"
FINGERPRINTS_FOLDER = "fingerprints"  # under the cache

# The digests of a checkpoint, and its settings, by the names of `Pin`'s attributes.
Fingerprint = Mapping[str, str]


# Architectures

# What configurations of transformers call these numbers.
SETTING_NAMES: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layers", "n_layer", "num_layers"),
    "width": ("hidden_size", "dim", "d_model", "n_embd"),
    "heads": ("num_attention_heads", "n_heads", "n_head", "num_heads"),
    "vocabulary": ("vocab_size",),
}


@dataclass(frozen=True)
class Architecture:
    """The kind and the size of a transformer.

    Attributes:
        model_type: Its name in transformers.
        layers: The number of layers.
        width: The number of dimensions.
        heads: The number of attention heads of a layer.
        vocabulary: The number of token vectors.

    Examples:
        >>> print(Architecture("bert", 12, 768, 12, 30522))
        bert of 12 layers, width 768, 12 heads and 30,522 tokens
    """

    model_type: str
    layers: int
    width: int
    heads: int
    vocabulary: int

    def __str__(self) -> str:
        return (
            f"{self.model_type} of {self.layers} layers, width {self.width}, "
            f"{self.heads} heads and {self.vocabulary:,} tokens"
        )


def require_architecture(name: str, folder: Path, wanted: Architecture | None) -> None:
    """Refuse a checkpoint of another architecture; what its settings leave unsaid is not compared.

    Args:
        name: The name of the encoder, for the message.
        folder: The checkpoint folder.
        wanted: The architecture of the encoder; None demands none.
    """
    if wanted is None:
        return
    settings = read_settings(folder / CONFIG_FILE)
    differences = []
    if settings.get("model_type", wanted.model_type) != wanted.model_type:
        differences.append(f"model type {settings['model_type']}")
    for attribute, names in SETTING_NAMES.items():
        stated = [settings[name] for name in names if name in settings]
        if stated and stated[0] != getattr(wanted, attribute):
            differences.append(f"{attribute} {stated[0]}")
    if differences:
        raise DataError(
            f"{name}: wanted a {wanted}, found {', '.join(differences)} in {folder / CONFIG_FILE}; "
            "take another folder, or give this checkpoint a name of its own"
        )


# Pins


@dataclass(frozen=True)
class Pin:
    """The digests and settings of a registered checkpoint, by which its copies are recognised.

    An empty attribute is not known, and not compared.

    Attributes:
        files: The sha256 of files of its weights.
        tensors: The digest of its tensors, but for the pooler's.
        pooler: The digest of the tensors of its pooler; a copy without a pooler is one of
            the same encoder.
        settings: Its model type, and the settings that are not transformers' defaults.
        tokens: The digest of the ids of the probe texts.
    """

    files: tuple[str, ...] = ()
    tensors: str = ""
    pooler: str = ""
    settings: str = ""
    tokens: str = ""

    def knows_weights(self, weights: str, fingerprint: Fingerprint) -> bool | None:
        """Whether weights are those that are known; None where that cannot be told.

        Args:
            weights: The sha256 of the file of the weights.
            fingerprint: The fingerprint of the checkpoint; it may be empty.
        """
        if weights in self.files:
            return True
        if not self.tensors or not fingerprint:
            return None
        pooler = fingerprint.get("pooler", "")
        has_pooler_of_another = bool(pooler and self.pooler and pooler != self.pooler)
        return fingerprint["tensors"] == self.tensors and not has_pooler_of_another

    def difference(self, name: str, weights: str, fingerprint: Fingerprint) -> str:
        """What of a checkpoint is not as it is pinned, in words; empty if nothing is.

        Args:
            name: The name of the encoder.
            weights: The sha256 of the file of the weights.
            fingerprint: The fingerprint of the checkpoint.
        """
        not_pinned = f"not the pinned weights of {name}"
        if self.knows_weights(weights, fingerprint) is False:
            return not_pinned
        settings = fingerprint.get("settings", self.settings)
        if self.settings and settings != self.settings:
            own, pinned = (text.split(", ") for text in (settings, self.settings))
            others = [setting for setting in own if setting not in pinned]
            missing = [f"no {setting}" for setting in pinned if setting not in own]
            return f"{not_pinned} under its settings ({', '.join(others or missing)})"
        if self.tokens and fingerprint.get("tokens", self.tokens) != self.tokens:
            return f"{not_pinned} with its tokenizer"
        return ""

    def contradiction(self, name: str, weights: str, fingerprint: Fingerprint) -> str:
        """That a file with a pinned digest has not the pinned tensors; empty if it has.

        The digest of the tensors then is of another checkpoint than it was taken to be of.
        """
        if weights not in self.files or not self.tensors:
            return ""
        if fingerprint.get("tensors", self.tensors) == self.tensors:
            return ""
        return (
            f"{name}: the file of weights has the sha256 {weights[:12]} that is published for it, "
            f"but its tensors have the digest {fingerprint['tensors'][:12]}, not "
            f"{self.tensors[:12]}, by which its conversions are known; please report it"
        )


# Fingerprints


def fingerprint_of(
    folder: Path, digests: Mapping[str, str], cache: Path, *, rebuilt: bool = False
) -> Fingerprint:
    """The fingerprint of a checkpoint folder, computed once for the digests of its files.

    Args:
        folder: The checkpoint folder.
        digests: The digests of its parts, as `identify` gives them.
        cache: The cache folder, which keeps fingerprints.
        rebuilt: Whether the tokenizer is the one that transformers makes of the folder.

    Raises:
        DataError: The files are damaged, or transformers does not open them.
    """
    facts = {"version": FINGERPRINT_VERSION, "rebuilt": rebuilt, **digests}
    kept = cache / FINGERPRINTS_FOLDER / f"{digest_of(facts)}.json"
    if kept.is_file():
        fingerprint: Any = parse_json(kept.read_bytes())
    else:
        from harness.encoders.kernels.probes import settings_and_tokens

        settings, tokens = settings_and_tokens(folder, rebuilt=rebuilt)
        digests_of_tensors = tensor_digests(safetensors_of(folder, cache))
        fingerprint = {**digests_of_tensors, "settings": settings, "tokens": tokens}
        make_folder(kept.parent, CACHE_SETTING)
        write_json(kept, fingerprint)
    return fingerprint


# Names of 2018, of TensorFlow, and those of today.
PRESENT_NAMES = {
    "LayerNorm.gamma": "LayerNorm.weight",
    "LayerNorm.beta": "LayerNorm.bias",
}
OLD_NAME = re.compile(r"LayerNorm\.(gamma|beta)$")
POOLER = "pooler."


@lru_cache
def tensors_of_folder(folder: Path, weights: str) -> Fingerprint:  # noqa: ARG001 - a key
    """The `tensor_digests` of a folder, where there is no cache folder.

    `weights` is the digest of the file, so that a file that was changed is read again.
    """
    with TemporaryDirectory() as scratch:
        return tensor_digests(safetensors_of(folder, Path(scratch)))


def tensor_digests(files: Iterable[Path]) -> dict[str, str]:
    """The digests of the tensors of safetensors files: `tensors`, and `pooler` if there is one.

    Heads and buffers are left out. Tensors have their present names, without the name of
    the model before them, and are sorted by name; dtype, shape and bytes count. Numbers
    of 16 bits count as the same numbers in 32, since they are read so.

    Raises DataError for a damaged file.
    """
    place_by_name: dict[str, tuple[Layout, str]] = {}
    for file in files:
        with library_errors(f"{file}: wanted safetensors", "fetch it again"):
            layout = Layout.of(file)
        for name in layout.tensors:
            place_by_name[name] = layout, name
    names = present_names(place_by_name)
    of_pooler = {name for name in names if name.startswith(POOLER)}

    def digest(chosen: Collection[str]) -> str:
        sha = hashlib.sha256()
        for name in sorted(chosen):
            layout, stored_name = place_by_name[names[name]]
            tensor = layout.tensors[stored_name]
            dtype, data = in_single(tensor["dtype"], layout.data(stored_name))
            sha.update(f"{name} {dtype} {tensor['shape']}\n".encode())
            sha.update(data.data)
        return sha.hexdigest()

    digests = {"tensors": digest(names.keys() - of_pooler)}
    if of_pooler:
        digests["pooler"] = digest(of_pooler)
    return digests


def in_single(
    dtype: str, data: UInt8[np.ndarray, " bytes"]
) -> tuple[str, Num[np.ndarray, " n"]]:
    """The dtype and numbers of a tensor, by safetensors' names; those of 16 bits in float32."""
    if dtype == "F16":
        return "F32", data.view("<f2").astype("<f4")
    if dtype == "BF16":  # the first half of a float32
        return "F32", data.view("<u2").astype("<u4") << 16
    return dtype, data


def present_names(stored_names: Collection[str]) -> dict[str, str]:
    """The stored name of each tensor of an encoder, by its present one.

    Examples:
        >>> present_names(["bert.pooler.dense.bias", "bert.embeddings.LayerNorm.beta", "cls.bias"])
        {'pooler.dense.bias': 'bert.pooler.dense.bias',
        'embeddings.LayerNorm.bias': 'bert.embeddings.LayerNorm.beta'}
    """
    names = {}
    for name in stored_names:
        is_head = UNUSED_TENSORS.search(name) and not name.startswith(POOLER)
        if not is_head:
            names[OLD_NAME.sub(lambda old: PRESENT_NAMES[old[0]], name)] = name
    # A model with heads has its own name before those of its encoder.
    models = {name.partition(".")[0] for name in names}
    if len(models) == 1 and all("." in name for name in names):
        names = {name.partition(".")[2]: stored for name, stored in names.items()}
    return names
