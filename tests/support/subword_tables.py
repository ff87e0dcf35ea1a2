"""A small folder as Model2Vec writes it: a dozen sub-words with vectors of three dimensions."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

PIECES = ("[PAD]", "[UNK]", "the", "cat", "dog", "sat", "##s", "on", "mat", ".", "un", "##known")
VECTORS = np.random.default_rng(5).normal(size=(len(PIECES), 3)).astype(np.float32)


def made(folder: Path, *, unit: bool = False, shared: bool = False) -> Path:
    """A Model2Vec folder."""
    folder.mkdir()
    words = {piece: number for number, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))  # noqa: S106 - a sub-word
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    tensors = {"embeddings": VECTORS}
    if shared:
        tensors = {
            "embeddings": VECTORS[:5],
            "mapping": np.arange(len(PIECES)) % 5,
            "weights": np.linspace(0.5, 2, len(PIECES)).astype(np.float32),
        }
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "model2vec", "normalize": unit}
    (folder / "config.json").write_text(json.dumps(config))
    return folder
