"""SentEval's form in its public versions: two are known by their rows, a third is other data."""

import re
import shutil

import pytest
from fakes import made_record, results_of

from harness.core.digests import identity_text
from harness.core.pairs import pairs_digest
from harness.data.tasks.loader import limited
from harness.data.tasks.readers import OTHER_DATA, release_of, releases
from harness.registry import load_registry
from harness.results.reproduction import seed_scores
from harness.results.verdict import CellState

TASKS = load_registry().tasks
FILES = {
    "sts-b.senteval": "senteval/STS/STSBenchmark/sts-test.csv",
    "sick-r.senteval": "senteval/SICK/SICK_test_annotated.txt",
    "sts12.senteval": "senteval/STS/STS12-en-test/STS.input.MSRpar.txt",
}


def test_each_task_in_sentevals_form_has_its_versions():
    expected = {
        name
        for name, t in TASKS.items()
        if t.text == "senteval" and t.metric == "correlation"
    }
    assert releases().keys() == expected
    for task, versions in releases().items():
        assert set(versions) <= {"senteval", "retokenised"}
        assert all(
            release_of(task, digest) == name for name, digest in versions.items()
        )
        assert release_of(task, "0" * 64) == OTHER_DATA
    assert release_of("sts-b", "0" * 64) is None


def taken_apart(content):
    return (
        content.replace(b"n't", b"n ' t")
        .replace(b" .", b" . .")
        .replace(b"the", b"The")
    )


@pytest.mark.data
@pytest.mark.parametrize("task", FILES)
def test_a_third_version_is_scored_as_other_data(caplog, task, data_dir, tmp_path):
    file = tmp_path / FILES[task]
    shutil.copytree((data_dir / FILES[task]).parent, file.parent)
    file.write_bytes(taken_apart(file.read_bytes()))
    pairs = TASKS[task].load(tmp_path, "test")
    assert re.search(r"please report rows [0-9a-f]{64} of", caplog.text)
    assert "state `other data`" in caplog.text
    known = TASKS[task].load(data_dir, "test")
    assert (pairs.gold == known.gold).all()
    assert (pairs.group == known.group, pairs.a == known.a) == (True, False)
    assert release_of(task, pairs_digest(known)) == "senteval"
    assert release_of(task, pairs_digest(pairs)) == OTHER_DATA
    few = limited(TASKS[task], 20)
    assert len(few.load(tmp_path, "test")) == 20


METHOD = "bert-mini.mean"
SCORES = {"spearman": {"all": 70.0}}


@pytest.mark.parametrize(
    ("task", "digest", "state"),
    [
        ("sts-b.senteval", releases()["sts-b.senteval"]["senteval"], None),
        ("sts-b.senteval", releases()["sts-b.senteval"]["retokenised"], None),
        ("sts-b.senteval", "0" * 64, CellState.OTHER_DATA),
        ("sts-b", "0" * 64, None),
    ],
)
def test_a_cell_of_other_data_has_no_verdict(task, digest, state):
    registry = load_registry()
    described = identity_text(registry.parse(METHOD))
    record = made_record(
        METHOD, task, SCORES, identity=described, digests={"data": digest}
    )
    found = seed_scores(METHOD, task, ("spearman", "all"), results_of(record), registry)
    assert bool(found.scores) == (state is None)
    assert state in (None, found.state)
