"""BERT in miniature, from scratch: a WordPiece vocabulary and masked language modelling.

Devlin et al. 2018 (arXiv 1810.04805), section 3.1, at a scale that two cores pay for. Different
here: single sentences instead of packed 512-token passages, hence no next-sentence task and no
trained pooler; batches of equally long sentences, so that nothing is padded; no dropout while it
trains, since no sentence is seen often enough to be learnt by heart (the configuration names 0.1,
which is what later training on it uses).
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from tokenizers.trainers import BpeTrainer
from torch import nn
from torch.nn import functional as F  # noqa: N812
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast  # type: ignore[attr-defined]

from harness.core.arrays import Int, Int64
from harness.core.digests import digest_of
from harness.core.errors import DataError, UsageError
from harness.core.types import Progress
from harness.training.checkpoint import Made, require_new, write_checkpoint
from harness.training.datasets import Text
from harness.training.loop import CheckpointPolicy, Curve, Schedule, seeded, train

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TOKENISED_AT_ONCE = 10_000  # sentences
IGNORED = 2  # tokens of an empty sentence: CLS and SEP
FOLLOWING = 0xF0000  # a private plane of Unicode, for characters that follow another in a word


class _Shift(dict[int, int]):
    """A translation that moves every character by so much."""

    def __init__(self, by: int) -> None:
        super().__init__()
        self.by = by

    def __missing__(self, character: int) -> int:
        return character + self.by


FORTH, BACK = _Shift(FOLLOWING), _Shift(-FOLLOWING)


@dataclass(frozen=True)
class Miniature:
    """The shape of the model and how it is trained; `tokens` are word pieces seen in all.

    `masked` is the share of the word pieces to predict: of these 80 % become [MASK], 10 % a random
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
        """As many steps as see that many tokens of the corpus."""
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
        """A new model, its weights drawn with the seed, its dropout off."""
        with seeded(seed):
            model = BertForMaskedLM(self.config())
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        return model

    def config(self) -> BertConfig:
        """The configuration that is saved with the weights."""
        return BertConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.size,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.size,
            max_position_embeddings=self.positions,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
        )


def wordpieces(sentences: Iterable[str], size: int, characters: int = 150) -> Tokenizer:
    """A lower-cased WordPiece vocabulary of that size, trained on the sentences.

    Its alphabet is the most frequent `characters`. The same sentences always give the same pieces:
    the WordPiece trainer of `tokenizers` numbers what follows in a word (`##x`) in a random order
    and breaks ties by it, so those characters go into its byte-pair trainer as characters of their
    own. Raises DataError where the sentences do not give as many pieces.
    """
    counts = _words(sentences)
    used: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            used[character] += count
    alphabet = {
        c for c, _ in sorted(used.items(), key=lambda item: (-item[1], item[0]))[:characters]
    }
    words = sorted(word for word in counts if alphabet.issuperset(word))
    trainer = BpeTrainer(vocab_size=size - len(SPECIAL), min_frequency=2, show_progress=False)
    pairs = Tokenizer(BPE())
    pairs.pre_tokenizer = WhitespaceSplit()
    pairs.train_from_iterator((_following(w, counts[w]) for w in words), trainer)
    pieces = sorted(
        piece[0] + piece[1:].translate(BACK)
        if ord(piece[0]) < FOLLOWING
        else f"##{piece.translate(BACK)}"
        for piece in pairs.get_vocab()
    )
    if len(pieces) + len(SPECIAL) != size:
        raise DataError(
            f"wanted {size} word pieces, the corpus gives {len(pieces) + len(SPECIAL)}; take more "
            "sentences or a smaller vocabulary"
        )
    vocabulary = {piece: n for n, piece in enumerate((*SPECIAL, *pieces))}
    return BertWordPieceTokenizer(vocab=vocabulary, lowercase=True)._tokenizer


def _words(sentences: Iterable[str]) -> Counter[str]:
    """How often each word stands in the sentences, as BERT cuts them into words."""
    normalise, cut = BertNormalizer(lowercase=True), BertPreTokenizer()
    counts: Counter[str] = Counter()
    for sentence in sentences:
        text = normalise.normalize_str(sentence)
        counts.update(word for word, _ in cut.pre_tokenize_str(text))
    return counts


def _following(word: str, count: int) -> str:
    """The word so many times, all its characters but the first marked as following."""
    return " ".join([word[0] + word[1:].translate(FORTH)] * count)


