"""Checkpoints of later works on unsupervised contrastive learning, read as their authors do.

ESimCSE repeats words of a positive and adds momentum (Wu et al. 2022, arXiv
2109.04380); InfoCSE adds a masked language model (Wu et al. 2022, arXiv 2210.06432);
WhitenedCSE whitens groups of coordinates in training (Zhuo et al. 2023, arXiv
2305.17746); DiffCSE also learns to find the words that a masked language model replaced
(Chuang et al. 2022, arXiv 2204.10298); SCD decorrelates features without negatives
(Klein & Nabi 2022, arXiv 2203.07847); Mirror-BERT masks or drops parts of 10,000 texts
(Liu et al. 2021, arXiv 2104.08027). None is trained here: these are the released
checkpoints. All are read at [CLS] before the pooler, except WhitenedCSE's, whose README
evaluates them after it. Mirror-BERT's evaluation cuts texts at 64 tokens. A commit that
no public page names is recorded on first use.
"""

from harness.core.types import grid
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import CLS, POOLER
from .bert import ARCHITECTURES, DOWNLOAD_SIZES
from .simcse import TRAINED_ON

WIKIPEDIA = TRAINED_ON["unsup"]
UNLABELLED_WIKIPEDIA = "1 M Wikipedia sentences, unlabelled"
UNSTATED = "none stated for the weights"


def checkpoint(
    name: str, repo: str, cite: str, shape: str, trained_on: str = WIKIPEDIA
) -> TransformerConfig:
    """One released checkpoint.

    Args:
        name: The encoder's name here.
        repo: Its repository on the hub.
        cite: The key of its paper.
        shape: The model that it was tuned from, a key of `DOWNLOAD_SIZES`.
        trained_on: The data of the tuning.
    """
    return TransformerConfig(
        name,
        repo=repo,
        download_size=DOWNLOAD_SIZES[shape],
        architecture=ARCHITECTURES[shape],
        trained_on=trained_on,
        cite=cite,
        licence=UNSTATED,
    )


ESIMCSE = tuple(
    checkpoint(f"esimcse-{shape}", f"ffgcc/esimcse-{model}", "wu2022esimcse", shape)
    for shape, model in (
        ("bert-base", "bert-base-uncased"),
        ("bert-large", "bert-large-uncased"),
        ("roberta-base", "roberta-base"),
        ("roberta-large", "roberta-large"),
    )
)

INFOCSE = (
    checkpoint(
        "infocse-bert-base", "ffgcc/InfoCSE-bert-base", "wu2022infocse", "bert-base"
    ),
    checkpoint(
        "infocse-bert-base-rtd",
        "caskcsg/InfoCSE-bert-base-rtd",
        "wu2022infocse",
        "bert-base",
    ),
    checkpoint(
        "infocse-bert-large", "ffgcc/InfoCSE-bert-large", "wu2022infocse", "bert-large"
    ),
)

WHITENEDCSE = tuple(
    checkpoint(
        f"whitenedcse-{shape}",
        f"SupstarZh/whitenedcse-{shape}",
        "zhuo2023whitenedcse",
        shape,
    )
    for shape in ("bert-base", "bert-large")
)

# Each file holds the discriminator and the generator of the training, too, and none has a
# pooler. The models `-trans` are those of the transfer tasks.
DIFFCSE = tuple(
    TransformerConfig(
        name,
        repo=f"voidism/{repository}",
        revision=revision,
        download_size=download_size,
        architecture=ARCHITECTURES[
            name.removeprefix("diffcse-").removesuffix("-trans")
        ],
        trained_on=trained_on,
        cite="chuang2022diffcse",
        licence="Apache-2.0",
    )
    for name, repository, revision, download_size, trained_on in (
        (
            "diffcse-bert-base",
            "diffcse-bert-base-uncased-sts",
            "ea605f716bd57f97407640374487c2c9effc94af",
            1_245_300_000,
            WIKIPEDIA,
        ),
        (
            "diffcse-roberta-base",
            "diffcse-roberta-base-sts",
            "86997f384192a00b3fdc451cf1d2ec47d32fa138",
            1_490_000_000,
            WIKIPEDIA,
        ),
        (
            "diffcse-bert-base-trans",
            "diffcse-bert-base-uncased-trans",
            None,
            1_245_300_000,
            UNLABELLED_WIKIPEDIA,
        ),
        (
            "diffcse-roberta-base-trans",
            "diffcse-roberta-base-trans",
            "dbb7e08e18ee620b97dd1702f626bc54b277ba94",
            1_490_000_000,
            UNLABELLED_WIKIPEDIA,
        ),
    )
)

# The command in SCD's README, which is BERT's, chooses its checkpoint on SICK-R
# (`--metric_for_best_model=sickr_spearman`).
SCD = tuple(
    checkpoint(
        f"scd-{shape}",
        f"sap-ai-research/{model}-SCD-ACL2022",
        "klein2022scd",
        shape,
        f"{UNLABELLED_WIKIPEDIA}; {chosen}",
    )
    for shape, model, chosen in (
        ("bert-base", "BERT-base-uncased", "checkpoint chosen on SICK-R dev"),
        ("roberta-base", "RoBERTa-base", "how the checkpoint was chosen is not stated"),
    )
)

MIRROR_BERT = tuple(
    checkpoint(
        f"mirror-{shape}{suffix}",
        f"cambridgeltl/mirror-{model}-sentence{suffix}",
        "liu2021mirrorbert",
        shape,
        "10,000 sentences, unlabelled",
    )
    for shape, model in (
        ("bert-base", "bert-base-uncased"),
        ("roberta-base", "roberta-base"),
    )
    for suffix in ("", "-drophead")
)

ENCODERS = (*ESIMCSE, *INFOCSE, *WHITENEDCSE, *DIFFCSE, *SCD, *MIRROR_BERT)

METHODS = (
    *grid((*ESIMCSE, *INFOCSE, *DIFFCSE, *SCD), (CLS,)),
    *grid(WHITENEDCSE, (POOLER,)),
    *grid([encoder.with_max_length(64) for encoder in MIRROR_BERT], (CLS,)),
)
