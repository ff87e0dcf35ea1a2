"""Training steps beside those of sentence-transformers: same batch, length, precision and model."""

from itertools import count, cycle, islice

import numpy as np
import pytest
import torch
from peers import model_of_berts_shape, peer

from harness.registry import load_registry
from harness.training.datasets import read_triplets
from harness.training.encoder import SentenceEncoder
from harness.training.loop import TrainingRun, seeded
from harness.training.objectives import EncoderTraining, Schedule
from harness.training.recipes import SimcseSup, SimcseUnsup

BATCH, LENGTH = 64, 32  # those of SimCSE
RATE = 1e-6  # a learning rate that leaves the weights almost unchanged
BATCHES = 8  # different batches, which are repeated in turn
FEW = 4  # sentences in a batch where nothing is measured
WANTED = 1.5  # how many times as fast a step has to be

pytestmark = [pytest.mark.data, pytest.mark.weights]


@pytest.fixture(scope="module")
def wikipedia(data_dir):
    """Sentences of Wikipedia. A third of them is longer than LENGTH, and cut."""
    corpus = load_registry().corpora["enwiki-10k"]
    return (tuple(islice(corpus.sentences(data_dir), BATCH * BATCHES)),)


def our_steps(folder, columns, size, precision):
    """Train by the harness; yields the loss of each step."""
    settings = {"start": "bench", "dtype": precision, "batch": size}  # length 32
    recipe = SimcseUnsup(**settings)
    if len(columns) > 1:
        recipe = SimcseSup(file="-", **settings)
    encoder = SentenceEncoder("bench", folder, recipe)
    task = EncoderTraining(recipe, encoder, columns)
    task.batches = lambda step: np.arange(size) + step % BATCHES * size
    run = TrainingRun(task, Schedule(10**6, RATE))
    for step in count():
        run.step(step)
        yield run.curve.losses[-1]


def their_steps(folder, columns, size, precision):
    """Train as the trainer of sentence-transformers does; yields the loss of each step.

    The columns are encoded one after the other, and the optimiser is the trainer's
    default. Its book-keeping is left out.
    """
    from sentence_transformers.sentence_transformer.losses import (
        MultipleNegativesRankingLoss,
    )

    model = peer(folder, length=LENGTH, pooling="cls").train()
    loss_of = MultipleNegativesRankingLoss(model)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=RATE, weight_decay=0.0, fused=True
    )
    columns = columns if len(columns) > 1 else 2 * columns
    for start in cycle(range(0, size * BATCHES, size)):
        texts = [list(column[start : start + size]) for column in columns]
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = loss_of([dict(model.preprocess(column)) for column in texts], None)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        yield loss.item()


def compare(
    side_by_side, row, folder, columns, precision="float32", rounds=2 * BATCHES
):
    size = BATCH if side_by_side.on else FEW
    columns = tuple(column[: size * BATCHES] for column in columns)
    ours = our_steps(folder, columns, size, precision)
    theirs = their_steps(folder, columns, size, precision)
    with seeded(0):
        # Warm, and the same task: both losses are those of one objective on one batch,
        # but for dropout, which a small batch does not average out.
        bound = 0.25 if side_by_side.on else 1.5
        assert next(ours) == pytest.approx(next(theirs), abs=bound)
        programs = {"theirs": lambda: next(theirs), "ours": lambda: next(ours)}
        seconds = side_by_side.seconds(programs, rounds)
    facts = {"batch": size, "length": LENGTH, "threads": torch.get_num_threads()}
    ratios = seconds["theirs"] / seconds["ours"]
    side_by_side.require(row, ratios, WANTED, **facts)


def test_minilm(side_by_side, minilm, wikipedia):
    compare(side_by_side, "train-minilm", minilm, wikipedia)


def test_minilm_in_bfloat16(side_by_side, minilm, wikipedia):
    capabilities = torch.cpu.get_capabilities()
    if not any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16")):
        pytest.skip("this processor has no arithmetic in bfloat16: it would be slower")
    compare(side_by_side, "train-minilm-bf16", minilm, wikipedia, "bfloat16")


def test_minilm_on_triplets(side_by_side, minilm, data_dir):
    columns = read_triplets(data_dir / "nli/snli_triplets_for_simcse.csv")
    order = np.random.default_rng(0).permutation(len(columns[0]))[: BATCH * BATCHES]
    shuffled = tuple(tuple(column[row] for row in order) for column in columns)
    compare(side_by_side, "train-minilm-triplets", minilm, shuffled)


def test_a_model_of_the_shape_of_bert_base(side_by_side, minilm, wikipedia, tmp_path):
    """A single layer where nothing is measured."""
    layers = 12 if side_by_side.on else 1
    folder = model_of_berts_shape(tmp_path / "m", minilm, num_hidden_layers=layers)
    compare(side_by_side, "train-bert-base", folder, wikipedia, rounds=BATCHES)
