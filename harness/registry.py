"""The registry: encoders, poolings, post-processors, methods, tasks and corpora by name.

The registry walks the folders `baselines` and `harness.tasks` and collects the tuples
that their files end with. This is the only module that names the package of baselines,
and no module of the engine names a method.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any, TypeVar

from harness.core.errors import HarnessError, UsageError
from harness.core.hardware import FLOAT32, Hardware, precision_of
from harness.core.interfaces import EncoderConfig, Pooling, PostProcessor
from harness.core.layout import IS_WHEEL
from harness.core.provenance import PLUGINS, Plugin
from harness.core.types import (
    LONGEST_ID,
    METHOD_GRAMMAR,
    Corpus,
    Method,
    MethodId,
    Task,
)
from harness.encoders.function import FunctionConfig
from harness.encoders.native import NativeConfig
from harness.tasks.loader import OWN_TEXTS, TARGETS
from harness.transforms.pooling import NATIVE, POOLINGS, Native

BASELINES_PACKAGE = "harness.baselines" if IS_WHEEL else "baselines"
FIT_WORDS = (*TARGETS, OWN_TEXTS)  # what `@` may name that is no corpus

Registered = TypeVar("Registered")


@dataclass(frozen=True)
class Registry:
    """All encoders, poolings, post-processors, methods, tasks and corpora, by name.

    Attributes:
        encoders: Encoders by name, without a length.
        poolings: Poolings by their word in ids.
        posts: What makes a post-processor of the argument after its colon, by its word
            in ids.
        methods: The rows of tables, by id.
        tasks: Tasks by name.
        corpora: Corpora to fit on, by the word after the `@` of an id.

    Examples:
        >>> from harness import load_registry
        >>> sorted(load_registry().poolings)[:6]
        ['cls', 'first-last', 'last2', 'mean', 'native', 'pooler']
    """

    encoders: Mapping[str, EncoderConfig]
    poolings: Mapping[str, Pooling]
    posts: Mapping[str, Callable[..., PostProcessor]]
    methods: Mapping[str, Method]
    tasks: Mapping[str, Task]
    corpora: Mapping[str, Corpus]

    def with_encoders(self, extra: Iterable[EncoderConfig]) -> Registry:
        """Another registry, which knows these encoders too, but for those of a registered name.

        Examples:
            >>> from harness import TransformerConfig, load_registry
            >>> mine = TransformerConfig(name="mine", repo="my-folder", trained_on="not stated")
            >>> load_registry().with_encoders([mine]).parse("mine.mean").encoder == mine
            True
        """
        return replace(self, encoders={**{e.name: e for e in extra}, **self.encoders})

    @property
    def by_hand(self) -> Mapping[str, EncoderConfig]:
        """The encoders that were added to those that come with the harness, by name."""
        registered = load_registry().encoders
        return {name: e for name, e in self.encoders.items() if name not in registered}

    @property
    def tasks_by_name(self) -> Mapping[str, Task]:
        """Tasks by their own names, and by the aliases that other programs know them by."""
        aliased = (
            (alias, task) for task in self.tasks.values() for alias in task.aliases
        )
        return _unique("task", (*self.tasks.items(), *aliased))

    def parse(self, identifier: str) -> Method:
        """Read a method id, registered or composed of registered parts.

        Args:
            identifier:
                `encoder[:max-length].pooling[:prompt](+post[:argument])*(@fit-corpus)`.

        Returns:
            The method, whose `id` is the identifier.

        Raises:
            UsageError: It is no id, or one of its words is unknown; the nearest ones
                are offered.

        Examples:
            >>> from harness import load_registry
            >>> method = load_registry().parse("bert-mini:64.mean+sn+natsv:6@target")
            >>> method.encoder.max_length, method.post[1].k, method.transductive
            (64, 6, True)
        """
        if identifier in self.methods:
            return self.methods[identifier]
        if len(identifier) > LONGEST_ID:
            raise UsageError(
                f"{identifier[:40]}…: wanted a method id of {LONGEST_ID} characters at most, found "
                f"{len(identifier):,}"
            )
        parts = MethodId.parse(identifier)
        if parts is None:
            raise UsageError(
                f"{identifier!r} is no method id; the form is {METHOD_GRAMMAR}"
            )
        encoder = self._encoder(parts.encoder)
        posts = self.parse_posts("+".join(parts.post))
        if parts.fit_on is not None and parts.fit_on not in FIT_WORDS:
            look_up(
                "fit corpus", parts.fit_on, {**dict.fromkeys(TARGETS), **self.corpora}
            )
        word, _, prompt = parts.pooling.partition(":")
        pooling = look_up("pooling", word, self.poolings)
        if pooling == NATIVE and isinstance(encoder, FunctionConfig) and not prompt:
            pass  # it has no other modules
        elif pooling == NATIVE:
            encoder, pooling = NativeConfig(encoder, prompt), Native(prompt)
        elif prompt:
            raise UsageError(
                f".{parts.pooling}: {word} takes no argument, as in {METHOD_GRAMMAR}"
            )
        return Method(encoder, pooling, posts, parts.fit_on)

    def _encoder(self, text: str) -> EncoderConfig:
        name, _, length = text.partition(":")
        base, dtype = (name, FLOAT32) if name in self.encoders else precision_of(name)
        remedy = f" If it is your own, give --encoder {base}=PATH"
        encoder = look_up("encoder", base, self.encoders, remedy)
        if dtype != FLOAT32:
            encoder = encoder.on(Hardware(dtype=dtype))
        return encoder.with_max_length(int(length)) if length else encoder

    def parse_posts(self, text: str) -> tuple[PostProcessor, ...]:
        """Read post-processors as written in an id, `sn+natsv:6`, or none of an empty text.

        Raises:
            UsageError: A word is unknown, or its argument is wrong.

        Examples:
            >>> from harness import load_registry
            >>> [post.name for post in load_registry().parse_posts("sn+natsv:6")]
            ['sn', 'natsv:6']
        """
        return tuple(map(self._post, text.split("+"))) if text else ()

    def _post(self, text: str) -> PostProcessor:
        name, _, argument = text.partition(":")
        make = look_up("post-processor", name, self.posts)
        arguments = (
            [int(argument) if argument.isdecimal() else argument] if argument else []
        )
        signature = _signature(make)
        try:
            signature.bind(*arguments)
        except TypeError:
            count = "no" if argument else "an"
            raise UsageError(
                f"+{text}: {name} takes {count} argument, as in {METHOD_GRAMMAR}"
            ) from None
        wanted = next((p.annotation for p in signature.parameters.values()), None)
        if wanted in (int, int | None) and argument and not argument.isdecimal():
            raise UsageError(
                f"+{text}: {name} takes a whole number, as in {METHOD_GRAMMAR}"
            )
        return make(*arguments)

    def select_methods(self, patterns: Iterable[str]) -> tuple[Method, ...]:
        """Select methods by globs, for registered ones, and by ids, which may be compositions.

        Returns:
            The methods in the order of the patterns, without repetitions.

        Raises:
            UsageError: A glob selects nothing, or an id is wrong.

        Examples:
            >>> from harness import load_registry
            >>> selected = load_registry().select_methods(["minilm.mean", "glove-mini.mean*"])
            >>> [method.id for method in selected][:3]
            ['minilm.mean', 'glove-mini.mean', 'glove-mini.mean+sn@target']
        """
        none = "-m {!r} matches no registered method: harness list"
        return _selected(patterns, self.methods, self.parse, none)

    def select_tasks(self, patterns: Iterable[str]) -> tuple[Task, ...]:
        """Select tasks by globs, and by names: a task's own or mteb's, each in its own spelling.

        Returns:
            The tasks in the order of the patterns, without repetitions.

        Raises:
            UsageError: A glob or a name selects nothing.

        Examples:
            >>> from harness import load_registry
            >>> [task.name for task in load_registry().select_tasks(["sts1?", "sts-b"])]
            ['sts12', 'sts13', 'sts14', 'sts15', 'sts16', 'sts-b']
            >>> [task.name for task in load_registry().select_tasks(["SICK-R", "STS12"])]
            ['sick-r.all', 'sts12.senteval']
        """
        none = "-t {!r} matches no task: harness list tasks"
        names = self.tasks_by_name
        return _selected(patterns, names, partial(look_up, "task", things=names), none)


def _selected(
    patterns: Iterable[str],
    things: Mapping[str, Registered],
    named: Callable[[str], Registered],
    none: str,
) -> tuple[Registered, ...]:
    """The things that globs match and names name, in their order, without repetitions."""
    chosen: list[Registered] = []
    for pattern in patterns:
        if is_glob(pattern):
            hits = [
                thing for name, thing in things.items() if fnmatchcase(name, pattern)
            ]
            if not hits:
                raise UsageError(none.format(pattern))
        else:
            hits = [named(pattern)]
        chosen += hits
    return tuple(dict.fromkeys(chosen))


@cache  # a report reads hundreds of ids
def _signature(make: Callable[..., PostProcessor]) -> inspect.Signature:
    """The arguments that make a post-processor, with their types."""
    return inspect.signature(make, eval_str=True)


def is_glob(pattern: str) -> bool:
    """Whether the pattern holds a wildcard."""
    return any(character in pattern for character in "*?[")


def look_up(
    kind: str, name: str, things: Mapping[str, Registered], remedy: str = ""
) -> Registered:
    """The thing of that name. Raises UsageError, which offers the nearest ones and the remedy."""
    if name in things:
        return things[name]
    some = ", ".join([*things][:12]) + (", …" if len(things) > 12 else "")
    offered = nearest(name, things) or f"known are {some}"
    raise UsageError(f"unknown {kind} {name!r}: {offered}{remedy}")


def nearest(name: str, names: Iterable[str]) -> str:
    """A question that offers the most similar names, ignoring case; empty without a similar one."""
    spelled = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), spelled, n=3, cutoff=0.5)
    return (
        f"did you mean {' or '.join(spelled[lower] for lower in near)}?" if near else ""
    )


def load_registry() -> Registry:
    """Everything that the files of `baselines` and `harness.tasks` end with, and loaded plug-ins.

    Returns:
        The registry; a later call returns it again.

    Raises:
        HarnessError: Two files register one name.

    Examples:
        >>> from harness import load_registry
        >>> "bert-mini.mean+whitening@target" in load_registry().methods
        True
    """
    return collected(tuple(PLUGINS.values()))


@cache
def collected(plugins: tuple[Plugin, ...] = ()) -> Registry:
    """What comes with the harness, and what imported plug-ins register."""
    added = [sys.modules[plugin.module] for plugin in plugins]
    baselines = (*_modules(BASELINES_PACKAGE), *added)
    tasks = (*_modules("harness.tasks"), *added)
    poolings = (*POOLINGS, NATIVE, *_collected(added, "POOLINGS"))
    posts = (
        post for module in baselines for post in getattr(module, "POSTS", {}).items()
    )
    parts = Registry(
        encoders=_unique(
            "encoder", ((e.name, e) for e in _collected(baselines, "ENCODERS"))
        ),
        poolings=_unique("pooling", ((p.name, p) for p in poolings)),
        posts=_unique("post-processor", posts),
        methods={},
        tasks=_unique("task", ((t.name, t) for t in _collected(tasks, "TASKS"))),
        corpora=_unique("corpus", ((c.name, c) for c in _collected(tasks, "CORPORA"))),
    )
    for name in parts.corpora:
        if name in FIT_WORDS:
            raise HarnessError(
                f"the corpus {name!r}: @{name} has a meaning of its own: rename it"
            )
    rows = _collected(baselines, "METHODS")
    methods = (parts.parse(row) if isinstance(row, str) else row for row in rows)
    return replace(parts, methods=_unique("method", ((x.id, x) for x in methods)))


def _modules(package: str) -> Iterable[Any]:
    """Every module of a package."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        yield importlib.import_module(f"{package}.{module.name}")


def _collected(modules: Iterable[Any], name: str) -> Iterable[Any]:
    return (thing for module in modules for thing in getattr(module, name, ()))


def _unique(
    kind: str, named: Iterable[tuple[str, Registered]]
) -> dict[str, Registered]:
    things: dict[str, Registered] = {}
    for name, thing in named:
        if name in things:
            raise HarnessError(
                f"two files register the {kind} {name!r}: rename one of them"
            )
        things[name] = thing
    return things
