"""Sentence embeddings, reproducibly: published numbers beside measured ones.

This module is the public API. A program imports its names from here, as in `from harness import
Places, fit_method, load_registry`, and never from a room, whose modules may move. Each name is
imported when it is first used (PEP 562), so that `import harness` alone costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.assets.places import Places
    from harness.core.errors import AssetMissing, DataError, HarnessError, ScoreError, UsageError
    from harness.core.hardware import Hardware
    from harness.core.interfaces import (
        Encoder,
        EncoderConfig,
        Encoding,
        Identity,
        Pooling,
        PostProcessor,
        Transform,
    )
    from harness.core.metrics import Metric
    from harness.core.types import Corpus, Method, Pairs, Record, Task
    from harness.encoders.function import FunctionConfig
    from harness.encoders.native import NativeConfig
    from harness.encoders.transformer import TransformerConfig
    from harness.encoders.word_vectors import StaticConfig
    from harness.evaluation.evaluate import Embedder, encoder, fit_method
    from harness.interop.estimator import Calibration
    from harness.interop.evaluate import evaluate, read_results
    from harness.interop.mteb import as_mteb, local_tasks
    from harness.registry import Registry, load_registry
    from harness.results.score_rows import ScoreRow
    from harness.results.verdict import CellState, Measured, Published, Verdict, verdict
    from harness.transforms.affine import Affine, Moments

    __version__: str

__all__ = [
    "Affine",
    "AssetMissing",
    "Calibration",
    "CellState",
    "Corpus",
    "DataError",
    "Embedder",
    "Encoder",
    "EncoderConfig",
    "Encoding",
    "FunctionConfig",
    "Hardware",
    "HarnessError",
    "Identity",
    "Measured",
    "Method",
    "Metric",
    "Moments",
    "NativeConfig",
    "Pairs",
    "Places",
    "Pooling",
    "PostProcessor",
    "Published",
    "Record",
    "Registry",
    "ScoreError",
    "ScoreRow",
    "StaticConfig",
    "Task",
    "Transform",
    "TransformerConfig",
    "UsageError",
    "Verdict",
    "__version__",
    "as_mteb",
    "encoder",
    "evaluate",
    "fit_method",
    "load_registry",
    "local_tasks",
    "read_results",
    "verdict",
]

# Where each name is defined, for what runs; the imports above say it to type checkers.
_HOMES = {
    "assets.places": "Places",
    "core.errors": "AssetMissing DataError HarnessError ScoreError UsageError",
    "core.hardware": "Hardware",
    "core.metrics": "Metric",
    "core.interfaces": "Encoder EncoderConfig Encoding Identity Pooling PostProcessor Transform",
    "core.types": "Corpus Method Pairs Record Task",
    "encoders.function": "FunctionConfig",
    "encoders.native": "NativeConfig",
    "encoders.transformer": "TransformerConfig",
    "encoders.word_vectors": "StaticConfig",
    "evaluation.evaluate": "Embedder encoder fit_method",
    "interop.estimator": "Calibration",
    "interop.evaluate": "evaluate read_results",
    "interop.mteb": "as_mteb local_tasks",
    "registry": "Registry load_registry",
    "results.score_rows": "ScoreRow",
    "results.verdict": "CellState Measured Published Verdict verdict",
    "transforms.affine": "Affine Moments",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("sentence-embedding-harness")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
