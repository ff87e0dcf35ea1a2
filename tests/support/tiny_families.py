"""Tiny checkpoints of the architectures whose vectors are compared with transformers' own.

Weights are drawn from a seed; each has a tokenizer that puts special tokens where those
of its published checkpoint do.
"""

from pathlib import Path
from typing import NamedTuple

import tiny_models
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers.models.auto import modeling_auto

from harness.encoders.kernels.loading import REFUSED_ARCHITECTURES, WITHOUT_PADDING

POSITIONS = 64
GROUPS = ("q_groups", "k_groups", "v_groups", "intermediate_groups", "output_groups")
CLS_FIRST, LAST, NONE = 0, -1, None


class Family(NamedTuple):
    """How an architecture is made, and what its vectors are: where the summary token stands."""

    tokenizer: str
    summary: int | None
    about: str = ""
    settings: dict = {}  # noqa: RUF012 - never changed
    kind: str = ""  # transformers' word for it, if not the name here


def bert(about="", **settings):
    return Family("bert", CLS_FIRST, about, settings)


def roberta(about="", **settings):
    return Family("roberta", CLS_FIRST, about, {"pad_token_id": 1, **settings})


def decoder(tokenizer="gpt2", about="", **settings):
    return Family(tokenizer, LAST, about, settings)


def half(tokenizer, about=""):
    return Family(tokenizer, NONE, about)


FAMILIES = {
    "bert": bert("also whole-word masking, SpanBERT, SBERT, SimCSE, E5, BGE"),
    "ernie": bert(),
    "megatron-bert": bert(),
    "rembert": bert(),
    "roberta": roberta(),
    "camembert": roberta(),
    "xlm-roberta": roberta("also multilingual E5, BGE-M3"),
    "xlm-roberta-xl": roberta(),
    "roberta-prelayernorm": roberta(),
    "data2vec-text": roberta(),
    "ibert": roberta(),
    "longformer": roberta("without global attention", attention_window=8),
    "luke": roberta("without entities", entity_vocab_size=9, entity_emb_size=8),
    "albert": Family("albert", CLS_FIRST),
    "distilbert": bert(),
    "electra": bert("its discriminator"),
    "mpnet": Family("mpnet", CLS_FIRST, "", {"pad_token_id": 1}),
    "xlm": bert("without language embeddings"),
    "flaubert": bert(),
    "xlnet": Family("xlnet", LAST, "its CLS is the last token"),
    "deberta": bert(),
    "deberta-v2": bert("also DeBERTa-v3"),
    "big_bird": bert("with full attention, whatever the length", attention_type="block_sparse"),
    "nystromformer": bert(),
    "convbert": bert(),
    "squeezebert": bert(embedding_size=32, **dict.fromkeys(GROUPS, 2)),
    "mobilebert": bert(intra_bottleneck_size=16, true_hidden_size=16),
    "fnet": Family("albert", CLS_FIRST, "", {"tpu_short_seq_length": 8}),
    "yoso": bert(),
    "roformer": bert(),
    "splinter": bert(),
    "modernbert": bert(global_attn_every_n_layers=2, local_attention=8),
    "nomic_bert": bert("without remote code"),
    "gte": bert(),
    "eurobert": Family("bos", NONE, "bidirectional, its tokenizer puts no CLS"),
    "t5": half("t5", "also sentence-T5, with its Dense by `native`"),
    "mt5": half("t5"),
    "umt5": half("t5"),
    "longt5": half("t5"),
    "bart": half("bart"),
    "mbart": half("bart"),
    "pegasus": half("t5"),
    "embedding-gemma": Family(
        "bos-eos", NONE, "bidirectional; prompts and Denses by `native`",
        {"use_bidirectional_attention": True}, "gemma3_text",
    ),
    "gemma": decoder("bos"),
    "gemma2": decoder("bos"),
    "gemma3_text": decoder("bos"),
    "llama": decoder("bos"),
    "mistral": decoder("bos-eos", "also E5-Mistral"),
    "qwen2": decoder("eos"),
    "qwen3": decoder("eos", "also Qwen3-Embedding"),
    "phi3": decoder("bos"),
    "glm": decoder("bos"),
    "gpt2": decoder(),
    "openai-gpt": decoder(),
    "gpt_neox": decoder(),
    "bloom": decoder(),
    "opt": decoder("bos", word_embed_proj_dim=32),
}  # fmt: skip


def kind_of(name):
    return FAMILIES[name].kind or name


def byte_level(*, bos=False, eos=False):
    """A tokenizer over bytes as decoders have one, with a token before or behind each text."""
    special = ("<pad>", "<bos>", "<eos>")
    made = Tokenizer(models.BPE(**tiny_models.byte_level(*special)))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    single = f"{'<bos> ' * bos}$A{' <eos>' * eos}"
    made.post_processor = processors.TemplateProcessing(
        single=single,
        special_tokens=[(token, number) for number, token in enumerate(special)],
    )
    names = dict(zip(("pad_token", "bos_token", "eos_token"), special, strict=True))
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, **names)


TOKENIZERS = {
    **tiny_models.TOKENIZERS,
    "bos": lambda: byte_level(bos=True),
    "eos": lambda: byte_level(eos=True),
    "bos-eos": lambda: byte_level(bos=True, eos=True),
}


def make(name: str, folder: Path) -> Path:
    """A checkpoint of this architecture in the folder."""
    family = FAMILIES[name]
    tokenizer = TOKENIZERS[family.tokenizer]()
    tokenizer.model_max_length = (
        POSITIONS - 8
    )  # some positions start behind the padding's
    config = tiny_models.config(
        kind_of(name), len(tokenizer) + 8, POSITIONS, **family.settings
    )
    return tiny_models.saved(folder, tokenizer, config)


def untried():
    """The families of masked language models that are neither compared nor refused."""
    masked = set(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    return sorted(
        masked - {kind_of(name) for name in FAMILIES} - set(REFUSED_ARCHITECTURES)
    )


SUMMARIES = {CLS_FIRST: "the first token, CLS", LAST: "the last token", NONE: "none"}


PAGE = """# Architectures

Each of these architectures is compared with transformers' own forward pass on one sentence
without padding: the mean of each layer, the summary token, the pooler. Batches and padding on
either side move no vector by more than 1e-5 of the largest coordinate
(`tests/encoders/test_families.py`).

| `model_type` | `cls` is | batches | note |
|:--|:--|:--|:--|
{compared}

With `equal lengths` only sentences of one length share a pass, since padding would show in their
vectors. Of an encoder-decoder the encoder is run, and it has no summary token. A decoder's `cls`
is its last token that is not padding. The pooling `native` adds a model's own prompts and
pooling.

## Refused

| `model_type` | why, and what to do |
|:--|:--|
{refused}

## Any other

An architecture in neither table is tried out when it is loaded. It is refused where its layers do
not give a vector for each token, it is encoded by equal lengths where padding shows, and it has a
summary token only where its tokenizer puts CLS or where it is causal. Of transformers' masked
language models these are in neither table:
{untried}.
"""


def page() -> str:
    """The parts of docs/encoders.md on transformers."""
    compared = [
        f"| `{kind_of(name)}` | {SUMMARIES[family.summary]} | "
        f"{'equal lengths' if name in WITHOUT_PADDING else 'padded'} | {family.about} |"
        for name, family in FAMILIES.items()
    ]
    return PAGE.format(
        compared="\n".join(compared),
        refused="\n".join(
            f"| `{kind}` | {reason} |" for kind, reason in REFUSED_ARCHITECTURES.items()
        ),
        untried=", ".join(f"`{kind}`" for kind in untried()),
    )
