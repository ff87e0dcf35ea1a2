"""Pairs and triplets: by name and from files, checked, sampled and shuffled into batches."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from harness.core.digests import sha256_of, text_digest
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.pairs import pairs_digest
from harness.data.places import Places, asset_named
from harness.registry import load_registry
from harness.training.datasets import (
    Batches,
    open_labelled_pairs,
    open_scored_pairs,
    open_text,
    open_triplets,
    pairs_of_label,
    read_labelled,
    read_triplets,
    sample,
)

NOWHERE = Places(Path())
CSV = "sent0,sent1,hard_neg\na man,a person,a dog\none,two,three\n"


def test_an_asset_is_read_from_the_data_folder_and_must_be_the_known_one(tmp_path):
    with refused(AssetMissing, r"put snli_triplets_for_simcse\.csv into DATA_DIR/nli"):
        open_triplets("snli-triplets", Places(tmp_path, tmp_path))
    file = tmp_path / asset_named("snli-triplets").probe[0]
    file.parent.mkdir(parents=True)
    file.write_text(CSV)
    with refused(DataError, "wanted sha256 1c18bad5"):
        open_triplets("snli-triplets", Places(tmp_path, tmp_path))


def test_a_file_goes_by_its_name_and_digest(tmp_path):
    (tmp_path / "mine.csv").write_text(CSV)
    columns, digests = open_triplets(str(tmp_path / "mine.csv"), Places(tmp_path))
    assert columns[2] == ("a dog", "three")
    assert digests == {"mine.csv": sha256_of(tmp_path / "mine.csv")}
    with refused(UsageError, "wanted a file or one of nli-for-simcse"):
        open_triplets("none.csv", Places(tmp_path))


@pytest.mark.data
def test_the_real_triplets_are_those_of_the_catalogue(data_dir):
    triplets, _ = open_triplets("snli-triplets", Places(data_dir, data_dir))
    assert [len(column) for column in triplets] == [16_971] * 3
    pairs, _ = open_labelled_pairs("snli-18k", Places(data_dir, data_dir))
    assert [len(column) for column in pairs] == [18_000] * 3
    # Labels that were read wrongly would not agree with the triplets made from the same
    # source.
    for column, label in ((1, "entailment"), (2, "contradiction")):
        of_label = set(zip(triplets[0], triplets[column], strict=True))
        rows = zip(*pairs, strict=True)
        assert {found for a, b, found in rows if (a, b) in of_label} <= {label}


def test_gold_is_brought_to_0_to_1(tmp_path):
    task = load_registry().tasks["mini-sts.train"]
    columns, scores, digests = open_scored_pairs(task, Places(tmp_path))
    pairs = task.pairs(Places(tmp_path).require_data(task.asset))
    assert columns == (pairs.a, pairs.b)
    assert scores == pytest.approx(pairs.gold / 5)  # from 0 to 5
    assert digests == {"mini-sts.train": pairs_digest(pairs)}
    with refused(UsageError, "--task mini-qnli: wanted pairs with graded"):
        open_scored_pairs(load_registry().tasks["mini-qnli"], Places(tmp_path))


# Files


HEADER = "split\tdataset\tfilename\tsentence1\tsentence2\tlabel\n"


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (read_triplets, "a,b,c\n", ":1: wanted the header .* found 'a,b,c'"),
        (read_triplets, "sent0,sent1,hard_neg\na,b,c\nd,e\n", ":3: wanted 3 sentences"),
        (read_triplets, 'sent0,sent1\n"a"b,c\n', ":2: wanted CSV, found"),
        (read_labelled, "4\t4\ta\tb\n", ":1: wanted a label from 1 to 3, found '4'"),
        (
            read_labelled,
            HEADER + "train\tSNLI\tx\ta\tb\t-\n",
            ":2: wanted one of contr",
        ),
        (read_labelled, HEADER, "wanted labelled pairs"),
    ],
)
def test_other_files_are_refused_by_line(read, text, why, tmp_path):
    (tmp_path / "nli.csv").write_text(text)
    with refused(DataError, why):
        read(tmp_path / "nli.csv")


def test_labelled_pairs_are_read_from_both_forms(tmp_path):
    numbered, all_nli = tmp_path / "train.csv", tmp_path / "AllNLI.tsv"
    numbered.write_text('1\t1\ta\t"b\n2\t2\tc\td\n3\t3\te\tf\n')
    labels = ("neutral", "contradiction", "entailment")
    assert read_labelled(numbered) == (("a", "c", "e"), ('"b', "d", "f"), labels)
    all_nli.write_text(
        HEADER
        + "train\tSNLI\tx\ta\tb\tneutral\ndev\tSNLI\tx\tq\tr\tneutral\n"
        + "train\tMultiNLI\tx\tc\td\tcontradiction\n"
    )
    train = ("neutral", "contradiction")
    assert read_labelled(all_nli) == (("a", "c"), ("b", "d"), train)
    whole = (("a", "q", "c"), ("b", "r", "d"), ("neutral", *train))
    assert read_labelled(all_nli, held_out=True) == whole
    with refused(UsageError, "wanted AllNLI, which names splits, found train"):
        read_labelled(numbered, held_out=True)


def test_pairs_of_one_label_are_told_from_the_others():
    labels = ("entailment", "contradiction", "entailment")
    columns = (("a", "c", "e"), ("b", "d", "f"), labels)
    assert pairs_of_label(columns, "entailment") == (("a", "e"), ("b", "f"))
    assert pairs_of_label(columns, "all") == columns[:2]
    with refused(UsageError, "wanted one of contradiction, entailment"):
        pairs_of_label(columns, "neutrall")
    with refused(DataError, "labelled pairs of neutral, found none"):
        pairs_of_label(columns, "neutral")


def test_a_sample_keeps_rows_and_their_order_and_depends_on_the_seed():
    columns = (tuple(map(str, range(50))), tuple(f"to {n}" for n in range(50)))
    drawn = sample(columns, 20, seed=0)
    numbers = sorted({int(text) for text in drawn[0]})
    assert len(numbers) == 20
    assert drawn == tuple(tuple(column[n] for n in numbers) for column in columns)
    assert sample(columns, 20, seed=0) == drawn != sample(columns, 20, seed=1)
    with refused(DataError, "--sample 51: wanted so many examples, found 50"):
        sample(columns, 51, seed=0)


# Batches


@given(st.integers(2, 60), st.integers(2, 20), st.integers(0, 9), st.integers(0, 3))
def test_an_epoch_takes_every_example_once(count, size, seed, epoch):
    batches = Batches(count, size, seed)
    taken = [batches(epoch * batches.steps + step) for step in range(batches.steps)]
    assert all(len(batch) > 1 for batch in taken)
    left_out = count - sum(map(len, taken))
    assert left_out == (count % size == 1)
    assert len(set(np.concatenate(taken))) == count - left_out
    assert all(len(batch) == size for batch in taken[:-1])


# A text of one's own


@pytest.mark.parametrize(
    ("content", "count", "complaint"),
    [
        (b"\n  \n", None, r"mine\.txt: wanted some sentences, found 0"),
        (b"one\r\ntwo\r\n", 5, "wanted 5 sentences, found 2"),
        (b"caf\xe9\n", None, r"mine\.txt:1: wanted UTF-8, found .*; (?!.*published)"),
    ],
)
def test_an_own_text_of_other_lines_is_refused(content, count, complaint, tmp_path):
    (tmp_path / "mine.txt").write_bytes(content)
    with refused(DataError, complaint):
        open_text(str(tmp_path / "mine.txt"), {}, NOWHERE, count)


def test_an_own_text_is_its_lines(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_bytes(b"one\r\ntwo\r\n")
    digests = {"mine.txt": text_digest(["one", "two"])}
    assert open_text(str(file), {}, NOWHERE) == ((("one", "two"),), digests)
    first, _ = open_text(str(file), {}, NOWHERE, 1)
    assert first == (("one",),)
