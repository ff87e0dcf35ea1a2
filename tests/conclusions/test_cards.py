"""Numbers of cards: the forms of the hub and of mteb, and what is refused in a line."""

import json
import math
from dataclasses import replace

import pytest
import yaml
from processes import ROOT

from harness.conclusions.card_statements import (
    MAX_NUMBERS,
    Statement,
    statements_of_file,
)
from harness.conclusions.cards import (
    interpret,
    mark_other_models,
    numbers_of_model,
    parse_metric,
)
from harness.conclusions.causes import read_causes
from harness.conclusions.verification import Verification
from harness.core.errors import AssetMissing, DataError
from harness.registry import load_registry
from harness.results.verdict import CellState, Verdict, readings_in_points

REGISTRY = load_registry()
REVISION = "a0d554a64d88156834ff5ae9920b964011b16384"


def result(value=0.7546, metric="cosine_spearman", **data_set):
    about = {
        "type": "mteb/sts12-sts",
        "name": "MTEB STS12",
        "config": "default",
        "split": "test",
        "revision": REVISION,
        **data_set,
    }
    return {
        "task": {"type": "STS"},
        "dataset": about,
        "metrics": [{"type": metric, "value": value}],
    }


def write_card(folder, *results, name="made", text=None):
    index = [{"name": name, "results": list(results)}]
    front = text if text is not None else yaml.safe_dump({"model-index": index})
    (folder / "README.md").write_text(f"---\n{front}\n---\n# made\n")


def numbers_of(folder, *further):
    return numbers_of_model(folder, REGISTRY, further)


@pytest.mark.parametrize(
    ("metric", "meaning"),
    {
        "cosine_spearman": ("cosine", "spearman"),
        "cos_sim_spearman": ("cosine", "spearman"),
        "spearman_cosine": ("cosine", "spearman"),
        "euclidean_pearson": ("euclidean", "pearson"),
        "spearman_manhattan": ("manhattan", "spearman"),
        "pearson_dot": ("dot", "pearson"),
        "spearman_max": ("best", "spearman"),
        "spearman": ("cosine", "spearman"),
        "pearsonr": ("cosine", "pearson"),
        "main_score": ("cosine", "spearman"),
        "cosine_ap": None,
        "accuracy": None,
        "spearmanish_cosine": None,
    }.items(),
)
def test_metrics_have_their_names_of_every_library(metric, meaning):
    assert parse_metric(metric) == meaning


@pytest.mark.parametrize(
    ("value", "readings"),
    [
        ("75.40", ("75.40",)),
        ("0.7546", ("75.46", "0.7546")),
        ("75", ("75",)),
        ("-75", ("-75",)),
        ("75.46%", ("75.46",)),
        ("0.5%", ("0.5",)),
        ("1", ("100", "1")),
        ("1.01", ("1.01",)),
        ("-100", ("-100",)),
        ("100.01", ()),
        ("-0.25", ("-25", "-0.25")),
        ("n/a", ()),
        ("True", ()),
        ("", ()),
        ("nan", ()),
        ("754.6", ()),
    ],
)
def test_a_number_is_points_or_a_fraction_with_its_digits(value, readings):
    assert tuple(each.value for each in readings_in_points(value)) == readings


def test_a_card_keeps_the_digits_of_its_numbers(tmp_path):
    write_card(tmp_path, text=yaml.safe_dump({"model-index": [
        {"name": "made", "results": [result(value=1.5)]}]}).replace("1.5", "75.40"))  # fmt: skip
    [number], faults = numbers_of(tmp_path)
    assert (number.task, number.readings[0].value, faults) == (
        "sts12.senteval",
        "75.40",
        [],
    )


def test_a_card_of_many_tasks_says_of_each_number_why_it_is_not_checked(tmp_path):
    other = [
        {
            "task": {"type": "Classification"},
            "dataset": {"type": "mteb/other", "name": f"MTEB Other{number}"},
            "metrics": [{"type": "accuracy", "value": 71.0}],
        }
        for number in range(100)
    ]
    sts17 = {
        "type": "mteb/sts17-crosslingual-sts",
        "name": "MTEB STS17 (en-en)",
        "config": "en-en",
    }
    write_card(
        tmp_path,
        result(),
        result(value=0.7, metric="euclidean_spearman"),
        result(revision="0" * 40),
        result(name="MTEB STS12 (en)", config="en"),
        result(split="train"),
        result(value="high"),
        result(metric="cosine_ap"),
        result(name="MTEB STS12 (de)", config="de"),
        result(**sts17),
        *other,
    )
    numbers, faults = numbers_of(tmp_path)
    assert not faults
    assert [number.why_not == "" for number in numbers[:9]] == [True] * 4 + [False] * 5
    assert [bool(number.doubt) for number in numbers[:4]] == [False, False, True, False]
    assert {number.why_not for number in numbers[9:]} == {
        "no task here (Classification)"
    }


