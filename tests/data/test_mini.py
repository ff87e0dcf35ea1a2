"""The embedded tasks: frozen, and kept apart."""

from pathlib import Path

import pytest
from committed import committed_records

from harness.core.digests import text_digest
from harness.core.errors import DataError
from harness.core.pairs import pairs_digest
from harness.data.tasks import mini as miniature

SENTENCES = {
    "mini-text": "dbea07d9607058254ad8ace6d69c3728ad698ba182cce62f149e3bf3a9d0cf52",
    "mini-nli": "c14ad3a2e06a65fe535e6765790bcb59c13e5ed698e8601e7411a0f7486eb882",
    "mini-triplets": "85baacacd5bd9aa84d46959ab45649d8580a4d7967ec7573ad773525febdb8ca",
}
NOWHERE = Path("no-such-folder")


@pytest.mark.parametrize(
    ("line", "found"), [("a\tb\tc\td\n", "50f9dff0"), ("", "e3b0c442")]
)
def test_a_changed_file_is_refused(tmp_path, monkeypatch, line, found):
    monkeypatch.setattr(miniature, "EMBEDDED_DATA", tmp_path)
    for name in ("qnli-dev.tsv", "text.txt"):
        (tmp_path / name).write_text(line)
    refused = (
        r"qnli-dev\.tsv: wanted lines with sha256 b9ed786d\w+…, "
        rf"found {found}\w+…: the file was"
    )
    with pytest.raises(DataError, match=refused):
        miniature.embedded_pairs("mini-qnli", "dev")
    with pytest.raises(DataError, match=r"text\.txt: wanted lines with sha256 dbea"):
        list(miniature.CORPORA[0].sentences(NOWHERE))


def test_committed_records_hold_the_digests_of_these_rows():
    digests = {t.name: pairs_digest(t.pairs(NOWHERE)) for t in miniature.TASKS}
    records = [record for record in committed_records() if record.task in digests]
    assert {record.task for record in records} >= {"mini-sts", "mini-sick", "mini-qnli"}
    assert all(record.digests["data"] == digests[record.task] for record in records)


def test_corpora_have_the_sentences_that_fits_and_trainings_were_made_of():
    for corpus in miniature.CORPORA:
        assert text_digest(corpus.sentences(NOWHERE)) == SENTENCES[corpus.name]


def test_no_sentence_stands_in_two_splits_and_nothing_to_train_or_fit_on_is_ever_scored():
    seen: set[str] = set()
    for corpus in miniature.CORPORA:
        seen.update(corpus.sentences(NOWHERE))
    for name in miniature.SCALES:
        train, dev, test = (
            set(miniature.embedded_pairs(name, split).sentences)
            for split in ("train", "dev", "test")
        )
        assert train.isdisjoint(dev | test)
        assert dev.isdisjoint(test)
        assert seen.isdisjoint(dev | test)
