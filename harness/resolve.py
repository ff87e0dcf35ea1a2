"""The methods, tasks and encoders that the words of a user mean.

A method is named by its id or a glob, or by its model alone: an encoder's name, a
repository of the hub, a folder or a file of vectors, which mean the method with the
model's own pooling. An encoder is added by `NAME=PATH` or `NAME=REPO`. A task is named
by its name, mteb's name of it, or a glob.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import METHOD_GRAMMAR, Method, MethodId
from harness.data.places import Places
from harness.data.tasks.readers import task_of_file
from harness.encoders.checkpoint import MODULES_FILE, require_nothing_unapplied
from harness.encoders.config import FunctionConfig
from harness.encoders.modules import default_pooling
from harness.encoders.native import bypass_note
from harness.encoders.recurrent import ElmoConfig, is_elmo_folder
from harness.encoders.subword_vectors import SubwordConfig, is_subword_folder
from harness.encoders.tensorflow_bert import is_tensorflow_folder
from harness.encoders.transformer import TransformerConfig
from harness.encoders.word_vectors import StaticConfig
from harness.registry import NAME_FORMS, Registry, is_glob, load_registry, nearest
from harness.transforms.pooling import NATIVE, Native

VECTOR_SUFFIXES = (".txt", ".vec", ".bin", ".npz", ".safetensors", ".gz")
UNSTATED = "not stated"  # what an encoder of a user was trained on


@dataclass
class Resolver:
    """Finds the meanings of words, one after the other, and adds new models to its registry.

    Each call of a method may change all three attributes.

    Attributes:
        registry: All that is registered, and the encoders that were added.
        places: Where files are, with the paths of the encoders that were added.
        assumptions: A line for each model whose own pooling is in no file.
    """

    registry: Registry
    places: Places
    assumptions: list[str] = field(default_factory=list)

    @classmethod
    def from_options(
        cls, places: Places, encoders: Iterable[str] | None = None
    ) -> Resolver:
        """A resolver that has the encoders of the places and of `--encoder`'s arguments."""
        resolver = cls(load_registry(), replace(places, encoders={}))
        for name, path in places.encoders.items():
            resolver._add(name, str(path))
        for text in encoders or ():
            name, _, source = text.partition("=")
            if not source or not NAME_FORMS["encoder"].fullmatch(name):
                raise UsageError(
                    f"--encoder {text}: wanted NAME=PATH or NAME=REPO[@REVISION], "
                    "NAME in lower-case letters, digits and hyphens"
                )
            resolver._add(name, source)
        return resolver

    def method(self, word: str | Path) -> Method:
        """The method that a word means. Raises UsageError."""
        [identifier] = self.patterns([str(word)])
        return self.registry.parse(identifier)

    def patterns(self, words: Iterable[str] | None) -> list[str]:
        """The words, each model replaced by the id of its method. Globs stay as they are."""
        return [
            word if is_glob(word) else self._identifier(word) for word in words or ()
        ]

    def task_patterns(self, words: Iterable[str] | None) -> list[str]:
        """The words, mteb's names of tasks replaced by the harness's. Others stay.

        A file of pairs is added to the registry as a task, whose name replaces it.
        """
        patterns = []
        for word in words or ():
            tasks, meaning = self.registry.tasks_by_name, word
            if word in tasks:
                meaning = tasks[word].name
            elif Path(word).suffix and Path(word).is_file():
                task = task_of_file(Path(word))
                if task.name in tasks:
                    raise UsageError(
                        f"-t {word}: a task is called {task.name!r}: rename the file"
                    )
                added_tasks = {**self.registry.tasks, task.name: task}
                self.registry = replace(self.registry, tasks=added_tasks)
                meaning = task.name
            patterns.append(meaning)
        return patterns

    def _identifier(self, word: str) -> str:
        """The id of the method that a word means: the word itself, or its model's method.

        A model may be followed by the rest of an id: `org/name`, `org/name:64`,
        `org/name.mean`, `./folder.mean+sn@target`.
        """
        parts = MethodId.parse(word)
        if parts and parts.encoder.partition(":")[0] in self.registry.encoders:
            return word
        model, length, suffix = word, "", ""
        if _existing_path(word) is None:
            poolings = "|".join(map(re.escape, self.registry.poolings))
            form = rf"(.+?)(:[0-9]+)?(\.(?:{poolings})(?:[:+@].*)?)?"
            match = re.fullmatch(form, word)
            if match is not None:
                model, length, suffix = match.groups(default="")
        name = self._encoder_name(model)
        if name is not None:
            return f"{name}{length}{suffix or f'.{self._own_pooling(name)}'}"
        if parts is not None:
            return word
        if "/" in word:
            raise UsageError(f"{word}: there is no such file or folder")
        names = (*self.registry.encoders, *self._repositories(), *self.registry.methods)
        offered = nearest(word, names) or f"the form is {METHOD_GRAMMAR}"
        raise UsageError(f"{word!r} is no method or model: {offered}")

    # Models

    def _add(self, name: str, source: str) -> None:
        """Add the encoder of a path or a repository. A registered encoder only gets the path."""
        path = _existing_path(source)
        is_registered = name in self.registry.encoders
        if path is None and (is_registered or not is_repository(source)):
            raise UsageError(
                f"--encoder {name}={source}: there is no such file or folder"
            )
        if not is_registered:
            config = self._config(name, source, path)
            self.registry = self.registry.with_encoders([config])
        if path is not None:
            encoders = {**self.places.encoders, name: path}
            self.places = replace(self.places, encoders=encoders)

    def _config(self, name: str, source: str, path: Path | None) -> EncoderConfig:
        """The configuration of an encoder that is added.

        If a repository was fetched before, the kind of encoder is read from its files.
        """
        config = config_for(name, source, path)
        if path is None and self.places.has_encoder(config):
            return _of_folder(config, self.places.encoder(config))
        return config

    def _encoder_name(self, model: str) -> str | None:
        """The name of a model's encoder, which is added if it is new; None if it is no model."""
        if model in self.registry.encoders:
            return model
        repositories = self._repositories()
        path = _existing_path(model)
        if path is None and model in repositories:
            return repositories[model]
        if path is None and not is_repository(model):
            return None
        title = (
            model.partition("@")[0].rpartition("/")[2] if path is None else path.name
        )
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        if not name:
            raise UsageError(
                f"-m {model}: wanted a name with a letter from a to z or a digit, found "
                f"{title!r}; name this one: --encoder NAME={model} -m NAME"
            )
        known = self.registry.encoders.get(name)
        if known is None:
            self._add(name, model)
        elif (known, self.places.encoders.get(name)) != (
            self._config(name, model, path),
            path,
        ):
            raise UsageError(
                f"-m {model}: another encoder is called {name!r}; name this one: "
                f"--encoder NAME={model} -m NAME"
            )
        return name

    def _repositories(self) -> dict[str, str]:
        """The names of encoders by their repositories on the hub, with and without an owner."""
        names: dict[str, str] = {}
        names_without_owner: dict[str, str] = {}
        for name, encoder in self.registry.encoders.items():
            if isinstance(encoder.source, Hub):
                repository = encoder.source.repo
                names[repository] = name
                names_without_owner[repository.rpartition("/")[2]] = name
        return {**names_without_owner, **names}

    def _own_pooling(self, name: str) -> str:
        """The word for an encoder's own pooling in ids.

        If all registered methods of the encoder use its own modules, with one prompt, it
        is the word for them. Otherwise it is read from the encoder's files.
        """
        encoder = self.registry.encoders[name]
        if isinstance(encoder, FunctionConfig):
            return NATIVE.name
        registered_poolings = {
            method.pooling
            for method in self.registry.methods.values()
            if method.encoder.name == name
        }
        if len(registered_poolings) == 1:
            [pooling] = registered_poolings
            if isinstance(pooling, Native):
                return pooling.name
        member = encoder.member(0)
        place = self.places.encoders.get(name) or self.places.encoder(member)
        word = default_pooling(place)
        is_stated = (place / MODULES_FILE).is_file()
        if isinstance(member, TransformerConfig) and not is_stated:
            self.assumptions.append(
                f"{name}: its folder has no {MODULES_FILE}, which says what a model's own pooling "
                f"is: {name} is {name}.{word} here"
            )
        return word

    def bypass_notes(self, methods: Iterable[Method]) -> list[str]:
        """A line for each encoder of the user whose modules one of its methods bypasses."""
        by_hand = self.registry.by_hand
        poolings: dict[EncoderConfig, set[str]] = {}
        for method in methods:
            if base_name(method.encoder.name) in by_hand:
                poolings.setdefault(method.encoder, set()).add(method.pooling.name)
        notes = []
        for config, names in poolings.items():
            if self.places.has_encoder(config):
                note = bypass_note(config, self.places.encoder(config), names)
                if note:
                    notes.append(note)
        return notes


