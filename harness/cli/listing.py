"""What `harness list` shows, as rows for a table or for a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.assets.asset import HUB, Asset
from harness.assets.places import Places, every_asset, packaged, pinned_by, source_of
from harness.core.types import EncoderConfig, Family, member
from harness.registry import Registry, known, registry
from harness.tasks.loader import TARGETS

Row = dict[str, Any]
TOO_LONG = {"by_hand", "places", "downloads"}  # for a table; a program gets them


def listing(what: str, places: Places) -> list[Row]:
    """Rows of one kind of thing. Raises UsageError for a kind that there is not."""
    kinds = {
        "methods": methods,
        "encoders": encoders,
        "tasks": tasks,
        "assets": lambda found: assets(found, places),
        "posts": posts,
    }
    return known("kind of thing", what, kinds)(registry())


def methods(found: Registry) -> list[Row]:
    """Registered methods; any other composition of the parts runs by its id."""
    return [
        {
            "method": method.id,
            "transductive": method.transductive,
            "seeded": method.seeded,
            "cite": method.cite,
            "note": method.note,
        }
        for method in found.methods.values()
    ]


def encoders(found: Registry) -> list[Row]:
    """Registered encoders and where their weights come from."""
    return [
        {
            "encoder": encoder.name,
            "source": source_of(encoder),
            "trained_on": encoder.trained_on,
            "licence": encoder.licence,
        }
        for encoder in found.encoders.values()
    ]


def tasks(found: Registry) -> list[Row]:
    """Tasks: what is scored and how."""
    return [
        {
            "task": task.name,
            "metric": task.metric,
            "text": task.text,
            "scored": "+".join(task.scored),
            "asset": task.asset,
            "note": task.note,
        }
        for task in found.tasks.values()
    ]


def assets(found: Registry, places: Places) -> list[Row]:
    """All that is read: whence, whether it is here, how sure its content is, how to get it."""
    return [_data(asset, places) for asset in every_asset()] + [
        _weights(encoder, places) for encoder in found.encoders.values()
    ]


def _data(asset: Asset, places: Places) -> Row:
    return {
        "asset": asset.name,
        "what": asset.what,
        "here": places.data(asset) is not None,
        "source": asset.source,
        "pinned": _pinned(asset.pinned, places.first_seen(asset)),
        "bytes": _size(places.data(asset)) or asset.to_get,
        "licence": asset.licence,
        "cite": ", ".join(asset.cite),
        "get": asset.get,
        "by_hand": asset.by_hand,
        "places": list(asset.probe),
        "downloads": [_download(d, d.address) for d in asset.downloads],
    }


def _weights(encoder: EncoderConfig, places: Places) -> Row:
    here, family = places.has_encoder(encoder), isinstance(encoder, Family)
    repo: str | None = getattr(encoder, "repo", None)
    about: int | None = getattr(encoder, "about", None)
    file: str | None = getattr(encoder, "file", None)
    carried = f"package {getattr(encoder, 'package', '')}" if packaged(encoder) else ""
    return {
        "asset": encoder.name,
        "what": "encoder",
        "here": here,
        "source": carried or source_of(encoder),
        "pinned": _pinned(pinned_by(encoder), places.encoder_pins.of(repo) if repo else {}),
        "bytes": _size(places.encoder(member(encoder, 0))) if here else about,
        "licence": encoder.licence,
        "cite": encoder.cite,
        "get": f"harness {'train family' if family else 'fetch'} {encoder.name}",
        "by_hand": f"--encoder {encoder.name}=PATH",
        "places": [file] if file else [],
        "downloads": [_download(encoder, f"{HUB}/{repo}")] if repo else [],
    }


def _download(thing: Any, address: str) -> Row:
    """Where from, and what it must be; None where that is not known."""
    return {
        "address": address,
        "revision": getattr(thing, "revision", None),
        "sha256": getattr(thing, "sha256", None) or getattr(thing, "weights_sha256", None),
        "bytes": getattr(thing, "size", None),
    }


def _pinned(word: str, seen: Mapping[str, str]) -> str:
    """The word, and for what is unpinned the digest that its first copy had, if one came."""
    digests = [digest[:12] for what, digest in seen.items() if what != "revision"]
    return f"{word}, first seen {' '.join(digests)}" if word == "unpinned" and digests else word


def _size(path: Path | None) -> int:
    """Bytes of a file, or of a folder's files."""
    if path is None:
        return 0
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def posts(found: Registry) -> list[Row]:
    """Post-processors, poolings and fit corpora: the words of a method id."""
    words = {
        **dict.fromkeys(found.poolings, "pooling"),
        **{f"+{name}": "post-processor" for name in found.posts},
        **{f"@{name}": "fit corpus: the task's own sentences" for name in TARGETS},
        **{f"@{name}": f"fit corpus: {corpus.note}" for name, corpus in found.corpora.items()},
    }
    return [{"word": word, "is": meaning} for word, meaning in words.items()]


def table(rows: Sequence[Row]) -> str:
    """Rows for people: columns that fit their content, empty columns left out."""
    from tabulate import tabulate

    words = {True: "yes", False: "no"}
    columns = [
        name
        for name in rows[0]
        if name not in TOO_LONG and any(row[name] not in ("", False) for row in rows)
    ]
    cells = [[words.get(row[name], row[name]) for name in columns] for row in rows]
    return tabulate(cells, headers=columns, disable_numparse=True)
