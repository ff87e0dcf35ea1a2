"""Methods by the names that the field has for models: a hub repository, a folder, an encoder.

A model that no pooling is named for means its own (`harness.encoders.own_pooling`), and the id of
the method, which is what is stored, names the one that it resolved to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.ids import GRAMMAR, MethodId
from harness.core.interfaces import EncoderConfig
from harness.core.sources import Hub
from harness.encoders.own_pooling import own_pooling
from harness.evaluation.select import config_for, is_repository, no_file
from harness.registry import Registry, is_glob, nearest
from harness.transforms.pooling import Native


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
