"""Tasks and prompts of mteb under which a model has another number than in the papers, or here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mteb.models.abs_encoder import get_prompt_name

from harness.encoders.modules import read_modules
from harness.interop.mteb import COUNTERPARTS
from harness.registry import Registry
from harness.results.index import Results

SENTEVAL = "SimCSE, SBERT and BERT-whitening score SentEval's tokenised text"
SUBSETS = "BERT-flow and BERT-whitening average a year's subsets, weighed by their size"

# By our names of mteb's tasks: what papers score in their place, its aggregation, and why.
PAPERS: Mapping[str, tuple[str, str, str]] = {
    "sts-b": ("sts-b.senteval", "all", SENTEVAL),
    "sick-r.all": ("sick-r.senteval", "all", "they score the test split, 4,927 of 9,927 pairs"),
    **{f"sts{y}.senteval": (f"sts{y}.senteval", "wmean", SUBSETS) for y in range(12, 17)},
}


def differences(registry: Registry, results: Results) -> list[dict[str, Any]]:
    """Tasks of mteb that papers score otherwise, and how far that moves a score of the records."""
    rows = []
    for name, (other, aggregation, why) in PAPERS.items():
        both = (m for m in results.by_task.get(name, ()) if m in results.by_task.get(other, ()))
        method = next(both, "")
        scores = [
            results.value(method, task, "spearman", way).mean
            for task, way in ((name, "all"), (other, aggregation))
        ]
        of_mteb, of_papers = scores
        moved = None if of_mteb is None or of_papers is None else of_papers - of_mteb
        rows.append(
            {
                "mteb": COUNTERPARTS[name].metadata.name,
                "here": name,
                "in papers": f"{registry.tasks[other].name}, {aggregation}",
                "why": why,
                "method": method,
                "moves by": "not measured" if moved is None else f"{moved:+.2f}",
            }
        )
    return rows


def prompts(folder: Path) -> list[dict[str, Any]]:
    """The prompt that mteb and the model's own default put before a sentence, task by task.

    Raises UsageError for a folder that is not sentence-transformers', DataError for one that is
    not understood.
    """
    modules = read_modules(folder.name, folder)
    rows = []
    for name, theirs in COUNTERPARTS.items():
        chosen = get_prompt_name(dict(modules.prompts), theirs.metadata, None)
        by_mteb = modules.prompts[chosen] if chosen else modules.prompt("")
        same = by_mteb == modules.prompt("")
        rows.append(
            {
                "mteb": theirs.metadata.name,
                "here": name,
                "prompt of mteb": repr(by_mteb),
                "prompt here": repr(modules.prompt("")),
                "number": "the same prompt" if same else f"another: .native:{chosen} is mteb's",
            }
        )
    return rows
