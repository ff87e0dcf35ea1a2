"""Models of MTEB's public results, each under its own modules and the prompt of its STS results.

Muennighoff et al. 2023, arXiv 2210.07316. `mteb_models.toml` lists them. A model that
mteb gives an instruction for STS has it as the prompt `sts`; where the model's own
folder has the prompt, it is used by its name there. The pooling is that of the folder.
Models that need code of their repository, or post-processing by mteb, are left out:
their results are published rows alone.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.interfaces import EncoderConfig
from harness.core.toml import read_rows
from harness.core.types import Method
from harness.encoders.fingerprints import Architecture
from harness.encoders.native import NativeConfig, PromptedConfig
from harness.encoders.subword_vectors import SubwordConfig
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import MEAN, Native
from .bert import ARCHITECTURES

SHAPES = {
    **ARCHITECTURES,
    "minilm-l6": Architecture(
        model_type="bert", layers=6, width=384, heads=12, vocabulary=30_522
    ),
    "minilm-l12": Architecture(
        model_type="bert", layers=12, width=384, heads=12, vocabulary=30_522
    ),
    "multilingual-minilm": Architecture(
        model_type="bert", layers=12, width=384, heads=12, vocabulary=250_037
    ),
    "multilingual-bert": Architecture(
        model_type="bert", layers=12, width=768, heads=12, vocabulary=501_153
    ),
    "xlm-roberta-base": Architecture(
        model_type="xlm-roberta", layers=12, width=768, heads=12, vocabulary=250_002
    ),
    "xlm-roberta-large": Architecture(
        model_type="xlm-roberta", layers=24, width=1024, heads=16, vocabulary=250_002
    ),
}
STS = "sts"
# The tasks of the results, in mteb's forms of their texts.
TASKS = ("sts-b", "sick-r.all", "sts1?.senteval")


@dataclass(frozen=True)
class Model:
    """A repository of the hub at a commit, and the name that it has here.

    `shape` is the name of its architecture, where that is known.
    """

    name: str
    repo: str
    revision: str
    megabytes: int
    shape: str = ""


@dataclass(frozen=True)
class Family:
    """Models with one paper, licence and prompt.

    `sts_prompt` is a text of mteb's, `own_prompt` the name of one of the folder's.
    `card_prompt` is a text that the authors ask for and mteb leaves out: the numbers of
    their card are made with it, those of mteb's runs without. `table` marks Model2Vec's
    tables of sub-word vectors.
    """

    cite: str
    licence: str
    trained_on: str
    models: tuple[Model, ...]
    sts_prompt: str = ""
    own_prompt: str = ""
    card_prompt: str = ""
    table: bool = False

    def encoder(self, model: Model) -> EncoderConfig:
        """The encoder of a model."""
        facts: dict[str, Any] = {
            "repo": model.repo,
            "revision": model.revision,
            "download_size": model.megabytes * 1_000_000,
            "trained_on": self.trained_on,
            "cite": self.cite,
            "licence": self.licence,
        }
        if self.table:
            return SubwordConfig(model.name, **facts)
        facts["architecture"] = SHAPES.get(model.shape)
        text = self.sts_prompt or self.card_prompt
        if text:
            return PromptedConfig(model.name, prompts=((STS, text),), **facts)
        return TransformerConfig(model.name, **facts)

    def methods(self, model: Model) -> tuple[Method, ...]:
        """The methods that its published rows name."""
        encoder = self.encoder(model)
        if self.table:
            return (Method(encoder, MEAN, cite=self.cite, tasks=TASKS),)
        prompts = [STS if self.sts_prompt else self.own_prompt]
        if self.card_prompt:
            prompts.append(STS)
        return tuple(
            Method(
                NativeConfig(encoder, prompt),
                Native(prompt),
                cite=self.cite,
                tasks=TASKS,
            )
            for prompt in prompts
        )


FAMILIES = read_rows(Family, Path(__file__).with_name("mteb_models.toml"), "family")

ENCODERS = tuple(
    family.encoder(model) for family in FAMILIES for model in family.models
)
METHODS = tuple(
    method
    for family in FAMILIES
    for model in family.models
    for method in family.methods(model)
)
