"""A model under its own modules gives what sentence-transformers' encode gives, or is refused."""

import shutil

import numpy as np
import pytest
from fixtures import rest_slow
from modular_models import MODULES, PROMPTS, D, saved
from refusals import refused
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tolerances import ROUNDING, relative_gap

from harness.core.errors import DataError, UsageError
from harness.core.files import write_json
from harness.core.interfaces import Encoder
from harness.encoders.modules import default_pooling, edit_json
from harness.encoders.native import NativeConfig, PromptedConfig, bypass_note
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import MEAN as MEAN_POOLING
from harness.transforms.pooling import NATIVE

pytestmark = pytest.mark.filterwarnings("ignore")  # of another's library

PLAIN = TransformerConfig("m", "")
EACH_MODULE = (
    "all-modes",
    "cls-normalize",
    "residual",
    "layers",
    "lower-case",
    "static",
    "words",
)
TEXTS = (
    "the cat sat on the mat",
    "Dog!",
    "",
    "the dog, the cat's mat 42 " * 6,
    "THE CAT",
    "a b c",
)


def vectors_of_library(folder, prompt=""):
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return model.encode(list(TEXTS), prompt_name=prompt or None)


def vectors_of_harness(folder, prompt=""):
    config = NativeConfig(PLAIN, prompt)
    encoder = config.load(folder, folder / "cache")
    assert isinstance(encoder, Encoder)
    assert encoder.key == config.identify(folder).key
    return NATIVE(encoder.encode(TEXTS))


def require_equal(folder, prompt=""):
    vectors = vectors_of_harness(folder, prompt)
    assert relative_gap(vectors, vectors_of_library(folder, prompt)) <= ROUNDING
    return vectors


@pytest.mark.parametrize("kind", rest_slow(MODULES, *EACH_MODULE))
def test_a_folder_of_the_library_gives_what_its_encode_gives(tmp_path, kind):
    settings = {"prompts": PROMPTS, "default_prompt_name": "query"}
    dimensions = 4 if kind == "cls-normalize" else None
    require_equal(saved(tmp_path, kind, truncate_dim=dimensions, **settings))


@pytest.mark.parametrize("kind", ["mean", "static"])
def test_every_prompt_gives_what_the_library_gives(tmp_path, kind):
    folder = saved(tmp_path, kind, prompts=PROMPTS)
    vectors = {name: require_equal(folder, name) for name in ("", "query", "passage")}
    np.testing.assert_array_equal(vectors[""], vectors["passage"])  # which is empty
    assert np.abs(vectors[""] - vectors["query"]).max() > 0.01
    with refused(UsageError, "native:title: wanted a prompt of the model"):
        vectors_of_harness(folder, "title")


def test_an_encoders_own_prompt_stands_beside_the_folders(tmp_path):
    folder = saved(tmp_path, "mean", prompts=PROMPTS)

    def with_prompts(name, *prompts):
        return NativeConfig(PromptedConfig("m", "", prompts=prompts), name)

    config = with_prompts("sts", ("sts", PROMPTS["query"]))
    vectors = NATIVE(config.load(folder, folder / "cache").encode(TEXTS))
    assert relative_gap(vectors, vectors_of_library(folder, "query")) <= ROUNDING
    other = with_prompts("sts", ("sts", "a cat: "))
    assert config.identify(folder).key != other.identify(folder).key
    with refused(UsageError, r"m\.native:query: wanted the prompt 'other'"):
        with_prompts("query", ("query", "other")).identify(folder)


def entry(path, kind):
    return {
        "idx": 0,
        "name": kind,
        "path": path,
        "type": f"sentence_transformers.models.{kind}",
    }


# What is refused


def edit_of(file, **settings):
    """Edit a JSON file of a folder."""
    return lambda folder: edit_json(folder / file, **settings)


def modules(*entries):
    return lambda folder: write_json(folder / "modules.json", list(entries))


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("dense"), "dense")


POOLING, DENSE = "1_Pooling/config.json", "2_Dense/config.json"
WHOLE = "config_sentence_transformers.json"
FIRST = entry("", "Transformer")
FOREIGN = {"path": "", "type": "custom_st.Transformer"}
REFUSED = [
    (lambda f: (f / "modules.json").unlink(), r"m\.native: .* has no modules\.json"),
    (modules({}), "wanted type and path of each"),
    (modules(FIRST, entry("1_Pooling", "SpladePooling")), "Transformer, SpladePooling"),
    (modules(FOREIGN), r"found custom_st\.Transformer"),
    (modules(entry("../x", "Transformer")), "wanted folders inside"),
    (edit_of(POOLING, pooling_mode=["median"]), "Invalid pooling mode: 'median'"),
    (edit_of(DENSE, activation_function="mine.Swish"), r"mine\.Swish, whose code"),
    (edit_of(WHOLE, similarity_fn_name="euclidean"), "compared by their cosine"),
    (edit_of(WHOLE, default_prompt_name="none"), "native:none"),
    (
        edit_of("tokenizer_config.json", auto_map={"AutoTokenizer": ["a.B", None]}),
        "own code is not run",
    ),
]


