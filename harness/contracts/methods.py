"""The contracts of configuration, of methods and of encoders.

Methods with their parts, tasks and corpora are configuration: frozen dataclasses. Cells
with equal configuration share what is computed from it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from harness.contracts.requirements import (
    refused,
    require,
    require_close,
    require_equal,
    untouched,
)
from harness.contracts.samples import MISSING_FOLDER
from harness.core.errors import HarnessError
from harness.core.interfaces import EncoderConfig
from harness.core.types import Method, is_method_id
from harness.encoders.function import FunctionConfig
from harness.registry import Registry
from harness.tasks.loader import TARGETS

# Configuration


def check_configuration_is_frozen(thing: Any) -> None:
    """A configuration is a frozen dataclass, and equal settings hash to the same number."""
    require(is_dataclass(type(thing)), "a frozen dataclass", type(thing).__name__)
    is_same_hash = hash(thing) == hash(replace(thing))
    require(is_same_hash, "equal hashes of equal settings", "others")
    for field in fields(thing):
        with suppress(AttributeError):
            setattr(thing, field.name, getattr(thing, field.name))
            # Reached only if the field could be set.
            require(False, "a frozen dataclass", f"that {field.name} can be set")


def check_its_repr_is_it(value: Any) -> None:
    """The `repr` of a value is the expression that makes it."""
    cls = type(value)
    evaluated = eval(repr(value), {cls.__name__: cls})  # noqa: S307 - its own repr
    require_equal(evaluated, value, "its repr to make")


FROZEN_CONTRACTS = (check_configuration_is_frozen,)
VALUE_CONTRACTS = (check_configuration_is_frozen, check_its_repr_is_it)


# Methods


def check_its_id_parses_to_it(method: Method, registry: Registry) -> None:
    """The id of a method is in the grammar of ids, and is read as the method."""
    require(is_method_id(method.id), "a method id", method.id)
    require_equal(registry.parse(method.id), method, "its id to mean")


def check_its_id_is_made_of_registered_parts(
    method: Method, registry: Registry
) -> None:
    """The registered parts that an id names make the method, without its own registration."""
    composed = replace(registry, methods={}).parse(method.id)
    require_equal(repr(composed), repr(method), "its id to make")


def check_its_corpus_is_known(method: Method, registry: Registry) -> None:
    """The corpus that a method is fitted on is registered, or is the sentences of the task."""
    corpora = [*TARGETS, *registry.corpora]
    is_known = method.fit_on is None or method.fit_on in corpora
    require(is_known, f"one of {', '.join(corpora)}", method.fit_on)


def check_it_is_meant_for_some_task(method: Method, registry: Registry) -> None:
    """Each pattern of tasks that a method is meant for matches a registered task."""
    for pattern in method.tasks:
        matches = any(fnmatchcase(task, pattern) for task in registry.tasks)
        require(matches, "globs that match a task", pattern)


METHOD_CONTRACTS = (
    check_its_id_parses_to_it,
    check_its_id_is_made_of_registered_parts,
    check_its_corpus_is_known,
    check_it_is_meant_for_some_task,
)


# Encoders

ENCODER_FIELDS = ("name", "trained_on", "cite", "licence", "source", "identify", "load")


def check_it_says_what_its_weights_are(encoder: EncoderConfig) -> None:
    """An encoder has all attributes of one, and names the texts and licence of its weights."""
    missing_fields = [name for name in ENCODER_FIELDS if not hasattr(encoder, name)]
    requirement = f"the attributes {', '.join(ENCODER_FIELDS)}"
    require(not missing_fields, requirement, f"no {', '.join(missing_fields)}")
    requirement = "trained_on: the texts that its weights have seen"
    require(bool(encoder.trained_on), requirement, "none")
    require(bool(encoder.licence), "the licence of its weights", "none")


def check_missing_weights_are_named_in_one_line(encoder: EncoderConfig) -> None:
    """An encoder whose files are missing raises an error of one line that names them."""
    with refused(HarnessError, str(MISSING_FOLDER)):
        encoder.identify(MISSING_FOLDER)


def check_the_vector_of_a_text_does_not_depend_on_other_texts(
    encoder: FunctionConfig,
) -> None:
    """The vector of a text does not depend on the texts that are encoded with it."""
    texts = ["A man is eating.", "Someone eats.", "A man is eating."]
    together = encoder.vectors(texts)
    require_equal(encoder.identify().key, encoder.identify().key, "the key")
    for text, row in zip(texts, together, strict=True):
        alone = encoder.vectors([text])[:1]
        requirement = f"the same vector of {text!r} alone"
        require_close(alone, row[None], requirement, rtol=1e-3, atol=1e-5)


def check_an_encoder_does_not_write_into_what_it_gave(encoder: FunctionConfig) -> None:
    """An encoding that was returned keeps its numbers when the encoder is called again."""
    loaded = encoder.load()
    with untouched(*loaded.encode(["A man is eating."]).arrays.values()):
        loaded.encode(["Someone eats."])


ENCODER_CONTRACTS = (check_it_says_what_its_weights_are,)
MODEL_CONTRACTS = (check_missing_weights_are_named_in_one_line,)
FUNCTION_CONTRACTS = (
    check_the_vector_of_a_text_does_not_depend_on_other_texts,
    check_an_encoder_does_not_write_into_what_it_gave,
)
