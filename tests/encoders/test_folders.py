"""A folder gives what sentence-transformers gives of each text alone, or is refused by name.

One kind of setting after another: each folder is read as it asks to be, by no pooling of
the user's.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny_families
import tiny_models
import torch
import transformers as hf
from modular_models import D, saved, transformer, words
from refusals import refused
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from tolerances import ROUNDING, relative_gap

from harness.core.errors import DataError, UsageError
from harness.core.files import write_json
from harness.encoders.checkpoint import POSITION_TABLES
from harness.encoders.modules import default_pooling, edit_json
from harness.encoders.native import NativeConfig
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import CLS, MEAN, NATIVE

pytestmark = pytest.mark.filterwarnings("ignore")  # of another's library

PLAIN = TransformerConfig("m", "")
TEXTS = ("the cat sat on the mat", "Dog!", "a man is 42", "the dog " * 20)
SETTINGS, TOKENIZER = "sentence_bert_config.json", "tokenizer_config.json"
OF_TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}
TEMPLATE = (
    "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] }}!{% endfor %}"
)


def directions(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def of_library(folder, texts=TEXTS):
    model = SentenceTransformer(
        str(folder), device="cpu", model_kwargs={"dtype": torch.float32}
    )
    return np.stack([model.encode([text])[0] for text in texts])


def of_harness(folder, texts=TEXTS, config=PLAIN):
    name = default_pooling(folder)
    config = NativeConfig(config) if name == "native" else config
    encoder = config.load(folder, folder / "cache")
    assert encoder.key == config.identify(folder).key
    return {"native": NATIVE, "mean": MEAN, "cls": CLS}[name](encoder.encode(texts))


def require_equal(folder, texts=TEXTS):
    found = directions(of_harness(folder, texts))
    assert relative_gap(found, directions(of_library(folder, texts))) <= ROUNDING
    return found


def causal(folder, **settings):
    """A causal language model over bytes, as transformers saves it."""
    made = tiny_families.make("qwen2", folder)
    edit_json(made / "config.json", architectures=["Qwen2ForCausalLM"])
    edit_json(made / TOKENIZER, tokenizer_class="Qwen2Tokenizer", **settings)
    return made


def listed(folder, mode="mean", **settings):
    """This checkpoint as sentence-transformers 2 to 5 list it."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    write_json(
        folder / "modules.json",
        [
            {
                "idx": number,
                "name": str(number),
                "path": path,
                "type": f"sentence_transformers.models.{kind}",
            }
            for number, (path, kind) in enumerate(kinds.items())
        ],
    )
    (folder / "1_Pooling").mkdir()
    legacy = {f"pooling_mode_{mode}": True, "word_embedding_dimension": D}
    write_json(folder / "1_Pooling/config.json", legacy)
    if settings:
        write_json(folder / SETTINGS, settings)
    return folder


@pytest.fixture
def bert(tmp_path):
    return listed(
        tiny_models.make("bert", tmp_path / "m"), "mean_tokens", max_seq_length=30
    )


# Chat templates, and causal language models without modules.json


def saved_again(folder):
    """As sentence-transformers 6 saves it, with the modality `message`."""
    model = SentenceTransformer(str(folder), device="cpu")
    model.save(str(folder.parent / "again"), create_model_card=False)
    return folder.parent / "again"


@pytest.mark.parametrize("kind", ["in its settings", "a file", "saved again"])
def test_each_text_goes_through_the_chat_template_where_the_library_has_one(
    kind, tmp_path
):
    folder = causal(tmp_path / "m")
    bare = of_harness(folder)
    if kind == "a file":
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    else:
        edit_json(folder / TOKENIZER, chat_template=TEMPLATE)
    if kind == "saved again":
        folder = saved_again(folder)
    assert relative_gap(require_equal(folder), directions(bare)) > 0.01


def test_a_template_is_passed_over_in_folders_of_versions_before_it(tmp_path):
    folder = listed(causal(tmp_path / "m", chat_template=TEMPLATE), "mean_tokens")
    require_equal(folder)
    assert default_pooling(folder) == "mean"


@pytest.mark.parametrize(
    ("settings", "pooling"),
    [
        ({}, "native"),
        ({"is_causal": False}, "mean"),
        ({"architectures": ["Qwen2Model"]}, "mean"),
        ({"architectures": None}, "mean"),
    ],
)
def test_a_causal_language_model_gives_its_last_token(settings, pooling, tmp_path):
    folder = causal(tmp_path / "m")
    edit_json(folder / "config.json", **settings)
    assert default_pooling(folder) == pooling
    if settings.get("is_causal", True):
        require_equal(folder)


