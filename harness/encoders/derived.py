"""The base of encoders that read another one's files in a way of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from harness.core.hardware import Hardware
from harness.core.interfaces import EncoderConfig
from harness.core.sources import Source

Config = TypeVar("Config", bound="DerivedConfig")


@dataclass(frozen=True)
class DerivedConfig:
    """An encoder's files under another reading: name, source and licence are the encoder's."""

    of: EncoderConfig

    @property
    def name(self) -> str:
        """The encoder's name: `minilm` of `minilm.native`."""
        return self.of.name

    @property
    def trained_on(self) -> str:
        """As the encoder says."""
        return self.of.trained_on

    @property
    def cite(self) -> str:
        """As the encoder says."""
        return self.of.cite

    @property
    def licence(self) -> str:
        """As the encoder says."""
        return self.of.licence

    @property
    def source(self) -> Source:
        """As the encoder says: everything lies in its files, or beside them."""
        return self.of.source

    def member(self: Config, seed: int) -> Config:
        """The seed's encoder under this reading."""
        return replace(self, of=self.of.member(seed))

    def with_max_length(self: Config, max_length: int) -> Config:
        """This encoder cut at another length, and named so."""
        return replace(self, of=self.of.with_max_length(max_length))

    def on(self: Config, hardware: Hardware) -> Config:
        """This encoder on a device and in a precision."""
        return replace(self, of=self.of.on(hardware))
