"""Every architecture gives transformers' own vectors, unpadded and one at a time, or is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_families
import tiny_models
import torch
import transformers as hf
from fixtures import rest_slow
from processes import ROOT
from refusals import refused
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from tiny_families import FAMILIES, NONE
from tolerances import ROUNDING, encoding_gap, relative_gap
from torch import nn

from harness.core.errors import DataError, UsageError
from harness.encoders.kernels.loading import REFUSED_ARCHITECTURES, WITHOUT_PADDING
from harness.encoders.modules import edit_json
from harness.encoders.native import NativeConfig
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import (
    CLS,
    MEAN_WITHOUT_SPECIAL,
    NATIVE,
    SECOND_LAST_CLS,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of another's library

TINY = TransformerConfig("tiny", "none")
TEXTS = ("The cat sat on the mat.", "a", "dog cat the mat sat on", "mat?")
# One architecture for each kind of forward pass: packed, swapped, an encoder of two
# halves, a CLS that stands last, a causal one, one that sees padding, one without a
# summary.
EACH_PASS = (
    "bert",
    "mpnet",
    "xlm-roberta",
    "albert",
    "t5",
    "xlnet",
    "qwen3",
    "fnet",
    "eurobert",
)
ONE_EACH_TOKENIZER = {
    family.tokenizer: name for name, family in FAMILIES.items()
}.values()


@pytest.fixture(scope="module")
def folder_of_family(tmp_path_factory):
    folders = {}

    def folder(name):
        if name not in folders:
            folders[name] = tiny_families.make(name, tmp_path_factory.mktemp("family"))
        return folders[name]

    return folder


def model_and_tokenizer(folder):
    """Transformers' model, of one with a decoder the encoder, and its tokenizer."""
    model = hf.AutoModel.from_pretrained(folder).eval()
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    if getattr(model.config, "attention_type", "") == "block_sparse":
        model.set_attention_type("original_full")
    return model, hf.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", rest_slow(FAMILIES, *EACH_PASS))
def test_every_layer_the_summary_and_the_pooler_are_the_models_own(
    name, folder_of_family, tmp_path
):
    """In one batch, and beside that in batches of one."""
    encoder = TINY.load(folder_of_family(name), tmp_path)
    statistics = frozenset({"layer_max", "layer_sep", "layer_weighted"})
    encoder = encoder.with_statistics(statistics)
    encoding = encoder.encode(TEXTS)
    alone = tiny_models.in_batches(encoder, 1).encode(TEXTS)
    assert encoding_gap(alone, encoding) <= ROUNDING
    assert encoder.plain_kernel.needs_equal_lengths is (name in WITHOUT_PADDING)
    model, tokenizer = model_and_tokenizer(folder_of_family(name))
    assert encoding.depth == 3
    for row, text in enumerate(TEXTS):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            out = model(input_ids=ids, output_hidden_states=True)
        assert len(out.hidden_states) == len(encoding.layers) == 4
        for layer, state in enumerate((*out.hidden_states[:-1], out.last_hidden_state)):
            assert (
                relative_gap(encoding.mean[row, layer], state[0].mean(dim=0))
                <= ROUNDING
            )
            largest = state[0].amax(dim=0)
            assert relative_gap(encoding.layer_max[row, layer], largest) <= ROUNDING
            places = torch.arange(1.0, len(state[0]) + 1)
            weighted = (places @ state[0]) / places.sum()
            gap = relative_gap(encoding.layer_weighted[row, layer], weighted)
            assert gap <= ROUNDING
            if encoding.layer_sep is not None:
                without = state[0, 1:-1].sum(dim=0) / max(1, len(state[0]) - 2)
                pooling = MEAN_WITHOUT_SPECIAL.with_argument(str(layer))
                assert relative_gap(pooling(encoding)[row], without) <= ROUNDING
            if FAMILIES[name].summary is not NONE:
                summary = state[0, FAMILIES[name].summary]
                assert relative_gap(encoding.layer_cls[row, layer], summary) <= ROUNDING
        if encoding.pooler is not None:
            assert relative_gap(encoding.pooler[row], out.pooler_output[0]) <= ROUNDING
    if name in ("bert", "roberta"):
        assert encoding.layer_sep is not None
    if FAMILIES[name].summary is NONE:
        with refused(UsageError, r"^cls: "):
            CLS(encoding)
        with refused(UsageError, r"^second-last-cls: .* use layer:2"):
            SECOND_LAST_CLS(encoding)
    else:
        assert np.array_equal(encoding.cls, encoding.layer_cls[:, -1])


