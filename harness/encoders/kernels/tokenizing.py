"""The tokenizer of a checkpoint folder: texts to token ids, as the files of the folder say.

`tokenizer.json` decides how a text is split. transformers 5 makes a tokenizer anew from
the class that a folder names, or from its model type, and leaves out what that class does
not know; transformers 4 took the file. What the other files state beside it is applied
where both versions do: a blank before the first word (`add_prefix_space`), and tokens
that the file lacks. A setting that would give other ids than the file is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import AutoConfig, AutoTokenizer, BertConfig

from harness.core.errors import DataError, UsageError
from harness.data.tasks.mini import embedded_pairs
from harness.encoders.checkpoint import (
    CONFIG_FILE,
    is_unnamed_bert,
    library_errors,
    read_settings,
    require_no_sampling,
)
from harness.encoders.config import GOLDEN_SENTENCE

# Nothing is asked of the hub, and no code of a folder is run.
LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
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


# Where transformers keeps the tokens that were added to a vocabulary.
TOKEN_FILES = (TOKENIZER_SETTINGS, "added_tokens.json", "special_tokens_map.json")
# The classes whose ends of a text transformers 4 set by `add_bos_token` and
# `add_eos_token`; every other class, and transformers 5, pass over the two settings.
CLASSES_WITH_ENDS = ("CodeLlama", "Cohere", "Gemma", "Llama")
# What begins a word in the vocabularies of byte pairs and of sentence pieces.
WORD_BEGINNINGS = ("Ġ", "▁")


def _has_prefix(tokenizer: Tokenizer) -> bool:
    """Whether a blank is put before the first word."""
    tokens = tokenizer.encode("man", add_special_tokens=False).tokens
    return bool(tokens) and tokens[0].startswith(WORD_BEGINNINGS)


def _merges(tokenizer: Tokenizer, text: str, other: str) -> bool:
    """Whether two texts have the same tokens."""
    return bool(tokenizer.encode(text).ids == tokenizer.encode(other).ids)


# Settings that transformers 5 makes a tokenizer by, and whether one of the `tokenizers`
# library follows such a value.
FOLLOWED: Mapping[str, Callable[[Tokenizer, Any], bool]] = {
    "add_prefix_space": lambda t, value: _has_prefix(t) is bool(value),
    "do_lower_case": lambda t, value: _merges(t, "MAN", "man") is bool(value),
    "keep_accents": lambda t, value: _merges(t, "é à", "e a") is not bool(value),
    "src_lang": lambda t, value: value in t.encode("").tokens,
    "strip_accents": lambda t, value: _merges(t, "é à", "e a") is bool(value),
}


@dataclass(frozen=True)
class CuttingTokenizer:
    """Texts to token ids, cut to a maximum length that leaves room for the special tokens.

    Attributes:
        name: The name of the encoder, for messages.
        tokenizer: The tokenizer of transformers.
        max_length: The maximum length in tokens, special tokens included.
        vector_count: The number of vectors for tokens that the checkpoint has, where it
            is smaller than the number of tokens; else None.

    Raises:
        UsageError: The special tokens leave no room for another.
    """

    name: str
    tokenizer: Any
    max_length: int
    vector_count: int | None = None

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
        """This tokenizer on texts in lower case, as sentence-transformers puts them."""
        tokenizer = deepcopy(self.tokenizer)
        if not tokenizer.is_fast:
            tokenizer.do_lower_case = True
            return replace(self, tokenizer=tokenizer)
        normalizer = tokenizer.backend_tokenizer.normalizer
        steps = []
        if normalizer is not None:
            is_sequence = isinstance(normalizer, normalizers.Sequence)
            steps = list(normalizer) if is_sequence else [normalizer]
        if not any(isinstance(step, normalizers.Lowercase) for step in steps):
            steps = [normalizers.Lowercase(), *steps]
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
        token_ids: list[list[int]] = encoded["input_ids"]
        if self.vector_count is not None:
            for text, ids in zip(texts, token_ids, strict=True):
                if max(ids, default=0) >= self.vector_count:
                    token = self.tokenizer.convert_ids_to_tokens(max(ids))
                    raise DataError(
                        f"{self.name}: wanted a vector for each token, found none for {token!r} in "
                        f"{text[:60]!r}; leave such texts out"
                    )
        return token_ids


def open_config(folder: Path) -> Any:
    """The settings of a folder as transformers reads them.

    Raises DataError where config.json does not say what they are of.
    """
    if is_unnamed_bert(folder):
        return BertConfig.from_pretrained(folder, **LOCAL)
    file = folder / CONFIG_FILE
    if "model_type" not in read_settings(file):
        raise DataError(
            f"{file}: wanted model_type, the name of the architecture in transformers, found none; "
            'write it into the file, as in "model_type": "roberta"'
        )
    return AutoConfig.from_pretrained(folder, **LOCAL)


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
    config = open_config(folder)  # it decides whose vocabulary that of a folder is
    tokenizer = AutoTokenizer.from_pretrained(folder, config=config, **LOCAL)
    file = folder / TOKENIZER_FILE
    if not rebuilt and file.is_file():
        own_tokenizer = Tokenizer.from_file(str(file))
        own_tokenizer.no_truncation()
        own_tokenizer.no_padding()
        if tokenizer.is_fast:
            _add_stated_tokens(folder, tokenizer, own_tokenizer)
        if _split_differently(tokenizer, own_tokenizer):
            if not tokenizer.is_fast:
                raise DataError(
                    f"{file}: wanted the ids of {type(tokenizer).__name__}, which "
                    f"{TOKENIZER_SETTINGS} names, found others; remove one of the two"
                )
            _require_bert_rules(folder, own_tokenizer)
            _follow_settings(folder, tokenizer.backend_tokenizer, own_tokenizer)
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
    """Whether a tokenizer gives other ids than the one of tokenizer.json.

    The texts include the tokens that either of them has added to its vocabulary.
    """
    added_tokens: list[Any] = []
    if tokenizer.is_fast:
        added_tokens += tokenizer.added_tokens_decoder.values()
        added_tokens += own_tokenizer.get_added_tokens_decoder().values()
    contents = sorted({token.content for token in added_tokens})
    texts = [*compared_texts(), *(f"man {content} man" for content in contents)]
    own_ids = [encoded.ids for encoded in own_tokenizer.encode_batch(texts)]
    ids = tokenizer(texts, padding=False, truncation=False, verbose=False)["input_ids"]
    return bool(ids != own_ids)


def _add_stated_tokens(folder: Path, tokenizer: Any, own_tokenizer: Tokenizer) -> None:
    """Add to tokenizer.json's the tokens that other files of a folder state, as transformers does.

    Tokens that only the class of `tokenizer` has by default are left out: a class that is
    not the file's would add some.
    """
    stated: set[str] = set()
    for name in TOKEN_FILES:
        stated |= _strings(read_settings(folder / name))
    own_contents = {
        token.content for token in own_tokenizer.get_added_tokens_decoder().values()
    }
    own_tokenizer.add_tokens(
        [
            token
            for _, token in sorted(tokenizer.added_tokens_decoder.items())
            if token.content in stated - own_contents
        ]
    )


def _strings(content: Any) -> set[str]:
    """All texts in the content of a JSON file, names of settings included."""
    if isinstance(content, str):
        return {content}
    parts: list[Any] = []
    if isinstance(content, dict):
        parts = [*content, *content.values()]
    if isinstance(content, list):
        parts = content
    return set().union(*map(_strings, parts))


def _follow_settings(
    folder: Path, tokenizer: Tokenizer, own_tokenizer: Tokenizer
) -> None:
    """Make tokenizer.json's follow the settings that its class follows, or refuse it.

    Both versions of transformers set the blank before the first word of byte pairs, by
    the setting or the default of the class. `tokenizer` is made by the class.
    """
    own_tokenizer.encode_special_tokens = tokenizer.encode_special_tokens
    own_step = own_tokenizer.pre_tokenizer
    step = _byte_level_in(tokenizer.pre_tokenizer)
    if step is not None and isinstance(own_step, pre_tokenizers.ByteLevel):
        own_step.add_prefix_space = step.add_prefix_space
        own_tokenizer.pre_tokenizer = own_step
    settings = read_settings(folder / TOKENIZER_SETTINGS)
    for name, is_followed in FOLLOWED.items():
        value = settings.get(name)
        if value is None or is_followed(own_tokenizer, value):
            continue
        if is_followed(tokenizer, value):
            raise DataError(
                f"{folder / TOKENIZER_SETTINGS}: {name} = {value!r}, which {TOKENIZER_FILE} does "
                "not follow; correct one of the two"
            )


def _byte_level_in(step: Any) -> Any:
    """The step of byte pairs in a pre-tokenizer; None where it has none."""
    steps: list[Any] = [step]
    if isinstance(step, pre_tokenizers.Sequence):
        steps = list(cast(Any, step))  # its stubs do not say that it is iterable
    byte_levels = [s for s in steps if isinstance(s, pre_tokenizers.ByteLevel)]
    return byte_levels[0] if byte_levels else None


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

    Some classes of transformers 4 did so; every other class, and transformers 5, obey the
    post-processor of tokenizer.json alone. Raises DataError where such a class is asked
    to leave out a token that is there.
    """
    file = folder / TOKENIZER_SETTINGS
    settings = read_settings(file)
    stated_class = str(settings.get("tokenizer_class") or type(tokenizer).__name__)
    if not (folder / TOKENIZER_FILE).is_file() or not stated_class.startswith(
        CLASSES_WITH_ENDS
    ):
        return
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
