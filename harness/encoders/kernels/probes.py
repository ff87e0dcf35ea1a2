"""What a folder's settings and tokenizer do, as transformers reads them.

Two folders may say the same in other words: an old config.json without a setting, a
vocabulary in place of tokenizer.json. What the library makes of them is compared, and not
their words: the settings that are not its defaults, and the ids of probe texts.
"""

from __future__ import annotations

import json
from pathlib import Path

from harness.core.digests import digest_of
from harness.encoders.kernels.loading import opening
from harness.encoders.kernels.tokenizing import open_config, open_tokenizer

# Texts that a tokenizer with other rules or another vocabulary splits in another way: in
# capitals, with accents, signs and blanks, in several scripts, of unknown characters, and
# a word that is too long. Pins and records hold digests of their ids: they never change.
PROBE_TEXTS = (
    "THE Capital of FRANCE is Paris, isn't it? (Yes: 3.14 % of it, on 2/3!)",
    "Zoë's naïve CAFÉ-owner didn't pay $1,234.50 — for 東京 sushi 🙂.",
    "Crème brûlée à la façade; señor Ångström's résumé, İstanbul, Straße, ΣΊΣΥΦΟΣ.",
    "antidisestablishmentarianism, photosynthesising, Worcestershire, rain-soaked",
    "two  blanks,\ta tab and\na line, and a blank at the end ",
    "ﬁne ½ ① ｆｕｌｌ ﾊﾝｶｸ",
    "человек, إنسان, मनुष्य, ผู้ชาย, 사람",
    "☃ ⟨unknown⟩ ꙮ signs [MASK] <mask> </s>",
    "w" * 250,
    "",
)
PROBE_LENGTH = 512  # tokens, more than any of them has

# Settings that move no vector of an encoder.
WITHOUT_EFFECT = frozenset(
    {
        *("_name_or_path", "architectures", "transformers_version", "model_type"),
        *("dtype", "torch_dtype", "gradient_checkpointing", "use_cache", "return_dict"),
        *("output_attentions", "output_hidden_states", "chunk_size_feed_forward"),
        *("id2label", "label2id", "num_labels", "problem_type", "finetuning_task"),
        *("classifier_dropout", "classifier_activation", "task_specific_params"),
        *("initializer_range", "initializer_factor", "tie_word_embeddings"),
        *("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"),
        *("decoder_start_token_id", "summary_type", "summary_use_proj"),
        *("seq_classif_dropout", "qa_dropout", "sinusoidal_pos_embds"),
    }
)


def settings_and_tokens(folder: Path, *, rebuilt: bool) -> tuple[str, str]:
    """A folder's settings as `Pin.settings` has them, and the digest of the ids of probe texts.

    Raises DataError for files that transformers does not open.
    """
    with opening(folder.name, folder):
        config = open_config(folder)
        defaults = type(config)().to_dict()
        settings = [config.model_type]
        for name, value in sorted(config.to_dict().items()):
            # One that the class does not know is read by nothing.
            is_known = name in defaults and name not in WITHOUT_EFFECT
            if is_known and value != defaults[name]:
                settings.append(f"{name}={json.dumps(value, sort_keys=True)}")
        tokenizer = open_tokenizer(folder.name, folder, PROBE_LENGTH, rebuilt=rebuilt)
        ids = tokenizer(PROBE_TEXTS)
    return ", ".join(settings), digest_of({"ids": ids})
