"""Static vectors: what a file may look like, how text is split, and what a mean is the mean of."""

import gzip
import io
from dataclasses import replace

import numpy as np
import pytest
from fakes import Vandal
from gensim.models import KeyedVectors
from refusals import refused
from safetensors.numpy import save
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sentence_transformer.modules import tokenizer
from tolerances import ROUNDING, relative_gap

from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.interfaces import Identity
from harness.encoders.encodings import EncoderCache
from harness.encoders.vector_files import read_vectors, write_vectors
from harness.encoders.word_tokenizer import (
    ENGLISH_WORDS,
    PLAIN_TOKENISER,
    SENTENCE_TRANSFORMERS,
    Tokeniser,
)
from harness.encoders.word_vectors import StaticConfig

# One repeated, and one with blanks and a line end of Unicode's own.
WORDS = ("the", "The", "cat", "n't", "do", ". . \u2028", "café", "the")
VECTORS = np.random.default_rng(1).normal(size=(len(WORDS), 3)).astype(np.float32)
AS_WRITTEN = Tokeniser("whitespace", "keep")


def lines(words, vectors):
    """As GloVe prints them; repr keeps every bit of a float32."""
    rows = zip(words, vectors, strict=True)
    return "".join(
        f"{word} {' '.join(repr(float(x)) for x in row)}\n" for word, row in rows
    )


def npz_bytes(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


LINES = lines(WORDS, VECTORS)


# Files


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.txt", LINES.encode()),
        ("v.txt", b"\xef\xbb\xbf" + LINES.encode()),
        (
            "v.vec",
            f"{len(WORDS)} {VECTORS.shape[1]}\n{LINES}".replace("\n", " \n").encode(),
        ),
        ("v.txt.gz", gzip.compress(LINES.encode())),
        ("v.npz", npz_bytes(words=WORDS, vectors=VECTORS)),
        ("v.safetensors", None),
    ],
)
def test_every_kind_of_file_gives_the_same(name, content, tmp_path):
    if content is None:
        write_vectors(tmp_path / name, WORDS, VECTORS)
    else:
        (tmp_path / name).write_bytes(content)
    words, vectors = read_vectors(tmp_path / name)
    assert words == WORDS
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, VECTORS)


# word2vec's binary form: a word, a blank, and its numbers as bytes. The first number of a
# row begins with the bytes of a blank and a line feed.
NUMBERS = VECTORS[:5].copy()
NUMBERS[2, 0] = np.frombuffer(b" \n \n", "<f4")[0]
BINARY_ROWS = [
    word.encode() + b" " + row.tobytes()
    for word, row in zip(("</s>", "New_York", "café", "the", "1"), NUMBERS, strict=True)
]


def test_word2vecs_files_are_read_as_gensim_reads_them_whatever_ends_a_row(tmp_path):
    """A header may count fewer vectors than there are."""
    file = tmp_path / "v.bin"
    file.write_bytes(b"5 3\n" + b"".join(BINARY_ROWS))
    theirs = KeyedVectors.load_word2vec_format(file, binary=True)
    for header, end in ((b"5 3\n", b""), (b"5 3\n", b"\n"), (b"3 3\n", b"\n")):
        file.write_bytes(header + b"".join(row + end for row in BINARY_ROWS))
        words, vectors = read_vectors(file)
        assert list(words) == theirs.index_to_key
        np.testing.assert_array_equal(vectors, theirs.vectors)


def test_a_word_that_is_no_utf_8_is_read_as_gensim_reads_it(tmp_path):
    """word2vec cuts a long word at a byte, in both of its forms."""
    cut = [b"caf\xc3", b"\xe9t\xe9", b"the", b"\xe6\x97", b"cat", b"New_York"]
    vectors = np.random.default_rng(2).normal(size=(len(cut), 3)).astype(np.float32)
    binary, text = tmp_path / "v.bin", tmp_path / "v.vec"
    rows = [word + b" " + row.tobytes() for word, row in zip(cut, vectors, strict=True)]
    binary.write_bytes(b"6 3\n" + b"\n".join(rows))
    rows = [
        word + " {!r} {!r} {!r}".format(*map(float, row)).encode()
        for word, row in zip(cut, vectors, strict=True)
    ]
    text.write_bytes(b"6 3\n" + b"\n".join(rows))
    for file in (binary, text):
        theirs = KeyedVectors.load_word2vec_format(
            file, binary=file is binary, unicode_errors="ignore"
        )
        words, found = read_vectors(file)
        assert list(words) == theirs.index_to_key
        assert words == ("caf", "t", "the", "", "cat", "New_York")
        np.testing.assert_array_equal(found, theirs.vectors)


