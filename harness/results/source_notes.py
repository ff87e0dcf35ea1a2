"""Footnotes on encoders and corpora that nothing pins: the digests of the copies measured."""

from __future__ import annotations

from collections.abc import Iterable

from harness.assets.places import asset_named, pinned_by, vectors_of
from harness.core.interfaces import EncoderConfig
from harness.core.sources import Hub
from harness.core.types import Method, Record
from harness.registry import Registry


def source_seen(config: EncoderConfig, records: Iterable[Record]) -> str:
    """Where the weights come from; of unpinned ones also the digests that the records have.

    A copy given by hand of what a commit alone pins is unpinned: its records name no such commit.
    """
    records, source = list(records), config.source
    if isinstance(source, Hub) and source.revision and not source.sha256:
        copies = [r for r in records if r.facts.get("revision") != source.revision]
        if copies:
            return f"a copy by hand of {source}, unpinned{_first_seen('weights', copies)}"
    downloaded = isinstance(source, Hub) or vectors_of(config)
    if pinned_by(config) != "unpinned" or not downloaded:
        return str(source)
    named = str(source).removesuffix(", unpinned")
    return f"{named}, unpinned{_first_seen('weights', records)}"


def unregistered(records: Iterable[Record]) -> str:
    """The source of an encoder that is not registered: `--encoder` gave it, and nothing pins it."""
    return f"by hand, unpinned{_first_seen('weights', records)}"


def notes_on(method: Method | None, records: Iterable[Record], registry: Registry) -> list[str]:
    """A footnote for an unpinned encoder and one for an unpinned fit corpus."""
    if method is None:
        return []
    records, notes = list(records), []
    source = source_seen(method.encoder, records)
    if ", unpinned" in source:
        notes.append(f"{method.encoder.name.partition(':')[0]}: {source}")
    corpus = registry.corpora.get(method.fit_on or "")
    if corpus is not None and asset_named(corpus.asset).pinned == "unpinned":
        source = asset_named(corpus.asset).source
        notes.append(f"@{corpus.name}: {source}, unpinned{_first_seen('fit', records)}")
    return notes


def _first_seen(what: str, records: Iterable[Record]) -> str:
    digests = sorted({record.digests[what][:12] for record in records if what in record.digests})
    return f", first seen {' '.join(digests)}" if digests else ""
