"""The registry: encoders, poolings, post-processors, methods, tasks and corpora by name.

`load_registry` imports the files of `baselines` and `harness.data.tasks`, and collects the
tuples that they end with, and the tuples of plug-ins that are loaded. A `Registry`
finds registered objects by name, and reads the ids of methods. This is the only module
that names the package of baselines, and no module of the engine names a method.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import Any, TypeVar

from harness.core.environment import IS_WHEEL
from harness.core.errors import HarnessError, UsageError
from harness.core.hardware import FLOAT32, Hardware, precision_of
from harness.core.interfaces import EncoderConfig, Pooling, PostProcessor
from harness.core.provenance import PLUGINS, Plugin
from harness.core.types import (
    LONGEST_ID,
    METHOD_GRAMMAR,
    Corpus,
    Method,
    MethodId,
    Task,
)
from harness.data.tasks.loader import OWN_TEXTS, TARGETS
from harness.encoders.config import FunctionConfig
from harness.encoders.native import NativeConfig
from harness.transforms.pooling import LAYER, MIX, NATIVE, ON_REQUEST, POOLINGS, Native

BASELINES_PACKAGE = "harness.baselines" if IS_WHEEL else "baselines"
# The names of what ids are made of; a task's name has a contract of its own.
NAME_FORMS = {
    "encoder": re.compile(r"[a-z0-9-]+"),
    "pooling": re.compile(r"[a-z0-9-]+"),
    "post-processor": re.compile(r"[a-z0-9-]+"),
    "corpus": re.compile(r"[a-z0-9-]+"),
}
NAMES_OFFERED = 12  # known names in the message on an unknown one, at most

Registered = TypeVar("Registered")


@dataclass(frozen=True)
class Registry:
    """All encoders, poolings, post-processors, methods, tasks and corpora, by name.

    Attributes:
        encoders: Encoders by name, without a length.
        poolings: Poolings by their word in ids.
        posts: The functions or classes that make post-processors of the argument after
            the colon, by their words in ids.
        methods: The rows of tables, by id.
        tasks: Tasks by name.
        corpora: Corpora to fit on, by the word after the `@` of an id.

    Examples:
        >>> from harness import load_registry
        >>> sorted(load_registry().poolings)[:6]
        ['cls', 'first-last', 'last2', 'last4', 'layer', 'max']
    """

    encoders: Mapping[str, EncoderConfig]
    poolings: Mapping[str, Pooling]
    posts: Mapping[str, Callable[..., PostProcessor]]
    methods: Mapping[str, Method]
    tasks: Mapping[str, Task]
    corpora: Mapping[str, Corpus]

    def with_encoders(self, extra: Iterable[EncoderConfig]) -> Registry:
        """Another registry, which has these encoders too. A registered name keeps its encoder.

        Examples:
            >>> from harness import TransformerConfig, load_registry
            >>> mine = TransformerConfig(name="mine", repo="my-folder", trained_on="not stated")
            >>> load_registry().with_encoders([mine]).parse("mine.mean").encoder == mine
            True
        """
        encoders = {encoder.name: encoder for encoder in extra}
        encoders.update(self.encoders)
        return replace(self, encoders=encoders)

    @property
    def by_hand(self) -> Mapping[str, EncoderConfig]:
        """The encoders that were added by `with_encoders`, by name."""
        names = self.encoders.keys() - load_registry().encoders.keys()
        return {name: self.encoders[name] for name in names}

    @cached_property
    def in_place_of(self) -> Mapping[str, Sequence[str]]:
        """The encoders that were trained on another corpus in place of one, by the name of this."""
        encoders: dict[str, list[str]] = {}
        for name, config in self.encoders.items():
            original = getattr(config, "in_place_of", "")
            if original:
                encoders.setdefault(original, []).append(name)
        return encoders

    @property
    def tasks_by_name(self) -> Mapping[str, Task]:
        """Tasks by their own names, and by their names in other programs."""
        tasks = dict(self.tasks)
        for task in self.tasks.values():
            for alias in task.aliases:
                tasks.setdefault(alias, task)
        return tasks

    def parse(self, identifier: str) -> Method:
        """Read a method id, registered or composed of registered parts.

        Args:
            identifier:
                `encoder[:max-length].pooling[:argument](+post[:argument])*(@fit-corpus)`.

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
        parts = MethodId.parse(identifier)
        if parts is None or len(identifier) > LONGEST_ID:
            raise UsageError(
                f"{identifier[:LONGEST_ID]!r} is no method id; the form is {METHOD_GRAMMAR}, in "
                f"{LONGEST_ID} characters at most"
            )
        name, _, length = parts.encoder.partition(":")
        dtype = FLOAT32
        if name not in self.encoders:
            name, dtype = precision_of(name)
        remedy = f" If it is your own, give --encoder {name}=PATH"
        encoder = look_up("encoder", name, self.encoders, remedy)
        if dtype != FLOAT32:
            encoder = encoder.on(Hardware(dtype=dtype))
        if length:
            encoder = encoder.with_max_length(int(length))
        word, _, argument = parts.pooling.partition(":")
        pooling = look_up("pooling", word, self.poolings)
        if argument:
            if not hasattr(pooling, "with_argument"):
                raise UsageError(
                    f".{parts.pooling}: {word} takes no argument, as in {METHOD_GRAMMAR}"
                )
            pooling = pooling.with_argument(argument)
        # The vectors of a function are its own already: it has no modules in a folder.
        is_function = isinstance(encoder, FunctionConfig) and not argument
        if isinstance(pooling, Native) and not is_function:
            encoder = NativeConfig(encoder, argument)
        posts = self.parse_posts("+".join(parts.post))
        if parts.fit_on is not None and parts.fit_on != OWN_TEXTS:
            look_up("fit corpus", parts.fit_on, {**TARGETS, **self.corpora})
        return Method(encoder, pooling, posts, parts.fit_on)

    def parse_posts(self, text: str) -> tuple[PostProcessor, ...]:
        """Read post-processors as written in an id, `sn+natsv:6`; an empty text has none.

        Raises:
            UsageError: A word is unknown, or its argument is wrong.

        Examples:
            >>> from harness import load_registry
            >>> [post.name for post in load_registry().parse_posts("sn+natsv:6")]
            ['sn', 'natsv:6']
        """
        posts = []
        for word in text.split("+") if text else ():
            name, _, argument = word.partition(":")
            make = look_up("post-processor", name, self.posts)
            arguments: list[Any] = [argument] if argument else []
            if argument.isdecimal():
                arguments = [int(argument)]
            try:
                posts.append(make(*arguments))
            except TypeError:
                raise UsageError(
                    f"+{word}: wanted the argument of {name}{inspect.signature(make)}, found "
                    f"{argument or 'none'}; the form is {METHOD_GRAMMAR}"
                ) from None
        return tuple(posts)

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
        return _selected(
            patterns,
            self.methods,
            self.parse,
            no_match="-m {!r} matches no registered method: harness list",
        )

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
        tasks = self.tasks_by_name
        return _selected(
            patterns,
            tasks,
            lambda name: look_up("task", name, tasks),
            no_match="-t {!r} matches no task: harness list tasks",
        )