def test_bytes_of_numbers_are_never_taken_for_a_damaged_word(tmp_path):
    """A word with a blank, or numbers in float64, shift all that follows."""
    file = tmp_path / "v.bin"
    numbers = np.float32([-1.3, 0.7, 1.3, 2.9])
    rows = [b"New York " + numbers.tobytes(), b"the " + numbers.tobytes()] * 3
    shifted = b"6 4\n" + b"\n".join(rows)
    doubles = b"".join(b"w " + NUMBERS[1].astype("<f8").tobytes() for _ in range(9))
    for content in (shifted, b"9 3\n" + doubles):
        file.write_bytes(content)
        with refused(DataError, "found bytes of numbers in its place"):
            read_vectors(file)


LINE = "wanted a word, a blank and 2 numbers, found"
NO_WORDS = "found no word of letters alone, but such as"
ARRAYS = "wanted arrays `words` of text and `vectors` of real numbers"
UTF_8 = "wanted words in UTF-8, .* found: 'utf-8' codec"
DAMAGED = [
    # A line does not agree with the first one, or with the header.
    ("v.txt", b"a 1 2\nb 1\n", rf"v.txt:2: {LINE} 'b 1"),
    ("v.txt", b"a 1 2\nb 1 2\nc 1 2 3\n", rf"v.txt:3: {LINE} 'c 1 2 3"),
    ("v.txt", b"2 2\na 1 2\n", r"v.txt:1: wanted 2 words, found 1"),
    # Something else than one blank is behind the word, or another column before it.
    ("v.txt", b"a\t1 2\nb\t1 2\n", r"v.txt:1: wanted a word"),
    ("v.txt", b"a,1 2\nb,1 2\n", f"{NO_WORDS} 'a,1'"),
    ("v.txt", b"0.1 0.2\n-0.3 4e-2\n", f"{NO_WORDS} '0.1'"),
    # Binary files, and text in another encoding than UTF-8.
    ("v.vec", b"5 3\n" + b"\n".join(BINARY_ROWS), UTF_8),
    ("v.bin", b"1 3\n\xff " + bytes(12), "wanted words in UTF-8, found 1 of 1"),
    ("v.bin", b"5 3\n" + b"".join(BINARY_ROWS)[:-1], "end of the file after 4"),
    ("v.bin", b"the 0.1 0.2\n", "wanted how many vectors and numbers"),
    ("v.bin", b"9 99999999999\na ", "wanted how many vectors and numbers"),
    ("v.txt", LINES.encode("utf-16"), UTF_8),
    # Numbers that are none, and tables that are no tables.
    ("v.txt", b"a 1 nan\n", "wanted finite numbers, found others in the vector of 'a'"),
    (
        "v.npz",
        npz_bytes(words=WORDS, vectors=VECTORS[:2]),
        "wanted a vector a word, found 8",
    ),
    ("v.safetensors", save({"embeddings": VECTORS}), f"{ARRAYS}.*'words'"),
    (
        "v.txt.gz",
        gzip.compress(LINES.encode())[:-20],
        "in gzip .* found: Compressed file ended",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), DAMAGED)
def test_a_damaged_file_is_refused(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with refused(DataError, message):
        read_vectors(tmp_path / name)


def test_an_empty_word_is_left_out_and_counted_by_the_header(tmp_path):
    (tmp_path / "v.vec").write_bytes(b"3 2\na 1 2\n 5 6\nb 3 4\n")
    words, vectors = read_vectors(tmp_path / "v.vec")
    assert words == ("a", "b")
    assert vectors.tolist() == [[1, 2], [3, 4]]


def test_nothing_is_unpickled(tmp_path):
    words = np.array([Vandal(tmp_path / "touched")], dtype=object)
    np.savez(tmp_path / "v.npz", words=words, vectors=VECTORS[:1])
    with refused(DataError, "wanted arrays"):
        read_vectors(tmp_path / "v.npz")
    assert not (tmp_path / "touched").exists()


# Splitting


@pytest.mark.parametrize(
    ("tokeniser", "text", "words"),
    [
        (AS_WRITTEN, "The cat. the", ["The", "the"]),
        (Tokeniser("whitespace", "lower"), "The CAT. the", ["the", "the"]),
        (Tokeniser("whitespace", "fallback", strip=True), "(Cat),", ["cat"]),
        (Tokeniser("words", "keep"), "cat,the don't café.", ["cat", "the", "café"]),
        (
            Tokeniser("treebank", "fallback"),
            "Don't! DON'T n't",
            ["do", "n't", "do", "n't", "n't"],
        ),
        (SENTENCE_TRANSFORMERS, "The the 'cat' CAT. do", ["The", "cat", "cat"]),
        (PLAIN_TOKENISER, "", []),
    ],
)
def test_rules(tokeniser, text, words):
    vocabulary = {word: WORDS.index(word) for word in WORDS}
    assert [WORDS[row] for row in tokeniser.token_rows(text, vocabulary)[0]] == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a man isn't well-known.", "a man is not well known ."),
        ("they CAN'T: u.s. dogs' 3.5", "they CA not : u.s. dogs ' 3.5"),
        ("cannot", "can not"),
    ],
)
def test_nltk_s_words_have_no_hyphen_and_no_clitic_not(text, words):
    assert Tokeniser("nltk", "keep").words(text) == words.split()


