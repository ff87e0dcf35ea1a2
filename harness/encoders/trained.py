"""Encoders that are trained on this machine: a family, of which every seed is another training.

A family is a recipe: the arguments of `harness train`, and the encoder that they start
from. Its members are checkpoint folders, `seed-0` and on, in the cache folder or below
a folder given by hand. No digest can pin their weights, which differ between machines:
a member's `training.json` must show this recipe and its seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from harness.core.digests import digest_of
from harness.core.errors import DataError, UsageError
from harness.core.hardware import Hardware, base_name, in_precision
from harness.core.identity import NOT_IN_IDENTITY, identity_text
from harness.core.interfaces import Identity, Trained
from harness.encoders.checkpoint import read_settings
from harness.encoders.config import BaseConfig
from harness.encoders.transformer import TransformerConfig

TRAINING_FILE = "training.json"
# Options that do not tell one family from another.
MEMBER_OPTIONS = {"--seed", "--threads"}
# Settings of the start that the name of a family's folder has always been a digest of.
SETTINGS_IN_FOLDERS = ("repo", "revision", "max_length", "weights_sha256")


@dataclass(frozen=True)
class FamilyConfig(BaseConfig):
    """A family of encoders that one recipe trains, a member a seed.

    Args:
        name: Its id in the grammar of methods.
        recipe: The arguments of `harness train`, without seed, folders and threads.
        start: The encoder that the recipe's `--from` names.
        max_length: Tokens that texts are cut to; None is the checkpoint's own.
        on_the_spot: Whether a run that needs a member trains it, which takes a minute
            or two.
        version: Names a change in how the command trains, after which members are
            trained anew.

    Examples:
        >>> from harness import TransformerConfig
        >>> from harness.encoders.trained import FamilyConfig
        >>> start = TransformerConfig("bert-mini", "")
        >>> family = FamilyConfig("mine", "simcse-unsup --from bert-mini", start)
        >>> family.member(3).name
        'mine, seed 3'
    """

    recipe: str
    start: TransformerConfig
    max_length: int | None = None
    hardware: Hardware = field(default=Hardware(), repr=False, metadata=NOT_IN_IDENTITY)
    on_the_spot: bool = field(default=False, repr=False, metadata=NOT_IN_IDENTITY)
    version: str = ""

    @property
    def source(self) -> Trained:
        """The training; another recipe or start has another folder, another length has not."""
        family = base_name(self.name)
        version = {"version": self.version} if self.version else {}
        start = identity_text(self.start, written=SETTINGS_IN_FOLDERS)
        digest = digest_of({"recipe": self.recipe, "start": start, **version})
        folder = f"{family}-{digest[:12]}"
        return Trained(self.recipe, family, folder, on_the_spot=self.on_the_spot)

    def on(self, hardware: Hardware) -> FamilyConfig:
        """This family in a precision, which its name shows unless it is float32."""
        return replace(
            self, name=in_precision(self.name, hardware.dtype), hardware=hardware
        )

    def member(self, seed: int) -> Member:  # type: ignore[override]
        """The encoder that the recipe makes with a seed."""
        return Member(
            f"{self.name}, seed {seed}",
            repo="",
            max_length=self.max_length,
            hardware=self.hardware,
            trained_on=self.trained_on,
            cite=self.cite,
            licence=self.licence,
            family=self,
            seed=seed,
        )

    def identify(self, path: Path) -> NoReturn:
        """Refused: a family has no weights, only its members have."""
        raise UsageError(
            f"{self.name}: every seed is an encoder of its own; {path} is of one"
        )

    def load(self, path: Path, cache: Path) -> NoReturn:  # noqa: ARG002 - as encoders are loaded
        """Refused, like `identify`."""
        self.identify(path)


@dataclass(frozen=True)
class Member(TransformerConfig):
    """One seed of a family."""

    family: FamilyConfig = field(kw_only=True)
    seed: int = field(kw_only=True)

    @property
    def source(self) -> Trained:
        """The family's training with this seed."""
        return replace(self.family.source, seed=self.seed)

    def identify(self, path: Path) -> Identity:
        """The key and digests of the folder; DataError if recipe and seed did not make it."""
        training = read_settings(path / TRAINING_FILE)
        command, seed, start = (
            training.get(key) for key in ("command", "seed", "start")
        )
        recipe, start = recipe_of(str(command)), start or {}
        # A start without a known digest is pinned by its revision, or by its first
        # download.
        name, pinned = self.family.start.name, self.family.start.weights_sha256
        wanted = {name: pinned or start.get(name)}
        if (recipe, seed, start) != (self.family.recipe, self.seed, wanted):
            raise DataError(
                f"{path / TRAINING_FILE}: wanted seed {self.seed} of harness train "
                f"{self.family.recipe}, from weights {wanted}; found seed {seed} of {command}, "
                f"from {start}; train it again, into another folder"
            )
        return super().identify(path)


def recipe_of(command: str) -> str:
    """The recipe in a command of `harness train`: its words without a member's own options."""
    words = command.split()
    pairs = pairwise(words[1:])
    return " ".join(
        word for before, word in pairs if not {before, word} & MEMBER_OPTIONS
    )
