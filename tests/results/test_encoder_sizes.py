"""The sizes of encoders: by the dimensions of their vectors, and by who made their weights."""

from dataclasses import dataclass

import pytest
from fakes import made_record

from harness.core.interfaces import Hub, LocalFiles, Packaged, Trained, VectorFile
from harness.results.encoder_sizes import EncoderSize, in_groups, size_of_encoder

OWN = Packaged("harness/data/embedded/toy")
MADE = Trained(recipe="simcse-unsup --from toy", family="toy", folder="toy")


@dataclass(frozen=True)
class FromSource:
    """A configuration of which the source alone is known."""

    source: object


def measured(dimensions, **facts):
    return made_record(
        "toy.mean", "sts-b", {}, facts={"dimensions": dimensions, **facts}
    )


@pytest.mark.parametrize(
    ("source", "records", "size"),
    [
        (None, [], EncoderSize.SMALL),
        (None, [measured(1024)], EncoderSize.PAPERS),
        (
            Hub("toy/toy"),
            [measured(256), measured(768)],
            EncoderSize.PAPERS,
        ),  # whitening:256
        (MADE, [measured(768)], EncoderSize.PAPERS),
        (Hub("toy/toy"), [measured(767)], EncoderSize.SMALL),
        (LocalFiles(), [measured(300)], EncoderSize.SMALL),
        (LocalFiles(), [measured(300, coverage=1.0)], EncoderSize.PAPERS),
        (VectorFile("toy.npz"), [measured(300)], EncoderSize.PAPERS),
        (Packaged("spacy/toy"), [measured(256)], EncoderSize.SMALL),
        (OWN, [measured(256)], EncoderSize.MINIATURE),
        (MADE, [measured(256)], EncoderSize.MINIATURE),
    ],
)
def test_a_size_is_that_of_the_vectors_and_a_small_own_encoder_is_a_miniature(
    source, records, size
):
    config = source and FromSource(source)
    assert size_of_encoder(config, records) is size


def test_groups_are_in_order_and_hold_a_maximum_length_with_its_encoder():
    sizes = {"toy": EncoderSize.MINIATURE, "large": EncoderSize.PAPERS}
    assert in_groups(["toy", "toy:64", "large"], sizes) == {
        EncoderSize.PAPERS: ["large"],
        EncoderSize.MINIATURE: ["toy", "toy:64"],
    }
