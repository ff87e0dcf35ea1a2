"""The encoders of recorded cells as their files are now.

A check compares them with records: if the files of an encoder have changed since a record
was measured, the record has to be measured again.
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
from harness.gate.golden_vectors import is_native
from harness.registry import Registry
from harness.resolve import config_for
from harness.results.index import encoder_of_method
from harness.results.records import Cell
from harness.results.store import Store
from harness.transforms.pooling import MEAN


@dataclass(frozen=True)
class CurrentEncoder:
    """An encoder as its files are now.

    Attributes:
        key: The key that the files give.
        options: The options of `harness run` that name the files; empty for a registered
            encoder.
    """

    key: str
    options: str = ""


@dataclass
class CurrentEncoders:
    """The encoders of cells as their files are now, as far as these are on this machine.

    Nothing is written. The digests of large files that runs have noted are used, and
    each encoder is identified once: then it is kept in `_identified`, by its method and
    seed.

    Attributes:
        registry: The encoders by name.
        places: The places of the command line. An encoder that was given by hand to the
            run alone is looked for where it was in that run.
        runs: The results folder of the run.
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

    def encoder_of_cell(self, cell: Cell) -> CurrentEncoder | None:
        """The encoder of a cell; None where its files are not here."""
        method_id = MethodId.parse(cell.method)
        if method_id is None:
            return None
        # Every pooling reads the same files, so that `mean` serves for all of them: another
        # pooling may be of a plug-in that is not loaded. Only `native`, the model's own
        # modules, reads further files.
        pooling = method_id.pooling if is_native(method_id) else MEAN.name
        method = f"{method_id.encoder}.{pooling}"
        if (method, cell.seed) not in self._identified:
            self._identified[method, cell.seed] = self._identify(method, cell.seed)
        return self._identified[method, cell.seed]

    def _identify(self, method: str, seed: int) -> CurrentEncoder | None:
        """The encoder of a method and seed; None where it is not known what its files are."""
        name = base_name(encoder_of_method(method))
        path = self.paths_by_name.get(name)
        if path is None:
            return self._identify_registered(method, seed)
        if not path.exists():
            return None
        options = f"--encoder {shlex.quote(f'{name}={path}')} "
        try:
            key = self._key(method, seed, name, path)
        except AssetMissing:
            return None
        except HarnessError as error:
            # The files are there and are no encoder any more: no record has this key.
            return CurrentEncoder(f"none: {error}", options)
        return None if key is None else CurrentEncoder(key, options)

    def _identify_registered(self, method: str, seed: int) -> CurrentEncoder | None:
        """An encoder that was not given by hand; None for one of a plug-in that is not loaded."""
        name = base_name(encoder_of_method(method))
        try:
            key = self._key(method, seed, name, path=None)
        except HarnessError:
            return None
        return None if key is None else CurrentEncoder(key)

    def _key(self, method: str, seed: int, name: str, path: Path | None) -> str | None:
        """The key of an encoder's files; None for a function, which has no files.

        Args:
            method: The encoder with a pooling.
            seed: The seed, which chooses the member of a family.
            name: The name of the encoder, without length and precision.
            path: Its files, if it was given by hand.
        """
        registry = self.registry
        if path is not None and name not in registry.encoders:
            registry = registry.with_encoders([config_for(name, str(path), path)])
        config = registry.parse(method).encoder.member(seed)
        if isinstance(config, FunctionConfig):
            return None
        places = replace(self.places, encoders=self.paths_by_name)
        return places.identify(config, places.encoder(config)).key
