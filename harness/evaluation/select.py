"""From what was asked for to cells: patterns, defaults, encoders given by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from harness.assets.places import Places
from harness.core.errors import HarnessError, UsageError
from harness.core.interfaces import EncoderConfig, Hub, Packaged, Trained
from harness.core.types import GRAMMAR, Method, MethodId, Task
from harness.encoders.checkpoint import read_json
from harness.encoders.elmo import OPTIONS, WEIGHTS, ElmoConfig
from harness.encoders.modules import MODULES, own_pooling
from harness.encoders.subword_vectors import MODEL_TYPE, SubwordConfig
from harness.encoders.transformer import TransformerConfig
from harness.encoders.word_vectors import StaticConfig
from harness.registry import Registry, is_glob, load_registry, nearest
from harness.results.records import PlannedCell, by_encoder, cells
from harness.transforms.pooling import Native

PROFILES = ("all", "embedded", "standard", "papers")
SHOWN = 8  # of a list of methods in a sentence
EMBEDDED = "embedded"  # the asset that is always there
VECTOR_SUFFIXES = (".txt", ".vec", ".bin", ".npz", ".safetensors", ".gz")


def choose(
    registry: Registry, methods: Sequence[str] | None, tasks: Sequence[str] | None, seeds: int
) -> tuple[PlannedCell, ...]:
    """The cells for patterns; by default every registered method on every task of `default_tasks`.

    A method that is asked for by its id runs wherever it is sent; one that a glob or the default
    selects runs where it is meaningful (`Method.tasks`). Raises UsageError if nothing is left.
    """
    chosen = registry.select_methods(methods or ["*"])
    by_id = {pattern for pattern in methods or () if not is_glob(pattern)}
    on = registry.select_tasks(tasks) if tasks else default_tasks(registry)
    selected = [
        cell
        for method in chosen
        for cell in cells([method], on if method.id in by_id else meaningful(method, on), seeds)
    ]
    if not selected:
        why = left_out(registry, methods, tasks)
        raise UsageError("; ".join(("nothing is left to run", *why)))
    return tuple(sorted(selected, key=order))


def left_out(
    registry: Registry, methods: Sequence[str] | None, tasks: Sequence[str] | None
) -> tuple[str, ...]:
    """A message about methods that a glob selects and that no selected task is meant for.

    One sentence for those that run by their ids all the same, and one for those that cannot.
    """
    if not methods:
        return ()
    named = {pattern for pattern in methods if not is_glob(pattern)}
    on = registry.select_tasks(tasks) if tasks else default_tasks(registry)
    every = [method for method in registry.select_methods(methods) if method.id not in named]
    out = [(method, set(on) - set(meaningful(method, on))) for method in every]
    unable = [m.id for m, left in out if any(_lacks_training_split(m, task) for task in left)]
    unmeant = [m.id for m, left in out if left and m.id not in unable]
    told = []
    if unmeant:
        told.append(
            f"left out, as not registered for every one of these tasks: {_some(unmeant)}; named by "
            "its id (-m ID) each runs on all of them"
        )
    if unable:
        told.append(
            f"left out where a task has no training split to fit on: {_some(unable)}; fit on "
            "@target there"
        )
    return tuple(told)


def _some(names: Sequence[str]) -> str:
    """The number of names and the first few of them."""
    more = f", … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{len(names)} method{'s' * (len(names) > 1)} ({', '.join(names[:SHOWN])}{more})"


def profile(registry: Registry, name: str, papers: Path, seeds: int) -> tuple[PlannedCell, ...]:
    """The cells of a profile, embedded encoders first.

    `embedded` reads nothing but what the harness carries, `standard` is every registered method on
    every task, `papers` every published cell that has a method here, `all` is all of it.
    """
    if name == "embedded":
        every = choose(registry, None, None, seeds)
        return tuple(cell for cell in every if reads_embedded(cell, registry))
    registered = () if name == "papers" else choose(registry, None, None, seeds)
    published = () if name == "standard" else _published(registry, papers, seeds)
    return tuple(
        sorted({cell.address: cell for cell in (*registered, *published)}.values(), key=order)
    )


def reads_embedded(cell: PlannedCell, registry: Registry) -> bool:
    """Whether a cell reads nothing but what the harness carries."""
    corpus = registry.corpora.get(cell.method.fit_on or "")
    assets = {cell.task.asset, *([corpus.asset] if corpus else [])}
    return is_embedded(cell.method.encoder) and assets == {EMBEDDED}


def is_embedded(encoder: EncoderConfig) -> bool:
    """Whether the encoder's files come with the harness, or are made on the spot from such."""
    source = encoder.source
    if isinstance(source, Trained):
        return source.on_the_spot
    return isinstance(source, Packaged) and source.package.startswith("harness/")


