"""Names of cached keys: the encoders whose sentences a key holds, beside these in `label.json`.

A run writes the label. It also names the files by which an encoder was identified, so that a plan
need not digest gigabytes of unchanged weights again; a run digests every time. And it says which
checks of a loaded encoder the files of this key have passed: encodings that were made under one
name serve another only after that one's checks, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.core.digests import digest_of_repr
from harness.core.files import state_of, write_atomically
from harness.core.interfaces import EncoderConfig, Identity
from harness.core.provenance import code_digest
from harness.encoders.cache.encodings import EncoderCache

FILE = "label.json"
DAY = 86_400.0  # seconds: a run again on the same day changes no file


@dataclass(frozen=True)
class Label:
    """Each encoder's name with the fingerprint of its files, and the digest of their weights.

    Several names may mean the same weights, tokenizer and length, and then share a key. `passed`
    holds the demands (`Identity.demands`) that a loaded encoder has met.
    """

    encoders: Mapping[str, str] = field(default_factory=dict)
    weights: str = ""
    passed: tuple[str, ...] = ()


def read_label(folder: Path) -> Label:
    """The label in a folder; an empty one where there is none, or it was damaged."""
    try:
        found: Any = json.loads((folder / FILE).read_text(encoding="utf-8"))
        names = {str(name): str(mark) for name, mark in found["encoders"].items()}
        return Label(names, str(found["weights"]), tuple(map(str, found.get("passed", ()))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Label()


def open_labelled(
    root: Path,
    config: EncoderConfig,
    path: Path,
    found: Identity,
    clock: Callable[[], float] = time.time,
) -> EncoderCache:
    """The cache of an encoder that is about to run: held, labelled, and marked as used today."""
    cache = EncoderCache.open(root, found.key)
    # A cache that may only be read still serves what it holds; filling it fails where it must.
    with contextlib.suppress(OSError):
        cache.hold()
        old, file = read_label(cache.folder), cache.folder / FILE
        marks = {**old.encoders, config.name: fingerprint(config, path)}
        new = replace(old, encoders=marks, weights=found.digests.get("weights", ""))
        if new != old:
            _write(cache.folder, new)
        elif clock() - file.stat().st_mtime > DAY:
            os.utime(file, (clock(), clock()))
    return cache


def note_passed(folder: Path, demands: str) -> None:
    """Remember that a loaded encoder has met these demands, if the folder can be written."""
    old = read_label(folder)
    with contextlib.suppress(OSError):
        _write(folder, replace(old, passed=(*old.passed, demands)))


def _write(folder: Path, label: Label) -> None:
    write_atomically(folder / FILE, (json.dumps(asdict(label), indent=1) + "\n").encode())


def known_key(root: Path, config: EncoderConfig, path: Path) -> str | None:
    """The key that a run found for this encoder in these very files; None if none did."""
    expected = None
    for file in sorted(root.glob(f"encodings/*/{FILE}")):
        stored = read_label(file.parent).encoders.get(config.name)
        if stored is not None:
            expected = expected or fingerprint(config, path)
            if stored == expected:
                return file.parent.name
    return None


def fingerprint(config: EncoderConfig, path: Path) -> str:
    """Digest of what an identity rests on: the configuration, the code, the state of the files."""
    return digest_of_repr((config, code_digest(), state_of(path)))
