"""Device, precision and batches of an encoder: what moves a score is in its name and its key."""

import pytest
import torch
from refusals import refused
from tolerances import ROUNDING, encoding_gap

from harness.core.errors import UsageError
from harness.core.hardware import Hardware, base_name, in_precision, precision_of
from harness.data.places import Places
from harness.evaluation.select import PlannedCell, on_hardware
from harness.registry import load_registry

REGISTRY = load_registry()
MINI = REGISTRY.encoders["bert-mini"]
TEXTS = ("A man eats.", "Two dogs run in the park.", "It rains.")


def loaded(tmp_path, hardware):
    config, places = MINI.on(hardware), Places(tmp_path)
    return config.load(places.encoder(config), places.cache)


@pytest.mark.parametrize(
    ("name", "dtype", "wanted"),
    [
        ("minilm", "float16", "minilm-float16"),
        ("minilm:64", "bfloat16", "minilm-bfloat16:64"),
        ("minilm-float16:64", "float32", "minilm:64"),
        ("minilm-float16", "bfloat16", "minilm-bfloat16"),
    ],
)
def test_a_precision_stands_in_the_name_and_float32_does_not(name, dtype, wanted):
    assert in_precision(name, dtype) == wanted
    assert precision_of(wanted)[1] == dtype
    assert base_name(wanted) == "minilm"


def test_a_device_and_a_batch_are_told_and_leave_the_key(tmp_path):
    plain = loaded(tmp_path, Hardware())
    placed = loaded(tmp_path, Hardware("cpu:0", batch_tokens=7))
    assert placed.key == plain.key
    assert (placed.facts["device"], placed.facts["dtype"]) == ("cpu:0", "float32")
    assert placed.choice.tokens == 7
    assert encoding_gap(placed.encode(TEXTS), plain.encode(TEXTS)) <= ROUNDING


def test_products_are_of_whole_float32_numbers(tmp_path):
    torch.backends.cuda.matmul.allow_tf32 = True
    loaded(tmp_path, Hardware())
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32


def planned_cells_of(*methods):
    task = REGISTRY.tasks["mini-sts"]
    return tuple(PlannedCell(REGISTRY.parse(method), task, 0) for method in methods)


def test_cells_keep_the_precision_of_their_ids_unless_another_is_wanted():
    cells = planned_cells_of("bert-mini.mean", "bert-mini-float16.mean")
    assert on_hardware(cells, "cpu", None, None) == cells
    with refused(UsageError, "leave one of them out"):
        on_hardware(cells, "cuda", "bfloat16", 64)
    placed = on_hardware(planned_cells_of("bert-mini.mean"), "cuda", "bfloat16", 64)
    assert {cell.method.id for cell in placed} == {"bert-mini-bfloat16.mean"}
    assert placed[0].encoder.hardware == Hardware("cuda", "bfloat16", 64)
    words = planned_cells_of("glove-mini.mean")
    assert on_hardware(words, "cuda", None, 64) == words
