"""English made from scenes: the committed files are what the generator makes."""

from english.sets import files

from harness.assets.catalogue import EMBEDDED_SHA256
from harness.assets.places import EMBEDDED


def test_the_generator_still_makes_every_committed_file():
    made = {name: content.encode() for name, content in files()}
    assert made.keys() == EMBEDDED_SHA256.keys()
    committed = {path.name for path in EMBEDDED.iterdir()}
    assert committed == made.keys() | {"README.md"}
    for name, content in made.items():
        assert content == (EMBEDDED / name).read_bytes(), name
