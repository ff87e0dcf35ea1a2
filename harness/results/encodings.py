"""Each encoder's most measured encoding, as it is and behind every post-processor, on a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.ids import is_transductive
from harness.results.index import Results
from harness.transforms.pooling import INPUT


def fitted_on_task(method: str) -> bool:
    """Whether it has no fitted post-processors, or they see the text of the task itself."""
    return "@" not in method or is_transductive(method)


def encodings(results: Results, task: str) -> Mapping[str, Sequence[str]]:
    """The methods to show beside each other, by plain method, `minilm.mean`; plain first.

    Of an encoder it is the plain method with most variants that were measured on the task, in the
    order of records where two have as many; its input embeddings stand apart. Post-processors are
    fitted on the task's own text.
    """
    variants: dict[str, list[str]] = {}
    for method in results.by_task.get(task, ()):
        if fitted_on_task(method):
            variants.setdefault(method.partition("+")[0], []).append(method)
    of_encoder: dict[str, str] = {}
    for plain, methods in variants.items():
        if plain in methods:
            encoder, _, pooling = plain.partition(".")
            encoder = plain if pooling == INPUT.name else encoder
            most = len(variants[of_encoder[encoder]]) if encoder in of_encoder else 0
            of_encoder[encoder] = plain if len(methods) > most else of_encoder[encoder]
    return {
        plain: [plain, *(one for one in variants[plain] if one != plain)]
        for plain in of_encoder.values()
    }