def _published(registry: Registry, papers: Path, seeds: int) -> Iterator[PlannedCell]:
    from harness.results.published import load_tables

    for cell in (cell for table in load_tables(papers, registry) for cell in table.cells()):
        if cell.method is None or cell.row.model_free:
            continue
        try:
            method = registry.parse(cell.method)
        except HarnessError:
            continue  # the table says `no method`
        tasks = [registry.tasks[name] for name in (cell.average_of or (cell.task,)) if name]
        yield from cells([method], tasks, seeds)


def order(cell: PlannedCell) -> tuple[bool, str, str, str]:
    """The order of a run: embedded encoders first, then by encoder and pooling to share work."""
    return not is_embedded(cell.method.encoder), *by_encoder(cell)


def default_tasks(registry: Registry) -> tuple[Task, ...]:
    """Every task that is neither a training split nor measured on request alone."""
    tasks = registry.tasks.values()
    return tuple(task for task in tasks if task.scored != (task.train,) and not task.on_request)


def meaningful(method: Method, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks that the method is meant for."""
    return tuple(
        task
        for task in tasks
        if any(fnmatchcase(task.name, pattern) for pattern in method.tasks)
        and not _lacks_training_split(method, task)
    )


def _lacks_training_split(method: Method, task: Task) -> bool:
    return method.fit_on == "target-train" and task.train is None


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
            raise UsageError(f"--encoder {text}: {no_file(source)}")
        if name not in registered.encoders:
            extra.append(config_for(name, source, path if path.exists() else None))
    return registered.with_encoders(extra), paths


def is_encoder_name(name: str) -> bool:
    """Whether an id can begin with it: lower-case letters, digits and hyphens."""
    return name.replace("-", "").isalnum() and name == name.lower()


def no_file(source: str) -> str:
    """An error message for a missing path, with the most similar names in its folder."""
    path = Path(source).expanduser()
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    near = nearest(path.name, (other.name for other in beside))
    return f"there is no file or folder {source}" + (f"; {near}" if near else "")


def is_repository(source: str) -> bool:
    """Whether this can be `owner/name[@revision]` on the hub, and is no missing file or folder."""
    return (
        source.count("/") == 1
        and not source.startswith((".", "~", "/"))
        and not source.endswith(("/", *VECTOR_SUFFIXES))
    )


def config_for(name: str, source: str, path: Path | None) -> EncoderConfig:
    """The configuration for a source: a file of vectors, a folder, or a hub repository."""
    if path is not None and path.is_file():
        if path.suffix not in VECTOR_SUFFIXES:
            raise UsageError(
                f"--encoder {name}={source}: wanted a model folder or a vector file "
                f"({', '.join(VECTOR_SUFFIXES)})"
            )
        return StaticConfig(name=name, file=path.name, trained_on="not stated")
    if path is not None:
        if all(any(path.glob(pattern)) for pattern in (OPTIONS, WEIGHTS)):
            return ElmoConfig(name=name, file=path.name, trained_on="not stated")
        if not any((path / file).exists() for file in ("config.json", MODULES)):
            raise UsageError(
                f"--encoder {name}={source}: the folder holds no config.json and no {MODULES}"
            )
        if read_json(path / "config.json").get("model_type") == MODEL_TYPE:
            return SubwordConfig(name=name, repo=path.name, trained_on="not stated")
        return TransformerConfig(name=name, repo=path.name, trained_on="not stated")
    repo, _, revision = source.partition("@")
    return TransformerConfig(
        name=name,
        repo=repo,
        revision=revision or None,
        asset=source,
        trained_on="not stated",
    )


@dataclass
class Models:
    """The models among patterns of methods, resolved one after the other.

    `registry` grows by each model that is not registered, `paths` by the place of each folder;
    `told` maps what was written to the id that it means.
    """

    registry: Registry
    paths: dict[str, Path]
    told: dict[str, str] = field(default_factory=dict)
    _named: dict[str, str] = field(default_factory=dict)

    def methods(self, patterns: Sequence[str], places: Places) -> list[str]:
        """The patterns, with the id of a method in the place of each model.

        Raises UsageError for a name that means nothing, or two things, and AssetMissing for a
        model whose own pooling is wanted while its files are not here.
        """
        return [p if is_glob(p) else self._method(p, places) for p in patterns]

    def _method(self, text: str, places: Places) -> str:
        model, length, rest = self._apart(text)
        name = self._encoder(model)
        if name is None:
            if MethodId.parse(text) is None:
                raise UsageError(self._unknown(text))
            return text
        config = self.registry.encoders[name]
        method = name + length + (rest or f".{self._own(config, places)}")
        if method != text:
            self.told[text] = method
        return method

    def _apart(self, text: str) -> tuple[str, str, str]:
        """Model, maximum length, and what follows from the pooling on; these two may be empty."""
        poolings = "|".join(map(re.escape, self.registry.poolings))
        form = rf"(?P<model>.+?)(?P<length>:[0-9]+)?(?P<rest>\.(?:{poolings})(?:[:+@].*)?)?"
        match = re.fullmatch(form, text)
        if match is None or _is_there(_place(text)):
            return text, "", ""
        return match["model"], match["length"] or "", match["rest"] or ""

    def _encoder(self, model: str) -> str | None:
        """The name of the encoder that a model is, registered if it is new; None if it is none."""
        if model in self.registry.encoders:
            return model
        path = _place(model)
        if not _is_there(path):
            if (name := dict(self._repositories()).get(model)) is not None:
                return name
            return self._register(model, model, None) if is_repository(model) else None
        return self._register(model, str(path.resolve()), path.resolve())

    def _register(self, model: str, source: str, path: Path | None) -> str:
        """The name of a hub repository or a path, once it is an encoder."""
        if source not in self._named:
            last = source.partition("@")[0] if path is None else source
            name = re.sub(r"[^a-z0-9]+", "-", last.rpartition("/")[2].lower()).strip("-")
            if name in self.registry.encoders or not name:
                raise UsageError(
                    f"-m {model}: another encoder is called {name!r}; name this one: "
                    f"--encoder NAME={model} -m NAME"
                )
            self.registry = self.registry.with_encoders([config_for(name, source, path)])
            self.paths |= {name: path} if path else {}
            self._named[source] = name
        return self._named[source]

    def _repositories(self) -> Iterator[tuple[str, str]]:
        """Repositories on the hub, without their owner and with it, and their encoders."""
        for name, encoder in self.registry.encoders.items():
            if isinstance(encoder.source, Hub):
                yield encoder.source.repo.rpartition("/")[2], name
                yield encoder.source.repo, name

    def _own(self, config: EncoderConfig, places: Places) -> str:
        """The word of an encoder's own pooling, with the prompt of its only registered row."""
        rows = {m.pooling for m in self.registry.methods.values() if m.encoder.name == config.name}
        if len(rows) == 1 and isinstance(row := rows.pop(), Native):
            return row.name
        word = own_pooling(self.paths.get(config.name) or places.encoder(config.member(0)))
        if word not in self.registry.poolings:
            raise UsageError(
                f"{config.name}: its own modules are none of the poolings here; name one, as in "
                f"{config.name}.mean"
            )
        return word

    def _unknown(self, text: str) -> str:
        """In words, that a text is no method and no model."""
        if "/" in text:
            return no_file(text)
        names = (*self.registry.encoders, *dict(self._repositories()), *self.registry.methods)
        return f"{text!r} is no method or model: {nearest(text, names) or f'the form is {GRAMMAR}'}"


def _is_there(path: Path) -> bool:
    """Whether a path exists; what is too long for a name does not."""
    with suppress(OSError):
        return path.exists()
    return False


def _place(text: str) -> Path:
    return Path(text).expanduser()
