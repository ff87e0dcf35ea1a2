"""Encoding beside sentence-transformers over OpenVINO and over the ONNX runtime."""

import numpy as np
import pytest
import torch
from peers import peer, two_best, unit

from harness.core.hardware import Hardware
from harness.core.metrics.correlation import spearman
from harness.encoders.transformer import TransformerConfig
from harness.registry import load_registry

# The tracers of torch that both runtimes read are deprecated, and tell of each Python
# condition.
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = (16, 32, 64, 128)
SMALL = 8  # sentences, where benchmarks are off
EQUAL = 1e-5  # in every coordinate of a unit vector: float32 sums in another order
NEAR = 0.01  # the same in bfloat16
CONFIG = TransformerConfig("any", "none", max_length=256)
COUNTS = {"minilm": 4000, "mpnet-base": 600}  # sentences
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")


def beside(side_by_side, row, ours, theirs, texts, near, wanted, **facts):
    """Our encoding and the peer's at its best batch size, in turn; their vectors are near."""
    texts = texts if side_by_side.on else texts[:SMALL]

    def encode(size, texts=texts):
        return theirs.encode(texts, batch_size=size, show_progress_bar=False)

    difference = float(
        np.abs(unit(ours.encode(texts).mean[:, -1]) - unit(encode(32))).max()
    )
    assert difference <= near
    sizes = SIZES[:1]
    if side_by_side.on:
        sizes = two_best(SIZES, lambda size: encode(size, texts[: len(texts) // 4]))
    by_size = {f"batches of {size}": (lambda size=size: encode(size)) for size in sizes}
    side_by_side.run(lambda: ours.encode(texts), by_size)
    best = side_by_side.best(list(by_size))
    facts |= {"sentences": len(texts), "largest difference": float(f"{difference:.1g}")}
    side_by_side.require(row, side_by_side.ratios(best), wanted, peer=best, **facts)


PARTS = {"linear": "matrix products", "attention": "attention", "norm": "norms"}


def shares(encoder, texts):
    """Which part of a pass on one core each kind of operation takes."""
    batch = sorted(encoder.tokenizer(texts), key=len)[len(texts) // 3 :][
        : len(texts) // 3
    ]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU]
    ) as profile:
        encoder.kernel(batch)
    torch.set_num_threads(threads)
    seconds = dict.fromkeys((*PARTS.values(), "the rest"), 0.0)
    for operation in profile.key_averages():
        part = next(
            (PARTS[word] for word in PARTS if word in operation.key), "the rest"
        )
        seconds[part] += operation.self_cpu_time_total
    total = sum(seconds.values())
    return ", ".join(f"{part} {one / total:.0%}" for part, one in seconds.items())


def largest_change(one, other, data_dir):
    """By how many points Spearman differs at most on a task, and on which."""
    changes = {}
    for name in TASKS:
        pairs = load_registry().tasks[name].pairs(data_dir)
        place = {text: row for row, text in enumerate(dict.fromkeys(pairs.sentences))}
        sides = [[place[text] for text in side] for side in (pairs.a, pairs.b)]
        scores = []
        for encoder in (one, other):
            vectors = unit(encoder.encode(list(place)).mean[:, -1])
            left, right = (vectors[rows] for rows in sides)
            cosines = (left * right).sum(axis=1, dtype=float)
            scores.append(spearman(cosines, pairs.gold))
        changes[name] = abs(scores[0] - scores[1])
    task = max(changes, key=changes.__getitem__)
    return f"{changes[task]:.3f} points on {task}"


@pytest.fixture
def model(request):
    """The name and folder of a model."""
    return request.param, request.getfixturevalue(request.param.replace("-", "_"))


@pytest.mark.data
@pytest.mark.weights
@pytest.mark.parametrize(
    ("model", "backend"),
    [("minilm", "openvino"), ("minilm", "onnx"), ("mpnet-base", "openvino")],
    indirect=["model"],
)
def test_float32(side_by_side, model, sentences, tmp_path, backend):
    pytest.importorskip(
        {"onnx": "onnxruntime"}.get(backend, backend), reason="extra bench"
    )
    options = {"openvino": {"precision": "f32"}, "onnx": {"into": tmp_path}}[backend]
    name, folder = model
    theirs = peer(folder, backend=backend, **options)
    ours = CONFIG.load(folder, tmp_path)
    row, facts = f"encode-{name}-{backend}", {}
    if side_by_side.on:
        facts["our time on one core"] = shares(ours, sentences[:600])
    beside(
        side_by_side, row, ours, theirs, sentences[: COUNTS[name]], EQUAL, 1.6, **facts
    )


@pytest.mark.data
@pytest.mark.weights
@pytest.mark.parametrize("model", COUNTS, indirect=True)
def test_bfloat16(side_by_side, model, sentences, data_dir, tmp_path):
    ov = pytest.importorskip("openvino", reason="extra bench")
    if "BF16" not in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("the processor has no products of bfloat16")
    name, folder = model
    half = CONFIG.on(Hardware("cpu", "bfloat16")).load(folder, tmp_path)
    theirs = peer(folder, backend="openvino")  # which takes bfloat16 by itself
    facts = {}
    if (
        side_by_side.on and name == "minilm"
    ):  # seven tasks, twice: too many for a larger model
        whole = CONFIG.load(folder, tmp_path)
        facts["Spearman x100 beside float32 differs at most by"] = largest_change(
            half, whole, data_dir
        )
    row = f"encode-{name}-bfloat16"
    beside(
        side_by_side, row, half, theirs, sentences[: COUNTS[name]], NEAR, 1.2, **facts
    )
