"""An encoder with its dropout on: as its architecture trains, from a seed, and off again after."""

import numpy as np
import pytest
import torch
from tiny_models import CONFIGS, make, rest_slow
from tolerances import ROUNDING, relative_gap

from harness.core.errors import UsageError
from harness.encoders.transformer import TransformerConfig

TEXTS = ["the cat sat on the mat.", "a dog", "the dog sat", "the cat sat on the mat."]
KINDS = ("bert", "roberta", "mpnet", "xlnet", "t5", "gpt2")


@pytest.fixture
def encoders(checkpoint):
    return lambda kind: TransformerConfig(kind, "none").load(checkpoint(kind), checkpoint(kind))


@pytest.fixture
def bert(encoders):
    return encoders("bert")


def same(one, other):
    return np.array_equal(one.mean, other.mean) and np.array_equal(one.cls, other.cls)


@pytest.mark.parametrize("kind", rest_slow(KINDS, "bert", "t5"))
def test_dropout_moves_every_layer_of_every_sentence_and_then_is_off_again(encoders, kind):
    encoder = encoders(kind)
    plain = encoder.encode(TEXTS)
    noisy = encoder.with_dropout(0).encode(TEXTS)
    assert (noisy.layers, noisy.depth) == (plain.layers, plain.depth)
    assert (np.abs(noisy.mean - plain.mean).max(axis=2) > 1e-4).all()
    np.testing.assert_array_equal(encoder.encode(TEXTS).mean, plain.mean)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_it_is_the_pass_in_which_the_architecture_trains(encoders, kind):
    """One batch by hand: the hidden states in training mode, from the same draw."""
    encoder = encoders(kind)
    noisy = encoder.with_dropout(7)
    [ids] = encoder.tokenizer(TEXTS[:1])
    model = encoder.kernel.model.train()
    seed = int(np.random.default_rng(7).integers(2**63))
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(seed)
        given = torch.tensor([ids])
        mask = torch.ones_like(given)
        out = model(input_ids=given, attention_mask=mask, output_hidden_states=True)
    model.eval()
    states = torch.stack(out.hidden_states)[:, 0].mean(dim=1)  # (layers, D)
    found = noisy.encode(TEXTS[:1])
    assert relative_gap(found.mean[0], states) <= ROUNDING
    assert relative_gap(found.cls[0], out.last_hidden_state[0, 0]) <= ROUNDING


def test_equal_seeds_and_calls_are_equal_and_others_are_not(bert):
    first, again, other = (bert.with_dropout(seed) for seed in (0, 0, 1))
    one, two = first.encode(TEXTS), first.encode(TEXTS)
    assert same(one, again.encode(TEXTS))
    assert same(two, again.encode(TEXTS))
    assert not same(one, two)
    assert not same(one, other.encode(TEXTS))


def test_dropout_keeps_the_mean_of_what_it_drops(bert):
    """The embedding layer is followed by dropout alone."""
    noisy = bert.with_dropout(0)
    many = np.concatenate([noisy.encode(TEXTS[:1] * 200).mean[:, 0] for _ in range(10)])
    plain = bert.encode(TEXTS[:1]).mean[0, 0]
    spread = many.std(axis=0) / np.sqrt(len(many))
    # 32 coordinates, each 4.5 deviations away in one case of 150,000
    assert (np.abs(many.mean(axis=0) - plain) < 4.5 * spread).all()
    # p = 0.1 scales a kept one by 1 / 0.9: no other probability has this spread
    [ids] = bert.tokenizer(TEXTS[:1])
    embedded = bert.kernel.model.embeddings.eval()
    with torch.inference_mode():
        tokens = embedded(input_ids=torch.tensor([ids]))[0].numpy()
    wanted = np.sqrt((tokens**2).sum(axis=0) * 0.1 / 0.9) / len(ids)
    np.testing.assert_allclose(many.std(axis=0), wanted, rtol=0.1)


def test_a_checkpoint_whose_dropout_is_zero_is_refused(tmp_path, monkeypatch):
    make_config = CONFIGS["bert"]

    def without(size):
        config = make_config(size)
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
        return config

    monkeypatch.setitem(CONFIGS, "bert", without)
    encoder = TransformerConfig("quiet", repo="none").load(make("bert", tmp_path), tmp_path)
    with pytest.raises(UsageError, match=r"^quiet: wanted an encoder with dropout, found [^\n]*$"):
        encoder.with_dropout(0)


def test_what_is_passed_over_is_drawn(bert):
    whole, behind = bert.with_dropout(7), bert.with_dropout(7)
    whole.encode(TEXTS)
    behind.pass_over(TEXTS)
    np.testing.assert_array_equal(behind.encode(TEXTS).mean, whole.encode(TEXTS).mean)
    again = bert.with_dropout(7).encode(TEXTS)
    assert not np.array_equal(again.mean, whole.encode(TEXTS).mean)
