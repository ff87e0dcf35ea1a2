"""mteb: a method as a model of mteb, and mteb's tasks on local files.

A fitted method has the members of mteb's EncoderProtocol, so that `mteb.evaluate` takes
it. The tasks are mteb's own classes, which hold the scored pairs of tasks here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict
from mteb import get_task
from mteb.abstasks import AbsTaskSTS
from mteb.models import ModelMeta
from mteb.models.model_meta import ScoringFunction

from harness.core.arrays import Float32, Float64
from harness.core.errors import UsageError
from harness.core.files import file_name
from harness.core.metrics import cosine, tie_rounded, unit_rows
from harness.core.types import Method
from harness.data.places import Places
from harness.encoders.tensorflow_bert import readable_files
from harness.evaluation.evaluate import Embedder, as_texts, resolved
from harness.evaluation.evaluate import encoder as open_encoder
from harness.evaluation.select import MIN_COVERAGE
from harness.registry import collected, load_registry, look_up

LOCAL_PATH = "local files of the harness"


# mteb's class for each task here that has the pairs of one of mteb's tasks, in the text
# form of mteb's copy. mteb's SICK-R holds the pairs of all splits.
COUNTERPARTS: dict[str, Any] = {}
for task in collected().tasks.values():
    for name_of_mteb in task.aliases:
        COUNTERPARTS[task.name] = type(get_task(name_of_mteb))


@dataclass(frozen=True, eq=False)
class MtebEncoder:
    """A fitted method as mteb's EncoderProtocol."""

    embedder: Embedder
    mteb_model_meta: ModelMeta

    def encode(self, inputs: Iterable[Any], **_: Any) -> Float32[np.ndarray, "N K"]:
        """A row for each text, in order. mteb's task, prompt and batch size are ignored.

        `inputs` are batches, mappings with a list of texts under the key `text`. Raises
        UsageError for anything else.

        The rows are in float32, as mteb's models give them. mteb's cosine has no rule for
        ties: in float64 it would rank the rounding errors of identical sentences, which
        moves STS12 by 2.5e-5.
        """
        texts: list[str] = []
        for batch in inputs:
            if not isinstance(batch, Mapping) or "text" not in batch:
                raise UsageError(
                    f"wanted batches with the key 'text', as mteb gives them, found {batch!r:.60}; "
                    "harness.encoder takes texts"
                )
            texts += as_texts(batch["text"])
        return self.embedder(texts).astype(np.float32)

    def similarity_pairwise(
        self, embeddings1: Any, embeddings2: Any
    ) -> Float64[np.ndarray, " P"]:
        """Cosines of pairs of rows, as the harness ranks them."""
        cosines, _ = cosine(np.asarray(embeddings1), np.asarray(embeddings2))
        return tie_rounded(cosines)

    def similarity(
        self, embeddings1: Any, embeddings2: Any
    ) -> Float64[np.ndarray, "..."]:
        """Cosines of every row with every row, or of two single vectors."""
        unit_rows1 = unit_rows(np.asarray(embeddings1))
        unit_rows2 = unit_rows(np.asarray(embeddings2))
        cosines = np.clip(unit_rows1 @ unit_rows2.T, -1.0, 1.0)
        return tie_rounded(np.asarray(cosines))


def as_mteb(
    method: str | Path | Method,
    *,
    places: Places | None = None,
    texts: Iterable[str] | None = None,
    seed: int = 0,
    min_coverage: float = MIN_COVERAGE,
) -> MtebEncoder:
    """Make a method a model for `mteb.evaluate`.

    Args:
        method: A `Method`, or what `harness run -m` takes: its id, an encoder's name, a
            hub repository or a folder.
        places: Where its encoder is looked for; by default where the command line
            looks, as HARNESS_CACHE_DIR and HARNESS_DATA_DIR say.
        texts: What its post-processors are fitted on, as
            [`harness.encoder`][harness.encoder] takes it: by default the corpus that
            the id names.
        seed: Seeds the fits; of a family, it names the training.
        min_coverage: The share of the tokens of each call's texts that word vectors
            must have a vector for, as of [`harness.encoder`][harness.encoder].

    Returns:
        The fitted method with the members of `mteb.models.EncoderProtocol`. The name of
        one that was fitted on `texts` ends with `@own-texts`.

    Raises:
        AssetMissing: The encoder or the corpus is not on this machine.
        UsageError: There is no such method, or there are no texts to fit it on.

    Examples:
        >>> from harness import as_mteb
        >>> model = as_mteb("bert-mini.mean")
        >>> model.encode([{"text": ["A man is eating.", "Someone eats."]}]).shape
        (2, 256)
        >>> model.mteb_model_meta.name
        'harness/bert-mini.mean'
    """
    if places is None:
        places = Places.from_environment(os.environ)
    method, places = resolved(method, places)
    config = method.encoder.member(seed)
    identity = places.identify(config, readable_files(config, places))
    embedder = open_encoder(
        method, texts=texts, seed=seed, places=places, min_coverage=min_coverage
    )
    # mteb keeps results apart by these settings, where a model of one name has several.
    settings_of_fit = None
    if method.post:
        settings_of_fit = {
            "post": "+".join(post.name for post in method.post),
            "texts": str(embedder.fitted_on)[:16],
            "seed": seed,
        }
    model_meta = ModelMeta.create_empty(
        overwrites={
            "name": f"harness/{file_name(embedder.method.id)}",
            "revision": identity.key,
            "languages": ["eng-Latn"],
            "max_tokens": identity.max_length,
            "open_weights": True,
            "similarity_fn_name": ScoringFunction.COSINE,
            "use_instructions": False,
            "experiment_kwargs": settings_of_fit,
        }
    )
    return MtebEncoder(embedder, model_meta)


def local_tasks(data_dir: Path | str) -> list[AbsTaskSTS]:
    """Make mteb's STS tasks of local files; its `SICK-R` holds the pairs of all splits.

    Args:
        data_dir: The folder that holds the data sets, as HARNESS_DATA_DIR names it.

    Returns:
        Tasks for `mteb.evaluate`, their data loaded.

    Raises:
        AssetMissing: A data set is not there.
        DataError: A file is not what it should be.
    """
    return [local_task(name, Path(data_dir)) for name in COUNTERPARTS]


def local_task(name: str, data_dir: Path) -> AbsTaskSTS:
    """mteb's counterpart of a task here, with the scored pairs of that task.

    Its main score is by the model's own similarity function, which has the rules for ties
    and zero vectors of this harness. mteb's `cosine_spearman` is reported too; a zero
    vector has cosine 1/2 there.
    """
    mteb_task = look_up("task of mteb", name, COUNTERPARTS)()
    pairs = load_registry().tasks[name].pairs(data_dir)
    columns = {"sentence1": pairs.a, "sentence2": pairs.b, "score": pairs.gold}
    rows = Dataset.from_dict(columns)
    # mteb evaluates further splits of some tasks, whose pairs these are not.
    split = mteb_task.eval_splits[-1]
    mteb_task.dataset = {"default": DatasetDict({split: rows})}
    mteb_task.data_loaded = True
    changes = {
        "dataset": {"path": LOCAL_PATH, "revision": name},
        "main_score": "spearman",
        "eval_splits": [split],
    }
    mteb_task.metadata = mteb_task.metadata.model_copy(update=changes)
    return mteb_task
