"""A method by its id, encoder name, hub repository or folder, and the places of its files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.types import Method
from harness.evaluation.embed import Embedder, fit_method
from harness.evaluation.model_names import Models
from harness.evaluation.select import encoders_by_hand
from harness.registry import Registry


def named_method(
    name: str | Path, places: Places, registry: Registry | None = None
) -> tuple[Method, Places]:
    """The method of an id, an encoder, a hub repository, or a folder, and places that know it.

    Raises UsageError for a name that means nothing and for what is no name, AssetMissing for a
    model whose own pooling is wanted while its files are not here.
    """
    if not isinstance(name, str | Path):
        raise UsageError(
            f"wanted the name, the folder or the Method of a model, found a {type(name).__name__}; "
            "harness.evaluate takes a function, one at a time"
        )
    models = Models(registry or registry_of(places), dict(places.encoders))
    [method] = models.methods([str(name)], places)
    return models.registry.parse(method), replace(places, encoders=models.paths)


def registry_of(places: Places) -> Registry:
    """The registry with the encoders by hand that the places have."""
    return encoders_by_hand(f"{name}={path}" for name, path in places.encoders.items())[0]


def encoder(
    model: str | Path | Method,
    *,
    texts: Iterable[str] | None = None,
    seed: int = 0,
    places: Places | None = None,
) -> Embedder:
    """Open a model as a function from texts to vectors.

    Args:
        model: What `harness run -m` takes: the id of a method, an encoder's name, a hub repository
            or a folder, which then mean the model's own modules; or a `Method`.
        texts: What post-processors are fitted on; a method without any needs none.
        seed: Seeds the fits; of a family, it names the training.
        places: Where files are looked for; by default where the command line looks, as
            HARNESS_CACHE_DIR and HARNESS_DATA_DIR say. Nothing is downloaded.

    Returns:
        The method, fitted: called with N texts, it gives a matrix of N rows.

    Raises:
        UsageError: The name means nothing, or there are no texts to fit on.
        AssetMissing: The model is not on this machine; the message says how to get it.
        DataError: Its files are not what they should be.

    Examples:
        >>> import harness
        >>> embed = harness.encoder("bert-mini")
        >>> embed(["A man is eating.", "Someone eats."]).shape
        (2, 256)
        >>> embed.method.id
        'bert-mini.mean'
    """
    places = Places.from_environment(os.environ) if places is None else places
    if isinstance(model, Method):
        method = model
    else:
        method, places = named_method(model, places)
    config = method.encoder.member(seed)
    loaded = config.load(places.encoder(config), places.cache)
    return fit_method(method, loaded, texts, seed)
