"""Training steps beside those of sentence-transformers: same batch, length, precision and model."""

from itertools import count, cycle, islice

import numpy as np
import pytest
import torch
import transformers

from harness.registry import load_registry
from harness.training.contrastive import Contrastive, ContrastiveTraining
from harness.training.datasets import read_triplets
from harness.training.encoder import Setup, open_encoder
from harness.training.loop import CheckpointPolicy, Schedule, _Run, seeded

BATCH, LENGTH, RATE = (
    64,
    32,
    1e-6,
)  # SimCSE's, at a rate that leaves the weights where they are
BATCHES = 8  # as many as are taken in turn
SMALL = 4  # sentences a batch, where benchmarks are off
WANTED = 1.5


@pytest.fixture(scope="module")
def wikipedia(data_dir):
    """What the method is trained on: sentences of Wikipedia, a third of them longer
    than a batch takes."""
    return tuple(
        islice(
            load_registry().corpora["enwiki-10k"].sentences(data_dir), BATCH * BATCHES
        )
    )


def our_steps(name, folder, cache, columns, size, precision, device="cpu"):
    setup = Setup(head="none", max_length=LENGTH, precision=precision, device=device)
    settings = Contrastive(setup, size)
    encoder = open_encoder(name, folder, cache, settings.setup, seed=0)
    task = ContrastiveTraining(settings, encoder, columns, seed=0)
    task.batches = lambda step: np.arange(size) + step % BATCHES * size
    run = _Run(task, Schedule(10**6, RATE, decay=0.0), CheckpointPolicy())
    for step in count():
        run.step(step)
        yield run.curve.losses[-1]


def their_steps(folder, columns, size, precision, device="cpu"):
    """What their trainer does in a step, without its book-keeping: the columns are
    encoded one after the other, the optimiser is the trainer's default."""
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
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            features = [dict(model.preprocess(column)) for column in texts]
            for column in features:
                tensors = {
                    n: x.to(device) for n, x in column.items() if torch.is_tensor(x)
                }
                column.update(tensors)
            loss = loss_of(features, None)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        yield loss.item()


def padding(folder, columns, size):
    """How many tokens a padded batch has for one that is none of padding."""
    read = transformers.AutoTokenizer.from_pretrained(folder)
    padded, real = 0, 0
    for column in columns:
        ids = read(list(column), truncation=True, max_length=LENGTH)["input_ids"]
        for start in range(0, len(ids), size):
            lengths = [len(row) for row in ids[start : start + size]]
            padded, real = padded + max(lengths) * len(lengths), real + sum(lengths)
    return padded / real


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
    compare(side_by_side, "train-minilm-bf16", minilm, tmp_path, (wikipedia,), "bf16")


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
