"""What the words of a user mean: the only place that decides it.

`resolve` reads the words of a command, one after the other, and answers once, by a
`Resolution`: ids and globs in the place of words, and a registry and places that know
what the words bring. It changes nothing. After it there are only ids and names, which the
registry finds, and globs, which `harness.registry.matches` compares with names.

A word means the first of what it can be:

* for a method: a glob; an id of a registered encoder; a model (an encoder's name, a file or
  folder, a repository of the hub), with the rest of an id or under its own pooling; an id
* for a task: its name, or mteb's name of it; a file of pairs; a glob
* for an encoder, behind `NAME=`: a file or folder; a repository
* for a download: an asset, a bundle of assets or an encoder; a repository
* for the start of a training: a folder; an encoder's name
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import METHOD_GRAMMAR, Method, MethodId
from harness.data.catalogue import BUNDLES, Asset
from harness.data.places import Places, assets_of, every_asset
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
from harness.registry import (
    NAME_FORMS,
    Registry,
    is_glob,
    load_registry,
    look_up,
    matches,
    nearest,
)
from harness.transforms.pooling import NATIVE, Native

VECTOR_SUFFIXES = (".txt", ".vec", ".bin", ".npz", ".safetensors", ".gz")
UNSTATED = "not stated"  # what an encoder of a user was trained on


@dataclass(frozen=True)
class Resolution:
    """The meaning of a command's words.

    Attributes:
        registry: All that is registered, and the encoders and tasks that words bring.
        places: Where files are, with the paths of the encoders that words bring.
        methods: Ids and globs, one for each word.
        tasks: Names and globs, one for each word.
        assumptions: A line for each model whose own pooling is in no file.
    """

    registry: Registry
    places: Places
    methods: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def method(self) -> Method:
        """The method of the only word. Raises UsageError for a glob, and for a wrong id."""
        [identifier] = self.methods
        return self.registry.parse(identifier)

    def selects(self, method: str, task: str) -> bool:
        """Whether the words select records of a method on a task; no words select all."""
        is_method = not self.methods or matches(method, self.methods)
        return is_method and (not self.tasks or matches(task, self.tasks))

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


def resolve(
    places: Places,
    encoders: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
    tasks: Iterable[str] | None = None,
) -> Resolution:
    """The meaning of a command's words; a word may use what those before it bring.

    Args:
        places: Where files are, with the encoders that have a path.
        encoders: The arguments of `--encoder`: NAME=PATH or NAME=REPO[@REVISION].
        methods: The words for methods.
        tasks: The words for tasks.

    Raises:
        UsageError: A word means nothing, or a name is taken.
        AssetMissing: The model whose own pooling is asked for is not on this machine.
    """
    known = Resolution(load_registry(), replace(places, encoders={}))
    for name, path in places.encoders.items():
        known = _with_encoder(known, name, str(path))
    for text in encoders or ():
        name, _, source = text.partition("=")
        if not source or not NAME_FORMS["encoder"].fullmatch(name):
            raise UsageError(
                f"--encoder {text}: wanted NAME=PATH or NAME=REPO[@REVISION], "
                "NAME in lower-case letters, digits and hyphens"
            )
        known = _with_encoder(known, name, source)
    for word in methods or ():
        known = _with_method(known, word)
    for word in tasks or ():
        known = _with_task(known, word)
    return known


# Methods


def _with_method(known: Resolution, word: str) -> Resolution:
    """With the meaning of a word for a method: the word itself, or the id of a model's method.

    A model may be followed by the rest of an id: `org/name`, `org/name:64`,
    `org/name.mean`, `./folder.mean+sn@target`.
    """
    parts = MethodId.parse(word)
    is_id = parts and parts.encoder.partition(":")[0] in known.registry.encoders
    if is_glob(word) or is_id:
        return replace(known, methods=(*known.methods, word))
    model, length, suffix = word, "", ""
    if _existing_path(word) is None:
        poolings = "|".join(map(re.escape, known.registry.poolings))
        form = rf"(.+?)(:[0-9]+)?(\.(?:{poolings})(?:[:+@].*)?)?"
        match = re.fullmatch(form, word)
        if match is not None:
            model, length, suffix = match.groups(default="")
    name = _encoder_name(known, model)
    if name is not None:
        if name not in known.registry.encoders:
            known = _with_encoder(known, name, model)
        if not suffix:
            pooling, assumption = _own_pooling(known, name)
            suffix = f".{pooling}"
            known = replace(known, assumptions=(*known.assumptions, *assumption))
        word = f"{name}{length}{suffix}"
    elif parts is None:
        if "/" in word:
            raise UsageError(f"{word}: there is no such file or folder")
        registry = known.registry
        names = (*registry.encoders, *_repositories(registry), *registry.methods)
        offered = nearest(word, names) or f"the form is {METHOD_GRAMMAR}"
        raise UsageError(f"{word!r} is no method or model: {offered}")
    return replace(known, methods=(*known.methods, word))


def _encoder_name(known: Resolution, model: str) -> str | None:
    """The name of a model's encoder, which may be new; None if it is no model.

    Raises UsageError if another encoder has the name.
    """
    registry = known.registry
    if model in registry.encoders:
        return model
    repositories = _repositories(registry)
    path = _existing_path(model)
    if path is None and model in repositories:
        return repositories[model]
    if path is None and not is_repository(model):
        return None
    title = model.partition("@")[0].rpartition("/")[2] if path is None else path.name
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    if not name:
        raise UsageError(
            f"-m {model}: wanted a name with a letter from a to z or a digit, found "
            f"{title!r}; name this one: --encoder NAME={model} -m NAME"
        )
    namesake = registry.encoders.get(name)
    if namesake is not None:
        its_path = known.places.encoders.get(name)
        if (namesake, its_path) != (_config(known, name, model, path), path):
            raise UsageError(
                f"-m {model}: another encoder is called {name!r}; name this one: "
                f"--encoder NAME={model} -m NAME"
            )
    return name


def _repositories(registry: Registry) -> dict[str, str]:
    """The names of encoders by their repositories on the hub, with and without an owner."""
    names: dict[str, str] = {}
    names_without_owner: dict[str, str] = {}
    for name, encoder in registry.encoders.items():
        if isinstance(encoder.source, Hub):
            repository = encoder.source.repo
            names[repository] = name
            names_without_owner[repository.rpartition("/")[2]] = name
    return {**names_without_owner, **names}


def _own_pooling(known: Resolution, name: str) -> tuple[str, list[str]]:
    """The word for an encoder's own pooling in ids, and a line that says what was assumed.

    If all registered methods of the encoder use its own modules, with one prompt, it is the
    word for them. Otherwise it is read from the encoder's files, and assumed where none
    states it.
    """
    encoder = known.registry.encoders[name]
    if isinstance(encoder, FunctionConfig):
        return NATIVE.name, []
    registered_poolings = {
        method.pooling
        for method in known.registry.methods.values()
        if method.encoder.name == name
    }
    if len(registered_poolings) == 1:
        [pooling] = registered_poolings
        if isinstance(pooling, Native):
            return pooling.name, []
    member = encoder.member(0)
    place = known.places.encoders.get(name) or known.places.encoder(member)
    word = default_pooling(place)
    is_stated = (place / MODULES_FILE).is_file()
    if is_stated or not isinstance(member, TransformerConfig):
        return word, []
    return word, [
        f"{name}: its folder has no {MODULES_FILE}, which says what a model's own pooling "
        f"is: {name} is {name}.{word} here"
    ]


# Tasks


def _with_task(known: Resolution, word: str) -> Resolution:
    """With the meaning of a word for a task: a name of the harness's, or the word itself.

    A file of pairs is a task of the new registry.
    """
    tasks = known.registry.tasks_by_name
    if word in tasks:
        word = tasks[word].name
    elif Path(word).suffix and Path(word).is_file():
        task = task_of_file(Path(word))
        if task.name in tasks:
            raise UsageError(
                f"-t {word}: a task is called {task.name!r}: rename the file"
            )
        added_tasks = {**known.registry.tasks, task.name: task}
        known = replace(known, registry=replace(known.registry, tasks=added_tasks))
        word = task.name
    return replace(known, tasks=(*known.tasks, word))


# Encoders and their sources


def _with_encoder(known: Resolution, name: str, source: str) -> Resolution:
    """With the encoder of a path or a repository. A registered encoder only gets the path."""
    path = _existing_path(source)
    is_registered = name in known.registry.encoders
    if path is None and (is_registered or not is_repository(source)):
        raise UsageError(f"--encoder {name}={source}: there is no such file or folder")
    if not is_registered:
        config = _config(known, name, source, path)
        known = replace(known, registry=known.registry.with_encoders([config]))
    if path is not None:
        encoders = {**known.places.encoders, name: path}
        known = replace(known, places=replace(known.places, encoders=encoders))
    return known


def _config(
    known: Resolution, name: str, source: str, path: Path | None
) -> EncoderConfig:
    """The configuration of an encoder that no file registers.

    If a repository was fetched before, the kind of encoder is read from its files.
    """
    config = config_for(name, source, path)
    if path is None and known.places.has_encoder(config):
        return _of_folder(config, known.places.encoder(config))
    return config


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


# Words of other commands


def things_to_fetch(
    words: Iterable[str], registry: Registry
) -> dict[str, tuple[Asset | EncoderConfig, ...]]:
    """What each word downloads. Raises UsageError for a word that means nothing.

    Most words download one thing; a bundle is the assets of one download.
    """
    things_by_name: dict[str, tuple[Asset | EncoderConfig, ...]] = {}
    assets = every_asset()
    for asset in assets:
        things_by_name[asset.name] = (asset,)
    for name, members in BUNDLES.items():
        things_by_name[name] = tuple(asset for asset in assets if asset.name in members)
    for name, config in registry.encoders.items():
        things_by_name[name] = assets_of(config) or (config,)
    meanings: dict[str, tuple[Asset | EncoderConfig, ...]] = {}
    for word in words:
        if word not in things_by_name and is_repository(word):
            meanings[word] = (config_for(word, word, None),)
        else:
            meanings[word] = look_up("asset", word, things_by_name)
    return meanings


def checkpoint_folder(word: str, registry: Registry, places: Places) -> Path:
    """The folder of the checkpoint that a training starts from. Raises UsageError, AssetMissing."""
    folder = Path(word)
    if folder.is_dir():
        return folder
    return places.encoder(look_up("encoder", word, registry.encoders))
