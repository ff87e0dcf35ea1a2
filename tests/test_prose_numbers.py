"""Numbers in sentences that people wrote are those of the records and the published tables.

Generated pages are computed. A sentence of documentation, README or a question's text
is not: each number that it states is looked up here, by the words around it, and
computed again.
"""

import json
import re
import tomllib
from pathlib import Path
from statistics import fmean

import pytest
from committed import FOLDER as RESULTS
from scipy.stats import spearmanr

from baselines import glove, mpnet_base, simcse
from harness import Places
from harness.core.files import LEASE
from harness.encoders.kernels.choose import multiplications
from harness.evaluation.embeddings import SHARD
from harness.evaluation.fit_corpus import MOST_BLOCKS, SHARDS_A_BLOCK
from harness.results.scorings import SEVEN
from harness.training.loop import SAVE_SECONDS, SAVE_SHARE

ROOT = Path(__file__).resolve().parents[1]
YEARS = SEVEN[:5]
CHOICES = tomllib.loads(
    (ROOT / "results/questions/traps.toml").read_text(encoding="utf-8")
)
TRAPS = {trap["title"]: " ".join(trap["text"].split()) for trap in CHOICES["trap"]}
NUMBER = r"(\d+(?:[.,]\d+)*)"


def page(name):
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def numbers_in_sentence(text, sentence):
    """The numbers that stand in the text where `#` stands in a sentence of it."""
    pattern = re.escape(sentence).replace(r"\#", NUMBER).replace("#", NUMBER)
    found = re.search(pattern, text)
    assert found, f"no such sentence: {sentence}"
    return [float(number.replace(",", "")) for number in found.groups()]


def score(method, task, *path):
    mean = RESULTS.records.value(method, task, *(path or ("spearman", "all"))).mean
    assert mean is not None, (method, task)
    return mean


def differences_by_task(after, before, tasks, way, text=""):
    """How far a method lies from another on each task."""
    path = ("spearman", way)
    return {
        t: score(after, t + text, *path) - score(before, t + text, *path) for t in tasks
    }


def averages(method, way, text):
    return fmean(score(method, task + text, "spearman", way) for task in SEVEN)


def assert_stated(numbers, computed):
    """Equal to the digits that are stated, two of them after the point."""
    assert [round(value, 2) for value in computed] == numbers


def measured(name):
    return json.loads(
        (ROOT / f"results/records/speed/{name}.json").read_text(encoding="utf-8")
    )


# Documentation


def test_the_page_on_many_machines_has_the_measured_ratios():
    text = page("docs/how-to/many-machines.md")
    two, one_core = (measured(name)["ratios"][0] for name in ("jobs-2", "cores-2"))
    [share, target] = numbers_in_sentence(
        text, "took two processes # % of one process's time; the target was # %"
    )
    assert (share, target) == (
        round(100 / two),
        round(100 / measured("jobs-2")["wanted"]),
    )
    assert numbers_in_sentence(text, "on one core alone it took # times") == [
        round(one_core / two, 2)
    ]
    # 1.735 lies between two numbers of two decimals: the page of speed has the same one.
    [fast] = numbers_in_sentence(text, "two processes are # times as fast")
    assert fast == float(f"{one_core:.2f}")


def test_readme_has_the_memory_of_two_processes():
    assert numbers_in_sentence(page("README.md"), "with # GB of memory") == [
        measured("jobs-2")["facts"]["GB, two processes"]
    ]


def test_readme_has_the_size_of_bert_s_training():
    [sequences, share, short, long] = numbers_in_sentence(
        page("README.md"),
        "a million steps of # sequences, # % of them of # pieces and the rest of #)",
    )
    pieces = 1e6 * sequences * (share * short + (100 - share) * long) / 100
    assert numbers_in_sentence(page("README.md"), "BERT on some # billion") == [
        round(pieces / 1e9)
    ]


def test_readme_s_measured_numbers_are_of_the_models_that_it_names():
    run = [cell.cell for cell in RESULTS.all_reproductions if cell.scores]
    mteb = {c.method.partition(".")[0] for c in run if c.table.id.startswith("mteb.")}
    others = [cell for cell in run if not cell.table.id.startswith("mteb.")]
    assert mteb == {"minilm", "mpnet-base"}
    assert all(cell.method.startswith("glove-840b-sick") for cell in others)
    assert all(cell.task.startswith("sick-r") for cell in others)


