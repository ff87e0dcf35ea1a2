"""Word vectors with word counts: SIF, Zipfian whitening and all-but-the-top as their authors do."""

import numpy as np
import pytest
from refusals import refused
from sklearn.decomposition import PCA
from tolerances import ROUNDING, relative_gap

from baselines.natsv import Natsv
from baselines.sif import SifWeights
from baselines.whitening import Whitening
from baselines.zipfian import Centring, NatsvOfPrincipal
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.data.places import Places
from harness.encoders.vector_files import write_vectors
from harness.encoders.word_tokenizer import Tokeniser
from harness.encoders.word_vectors import (
    Counted,
    CountedConfig,
    Fitted,
    StaticConfig,
    Vocabulary,
    read_counts,
)
from harness.registry import load_registry

WORDS = ("the", "a", "cat", "dog", "runs", "Cat", "zyzzy", "of")
VECTORS = np.random.default_rng(1).normal(size=(len(WORDS), 3)).astype(np.float32)
COUNTS = {"the": 900, "of": 50, "a": 30, "cat": 12, "dog": 7, "runs": 1, "other": 1000}
PLAIN = Tokeniser("whitespace", "lower")
TEXTS = [
    "the cat runs",
    "a dog runs",
    "the the dog",
    "zyzzy cat",
    "a cat of the dog",
    "unknown",
]


def vocabulary(counts=COUNTS):
    return Vocabulary.with_counts(
        {word: row for row, word in enumerate(WORDS)}, VECTORS, counts
    )


def write(folder, counts=COUNTS):
    write_vectors(folder / "v.safetensors", WORDS, VECTORS)
    (folder / "counts.txt").write_text(
        "".join(f"{word} {n}\n" for word, n in counts.items())
    )
    return folder


def config(*maps, **changed):
    given = {
        "file": "v.safetensors",
        "counts": "vectors/counts.txt",
        "maps": maps,
        **changed,
    }
    return CountedConfig("v", PLAIN, **given)


def encoded(folder, *maps):
    return (
        config(*maps)
        .load(write(folder), folder)
        .encode(TEXTS)
        .mean[:, 0]
        .astype(np.float64)
    )


# What the authors compute


def test_sif_vectors_are_arora_et_al_s(tmp_path):
    """PrincetonML/SIF, SIF_embedding.py: w . We[x] / count_nonzero(w), then X - X v v^T."""
    a, total = 1e-3, 2000
    weights = np.array([a / (a + COUNTS.get(word, 0) / total) for word in WORDS])
    rows = []
    for text in TEXTS:
        known = [WORDS.index(word) for word in text.split() if word in WORDS]
        rows.append(weights[known] @ VECTORS[known] / max(len(known), 1))
    ours = encoded(tmp_path, SifWeights())
    np.testing.assert_allclose(ours, rows, rtol=1e-6)
    v = np.linalg.svd(np.array(rows))[2][0]
    fitted = Natsv(1).fit(ours, np.random.default_rng(0))
    assert relative_gap(fitted(ours), rows - np.outer(rows @ v, v)) <= ROUNDING


# The words that are counted, their vectors and their counts.
KEPT = [word for word in WORDS if word in COUNTS]
MATRIX = np.array([VECTORS[WORDS.index(word)] for word in KEPT], np.float64)
P = np.array([COUNTS[word] for word in KEPT]) / sum(COUNTS[word] for word in KEPT)


def vectors_after_maps(*maps):
    """The map's vectors of the counted words, in one order."""
    made = vocabulary()
    for word_map in (Counted(), *maps):
        made = word_map(made)
    return np.array([made.vectors[made.rows[word]] for word in KEPT], np.float64)


def test_zipfian_whitening_is_yokoi_et_al_s():
    """zipfian_whitening.py: mu = p W, svd of (W - mu) sqrt(p), (W - mu) V / S."""
    centred = MATRIX - P @ MATRIX
    _, s, vt = np.linalg.svd(centred * np.sqrt(P)[:, None], full_matrices=False)
    theirs = centred @ vt.T / s
    ours = vectors_after_maps(Fitted(Whitening(), by_count=True))
    # By all inner products: a map is as good turned.
    assert relative_gap(ours @ ours.T, theirs @ theirs.T) <= ROUNDING
    assert (
        relative_gap(vectors_after_maps(Fitted(Centring(), by_count=True)), centred)
        <= ROUNDING
    )


def test_their_sif_nulls_a_principal_component_and_leaves_the_mean():
    """SIF.py: PCA().fit(S).components_[:1], removed from S itself."""
    x = np.random.default_rng(2).normal(size=(40, 5)) + np.array([3, 0, 0, 0, 1])
    top = PCA().fit(x).components_[:1]
    ours = NatsvOfPrincipal(1).fit(x, np.random.default_rng(0))(x)
    np.testing.assert_allclose(ours, x - x @ top.T @ top, atol=1e-9)


# The vocabulary


def test_uncounted_words_are_dropped_and_none_else(tmp_path):
    counted = Counted()(vocabulary())
    assert sorted(counted.rows) == sorted(KEPT)
    assert (counted.total, counted.counts[counted.rows["cat"]]) == (2000, COUNTS["cat"])
    np.testing.assert_array_equal(vectors_after_maps(), MATRIX)
    means = encoded(tmp_path, Counted())
    np.testing.assert_allclose(means[3], VECTORS[2], rtol=1e-6)  # "zyzzy cat"
    assert not means[5].any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: vocabulary({}), "words that the corpus counts, found none"),
        (lambda f: SifWeights(float("nan")), "wanted a > 0"),
        (lambda f: read(f, "the 5\nthe 3\n"), r"counts\.txt:2: wanted a new word"),
        (lambda f: read(f, "the\t5\n"), r"counts\.txt:1: wanted a new word"),
    ],
)
def test_what_has_no_meaning_is_refused(make, message, tmp_path):
    with refused((DataError, UsageError), message):
        make(tmp_path)


def read(folder, content):
    (folder / "counts.txt").write_text(content)
    return read_counts(folder / "counts.txt")


# Identity and files


def test_counts_and_maps_are_part_of_the_identity(tmp_path):
    chains = (
        (Counted(),),
        (SifWeights(),),
        (SifWeights(1e-4),),
        (Counted(), Fitted(Whitening())),
        (Counted(), Fitted(Whitening(), by_count=True)),
    )
    folder = write(tmp_path)
    keys = {config(*maps).identify(folder).key for maps in chains}
    keys.add(StaticConfig("v", PLAIN, file="v.safetensors").identify(folder).key)
    before = config(SifWeights()).identify(folder)
    write(tmp_path, {**COUNTS, "the": 901})
    after = config(SifWeights()).identify(folder)
    assert len({*keys, after.key}) == len(chains) + 2
    assert after.digests["counts"] != before.digests["counts"]
    assert after.digests["weights"] == before.digests["weights"]


def test_an_encoder_with_counts_is_here_with_both_files(tmp_path):
    sif = load_registry().encoders["glove-840b-sick-lower-sif"]
    places = Places(tmp_path, tmp_path, included=False)
    folder = tmp_path / "vectors"
    folder.mkdir()
    (folder / "glove.840B.300d.sick-subset.npz").touch()
    assert not places.has_encoder(sif)
    with refused(AssetMissing, r"sick-subset\.npz and vectors/enwiki_vocab"):
        places.encoder(sif)
    (folder / "enwiki_vocab_min200.txt").touch()
    assert places.encoder(sif) == folder / "glove.840B.300d.sick-subset.npz"
