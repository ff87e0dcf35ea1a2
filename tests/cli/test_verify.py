"""`harness verify` and `harness explain --model`: the page is run, and statuses are as it says."""

import json
import shutil

import pytest
import yaml
from committed import FOLDER, RESULTS
from documents import ROOT, lines
from hub_server import hub_server, use_hub_server

from harness.cli import main

PAGE = (ROOT / "docs/how-to/verify.md").read_text(encoding="utf-8")
FALSE = 0.1234


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """bert-mini as a folder whose card has the committed scores in its front matter."""
    folder = tmp_path_factory.mktemp("exported") / "my-model"
    with pytest.raises(SystemExit) as ended:
        main(["export", "bert-mini.mean", str(folder), "--results", str(RESULTS),
              "--cache", str(folder.parent / "cache"), "--model-index"])  # fmt: skip
    assert ended.value.code in (0, None)
    card = folder / "README.md"
    front = yaml.safe_load(card.read_text().split("---")[1])
    keep_embedded(front, card)
    return folder


@pytest.fixture
def card_of_copy(call, exported, monkeypatch, tmp_path):
    """A copy of that folder: its card. Texts that one test encoded are encoded for all."""
    shutil.copytree(exported, tmp_path / "my-model")
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(exported.parent / "cache"))
    return tmp_path / "my-model" / "README.md"


def keep_embedded(front, card):
    """Leave the numbers on tasks that come with the harness, so that no data are needed."""
    [model] = front["model-index"]
    model["results"] = [
        r for r in model["results"] if r["dataset"]["name"] == "mini-sick"
    ]
    card.write_text(f"---\n{yaml.safe_dump(front)}---\n# made\n")


def test_the_page_is_run(call, card_of_copy):
    for words in lines(PAGE):
        if words[1] == "export":
            continue
        answer = call(*words[1:])
        assert "Traceback" not in answer.err
        assert answer.status == (3 if "bert-mini" in words else 0)  # which has no card
        if words[1] == "explain":
            assert "Pearson for Spearman" in answer.out
    page = (card_of_copy.parents[1] / "verified" / "README.md").read_text()
    assert page.index("my-model") < page.index("bert-mini")


def test_a_card_that_was_written_here_holds_and_says_its_protocol(call, card_of_copy):
    facts = json.loads(call("verify my-model --json").out)
    assert facts["hold"] == facts["checked"] > 0
    assert facts["method"] == "my-model.native"
    assert "raw text" in card_of_copy.read_text()
    assert "sentence-embedding-harness" in card_of_copy.read_text()


@pytest.mark.slow
@pytest.mark.data
def test_every_score_that_is_exported_is_confirmed(data_dir, call):
    exported = call("export", "bert-mini.mean", "my-model", "--results", str(RESULTS),
                    "--model-index")  # fmt: skip
    assert exported.status == 0
    facts = json.loads(call("verify my-model --json --data-dir", str(data_dir)).out)
    assert facts["hold"] == facts["checked"] >= 20
    assert {number["task"] for number in facts["numbers"]} >= {
        "sick-r",
        "sts12",
        "sts-b",
    }


def test_a_false_number_is_status_1_and_kept_once(call, card_of_copy):
    front = yaml.safe_load(card_of_copy.read_text().split("---")[1])
    front["model-index"][0]["results"][0]["metrics"][0]["value"] = FALSE
    card_of_copy.write_text(f"---\n{yaml.safe_dump(front)}---\n")
    answer = call("verify my-model --output verified")
    assert answer.status == 1
    assert "differs" in answer.out
    again = call("verify my-model --output verified")
    assert again.status == 1
    assert again.out == ""
    assert "done before" in again.err
    front["model-index"][0]["results"][0]["metrics"][0]["value"] = FALSE / 2
    card_of_copy.write_text(f"---\n{yaml.safe_dump(front)}---\n")
    changed = call("verify my-model --output verified")
    assert "differs" in changed.out


def test_markdown_for_a_pull_request_has_digests_versions_and_mtebs_box(
    call, card_of_copy
):
    text = call("verify my-model --markdown").out
    assert "* weights: sha256 `" in text
    assert "* pairs of mini-sick: sha256 `" in text
    assert "transformers " in text
    *_, last = text.strip().splitlines()
    assert last.startswith("- [x] I reproduced results from the original paper")


@pytest.mark.weights
def test_the_card_of_all_minilm_l6_v2_states_no_number_and_results_are_offered(call):
    answer = call("verify minilm")
    assert answer.status == 3
    assert "minilm has no card with a model-index" in answer.out
    words = " ".join(answer.out.split())  # as wrapped
    assert "clone https://github.com/embeddings-benchmark/results" in words


def test_a_search_says_its_bound_before_and_keeps_it(call, checkpoint):
    words = ("--model", checkpoint("bert"), "--mine", "1.23", "--encodings", "1")
    answer = call("explain", "mini-sick", *words)
    assert answer.status == 1
    assert "a search of at most 1 encoding of mini-sick (" in answer.err
    assert "/searches" in answer.err
    assert "gives this number" in answer.out
    assert "were left out" in answer.out


# What arithmetic says before anything is encoded


def write_row(path, values):
    path.write_text(f"{','.join(values)}\n{','.join(values.values())}\n")