@dataclass(frozen=True, eq=False)
class Sentences:
    """A corpus as ids: sentence n is ids[starts[n] : starts[n + 1]], CLS and SEP included."""

    ids: Int[np.ndarray, " T"]
    starts: Int64[np.ndarray, " N_plus_1"]

    @classmethod
    def of(cls, texts: Iterable[str], tokenizer: Tokenizer, positions: int) -> Sentences:
        """Tokenise, cut to so many positions; sentences without a word piece are left out."""
        tokenizer.enable_truncation(positions)
        parts: list[np.ndarray[Any, Any]] = []
        lengths: list[int] = []
        for block in _blocks(texts, TOKENISED_AT_ONCE):
            rows = [e.ids for e in tokenizer.encode_batch_fast(block) if len(e.ids) > IGNORED]
            lengths += map(len, rows)
            parts.append(np.array([i for row in rows for i in row], np.int32))
        if not lengths:
            raise DataError("wanted sentences to train on, found none with a word in it")
        return cls(np.concatenate(parts), np.concatenate([[0], np.cumsum(lengths)]))

    def order(
        self, rng: np.random.Generator, tokens_per_batch: int
    ) -> list[Int64[np.ndarray, " B"]]:
        """Every sentence once, in batches of equal length, the batches shuffled."""
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


def _blocks(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    block: list[str] = []
    for text in texts:
        block.append(text)
        if len(block) == size:
            yield block
            block = []
    if block:
        yield block


def mask(
    ids: Int64[np.ndarray, "B T"],
    share: float,
    vocabulary: int,
    special: Sequence[int],
    mask_id: int,
    rng: np.random.Generator,
) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, " M"]]:
    """The ids with some hidden, and the flat places of those, of which there is at least one."""
    free = np.flatnonzero(~np.isin(ids, special))
    if len(free) == 0:
        raise UsageError("no word piece to hide: every token is a special one")
    places = np.sort(rng.permutation(free)[: max(1, round(share * len(free)))])
    fate = rng.random(len(places))
    hidden = ids.reshape(-1).copy()
    hidden[places[fate < 0.8]] = mask_id
    random = (fate >= 0.8) & (fate < 0.9)
    hidden[places[random]] = rng.integers(len(special), vocabulary, random.sum())
    return hidden.reshape(ids.shape), places


class MaskedLanguageModel:
    """What the loop trains: every step predicts the hidden word pieces of one batch."""

    def __init__(
        self, model: BertForMaskedLM, corpus: Sentences, settings: Miniature, seed: int
    ) -> None:
        self.model, self.corpus, self.settings, self.seed = model, corpus, settings, seed
        self.batches = len(self._epoch(0))
        self._order = lru_cache(maxsize=1)(self._epoch)  # steps come in order

    def backward(self, step: int) -> float:
        """Mean cross-entropy in nats over the hidden pieces of the batch."""
        settings = self.settings
        ids = self.corpus.batch(self._order(step // self.batches)[step % self.batches])
        hidden, places = mask(
            ids,
            settings.masked,
            settings.vocabulary,
            range(len(SPECIAL)),
            SPECIAL.index("[MASK]"),
            np.random.default_rng((self.seed, 1, step)),
        )
        states = self.model.bert(torch.from_numpy(hidden)).last_hidden_state
        logits = self.model.cls(states.reshape(-1, settings.size)[torch.from_numpy(places)])
        loss = F.cross_entropy(logits, torch.from_numpy(ids.reshape(-1)[places]))
        torch.autograd.backward(loss)
        return loss.item()

    def _epoch(self, number: int) -> list[Int64[np.ndarray, " B"]]:
        rng = np.random.default_rng((self.seed, 0, number))
        return self.corpus.order(rng, self.settings.tokens_per_batch)


def pretrain(
    corpus: Text,
    settings: Miniature,
    seed: int,
    out: Path,
    progress: Progress,
    command: str,
    save_every: int = 500,
) -> Curve:
    """Train a vocabulary and a model on the corpus into a checkpoint folder, or go on with it.

    What an interrupted run has done stands in `out/unfinished`. The weights are stored in 16 bits.
    """
    require_new(out)
    unfinished = out / "unfinished"
    digest = corpus.digest()
    tokenizer = _tokenizer(corpus, settings, unfinished, progress)
    progress.phase("word pieces of the corpus", None)
    sentences = Sentences.of(corpus, tokenizer, settings.positions)
    about = {name: value for name, value in asdict(settings).items() if name != "tokens"}
    about |= {"corpus": digest, "vocabulary": digest_of(tokenizer.get_vocab()), "seed": seed}
    trainee = MaskedLanguageModel(settings.build(seed), sentences, settings, seed)
    keeping = CheckpointPolicy(unfinished, save_every, settings=about)
    curve = train(trainee, settings.schedule(sentences), seed, progress, keeping)
    data = {corpus.name: digest, "vocabulary": about["vocabulary"]}
    made = Made(command, asdict(settings), seed, data, curve)
    write_checkpoint(out, trainee.model, unfinished, "mean", settings.positions, made, half=True)
    shutil.rmtree(unfinished)
    return curve


def _tokenizer(corpus: Text, settings: Miniature, folder: Path, progress: Progress) -> Tokenizer:
    """The vocabulary trained on the corpus, in the files of a checkpoint; trained once a folder."""
    if not (folder / "tokenizer.json").exists():
        progress.phase("training the vocabulary", None)
        whole = BertTokenizerFast(
            tokenizer_object=wordpieces(corpus, settings.vocabulary),
            model_max_length=settings.positions,
        )
        whole.save_pretrained(folder)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))