@pytest.mark.parametrize("name", rest_slow(ONE_EACH_TOKENIZER, "gte", "qwen3"))
def test_the_side_that_a_tokenizer_pads_on_leaves_no_trace(
    name, folder_of_family, tmp_path
):
    together = TINY.load(folder_of_family(name), tmp_path).encode(TEXTS)
    left = Path(shutil.copytree(folder_of_family(name), tmp_path / "left"))
    edit_json(left / "tokenizer_config.json", padding_side="left")
    assert hf.AutoTokenizer.from_pretrained(left).padding_side == "left"
    assert encoding_gap(TINY.load(left, tmp_path).encode(TEXTS), together) == 0


def test_the_page_is_the_list_of_what_is_compared_and_refused(approved):
    """A new release of transformers with another masked language model shows here."""
    page = ROOT / "docs" / "encoders.md"
    _, heading, others = page.read_text().partition("\n## Words in context")
    assert f"{tiny_families.page()}{heading}{others}" == approved(page)


# What is refused


@pytest.mark.parametrize("kind", REFUSED_ARCHITECTURES)
def test_an_architecture_whose_states_are_not_of_tokens_is_refused_by_name(
    kind, tmp_path
):
    hf.CONFIG_MAPPING[kind]().save_pretrained(tmp_path)
    tiny_models.TOKENIZERS["bert"]().save_pretrained(tmp_path)
    save_file({"weight": torch.ones(1)}, tmp_path / "model.safetensors")
    with refused(DataError, f"tiny:20: .* holds a {kind} model: .*; (take|save)"):
        TINY.with_max_length(20).load(tmp_path, tmp_path)


class NewConfig(hf.PretrainedConfig):
    model_type = "new"

    def __init__(self, stride=1, spread=False, lost=0, **settings):
        self.max_position_embeddings, self.hidden_size = 64, 2
        self.stride, self.spread, self.lost = stride, spread, lost
        super().__init__(**settings)


class NewModel(hf.PreTrainedModel):
    """An architecture of tomorrow: each layer adds the mean of all places, or shortens the text."""

    config_class = NewConfig

    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(200, config.hidden_size)
        self.post_init()

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask, output_hidden_states):
        x = self.words(input_ids)
        states = [x]
        for _ in range(2):
            mixed = x.mean(dim=1, keepdim=True) if self.config.spread else 0 * x
            x = (x + mixed)[:, :: self.config.stride]
            states.append(x)
        kept = tuple(states[self.config.lost :])
        return hf.modeling_outputs.BaseModelOutput(
            last_hidden_state=x, hidden_states=kept
        )


@pytest.fixture
def unknown_checkpoint(tmp_path):
    """A checkpoint of an architecture that no table has."""
    hf.AutoConfig.register("new", NewConfig, exist_ok=True)
    hf.AutoModel.register(NewConfig, NewModel, exist_ok=True)

    def folder(**settings):
        NewModel(NewConfig(**settings)).save_pretrained(tmp_path)
        tiny_models.TOKENIZERS["bert"]().save_pretrained(tmp_path)
        return tmp_path

    yield folder
    hf.CONFIG_MAPPING._extra_content.pop("new", None)
    hf.MODEL_MAPPING._extra_content.pop(NewConfig, None)


@pytest.mark.parametrize("spread", [False, True])
def test_a_new_architecture_is_padded_only_where_it_does_not_see_padding(
    spread, unknown_checkpoint, tmp_path
):
    encoder = TINY.load(unknown_checkpoint(spread=spread), tmp_path)
    assert encoder.plain_kernel.needs_equal_lengths is spread
    together = encoder.encode(TEXTS).mean
    for row, text in enumerate(TEXTS):
        assert relative_gap(encoder.encode([text]).mean[0], together[row]) <= ROUNDING


@pytest.mark.parametrize("settings", [{"stride": 2}, {"lost": 2}])
def test_a_new_architecture_whose_layers_are_not_of_tokens_is_refused(
    unknown_checkpoint, tmp_path, settings
):
    with refused(DataError, r"wanted states of the shape .* of a new model"):
        TINY.load(unknown_checkpoint(**settings), tmp_path)


# Prompts and the last token, as today's models have them


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_last_token_is_the_librarys_one_sentence_at_a_time(
    side, folder_of_family, tmp_path
):
    reader = st.Transformer(str(folder_of_family("qwen3")), max_seq_length=50)
    reader.tokenizer.padding_side = side
    modules = [reader, st.Pooling(32, "lasttoken"), st.Normalize()]
    prompts = {"query": "Instruct: the cat. Query: "}
    model = SentenceTransformer(modules=modules, prompts=prompts, device="cpu")
    model.save(str(tmp_path / "model"), create_model_card=False)
    for prompt in ("", "query"):
        config = NativeConfig(TransformerConfig("m", ""), prompt)
        ours = NATIVE(config.load(tmp_path / "model", tmp_path).encode(TEXTS))
        theirs = [model.encode([text], prompt_name=prompt or None)[0] for text in TEXTS]
        assert relative_gap(ours, theirs) <= ROUNDING