@pytest.mark.weights
def test_another_models_numbers_are_told_and_nothing_is_encoded(
    call, tmp_path, monkeypatch
):
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    names = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICK-R")
    printed = ("72.63", "83.48", "78.00", "85.66", "80.03", "83.42", "80.59")
    write_row(tmp_path / "mpnet.csv", dict(zip(names, printed, strict=True)))
    answer = call("verify minilm --card mpnet.csv --search")
    assert answer.status == 1
    first, second, *_ = answer.out.splitlines()
    assert first == "minilm: all its 7 numbers are another model's"
    assert "mteb.1-12-75/mpnet-base" in second
    assert "encode" not in answer.err
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_what_is_cached_and_what_needs_no_search_is_said(call, tmp_path, monkeypatch):
    """Two digits of one number are exchanged, and three others hold."""
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    names = ("mini-sick", "mini-sick.dev", "mini-sts.dev", "mini-sts")
    cells = [FOLDER.records.value("bert-mini.mean", name, "spearman", "all").mean
             for name in names]  # fmt: skip
    row = {name: f"{score:.2f}" for name, score in zip(names, cells, strict=True)}
    first, second, *others = row["mini-sts"]
    assert (first, others[1]) == ("4", "9")
    write_row(tmp_path / "card.csv", row | {"mini-sts": f"9{second}.4{others[2]}"})
    answer = call("verify bert-mini --card card.csv --search")
    assert answer.status == 1
    head, reading, *_ = answer.out.splitlines()
    assert head == "bert-mini: 3 of 4 checked numbers hold"
    assert "two digits are exchanged [likely]." in reading + answer.out.splitlines()[2]
    assert "bert-mini: 4 tasks: 4 to encode (" in answer.err
    assert "a search" not in answer.err
    assert max(map(len, answer.out.splitlines())) <= 80
    again = call("verify bert-mini --card card.csv")
    assert "bert-mini: 4 tasks: all encodings are in the cache" in again.err


def test_a_repository_at_a_revision_is_checked_by_the_card_that_it_has_there(
    call, card_of_copy, monkeypatch, tmp_path
):
    folder, commit = card_of_copy.parent, "1" * 40
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    later = {**files, "README.md": b"# No number\n"}
    with hub_server() as hub:
        use_hub_server(hub, monkeypatch, tmp_path)
        hub.model("me/card-model", files, commit)
        hub.model("me/card-model", later, "2" * 40)
        fetched = call(f"fetch me/card-model@{commit}")
        assert fetched.status == 0, fetched.err
    facts = json.loads(call(f"verify me/card-model@{commit} --json").out)
    assert facts["hold"] == facts["checked"] == 1
    assert facts["exit_status"] == 0


SEARCH = "explain mini-sts --model bert-mini"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ("verify bert-mini", 3, "its files state no number"),
        ("verify e5-small-v2", 3, "e5-small-v2"),
        ("verify a b --card c", 2, "verify the models one by one"),
        ("verify bert-mini --card none.json", 3, "there is no such file"),
        (f"{SEARCH} --mine high", 2, "wanted a number"),
        (SEARCH, 2, "needs --mine"),
        ("explain --model bert-mini --mine 1", 2, "needs the task"),
        (f"{SEARCH} --mine 1 --metric f1", 2, "f1"),
    ],
)
def test_what_cannot_be_checked_is_said_in_a_line(call, words, status, says):
    answer = call(words)
    assert answer.status == status
    assert says in answer.out + answer.err
    assert "Traceback" not in answer.err


# Vectors that depend on the batch

FUNCTION = """
import hashlib
from harness import FunctionConfig

def embed(texts):
    rows = [[*hashlib.sha256(text.encode()).digest()] for text in texts]
    # As a statistic of the batch moves vectors.
    return [[first + SHIFT * len(texts), *others] for first, *others in rows]

ENCODERS = (FunctionConfig("NAME", embed),)
"""
BATCH = (
    "64 texts of mini-sick, encoded alone and in one batch, differ by up to 0.49 % of"
)


@pytest.mark.parametrize(("name", "shift"), [("rounded", 1e-5), ("shifted", 0.02)])
def test_vectors_that_depend_on_the_batch_are_said_beyond_rounding(
    call, tmp_path, name, shift
):
    code = FUNCTION.replace("NAME", name).replace("SHIFT", str(shift))
    (tmp_path / f"{name}.py").write_text(code)
    scores = {"test": [{"hf_subset": "default", "cosine_spearman": FALSE}]}
    content = {"task_name": "mini-sick", "mteb_version": "2.0.0", "scores": scores}
    (tmp_path / "card.json").write_text(json.dumps(content))
    words = f"verify {name}.native --plugin {name}.py --card card.json"
    is_shifted = name == "shifted"
    for form in ("", "--markdown") if is_shifted else ("",):
        answer = " ".join(call(f"{words} {form}").out.split())
        assert "differs" in answer
        assert (BATCH in answer) == is_shifted
    effect = json.loads(call(f"{words} --json").out)["batch_effect"]
    if is_shifted:
        assert effect.pop("largest") == pytest.approx(63 * shift / 255, rel=0.01)
    assert effect == ({"task": "mini-sick", "texts": 64} if is_shifted else None)