def test_the_decoder_of_a_model_of_two_halves_is_the_librarys(tmp_path):
    """Of T5 it pools the encoder."""
    folder = tiny_models.make("bart", tmp_path / "m")
    require_equal(folder)
    weights = load_file(folder / "model.safetensors")
    kept = {k: v for k, v in weights.items() if "decoder.layers.1" not in k}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with refused(DataError, "lacks .* of the weights of a BartModel"):
        of_harness(folder)


# The settings of version 6


@pytest.mark.parametrize(
    "settings",
    [
        {"processing_kwargs": {"text": {"max_length": 5}}},
        {"processing_kwargs": {"common": {"add_special_tokens": False}}},
        {"modality_config": {"text": {**OF_TEXT, "method_output_name": ["hidden_states", 1]}}},
        {"do_lower_case": True},
        {"processing_kwargs": {}, "unpad_inputs": None, "query_length": 4},
    ],
)  # fmt: skip
def test_the_settings_of_version_six_are_obeyed(settings, bert):
    plain = of_harness(bert)
    settings = {"modality_config": {"text": OF_TEXT}, **settings}
    edit_json(bert / SETTINGS, module_output_name="token_embeddings", **settings)
    is_plain = "unpad_inputs" in settings or "do_lower_case" in settings
    gap = relative_gap(require_equal(bert), directions(plain))
    assert bool(gap <= ROUNDING) is is_plain


def test_a_transformer_may_give_the_vector_of_a_text_itself(bert):
    pooled = {"text": {**OF_TEXT, "method_output_name": "pooler_output"}}
    entries = json.loads((bert / "modules.json").read_text())
    write_json(bert / "modules.json", entries[:1])
    edit_json(
        bert / SETTINGS, modality_config=pooled, module_output_name="sentence_embedding"
    )
    require_equal(bert)
    weights = load_file(bert / "model.safetensors")
    kept = {k: v for k, v in weights.items() if not k.startswith("pooler")}
    save_file(kept, bert / "model.safetensors", {"format": "pt"})
    with refused(DataError, "lacks 2 of the weights of a BertModel"):
        of_harness(bert)


def test_two_lengths_that_contradict_each_other_are_refused(bert):
    edit_json(bert / SETTINGS, processing_kwargs={"text": {"max_length": 5}})
    with refused(UsageError, r"wanted texts cut to 9 tokens, found max_length"):
        of_harness(bert, config=PLAIN.with_max_length(9))


