"""One method by whatever name the field has for it, and the places of its files."""

from __future__ import annotations

from dataclasses import replace

from harness.assets.places import Places
from harness.core.types import Method
from harness.evaluation.model_names import Models
from harness.registry import Registry, load_registry


def named_method(
    name: str, places: Places, registry: Registry | None = None
) -> tuple[Method, Places]:
    """The method of an id, an encoder, a hub repository, or a folder, and places that know it.

    Raises UsageError for a name that means nothing, AssetMissing for a model whose own pooling is
    wanted while its files are not here.
    """
    models = Models(registry or load_registry(), dict(places.encoders))
    [method] = models.methods([name], places)
    return models.registry.parse(method), replace(places, encoders=models.paths)
