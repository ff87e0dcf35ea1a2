"""A small BERT pre-trained from scratch: a WordPiece vocabulary and masked language modelling.

Devlin et al. 2018, arXiv 1810.04805, section 3.1, at a scale for two processor cores. Different
here: single sentences instead of packed 512-token passages, hence no next-sentence prediction and
no trained pooler; batches of equally long sentences, so that nothing is padded; no dropout in
pre-training, since no sentence is seen often enough to be memorised (the configuration has 0.1,
which fine-tuning then uses).

    python tools/embedded/bert_mini.py --out my-bert
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import command_line, open_corpus, run, training_parser
from tokenizers import BertWordPieceTokenizer, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from tokenizers.trainers import BpeTrainer
from torch import nn
from torch.nn import functional as F  # noqa: N812
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast  # type: ignore[attr-defined]

from harness.core.arrays import Int, Int64
from harness.core.errors import DataError
from harness.core.files import digest_of
from harness.core.progress import Bar
from harness.core.types import Progress
from harness.training.contrastive import mask
from harness.training.datasets import Text
from harness.training.loop import (
    CheckpointPolicy,
    Curve,
    Schedule,
    TrainingInfo,
    require_new,
    seeded,
    train,
    write_checkpoint,
)
from harness.transforms.pooling import MEAN

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TOKENISED_AT_ONCE = 10_000  # sentences
EMPTY = 2  # tokens of an empty sentence: CLS and SEP
CONTINUED = 0xF0000  # a private plane of Unicode: continuation characters, `##x` of WordPiece


@dataclass(frozen=True)
class MlmSettings:
    """The model's dimensions and its training; `tokens` is the number of word pieces seen in all.

    `masked` is the share of word pieces to predict: 80 % of them become [MASK], 10 % a random word
    piece, 10 % stay (section 3.1).
    """

    vocabulary: int = 8192
    layers: int = 4
    size: int = 256
    heads: int = 4
    positions: int = 128
    dropout: float = 0.1
    masked: float = 0.15
    tokens: int = 40_000_000
    tokens_per_batch: int = 4096
    learning_rate: float = 1e-3
    warmup: int = 500
    decay: float = 0.25
    weight_decay: float = 0.01

    def schedule(self, corpus: Sentences) -> Schedule:
        """The schedule over as many steps as see `tokens` word pieces of the corpus."""
        batches = len(corpus.order(np.random.default_rng(0), self.tokens_per_batch))
        steps = max(1, round(self.tokens * batches / len(corpus.ids)))
        return Schedule(
            steps=steps,
            learning_rate=self.learning_rate,
            warmup=min(self.warmup, steps),
            decay=self.decay,
            weight_decay=self.weight_decay,
            betas=(0.9, 0.98),
            epsilon=1e-6,
        )

    def build(self, seed: int) -> BertForMaskedLM:
        """A model with weights drawn from the seed, without dropout, though configured with it."""
        config = BertConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.size,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.size,
            max_position_embeddings=self.positions,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
        )
        with seeded(seed):
            model = BertForMaskedLM(config)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        return model


def wordpieces(sentences: Iterable[str], size: int, characters: int = 150) -> Tokenizer:
    """A lower-cased WordPiece vocabulary of that size, trained on the sentences.

    The alphabet is the most frequent `characters`. The result is deterministic: the WordPiece
    trainer of `tokenizers` numbers continuation pieces (`##x`) in a random order and breaks ties by
    it, so the byte-pair trainer is given continuation characters as characters of their own. Raises
    DataError where the sentences give fewer word pieces.
    """
    counts = _words(sentences)
    frequency: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    alphabet = set(sorted(frequency, key=lambda c: (-frequency[c], c))[:characters])
    words = sorted(word for word in counts if alphabet.issuperset(word))
    trainer = BpeTrainer(vocab_size=size - len(SPECIAL), min_frequency=2, show_progress=False)
    byte_pairs = Tokenizer(BPE())
    byte_pairs.pre_tokenizer = WhitespaceSplit()
    repeated = (" ".join([w[0] + _shifted(w[1:], CONTINUED)] * counts[w]) for w in words)
    byte_pairs.train_from_iterator(repeated, trainer)
    pieces = sorted(
        piece[0] + _shifted(piece[1:], -CONTINUED)
        if ord(piece[0]) < CONTINUED
        else f"##{_shifted(piece, -CONTINUED)}"
        for piece in byte_pairs.get_vocab()
    )
    if len(pieces) + len(SPECIAL) != size:
        raise DataError(
            f"wanted {size} word pieces, the corpus gives {len(pieces) + len(SPECIAL)}; take more "
            "sentences or a smaller vocabulary"
        )
    vocabulary = {piece: n for n, piece in enumerate((*SPECIAL, *pieces))}
    return BertWordPieceTokenizer(vocab=vocabulary, lowercase=True)._tokenizer


def _words(sentences: Iterable[str]) -> Counter[str]:
    """The frequencies of words, as BERT splits sentences into words."""
    normalizer, splitter = BertNormalizer(lowercase=True), BertPreTokenizer()
    counts: Counter[str] = Counter()
    for sentence in sentences:
        text = normalizer.normalize_str(sentence)
        counts.update(word for word, _ in splitter.pre_tokenize_str(text))
    return counts


def _shifted(text: str, by: int) -> str:
    """The text with every code point moved by so much."""
    return "".join(chr(ord(character) + by) for character in text)


@dataclass(frozen=True, eq=False)
class Sentences:
    """A tokenised corpus: sentence n is ids[starts[n] : starts[n + 1]], CLS and SEP included."""

    ids: Int[np.ndarray, " T"]
    starts: Int64[np.ndarray, " N_plus_1"]

    @classmethod
    def of(cls, texts: Iterable[str], tokenizer: Tokenizer, positions: int) -> Sentences:
        """Tokenise texts, truncated to so many positions; those without a word are left out."""
        tokenizer.enable_truncation(positions)
        ids: list[np.ndarray[Any, Any]] = []
        lengths: list[int] = []
        remaining = iter(texts)
        while block := list(islice(remaining, TOKENISED_AT_ONCE)):
            rows = [e.ids for e in tokenizer.encode_batch_fast(block) if len(e.ids) > EMPTY]
            lengths += map(len, rows)
            ids.append(np.array([i for row in rows for i in row], np.int32))
        if not lengths:
            raise DataError("wanted sentences to train on, found none with a word in it")
        return cls(np.concatenate(ids), np.concatenate([[0], np.cumsum(lengths)]))

    def order(
        self, rng: np.random.Generator, tokens_per_batch: int
    ) -> list[Int64[np.ndarray, " B"]]:
        """An epoch: every sentence once, in batches of equally long ones, the batches shuffled."""
        lengths = np.diff(self.starts)
        batches = []
        for length in np.unique(lengths):
            rows = rng.permutation(np.flatnonzero(lengths == length))
            size = max(1, tokens_per_batch // int(length))
            batches += [rows[at : at + size] for at in range(0, len(rows), size)]
        return [batches[n] for n in rng.permutation(len(batches))]

    def batch(self, rows: Int64[np.ndarray, " B"]) -> Int64[np.ndarray, "B T"]:
        """The ids of equally long sentences."""
        length = int(self.starts[rows[0] + 1] - self.starts[rows[0]])
        return self.ids[self.starts[rows, None] + np.arange(length)].astype(np.int64)


class MaskedLanguageModel:
    """The training task of pre-training: every step predicts the masked word pieces of a batch."""

    def __init__(
        self, model: BertForMaskedLM, corpus: Sentences, settings: MlmSettings, seed: int
    ) -> None:
        self.model, self.corpus, self.settings, self.seed = model, corpus, settings, seed
        self.batches = len(self._epoch(0))
        self._order = lru_cache(maxsize=1)(self._epoch)  # steps come in order

    def backward(self, step: int) -> float:
        """Add the gradient of a step; return its mean cross-entropy over masked pieces, in nats."""
        settings = self.settings
        ids = self.corpus.batch(self._order(step // self.batches)[step % self.batches])
        masked, places = mask(
            ids,
            settings.masked,
            settings.vocabulary,
            range(len(SPECIAL)),
            SPECIAL.index("[MASK]"),
            np.random.default_rng((self.seed, 1, step)),
        )
        states = self.model.bert(torch.from_numpy(masked)).last_hidden_state
        logits = self.model.cls(states.reshape(-1, settings.size)[torch.from_numpy(places)])
        loss = F.cross_entropy(logits, torch.from_numpy(ids.reshape(-1)[places]))
        torch.autograd.backward(loss)
        return loss.item()

    def _epoch(self, number: int) -> list[Int64[np.ndarray, " B"]]:
        rng = np.random.default_rng((self.seed, 0, number))
        return self.corpus.order(rng, self.settings.tokens_per_batch)


def pretrain(
    corpus: Text, settings: MlmSettings, seed: int, out: Path, progress: Progress, command: str
) -> Curve:
    """Train a vocabulary and a model on the corpus and write the checkpoint, weights in 16 bits.

    An interrupted run goes on from `out/unfinished`.
    """
    require_new(out)
    unfinished = out / "unfinished"
    digest = corpus.digest()
    tokenizer = _tokenizer(corpus, settings, unfinished, progress)
    progress.phase("word pieces of the corpus", None)
    sentences = Sentences.of(corpus, tokenizer, settings.positions)
    vocabulary = digest_of(tokenizer.get_vocab())
    identity = asdict(settings) | {"corpus": digest, "vocabulary": vocabulary, "seed": seed}
    task = MaskedLanguageModel(settings.build(seed), sentences, settings, seed)
    policy = CheckpointPolicy(unfinished, settings=identity)
    curve = train(task, settings.schedule(sentences), seed, progress, policy)
    data = {corpus.name: digest, "vocabulary": vocabulary}
    info = TrainingInfo(command, asdict(settings), seed, data, curve)
    write_checkpoint(out, task.model, unfinished, MEAN, settings.positions, info, half=True)
    shutil.rmtree(unfinished)
    return curve


def _tokenizer(corpus: Text, settings: MlmSettings, folder: Path, progress: Progress) -> Tokenizer:
    """The tokenizer in the folder, trained on the corpus and written there if it is not yet."""
    if not (folder / "tokenizer.json").exists():
        progress.phase("training the vocabulary", None)
        tokenizer = BertTokenizerFast(
            tokenizer_object=wordpieces(corpus, settings.vocabulary),
            model_max_length=settings.positions,
        )
        tokenizer.save_pretrained(folder)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = training_parser(__file__, __doc__)
    settings = MlmSettings()
    for name, kind, meaning in (
        ("tokens", int, "word pieces to see in all"),
        ("layers", int, "of the transformer"),
        ("size", int, "dimensions of a vector"),
        ("vocabulary", int, "number of word pieces"),
        ("learning_rate", float, "the highest of the schedule"),
        ("tokens_per_batch", int, "word pieces of a step"),
    ):
        option, default = f"--{name.replace('_', '-')}", getattr(settings, name)
        parser.add_argument(option, type=kind, default=default, help=meaning)
    parser.add_argument("--threads", type=int, help="of the processor; other counts, other bits")
    options = parser.parse_args(arguments)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    chosen = {key: value for key, value in vars(options).items() if key in asdict(settings)}
    with Bar(sys.stderr) as bar:
        curve = pretrain(
            open_corpus(options),
            replace(settings, **chosen),
            options.seed,
            options.out,
            bar,
            command_line(parser, options),
        )
    print(f"{options.out}: {len(curve.losses):,} steps, loss {curve.thinned()[-1][1]:.3f}")


if __name__ == "__main__":
    run(main)
