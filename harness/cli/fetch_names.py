"""The names of `harness fetch`: assets, encoders, hub repositories."""

from __future__ import annotations

from collections.abc import Iterable

from harness.assets.catalogue import TOGETHER
from harness.assets.fetch.batch import Thing
from harness.assets.places import asset_named, companion_of, every_asset, vectors_of
from harness.evaluation.select import config_for
from harness.registry import Registry, known


def all_names(found: Registry) -> list[str]:
    """Every asset and every encoder."""
    return [*(asset.name for asset in every_asset()), *found.encoders]


def default_names(found: Registry) -> tuple[str, ...]:
    """The data sets that tasks score."""
    names = dict.fromkeys(task.asset for task in found.tasks.values())
    return tuple(name for name in names if not asset_named(name).embedded)


def resolve(names: Iterable[str], found: Registry) -> dict[str, tuple[Thing, ...]]:
    """Resolve each name: an asset, several in one download, an encoder, a repository.

    Raises UsageError for a name that is none of them.
    """
    assets = {asset.name: asset for asset in every_asset()}
    things: dict[str, tuple[Thing, ...]] = {name: (asset,) for name, asset in assets.items()}
    for name, parts in TOGETHER.items():
        things[name] = tuple(asset for asset in assets.values() if asset.name in parts)
    for name, config in found.encoders.items():
        second = companion_of(config)
        things[name] = (vectors_of(config) or config, *([second] if second else []))
    wanted: dict[str, tuple[Thing, ...]] = {}
    for name in dict.fromkeys(names):
        by_hand = "/" in name and name not in things
        wanted[name] = (config_for(name, name, None),) if by_hand else known("asset", name, things)
    return wanted
