"""Resolve: which methods, tasks and encoders a word of a command line or of a program means.

A method is called by its id or a glob, or by its model alone: an encoder's name, a
repository of the hub, a folder or a file of vectors, which then means the model's own
pooling. An encoder is added by `NAME=PATH` or `NAME=REPO`. A task is called by its
name, mteb's name of it, or a glob.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import METHOD_GRAMMAR, Method, MethodId
from harness.encoders.checkpoint import MODULES_FILE
from harness.encoders.checkpoint_settings import require_nothing_unapplied
from harness.encoders.function import FunctionConfig
from harness.encoders.modules import default_pooling
from harness.encoders.native import bypass_note
from harness.encoders.subword_vectors import SubwordConfig, is_subword_folder
from harness.encoders.transformer import TransformerConfig
from harness.encoders.word_vectors import StaticConfig
from harness.registry import Registry, is_glob, load_registry, nearest
from harness.transforms.pooling import NATIVE, Native

VECTOR_SUFFIXES = (".txt", ".vec", ".npz", ".safetensors", ".gz")


@dataclass
class Resolver:
    """Resolves words one after the other; each model that is new is added to its registry.

    `notes` say what each word stands for, where that is not the word itself, and
    `assumptions` of which models no file says what their pooling is.
    """

    registry: Registry
    places: Places
    notes: dict[str, str] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)

    @classmethod
    def from_options(cls, places: Places, encoders: Iterable[str] = ()) -> Resolver:
        """A resolver that knows the encoders of the places and of `--encoder`'s arguments."""
        resolver = cls(load_registry(), replace(places, encoders={}))
        placed = (f"{name}={path}" for name, path in places.encoders.items())
        for text in (*placed, *encoders):
            name, _, source = text.partition("=")
            if not source or not is_encoder_name(name):
                raise UsageError(
                    f"--encoder {text}: wanted NAME=PATH or NAME=REPO[@REVISION], "
                    "NAME in lower-case letters, digits and hyphens"
                )
            resolver._add(name, source)
        return resolver

    def _add(self, name: str, source: str) -> None:
        """Add an encoder of a path or a repository; a registered name only gets a path."""
        path = Path(source).expanduser().resolve() if _exists(source) else None
        registered = name in self.registry.encoders
        if path is None and (registered or not is_repository(source)):
            raise UsageError(
                f"--encoder {name}={source}: there is no such file or folder"
            )
        if not registered:
            self.registry = self.registry.with_encoders(
                [self._config(name, source, path)]
            )
        if path is not None:
            self.places = replace(
                self.places, encoders={**self.places.encoders, name: path}
            )

    def _config(self, name: str, source: str, path: Path | None) -> EncoderConfig:
        """The configuration for a source, of a repository by the files that were fetched of it."""
        config = config_for(name, source, path)
        here = path is None and self.places.has_encoder(config)
        if here and isinstance(config, TransformerConfig):
            return _of_folder(config, self.places.encoder(config))
        return config

    def method(self, word: str | Path) -> Method:
        """The method that a word means."""
        [identifier] = self.patterns([str(word)])
        return self.registry.parse(identifier)

    def patterns(self, words: Iterable[str]) -> list[str]:
        """The words, with the id of a method in the place of each model; globs as they are."""
        return [word if is_glob(word) else self._identifier(word) for word in words]

    def task_patterns(self, words: Iterable[str]) -> list[str]:
        """The words, with the task's own name in the place of mteb's; what is unknown stays."""
        tasks = self.registry.tasks_by_name
        return [
            self._note(word, tasks[word].name if word in tasks else word)
            for word in words
        ]

    def _note(self, word: str, meaning: str) -> str:
        if meaning != word:
            self.notes[word] = meaning
        return meaning

    def _identifier(self, word: str) -> str:
        poolings = "|".join(map(re.escape, self.registry.poolings))
        form = rf"(?P<model>.+?)(?P<length>:[0-9]+)?(?P<rest>\.(?:{poolings})(?:[:+@].*)?)?"
        match = None if _exists(word) else re.fullmatch(form, word)
        model, length, rest = match.groups() if match else (word, None, None)
        name = self._encoder_name(model)
        if name is not None:
            return self._note(
                word, name + (length or "") + (rest or f".{self._own_pooling(name)}")
            )
        if MethodId.parse(word) is not None:
            return word
        if "/" in word:
            raise UsageError(f"{word}: there is no such file or folder")
        names = (*self.registry.encoders, *self._repositories(), *self.registry.methods)
        near = nearest(word, names) or f"the form is {METHOD_GRAMMAR}"
        raise UsageError(f"{word!r} is no method or model: {near}")

    def _encoder_name(self, model: str) -> str | None:
        """The name of the encoder that a model is, which is added if it is new; or None."""
        if model in self.registry.encoders:
            return model
        repositories = self._repositories()
        if not _exists(model) and (model in repositories or not is_repository(model)):
            return repositories.get(model)
        path = Path(model).expanduser().resolve() if _exists(model) else None
        last = path.name if path else model.partition("@")[0].rpartition("/")[2]
        name = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")
        other, place = self.registry.encoders.get(name), self.places.encoders.get(name)
        same = other is not None and (other, place) == (
            self._config(name, model, path),
            path,
        )
        if not name:
            raise UsageError(
                f"-m {model}: wanted a name with a letter from a to z or a digit, found "
                f"{last!r}; name this one: --encoder NAME={model} -m NAME"
            )
        if other is not None and not same:
            raise UsageError(
                f"-m {model}: another encoder is called {name!r}; name this one: "
                f"--encoder NAME={model} -m NAME"
            )
        if other is None:
            self._add(name, model)
        return name

    def _repositories(self) -> dict[str, str]:
        """The encoders by their repositories on the hub, with and without an owner."""
        hubs = {
            encoder.source.repo: name
            for name, encoder in self.registry.encoders.items()
            if isinstance(encoder.source, Hub)
        }
        return {repo.rpartition("/")[2]: name for repo, name in hubs.items()} | hubs

    def _own_pooling(self, name: str) -> str:
        """The word of an encoder's own pooling, with the prompt of its only registered row."""
        if isinstance(self.registry.encoders[name], FunctionConfig):
            return NATIVE.name
        rows = {
            m.pooling for m in self.registry.methods.values() if m.encoder.name == name
        }
        if len(rows) == 1 and isinstance(row := rows.pop(), Native):
            return row.name
        member = self.registry.encoders[name].member(0)
        place = self.places.encoders.get(name) or self.places.encoder(member)
        word = default_pooling(place)
        if (
            isinstance(member, TransformerConfig)
            and not (place / MODULES_FILE).is_file()
        ):
            self.assumptions.append(
                f"{name}: its folder has no {MODULES_FILE}, which says what a model's own pooling "
                f"is: {name} is {name}.{word} here"
            )
        if word not in self.registry.poolings:
            raise UsageError(
                f"{name}: its own modules are none of the poolings here; name one, as in "
                f"{name}.mean"
            )
        return word


