"""Rows of hub data sets, through `datasets`, which keeps them where mteb looks for them, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.assets.asset import HubTable
from harness.assets.fetch.hub import asked
from harness.assets.fetch.network import hub_address, reason_of
from harness.core.errors import AssetMissing
from harness.core.files import write_atomically


def bring(name: str, table: HubTable, data_dir: Path | None) -> int:
    """Have `datasets` prepare the rows at their commit; write those that a task reads. Their count.

    Raises AssetMissing if the hub refuses, is silent, or holds no such data set.
    """
    from huggingface_hub import HfApi

    page = f"{hub_address()}/datasets/{table.repo}"
    asked(name, page, lambda: HfApi().dataset_info(table.repo, revision=table.revision))

    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    try:  # once: it tries again by itself, for 23 seconds
        rows: Any = load_dataset(
            table.repo, table.config, revision=table.revision, split=table.split
        )
    except (DatasetsError, OSError, ValueError) as error:
        raise AssetMissing(f"{name} could not be read from {page}: {reason_of(error)}") from None
    if table.into is not None and data_dir is not None:
        write_atomically(data_dir / table.into, as_tsv(rows).encode())
        return len(rows)
    return sum(len(rows[split]) for split in rows)


def as_tsv(rows: Any) -> str:
    """Rows of a GLUE task as GLUE's own file of them: no quotes, labels in words."""
    names = rows.features["label"].names
    lines = ["index\tquestion\tsentence\tlabel"]
    lines += [f"{r['idx']}\t{r['question']}\t{r['sentence']}\t{names[r['label']]}" for r in rows]
    return "".join(f"{line}\n" for line in lines)
