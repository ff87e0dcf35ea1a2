"""The cases of contract tests: every registered thing with every contract of its kind.

`cases` lists the cases of a registry: as soon as a thing is registered, all contracts of
its kind are tested on it. `Case.run` tests one contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.assets.places import asset_named
from harness.contracts import methods, tasks, transforms
from harness.contracts.requirements import describe_error
from harness.core.errors import DataError, HarnessError, first_line, is_interruption
from harness.core.interfaces import PostProcessor
from harness.core.metrics import metrics
from harness.core.types import Corpus, Method, Task
from harness.encoders.function import FunctionConfig
from harness.registry import Registry

# A function of a registered thing that raises AssertionError if the thing breaks a law.
Contract = Callable[..., None]

# Files that keep the contracts, as examples for messages.
ENCODER_FILE = "baselines/minilm.py"
METRIC_FILE = "harness/core/metrics/auc.py"
POOLING_FILE = "harness/transforms/pooling.py"
POST_FILE = "baselines/whitening.py"
TASK_FILE = "harness/tasks/sts.py"


class BrokenContract(AssertionError):
    """A broken contract, in one line: the requirement, the finding and an example that keeps it."""


@dataclass(frozen=True)
class Case:
    """One contract of one registered thing.

    Attributes:
        name: The name of the thing.
        contract: The contract.
        example: A file whose things keep the contract.
        arguments: The arguments of the contract: the thing, for some also the registry.
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
        """Test the contract on the thing. Raises BrokenContract."""
        try:
            self.contract(*self.arguments)
        except BaseException as error:  # a plug-in may even call sys.exit
            if is_interruption(error):
                raise
            raise BrokenContract(self._failure(error)) from error

    def _failure(self, error: BaseException) -> str:
        """The line of a contract that failed by an error."""
        line = first_line(error).removeprefix(f"{self.name}: ")
        if isinstance(error, DataError):
            # The fault is in the data, whatever the contract is.
            return f"{self.name}: {line}"
        if isinstance(error, HarnessError) and line:
            return f"{self.name}: {line} (in a contract test: {self.words})"
        finding = describe_error(error)
        broken_law = f"{self.name} fails a contract test: {self.words}"
        return f"{broken_law}: {finding}; {self.example} keeps it"


def cases(registry: Registry) -> Iterator[Case]:
    """Every contract of everything in a registry."""
    yield from _configuration_cases(registry)
    yield from _transform_cases(registry)
    yield from _encoder_cases(registry)
    yield from _data_cases(registry)


def _configuration_cases(registry: Registry) -> Iterator[Case]:
    """The contracts of configuration, and of methods."""
    # Settings that `repr` writes as an expression, and configuration with other fields.
    settings = {**_post_processors(registry), **registry.poolings}
    configuration = {
        **registry.encoders,
        **registry.methods,
        **registry.tasks,
        **registry.corpora,
    }
    yield from _paired(methods.VALUE_CONTRACTS, settings, POST_FILE)
    yield from _paired(methods.FROZEN_CONTRACTS, configuration, POST_FILE)
    yield from _paired(methods.METHOD_CONTRACTS, registry.methods, POST_FILE, registry)


def _transform_cases(registry: Registry) -> Iterator[Case]:
    """The contracts of poolings, post-processors and the chains that methods make of them."""
    posts = _post_processors(registry)
    moment_posts = {name: post for name, post in posts.items() if post.from_moments}
    chains = _methods_by_chain(registry)
    moment_chains = {
        name: method
        for name, method in chains.items()
        if all(post.from_moments for post in method.post)
    }
    yield from _paired(transforms.POOLING_CONTRACTS, registry.poolings, POOLING_FILE)
    yield from _paired(transforms.POST_CONTRACTS, posts, POST_FILE)
    yield from _paired(transforms.MOMENT_CONTRACTS, moment_posts, POST_FILE)
    yield from _paired(transforms.CHAIN_CONTRACTS, chains, POST_FILE)
    yield from _paired(transforms.MOMENT_CHAIN_CONTRACTS, moment_chains, POST_FILE)


def _encoder_cases(registry: Registry) -> Iterator[Case]:
    """The contracts of encoders: of functions, and of models with weights."""
    functions, models = {}, {}
    for name, encoder in registry.encoders.items():
        if isinstance(encoder, FunctionConfig):
            functions[name] = encoder
        else:
            models[name] = encoder
    yield from _paired(methods.ENCODER_CONTRACTS, registry.encoders, ENCODER_FILE)
    yield from _paired(methods.FUNCTION_CONTRACTS, functions, ENCODER_FILE)
    yield from _paired(methods.MODEL_CONTRACTS, models, ENCODER_FILE)


def _data_cases(registry: Registry) -> Iterator[Case]:
    """The contracts of metrics, tasks and corpora."""
    data: dict[str, Task | Corpus] = {**registry.tasks, **registry.corpora}
    embedded, in_files = {}, {}
    for name, thing in data.items():
        if asset_named(thing.asset).embedded:
            embedded[name] = thing
        else:
            in_files[name] = thing
    yield from _paired(tasks.METRIC_CONTRACTS, metrics(), METRIC_FILE)
    yield from _paired(tasks.TASK_CONTRACTS, registry.tasks, TASK_FILE)
    yield from _paired(tasks.ASSET_CONTRACTS, data, TASK_FILE)
    yield from _paired(tasks.FILE_CONTRACTS, in_files, TASK_FILE)
    yield from _paired(tasks.EMBEDDED_CONTRACTS, embedded, TASK_FILE)


def _paired(
    contracts: Iterable[Contract],
    things: Mapping[str, Any],
    example: str,
    *further_arguments: Any,
) -> Iterator[Case]:
    """A case for each thing and contract.

    Args:
        contracts: The contracts.
        things: The things by their names.
        example: A file whose things keep the contracts.
        *further_arguments: What the contracts take after the thing.
    """
    for name, thing in things.items():
        for contract in contracts:
            yield Case(
                name=name,
                contract=contract,
                example=example,
                arguments=(thing, *further_arguments),
            )


def _methods_by_chain(registry: Registry) -> dict[str, Method]:
    """A method for each chain of post-processors, by its text in ids: `+sn+natsv:6`."""
    method_by_chain = {}
    for method in registry.methods.values():
        if method.post:
            chain = "".join(f"+{post.name}" for post in method.post)
            method_by_chain[chain] = method
    return method_by_chain


def _post_processors(registry: Registry) -> dict[str, PostProcessor]:
    """The post-processors of all methods, by name.

    Of those that differ in a count alone, as `natsv:1` to `natsv:15`, only the ones with
    the smallest and the largest count are taken.
    """
    post_by_name: dict[str, PostProcessor] = {}
    for method in registry.methods.values():
        for post in method.post:
            post_by_name[post.name] = post
    counts: dict[str, list[int]] = {}
    for name in post_by_name:
        word, _, argument = name.partition(":")
        if argument.isdigit():
            counts.setdefault(word, []).append(int(argument))
    chosen = {}
    for name, post in post_by_name.items():
        word, _, argument = name.partition(":")
        if argument.isdigit():
            extreme_counts = (min(counts[word]), max(counts[word]))
            if int(argument) not in extreme_counts:
                continue
        chosen[name] = post
    return chosen
