"""sentence-transformers as a peer: its pipeline over torch, OpenVINO or the ONNX runtime.

Its own backends for the latter two need `optimum`, which lags behind transformers; here
the model inside its pipeline is replaced as they do it: tokens in, last hidden states
out, on all processors.
"""

from inspect import signature
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from transformers.modeling_outputs import BaseModelOutput

NAMES = ("input_ids", "attention_mask", "token_type_ids")


def peer(folder, device="cpu", backend="torch", **options):
    """A SentenceTransformer with mean pooling whose states are computed by a backend."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    module = Transformer(str(folder), max_seq_length=256)
    size = module.auto_model.config.hidden_size
    if backend != "torch":
        module.model = BACKENDS[backend](module.auto_model.eval(), **options)
    return SentenceTransformer(modules=[module, Pooling(size, "mean")], device=device)


def names_of(model):
    """Those of the inputs that a model takes: MPNet has no types of tokens."""
    taken = signature(model.forward).parameters
    return [name for name in NAMES if name in taken]


class States(torch.nn.Module):
    """The last hidden states of a model, as one tensor."""

    def __init__(self, model):
        super().__init__()
        self.model, self.names = model, names_of(model)

    def forward(self, *inputs):
        return self.model(
            **dict(zip(self.names, inputs, strict=True))
        ).last_hidden_state


class Runtime(torch.nn.Module):
    """What stands in the place of a model: its configuration, and a function of arrays."""

    def __init__(self, model, infer):
        super().__init__()
        self.config, self.dtype, self.infer = model.config, torch.float32, infer
        self.names = names_of(model)

    def forward(self, **inputs):
        arrays = [inputs[name].numpy() for name in self.names]
        return BaseModelOutput(last_hidden_state=torch.from_numpy(self.infer(arrays)))


def example(names):
    ones = torch.ones(2, 8, dtype=torch.long)
    return tuple(torch.zeros_like(ones) if name == NAMES[2] else ones for name in names)


def openvino(model, precision=None):
    """OpenVINO, as optimum compiles for a processor; `precision` None is OpenVINO's default."""
    import openvino as ov

    states = States(model).eval()
    converted = ov.convert_model(states, example_input=example(states.names))
    settings = {"PERFORMANCE_HINT": "LATENCY"}
    settings |= {"INFERENCE_PRECISION_HINT": precision} if precision else {}
    request = ov.Core().compile_model(converted, "CPU", settings).create_infer_request()
    return Runtime(
        model, lambda arrays: np.array(request.infer(arrays, share_inputs=True)[0])
    )


def onnx(model, into):
    """The ONNX runtime with all of its graph optimisations, which are its default."""
    import onnxruntime

    states, path = States(model).eval(), str(Path(into) / "model.onnx")
    free = {name: {0: "batch", 1: "tokens"} for name in (*states.names, "states")}
    torch.onnx.export(
        states, example(states.names), path, input_names=states.names, output_names=["states"],
        dynamic_axes=free, dynamo=False,
    )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    return Runtime(
        model,
        lambda arrays: session.run(None, dict(zip(states.names, arrays, strict=True)))[
            0
        ],
    )


BACKENDS = {"openvino": openvino, "onnx": onnx}


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def two_best(sizes, encode):
    """The two fastest batch sizes, each tried twice, in turn."""
    seconds = dict.fromkeys(sizes, np.inf)
    for _ in range(2):
        for size in sizes:
            start = perf_counter()
            encode(size)
            seconds[size] = min(seconds[size], perf_counter() - start)
    return sorted(sizes, key=seconds.__getitem__)[:2]