def test_the_index_says_how_far_aggregations_lie_apart():
    assert "up to twenty points" in page("docs/index.md")
    rows = {
        way: RESULTS.cell(f"simcse.b2/bert-whitening-target-{way}/sts12").points
        for way in ("all", "wmean")
    }
    assert 20 <= rows["wmean"] - rows["all"] < 21


def test_embedded_models_score_what_is_said_of_them(tmp_path):
    [stated] = numbers_in_sentence(
        page("docs/included.md"), "all-MiniLM-L6-v2 reaches # Spearman on `mini-sts`"
    )
    assert stated == round(score("minilm.mean", "mini-sts"), 1)
    task = RESULTS.registry.tasks["mini-sts"]
    pairs = task.pairs(Places(tmp_path).require_data(task.asset))
    sides = [
        [{*re.findall(r"\w+", text.lower())} for text in side]
        for side in (pairs.a, pairs.b)
    ]
    shares = [len(a & b) / len(a | b) for a, b in zip(*sides, strict=True)]
    [overlap] = numbers_in_sentence(
        page("docs/included.md"), "that two sentences have in common #"
    )
    assert overlap == round(100 * spearmanr(shares, pairs.gold).statistic, 1)


def test_texts_of_the_papers_are_those_that_the_pages_tell():
    """SentEval's, but for STS-B in SBERT and BERT-flow, which is raw."""
    tables = {"sbert.t1": "raw", "bert-flow.t2": "raw", "bert-flow.t3": "raw"}
    tables |= dict.fromkeys(
        ("simcse.t5", "bert-whitening.t1", "bert-whitening.t2"), "senteval"
    )
    for name, text in tables.items():
        columns = {
            column.id: column.task
            for column in RESULTS.table(name).columns
            if column.task
        }
        forms = {
            column: RESULTS.registry.tasks[task].text
            for column, task in columns.items()
        }
        assert forms.pop("sts-b") == text, name
        assert set(forms.values()) == {"senteval"}, name


def test_cards_of_included_models_have_the_measured_numbers():
    embedded = "harness/assets/embedded"
    [ahead] = numbers_in_sentence(
        page(f"{embedded}/bert-mini/README.md"), "is better by # points on STS-B"
    )
    assert ahead == round(
        score("minilm.mean", "sts-b") - score("bert-mini.mean", "sts-b")
    )
    [tokens] = numbers_in_sentence(
        page(f"{embedded}/glove-mini/README.md"), "its corpus has # million tokens"
    )
    training = json.loads(page(f"{embedded}/glove-mini/training.json"))
    assert tokens == round(training["counted"]["tokens"] / 1e6, 1)


def test_rules_that_split_words_move_glove_by_what_is_said():
    rules = ("", "-whitespace", "-treebank", "-lower", "-strip", "-st")
    scores = [score(f"glove-840b-sick{rule}.mean", "sick-r") for rule in rules]
    assert_stated(
        numbers_in_sentence(" ".join(glove.__doc__.split()), "give # to # on SICK-R"),
        [min(scores), max(scores)],
    )


def test_simcse_loses_after_its_pooler_what_is_said():
    stated = numbers_in_sentence(
        " ".join(simcse.__doc__.split()), "loses up to # points (STS12: #, not #)"
    )
    after = {
        t: RESULTS.cell(f"mteb.0-0-2/simcse-unsup-bert-base/{t}").points for t in SEVEN
    }
    before = {
        t: RESULTS.cell(f"simcse.t5/simcse-bert-base-unsup/{t}").points for t in SEVEN
    }
    loss, task = max((before[task] - after[task], task) for task in (*YEARS, "sts-b"))
    assert task == "sts12"
    assert_stated(stated, [loss, after[task], before[task]])


def test_files_of_baselines_are_as_short_as_the_page_on_methods_says():
    [most] = numbers_in_sentence(
        page("docs/how-to/method.md"), "one a method family, of at most # lines"
    )
    for path in (ROOT / "baselines").glob("*.py"):
        assert path.read_text(encoding="utf-8").count("\n") <= most, path


def test_the_page_on_security_has_the_constants_of_the_code():
    text = page("docs/security.md")
    assert numbers_in_sentence(text, "after each block of # sentences (a #th of") == [
        SHARDS_A_BLOCK * SHARD,
        MOST_BLOCKS,
    ]
    million = MOST_BLOCKS * SHARDS_A_BLOCK * SHARD / 1e6
    assert numbers_in_sentence(text, "a corpus above # million") == [round(million)]
    minilm, bert_base = (
        multiplications(depth=depth, width=width)
        for depth, width in ((6, 384), (12, 768))
    )
    assert "eight times as long with BERT-base" in text
    assert round(bert_base / minilm) == 8
    assert numbers_in_sentence(text, "stopped for # seconds loses it") == [LEASE]
    assert "saved every five seconds" in text
    assert "more than a twentieth of the time" in text
    assert (SAVE_SECONDS, SAVE_SHARE) == (5, 1 / 20)