def test_one_malformed_result_leaves_the_others(tmp_path):
    write_card(
        tmp_path,
        result(),
        {"task": {"type": "STS"}},
        "no result",
        result(split="test "),
    )
    numbers, faults = numbers_of(tmp_path)
    assert [number.task for number in numbers] == ["sts12.senteval", "", "", ""]
    assert all("not in the hub's form" in number.why_not for number in numbers[1:3])
    assert not faults


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "model-index: 3",
        "- a list",
        "model-index:\n- results: none",
        "model-index: [&a {name: x, results: *a}]",
        "a: !!python/object/apply:os.system [ls]",
        f"model-index:\n- name: x\n  results: [{', '.join(['{}'] * (MAX_NUMBERS + 1))}]",
    ],
    ids=lambda text: text[:30],
)
def test_wrong_front_matter_is_one_line(tmp_path, text):
    write_card(tmp_path, text=text)
    numbers, [fault] = numbers_of(tmp_path)
    assert not numbers
    assert "\n" not in fault
    assert "README.md" in fault


def test_line_ends_that_were_converted_twice_are_the_reason(tmp_path):
    card = yaml.safe_dump({"model-index": [{"name": "x", "results": [result()]}]})
    text = f"---\n{card}---\n# A model\n"
    (tmp_path / "README.md").write_bytes(text.replace("\n", "\r\r\n").encode())
    numbers, [fault] = numbers_of(tmp_path)
    assert not numbers
    assert "found CR CR LF" in fault
    (tmp_path / "README.md").write_bytes(text.replace("\n", "\r\n").encode())
    assert len(numbers_of(tmp_path)[0]) == 1


def test_a_folder_without_a_card_numbers_nothing(tmp_path):
    assert numbers_of(tmp_path) == ([], [])
    for text in ("# No front matter\n", "---\nlanguage: en\n---\n# No model-index\n"):
        (tmp_path / "README.md").write_text(text)
        assert numbers_of(tmp_path) == ([], [])
    with pytest.raises(AssetMissing, match="there is no such file"):
        numbers_of(tmp_path, tmp_path / "none")


def test_results_of_the_hub_name_tasks_as_mteb_does(tmp_path):
    folder = tmp_path / ".eval_results"
    folder.mkdir()
    entries = [
        {
            "dataset": {"id": "mteb/sts12-sts", "task_id": "STS12_default_test"},
            "value": 75.46,
        },
        {"dataset": {"id": "mteb/sts12-sts", "task_id": "STS12"}, "value": 75.46},
        {"dataset": {"id": "cais/hle", "task_id": "default"}, "value": 20.9},
        {"dataset": {"id": "mteb/sts12-sts"}, "value": 75.46},
    ]
    (folder / "made.yaml").write_text(yaml.safe_dump(entries))
    numbers, faults = numbers_of(tmp_path)
    assert [number.task for number in numbers] == [
        "sts12.senteval",
        "sts12.senteval",
        "",
        "",
    ]
    assert not faults


def test_result_files_of_every_version_of_mteb(tmp_path):
    new = {
        "task_name": "STS12",
        "dataset_revision": REVISION,
        "scores": {
            "test": [
                {"spearman": [0.750, 0.0], "hf_subset": "default", "languages": []}
            ]
        },
        "evaluation_time": 3.5,
    }
    old = {
        "mteb_dataset_name": "STSBenchmark",
        "dataset_revision": None,
        "validation": {
            "cos_sim": {"pearson": 0.8, "spearman": [0.81, 0.0]},
            "evaluation_time": 3.5,
        },
    }
    (tmp_path / "results" / "made").mkdir(parents=True)
    (tmp_path / "results" / "made" / "STS12.json").write_text(json.dumps(new))
    (tmp_path / "results" / "made" / "model_meta.json").write_text("{}")
    (tmp_path / "old.json").write_text(json.dumps(old))
    numbers, faults = numbers_of(tmp_path, tmp_path / "old.json")
    assert [(number.task, number.score) for number in numbers] == [
        ("sts12.senteval", "spearman"),
        ("sts-b.dev", "pearson"),
        ("sts-b.dev", "spearman"),
    ]
    assert not any(number.why_not for number in numbers)
    assert not faults
    (tmp_path / "old.json").write_text("[")
    assert len(numbers_of(tmp_path, tmp_path / "old.json")[1]) == 1


