"""The calls of a worker, which trains, encodes and measures for a run of another process.

A worker is a process of this machine or of a cluster. Each call has a `WorkerContext`,
which describes the run, and most have the identity that the files of the encoder must
have. A worker raises an error if the run has other code, libraries or files.

Calls that follow each other mostly need the same texts and the same encoder. So a
worker keeps the texts that it has read for its last run, and the encoder that it opened
last (`_run_context`, `_open_encoder`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from socket import gethostname
from typing import Any
from uuid import uuid4

from harness.core.environment import one_blas_thread, packages
from harness.core.errors import HarnessError
from harness.core.interfaces import Identity
from harness.core.provenance import code_digest
from harness.core.types import Progress
from harness.evaluation.embeddings import CachedEncoder
from harness.evaluation.fit_corpus import FitCorpusPass, fit_corpus_passes
from harness.evaluation.run import Outcome, RunContext, execute, failures
from harness.evaluation.select import PlannedCell
from harness.results.store import Store
from harness.tasks.loader import TaskLoader

# The description of a run that a worker gets


@dataclass(frozen=True)
class WorkerContext:
    """The facts on a run that its workers need.

    Attributes:
        context: The context of the run. Its paths are absolute, since a worker may have
            been started in another folder.
        code: The digest of the code of the process that started the run.
        libraries: The versions of that process's libraries, by name.
        run: A name that no other run has. A worker that serves several runs tells by it
            that what it keeps is of an earlier run.
    """

    context: RunContext = field(compare=False)
    code: str
    libraries: Mapping[str, str | None] = field(default_factory=packages, compare=False)
    run: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def for_run(cls, context: RunContext, workers: int) -> WorkerContext:
        """Describe a run to its workers. The texts that its loader has read are not sent."""
        loader = TaskLoader(context.loader.places.absolute(), context.loader.corpora)
        store = Store(context.store.folder.absolute())
        sent_context = replace(
            context, loader=loader, store=store, progress=Progress(), workers=workers
        )
        return cls(context=sent_context, code=code_digest())

    def require_same_installation(self) -> None:
        """Raise HarnessError for a worker of another version, or without a folder of the run."""
        worker_has = f"the worker on {gethostname()} has"
        if code_digest() != self.code:
            raise HarnessError(
                f"{worker_has} other code than this process: install one version"
            )
        for name, version in packages().items():
            if version != self.libraries[name]:
                raise HarnessError(
                    f"{worker_has} {name} {version}, this process {self.libraries[name]}: "
                    "install one version"
                )
        places = self.context.loader.places
        folders = [self.context.store.folder, *places.encoders.values()]
        if places.data_dir is not None:
            folders.append(places.data_dir)
        for folder in folders:
            is_empty_data = folder == places.data_dir and not any(folder.glob("*"))
            if not folder.exists() or is_empty_data:
                raise HarnessError(
                    f"{worker_has} nothing at {folder}: share it under this path"
                )


# The state that a worker keeps between two calls


@lru_cache(maxsize=1)
def _run_context(worker: WorkerContext) -> RunContext:
    """The context of a run, whose loader keeps the texts that this worker reads."""
    worker.require_same_installation()
    return worker.context


@lru_cache(maxsize=1)
def _open_encoder(
    worker: WorkerContext, identity: Identity | None, config: Any
) -> CachedEncoder:
    """The encoder of a configuration, with its cache; `config` is an EncoderConfig."""
    context = _run_context(worker)
    return CachedEncoder.open(config, context.loader.places, context.clock, identity)


# The calls. An encoding that fails does not fail its call: the cells that need it find it
# missing when they are measured, encode it again, and have the error as their outcome.


def train_in_worker(
    worker: WorkerContext, train: Callable[[], HarnessError | None]
) -> HarnessError | None:
    """Train an encoder by a function that returns the error of a training that failed."""
    _run_context(worker)
    return train()


def encode_in_worker(
    worker: WorkerContext,
    identity: Identity | None,
    config: Any,
    sentences: Sequence[str],
) -> None:
    """Encode sentences by the encoder of an EncoderConfig, and store them in the cache."""
    _run_context(worker)
    with failures(()):
        encoder = _open_encoder(worker, identity, config)
        encoder.ensure(sentences, Progress())


def encode_block_in_worker(
    worker: WorkerContext,
    identity: Identity | None,
    cells: Sequence[PlannedCell],
    block: range,
) -> None:
    """Encode a block of the pass over a fit corpus that cells share."""
    _run_context(worker)
    with failures(()), one_blas_thread():
        corpus_pass = _shared_pass(worker, identity, cells)
        corpus_pass.encode_block(block, corpus_pass.missing_files)


def merge_blocks_in_worker(
    worker: WorkerContext, identity: Identity | None, cells: Sequence[PlannedCell]
) -> None:
    """Merge the blocks of the pass over a fit corpus that cells share."""
    _run_context(worker)
    with failures(()), one_blas_thread():
        corpus_pass = _shared_pass(worker, identity, cells)
        corpus_pass.merge_blocks(corpus_pass.missing_files)


def _shared_pass(
    worker: WorkerContext, identity: Identity | None, cells: Sequence[PlannedCell]
) -> FitCorpusPass:
    """The pass that all of these cells are fitted from."""
    loader = _run_context(worker).loader
    config: Any = cells[0].encoder
    encoder = _open_encoder(worker, identity, config)
    fit_corpora = {
        cell: loader.texts(cell.task, cell.method.fit_on).fit_corpus for cell in cells
    }
    passes = fit_corpus_passes(encoder, fit_corpora, Progress())
    return passes[cells[0]]


def measure_in_worker(
    worker: WorkerContext, identity: Identity | None, cells: Sequence[PlannedCell]
) -> list[Outcome]:
    """Measure cells of one encoder, whose files must have this identity if it is known."""
    context = _run_context(worker)
    if identity is not None:
        context = replace(context, identities={cells[0].encoder: identity})
    return list(execute(cells, context))