# Sources of encoders


def is_repository(source: str) -> bool:
    """Whether a text can be `owner/name[@revision]` on the hub, and does not look like a path."""
    begins_as_path = source.startswith((".", "~", "/"))
    ends_as_path = source.endswith(("/", *VECTOR_SUFFIXES))
    return source.count("/") == 1 and not begins_as_path and not ends_as_path


def config_for(name: str, source: str, path: Path | None) -> EncoderConfig:
    """The configuration of an encoder that no file registers.

    Args:
        name: Its name.
        source: A file of vectors, a folder, or a hub repository.
        path: The file or folder; None for a repository, which is assumed to hold a
            transformer.
    """
    if path is None:
        repo, _, revision = source.partition("@")
        return TransformerConfig(
            name=name,
            repo=repo,
            revision=revision or None,
            asset=source,
            trained_on=UNSTATED,
        )
    if path.is_file() and path.suffix in VECTOR_SUFFIXES:
        return StaticConfig(name=name, file=path.name, trained_on=UNSTATED)
    if not path.is_dir():
        raise UsageError(
            f"--encoder {name}={source}: wanted a model folder or a vector file "
            f"({', '.join(VECTOR_SUFFIXES)}), found a file of another kind; name another"
        )
    if is_elmo_folder(path):
        return ElmoConfig(name=name, trained_on=UNSTATED)
    is_of_transformers = any(
        (path / file).exists() for file in ("config.json", MODULES_FILE)
    )
    if not is_of_transformers and not is_tensorflow_folder(path):
        require_nothing_unapplied(path)  # raises for the folder of an adapter
        raise UsageError(
            f"--encoder {name}={source}: wanted config.json or {MODULES_FILE} in the folder, or a "
            "BERT in TensorFlow's files, found neither; name a model folder"
        )
    config = TransformerConfig(name=name, repo=path.name, trained_on=UNSTATED)
    return _of_folder(config, path)


