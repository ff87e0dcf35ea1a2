"""Digests that an encoder's files must have, so that a name always stands for the same vectors.

Weights are compared byte for byte. Of the configuration, every setting but those that change no
vector; of the tokenizer, its vocabulary, while the ids of a golden sentence guard how it splits
(`tokenizer_check.py`): so the same model may lie in folders that are written differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.digests import digest_of
from harness.core.errors import DataError
from harness.core.hardware import FLOAT32

# Of a config.json: what names and stores a model, and changes nothing of what it computes.
HARMLESS = frozenset(
    {"_name_or_path", "architectures", "dtype", "gradient_checkpointing", "torch_dtype"}
    | {"transformers_version", "use_cache"}
)


@dataclass(frozen=True)
class Fingerprint:
    """What a checkpoint's configuration and tokenizer must be, beside its weights.

    Args:
        config: The digest of its settings, as `config_digest` takes it.
        vocabulary: The digest of its tokens and their ids, as `vocabulary_digest` takes it.
        max_length: The maximum length that the checkpoint states itself, in tokens.
    """

    config: str
    vocabulary: str
    max_length: int

    def require_settings(self, name: str, folder: Path, config: str, max_length: int) -> None:
        """Refuse another configuration, or another length where none was asked for."""
        if config != self.config:
            raise DataError(
                f"{name}: {folder / 'config.json'} has settings with digest {config[:12]}, wanted "
                f"{self.config[:12]}; {REMEDY}"
            )
        if max_length != self.max_length:
            raise DataError(
                f"{name}: {folder} states a maximum length of {max_length} tokens, wanted "
                f"{self.max_length}; {REMEDY}"
            )

    def require_vocabulary(self, name: str, folder: Path, vocabulary: str) -> None:
        """Refuse a tokenizer with other tokens, or with other ids for them."""
        if vocabulary != self.vocabulary:
            raise DataError(
                f"{name}: the tokenizer in {folder} has a vocabulary with digest "
                f"{vocabulary[:12]}, wanted {self.vocabulary[:12]}; {REMEDY}"
            )


REMEDY = "fetch the pinned revision, or give this checkpoint a name of its own"


def config_digest(config: Mapping[str, Any]) -> str:
    """The digest of a config.json, whatever its order, without what changes no vector."""
    return digest_of({name: value for name, value in config.items() if name not in HARMLESS})


def vocabulary_digest(vocabulary: Mapping[str, int]) -> str:
    """The digest of tokens and their ids, whatever their order."""
    return digest_of(vocabulary)


def in_dtype(key: str, dtype: str) -> str:
    """The key of an encoder in a precision, from that in float32."""
    return key if dtype == FLOAT32 else digest_of({dtype: key})
