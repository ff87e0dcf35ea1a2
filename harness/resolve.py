"""Resolve: which methods, tasks and encoders a word of a command line or of a program means.

A method is called by its id or a glob, or by its model alone: an encoder's name, a repository of
the hub, a folder or a file of vectors, which then means the model's own pooling. An encoder is
added by `NAME=PATH` or `NAME=REPO`. A task is called by its name, mteb's name of it, or a glob.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import GRAMMAR, Method, MethodId, Task
from harness.encoders.checkpoint import read_json
from harness.encoders.elmo import OPTIONS, WEIGHTS, ElmoConfig
from harness.encoders.modules import MODULES, own_pooling
from harness.encoders.subword_vectors import MODEL_TYPE, SubwordConfig
from harness.encoders.transformer import TransformerConfig
from harness.encoders.word_vectors import StaticConfig
from harness.registry import Registry, is_glob, load_registry, nearest
from harness.transforms.pooling import Native

VECTOR_SUFFIXES = (".txt", ".vec", ".bin", ".npz", ".safetensors", ".gz")


@dataclass
class Resolver:
    """Resolves words one after the other; each model that is new is added to its registry.

    Attributes:
        registry: The encoders, methods and tasks by name.
        places: Where files are looked for, those of the models that were added included.
        notes: What each word stands for, where that is not the word itself.
    """

    registry: Registry
    places: Places
    notes: dict[str, str] = field(default_factory=dict)
    _added: dict[str, str] = field(default_factory=dict)  # names by repository or path

    @classmethod
    def of(cls, places: Places, encoders: Iterable[str] = ()) -> Resolver:
        """A resolver that knows the encoders of the places and of `--encoder`'s arguments.

        Raises UsageError for an argument that is no `NAME=PATH` or `NAME=REPO[@REVISION]`.
        """
        known_paths = (f"{name}={path}" for name, path in places.encoders.items())
        registry, paths = encoders_by_hand((*known_paths, *encoders))
        return cls(registry, replace(places, encoders=paths))

    def method(self, word: str | Path) -> Method:
        """The method that a word means.

        Raises UsageError for a word that means nothing, or two things, and AssetMissing for a model
        whose own pooling is wanted while its files are not here.
        """
        [identifier] = self.patterns([str(word)])
        return self.registry.parse(identifier)

    def methods(self, words: Iterable[str]) -> tuple[Method, ...]:
        """The methods that words and globs mean, in their order, without repetitions."""
        return self.registry.select_methods(self.patterns(words))

    def patterns(self, words: Iterable[str]) -> list[str]:
        """The words, with the id of a method in the place of each model; globs as they are."""
        return [word if is_glob(word) else self._identifier(word) for word in words]

    def tasks(self, words: Iterable[str]) -> tuple[Task, ...]:
        """The tasks that names and globs mean, in their order, without repetitions."""
        return self.registry.select_tasks(self.task_patterns(words))

    def task_patterns(self, words: Iterable[str]) -> list[str]:
        """The words, with the task's own name in the place of mteb's; what is unknown stays."""
        return [self._task_name(word) for word in words]

    def encoder(self, word: str) -> EncoderConfig:
        """The encoder that a name, a repository, a folder or a file means.

        Raises UsageError for a word that means none.
        """
        name = self._encoder_name(word)
        if name is None:
            raise UsageError(self._unknown(word))
        return self.registry.encoders[name]

    def _task_name(self, word: str) -> str:
        task = self.registry.tasks_by_name.get(word)
        if task is None or task.name == word:
            return word
        self.notes[word] = task.name
        return task.name

    def _identifier(self, word: str) -> str:
        model, length, rest = self._split(word)
        name = self._encoder_name(model)
        if name is None:
            if MethodId.parse(word) is None:
                raise UsageError(self._unknown(word))
            return word
        identifier = name + length + (rest or f".{self._own_pooling(name)}")
        if identifier != word:
            self.notes[word] = identifier
        return identifier

    def _split(self, word: str) -> tuple[str, str, str]:
        """Model, maximum length, and what follows from the pooling on; these two may be empty."""
        poolings = "|".join(map(re.escape, self.registry.poolings))
        form = rf"(?P<model>.+?)(?P<length>:[0-9]+)?(?P<rest>\.(?:{poolings})(?:[:+@].*)?)?"
        match = re.fullmatch(form, word)
        if match is None or _exists(Path(word).expanduser()):
            return word, "", ""
        return match["model"], match["length"] or "", match["rest"] or ""

    def _encoder_name(self, model: str) -> str | None:
        """The name of the encoder that a model is, which is added if it is new; or None."""
        if model in self.registry.encoders:
            return model
        path = Path(model).expanduser()
        if _exists(path):
            return self._add(model, str(path.resolve()), path.resolve())
        if (name := dict(self._repositories()).get(model)) is not None:
            return name
        return self._add(model, model, None) if is_repository(model) else None

    def _add(self, model: str, source: str, path: Path | None) -> str:
        """The name of a repository or a path, once it is an encoder."""
        if source not in self._added:
            last = source.partition("@")[0] if path is None else source
            name = re.sub(r"[^a-z0-9]+", "-", last.rpartition("/")[2].lower()).strip("-")
            if name in self.registry.encoders or not name:
                raise UsageError(
                    f"-m {model}: another encoder is called {name!r}; name this one: "
                    f"--encoder NAME={model} -m NAME"
                )
            self.registry = self.registry.with_encoders([config_for(name, source, path)])
            if path is not None:
                paths = {**self.places.encoders, name: path}
                self.places = replace(self.places, encoders=paths)
            self._added[source] = name
        return self._added[source]

    def _repositories(self) -> Iterator[tuple[str, str]]:
        """Repositories on the hub, without their owner and with it, and their encoders."""
        for name, encoder in self.registry.encoders.items():
            if isinstance(encoder.source, Hub):
                yield encoder.source.repo.rpartition("/")[2], name
                yield encoder.source.repo, name

    def _own_pooling(self, name: str) -> str:
        """The word of an encoder's own pooling, with the prompt of its only registered row."""
        rows = {m.pooling for m in self.registry.methods.values() if m.encoder.name == name}
        if len(rows) == 1 and isinstance(row := rows.pop(), Native):
            return row.name
        member = self.registry.encoders[name].member(0)
        word = own_pooling(self.places.encoders.get(name) or self.places.encoder(member))
        if word not in self.registry.poolings:
            raise UsageError(
                f"{name}: its own modules are none of the poolings here; name one, as in "
                f"{name}.mean"
            )
        return word

    def _unknown(self, word: str) -> str:
        if "/" in word:
            return _no_file(word)
        names = (*self.registry.encoders, *dict(self._repositories()), *self.registry.methods)
        return f"{word!r} is no method or model: {nearest(word, names) or f'the form is {GRAMMAR}'}"


