"""What users of other programs type: model names, mteb's tasks, several values, -h, -q, --limit."""

import re
import shutil

import pytest
from subword_tables import made
from typer.main import get_command

from harness.cli import app
from harness.core.files import write_json
from harness.core.interfaces import Hub
from harness.data.download import seal, snapshot_of
from harness.data.places import Places, packaged
from harness.registry import load_registry
from harness.resolve import resolve

SMALL = ("-t", "mini-sts", "--limit", "12")


def measured(out):
    return re.findall(r"^(\S+) on (\S+), seed 0: ", out, re.MULTILINE)


# Options


@pytest.mark.parametrize(
    "typed", ["-t a b -m c d --seeds 2", "--task=a b -m c --method d", "-m c d -t a b"]
)
def test_words_behind_a_list_are_its_values(typed):
    run = get_command(app).get_command(None, "run")
    given = run.make_context("run", typed.split()).params
    assert (list(given["task"]), list(given["method"])) == (["a", "b"], ["c", "d"])


# Models and tasks


def test_an_encoder_alone_means_its_own_pooling_and_the_id_says_which(call):
    answer = call("run -m glove-mini bert-mini", *SMALL)
    assert answer.status == 0
    methods = {method for method, _ in measured(answer.out)}
    assert methods == {"glove-mini.mean", "bert-mini.mean"}
    assert "glove-mini is glove-mini.mean here\n" in answer.err


def test_an_encoder_alone_has_the_prompt_of_its_only_row(call, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for name in ("qwen3-embedding-0-6b", "Qwen/Qwen3-Embedding-0.6B"):
        answer = call("run --dry-run -t mini-sts -m", name)
        assert answer.status == 0
        assert "1.2 GB as far as known" in answer.out
        assert "\nharness fetch qwen3-embedding-0-6b  1.2 GB  1\n" in answer.out
        assert f"{name} is qwen3-embedding-0-6b.native:sts here\n" in answer.err


@pytest.fixture
def bert_mini(tmp_path):
    """Makes a copy of the folder of bert-mini, under another name."""
    folder = packaged(load_registry().encoders["bert-mini"])
    return lambda name: shutil.copytree(folder, tmp_path / name)


def test_a_folder_is_a_method(call, bert_mini):
    bert_mini("My_Model")
    models = ("./My_Model", "./My_Model.cls", "My_Model:8.mean+sn@target")
    answer = call("run -m", *models, *SMALL)
    assert answer.status == 0
    methods = {method for method, _ in measured(answer.out)}
    assert methods == {"my-model.mean", "my-model.cls", "my-model:8.mean+sn@target"}
    assert "./My_Model is my-model.mean here" in answer.err
    assert "is" not in call("run -q -m", *models, *SMALL).err


def test_a_repository_of_model2vec_is_read_as_its_folder_is(
    call, monkeypatch, tmp_path
):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    commit = "5" * 40
    folder = snapshot_of(Hub("someone/potion", commit))
    folder.parent.mkdir(parents=True)
    made(folder)
    seal(folder)
    shutil.copytree(folder, tmp_path / "in" / "copy")
    words = (f"someone/potion@{commit}", "someone/potion.mean", "in/copy")
    answer = call("run -m", *words, *SMALL, "--min-coverage", "0")
    assert answer.status == 0
    scores = re.findall(r"on mini-sts.limit-12, seed 0: Spearman (\S+)", answer.out)
    assert len(scores) == 2
    assert len(set(scores)) == 1


def test_a_folder_whose_name_makes_no_id_is_told_so(call, bert_mini):
    bert_mini("模型")
    answer = call("run -m ./模型", *SMALL)
    assert answer.status == 2
    wanted = "wanted a name with a letter from a to z or a digit, found '模型'"
    assert wanted in answer.complaint
    assert "--encoder NAME=./模型 -m NAME" in answer.complaint


def test_what_a_pooling_bypasses_in_a_folder_is_noted(call, bert_mini):
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    settings = bert_mini("mine") / "config_sentence_transformers.json"
    write_json(settings, prompts)
    answer = call("run -q -m ./mine ./mine.mean", *SMALL)
    assert answer.status == 0
    assert "mine.native" in answer.out
    [note] = answer.err.splitlines()
    assert "(Pooling, the prompt 'query: ')" in note
    assert "`mine.native`" in note


def test_words_change_nothing_but_the_answer(bert_mini, tmp_path):
    """A model and a task that words bring are known to the answer alone, and each time anew."""
    pairs = tmp_path / "my-pairs.tsv"
    pairs.write_text("A man eats.\tSomeone eats.\t4.2\nA dog runs.\tIt rains.\t0.5")
    words = (
        [str(bert_mini("mine")), "mine:8.cls", "bert-mini*"],
        [str(pairs), "STS12"],
    )
    registry, places = load_registry(), Places(tmp_path / "cache")
    first, second = (resolve(places, None, *words) for _ in range(2))
    assert first == second
    assert first.methods == ("mine.mean", "mine:8.cls", "bert-mini*")
    assert first.tasks == ("my-pairs", "sts12.senteval")
    assert first.registry.parse("mine:8.cls").encoder.max_length == 8
    assert first.places.encoders == {"mine": tmp_path / "mine"}
    assert first.registry.tasks.keys() - registry.tasks.keys() == {"my-pairs"}
    assert load_registry() == registry
    assert "mine" not in registry.encoders
    assert places == Places(tmp_path / "cache")


# A file of pairs


def test_a_file_of_pairs_is_a_task(call, tmp_path):
    lines = ["first\tsecond\tscore", "A man eats.\tSomeone eats.\t4.2"]
    lines += ["A dog runs.\tIt rains.\t0.5", "A cat sleeps.\tA cat is asleep.\t4.8"]
    (tmp_path / "My pairs.tsv").write_text("\n".join(lines))
    answer = call("run -m glove-mini.mean -t", "My pairs.tsv")
    assert answer.status == 0, answer.err
    assert "glove-mini.mean on my-pairs, seed 0: Spearman 100.00" in answer.out
    again = call("run -m glove-mini.mean -t", "My pairs.tsv", "--dry-run")
    assert "1 is already measured" in again.out


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("pairs.tsv", "a\tb", "pairs.tsv:1: wanted 3 fields, found 2"),
        ("pairs.tsv", "a\tb\t1\nc\td\tx", "pairs.tsv:2: wanted two sentences and a"),
        ("pairs.csv", "a,b,1", "wanted a file such as pairs.tsv"),
        ("mini-sts.tsv", "a\tb\t1", "a task is called 'mini-sts'"),
    ],
)
def test_a_file_that_is_none_of_pairs_is_refused(call, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    answer = call("run -m glove-mini.mean -t", name)
    assert answer.status != 0
    assert words in answer.err
