"""Training steps beside those of sentence-transformers: same batch, length, precision and model."""

from itertools import count, cycle, islice

import numpy as np
import pytest
import torch
import transformers

from harness.registry import load_registry
from harness.training.contrastive import Contrastive, ContrastiveTraining
from harness.training.datasets import read_triplets
from harness.training.encoder import SentenceEncoder, Setup
from harness.training.loop import CheckpointPolicy, Schedule, TrainingRun, seeded

BATCH, LENGTH = 64, 32  # those of SimCSE
RATE = 1e-6  # a learning rate that leaves the weights almost unchanged
BATCHES = 8  # different batches, which are repeated in turn
SMALL = 4  # sentences in a batch if benchmarks are off
WANTED = 1.5  # how many times as fast a step has to be


@pytest.fixture(scope="module")
def wikipedia(data_dir):
    """Sentences of Wikipedia. A third of them is longer than LENGTH, and cut."""
    corpus = load_registry().corpora["enwiki-10k"]
    return tuple(islice(corpus.sentences(data_dir), BATCH * BATCHES))


def our_steps(name, folder, cache, columns, size, precision, device="cpu"):
    """Train by the harness; yields the loss of each step."""
    setup = Setup(head="none", max_length=LENGTH, precision=precision, device=device)
    settings = Contrastive(setup, size)
    encoder = SentenceEncoder(name, folder, cache, settings.setup, seed=0)
    task = ContrastiveTraining(settings, encoder, columns, seed=0)
    task.batches = lambda step: np.arange(size) + step % BATCHES * size
    run = TrainingRun(task, Schedule(10**6, RATE, decay=0.0), CheckpointPolicy())
    for step in count():
        run.step(step)
        yield run.curve.losses[-1]


def their_steps(folder, columns, size, precision, device="cpu"):
    """Train as the trainer of sentence-transformers does; yields the loss of each step.

    The columns are encoded one after the other, and the optimiser is the trainer's
    default. Its book-keeping is left out.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import (
        MultipleNegativesRankingLoss,
    )
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    module = Transformer(str(folder), max_seq_length=LENGTH)
    pooling = Pooling(module.get_embedding_dimension(), "cls")
    model = SentenceTransformer(modules=[module, pooling], device=device).train()
    loss_of = MultipleNegativesRankingLoss(model)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=RATE, weight_decay=0.0, fused=True
    )
    columns = columns if len(columns) > 1 else 2 * columns
    for start in cycle(range(0, size * BATCHES, size)):
        texts = [list(column[start : start + size]) for column in columns]
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            features = [dict(model.preprocess(column)) for column in texts]
            for column in features:
                for name, value in column.items():
                    if torch.is_tensor(value):
                        column[name] = value.to(device)
            loss = loss_of(features, None)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        yield loss.item()


def padding(folder, columns, size):
    """The tokens of padded batches, for each token of a text."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    padded_tokens = 0
    text_tokens = 0
    for column in columns:
        ids = tokenizer(list(column), truncation=True, max_length=LENGTH)["input_ids"]
        for start in range(0, len(ids), size):
            lengths = [len(row) for row in ids[start : start + size]]
            padded_tokens += max(lengths) * len(lengths)
            text_tokens += sum(lengths)
    return padded_tokens / text_tokens


def compare(
    side_by_side, row, folder, cache, columns, precision="float32", rounds=2 * BATCHES
):
    size = BATCH if side_by_side.on else SMALL
    columns = tuple(column[: size * BATCHES] for column in columns)
    ours = our_steps(row, folder, cache, columns, size, precision)
    theirs = their_steps(folder, columns, size, precision)
    with seeded(0):
        # Warm, and the same task: both losses are those of one objective on one batch,
        # but for dropout, which a small batch does not average out.
        assert next(ours) == pytest.approx(
            next(theirs), abs=0.25 if side_by_side.on else 1.5
        )
        side_by_side.run(
            lambda: next(ours), {"sentence-transformers": lambda: next(theirs)}, rounds
        )
    ratios = side_by_side.ratios("sentence-transformers")
    facts = {"batch": size, "length": LENGTH, "threads": torch.get_num_threads()}
    facts["tokens, padded, for one"] = round(padding(folder, columns, size), 2)
    side_by_side.require(row, ratios, WANTED, **facts)


@pytest.mark.data
@pytest.mark.weights
def test_minilm(side_by_side, minilm, wikipedia, tmp_path):
    compare(side_by_side, "train-minilm", minilm, tmp_path, (wikipedia,))


@pytest.mark.data
@pytest.mark.weights
def test_minilm_in_bfloat16(side_by_side, minilm, wikipedia, tmp_path):
    if not any(has for name, has in capabilities().items() if name.endswith("bf16")):
        pytest.skip(
            "this processor has no arithmetic in bfloat16: it would only be slower"
        )
    compare(
        side_by_side, "train-minilm-bf16", minilm, tmp_path, (wikipedia,), "bfloat16"
    )


def capabilities():
    """What torch knows of this processor; nothing where it is too old to say."""
    return getattr(torch.cpu, "get_capabilities", dict)()


@pytest.mark.data
@pytest.mark.weights
def test_minilm_on_triplets(side_by_side, minilm, data_dir, tmp_path):
    columns = read_triplets(data_dir / "nli/snli_triplets_for_simcse.csv")
    order = np.random.default_rng(0).permutation(len(columns[0]))[: BATCH * BATCHES]
    shuffled = tuple(tuple(column[row] for row in order) for column in columns)
    compare(side_by_side, "train-minilm-triplets", minilm, tmp_path, shuffled)


@pytest.mark.data
@pytest.mark.weights
def test_a_model_of_the_shape_of_bert_base(side_by_side, minilm, wikipedia, tmp_path):
    """Random weights and the real vocabulary; where benchmarks are off, a single layer."""
    config = transformers.BertConfig(num_hidden_layers=12 if side_by_side.on else 1)
    with seeded(0):
        transformers.BertModel(config).save_pretrained(tmp_path / "bert-base")
    transformers.AutoTokenizer.from_pretrained(minilm).save_pretrained(
        tmp_path / "bert-base"
    )
    folder = tmp_path / "bert-base"
    compare(
        side_by_side, "train-bert-base", folder, tmp_path, (wikipedia,), rounds=BATCHES
    )