def encoders_by_hand(given: Iterable[str]) -> tuple[Registry, dict[str, Path]]:
    """The registry with `--encoder NAME=PATH_OR_REPO[@REVISION]` added, and where paths lie.

    A registered name only gets a path: its weights must still be the registered ones.
    """
    registered, paths, extra = load_registry(), {}, []
    for text in given:
        name, equals, source = text.partition("=")
        if not equals or not source or not is_encoder_name(name):
            raise UsageError(
                f"--encoder {text}: wanted NAME=PATH or NAME=REPO[@REVISION], "
                "NAME in lower-case letters, digits and hyphens"
            )
        path = Path(source).expanduser()
        if path.exists():
            paths[name] = path.resolve()
        elif name in registered.encoders or not is_repository(source):
            raise UsageError(f"--encoder {text}: {_no_file(source)}")
        if name not in registered.encoders:
            extra.append(config_for(name, source, paths.get(name)))
    return registered.with_encoders(extra), paths


def is_encoder_name(name: str) -> bool:
    """Whether an id can begin with it: lower-case letters, digits and hyphens."""
    return name.replace("-", "").isalnum() and name == name.lower()


def is_repository(source: str) -> bool:
    """Whether this can be `owner/name[@revision]` on the hub, and is no missing file or folder."""
    return (
        source.count("/") == 1
        and not source.startswith((".", "~", "/"))
        and not source.endswith(("/", *VECTOR_SUFFIXES))
    )


def config_for(name: str, source: str, path: Path | None) -> EncoderConfig:
    """The configuration for a source: a file of vectors, a folder, or a hub repository."""
    unstated = "not stated"
    if path is None:
        repo, _, revision = source.partition("@")
        return TransformerConfig(
            name=name, repo=repo, revision=revision or None, asset=source, trained_on=unstated
        )
    if path.is_file():
        if path.suffix not in VECTOR_SUFFIXES:
            raise UsageError(
                f"--encoder {name}={source}: wanted a model folder or a vector file "
                f"({', '.join(VECTOR_SUFFIXES)})"
            )
        return StaticConfig(name=name, file=path.name, trained_on=unstated)
    if all(any(path.glob(pattern)) for pattern in (OPTIONS, WEIGHTS)):
        return ElmoConfig(name=name, file=path.name, trained_on=unstated)
    if not any((path / file).exists() for file in ("config.json", MODULES)):
        raise UsageError(
            f"--encoder {name}={source}: the folder holds no config.json and no {MODULES}"
        )
    if read_json(path / "config.json").get("model_type") == MODEL_TYPE:
        return SubwordConfig(name=name, repo=path.name, trained_on=unstated)
    return TransformerConfig(name=name, repo=path.name, trained_on=unstated)


def _no_file(source: str) -> str:
    """An error message for a missing path, with the most similar names in its folder."""
    path = Path(source).expanduser()
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    near = nearest(path.name, (other.name for other in beside))
    return f"there is no file or folder {source}" + (f"; {near}" if near else "")


def _exists(path: Path) -> bool:
    """Whether a path exists; what is too long for a name does not."""
    with suppress(OSError):
        return path.exists()
    return False
