"""A transformer whose prompts stand with the evaluator that scored it, and not in its folder.

mteb puts instructions of its own before the sentences of some models. They are part of the
encoder's `repr`, so a record states the text, and of the key of its encodings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.core.errors import UsageError
from harness.encoders.transformer import TransformerConfig


@dataclass(frozen=True)
class PromptedConfig(TransformerConfig):
    """A transformer encoder with prompts beside those of its sentence-transformers folder.

    Args:
        prompts: Names and texts: `.native:sts` puts the text called `sts` before each sentence.

    Examples:
        >>> from harness.encoders.prompted import PromptedConfig
        >>> e5 = PromptedConfig("e5", "intfloat/e5-small", prompts=(("sts", "query: "),))
        >>> e5.among({"passage": "passage: "})["sts"]
        'query: '
    """

    prompts: tuple[tuple[str, str], ...] = field(kw_only=True)

    def among(self, own: Mapping[str, str]) -> dict[str, str]:
        """All prompts by name: the folder's own and these.

        Raises UsageError where the folder has another text of one name.
        """
        for name, text in self.prompts:
            if own.get(name, text) != text:
                raise UsageError(
                    f"{self.name}.native:{name}: wanted the prompt {text!r}, found {own[name]!r} "
                    "in the folder; give the registered one another name"
                )
        return {**own, **dict(self.prompts)}
