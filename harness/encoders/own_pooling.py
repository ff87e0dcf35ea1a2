"""The pooling that an encoder means where none is named, read from its files alone.

A sentence-transformers folder says it in `modules.json`; for any other, sentence-transformers takes
the mean over tokens. Modules that come to one of our poolings bear its name, so that their scores
stand beside what is published for it: a last `Normalize` moves no cosine. All others are `native`:
the folder's modules as they are.
"""

from __future__ import annotations

from pathlib import Path

from harness.encoders.checkpoint import read_json
from harness.encoders.modules import MODULES, read_modules
from harness.encoders.subword_vectors import MODEL_TYPE
from harness.transforms.pooling import MEAN, NATIVE


def own_pooling(path: Path) -> str:
    """The word of the pooling that an encoder's files ask for.

    Args:
        path: The encoder's folder, or its file of vectors.

    Returns:
        `mean` or `cls` where nothing else is asked for, else `native`.

    Raises:
        DataError: A file of the folder is damaged, or a module is not understood.
    """
    is_table = path.is_file() or read_json(path / "config.json").get("model_type") == MODEL_TYPE
    if is_table or not (path / MODULES).is_file():
        return MEAN.name
    return read_modules(path.name, path).alike or NATIVE.name
