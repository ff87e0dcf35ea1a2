"""sentence-transformers as a peer: its pipeline over torch, OpenVINO or the ONNX runtime.

Its own backends for the latter two need `optimum`, which lags behind transformers; here the model
inside its pipeline is replaced as they do it: tokens in, last hidden states out, on all processors.
"""

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


class States(torch.nn.Module):
    """The last hidden states of a model, as one tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        inputs = dict(zip(NAMES, (input_ids, attention_mask, token_type_ids), strict=True))
        return self.model(**inputs).last_hidden_state


class Runtime(torch.nn.Module):
    """What stands in the place of a model: its configuration, and a function of arrays."""

    def __init__(self, model, infer):
        super().__init__()
        self.config, self.dtype, self.infer = model.config, torch.float32, infer

    def forward(self, input_ids, attention_mask, token_type_ids, **_):
        arrays = [t.numpy() for t in (input_ids, attention_mask, token_type_ids)]
        return BaseModelOutput(last_hidden_state=torch.from_numpy(self.infer(arrays)))


def example():
    ones = torch.ones(2, 8, dtype=torch.long)
    return ones, ones, torch.zeros_like(ones)


def openvino(model, precision=None):
    """OpenVINO, as optimum compiles for a processor; `precision` None is OpenVINO's default."""
    import openvino as ov

    converted = ov.convert_model(
        States(model).eval(), example_input=dict(zip(NAMES, example(), strict=True))
    )
    settings = {"PERFORMANCE_HINT": "LATENCY"}
    settings |= {"INFERENCE_PRECISION_HINT": precision} if precision else {}
    request = ov.Core().compile_model(converted, "CPU", settings).create_infer_request()
    return Runtime(model, lambda arrays: np.array(request.infer(arrays, share_inputs=True)[0]))


def onnx(model, into):
    """The ONNX runtime with all of its graph optimisations, which are its default."""
    import onnxruntime

    path = str(Path(into) / "model.onnx")
    free = {name: {0: "batch", 1: "tokens"} for name in (*NAMES, "states")}
    torch.onnx.export(
        States(model).eval(), example(), path, input_names=list(NAMES), output_names=["states"],
        dynamic_axes=free, dynamo=False,
    )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return Runtime(
        model, lambda arrays: session.run(None, dict(zip(NAMES, arrays, strict=True)))[0]
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
