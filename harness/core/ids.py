"""The grammar of method ids: `bert-base:64.mean+sn+natsv:6@target` and its parts."""

from __future__ import annotations

import re
from dataclasses import dataclass

GRAMMAR = "encoder[:max-length].pooling[:prompt](+post[:argument])*(@fit-corpus)"
METHOD_ID = re.compile(
    r"(?P<encoder>[a-z0-9-]+(?::[0-9]+)?)\.(?P<pooling>[a-z0-9-]+(?::[A-Za-z0-9_-]+)?)"
    r"(?P<post>(?:\+[a-z-]+(?::[a-z0-9.-]+)?)*)(?:@(?P<fit_on>[a-z0-9-]+))?"
)

LONGEST = 150  # characters of an id, which is a folder's name among the records

# The fit corpora that hold the very sentences that are scored.
TRANSDUCTIVE = ("target", "target-splits")


@dataclass(frozen=True)
class MethodId:
    """The parts of an id, as they stand in it; `str` puts them together again.

    `encoder` includes a maximum length, and each of `post` its argument.
    """

    encoder: str
    pooling: str
    post: tuple[str, ...] = ()
    fit_on: str | None = None

    def __str__(self) -> str:
        post = "".join(f"+{name}" for name in self.post)
        return f"{self.encoder}.{self.pooling}{post}" + (f"@{self.fit_on}" if self.fit_on else "")

    @classmethod
    def parse(cls, text: str) -> MethodId | None:
        """Take an id apart; None for a text that does not have its form."""
        match = METHOD_ID.fullmatch(text)
        if match is None:
            return None
        post = tuple(match["post"].split("+")[1:])
        return cls(match["encoder"], match["pooling"], post, match["fit_on"])

    @property
    def complete(self) -> bool:
        """Whether post-processors and the corpus that they are fitted on come together."""
        return bool(self.post) == bool(self.fit_on)


def is_transductive(method: str) -> bool:
    """Whether an id names a method that is fitted on the very sentences that are scored."""
    return method.partition("@")[2] in TRANSDUCTIVE


def is_method_id(text: str) -> bool:
    """Whether a text has the form of a complete id."""
    parsed = MethodId.parse(text)
    return parsed is not None and parsed.complete
