"""Files that a disk damages: the true score, or a refusal that names the file."""

import random
import re
import shutil

import pytest
from processes import run, scores

ATTACK = "flip"
RUN = ("run", "-m", "glove-mini.mean", "-m", "glove-mini.mean+sn@mini-text", "-t", "mini-sts")
# Kinds of files by their places, and whether the score is measured again or taken as done.
KINDS = {
    "shards": ("cache/encodings/*/*.safetensors", True),
    "moments": ("cache/moments/*/*.safetensors", True),
    "labels": ("cache/encodings/*/label.json", True),
    "converted vectors": ("cache/converted/*", True),
    "records": ("runs/records/**/seed-0.json", False),
    "similarities": ("runs/records/**/seed-0.safetensors", False),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    assert run(*RUN, cwd=folder).status == 0
    return folder


def flip_a_bit(content, dice):
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)


def change_a_byte_of_the_head(content, dice):
    content[dice.randrange(min(len(content), 400))] = dice.randrange(256)


def cut(content, dice):
    del content[dice.randrange(len(content)) :]


def change_a_digit(content, dice):
    places = [found.start() for found in re.finditer(rb"[0-9]", content)]
    place = dice.choice(places)
    content[place] = dice.choice([d for d in b"0123456789" if d != content[place]])


def change_a_type(content, _):
    content[:] = content.replace(b"F32", b"I32").replace(b"F64", b"I64")


DAMAGES = (flip_a_bit, change_a_byte_of_the_head, cut, change_a_digit, change_a_type)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_never_moves_a_score(attacked, filled, tmp_path, kind):
    pattern, fresh = KINDS[kind]
    files = [path.relative_to(filled) for path in sorted(filled.glob(pattern)) if path.is_file()]
    if not files:
        pytest.skip(f"this run writes no {kind}")
    dice, true = random.Random(kind), scores(filled / "runs")
    for number in range(attacked.times(1, 100)):
        here = tmp_path / str(number)
        shutil.copytree(filled, here)
        name = dice.choice(files)
        content = bytearray((here / name).read_bytes())
        before = bytes(content)
        dice.choice(DAMAGES)(content, dice)
        (here / name).write_bytes(content)
        done = run(*RUN, *(["--fresh"] if fresh else []), cwd=here)
        assert "Traceback" not in done.err
        if done.status == 0:
            assert scores(here / "runs") == true, name
            attacked.count("right" if bytes(content) == before else "rebuilt")
        else:
            assert done.in_one_line, done.err
            assert name.name in done.err, done.err
            attacked.count("refused")
        shutil.rmtree(here)