@pytest.mark.parametrize(("spoil", "complaint"), REFUSED)
def test_what_the_harness_would_read_otherwise_is_refused_by_name(
    spoil, complaint, dense, tmp_path
):
    folder = shutil.copytree(dense, tmp_path / "model")
    spoil(folder)
    with refused((DataError, UsageError), complaint):
        vectors_of_harness(folder)


def test_dot_products_are_cosines_of_vectors_of_unit_length_alone(tmp_path):
    folder = saved(tmp_path, "cls-normalize", truncate_dim=None)
    edit_json(folder / WHOLE, similarity_fn_name="dot")
    vectors_of_harness(folder)
    edit_json(folder / WHOLE, truncate_dim=4)
    with refused(DataError, "vectors of any length"):
        vectors_of_harness(folder)


def test_whatever_changes_a_vector_changes_the_key(tmp_path):
    folder = saved(tmp_path, "dense", prompts=PROMPTS)

    def key(prompt=""):
        return NativeConfig(PLAIN, prompt).identify(folder).key

    keys = [PLAIN.identify(folder).key, key(), key("query")]
    assert key("passage") == key()  # which is no prompt, too
    keys.append(NativeConfig(PLAIN).with_max_length(9).identify(folder).key)
    file = folder / "2_Dense/model.safetensors"
    save_file({name: 2 * weight for name, weight in load_file(file).items()}, file)
    keys.append(key())
    edit_json(folder / POOLING, pooling_mode="max")
    keys.append(key())
    assert len(set(keys)) == len(keys)


# The pooling that a folder asks for


def switch(*on):
    modes = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")
    return {f"pooling_mode_{mode}": mode in on for mode in modes}


POOLED = ("Transformer", "Pooling")
MODEL, BERT = "config.json", {"model_type": "bert"}
DEFAULT = {"prompts": PROMPTS, "default_prompt_name": "query"}
EMPTY = {"prompts": PROMPTS, "default_prompt_name": "passage"}
BART = {"model_type": "bart", "is_encoder_decoder": True}
MEAN, CLS = switch("mean_tokens"), switch("cls_token")
LOWER = {"do_lower_case": True}
ASKED_FOR = [
    ((), {}, {}, "mean"),
    (POOLED, {}, {}, "mean"),
    ((*POOLED, "Normalize"), MEAN, {}, "mean"),
    ((*POOLED, "Dense"), MEAN, {}, "native"),
    (POOLED, CLS, {}, "cls"),
    (POOLED, switch("max_tokens"), {}, "native"),
    (POOLED, switch("cls_token", "mean_tokens"), {}, "native"),
    (POOLED, {"pooling_mode": "cls"}, {}, "cls"),
    (POOLED, {}, {"sentence_roberta_config.json": LOWER}, "native"),
    (POOLED, {}, {WHOLE: DEFAULT}, "native"),
    (POOLED, {}, {WHOLE: EMPTY}, "mean"),
    # The first token is no summary, or the decoder's states are pooled.
    (POOLED, CLS, {MODEL: {"model_type": "xlnet"}}, "native"),
    (POOLED, CLS, {MODEL: {**BERT, "is_decoder": True}}, "native"),
    (POOLED, MEAN, {MODEL: BART}, "native"),
    (POOLED, MEAN, {MODEL: {**BART, "model_type": "mt5"}}, "mean"),
]


@pytest.mark.parametrize(("kinds", "pooling", "files", "wanted"), ASKED_FOR)
def test_the_pooling_of_a_folder_is_read_from_its_files(
    kinds, pooling, files, wanted, tmp_path
):
    paths = [f"{number}_{kind}" if number else "" for number, kind in enumerate(kinds)]
    listed = [entry(*module) for module in zip(paths, kinds, strict=True)]
    files = {"config.json": {"model_type": "bert"}, **files}
    pooling = {"word_embedding_dimension": D, **pooling}
    files |= {"modules.json": listed, "1_Pooling/config.json": pooling} if kinds else {}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_json(tmp_path / name, content)
    assert default_pooling(tmp_path) == wanted


def test_a_plan_says_which_poolings_bypass_the_modules(dense, tmp_path):
    folder = shutil.copytree(dense, tmp_path / "model")
    edit_json(folder / WHOLE, truncate_dim=3, **DEFAULT)
    assert bypass_note(PLAIN, folder, ["mean"]) == (
        "Poolings such as `mean` bypass the modules of m (Pooling, Dense, the prompt "
        "'the dog: ', the first 3 dimensions); use `m.native`"
    )
    modules(FIRST, entry("1_Pooling", "Pooling"))(folder)
    edit_json(folder / WHOLE, truncate_dim=None, default_prompt_name=None)
    assert not bypass_note(PLAIN, folder, ["mean"])


def test_hidden_states_and_modules_are_two_encodings(tmp_path):
    folder = saved(tmp_path, "mean")
    native = NativeConfig(PLAIN).load(folder, tmp_path).encode(["a"])
    with refused(UsageError, "lacks"):
        MEAN_POOLING(native)
    with refused(UsageError, "not of a model under"):
        NATIVE(PLAIN.load(folder, tmp_path).encode(["a"]))


def test_a_table_of_vectors_has_one_precision(tmp_path):
    config = NativeConfig(TransformerConfig("m-bfloat16", ""))
    with refused(UsageError, "float32 alone"):
        config.identify(saved(tmp_path, "static"))