def _selected(
    patterns: Iterable[str],
    things: Mapping[str, Registered],
    find: Callable[[str], Registered],
    no_match: str,
) -> tuple[Registered, ...]:
    """The things that patterns select, in the order of the patterns, without repetitions.

    Args:
        patterns: Globs and names.
        things: The things by name, among which a glob selects.
        find: Finds the thing of a name that is no glob. It raises UsageError.
        no_match: The message on a glob that matches nothing.
    """
    selected: list[Registered] = []
    for pattern in patterns:
        if not is_glob(pattern):
            selected.append(find(pattern))
            continue
        matching = [thing for name, thing in things.items() if matches(name, [pattern])]
        if not matching:
            raise UsageError(no_match.format(pattern))
        selected += matching
    return tuple(dict.fromkeys(selected))


def is_glob(pattern: str) -> bool:
    """Whether the pattern holds a wildcard."""
    return not set("*?[").isdisjoint(pattern)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of the patterns, or a glob among them matches it, in its case."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class UnknownName(UsageError):
    """A name that nothing has. The message offers the nearest names when it is first read.

    Similar names take a millisecond to find, and a reader of results asks of thousands of
    methods whether they are registered.
    """

    def __init__(
        self, kind: str, name: str, known_names: Iterable[str], remedy: str
    ) -> None:
        super().__init__(kind, name, tuple(known_names), remedy)

    @cached_property
    def message(self) -> str:
        """The name, the most similar ones or else some that are known, and the remedy."""
        kind, name, known_names, remedy = self.args
        offered = nearest(name, known_names)
        if not offered:
            shown_names = [*known_names[:NAMES_OFFERED]]
            if len(known_names) > NAMES_OFFERED:
                shown_names.append("…")
            offered = f"known are {', '.join(shown_names)}"
        return f"unknown {kind} {name!r}: {offered}{remedy}"

    def __str__(self) -> str:
        return self.message