# Flows


FLOWS = ("flow", "nice", "glow")


@pytest.fixture(scope="module")
def flows():
    return page("docs/flows.md")


def test_every_flow_lowers_the_average_and_the_target_most(flows):
    flows = " ".join(flows.split())
    assert (
        "all of its flows lower the average of the seven STS tasks, under `all` and"
        in flows
    )
    assert "except for `glow` under `wmean`" in flows
    for way in ("all", "wmean"):
        for pooling in ("mean", "cls", "first-last"):
            start = f"mpnet-base.{pooling}"
            base = averages(start, way, ".senteval")
            by_corpus = {
                (flow, corpus): averages(f"{start}+{flow}@{corpus}", way, ".senteval")
                - base
                for flow in FLOWS
                for corpus in ("target", "enwiki-100k")
            }
            by_corpus["flow:released", ""] = (
                averages(f"{start}+flow:released@target", way, ".senteval") - base
            )
            assert max(by_corpus.values()) < 0, (way, pooling)
            for flow in FLOWS if pooling == "first-last" else ():
                more = by_corpus[flow, "target"] < by_corpus[flow, "enwiki-100k"]
                assert more or (flow, way) == ("glow", "wmean"), (way, pooling, flow)


def test_bert_flow_as_released_scores_above_flow_by_what_is_said(flows):
    stated = numbers_in_sentence(
        flows, "by # to # points under `all` and # to # under `wmean`"
    )
    by = []
    for way in ("all", "wmean"):
        pair = (
            f"mpnet-base.first-last+{flow}@target" for flow in ("flow:released", "flow")
        )
        gains = differences_by_task(*pair, SEVEN, way, ".senteval").values()
        by += [min(gains), max(gains)]
    assert_stated(stated, by)


def test_flows_move_qnli_by_what_is_said(flows):
    poolings = ["mpnet-base.first-last"]
    target, wiki = (
        [
            score(f"{start}+{flow}@{corpus}", "qnli", "auc")
            - score(start, "qnli", "auc")
            for start in poolings
            for flow in names
        ]
        for corpus, names in (
            ("target", (*FLOWS, "flow:released")),
            ("enwiki-100k", FLOWS),
        )
    )
    assert_stated(
        numbers_in_sentence(flows, "raise the AUC, by # to # points"),
        [min(target), max(target)],
    )
    assert_stated(
        numbers_in_sentence(flows, "fitted on Wikipedia lower it, by # to #"),
        [-max(wiki), -min(wiki)],
    )


def floor_rows():
    path = ROOT / "results/records/flow_floors.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def test_notes_on_flows_say_which_were_measured_again():
    methods = {row["method"] for row in floor_rows()}
    left_out = {row["method"] for row in floor_rows() if not row["low"]}
    for method in methods:
        note = mpnet_base.LEFT_OUT if method in left_out else mpnet_base.KEPT
        assert RESULTS.registry.parse(method).note == f"{note} (docs/flows.md)", method


# Traps


def test_what_a_fit_on_the_target_moves():
    text = TRAPS["`target` is transductive"]
    mean, bert = "minilm.mean", "bert-mini.mean"
    under_all = differences_by_task(f"{mean}+whitening:256@target", mean, YEARS, "all")
    wmean = differences_by_task(f"{mean}+whitening:256@target", mean, YEARS, "wmean")
    assert_stated(
        numbers_in_sentence(
            text, "takes # points from STS12 and # from STS15 and adds # to STS13"
        ),
        [-under_all["sts12"], -under_all["sts15"], under_all["sts13"]],
    )
    assert_stated(
        numbers_in_sentence(text, "it moves no year by more than #"),
        [max(map(abs, wmean.values()))],
    )
    up = differences_by_task(f"{bert}+whitening@target", bert, YEARS, "all")
    assert (
        min(
            differences_by_task(
                f"{bert}+whitening@target", bert, YEARS, "wmean"
            ).values()
        )
        > 0
    )
    assert_stated(
        numbers_in_sentence(text, "under both, by # to # under `all`"),
        [min(up.values()), max(up.values())],
    )


