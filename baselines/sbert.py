"""SBERT trained on NLI, the authors' released checkpoints, mean pooling.

Reimers & Gurevych 2019, arXiv 1908.10084, Table 1. The released checkpoints score
slightly differently from the paper's own runs (re-training with newer libraries loses
more). The last are later general models with scores in MTEB's results; bge has prompts
there by type of input, and STS has no such type, so its sentences are scored without
one, as here.
"""

from harness.core.types import grid
from harness.encoders.fingerprints import Architecture
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import CLS, MEAN
from .bert import ARCHITECTURES, DOWNLOAD_SIZES

CITE = "reimers2019sbert"
DECAY = "0.4.0: the learning rate decays from the end of the warm-up"  # `FamilyConfig.version`
BERT, ROBERTA = "sbert-nli", "sroberta-nli"


# Commits that public pages of the hub name in full. Weights are those of 2021; both
# have them as safetensors, which came in 2024.
REVISIONS = {
    "bert-base-nli-mean-tokens": "50a3c8e8e115748c99fa4bc49e35758e9a5bb598",
    "bert-large-nli-mean-tokens": "2bedbfb0e573301e8c415062447215018081b198",
}


def nli_checkpoint(name: str, repository: str) -> TransformerConfig:
    """One checkpoint of the sentence-transformers organisation."""
    shape = repository.removesuffix("-nli-mean-tokens")
    return TransformerConfig(
        name,
        repo=f"sentence-transformers/{repository}",
        revision=REVISIONS.get(repository),
        download_size=DOWNLOAD_SIZES[shape],
        architecture=ARCHITECTURES[shape],
        trained_on="SNLI and MNLI, labelled",
        cite=CITE,
        licence="Apache-2.0",
    )


def general(
    name: str,
    repo: str,
    revision: str,
    download_size: int,
    cite: str,
    licence: str = "Apache-2.0",
) -> TransformerConfig:
    """A later encoder of 12 narrow layers, at the revision that MTEB's results name."""
    return TransformerConfig(
        name,
        repo=repo,
        revision=revision,
        download_size=download_size,
        architecture=Architecture(
            model_type="bert", layers=12, width=384, heads=12, vocabulary=30_522
        ),
        trained_on="about a billion pairs from the web, labelled ones among them",
        cite=cite,
        licence=licence,
    )


NLI = (
    nli_checkpoint(f"{BERT}-base", "bert-base-nli-mean-tokens"),
    nli_checkpoint(f"{BERT}-large", "bert-large-nli-mean-tokens"),
    nli_checkpoint(f"{ROBERTA}-base", "roberta-base-nli-mean-tokens"),
    nli_checkpoint(f"{ROBERTA}-large", "roberta-large-nli-mean-tokens"),
)
ORGANISATION = "sentence-transformers"
L12 = general(
    "minilm-l12",
    f"{ORGANISATION}/all-MiniLM-L12-v2",
    "a05860a77cef7b37e0048a7864658139bc18a854",
    134_000_000,
    f"wang2020minilm, {CITE}",
)
BGE = general(
    "bge-small-en",
    "BAAI/bge-small-en-v1.5",
    "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
    134_000_000,
    "xiao2024cpack",
    "MIT",
)

ENCODERS = (*NLI, L12, BGE)

METHODS = (*grid((*NLI, L12), (MEAN,)), *grid((BGE,), (CLS,)))
