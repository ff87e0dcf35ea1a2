"""The weights of bert-base on this machine are those of the papers' bert-base-uncased."""

import os

import pytest
import torch
import transformers as hf

from baselines.bert import BERT_BASE
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing
from harness.data.places import Places

pytestmark = [
    pytest.mark.weights,
    pytest.mark.filterwarnings("ignore"),  # of another's library
]

# Of google-bert/bert-base-uncased at the pinned commit.
FILES = {
    "config.json": "7160e1553ad2ca51d8c1cb066be533db31826e12d173824c1bb0cb1a4f187d20",
    "tokenizer.json": "ce64fce797c24f68df90b40a3f74f579b336a493db14bd583fd520ea0d8c9a98",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
# transformers, tests/models/bert/test_modeling_bert.py, test_inference_no_head_absolute_embedding
INPUT_IDS = [0, 345, 232, 328, 740, 140, 1695, 69, 6078, 1588, 2]
LAST_LAYER = [  # of tokens 1 to 3, coordinates 1 to 3
    [0.4249, 0.1008, 0.7531],
    [0.3771, 0.1188, 0.7467],
    [0.4152, 0.1098, 0.7108],
]


@pytest.fixture(scope="module")
def bert_base():
    try:
        return Places.from_environment(os.environ).encoder(BERT_BASE)
    except AssetMissing as missing:
        pytest.skip(f"bert-base is not on this machine: {missing.get}")


def test_the_files_are_those_of_the_pinned_commit(bert_base):
    assert {name: sha256_of(bert_base / name) for name in FILES} == FILES


@torch.inference_mode()
def test_the_encoder_gives_the_integration_values_of_transformers(bert_base):
    model = hf.BertModel.from_pretrained(bert_base, dtype=torch.float32).eval()
    mask = torch.tensor([[0] + 10 * [1]])
    states = model(torch.tensor([INPUT_IDS]), attention_mask=mask).last_hidden_state
    assert states.shape == (1, 11, 768)
    torch.testing.assert_close(
        states[0, 1:4, 1:4], torch.tensor(LAST_LAYER), rtol=0, atol=1e-4
    )


@torch.inference_mode()
def test_the_head_of_masked_words_knows_the_capital_of_france(bert_base):
    tokenizer = hf.AutoTokenizer.from_pretrained(bert_base)
    model = hf.BertForMaskedLM.from_pretrained(bert_base, dtype=torch.float32).eval()
    inputs = tokenizer("The capital of France is [MASK].", return_tensors="pt")
    place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    shares = model(**inputs).logits[0, place].softmax(dim=0)
    words = tokenizer.convert_ids_to_tokens(shares.topk(5).indices)
    assert words == ["paris", "lille", "lyon", "marseille", "tours"]
    assert shares.max().item() == pytest.approx(0.4168, abs=1e-4)
