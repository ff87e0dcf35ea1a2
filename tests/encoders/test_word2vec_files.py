"""word2vec's binary files are read as gensim reads those that it writes."""

import gzip

import numpy as np
import pytest
from gensim.models import KeyedVectors

from harness.core.errors import DataError
from harness.encoders.vector_files import read_vectors

WORDS = ["</s>", "New_York", "café", "the", "1"]
VECTORS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
# The first number begins with the bytes of a blank and a line feed.
VECTORS[2, 0] = np.frombuffer(b" \n \n", "<f4")[0]
ROWS = [
    word.encode() + b" " + row.tobytes()
    for word, row in zip(WORDS, VECTORS, strict=True)
]


def read(folder, content, name="v.bin"):
    (folder / name).write_bytes(content)
    return read_vectors(folder / name)


def test_a_file_that_gensim_writes_is_read_as_gensim_reads_it(tmp_path):
    made = KeyedVectors(3)
    made.add_vectors(WORDS, VECTORS)
    made.save_word2vec_format(tmp_path / "v.bin", binary=True)
    theirs = KeyedVectors.load_word2vec_format(tmp_path / "v.bin", binary=True)
    words, vectors = read_vectors(tmp_path / "v.bin")
    assert list(words) == theirs.index_to_key
    np.testing.assert_array_equal(vectors, theirs.vectors)


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("count", [b"5", b"3"])
def test_line_feeds_before_words_and_a_count_that_is_too_low_are_known(
    end, count, tmp_path
):
    content = count + b" 3\n" + b"".join(row + end for row in ROWS)
    for name, packed in (("v.bin", content), ("v.bin.gz", gzip.compress(content))):
        words, vectors = read(tmp_path, packed, name)
        assert list(words) == WORDS
        np.testing.assert_array_equal(vectors, VECTORS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"5 3\n" + b"".join(ROWS)[:-1],
            "wanted 5 vectors .* the end of the file after 4",
        ),
        (b"the 0.1 0.2\n", "wanted how many vectors and numbers"),
        (b"9 99999999999\na ", "wanted how many vectors and numbers"),
        (b"1 3\n\xff " + bytes(12), "wanted words in UTF-8"),
        (b"1 3\na " + np.full(3, np.nan, "<f4").tobytes(), "wanted finite numbers"),
    ],
)
def test_a_truncated_or_damaged_file_is_refused(content, message, tmp_path):
    with pytest.raises(DataError, match=message) as error:
        read(tmp_path, content)
    assert "\n" not in str(error.value)
