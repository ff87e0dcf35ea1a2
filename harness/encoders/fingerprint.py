"""Pins of a checkpoint other than its weights: vocabulary, settings, length, rules.

Two folders can hold the same weights and still give other vectors: with another
vocabulary, another maximum length, or a tokenizer that keeps case. A `Fingerprint`
holds digests of these parts, and `require` refuses a folder in which one of them
differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.digests import digest_of
from harness.core.errors import DataError
from harness.encoders.checkpoint import PIN_REMEDY
from harness.encoders.checkpoint_settings import (
    CONFIG_FILE,
    maximum_length,
    read_settings,
)

# A sentence that shows how a tokenizer treats case, accents, a clitic, digits, currency,
# a dash, scripts, an emoji, and a rare word that it splits.
GOLDEN_SENTENCE = (
    "Zoë's naïve CAFÉ-owner didn't pay $1,234.50 — for 東京 sushi 🙂 "
    "(antidisestablishmentarianism)!"
)

# Settings of config.json that name and store a model, and change no vector.
HARMLESS_SETTINGS = frozenset(
    {
        "_name_or_path",
        "architectures",
        "dtype",
        "gradient_checkpointing",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)
# The settings that say how text is split, by the file in which they are. Transformers
# takes BERT's rules from the second file and others' from the first.
RULES = {
    "tokenizer.json": ("normalizer", "pre_tokenizer", "post_processor"),
    "tokenizer_config.json": (
        "do_lower_case",
        "strip_accents",
        "tokenize_chinese_chars",
    ),
}


@dataclass(frozen=True)
class Fingerprint:
    """The pins of a checkpoint other than its weights; None pins nothing.

    Args:
        vocabulary: The digest of its tokens and their ids.
        config: The digest of its settings, as `config_digest` takes it.
        max_length: The maximum length that the checkpoint states itself, in tokens.
        rules: The digest of how its tokenizer splits text, as `rules_digest` takes it;
            it is not compared in a folder without a tokenizer.json.
    """

    vocabulary: str
    config: str | None = None
    max_length: int | None = None
    rules: str | None = None

    def require(self, name: str, folder: Path) -> None:
        """Refuse a folder with other tokens, settings, rules, or another maximum length.

        `name` is the name of the encoder, for the message.
        """
        checks = [
            Check(
                subject="a vocabulary with digest",
                pinned=self.vocabulary,
                actual=digest_of(_vocabulary(folder)),
            ),
            Check(
                subject="settings with digest",
                pinned=self.config,
                actual=config_digest(read_settings(folder / CONFIG_FILE)),
            ),
            Check(
                subject="a maximum length of",
                pinned=self.max_length,
                actual=maximum_length(name, folder),
            ),
        ]
        rules = rules_digest(folder)
        if rules is not None:
            checks.append(
                Check(
                    subject="tokenizer rules with digest",
                    pinned=self.rules,
                    actual=rules,
                )
            )
        for check in checks:
            if check.pinned not in (None, check.actual):
                raise DataError(
                    f"{name}: {folder} has {check.subject} {str(check.actual)[:12]}, wanted "
                    f"{str(check.pinned)[:12]}; {PIN_REMEDY}"
                )


@dataclass(frozen=True)
class Check:
    """A comparison of one part of a folder with its pin.

    Attributes:
        subject: The part, for the message.
        pinned: Its pinned digest or number; None pins nothing.
        actual: The digest or number of the folder.
    """

    subject: str
    pinned: str | int | None
    actual: str | int


# bert-base-uncased, and every encoder with its vocabulary: SimCSE's and SBERT's of
# BERT, MiniLM.
BERT_UNCASED = Fingerprint(
    "f21ba7d9e039a58203c4dcbab3b89aacd44946d8dba15c12b61666cf93b786c1"
)


def _vocabulary(folder: Path) -> dict[str, int]:
    """The tokens of a tokenizer and their ids; empty where no file lists them as it should."""
    file = folder / "tokenizer.json"
    try:
        if not file.is_file():
            tokens = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
            return {token: number for number, token in enumerate(tokens)}
        settings = read_settings(file)
        added = {token["content"]: token["id"] for token in settings["added_tokens"]}
        return {**added, **settings["model"]["vocab"]}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def config_digest(config: Mapping[str, Any]) -> str:
    """The digest of a config.json in any order, without the settings that change no vector."""
    return digest_of(
        {name: value for name, value in config.items() if name not in HARMLESS_SETTINGS}
    )


def rules_digest(folder: Path) -> str | None:
    """The digest of case, accents, splitting and special tokens; None without tokenizer.json."""
    if not (folder / "tokenizer.json").is_file():
        return None
    rules = {}
    for file_name, settings_names in RULES.items():
        settings = read_settings(folder / file_name)
        for setting_name in settings_names:
            rules[setting_name] = settings.get(setting_name)
    return digest_of(rules)
