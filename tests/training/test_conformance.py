"""SimCSE's training equals the authors' own model code, step by step.

The series in `references/simcse_losses.json` are losses that the authors'
`simcse/models.py` gave in a plain loop with the same first weights, batches and
learning rates, without dropout.
"""

import json
from itertools import islice
from pathlib import Path

import pytest

from harness.core.digests import text_digest
from harness.core.types import Progress
from harness.data.places import Places
from harness.registry import load_registry
from harness.training.datasets import open_text, open_triplets
from harness.training.encoder import SentenceEncoder
from harness.training.loop import train
from harness.training.objectives import EncoderTraining
from harness.training.recipes import SimcseSup, SimcseUnsup

AUTHORS = json.loads(
    (Path(__file__).parent / "references/simcse_losses.json").read_text("utf-8")
)
STEPS, ROWS = 50, 3_200  # of the schedule; the authors' code was run for 20 steps

# Losses are of size 0.1 to 4. Two float32 programs were 1e-6 apart at most on one
# processor; other instruction sets add up in other orders, and 20 steps of AdamW carry
# that on.
TOLERANCE = 2e-5


class FirstSteps(EncoderTraining):
    """A training that keeps the losses of its first steps, and is interrupted after them."""

    def loss(self, step):
        if step == len(self.authors):
            raise KeyboardInterrupt
        loss = super().loss(step)
        self.losses.append(loss.item())
        return loss


def unsupervised(places):
    columns, _ = open_text("enwiki-1m", load_registry().corpora, places, ROWS)
    return SimcseUnsup(start="bert-mini", dropout=0.0), columns


def supervised(places):
    columns, _ = open_triplets("snli-triplets", places)
    settings = {"dropout": 0.0, "batch": 64, "epochs": 1}
    recipe = SimcseSup(start="bert-mini", file="snli-triplets", **settings)
    return recipe, tuple(tuple(islice(column, ROWS)) for column in columns)


@pytest.mark.data
@pytest.mark.parametrize("steps", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "opened"), [("unsup", unsupervised), ("sup", supervised)]
)
def test_losses_of_the_first_steps_are_those_of_the_authors_code(
    name, opened, steps, data_dir, cache_dir
):
    authors = AUTHORS["trainings"][name]
    places = Places(cache=cache_dir, data_dir=data_dir)
    recipe, columns = opened(places)
    assert [text_digest(column) for column in columns] == authors["text_sha256"]

    start = places.encoder(load_registry().encoders["bert-mini"])
    encoder = SentenceEncoder("bert-mini", start, recipe)
    training = FirstSteps(recipe, encoder, columns)
    training.authors, training.losses = authors["losses"][:steps], []
    assert training.schedule.steps == STEPS
    assert training.schedule.learning_rate == authors["learning_rate"]
    with pytest.raises(KeyboardInterrupt):
        train(training, training.schedule, 0, Progress())
    assert training.losses == pytest.approx(training.authors, rel=TOLERANCE)