def test_what_the_settings_of_bert_flow_move():
    text = TRAPS["BERT-flow (NLI) on STS-B, 58.56"]
    start = "minilm.first-last+flow"
    long, released, short, released_short = (
        score(f"{start}{variant}@snli-18k", "sts-b")
        for variant in ("", ":released", ":paper-nli", ":released-nli")
    )
    assert_stated(
        numbers_in_sentence(text, "scores higher, by # from data and # as released"),
        [short - long, released_short - released],
    )
    assert_stated(
        numbers_in_sentence(
            text,
            "its dropout # higher under the long schedule and # lower under the short one",
        ),
        [released - long, short - released_short],
    )


def test_how_far_the_corpus_moves_a_whitening():
    corpora = ("target", "snli-18k", "enwiki-10k")
    scores = [score(f"minilm.mean+whitening:256@{c}", "sts-b") for c in corpora]
    assert_stated(
        numbers_in_sentence(
            TRAPS["BERT-flow (NLI) on STS-B, 58.56"],
            "`whitening:256` by # points at most",
        ),
        [max(scores) - min(scores)],
    )


def test_how_far_the_subsets_of_sts13_lie_apart():
    groups = [
        score("minilm.mean", "sts13", "spearman", "groups", name)
        for name in ("FNWN", "OnWN", "headlines")
    ]
    assert_stated(
        numbers_in_sentence(
            TRAPS["STS13 has three subsets here, four in SIF"],
            "lies # and # points below the other two, which differ by #",
        ),
        [groups[1] - groups[0], groups[2] - groups[0], groups[2] - groups[1]],
    )


def test_on_which_tasks_each_start_of_the_flow_is_ahead():
    text = TRAPS["BERT-flow's released code starts its flow at random"]
    ahead = {
        encoder: {
            task
            for task, gain in differences_by_task(
                f"{encoder}.first-last+flow@target",
                f"{encoder}.first-last+flow:glorot@target",
                SEVEN,
                "all",
            ).items()
            if gain > 0
        }
        for encoder in ("bert-mini", "minilm")
    }
    assert ahead == {"bert-mini": {"sts13", "sts14", "sts16", "sts-b"}, "minilm": set()}
    assert (
        "data on STS13, STS14, STS16 and STS-B, random values on STS12, STS15 and SICK-R"
        in text
    )
    assert "on MiniLM random values on all seven" in text


def test_what_whitening_takes_from_each_year():
    text = TRAPS["Whitening on the target moves subsets against each other"]
    lost = {
        way: differences_by_task(
            "mpnet-base.mean+whitening@target",
            "mpnet-base.mean",
            YEARS,
            way,
            ".senteval",
        )
        for way in ("all", "wmean")
    }
    assert_stated(
        numbers_in_sentence(
            text,
            "takes # points from STS12 under `all` and # under `wmean`, and from STS13 # "
            "under `all` and # under `wmean`",
        ),
        [-lost[way][year] for year in ("sts12", "sts13") for way in ("all", "wmean")],
    )


# Claims


def test_the_tuned_small_model_is_behind_where_its_note_says():
    tuned, start = "sbert-nli-bert-mini.first-last", "bert-mini.first-last"
    by_way = {
        way: differences_by_task(tuned, start, SEVEN, way) for way in ("all", "wmean")
    }
    [claim] = [
        c for c in RESULTS.claims.resolved if c.id == "flow-above-nli-first-last"
    ]
    assert "behind the untuned one (`bert-mini.first-last`) under `wmean`" in claim.note
    assert "under `all` it is ahead on average" in claim.note
    assert {task for task, gain in by_way["wmean"].items() if gain > 0} == {
        "sts-b",
        "sick-r",
    }
    assert fmean(by_way["wmean"].values()) < 0 < fmean(by_way["all"].values())


def test_the_papers_raise_and_lower_what_the_page_of_claims_says():
    """Fitted on the target, BERT-base's first-last average gains on all but SICK-R."""
    whitening, flow = RESULTS.table("bert-whitening.t1"), RESULTS.table("bert-flow.t2")
    for table, after, before in (
        (whitening, "bert-base-whitening-target", "bert-base-first-last-avg"),
        (flow, "bert-base-flow-target", "bert-base-last2avg"),
    ):
        rows = {row.id: row for row in table.rows}
        columns = {column.id: column for column in table.columns}
        for task in SEVEN:
            gain = table.score(rows[after], columns[task]) - table.score(
                rows[before], columns[task]
            )
            assert (gain > 0) == (task != "sick-r"), (table.id, task)
