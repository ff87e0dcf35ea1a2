"""The tokenizer of a checkpoint folder: texts to token ids, as the files of the folder say.

`tokenizer.json` decides. transformers 5 makes a tokenizer anew from the class that a
folder names, or from its model type, and leaves out what that class does not know. Every
number that was published with transformers 4 is of the file's own ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers
from transformers import AutoTokenizer

from harness.core.errors import DataError, UsageError
from harness.data.tasks.mini import embedded_pairs
from harness.encoders.checkpoint import (
    library_errors,
    read_settings,
    require_no_sampling,
)
from harness.encoders.config import GOLDEN_SENTENCE

TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_SETTINGS = "tokenizer_config.json"

# Texts on which the steps of a normaliser differ.
RARE_TEXTS = (
    GOLDEN_SENTENCE,
    "two  blanks,\ta tab and\na line",
    " a blank on either side ",
    "ﬁne ½ ① ｆｕｌｌ ﾊﾝｶｸ",
    "İstanbul, Straße, ΣΊΣΥΦΟΣ, Čeština",
    "человек, إنسان, मनुष्य, ผู้ชาย",
)
# Words of several scripts, so that every tokenizer with a vocabulary tells two of them
# apart.
PROBE_WORDS = (
    "man",
    "guitar",
    "the",
    "Haus",
    "maison",
    "человек",
    "東京",
    "إنسان",
    "1",
    "?",
)
COMPARED_PAIRS = 100  # of mini-sts, whose sentences are split by both tokenizers
# BERT's rules in tokenizer_config.json, and their names in the normaliser's own state.
BERT_RULES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


@dataclass(frozen=True)
class CuttingTokenizer:
    """Texts to token ids, cut to a maximum length that leaves room for the special tokens.

    Attributes:
        name: The name of the encoder, for messages.
        tokenizer: The tokenizer of transformers.
        max_length: The maximum length in tokens, special tokens included.

    Raises:
        UsageError: The special tokens leave no room for another.
    """

    name: str
    tokenizer: Any
    max_length: int

    def __post_init__(self) -> None:
        # A fast tokenizer that has no room for a word leaves the text uncut and gives
        # no error.
        special_count = self.tokenizer.num_special_tokens_to_add()
        if self.max_length <= special_count:
            raise UsageError(
                f"{self.name}: wanted room for a word, found {self.max_length} tokens, "
                f"{special_count} of them special; take a longer maximum length"
            )

    def lower_cased(self) -> CuttingTokenizer:
        """This tokenizer on texts in lower case."""
        tokenizer = deepcopy(self.tokenizer)
        steps: list[Any] = [normalizers.Lowercase()]
        normalizer = tokenizer.backend_tokenizer.normalizer
        if normalizer is not None:
            steps.append(normalizer)
        tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(steps)
        return replace(self, tokenizer=tokenizer)

    def prompt_length(self, prompt: str) -> int:
        """The number of tokens of a prompt, without a special one at its end."""
        [ids] = self([prompt])
        if ids[-1] in self.tokenizer.all_special_ids:
            return len(ids) - 1
        return len(ids)

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, special tokens included.

        Raises DataError if the tokenizer fails on one of them.
        """
        if not texts:
            return []
        with library_errors(
            f"{self.name}: wanted a tokenizer that splits every text",
            "mend its tokenizer.json",
        ):
            encoded = self.tokenizer(
                list(texts),
                truncation=True,
                max_length=self.max_length,
                padding=False,
                # Without the next two lists tokenising takes half the time.
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
        ids: list[list[int]] = encoded["input_ids"]
        return ids


def open_tokenizer(
    name: str, folder: Path, max_length: int, *, rebuilt: bool = False
) -> CuttingTokenizer:
    """The tokenizer of a folder.

    Args:
        name: The name of the encoder, for messages.
        folder: The checkpoint folder.
        max_length: The maximum length of a text, in tokens.
        rebuilt: Whether the tokenizer is the one that transformers makes of the folder,
            whatever tokenizer.json says.

    Raises:
        DataError: The files of the folder contradict each other.
        UsageError: The maximum length leaves no room for a word.
    """
    tokenizer = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    file = folder / TOKENIZER_FILE
    if not rebuilt and file.is_file():
        own_tokenizer = Tokenizer.from_file(str(file))
        if _split_differently(tokenizer, own_tokenizer):
            _require_bert_rules(folder, own_tokenizer)
            if not tokenizer.is_fast:
                raise DataError(
                    f"{file}: wanted the ids of {type(tokenizer).__name__}, which "
                    f"{TOKENIZER_SETTINGS} names, found others; remove one of the two"
                )
            tokenizer._tokenizer = own_tokenizer
    if tokenizer.is_fast:
        require_no_sampling(file, tokenizer.backend_tokenizer)
        if not rebuilt:
            _add_stated_ends(folder, tokenizer)
    return CuttingTokenizer(name, tokenizer, max_length)


@cache
def compared_texts() -> list[str]:
    """The texts on which two tokenizers are compared."""
    pairs = embedded_pairs("mini-sts", "test")
    sentences = (*pairs.a[:COMPARED_PAIRS], *pairs.b[:COMPARED_PAIRS])
    return [*RARE_TEXTS, *PROBE_WORDS, *sentences]


def _split_differently(tokenizer: Any, own_tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer gives other ids than the one of tokenizer.json."""
    own_tokenizer.no_truncation()
    own_tokenizer.no_padding()
    texts = compared_texts()
    own_ids = [encoded.ids for encoded in own_tokenizer.encode_batch(texts)]
    ids = tokenizer(texts, padding=False, truncation=False, verbose=False)["input_ids"]
    return bool(ids != own_ids)


def _require_bert_rules(folder: Path, own_tokenizer: Tokenizer) -> None:
    """Refuse a BERT whose two files contradict each other on case, accents or Chinese signs."""
    normalizer = own_tokenizer.normalizer
    if not isinstance(normalizer, normalizers.BertNormalizer):
        return
    settings = read_settings(folder / TOKENIZER_SETTINGS)
    for setting, name in BERT_RULES.items():
        rule = getattr(normalizer, name)
        if settings.get(setting) is not None and settings[setting] != rule:
            raise DataError(
                f"{folder / TOKENIZER_FILE}: wanted {name} = {settings[setting]}, as "
                f"{setting} of {TOKENIZER_SETTINGS} says, found {rule}; correct one of the two"
            )


def _add_stated_ends(folder: Path, tokenizer: Any) -> None:
    """Put the tokens around a text that `add_bos_token` and `add_eos_token` ask for.

    transformers 4 did so; transformers 5 obeys the post-processor of tokenizer.json
    alone. Raises DataError where a setting forbids a token that is there.
    """
    file = folder / TOKENIZER_SETTINGS
    settings = read_settings(file)
    ids = tokenizer("man")["input_ids"]
    is_there = {
        "add_bos_token": ids[:1] == [tokenizer.bos_token_id],
        "add_eos_token": ids[-1:] == [tokenizer.eos_token_id],
    }
    wanted = {}
    for setting, has_token in is_there.items():
        stated = settings.get(setting)
        wanted[setting] = has_token if stated is None else bool(stated)
        token = getattr(tokenizer, setting.removeprefix("add_"))
        if wanted[setting] != has_token and (has_token or token is None):
            raise DataError(
                f"{file}: {setting} = {stated!r}, but {TOKENIZER_FILE} gives {ids} for 'man'; "
                "correct one of the two"
            )
    if wanted != is_there:
        # A text between the two tokens, without any other, as in transformers 4.
        tokenizer.add_bos_token = wanted["add_bos_token"]
        tokenizer.add_eos_token = wanted["add_eos_token"]
