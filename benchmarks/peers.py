"""sentence-transformers as a peer: its pipeline over torch, OpenVINO or the ONNX runtime.

Its own backends for OpenVINO and ONNX need `optimum`, which lags behind transformers.
Here the model inside its pipeline is replaced as these backends do it: tokens in, last
hidden states out, on all processors.
"""

from inspect import signature
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from transformers.modeling_outputs import BaseModelOutput

NAMES = ("input_ids", "attention_mask", "token_type_ids")


def peer(folder, device="cpu", backend="torch", **options):
    """A SentenceTransformer with mean pooling, whose hidden states a backend computes."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    module = Transformer(str(folder), max_seq_length=256)
    size = module.auto_model.config.hidden_size
    if backend != "torch":
        module.model = BACKENDS[backend](module.auto_model.eval(), **options)
    return SentenceTransformer(modules=[module, Pooling(size, "mean")], device=device)


def names_of(model):
    """The inputs that a model takes: MPNet has no types of tokens."""
    parameters = signature(model.forward).parameters
    return [name for name in NAMES if name in parameters]


class States(torch.nn.Module):
    """The last hidden states of a model, as one tensor."""

    def __init__(self, model):
        super().__init__()
        self.model, self.names = model, names_of(model)

    def forward(self, *inputs):
        inputs_by_name = dict(zip(self.names, inputs, strict=True))
        return self.model(**inputs_by_name).last_hidden_state


class Runtime(torch.nn.Module):
    """A module in the place of a model: its configuration, and a function of arrays."""

    def __init__(self, model, infer):
        super().__init__()
        self.config, self.dtype, self.infer = model.config, torch.float32, infer
        self.names = names_of(model)

    def forward(self, **inputs):
        arrays = [inputs[name].numpy() for name in self.names]
        return BaseModelOutput(last_hidden_state=torch.from_numpy(self.infer(arrays)))


def example(names):
    """Inputs of two sentences of eight tokens, by which a model is traced."""
    ones = torch.ones(2, 8, dtype=torch.long)
    inputs = {
        "input_ids": ones,
        "attention_mask": ones,
        "token_type_ids": torch.zeros_like(ones),
    }
    return tuple(inputs[name] for name in names)


def openvino(model, precision=None):
    """OpenVINO, as optimum compiles for a processor; without a precision in its default one."""
    import openvino as ov

    states = States(model).eval()
    converted = ov.convert_model(states, example_input=example(states.names))
    settings = {"PERFORMANCE_HINT": "LATENCY"}
    if precision:
        settings["INFERENCE_PRECISION_HINT"] = precision
    request = ov.Core().compile_model(converted, "CPU", settings).create_infer_request()

    def infer(arrays):
        return np.array(request.infer(arrays, share_inputs=True)[0])

    return Runtime(model, infer)


def onnx(model, into):
    """The ONNX runtime with all of its graph optimisations, which are its default."""
    import onnxruntime

    states = States(model).eval()
    path = str(Path(into) / "model.onnx")
    axes = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        states,
        example(states.names),
        path,
        input_names=states.names,
        output_names=["states"],
        dynamic_axes=dict.fromkeys((*states.names, "states"), axes),
        dynamo=False,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )

    def infer(arrays):
        [hidden_states] = session.run(
            None, dict(zip(states.names, arrays, strict=True))
        )
        return hidden_states

    return Runtime(model, infer)


BACKENDS = {"openvino": openvino, "onnx": onnx}


def unit(x):
    """Rows of length 1."""
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
