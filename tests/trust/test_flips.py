"""Files that a disk damages: the true score, or a refusal that names the file."""

import random
import re
import shutil
from itertools import islice

import numpy as np
import pytest
from processes import ROOT, run, scores

from harness.assets.places import EMBEDDED_DATA
from harness.core.errors import DataError
from harness.registry import load_registry
from harness.results.records import read_committed

ATTACK = "flip"
CORPORA = load_registry().corpora
RUN = (
    *(
        "run",
        "-m",
        "glove-mini.mean",
        "-m",
        "glove-mini.mean+sn@mini-text",
        "-t",
        "mini-sts",
    ),
    *("-m", "words.mean", "--encoder", "words=words.txt"),
)
# Kinds of files by their places, and what is removed for them to be read again.
KINDS = {
    "shards": ("cache/encodings/*/*.safetensors", "runs"),
    "moments": ("cache/moments/*/*.safetensors", "runs"),
    "labels": ("cache/encodings/*/label.json", "runs"),
    "converted vectors": ("cache/converted/*", "cache/encodings"),
    "records": ("runs/records/**/seed-0.json", None),
    "similarities": ("runs/records/**/seed-0.safetensors", None),
}
COMMITTED = ROOT / "results" / "records" / "glove-mini" / "glove-mini.mean.jsonl"


@pytest.fixture(scope="module")
def folder_with_cache(tmp_path_factory):
    folder, dice = tmp_path_factory.mktemp("filled"), np.random.default_rng(0)
    words = dict.fromkeys(
        " ".join(islice(CORPORA["mini-text"].sentences(EMBEDDED_DATA), 200)).split()
    )
    lines = (
        f"{word} {' '.join(f'{x:.4f}' for x in dice.normal(size=8))}" for word in words
    )
    (folder / "words.txt").write_text("\n".join(lines) + "\n")
    assert run(*RUN, cwd=folder).status == 0
    return folder


def flip_a_bit(content, dice):
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)


def change_a_byte_of_the_head(content, dice):
    content[dice.randrange(min(len(content), 400))] = dice.randrange(256)


def cut_anywhere(content, dice):
    del content[dice.randrange(len(content)) :]


def change_a_digit(content, dice):
    places = [found.start() for found in re.finditer(rb"[0-9]", content)]
    place = dice.choice(places)
    content[place] = dice.choice([d for d in b"0123456789" if d != content[place]])


def change_a_type(content, _):
    content[:] = content.replace(b"F32", b"I32").replace(b"F64", b"I64")


READ_ERRORS = (
    flip_a_bit,
    change_a_byte_of_the_head,
    cut_anywhere,
    change_a_digit,
    change_a_type,
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_never_moves_a_score(
    attacked, folder_with_cache, tmp_path, kind
):
    pattern, removed = KINDS[kind]
    files = [
        path.relative_to(folder_with_cache)
        for path in sorted(folder_with_cache.glob(pattern))
        if path.is_file()
    ]
    assert files
    dice, true = random.Random(kind), scores(folder_with_cache / "runs")
    for number in range(attacked.times(1, 100)):
        here = tmp_path / str(number)
        shutil.copytree(folder_with_cache, here)
        name = dice.choice(files)
        content = bytearray((here / name).read_bytes())
        before = bytes(content)
        dice.choice(READ_ERRORS)(content, dice)
        (here / name).write_bytes(content)
        if removed:
            shutil.rmtree(here / removed)
        done = run(*RUN, *(["--overwrite"] if removed else []), cwd=here)
        assert "Traceback" not in done.err + done.out
        if done.status == 0:
            assert scores(here / "runs") == true, name
            attacked.count("right" if bytes(content) == before else "rebuilt")
        else:
            assert re.search("^harness: ", done.err, re.MULTILINE), done.err
            assert name.name in done.err, done.err
            attacked.count("refused")
        shutil.rmtree(here)


def test_a_damaged_line_of_committed_records_is_refused(attacked, tmp_path):
    dice, true = random.Random(1), read_committed(COMMITTED)
    before, path = COMMITTED.read_bytes(), tmp_path / "glove-mini" / COMMITTED.name
    path.parent.mkdir()
    for _ in range(attacked.times(20, 5000)):
        content = bytearray(before)
        dice.choice(READ_ERRORS)(content, dice)
        path.write_bytes(content)
        try:
            found = read_committed(path)
        except DataError:
            attacked.count("refused")
        else:
            assert found == true
            attacked.count("right")
