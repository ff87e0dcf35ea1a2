"""How large an encoder is against the papers' encoders: the order and the headings of pages.

What a small model shows need not be true of a model of the papers' size, so no page
puts them into one count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Packaged, Trained, VectorFile
from harness.core.types import Record
from harness.registry import Registry
from harness.results.index import Results

# The dimensions of BERT-base, and of the word vectors that the papers average (GloVe
# 840B).
DIMENSIONS_OF_BERT_BASE = 768
DIMENSIONS_OF_WORD_VECTORS = 300
OWN_PACKAGE = "harness/"  # the folder of the weights that come with the harness


class EncoderSize(StrEnum):
    """A group of encoders; pages show the groups in this order."""

    OF_PAPERS = "models of the papers' size"
    SMALL = "small real models"
    MINIATURE = "our miniature"

    @property
    def heading(self) -> str:
        """It as a heading."""
        return f"{self.value[0].upper()}{self.value[1:]}"

    @property
    def word(self) -> str:
        """It as a cell of a table: `papers' size`, `small`, `miniature`."""
        return {"OF_PAPERS": "papers' size", "SMALL": "small"}.get(
            self.name, "miniature"
        )


def sizes_of_encoders(
    results: Results, registry: Registry
) -> Mapping[str, EncoderSize]:
    """The size of every measured encoder, by its name without a maximum length."""
    records_of: dict[str, list[Record]] = {}
    for (method, _), records in results.by_cell.items():
        records_of.setdefault(base_name(method.partition(".")[0]), []).extend(records)
    return {
        encoder: size_of_encoder(registry.encoders.get(encoder), records)
        for encoder, records in records_of.items()
    }


def size_of_encoder(
    config: EncoderConfig | None, records: Iterable[Record]
) -> EncoderSize:
    """The size of an encoder.

    Args:
        config: What is known of its files; None for an encoder that is not registered.
        records: Its records, which hold the dimensions of its vectors. A fitted map may
            have left out some, so the largest number counts.
    """
    source = config.source if config is not None else None
    facts = [record.facts for record in records]
    dimensions = max((fact.get("dimensions", 0) for fact in facts), default=0)
    has_word_vectors = isinstance(source, VectorFile) or any(
        "coverage" in fact for fact in facts
    )
    wanted = DIMENSIONS_OF_WORD_VECTORS if has_word_vectors else DIMENSIONS_OF_BERT_BASE
    if dimensions >= wanted:
        return EncoderSize.OF_PAPERS
    is_own = isinstance(source, Packaged) and source.package.startswith(OWN_PACKAGE)
    if is_own or isinstance(source, Trained):
        return EncoderSize.MINIATURE
    return EncoderSize.SMALL


def in_groups(
    encoders: Iterable[str], sizes: Mapping[str, EncoderSize]
) -> dict[EncoderSize, list[str]]:
    """The encoders of each group that has any, the group of the largest models first.

    Args:
        encoders: Names, with a maximum length or without.
        sizes: The size of each encoder by its name without a maximum length.
    """
    groups: dict[EncoderSize, list[str]] = {size: [] for size in EncoderSize}
    for encoder in encoders:
        groups[sizes[base_name(encoder)]].append(encoder)
    return {size: members for size, members in groups.items() if members}
