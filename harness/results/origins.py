"""Where the weights of an encoder and the texts of a corpus come from, and if they are pinned.

A folder that is given for a registered encoder may hold another checkpoint, and one with
a name of its own may hold a registered encoder's. Both are told by the fingerprints in
the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import Method
from harness.data.places import asset_named, assets_of, pinned_by
from harness.encoders.fingerprints import Pin
from harness.registry import Registry
from harness.results.index import Copy, Results, encoder_of_method


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an encoder or a corpus comes from.

    Attributes:
        name: The encoder's name without its maximum length, or `@` and the corpus.
        source: The repository, address or recipe.
        is_pinned: Whether a digest or a commit says which content it is.
        is_copy: Whether a copy was given by hand. A commit alone does not pin it, since
            nothing says which commit the copy is of.
        difference: What of a copy is known to be another's, in words: `not the pinned
            weights of bert-base`.
    """

    name: str
    source: str
    is_pinned: bool
    is_copy: bool = False
    difference: str = ""

    def __str__(self) -> str:
        if self.difference:
            return self.difference
        source = f"a copy by hand of {self.source}" if self.is_copy else self.source
        return source if self.is_pinned else f"{source}, unpinned"


def origin_of_encoder(config: EncoderConfig, copies: Iterable[Copy]) -> Origin:
    """Where the weights of an encoder come from, by its configuration and the files that were read.

    They are pinned where they are known to be its own, whatever form their files have.
    """
    name = base_name(config.name)
    source: Any = config.source
    text = str(source).removesuffix(", unpinned")
    copies = [*copies]
    difference = difference_of(config, copies)
    if difference:
        return Origin(
            name=name, source=text, is_pinned=False, is_copy=True, difference=difference
        )
    pin = pin_of(config)
    if copies and all(
        pin.knows_weights(each.weights, each.fingerprint) for each in copies
    ):
        return Origin(name=name, source=text, is_pinned=True)
    is_pinned_by_commit = (
        isinstance(source, Hub) and source.revision and not source.sha256
    )
    # Only a download from the hub notes its commit in the records.
    if is_pinned_by_commit and {each.revision for each in copies} - {source.revision}:
        return Origin(name=name, source=text, is_pinned=False, is_copy=True)
    is_downloaded = isinstance(source, Hub) or bool(assets_of(config))
    is_pinned = not (is_downloaded and pinned_by(config) == "unpinned")
    return Origin(name=name, source=text, is_pinned=is_pinned)


def pin_of(config: EncoderConfig | None) -> Pin:
    """What is known of an encoder's checkpoint; nothing of one that is no transformer."""
    pin: Pin = getattr(config, "pin", Pin())
    return pin


def difference_of(config: EncoderConfig | None, copies: Iterable[Copy]) -> str:
    """What of the first copy that is not as the encoder is pinned, in words; empty without one."""
    pin = pin_of(config)
    if config is None or pin == Pin():
        return ""
    name = base_name(config.name)
    for copy in copies:
        difference = pin.difference(name, copy.weights, copy.fingerprint)
        if difference:
            return difference
    return ""


def registered_twin(copy: Copy, registry: Registry) -> str:
    """The registered encoder whose weights, settings and tokens a copy has; empty for none."""
    for name, config in registry.encoders.items():
        pin = pin_of(config)
        is_known = pin.knows_weights(copy.weights, copy.fingerprint)
        if is_known and not pin.difference(name, copy.weights, copy.fingerprint):
            return name
    return ""


def unpinned_origins(
    method: Method | None, copies: Iterable[Copy], registry: Registry
) -> tuple[Origin, ...]:
    """The encoder and the fit corpus of a method, where nothing pins them."""
    if method is None:
        return ()
    origins = [origin_of_encoder(method.encoder, copies)]
    corpus = registry.corpora.get(method.fit_on or "")
    if corpus is not None:
        asset = asset_named(corpus.asset)
        is_pinned = asset.pinned != "unpinned"
        origins.append(
            Origin(name=f"@{corpus.name}", source=asset.source, is_pinned=is_pinned)
        )
    return tuple(origin for origin in origins if not origin.is_pinned)


# Sentences on the encoders of methods


def other_weights(method: str, copies: Iterable[Copy], registry: Registry) -> str:
    """What of the copies that a method read is not its encoder's, in words; empty if nothing is."""
    config = registry.encoders.get(base_name(encoder_of_method(method)))
    return difference_of(config, copies)


def sentence_on_copy(name: str, copies: Sequence[Copy], registry: Registry) -> str:
    """A sentence on files that are not an encoder's pinned ones, or are another's; empty for none.

    Args:
        name: The encoder's name.
        copies: The files.
        registry: The encoders that are registered, and those given by hand.
    """
    if name in registry.encoders and name not in registry.by_hand:
        origin = origin_of_encoder(registry.encoders[name], copies)
        is_to_be_said = origin.is_copy and not origin.is_pinned
        return f"{name}: {origin}" if is_to_be_said else ""
    twins = {registered_twin(copy, registry) for copy in copies}
    if len(twins) != 1 or twins == {""}:
        return ""
    [twin] = twins
    return (
        f"{name} has the weights of {twin}: --encoder {twin}=PATH compares them with what is "
        "published"
    )


def sentences_on_copies(
    methods: Sequence[str], results: Results, registry: Registry
) -> Iterator[str]:
    """The sentences on the encoders of methods, at most one an encoder, by its records."""
    chosen = {*methods}
    copies: dict[str, list[Copy]] = {}
    for method in results.methods:
        if method in chosen:
            of_encoder = copies.setdefault(base_name(encoder_of_method(method)), [])
            for copy in results.copies(method):
                if copy not in of_encoder:
                    of_encoder.append(copy)
    for encoder, of_encoder in copies.items():
        sentence = sentence_on_copy(encoder, of_encoder, registry)
        if sentence:
            yield sentence
