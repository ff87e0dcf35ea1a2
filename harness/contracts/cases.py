"""Every registered thing with every contract of its kind.

A thing that is registered is held to all contracts of its kind as soon as it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.assets.places import asset_named
from harness.contracts import methods, tasks, transforms
from harness.contracts.requirements import found_in
from harness.core.errors import DataError, is_interruption
from harness.core.interfaces import PostProcessor
from harness.core.metrics import metrics
from harness.core.types import Corpus, Method, Task
from harness.encoders.function import FunctionConfig
from harness.registry import Registry

Contract = Callable[..., None]  # raises AssertionError where it is broken

# Files that keep the contracts, as examples for who breaks one.
ENCODER_FILE = "baselines/minilm.py"
METRIC_FILE = "harness/core/metrics/auc.py"
POOLING_FILE = "harness/transforms/pooling.py"
POST_FILE = "baselines/whitening.py"
TASK_FILE = "harness/tasks/sts.py"


class BrokenContract(AssertionError):
    """A contract that is broken, in one line: what it wants, what was found, what keeps it."""


@dataclass(frozen=True)
class Case:
    """One contract of one registered thing.

    Attributes:
        name: The name of the thing.
        contract: What the thing is held to.
        example: A file that keeps the contract.
        arguments: The thing, and what else the contract is called with.
    """

    name: str
    contract: Contract
    example: str
    arguments: tuple[Any, ...]

    @property
    def id(self) -> str:
        """The id of its test."""
        return f"{self.name}:{self.contract.__name__}"

    @property
    def words(self) -> str:
        """The contract in words."""
        return self.contract.__name__.removeprefix("check_").replace("_", " ")

    def run(self) -> None:
        """Hold the thing to the contract.

        Raises BrokenContract: what the contract wants, what was found, and a file that
        keeps it.
        """
        try:
            self.contract(*self.arguments)
        except BaseException as error:
            if is_interruption(error):
                raise
            if isinstance(
                error, DataError
            ):  # the fault is in the data, whatever the contract is
                raise BrokenContract(f"{self.name}: {error}") from error
            raise BrokenContract(
                f"{self.name} fails a contract test: {self.words}: {found_in(error)}. "
                f"{self.example} keeps it."
            ) from error


def cases(registry: Registry) -> Iterator[Case]:
    """Every contract of everything in a registry."""
    yield from _of_configuration(registry)
    yield from _of_transforms(registry)
    yield from _of_encoders(registry)
    yield from _of_data(registry)


def _of_configuration(registry: Registry) -> Iterator[Case]:
    """The contracts of frozen values, and of methods."""
    values = {**_post_processors(registry), **registry.poolings}
    frozen = {
        **registry.encoders,
        **registry.methods,
        **registry.tasks,
        **registry.corpora,
    }
    yield from _held_to(methods.VALUE_CONTRACTS, values, POST_FILE)
    yield from _held_to(methods.FROZEN_CONTRACTS, frozen, POST_FILE)
    yield from _held_to(methods.METHOD_CONTRACTS, registry.methods, POST_FILE, registry)


def _of_transforms(registry: Registry) -> Iterator[Case]:
    """The contracts of poolings, post-processors and the chains that methods make of them."""
    posts = _post_processors(registry)
    moment_posts = {name: post for name, post in posts.items() if post.from_moments}
    chains = _chains(registry)
    moment_chains = {
        name: method
        for name, method in chains.items()
        if all(post.from_moments for post in method.post)
    }
    yield from _held_to(transforms.POOLING_CONTRACTS, registry.poolings, POOLING_FILE)
    yield from _held_to(transforms.POST_CONTRACTS, posts, POST_FILE)
    yield from _held_to(transforms.MOMENT_CONTRACTS, moment_posts, POST_FILE)
    yield from _held_to(transforms.CHAIN_CONTRACTS, chains, POST_FILE)
    yield from _held_to(transforms.MOMENT_CHAIN_CONTRACTS, moment_chains, POST_FILE)


def _of_encoders(registry: Registry) -> Iterator[Case]:
    """The contracts of encoders: of functions, and of models with weights."""
    encoders = registry.encoders
    functions = {
        name: x for name, x in encoders.items() if isinstance(x, FunctionConfig)
    }
    models = {name: x for name, x in encoders.items() if name not in functions}
    yield from _held_to(methods.ENCODER_CONTRACTS, encoders, ENCODER_FILE)
    yield from _held_to(methods.FUNCTION_CONTRACTS, functions, ENCODER_FILE)
    yield from _held_to(methods.MODEL_CONTRACTS, models, ENCODER_FILE)


def _of_data(registry: Registry) -> Iterator[Case]:
    """The contracts of metrics, and of tasks and corpora, which read files or come along."""
    data: dict[str, Task | Corpus] = {**registry.tasks, **registry.corpora}
    embedded = {name: x for name, x in data.items() if asset_named(x.asset).embedded}
    files = {name: x for name, x in data.items() if name not in embedded}
    yield from _held_to(tasks.METRIC_CONTRACTS, metrics(), METRIC_FILE)
    yield from _held_to(tasks.TASK_CONTRACTS, registry.tasks, TASK_FILE)
    yield from _held_to(tasks.ASSET_CONTRACTS, data, TASK_FILE)
    yield from _held_to(tasks.FILE_CONTRACTS, files, TASK_FILE)
    yield from _held_to(tasks.EMBEDDED_CONTRACTS, embedded, TASK_FILE)


def _held_to(
    contracts: Iterable[Contract],
    things: Mapping[str, Any],
    example: str,
    *further: Any,
) -> Iterator[Case]:
    """Each of these contracts, which take `further` arguments, for each of these things."""
    for name, thing in things.items():
        for contract in contracts:
            yield Case(name, contract, example, arguments=(thing, *further))


def _chains(registry: Registry) -> dict[str, Method]:
    """A method for each chain of post-processors, by the chain as it is written in its id."""
    with_posts = (method for method in registry.methods.values() if method.post)
    by_chain = {method.post: method for method in with_posts}
    return {
        "".join(f"+{post.name}" for post in chain): m for chain, m in by_chain.items()
    }


def _post_processors(registry: Registry) -> dict[str, PostProcessor]:
    """The post-processors of all methods, by name.

    Of those whose names differ in a count alone, the ones with the least and the
    greatest count.
    """
    named = {post.name: post for m in registry.methods.values() for post in m.post}
    counts: dict[str, list[int]] = {}
    for name in named:
        word, _, argument = name.partition(":")
        if argument.isdigit():
            counts.setdefault(word, []).append(int(argument))
    kept = {}
    for name, post in named.items():
        word, _, argument = name.partition(":")
        if not argument.isdigit() or int(argument) in (
            min(counts[word]),
            max(counts[word]),
        ):
            kept[name] = post
    return kept
