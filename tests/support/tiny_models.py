"""Checkpoints of every architecture, with random weights and a few dozen tokens, made in a moment.

The tokenizers are transformers' own classes over small vocabularies, so that special tokens,
padding sides and subwords are the real ones.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers as hf
from tokenizers.pre_tokenizers import ByteLevel
from transformers.utils import logging

WORDS = ["the", "cat", "dog", "sat", "on", "mat"]
LETTERS = list("abcdefghijklmnopqrstuvwxyz.,!?'0123456789")
POSITIONS = 40
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": POSITIONS,
}
# XLNet's and T5's positions are relative: their checkpoints need a length from the tokenizer.
LENGTH = {"model_max_length": POSITIONS}


def in_batches(encoder, tokens):
    """The encoder, its batches of about so many tokens."""
    return replace(encoder, choice=replace(encoder.choice, tokens=tokens))


def rest_slow(names, *default):
    """Cases of which `make test` runs those of `default`, and `make test-all` every one."""
    return [
        name if name in default else pytest.param(name, marks=pytest.mark.slow) for name in names
    ]


def numbered(*tokens):
    return {token: number for number, token in enumerate(tokens)}


def pieces(*special):
    """A WordPiece vocabulary."""
    return numbered(*special, *WORDS, *LETTERS, *("##" + letter for letter in LETTERS))


def unigrams(*special):
    """A SentencePiece vocabulary: pieces and their scores."""
    words = [("▁" + word, -2.0) for word in WORDS]
    return [(token, 0.0) for token in special] + [
        ("▁", -3.0),
        *words,
        *((x, -4.0) for x in LETTERS),
    ]


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
    "distilbert": lambda: hf.BertTokenizer(vocab=pieces(*BERT)),
    "electra": lambda: hf.BertTokenizer(vocab=pieces(*BERT)),
    "mpnet": lambda: hf.MPNetTokenizer(vocab=pieces("<s>", "<pad>", "</s>", "[UNK]", "<mask>")),
    "xlnet": lambda: hf.XLNetTokenizer(vocab=unigrams(*XLNET), **LENGTH),
    "t5": lambda: hf.T5Tokenizer(vocab=unigrams("<pad>", "</s>", "<unk>"), extra_ids=0, **LENGTH),
    "bart": lambda: hf.BartTokenizer(**byte_level(*ROBERTA)),
    "gpt2": lambda: hf.GPT2Tokenizer(**byte_level("<|endoftext|>")),
}
CONFIGS = {
    "bert": lambda n: hf.BertConfig(vocab_size=n, **SIZES),
    "roberta": lambda n: hf.RobertaConfig(vocab_size=n, pad_token_id=1, **SIZES),
    "albert": lambda n: hf.AlbertConfig(vocab_size=n, embedding_size=16, pad_token_id=0, **SIZES),
    "distilbert": lambda n: hf.DistilBertConfig(
        vocab_size=n, dim=32, n_layers=3, n_heads=2, hidden_dim=40, max_position_embeddings=40
    ),
    "electra": lambda n: hf.ElectraConfig(vocab_size=n, embedding_size=16, **SIZES),
    "mpnet": lambda n: hf.MPNetConfig(vocab_size=n, pad_token_id=1, **SIZES),
    "xlnet": lambda n: hf.XLNetConfig(vocab_size=n, d_model=32, n_layer=3, n_head=2, d_inner=40),
    "t5": lambda n: hf.T5Config(
        vocab_size=n, d_model=32, d_kv=16, d_ff=40, num_layers=3, num_decoder_layers=2, num_heads=2
    ),
    "bart": lambda n: hf.BartConfig(
        vocab_size=n, d_model=32, encoder_layers=3, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=40, decoder_ffn_dim=40,
        max_position_embeddings=POSITIONS,
    ),
    "gpt2": lambda n: hf.GPT2Config(
        vocab_size=n, n_embd=32, n_layer=3, n_head=2, n_positions=POSITIONS,
        bos_token_id=0, eos_token_id=0,
    ),
}  # fmt: skip
KINDS = tuple(TOKENIZERS)


def make(kind: str, folder: Path, seed: int = 0) -> Path:
    """A checkpoint of this architecture in the folder."""
    logging.disable_progress_bar()
    tokenizer = TOKENIZERS[kind]()
    model = hf.AutoModel.from_config(CONFIGS[kind](len(tokenizer)))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            # Wide enough for positions, masks and neighbours to show in the third digit.
            weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