def test_the_preset_is_sentence_transformers_average(tmp_path):
    assert frozenset(tokenizer.ENGLISH_STOP_WORDS) == ENGLISH_WORDS
    rng = np.random.default_rng(2)
    stop = sorted(ENGLISH_WORDS)[30:50]
    words = ["Cats", "cats", "rain", "Rain's", "x-ray", "U.S.", *stop[::3], "The"]
    vectors = rng.normal(size=(len(words), 8)).astype(np.float32)
    write_vectors(tmp_path / "v.safetensors", words, vectors)
    others = ["RAIN", "'cats'", "rain,", "(U.S.)", "unknown", "--", "x-Ray!"]
    pieces = [*words, *stop, *map(str.upper, stop), *others]
    texts = [" ".join(rng.choice(pieces, size)) for size in rng.integers(0, 12, 200)]

    config = StaticConfig("v", SENTENCE_TRANSFORMERS)
    ours = config.load(tmp_path / "v.safetensors", tmp_path).encode(texts).mean[:, 0]
    table = modules.WordEmbeddings(tokenizer.WhitespaceTokenizer(words), vectors)
    model = SentenceTransformer(modules=[table, modules.Pooling(8, "mean")])
    assert relative_gap(ours, model.encode(texts)) <= ROUNDING


# The mean, and what it is the mean of


def test_a_mean_is_over_the_known_words_with_repetitions_and_tokens_are_counted(
    tmp_path,
):
    (tmp_path / "v.txt").write_bytes(LINES.encode())
    made = StaticConfig("v", AS_WRITTEN, file="v.txt").load(tmp_path, tmp_path)
    texts = ["The cat sat", "no one", "the cat the", ""]
    encoding = made.encode(texts)
    for mean, rows in zip(
        encoding.mean[:, 0], ([1, 2], [], [0, 2, 0], []), strict=True
    ):
        wanted = VECTORS[rows].mean(axis=0, dtype=np.float64) if rows else np.zeros(3)
        np.testing.assert_array_equal(mean, wanted.astype(np.float32))
    assert encoding.tokens.tolist() == [[3, 2], [2, 0], [3, 3], [0, 0]]
    identity = Identity("0" * 64, {})
    cache = EncoderCache.open(tmp_path, identity)
    cache.add(texts, encoding, 1.0)
    assert EncoderCache.open(tmp_path, identity).cost(texts).coverage == 5 / 8
    assert cache.cost(texts[1:2]).coverage == 0
    cache.add(["old"], replace(made.encode(["old"]), tokens=None), 1.0)
    assert cache.cost([*texts, "old"]).coverage is None


# Identity


def test_other_vectors_than_the_pinned_and_none_are_refused(tmp_path):
    config = StaticConfig("v", file="v.txt")
    with refused(AssetMissing, r"no vectors at .*v\.txt"):
        config.identify(tmp_path)
    with refused(UsageError, "is a folder; name the vector file in it"):
        StaticConfig("v").identify(tmp_path)
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (tmp_path / "v.txt").write_bytes(pointer)
    with refused(DataError, r"v\.txt: .* found a git-lfs pointer"):
        config.identify(tmp_path)
    (tmp_path / "v.txt").write_bytes(LINES.encode())
    with refused(DataError, f"has sha256 .*, wanted {'0' * 64}"):
        replace(config, weights_sha256="0" * 64).load(tmp_path, tmp_path)