REFUSED = {
    "a setting of tomorrow": (SETTINGS, {"pool": "x"}, r"pool = 'x' is no setting"),
    "a model setting": ("config_sentence_transformers.json", {"scale": 2}, "scale = 2"),
    "another model": (
        "config_sentence_transformers.json",
        {"model_type": "SparseEncoder"},
        "model_type = 'SparseEncoder'",
    ),
    "a pooling of tomorrow": ("1_Pooling/config.json", {"norm": True}, "norm = True"),
    "no pooling mode": ("1_Pooling/config.json", {"pooling_mode": None}, "= None"),
    "no modality": (SETTINGS, {"modality_config": {}}, "module_output_name"),
    "no template": (
        SETTINGS,
        {
            "modality_config": {"text": OF_TEXT, "message": OF_TEXT},
            "module_output_name": "token_embeddings",
        },
        "chat_template",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_unknown_is_refused_by_name(kind, bert):
    file, settings, complaint = REFUSED[kind]
    edit_json(bert / file, **settings)
    with refused(DataError, complaint):
        of_harness(bert)


@pytest.mark.parametrize("content", [None, {}])
def test_a_pooling_that_is_not_there_is_never_a_mean(content, bert):
    file = bert / "1_Pooling/config.json"
    file.unlink() if content is None else write_json(file, content)
    with refused(
        DataError, r"1_Pooling/config\.json: wanted the settings of a pooling"
    ):
        of_harness(bert)


# Which file is read


def test_the_first_file_in_the_librarys_order_is_read(bert):
    edit_json(bert / "sentence_albert_config.json", max_seq_length=5)
    require_equal(bert)
    write_json(bert / SETTINGS, {})
    edit_json(bert / "sentence_roberta_config.json", max_seq_length=4)
    edit_json(bert / "sentence_t5_config.json", max_seq_length=3)  # which none reads
    require_equal(bert)
    assert PLAIN.identify(bert).max_length == 4


def test_without_modules_json_the_file_is_not_read(tmp_path):
    folder = tiny_models.make("bert", tmp_path / "m")
    write_json(folder / SETTINGS, {"max_seq_length": 4})
    require_equal(folder)
    router = {"types": {folder.name: "sentence_transformers.models.Transformer"}}
    write_json(tmp_path / "router_config.json", router)
    assert PLAIN.identify(folder).max_length == 4


# Limits of positions


@pytest.mark.parametrize("name", ["t5", "modernbert", "qwen2", "llama", "gte"])
def test_positions_that_are_no_limit_cut_nothing(name, tmp_path):
    folder = tiny_families.make(name, tmp_path / "m")
    edit_json(folder / "config.json", max_position_embeddings=8, n_positions=8)
    listed(folder, "mean_tokens", max_seq_length=70)
    require_equal(folder)
    assert PLAIN.with_max_length(80).identify(folder).max_length == 80


def test_the_models_with_a_vector_for_each_position_are_those_of_the_list():
    for name, family in tiny_families.FAMILIES.items():
        kind = tiny_families.kind_of(name)
        config = tiny_models.config(kind, 300, 24, **family.settings)
        model = hf.AutoModel.from_config(config).eval()
        if config.is_encoder_decoder:
            model = model.get_encoder()
        takes_more = True
        try:
            with torch.inference_mode():
                model(input_ids=torch.full((1, 40), 5))
        except (IndexError, RuntimeError):
            takes_more = False
        assert takes_more is (kind not in POSITION_TABLES), name


# Tokenizers

BYTE_CLASSES = ("RobertaTokenizer", "BartTokenizerFast", "GPT2Tokenizer")


@pytest.mark.parametrize("stated", [True, False, "absent"])
@pytest.mark.parametrize("of_file", [True, False])
@pytest.mark.parametrize("tokenizer_class", BYTE_CLASSES)
def test_a_blank_before_the_first_word_is_there_where_the_settings_say_so(
    tokenizer_class, of_file, stated, tmp_path
):
    folder = tiny_models.make("roberta", tmp_path / "m")
    listed(folder, "mean_tokens", max_seq_length=30)
    edit_json(folder / TOKENIZER, tokenizer_class=tokenizer_class)
    settings = json.loads((folder / TOKENIZER).read_text())
    settings.pop("add_prefix_space", None)
    if stated != "absent":
        settings["add_prefix_space"] = stated
    write_json(folder / TOKENIZER, settings)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["pre_tokenizer"]["add_prefix_space"] = of_file
    write_json(folder / "tokenizer.json", content)
    require_equal(folder)


@pytest.mark.parametrize(
    "tokenizer_class", ["Qwen2Tokenizer", "PreTrainedTokenizerFast"]
)
@pytest.mark.parametrize("setting", ["add_eos_token", "add_bos_token"])
@pytest.mark.parametrize("value", [True, False])
def test_ends_are_the_files_where_no_class_of_transformers_sets_them(
    tokenizer_class, setting, value, tmp_path
):
    folder = causal(tmp_path / "m", **{setting: value}, **{"eos_token": "<bos>"})
    edit_json(folder / TOKENIZER, tokenizer_class=tokenizer_class)
    require_equal(folder)


@pytest.mark.parametrize("where", ["added_tokens.json", "decoder", "special"])
def test_tokens_that_the_file_lacks_are_added(where, tmp_path):
    folder = listed(tiny_models.make("roberta", tmp_path / "m"), "mean_tokens")
    config = json.loads((folder / "config.json").read_text())
    number = (
        json.loads((folder / TOKENIZER).read_text()).get("vocab_size")
        or config["vocab_size"]
    )
    weights = load_file(folder / "model.safetensors")
    table = "embeddings.word_embeddings.weight"
    weights[table] = torch.cat([weights[table], torch.randn(1, D)])
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    edit_json(folder / "config.json", vocab_size=number + 1)
    # A step that the class does not know, so that the file decides.
    content = json.loads((folder / "tokenizer.json").read_text())
    content["normalizer"] = {
        "type": "Replace",
        "pattern": {"String": "q"},
        "content": "k",
    }
    write_json(folder / "tokenizer.json", content)
    if where == "added_tokens.json":
        write_json(folder / where, {"<ent>": number})
    if where == "decoder":
        token = {"content": "<ent>", "lstrip": False, "rstrip": False, "normalized": False,
                 "single_word": False, "special": True}  # fmt: skip
        decoder = {
            str(t["id"]): {k: v for k, v in t.items() if k != "id"}
            for t in content["added_tokens"]
        }
        edit_json(
            folder / TOKENIZER, added_tokens_decoder={**decoder, str(number): token}
        )
    if where == "special":
        edit_json(folder / TOKENIZER, additional_special_tokens=["<ent>"])
    texts = ["the <ent> cat", "a <ent>"]
    require_equal(folder, texts)
    assert of_ids(folder, texts)[0].count(number) == 1


def of_ids(folder, texts):
    return PLAIN.load(folder, folder / "cache").tokenizer(texts)


def test_added_tokens_without_a_vector_are_refused_in_a_text_alone(bert):
    content = json.loads((bert / "tokenizer.json").read_text())
    size = json.loads((bert / "config.json").read_text())["vocab_size"]
    token = {**content["added_tokens"][0], "id": size, "content": "[NEW]"}
    content["added_tokens"].append(token)
    write_json(bert / "tokenizer.json", content)
    require_equal(bert)
    with refused(DataError, r"found none for '\[NEW\]' in 'a \[NEW\]'"):
        of_harness(bert, ["a [NEW]"])


def test_lower_case_is_the_librarys_of_a_tokenizer_in_python(tmp_path):
    """Transformers 5 passes over the setting there, which transformers 4 obeyed."""
    folder = listed(
        tiny_models.make("roberta", tmp_path / "m"),
        "mean_tokens",
        max_seq_length=30,
        do_lower_case=True,
    )
    for file in (*folder.glob("token*"), *folder.glob("special*")):
        file.unlink()
    letters = [f"{a}{end}" for a in "abcdefghiklmnopqrstuDT" for end in ("@@", "")]
    (folder / "vocab.txt").write_text("".join(f"{word} 1\n" for word in letters))
    (folder / "bpe.codes").write_text("#version: 0.2\nt h 1\n")
    write_json(folder / TOKENIZER, {"tokenizer_class": "PhobertTokenizer"})
    assert not hf.AutoTokenizer.from_pretrained(folder).is_fast
    require_equal(folder)


# Modules of words


def word_weights():
    vocabulary = words().tokenizer.get_vocab()
    return st.WordWeights(vocabulary, {w: n + 1.0 for n, w in enumerate(vocabulary)})


WORD_MODELS = {
    "weights": lambda: [words(), word_weights(), st.Pooling(D)],
    "lstm": lambda: [words(), st.LSTM(D, 6), st.Pooling(12)],
    "cnn": lambda: [words(), st.CNN(D, 6, [1, 3]), st.Pooling(12)],
    "bag": lambda: [st.BoW(["the", "cat", "dog"], {"cat": 2.0})],
}


@pytest.mark.parametrize("kind", WORD_MODELS)
def test_modules_of_words_are_the_librarys(kind, tmp_path):
    torch.manual_seed(0)
    model = SentenceTransformer(modules=WORD_MODELS[kind](), device="cpu")
    model.save(str(tmp_path / "m"), create_model_card=False)
    texts = ("the cat sat on the mat", "Dog dog", "the dog " * 9)
    require_equal(tmp_path / "m", texts)
    with refused(DataError, "take the pooling native"):
        PLAIN.identify(tmp_path / "m")


@pytest.mark.parametrize("kind", WORD_MODELS)
def test_the_batch_moves_vectors_where_a_module_sees_the_padding(kind, tmp_path):
    torch.manual_seed(0)
    model = SentenceTransformer(modules=WORD_MODELS[kind](), device="cpu")
    model.save(str(tmp_path / "m"), create_model_card=False)
    loaded = NativeConfig(PLAIN).load(tmp_path / "m", tmp_path / "cache")
    texts = ["the cat sat on the mat", "Dog dog", "the dog " * 9]
    largest = np.abs(of_library(tmp_path / "m", texts)).max()
    gap = np.abs(model.encode(texts) - of_library(tmp_path / "m", texts)).max()
    assert loaded.batch_gap(texts) == pytest.approx(gap / largest, abs=ROUNDING)
    assert (gap / largest > 1e-3) == (kind == "cnn")


def test_a_table_of_sub_words_with_modules_is_the_librarys(tmp_path):
    """The two differ on a text with an unknown sub-word."""
    folder = saved(tmp_path, "static")
    require_equal(folder, ["the cat", "the zebra sat"])
    edit_json(folder / "config_sentence_transformers.json", default_prompt_name=None)
    assert default_pooling(folder) == "native"


def test_a_transformer_with_word_weights_is_the_librarys(tmp_path):
    modules = [transformer(tmp_path), st.CNN(D, 6, [1, 3]), st.Pooling(12)]
    torch.manual_seed(0)
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save(str(tmp_path / "m"), create_model_card=False)
    require_equal(tmp_path / "m")
    prompted = replace(PLAIN, max_length=9)
    assert NativeConfig(prompted).identify(tmp_path / "m").max_length == 9