def test_a_result_file_may_have_many_numbers_and_its_version_is_none(tmp_path):
    """BelebeleRetrieval has 53,016 numbers: 376 pairs of languages, 141 metrics each."""
    metrics = {f"ndcg_at_{rank}": 0.5 for rank in range(141)}
    subsets = [
        {"hf_subset": f"subset {number}", "mteb_version": "2.12.0", **metrics}
        for number in range(376)
    ]
    content = {"task_name": "BelebeleRetrieval", "scores": {"test": subsets}}
    (tmp_path / "BelebeleRetrieval.json").write_text(json.dumps(content))
    statements = list(statements_of_file(tmp_path / "BelebeleRetrieval.json"))
    assert len(statements) == 53_016
    assert "mteb_version" not in {statement.metric for statement in statements}


def test_the_arguments_of_a_run_of_mteb_belong_to_its_numbers(tmp_path):
    scores = {"test": [{"hf_subset": "default", "main_score": 0.8}]}
    result = {"task_name": "STS12", "scores": scores}
    (tmp_path / "STS12.json").write_text(json.dumps(result))
    lines = [
        {"task": "STS12", "split": "test", "subset": "en", "encode_kwargs": {"a": 1}},
        {"task": "STS12", "splits": ["test"], "subsets": ["default"],
         "encode_kwargs": {"prompt_name": "query", "batch_size": 32},
         "version": {"torch": "2.9.0", "transformers": "5.1.0", "flash-attn": None}},
    ]  # fmt: skip
    settings = tmp_path / "run_settings.jsonl"
    settings.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [statement] = statements_of_file(tmp_path / "STS12.json")
    assert statement.settings == {"prompt_name": "query", "batch_size": 32}
    assert statement.versions == {"torch": "2.9.0", "transformers": "5.1.0"}
    settings.write_text("no json\n")
    with pytest.raises(DataError, match=r"run_settings.jsonl: wanted settings"):
        list(statements_of_file(tmp_path / "STS12.json"))


FLASH = {
    "flash-attn": "2.8.1",
    "transformers": "5.0.0",
    "sentence-transformers": "5.6.0",
}


@pytest.mark.parametrize(
    ("versions", "causes"),
    [
        (FLASH, ["positions-shifted", "dtype-auto"]),
        ({**FLASH, "sentence-transformers": "5.6.1"}, ["dtype-auto"]),
        ({**FLASH, "transformers": "4.57.1"}, []),
        ({**FLASH, "transformers": "5.0.0rc1"}, []),
        ({"transformers": "from a branch"}, []),
        ({}, []),
    ],
)
def test_versions_of_a_run_have_the_causes_that_are_known_of_them(versions, causes):
    known = read_causes(ROOT / "results/questions/causes.toml").causes
    assert [cause.id for cause in known if cause.is_of_versions(versions)] == causes


@pytest.mark.parametrize(("difference", "named"), [(0.4, True), (-0.7, False)])
def test_a_cause_of_versions_is_named_where_it_may_have_done_it(difference, named):
    """transformers 5 may open weights in half precision, which does half a point at most."""
    versions = {"transformers": "5.1.0"}
    statement = Statement(
        "0.8", "cosine_spearman", "STS12", split="test", versions=versions
    )
    number = replace(
        interpret(statement, load_registry()),
        measured=80 + difference,
        verdict=Verdict(CellState.DIFFERS, difference=difference),
    )
    known = read_causes(ROOT / "results/questions/causes.toml").causes
    verification = Verification("model", "model.native", [number], causes=known)
    assert verification.made_with == [versions]
    assert [cause.id for cause in verification.causes_of_versions] == [
        "dtype-auto"
    ] * named


@pytest.mark.parametrize(
    ("scores", "complaint"),
    [
        ([{"main_score": None}], "its value '' is no correlation"),
        ([{"main_score": "0.75, or so"}], "its value '0.75, or so' is no correlation"),
        ([{"main_score": [75] * 9}], "its value '[75, 75, 75, 75, 75, 75, ...]"),
        ([{"main_score": True}], "its value 'True' is no correlation"),
        ([{"main_score": 8203.0}], "its value '8203.0' is no correlation"),
        ([], "STS12.json, scores: wanted results"),
        ({"main_score": 0.75}, "STS12.json, scores: wanted results"),
        (0.75, "STS12.json, scores: wanted results"),
        ([0.75], "STS12.json, scores: wanted results"),
    ],
)
def test_a_result_file_without_a_usable_score_says_so(scores, complaint, tmp_path):
    content = {"task_name": "STS12", "scores": {"test": scores}}
    (tmp_path / "STS12.json").write_text(json.dumps(content))
    numbers, faults = numbers_of(tmp_path, tmp_path / "STS12.json")
    [found] = [*(number.why_not for number in numbers), *faults]
    assert complaint in found
    assert "\n" not in found


