"""A reproducibility benchmark of sentence embeddings: published numbers and measured ones.

This module is the public API. A program imports its names from here, as in `from
harness import Places, fit_method, load_registry`, and never from its subpackages, whose
modules may be renamed. The imports below are the list of its names. Type checkers read
them; at run time each name is imported when it is first used (PEP 562), so that `import
harness` alone takes no time.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.contracts.laws import load_plugins as load_plugins
    from harness.core.errors import AssetMissing as AssetMissing
    from harness.core.errors import DataError as DataError
    from harness.core.errors import HarnessError as HarnessError
    from harness.core.errors import ScoreError as ScoreError
    from harness.core.errors import UsageError as UsageError
    from harness.core.hardware import Hardware as Hardware
    from harness.core.interfaces import Encoder as Encoder
    from harness.core.interfaces import EncoderConfig as EncoderConfig
    from harness.core.interfaces import Encoding as Encoding
    from harness.core.interfaces import Identity as Identity
    from harness.core.interfaces import Pooling as Pooling
    from harness.core.interfaces import PostProcessor as PostProcessor
    from harness.core.interfaces import Transform as Transform
    from harness.core.metrics import Metric as Metric
    from harness.core.pairs import Pairs as Pairs
    from harness.core.types import Corpus as Corpus
    from harness.core.types import Method as Method
    from harness.core.types import Record as Record
    from harness.core.types import Task as Task
    from harness.data.catalogue import Asset as Asset
    from harness.data.places import Places as Places
    from harness.encoders.config import FunctionConfig as FunctionConfig
    from harness.encoders.native import NativeConfig as NativeConfig
    from harness.encoders.transformer import TransformerConfig as TransformerConfig
    from harness.encoders.word_vectors import StaticConfig as StaticConfig
    from harness.evaluation.evaluate import Embedder as Embedder
    from harness.evaluation.evaluate import encoder as encoder
    from harness.evaluation.evaluate import evaluate as evaluate
    from harness.evaluation.evaluate import fit_method as fit_method
    from harness.interop.estimator import Calibration as Calibration
    from harness.interop.frames import read_results as read_results
    from harness.interop.mteb import as_mteb as as_mteb
    from harness.interop.mteb import local_tasks as local_tasks
    from harness.registry import Registry as Registry
    from harness.registry import load_registry as load_registry
    from harness.results.score_rows import ScoreRow as ScoreRow
    from harness.results.verdict import CellState as CellState
    from harness.results.verdict import Measured as Measured
    from harness.results.verdict import Published as Published
    from harness.results.verdict import Verdict as Verdict
    from harness.results.verdict import verdict as verdict
    from harness.transforms.affine import Affine as Affine
    from harness.transforms.affine import FromMoments as FromMoments
    from harness.transforms.affine import Moments as Moments

    __all__: list[str]
    __version__: str


@cache
def _modules() -> dict[str, str]:
    """The module of each public name, read from the imports above."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    [type_checking_block] = [node for node in tree.body if isinstance(node, ast.If)]
    modules = {}
    for node in type_checking_block.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                modules[alias.name] = str(node.module)
    return modules


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("sentence-embedding-harness")
    if name == "__all__":
        return sorted([*_modules(), "__version__"])
    if name not in _modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _modules()[name]
    if module == "harness.interop.mteb":
        from harness.core.environment import extra

        with extra("mteb"):
            return getattr(import_module(module), name)
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules(), "__all__", "__version__"})
