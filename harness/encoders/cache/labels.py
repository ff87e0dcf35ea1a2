"""The label of a folder of encodings: which encoders filled it, and when it was last used.

The folder's name is a digest, which nobody can read: the label has the names of the
encoders and the digests of their files. The label's time of change is the day of the
folder's last use.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.core.digests import digest_of
from harness.core.files import write_atomically
from harness.core.interfaces import Identity
from harness.core.json_text import parse_json
from harness.encoders.cache.encodings import EncoderCache

LABEL_FILE = "label.json"
LABEL_SEAL = "sha256"  # the name of the digest in the label
DAY = 86_400.0  # seconds: a second run on the same day changes no file


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
        seal = content.pop(LABEL_SEAL)
        if seal == digest_of(content):
            return Label(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return Label()


def open_labelled(root: Path, name: str, identity: Identity) -> EncoderCache:
    """The cache of an encoder that is about to run: kept, labelled, and marked as used today.

    Args:
        root: The cache folder.
        name: The name of the encoder.
        identity: Its key and digests.
    """
    cache = EncoderCache.open(root, identity.key)
    # A cache folder that is read-only still serves what it holds; storing into it fails
    # with an error of its own.
    with suppress(OSError):
        cache.folder.mkdir(parents=True, exist_ok=True)
        cache.keep_folder()
        cache.set_foreign_shards_aside()
        _update_label(cache.folder, name, identity)
    return cache


def _update_label(folder: Path, name: str, identity: Identity) -> None:
    """Write the label if a name or digest is new, else mark it as used today."""
    file = folder / LABEL_FILE
    label = read_label(folder)
    new_label = Label(names=sorted({*label.names, name}), digests=identity.digests)
    if new_label != label:
        content = asdict(new_label)
        content[LABEL_SEAL] = digest_of(content)
        write_atomically(file, json.dumps(content, indent=1).encode() + b"\n")
    elif time.time() - file.stat().st_mtime > DAY:
        file.touch()