def look_up(
    kind: str, name: str, things: Mapping[str, Registered], remedy: str = ""
) -> Registered:
    """The thing of a name. Raises UsageError, which offers the nearest names and the remedy.

    `kind` says in the message what the things are.
    """
    if name not in things:
        raise UnknownName(kind, name, things, remedy)
    return things[name]


def nearest(name: str, names: Iterable[str]) -> str:
    """A question that offers the most similar names in any case; empty without a similar name."""
    name_by_lower = {known_name.lower(): known_name for known_name in names}
    similar_names = difflib.get_close_matches(
        name.lower(), name_by_lower, n=3, cutoff=0.5
    )
    if not similar_names:
        return ""
    offered_names = [name_by_lower[lower_name] for lower_name in similar_names]
    return f"did you mean {' or '.join(offered_names)}?"


# The collection of all that is registered


def load_registry() -> Registry:
    """The registry of all that baselines, tasks and loaded plug-ins register.

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
    """The registry of all that the harness and these imported plug-ins register.

    Methods are collected last, since a file may register one by its id, which is read by
    a registry that has the parts of methods.
    """
    plugin_modules = [sys.modules[plugin.module] for plugin in plugins]
    method_modules = [*_modules(BASELINES_PACKAGE), *plugin_modules]
    task_modules = [*_modules("harness.data.tasks"), *plugin_modules]
    included_poolings = (*POOLINGS, *ON_REQUEST, LAYER, MIX, NATIVE)
    posts: list[tuple[str, Callable[..., PostProcessor]]] = []
    for module in method_modules:
        posts += getattr(module, "POSTS", {}).items()
    for word, make in posts:
        if not callable(make):
            raise HarnessError(
                f"POSTS, {word!r}: wanted a class, or a function of the argument behind the "
                f"colon, found {make!r:.60}: it is called for each method"
            )
    registry = Registry(
        encoders=_by_name("encoder", method_modules, "ENCODERS"),
        poolings=_by_name("pooling", plugin_modules, "POOLINGS", included_poolings),
        posts=_unique("post-processor", posts),
        methods={},
        tasks=_by_name("task", task_modules, "TASKS"),
        corpora=_by_name("corpus", task_modules, "CORPORA"),
    )
    for name in registry.corpora.keys() & {*TARGETS, OWN_TEXTS}:
        raise HarnessError(
            f"the corpus {name!r}: @{name} has a meaning of its own: rename it"
        )
    methods: list[tuple[str, Method]] = []
    for module in method_modules:
        for method in getattr(module, "METHODS", ()):
            if isinstance(method, str):
                method = registry.parse(method)
            methods.append((method.id, method))
    return replace(registry, methods=_unique("method", methods))


def _modules(package: str) -> Iterable[Any]:
    """Every module of a package."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        yield importlib.import_module(f"{package}.{module.name}")


def _by_name(
    kind: str, modules: Iterable[Any], tuple_name: str, included: Iterable[Any] = ()
) -> dict[str, Any]:
    """Things by their `name`: the included ones, and those in the tuples of modules."""
    things = [*included]
    for module in modules:
        things += getattr(module, tuple_name, ())
    return _unique(kind, [(thing.name, thing) for thing in things])


def _unique(
    kind: str, named_things: Iterable[tuple[str, Registered]]
) -> dict[str, Registered]:
    """The things of pairs of name and thing, by name. Raises HarnessError for two of one name."""
    things: dict[str, Registered] = {}
    form = NAME_FORMS.get(kind)
    for name, thing in named_things:
        if form is not None and not form.fullmatch(str(name)):
            raise HarnessError(
                f"wanted a name in small letters as that of the {kind}, with hyphens between "
                f"words, found {name!r:.60}: rename it"
            )
        if name in things:
            raise HarnessError(
                f"two files register the {kind} {name!r}: rename one of them"
            )
        things[name] = thing
    return things