def bypass_notes(
    poolings: Mapping[EncoderConfig, Iterable[str]], registry: Registry, places: Places
) -> Iterator[str]:
    """A line for each encoder given by hand whose modules are bypassed by one of its poolings."""
    for config, names in poolings.items():
        if base_name(config.name) in registry.by_hand and places.has_encoder(config):
            note = bypass_note(config, places.encoder(config), names)
            if note:
                yield note


def is_encoder_name(name: str) -> bool:
    """Whether an id can begin with it: lower-case letters, digits and hyphens."""
    return name.replace("-", "").isalnum() and name == name.lower()


def is_repository(source: str) -> bool:
    """Whether this can be `owner/name[@revision]` on the hub, and is no missing file or folder."""
    is_path = source.startswith((".", "~", "/")) or source.endswith(
        ("/", *VECTOR_SUFFIXES)
    )
    return source.count("/") == 1 and not is_path


def config_for(name: str, source: str, path: Path | None) -> EncoderConfig:
    """The configuration for a source: a file of vectors, a folder, or a hub repository.

    A repository is a transformer's as long as its files are not here.
    """
    unstated = "not stated"
    if path is None:
        repo, _, revision = source.partition("@")
        return TransformerConfig(
            name=name,
            repo=repo,
            revision=revision or None,
            asset=source,
            trained_on=unstated,
        )
    if path.is_file():
        if path.suffix not in VECTOR_SUFFIXES:
            raise UsageError(
                f"--encoder {name}={source}: wanted a model folder or a vector file "
                f"({', '.join(VECTOR_SUFFIXES)})"
            )
        return StaticConfig(name=name, file=path.name, trained_on=unstated)
    if not any((path / file).exists() for file in ("config.json", MODULES_FILE)):
        require_nothing_unapplied(path)  # an adapter alone
        raise UsageError(
            f"--encoder {name}={source}: the folder holds no config.json and no {MODULES_FILE}"
        )
    return _of_folder(
        TransformerConfig(name=name, repo=path.name, trained_on=unstated), path
    )


def _of_folder(config: TransformerConfig, folder: Path) -> EncoderConfig:
    """The configuration, as one of Model2Vec where the folder is."""
    if not is_subword_folder(folder):
        return config
    return SubwordConfig(
        name=config.name,
        repo=config.repo,
        revision=config.revision,
        trained_on=config.trained_on,
    )


def _exists(word: str) -> bool:
    """Whether a path exists; what is too long for a name does not."""
    with suppress(OSError):
        return Path(word).expanduser().exists()
    return False
