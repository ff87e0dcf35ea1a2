"""The ids of a folder are those of its tokenizer.json, whatever class transformers makes of it."""

import pytest
import tiny_families
import tiny_models
from refusals import refused
from tokenizers import Tokenizer, normalizers

from harness.core.errors import DataError
from harness.encoders.modules import edit_json
from harness.encoders.transformer import TransformerConfig

pytestmark = pytest.mark.filterwarnings("ignore")  # of another's library

TEXTS = ("Ein Café für 東京, ½ of it", "two men play the guitar", "")


def ids_of(folder, max_length=38, **settings):
    config = TransformerConfig("m", "", max_length=max_length, **settings)
    return config.load(folder, folder / "cache").tokenizer(TEXTS)


def tokenizer_of(folder):
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def ids_of_file(folder):
    encoded = tokenizer_of(folder).encode_batch(list(TEXTS))
    return [text.ids for text in encoded]


@pytest.mark.parametrize(
    ("kind", "tokenizer_class"),
    [
        ("albert", "RobertaTokenizer"),
        ("albert", "BertTokenizer"),
        ("mpnet", "RobertaTokenizer"),
    ],
)
def test_ids_are_those_of_the_file_whatever_the_class(kind, tokenizer_class, tmp_path):
    folder = tiny_models.make(kind, tmp_path / "m")
    edit_json(folder / "tokenizer_config.json", tokenizer_class=tokenizer_class)
    assert ids_of(folder) == ids_of_file(folder)
    assert ids_of(folder, tokenizer="rebuilt") != ids_of_file(folder)
    keys = {
        TransformerConfig("m", "", tokenizer=choice).identify(folder).key
        for choice in ("file", "rebuilt")
    }
    assert len(keys) == 2


def test_a_step_that_the_class_does_not_know_is_taken(tmp_path):
    folder = tiny_models.make("bert", tmp_path / "m")
    tokenizer = tokenizer_of(folder)
    steps = [normalizers.Replace("guitar", "violin"), tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.save(str(folder / "tokenizer.json"))
    assert ids_of(folder) == ids_of_file(folder) != ids_of(folder, tokenizer="rebuilt")


def test_two_files_that_contradict_each_other_on_case_are_refused(tmp_path):
    folder = tiny_models.make("bert", tmp_path / "m")
    edit_json(folder / "tokenizer_config.json", do_lower_case=False)
    with refused(DataError, "wanted lowercase = False, as do_lower_case"):
        ids_of(folder)


@pytest.fixture
def causal(tmp_path):
    """A model whose tokenizer.json puts <bos> before a text and nothing after it."""
    folder = tiny_families.make("llama", tmp_path / "m")
    edit_json(folder / "tokenizer_config.json", tokenizer_class="LlamaTokenizerFast")
    return folder


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
