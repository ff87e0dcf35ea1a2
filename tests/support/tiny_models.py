"""Checkpoints of every architecture, with random weights and a few dozen tokens, made in a moment.

The tokenizers are transformers' own classes over small vocabularies, so that special
tokens, padding sides and subwords are the real ones.
"""

from dataclasses import replace
from pathlib import Path

import torch
import transformers as hf
from tokenizers.pre_tokenizers import ByteLevel
from transformers.utils import logging

WORDS = ["the", "cat", "dog", "sat", "on", "mat"]
LETTERS = list("abcdefghijklmnopqrstuvwxyz.,!?'0123456789")
POSITIONS = 40
# What architectures call the width and the depth, and other sizes: a configuration has some
# of these names.
WIDTHS = ("hidden_size", "d_model", "n_embd", "dim", "emb_dim")
LAYERS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    *("encoder_layers", "num_encoder_layers"),
)
SIZES = {
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "num_experts_per_tok"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(
        ("intermediate_size", "d_inner", "hidden_dim", "d_ff", "ffn_dim"), 40
    ),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "n_inner"), 40),
    **dict.fromkeys(("d_kv", "head_dim", "embedding_size"), 16),
    "sliding_window": 8,
}
# XLNet's and T5's positions are relative: their checkpoints need a length from the
# tokenizer.
LENGTH = {"model_max_length": POSITIONS}


def in_batches(encoder, tokens):
    """The encoder, its batches of about so many tokens."""
    return replace(encoder, choice=replace(encoder.choice, tokens=tokens))


def numbered(*tokens):
    return {token: number for number, token in enumerate(tokens)}


def pieces(*special):
    """A WordPiece vocabulary."""
    return numbered(*special, *WORDS, *LETTERS, *("##" + letter for letter in LETTERS))


def unigrams(*special):
    """A SentencePiece vocabulary: pieces and their scores."""
    words = [("▁" + word, -2.0) for word in WORDS]
    text = [("▁", -3.0), *words, *((x, -4.0) for x in LETTERS)]
    return [(token, 0.0) for token in special] + text


def byte_level(*special):
    return {"vocab": numbered(*special, *sorted(ByteLevel.alphabet())), "merges": []}


BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
XLNET = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")

TOKENIZERS = {
    "bert": lambda: hf.BertTokenizer(vocab=pieces(*BERT)),
    "roberta": lambda: hf.RobertaTokenizer(**byte_level(*ROBERTA)),
    "albert": lambda: hf.AlbertTokenizer(
        vocab=unigrams("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    ),
    **dict.fromkeys(
        ("distilbert", "electra"), lambda: hf.BertTokenizer(vocab=pieces(*BERT))
    ),
    "mpnet": lambda: hf.MPNetTokenizer(
        vocab=pieces("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
    ),
    "xlnet": lambda: hf.XLNetTokenizer(vocab=unigrams(*XLNET), **LENGTH),
    "t5": lambda: hf.T5Tokenizer(
        vocab=unigrams("<pad>", "</s>", "<unk>"), extra_ids=0, **LENGTH
    ),
    "bart": lambda: hf.BartTokenizer(**byte_level(*ROBERTA)),
    "gpt2": lambda: hf.GPT2Tokenizer(**byte_level("<|endoftext|>")),
}
KINDS = tuple(TOKENIZERS)


def config(
    kind: str,
    vocabulary: int,
    positions: int = POSITIONS,
    width: int = 32,
    layers: int = 3,
    **settings: object,
) -> hf.PretrainedConfig:
    """A small configuration of an architecture."""
    cls = hf.CONFIG_MAPPING[kind]
    if kind == "xlnet":
        return cls(vocab_size=vocabulary, d_model=32, n_layer=3, n_head=2, d_inner=40)
    default = cls()
    sizes = {
        **SIZES,
        **dict.fromkeys(WIDTHS, width),
        **dict.fromkeys(LAYERS, layers),
        **dict.fromkeys(("max_position_embeddings", "n_positions"), positions),
    }
    sizes = {
        k: v for k, v in sizes.items() if isinstance(getattr(default, k, None), int)
    }
    ids = {
        "vocab_size": vocabulary,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if getattr(default, "layer_types", None):
        ids["layer_types"] = None
    return cls(**{**sizes, **ids, **settings})


def make(kind: str, folder: Path, seed: int = 0) -> Path:
    """A checkpoint of this architecture in the folder."""
    tokenizer = TOKENIZERS[kind]()
    padding = {"pad_token_id": 1} if kind in ("roberta", "mpnet", "bart") else {}
    return saved(folder, tokenizer, config(kind, len(tokenizer), **padding), seed)


def saved(
    folder: Path, tokenizer: object, config: hf.PretrainedConfig, seed: int = 0
) -> Path:
    """A checkpoint in the folder, whose weights are drawn from the seed."""
    logging.disable_progress_bar()
    model = hf.AutoModel.from_config(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            # Wide enough for positions, masks and neighbours to show in the third
            # digit.
            weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