def _of_folder(config: EncoderConfig, folder: Path) -> EncoderConfig:
    """The configuration, or the one of a Model2Vec encoder if the folder holds one."""
    if not isinstance(config, TransformerConfig) or not is_subword_folder(folder):
        return config
    return SubwordConfig(
        name=config.name,
        repo=config.repo,
        revision=config.revision,
        trained_on=config.trained_on,
    )


def _existing_path(word: str) -> Path | None:
    """The absolute path of a file or folder; None if there is none of this name."""
    with suppress(OSError):  # the word may be too long for a name
        path = Path(word).expanduser()
        if path.exists():
            return path.resolve()
    return None


# Records that are selected


@dataclass(frozen=True)
class Patterns:
    """Methods and tasks by which records are selected.

    Attributes:
        methods: Ids and globs; none selects all.
        tasks: Names and globs; none selects all.
        registry: What comes with the harness, with the encoders given by hand.
    """

    methods: Sequence[str]
    tasks: Sequence[str]
    registry: Registry

    def selects(self, method: str, task: str) -> bool:
        """Whether records of this method on this task are selected."""
        return _matches(method, self.methods) and _matches(task, self.tasks)

    def require_known(self, recorded: Container[str]) -> None:
        """Raise UsageError for a method that can neither be made here nor is recorded.

        A method of an encoder that is not registered may be anybody's.
        """
        for name in self.methods:
            method_id = None if is_glob(name) else MethodId.parse(name)
            if method_id is None or name in recorded:
                continue
            if base_name(method_id.encoder) in self.registry.encoders:
                self.registry.parse(name)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name matches one of the patterns; without patterns every name does."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