def test_a_further_file_states_numbers_in_a_known_form(tmp_path):
    (tmp_path / "mine.csv").write_text("model,STS12,STS-B\nmine,72.37,82.03\n")
    (tmp_path / "other.json").write_text('{"results": 3}')
    numbers, [fault] = numbers_of(
        tmp_path / "none", tmp_path / "mine.csv", tmp_path / "other.json"
    )
    assert [(number.task, number.readings[0].value) for number in numbers] == [
        ("sts12.senteval", "72.37"),
        ("sts-b", "82.03"),
    ]
    assert "other.json: wanted the model-index of a card" in fault


def test_a_number_of_endless_digits_is_not_written_out(tmp_path):
    text = '{"task_name": "STS12", "scores": {"test": [{"main_score": 1e-99999999}]}}'
    (tmp_path / "STS12.json").write_text(text)
    [number], _ = numbers_of(tmp_path, tmp_path / "STS12.json")
    assert not number.readings


def test_a_result_file_that_was_not_downloaded_is_named(tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (tmp_path / "STS12.json").write_text(pointer)
    _, [fault] = numbers_of(tmp_path, tmp_path / "STS12.json")
    assert "found a git-lfs pointer" in fault


def test_numbers_of_another_model_of_the_card_are_not_this_models(tmp_path):
    index = [{"name": f"me/{name}", "results": [result()]} for name in ("one", "two")]
    write_card(tmp_path, text=yaml.safe_dump({"model-index": index}))
    numbers, _ = numbers_of(tmp_path)
    assert [number.why_not for number in mark_other_models(numbers, ["two"])] == [
        "of another model, me/one",
        "",
    ]
    doubtful = mark_other_models(numbers, ["other"])
    assert [number.why_not for number in doubtful] == ["", ""]
    assert all("none by this name" in number.doubt for number in doubtful)


def test_every_data_set_names_tasks_that_there_are():
    from harness.conclusions.cards import data_sets

    tasks = {task for data_set in data_sets() for task in data_set.tasks.values()}
    assert tasks <= REGISTRY.tasks.keys()


def test_two_revisions_of_a_data_set_are_two_numbers(tmp_path):
    revisions = (REVISION, "fdf84275bb8ce4b49c971d02e84dd1abc677a50f", "0" * 40)
    write_card(tmp_path, *(result(revision=revision) for revision in revisions))
    numbers, _ = numbers_of(tmp_path)
    assert [number.task for number in numbers] == ["sts12.senteval"] * 3
    assert [bool(number.doubt) for number in numbers] == [False, False, True]


def test_another_repository_under_the_name_of_a_data_set_can_be_confirmed_alone(
    tmp_path,
):
    write_card(
        tmp_path, result(type="me/my-sts12", revision=None), result(type="STS12")
    )
    other, same = numbers_of(tmp_path)[0]
    assert "'me/my-sts12' are not known here" in other.doubt
    assert not same.doubt


@pytest.mark.parametrize(
    ("about", "task", "why_not"),
    [
        (
            {"type": "mteb/sts16-sts", "name": "MTEB STS13"},
            "",
            "its name is MTEB STS13, its id mteb/sts16-sts",
        ),
        # mteb's STSB is Chinese, whatever the card calls it.
        ({"type": "C-MTEB/STSB", "name": "MTEB STSB"}, "", "its pairs are Chinese"),
        ({"type": "c-mteb/stsb", "name": "STS-B"}, "", "its pairs are Chinese"),
        (
            {"type": "C-MTEB/STSB", "name": "MTEB STSB (default)"},
            "",
            "its pairs are Chinese",
        ),
        (
            {"type": "mteb/STSB", "name": "MTEB STSB (default)"},
            "",
            "its pairs are Chinese",
        ),
        ({"type": "STSB", "name": "MTEB STSB"}, "", "its pairs are Chinese"),
        ({"type": "sentence-transformers/stsb", "name": "STSB"}, "sts-b", ""),
        ({"type": "MTEB/stsbenchmark-STS", "name": "STS-B"}, "sts-b", ""),
        ({"type": "unknown", "name": "sts-dev-768", "split": "dev"}, "sts-b.dev", ""),
        ({"type": "unknown", "name": "stsb test"}, "sts-b", ""),
        (
            {"type": "glue", "name": "GLUE", "config": "stsb", "split": "validation"},
            "sts-b.dev",
            "",
        ),
        (
            {"type": "glue", "name": "GLUE", "config": "mrpc", "split": "validation"},
            "",
            "no task here for the subset mrpc",
        ),
        ({"type": "PhilipMay/stsb_multi_mt", "name": "x", "config": "en"}, "sts-b", ""),
    ],
    ids=str,
)
def test_the_data_set_of_a_number_is_known_or_refused_with_the_reason(
    tmp_path, about, task, why_not
):
    write_card(tmp_path, result(**{"revision": None, **about}))
    [number], _ = numbers_of(tmp_path)
    assert (number.task, number.why_not) == (task, why_not)


def test_an_id_in_capitals_is_the_one_that_is_known(tmp_path):
    """Five cards could not be refuted for the capitals of an id."""
    name = "MTEB STSBenchmarkMultilingualSTS (en)"
    repository = "PhilipMay/stsb_multi_mt"
    write_card(tmp_path, result(type=repository, name=name, config="en"))
    [number], _ = numbers_of(tmp_path)
    assert (number.task, number.doubt) == ("sts-b", "")


@pytest.mark.parametrize(
    ("task", "languages", "known"),
    [
        ("STSB", ["cmn-Hans"], False),
        ("STSB", [], False),  # as the first versions wrote it
        ("STSBenchmark", ["eng-Latn"], True),
        ("STSBenchmark", [], True),
        ("STS12", ["fra-Latn"], False),
    ],
)
def test_a_result_file_of_another_language_is_not_measured_on_english_pairs(
    tmp_path, task, languages, known
):
    row = {"hf_subset": "default", "languages": languages, "cosine_spearman": 0.378}
    content = {"task_name": task, "scores": {"test": [row]}}
    (tmp_path / f"{task}.json").write_text(json.dumps(content))
    [number], faults = numbers_of(tmp_path / "none", tmp_path / f"{task}.json")
    assert (bool(number.task), faults) == (known, [])


def test_a_value_that_is_no_correlation_is_a_fault_of_the_card(tmp_path):
    write_card(
        tmp_path,
        *(result(value=value) for value in (75.46, 8203.25, math.nan, "80,90")),
    )
    numbers, _ = numbers_of(tmp_path)
    assert [number.is_no_correlation for number in numbers] == [False, True, True, True]
    right = numbers[0].judged(75.46)
    assert Verification("", "", numbers=[right]).exit_status == 0
    for wrong in numbers[1:]:
        assert Verification("", "", numbers=[right, wrong]).exit_status == 1


def test_sick_r_without_a_repository_may_be_of_either_number_of_pairs(tmp_path):
    plain = {"type": "SICK-R", "name": "SICK-R", "revision": None}
    mteb = {"type": "mteb/sickr-sts", "name": "MTEB SICK-R"}
    older = "a6ea5a8cab320b040a23452cc28066d9beae2cee"
    write_card(
        tmp_path,
        result(**plain),
        result(**mteb, revision=None),
        result(**mteb, revision=older),
    )
    numbers, _ = numbers_of(tmp_path)
    assert [(number.task, number.or_task) for number in numbers] == [
        ("sick-r.all", "sick-r"),
        ("sick-r.all", ""),
        ("sick-r.all", ""),
    ]
    assert not numbers[2].doubt


@pytest.mark.parametrize(
    "text",
    [
        "---\nmodel-index:\n- name: made\n",
        "<!-- a comment -->\n---\nmodel-index:\n- name: made\n---\n",
    ],
)
def test_front_matter_that_is_not_read_is_a_fault_of_the_file(tmp_path, text):
    (tmp_path / "README.md").write_text(text)
    numbers, [fault] = numbers_of(tmp_path)
    assert not numbers
    assert "wanted model-index in front matter" in fault


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_a_card_with_a_mark_of_its_encoding_is_read(tmp_path, end):
    write_card(tmp_path, result())
    text = (tmp_path / "README.md").read_text().replace("\n", end)
    (tmp_path / "README.md").write_bytes(b"\xef\xbb\xbf" + text.encode())
    numbers, faults = numbers_of(tmp_path)
    assert ([number.task for number in numbers], faults) == (["sts12.senteval"], [])
