"""Pairs and triplets by name: embedded ones, and others read from a folder and checked."""

import pytest

from harness.assets.places import Places, asset_named
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.files import text_digest
from harness.registry import load_registry
from harness.training.datasets import (
    LABELS,
    open_labelled_pairs,
    open_triplets,
)

CSV = "sent0,sent1,hard_neg\na man,a person,a dog\none,two,three\n"


def test_carried_triplets_are_the_corpus_of_that_name_row_by_row(tmp_path):
    found = open_triplets("mini-triplets", Places(tmp_path))
    rows = list(zip(*found.content, strict=True))
    assert (len(rows), {len(row) for row in rows}) == (5_000, {3})
    corpus = load_registry().corpora["mini-triplets"].sentences(tmp_path)
    assert [sentence for row in rows for sentence in row] == list(corpus)
    assert found.digest == text_digest("\t".join(row) for row in rows)


def test_carried_pairs_have_their_labels(tmp_path):
    found = open_labelled_pairs("mini-nli", Places(tmp_path))
    corpus = list(load_registry().corpora["mini-nli"].sentences(tmp_path))
    assert list(found.content.premises) == corpus[::2]
    assert list(found.content.hypotheses) == corpus[1::2]
    counts = [found.content.labels.count(n) for n in range(len(LABELS))]
    assert max(counts) - min(counts) <= 1  # they take turns


def test_an_asset_is_read_from_the_data_folder_and_must_be_the_known_one(tmp_path):
    with pytest.raises(AssetMissing, match=r"put snli_triplets_for_simcse\.csv into DATA_DIR/nli"):
        open_triplets("snli-triplets", Places(tmp_path, tmp_path))
    file = tmp_path / asset_named("snli-triplets").probe[0]
    file.parent.mkdir(parents=True)
    file.write_text(CSV)
    with pytest.raises(DataError, match="wanted sha256 1c18bad5"):
        open_triplets("snli-triplets", Places(tmp_path, tmp_path))


def test_a_file_goes_by_its_name_and_digest(tmp_path):
    (tmp_path / "mine.csv").write_text(CSV)
    found = open_triplets(str(tmp_path / "mine.csv"), Places(tmp_path))
    assert (found.name, found.content[2]) == ("mine.csv", ("a dog", "three"))
    assert len(found.digest) == 64
    with pytest.raises(UsageError, match="wanted a file or one of nli-for-simcse"):
        open_triplets("none.csv", Places(tmp_path))


@pytest.mark.data
def test_the_real_triplets_are_those_of_the_catalogue(data_dir):
    triplets = open_triplets("snli-triplets", Places(data_dir, data_dir)).content
    assert [len(column) for column in triplets] == [16_971] * 3
    pairs = open_labelled_pairs("snli-18k", Places(data_dir, data_dir)).content
    assert len(pairs.labels) == 18_000
    # Labels that were read wrongly would not agree with the triplets made from the same source.
    rows = list(zip(pairs.premises, pairs.hypotheses, pairs.labels, strict=True))
    for column, label in ((1, "entailment"), (2, "contradiction")):
        of_label = set(zip(triplets[0], triplets[column], strict=True))
        assert {LABELS[n] for a, b, n in rows if (a, b) in of_label} <= {label}
