"""The ids of a folder are those of its tokenizer.json, whatever class transformers makes of it."""

import pytest
import tiny_families
import torch
from refusals import refused
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import UnigramTrainer, WordPieceTrainer
from transformers import BertConfig, BertModel

from harness.core.errors import DataError
from harness.core.files import write_json
from harness.encoders.kernels.tokenizing import compared_texts
from harness.encoders.modules import edit_json
from harness.encoders.transformer import TransformerConfig

pytestmark = pytest.mark.filterwarnings("ignore")  # of another's library

UNKNOWN = "[UNK]"
SPECIAL = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
TEXTS = ("Ein Café für 東京, ½ of it", "two men play the guitar", "")


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer, UnigramTrainer(
        vocab_size=300, special_tokens=list(SPECIAL), unk_token=UNKNOWN
    )


def word_piece(**rules):
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(**rules)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer, WordPieceTrainer(vocab_size=300, special_tokens=list(SPECIAL))


def word_piece_with_a_step():
    tokenizer, trainer = word_piece()
    steps = [normalizers.Replace("guitar", "violin"), tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence(steps)
    return tokenizer, trainer


def trained(tokenizer, trainer):
    tokenizer.train_from_iterator(compared_texts(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def bert_with(folder, tokenizer, **settings):
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {**TOKENS, **settings})
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    BertModel(
        BertConfig(vocab_size=400, num_attention_heads=2, **sizes)
    ).save_pretrained(folder)
    return folder


def ids_of(folder, max_length=64, **settings):
    config = TransformerConfig("m", "", max_length=max_length, **settings)
    return config.load(folder, folder / "cache").tokenizer(TEXTS)


def ids_of_file(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [encoded.ids for encoded in tokenizer.encode_batch(list(TEXTS))]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (unigram, {}),
        (unigram, {"tokenizer_class": "RobertaTokenizer"}),
        (word_piece, {"tokenizer_class": "RobertaTokenizer"}),
        (word_piece_with_a_step, {"tokenizer_class": "BertTokenizer"}),
    ],
)
def test_ids_are_those_of_the_file_whatever_the_class(kind, settings, tmp_path):
    folder = bert_with(tmp_path / "m", trained(*kind()), **settings)
    assert ids_of(folder) == ids_of_file(folder)
    assert ids_of(folder, tokenizer="rebuilt") != ids_of_file(folder)
    keys = {
        TransformerConfig("m", "", tokenizer=choice).identify(folder).key
        for choice in ("file", "rebuilt")
    }
    assert len(keys) == 2


def test_two_files_that_contradict_each_other_on_case_are_refused(tmp_path):
    tokenizer = trained(*word_piece(lowercase=False))
    folder = bert_with(tmp_path / "m", tokenizer, do_lower_case=True)
    with refused(DataError, "wanted lowercase = True, as do_lower_case"):
        ids_of(folder)


@pytest.fixture
def causal(tmp_path):
    """A model whose tokenizer.json puts <bos> before a text and nothing after it."""
    return tiny_families.make("llama", tmp_path / "m")


def test_the_ends_that_a_setting_asks_for_are_there_and_survive_a_cut(causal):
    plain = ids_of_file(causal)
    edit_json(causal / "tokenizer_config.json", add_eos_token=True, add_bos_token=True)
    assert ids_of(causal, 40) == [[*ids, 2] for ids in plain]
    cut = ids_of(causal, 4)
    assert [ids[-1] for ids in cut] == [2, 2, 2]
    assert max(map(len, cut)) == 4


def test_an_end_that_a_setting_forbids_is_refused(causal):
    edit_json(causal / "tokenizer_config.json", add_bos_token=False)
    with refused(DataError, r"add_bos_token = False, but tokenizer\.json"):
        ids_of(causal, 40)
