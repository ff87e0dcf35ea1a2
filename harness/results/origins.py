"""Where the weights of an encoder and the texts of a corpus come from, and if they are pinned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import Method, Record
from harness.data.places import asset_named, assets_of, pinned_by
from harness.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an encoder or a corpus comes from.

    Attributes:
        name: The encoder's name without its maximum length, or `@` and the corpus.
        source: The repository, address or recipe.
        is_pinned: Whether a digest or a commit says which content it is.
        is_copy: Whether a copy was given by hand. A commit alone does not pin it, since
            nothing says which commit the copy is of.
    """

    name: str
    source: str
    is_pinned: bool
    is_copy: bool = False

    def __str__(self) -> str:
        source = f"a copy by hand of {self.source}" if self.is_copy else self.source
        return source if self.is_pinned else f"{source}, unpinned"


def origin_of_encoder(config: EncoderConfig, records: Iterable[Record]) -> Origin:
    """Where the weights of an encoder come from, by its configuration and its records."""
    name = config.name.partition(":")[0]
    source = config.source
    if isinstance(source, Hub) and source.revision and not source.sha256:
        # Only a download from the hub notes its commit in the records.
        commits = {record.facts.get("revision") for record in records}
        if commits - {source.revision}:
            return Origin(name=name, source=str(source), is_pinned=False, is_copy=True)
    is_downloaded = isinstance(source, Hub) or bool(assets_of(config))
    is_pinned = not (is_downloaded and pinned_by(config) == "unpinned")
    text = str(source).removesuffix(", unpinned")
    return Origin(name=name, source=text, is_pinned=is_pinned)


def unpinned_origins(
    method: Method | None, records: Iterable[Record], registry: Registry
) -> tuple[Origin, ...]:
    """The encoder and the fit corpus of a method, where nothing pins them."""
    if method is None:
        return ()
    origins = [origin_of_encoder(method.encoder, records)]
    corpus = registry.corpora.get(method.fit_on or "")
    if corpus is not None:
        asset = asset_named(corpus.asset)
        is_pinned = asset.pinned != "unpinned"
        origins.append(
            Origin(name=f"@{corpus.name}", source=asset.source, is_pinned=is_pinned)
        )
    return tuple(origin for origin in origins if not origin.is_pinned)
