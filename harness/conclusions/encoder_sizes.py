"""Groups of encoders by their size, by which pages are ordered and have headings.

A finding on a small model may not hold for a model of the papers' size, so no page counts
the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Packaged, Trained, VectorFile
from harness.core.types import Record
from harness.registry import Registry
from harness.results.index import Results, encoder_of_method

# The number of dimensions of BERT-base, and of the word vectors that the papers average
# (GloVe 840B).
DIMENSIONS_OF_BERT_BASE = 768
DIMENSIONS_OF_WORD_VECTORS = 300
OWN_PACKAGE = "harness/"  # the folder of the weights that come with the harness


class EncoderSize(StrEnum):
    """A group of encoders; pages show the groups in this order."""

    PAPERS = "models of the papers' size"
    SMALL = "small real models"
    MINIATURE = "our miniature"

    @property
    def heading(self) -> str:
        """The group as a heading: its name with a capital."""
        return f"{self.value[0].upper()}{self.value[1:]}"

    @property
    def word(self) -> str:
        """The group as a cell of a table: `papers' size`, `small`, `miniature`."""
        if self is EncoderSize.PAPERS:
            return "papers' size"
        return self.name.lower()


def sizes_of_encoders(
    results: Results, registry: Registry
) -> Mapping[str, EncoderSize]:
    """The size of every measured encoder, by its name without a maximum length."""
    records_by_encoder: dict[str, list[Record]] = {}
    for (method, _), records in results.by_cell.items():
        encoder = base_name(encoder_of_method(method))
        records_by_encoder.setdefault(encoder, []).extend(records)
    return {
        encoder: size_of_encoder(registry.encoders.get(encoder), records)
        for encoder, records in records_by_encoder.items()
    }


def size_of_encoder(
    config: EncoderConfig | None, records: Iterable[Record]
) -> EncoderSize:
    """The size of an encoder.

    Args:
        config: Its configuration; None for an encoder that is not registered.
        records: Its records, which hold the number of dimensions of the vectors. A
            fitted map may leave out some, so the largest number counts.
    """
    source = config.source if config is not None else None
    dimensions = 0
    has_word_vectors = isinstance(source, VectorFile)
    for record in records:
        dimensions = max(dimensions, record.facts.get("dimensions", 0))
        if "coverage" in record.facts:  # a fact of word vectors alone
            has_word_vectors = True
    dimensions_of_papers = DIMENSIONS_OF_BERT_BASE
    if has_word_vectors:
        dimensions_of_papers = DIMENSIONS_OF_WORD_VECTORS
    if dimensions >= dimensions_of_papers:
        return EncoderSize.PAPERS
    comes_with_harness = isinstance(source, Packaged) and source.package.startswith(
        OWN_PACKAGE
    )
    if comes_with_harness or isinstance(source, Trained):
        return EncoderSize.MINIATURE
    return EncoderSize.SMALL


def in_groups(
    names: Iterable[str], sizes: Mapping[str, EncoderSize]
) -> dict[EncoderSize, list[str]]:
    """The names of each group, the largest models first; empty groups are left out.

    Args:
        names: Ids of methods, or names of encoders with or without a maximum length.
        sizes: The size of each encoder by its name without a maximum length.
    """
    groups: dict[EncoderSize, list[str]] = {size: [] for size in EncoderSize}
    for name in names:
        groups[sizes[base_name(encoder_of_method(name))]].append(name)
    return {size: members for size, members in groups.items() if members}
