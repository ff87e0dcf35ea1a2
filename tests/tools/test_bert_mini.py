"""A BERT in miniature made from nothing: vocabulary, batches, a resumed training, the command."""

import json
import math

import numpy as np
import pytest
from bert_mini import SPECIAL, MlmSettings, pretrain, wordpieces
from fakes import Told

from harness.core.errors import DataError, UsageError
from harness.training.datasets import Text

TEXTS = tuple(
    f"{who} {does} {what} {where}"
    for who in ("A man", "The woman", "Some children", "Nobody")
    for does in ("sees", "is carrying", "will buy")
    for what in ("a red ball.", "two old boats,", "the guitar")
    for where in ("near the lake", "in town", "today")
)
SIZES = {"vocabulary": 90, "layers": 1, "size": 16, "heads": 2, "positions": 12}
TINY = MlmSettings(**SIZES, tokens=20_000, tokens_per_batch=128, warmup=5, learning_rate=1e-2)


def test_a_vocabulary_has_the_wanted_size_and_order():
    vocabulary = wordpieces(TEXTS, 90).get_vocab()
    pieces = sorted(vocabulary, key=vocabulary.get)
    assert tuple(pieces[:5]) == SPECIAL
    assert pieces[5:] == sorted(pieces[5:])
    assert len(pieces) == 90
    with pytest.raises(DataError, match="take more sentences"):
        wordpieces(TEXTS[:3], 500)


@pytest.mark.slow
def test_a_miniature_is_made_resumed_and_loaded(tmp_path, monkeypatch):
    """The whole way: a text file, an interruption, a folder that two libraries open alike."""
    from sentence_transformers import SentenceTransformer

    from harness.encoders.transformer import TransformerConfig
    from harness.transforms.pooling import MEAN

    monkeypatch.setattr("harness.training.loop.SAVE_SECONDS", 0.0)
    monkeypatch.setattr("harness.training.loop.SAVE_SHARE", math.inf)

    class Stops(Told):
        def step(self, steps: int) -> None:
            super().step(steps)
            if self.steps == 60:
                raise KeyboardInterrupt

    text = Text("texts", TEXTS)
    whole = pretrain(text, TINY, 0, tmp_path / "whole", Told(), "harness train")
    with pytest.raises(KeyboardInterrupt):
        pretrain(text, TINY, 0, tmp_path / "cut", Stops(), "harness train")
    again = pretrain(text, TINY, 0, tmp_path / "cut", Told(), "harness train")
    assert again.losses == whole.losses
    assert np.mean(whole.losses[-20:]) < np.mean(whole.losses[:20]) - 1

    files = {path.name for path in (tmp_path / "cut").iterdir()}
    assert "unfinished" not in files
    one, two = (tmp_path / name / "model.safetensors" for name in ("whole", "cut"))
    assert one.read_bytes() == two.read_bytes()
    about = json.loads((tmp_path / "cut" / "training.json").read_text())
    assert about["steps"] == len(whole.losses)
    assert about["data"]["texts"] == text.digest()

    encoder = TransformerConfig("mine", "").load(tmp_path / "cut", tmp_path)
    ours = MEAN(encoder.encode(TEXTS[:9]))
    theirs = SentenceTransformer(str(tmp_path / "cut"), device="cpu").encode(list(TEXTS[:9]))
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert encoder.dimensions == 16

    with pytest.raises(UsageError, match="take another folder"):
        pretrain(text, TINY, 0, tmp_path / "cut", Told(), "")
