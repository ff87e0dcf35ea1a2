"""Encoders that are trained on this machine: a family, with a member for every seed.

A family is a recipe: the arguments of `harness train`, and the encoder that they start
from. Its members are checkpoint folders, `seed-0`, `seed-1` and so on, in the cache
folder or below a folder given by hand. No digest can pin their weights, which differ
between machines: the `training.json` of a member must show this recipe and its seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from harness.core.digests import NOT_IN_IDENTITY, digest_of, identity_text
from harness.core.errors import DataError, UsageError
from harness.core.hardware import Hardware, base_name
from harness.core.interfaces import Identity, Trained
from harness.encoders.checkpoint import TRAINING_FILE, read_settings
from harness.encoders.config import BaseConfig
from harness.encoders.transformer import TransformerConfig

# Options that differ between the members of a family, and are not in its recipe.
MEMBER_OPTIONS = {"--seed", "--threads"}
# Settings of the start that are in the digest in the name of a family's folder even at
# their default, since folders are older than the rule that leaves defaults out.
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
        hardware: The device, precision and size of batches; `on` sets them.
        version: Names a change in how the command trains, after which members are
            trained anew.
        in_place_of: The encoder that a paper trains by this recipe on more data, whose
            published rows the family's scores stand below, as `other corpus`; empty for
            a family that stands for itself.

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
    in_place_of: str = field(default="", repr=False, metadata=NOT_IN_IDENTITY)

    @property
    def source(self) -> Trained:
        """The training. Its folder depends on recipe and start, not on the maximum length."""
        family = base_name(self.name)
        facts = {
            "recipe": self.recipe,
            "start": identity_text(self.start, SETTINGS_IN_FOLDERS),
        }
        if self.version:
            facts["version"] = self.version
        return Trained(
            recipe=self.recipe,
            family=family,
            folder=f"{family}-{digest_of(facts)[:12]}",
            on_the_spot=self.on_the_spot,
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
        """Raises UsageError: a family has no weights, only its members have."""
        raise UsageError(
            f"{self.name}: wanted a member of the family, since every seed is an encoder of its "
            f"own, found the family; name a seed for {path}"
        )

    def load(self, path: Path, cache: Path) -> NoReturn:  # noqa: ARG002 - as encoders are loaded
        """Raises UsageError, as `identify` does."""
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
        """The key and digests of the folder.

        Raises DataError for a folder that the family's recipe and this seed did not
        make, or from other weights than the start's.
        """
        training = read_settings(path / TRAINING_FILE)
        start = self.family.start
        made_from = training.get("start") or {}
        # A start without a pinned digest is pinned by its revision, or by its first
        # download: its digest is taken from the file.
        start_digest = start.weights_sha256 or made_from.get(start.name)
        stated = (
            recipe_of(str(training.get("command"))),
            training.get("seed"),
            made_from,
        )
        wanted = self.family.recipe, self.seed, {start.name: start_digest}
        if stated != wanted:
            raise DataError(
                f"{path / TRAINING_FILE}: wanted harness train {wanted[0]} with seed {wanted[1]} "
                f"from weights {wanted[2]}; found {stated[0]} with seed {stated[1]} from "
                f"{stated[2]}; train it again, into another folder"
            )
        return super().identify(path)


def course_of_training(folder: Path) -> Mapping[str, Any] | None:
    """What a record keeps of the training of a checkpoint that was chosen by its scores.

    Args:
        folder: The checkpoint folder.

    Returns:
        The numbers of `steps` and `seconds`; the development score `before` the first
        step, the `scores` after others, each with its step, and the step that was
        `kept`; the `losses`, each a mean with the last of its steps. None for a folder
        that was not trained here, or without such a choice.
    """
    training = read_settings(folder / TRAINING_FILE)
    if not training.get("scores"):
        return None
    course = {
        name: training[name]
        for name in ("steps", "seconds", "before", "scores", "kept")
    }
    losses = [[step, float(f"{loss:.4g}")] for step, loss in training["curve"]]
    return course | {"losses": losses}


def recipe_of(command: str) -> str:
    """The recipe in a command of `harness train`: its arguments without a member's own options.

    Examples:
        >>> recipe_of("harness train simcse-unsup --from bert-mini --seed 3")
        'simcse-unsup --from bert-mini'
    """
    arguments = command.split()[2:]  # after `harness train`
    recipe = []
    previous = ""
    for argument in arguments:
        is_option_or_value = argument in MEMBER_OPTIONS or previous in MEMBER_OPTIONS
        if not is_option_or_value:
            recipe.append(argument)
        previous = argument
    return " ".join(recipe)
