"""The encoders of recorded cells as their files are now.

A record of an encoder whose files have changed since is no answer to what a check asks.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from harness.assets.places import Places
from harness.core.errors import AssetMissing, HarnessError
from harness.core.hardware import base_name
from harness.core.types import MethodId
from harness.encoders.function import FunctionConfig
from harness.registry import Registry
from harness.resolve import config_for
from harness.results.records import Cell, Store
from harness.transforms.pooling import MEAN, NATIVE


@dataclass(frozen=True)
class CurrentEncoder:
    """The key that an encoder's files give now, and the options of a run that names these files."""

    key: str
    options: str = ""


@dataclass
class CurrentEncoders:
    """The encoders of cells as their files are now, as far as these are on this machine.

    Nothing is written, and of large files the digests that runs have noted are
    believed.

    Attributes:
        registry: The encoders by name.
        places: The places of the command line; an encoder given by hand to the run
            alone is where it was in that run.
        runs: The folder of the run.
    """

    registry: Registry
    places: Places
    runs: Path
    _identified: dict[tuple[str, int], CurrentEncoder | None] = field(
        default_factory=dict
    )

    @cached_property
    def paths_by_name(self) -> Mapping[str, Path]:
        """The folders and files of the encoders given by hand."""
        return {**Store(self.runs).encoders(), **self.places.encoders}

    def of_cell(self, cell: Cell) -> CurrentEncoder | None:
        """The encoder of a cell; None where its files are not here."""
        parts = MethodId.parse(cell.method)
        if parts is None:
            return None
        # Any other pooling reads the same files, and may be of a plug-in that is not
        # loaded.
        has_modules = parts.pooling.partition(":")[0] == NATIVE.name
        pooling = parts.pooling if has_modules else MEAN.name
        method = f"{parts.encoder}.{pooling}"
        if (method, cell.seed) not in self._identified:
            self._identified[method, cell.seed] = self._identify(method, cell.seed)
        return self._identified[method, cell.seed]

    def _identify(self, method: str, seed: int) -> CurrentEncoder | None:
        name = base_name(method.partition(".")[0])
        path = self.paths_by_name.get(name)
        if path is not None and not path.exists():
            return None
        options = "" if path is None else f"--encoder {shlex.quote(f'{name}={path}')} "
        try:
            key = self._key(method, seed, name, path)
        except AssetMissing:
            return None
        except HarnessError as error:
            # A registered encoder that is unknown here is one of a plug-in.
            return None if path is None else CurrentEncoder(f"none: {error}", options)
        return None if key is None else CurrentEncoder(key, options)

    def _key(self, method: str, seed: int, name: str, path: Path | None) -> str | None:
        """The key of the encoder's files; None for a function, which has none."""
        registry = self.registry
        if path is not None and name not in registry.encoders:
            registry = registry.with_encoders([config_for(name, str(path), path)])
        config = registry.parse(method).encoder.member(seed)
        if isinstance(config, FunctionConfig):
            return None
        places = replace(self.places, encoders=self.paths_by_name)
        return places.identify(config, places.encoder(config), writable=False).key
