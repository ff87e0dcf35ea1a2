"""Contracts: which laws hold for which things, and plug-ins that are refused if they break one.

`cases` pairs everything that a registry holds with the laws of its kind; no method or task is
named. `pytest --harness-contracts` runs the cases one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.assets.places import asset_named
from harness.core.errors import UsageError
from harness.core.interfaces import PostProcessor
from harness.core.provenance import PLUGINS, Plugin
from harness.core.types import Corpus, Task
from harness.encoders.function import FunctionConfig
from harness.evaluation.laws import (
    ASSET_LAWS,
    CHAIN_LAWS,
    EMBEDDED_LAWS,
    ENCODER_LAWS,
    FILE_LAWS,
    FROZEN,
    FUNCTION_LAWS,
    METHOD_LAWS,
    MODEL_LAWS,
    MOMENT_CHAIN_LAWS,
    MOMENT_LAWS,
    POOLING_LAWS,
    POST_LAWS,
    TASK_LAWS,
    VALUE_LAWS,
)
from harness.plugins import load_plugins
from harness.registry import Registry, load_registry

# Files that keep the laws, for those whose own does not.
POST, ENCODER, TASK = "baselines/whitening.py", "baselines/minilm.py", "harness/tasks/sts.py"


@dataclass(frozen=True)
class Case:
    """One law over one plug-in, and a file that keeps it."""

    name: str
    check: Callable[..., None]
    keeper: str
    arguments: tuple[Any, ...]

    @property
    def id(self) -> str:
        return f"{self.name}:{self.check.__name__}"

    @property
    def words(self) -> str:
        """The law in words."""
        return self.check.__name__.removeprefix("check_").replace("_", " ")

    def law(self) -> None:
        """Hold the plug-in to the law; a failure says it in words, and where it is kept."""
        try:
            self.check(*self.arguments)
        except Exception as error:
            error.add_note(f"{self.name} breaks the law: {self.words}. {self.keeper} keeps it.")
            raise


def open_plugins(plugins: Iterable[Plugin]) -> None:
    """Load plug-ins. Raises UsageError, which names file, thing and law, where one is broken."""
    for plugin in plugins:
        if plugin.name in PLUGINS:
            continue
        known = {case.id for case in cases(load_registry())}
        load_plugins([plugin])
        registry = load_registry()
        used = {post.name.partition(":")[0] for m in registry.methods.values() for post in m.post}
        if unseen := sorted(registry.posts.keys() - used):  # no law would ever see it
            raise UsageError(
                f"{plugin.origin}: +{unseen[0]} stands in no method; add one, as in METHODS = "
                f'("bert-mini.mean+{unseen[0]}@target",)'
            )
        for case in (case for case in cases(registry) if case.id not in known):
            try:
                case.law()
            except Exception as error:
                raise UsageError(
                    f"{plugin.origin}: {case.name} breaks the law: {case.words}; pytest "
                    f"--harness-contracts --plugin {plugin.origin} shows where"
                ) from error


def cases(registry: Registry) -> Iterator[Case]:
    """Every plug-in of a registry x every law of its kind."""
    methods, encoders = registry.methods, registry.encoders
    chains = {method.post: method for method in methods.values() if method.post}
    posts = extremes(post for chain in chains for post in chain)
    named = {"+" + "+".join(p.name for p in chain): method for chain, method in chains.items()}
    by_moments = {name: m for name, m in named.items() if all(p.from_moments for p in m.post)}
    functions = {n: e for n, e in encoders.items() if isinstance(e, FunctionConfig)}
    files: dict[str, Task | Corpus] = {**registry.tasks, **registry.corpora}
    inside = {name for name, x in files.items() if asset_named(x.asset).embedded}
    for plug_ins, laws, keeper, *further in (
        ({**posts, **registry.poolings}, VALUE_LAWS, POST),
        ({**encoders, **methods, **files}, FROZEN, POST),
        (registry.poolings, POOLING_LAWS, "harness/transforms/pooling.py"),
        (posts, POST_LAWS, POST),
        ({name: p for name, p in posts.items() if p.from_moments}, MOMENT_LAWS, POST),
        (named, CHAIN_LAWS, POST),
        (by_moments, MOMENT_CHAIN_LAWS, POST),
        (methods, METHOD_LAWS, POST, registry),
        (encoders, ENCODER_LAWS, ENCODER),
        (functions, FUNCTION_LAWS, ENCODER),
        ({n: e for n, e in encoders.items() if n not in functions}, MODEL_LAWS, ENCODER),
        (registry.tasks, TASK_LAWS, TASK),
        (files, ASSET_LAWS, TASK),
        ({name: x for name, x in files.items() if name not in inside}, FILE_LAWS, TASK),
        ({name: x for name, x in files.items() if name in inside}, EMBEDDED_LAWS, TASK),
    ):
        for name, plug_in in plug_ins.items():
            yield from (Case(name, law, keeper, (plug_in, *further)) for law in laws)


def extremes(posts: Iterable[PostProcessor]) -> dict[str, PostProcessor]:
    """By name; of those that differ in a count alone the least and the greatest."""
    named = {post.name: post for post in posts}
    counts: dict[str, list[int]] = {}
    for name in named:
        kind, _, argument = name.partition(":")
        if argument.isdigit():
            counts.setdefault(kind, []).append(int(argument))
    between = {f"{kind}:{k}" for kind, ks in counts.items() for k in ks if min(ks) < k < max(ks)}
    return {name: post for name, post in named.items() if name not in between}
