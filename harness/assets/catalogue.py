"""The catalogue: every file that tasks and corpora read, whence, under which licence, how pinned.

Encoders stand in the registry (`harness list encoders`) with their own sources. Sizes are those
of the files that are read, as measured, or of an archive, as its publisher gives it.
"""

from __future__ import annotations

from harness.assets.asset import GIB, Asset, Download, HubTable

SENTEVAL_STS = ("senteval/STS", "STS", "downstream/STS", "SentEval/data/downstream/STS")
SENTEVAL_SICK = ("senteval/SICK", "SICK", "downstream/SICK", "SentEval/data/downstream/SICK")
SIMCSE = "princeton-nlp/datasets-for-simcse"
SENTEVAL = Download(
    "senteval.tar",
    r"senteval/\1",
    repo=SIMCSE,
    keep=r"(?:.*/)?((?:STS/STS(?:\d\d-en-test|Benchmark)|SICK)/[^/.][^/]*\.(?:txt|csv))",
)

# STS16 names its files with the year.
STS_FILE = r"(?:.*/)?STS(?:20\d\d)?\.((?:input|gs)\.[^/]+\.txt)"
STS_HOST = "http://ixa2.si.ehu.es/stswiki/images"
STS_YEARS = {
    12: "4/40/STS2012-en-test.zip",
    13: "2/2f/STS2013-en-test.zip",
    14: "8/8c/STS2014-en-test.zip",
    15: "d/da/STS2015-en-test.zip",
    16: "9/98/STS2016-en-test.zip",
}
STS_RAW = (
    Download(
        f"{STS_HOST}/4/48/Stsbenchmark.tar.gz",
        r"raw/STS/STSBenchmark/\1",
        keep=r"(?:.*/)?(sts-(?:train|dev|test)\.csv)",
    ),
    *(
        Download(f"{STS_HOST}/{path}", rf"raw/STS/STS{year}-en-test/STS.\1", keep=STS_FILE)
        for year, path in STS_YEARS.items()
    ),
)
SICK_HOST = "http://alt.qcri.org/semeval2014/task1/data/uploads"
SICK_RAW = tuple(
    Download(f"{SICK_HOST}/sick_{part}.zip", r"raw/SICK/\1", keep=rf"(?:.*/)?(SICK_{part}\.txt)")
    for part in ("train", "trial", "test_annotated")
)
STS_YEARLY = ("agirre2012sts", "agirre2013sts", "agirre2014sts", "agirre2015sts", "agirre2016sts")
STS_CITE = ("cer2017stsb", *STS_YEARLY)

# At the commits that mteb 2.x names.
MTEB_STS = {
    "stsbenchmark-sts": "b0fddb56ed78048fa8b90373c8a3cfc37b684831",
    "sickr-sts": "20a6d6f312dd54037fe07a32d58e5e168867909d",
    "sts12-sts": "a0d554a64d88156834ff5ae9920b964011b16384",
    "sts13-sts": "7e90230a92c190f1bf69ae9002b8cea547a64cca",
    "sts14-sts": "6031580fec1f6af667f0bd2da0a551cf4f0b2375",
    "sts15-sts": "ae752c7c21bf194d8b67fd573edf7ae58183cbe3",
    "sts16-sts": "4d8694f8f0e0100860b497b999b3dbed754a0513",
}
GLOVE = "https://nlp.stanford.edu/data"
KOMNINOS = "https://public.ukp.informatik.tu-darmstadt.de/reimers/embeddings"
SNLI = ("bowman2015snli",)
NLI = (*SNLI, "williams2018multinli")

# The digest of each file of the asset `embedded`: sha256 of its lines, each ended by LF.
EMBEDDED_SHA256 = {
    "sts-train.tsv": "4dc108361439e493dc6cdcfe27ebfd892e5effcdeef6ff1ac169d698e248656a",
    "sts-dev.tsv": "5cc580cde5a693bc9d7d6a93d26ddf60e97b998bc495ffc13d6ad338c18c2097",
    "sts-test.tsv": "30b8f61b08659e502b1bcc758c5a32f4061bc3afbed92e240ba01655c25bcad7",
    "sick-train.tsv": "a8d0c6dbb49a7d20a532b5b0eba8008a9324bcc0e899c219d2e00a69ff6aaa33",
    "sick-dev.tsv": "eee2604a97e614dd7034cd84ef5ce32ace5f6e01166890d3ca28441cf1ea4570",
    "sick-test.tsv": "bdbdf27c0fc8c6c16631c32bbbbee2b7065421d5b3126220c14cf9098767e8e0",
    "qnli-dev.tsv": "b9ed786dacce28258cb1815e047d6e974b5eb0b4f103771aba18e646efa2bc9a",
    "text.txt": "dbea07d9607058254ad8ace6d69c3728ad698ba182cce62f149e3bf3a9d0cf52",
    "nli.tsv": "21b5e23430cb1ef0891dd6431de37ea123df19087946391c8d0beaad169ff0f9",
    "triplets.tsv": "b5a08c2bd672ca27429842b30e5796e5c4347560888fdd82f3aeb95a40d81eee",
}

DATA_ASSETS = (
    Asset(
        "embedded",
        "English sentences that the package makes itself, for the tasks and corpora mini-*",
        (),
        "this package; made by tests/tasks/english of its repository",
        "CC0 1.0",
        "nothing to get: it comes with the package",
        rows=True,
    ),
    Asset(
        "sts-raw",
        "STS-B and STS12-16 as first published",
        ("raw/STS",),
        "ixa2.si.ehu.es/stswiki",
        "CC BY-SA 4.0 (scores), texts per source",
        "harness fetch sts-raw",
        STS_RAW,
        rows=True,
        cite=STS_CITE,
        size=7_158_404,
    ),
    Asset(
        "sick-raw",
        "SICK (SemEval-2014) as first published",
        ("raw/SICK",),
        "alt.qcri.org/semeval2014/task1",
        "CC BY-NC-SA 3.0",
        "harness fetch sick-raw",
        SICK_RAW,
        rows=True,
        cite=("marelli2014sick",),
        size=1_123_447,
    ),
    Asset(
        "sts-senteval",
        "STS-B and STS12-16, tokenised as SentEval and SimCSE score them",
        SENTEVAL_STS,
        f"hub data set {SIMCSE}, senteval.tar",
        "CC BY-SA 4.0 (scores), texts per source",
        "harness fetch senteval",
        (SENTEVAL,),
        rows=True,
        cite=STS_CITE,
        size=5_006_352,
    ),
    Asset(
        "sick-senteval",
        "SICK in SentEval's form",
        SENTEVAL_SICK,
        f"hub data set {SIMCSE}, senteval.tar",
        "CC BY-NC-SA 3.0",
        "harness fetch senteval",
        (SENTEVAL,),
        rows=True,
        cite=("marelli2014sick",),
        size=1_124_526,
    ),
    Asset(
        "qnli",
        "GLUE QNLI v2, development set",
        ("glue/QNLI/dev.tsv",),
        "hub data set nyu-mll/glue",
        "CC BY-SA 4.0",
        "harness fetch qnli",
        (
            HubTable(
                "nyu-mll/glue",
                "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
                config="qnli",
                split="validation",
                into="glue/QNLI/dev.tsv",
            ),
        ),
        rows=True,
        cite=("wang2019glue",),
        size=1_367_342,
    ),
    Asset(
        "mteb-sts",
        "STS-B, SICK-R and STS12-16 as mteb scores them, kept where mteb looks",
        (),
        "hub data sets mteb/*-sts",
        "texts per source, as sts-raw and sick-raw",
        "harness fetch mteb-sts",
        tuple(HubTable(f"mteb/{name}", revision) for name, revision in MTEB_STS.items()),
        cite=("muennighoff2023mteb",),
    ),
    Asset(
        "snli-18k",
        "18,000 labelled pairs of SNLI",
        ("nli/snli_18k/train.csv",),
        "a subset of SNLI",
        "CC BY-SA 4.0",
        "put snli_18k/train.csv into DATA_DIR/nli",
        rows=True,
        cite=SNLI,
        size=1_969_082,
    ),
    Asset(
        "snli-triplets",
        "16,971 triplets of SNLI, in the form of SimCSE's",
        ("nli/snli_triplets_for_simcse.csv",),
        "a subset of SNLI",
        "CC BY-SA 4.0",
        "put snli_triplets_for_simcse.csv into DATA_DIR/nli",
        sha256="1c18bad51daa49a86b5f0843ee253a867709294639ff911d9db9a758b4ed08ac",
        cite=SNLI,
        size=2_433_577,
        columns=("sent0", "sent1", "hard_neg"),
        records=16_971,
    ),
    Asset(
        "enwiki-1m",
        "1,000,000 distinct English Wikipedia sentences, shuffled",
        ("wiki/enwiki_1m_sentences.txt.xz",),
        "English Wikipedia",
        "CC BY-SA",
        "put enwiki_1m_sentences.txt.xz into DATA_DIR/wiki",
        rows=True,
        size=39_148_016,
    ),
    Asset(
        "all-nli",
        "SNLI and MultiNLI in full",
        ("nli/AllNLI.tsv.gz", "nli/AllNLI.tsv"),
        "sbert.net/datasets/AllNLI.tsv.gz",
        "CC BY-SA 4.0 and OANC",
        "harness fetch all-nli",
        (Download("https://sbert.net/datasets/AllNLI.tsv.gz", "nli/AllNLI.tsv.gz"),),
        cite=NLI,
        about=41_000_000,
    ),
    Asset(
        "nli-for-simcse",
        "275,601 triplets of SNLI and MultiNLI that supervised SimCSE trains on",
        ("nli/nli_for_simcse.csv",),
        f"hub data set {SIMCSE}, nli_for_simcse.csv",
        "CC BY-SA 4.0 and OANC",
        "harness fetch nli-for-simcse",
        (Download("nli_for_simcse.csv", "nli/nli_for_simcse.csv", repo=SIMCSE),),
        cite=("gao2021simcse", *NLI),
        about=50_000_000,
        columns=("sent0", "sent1", "hard_neg"),
        records=275_601,
    ),
    Asset(
        "wiki1m",
        "the 1,000,000 Wikipedia sentences of SimCSE",
        ("wiki/wiki1m_for_simcse.txt",),
        f"hub data set {SIMCSE}, wiki1m_for_simcse.txt",
        "CC BY-SA",
        "harness fetch wiki1m",
        (Download("wiki1m_for_simcse.txt", "wiki/wiki1m_for_simcse.txt", repo=SIMCSE),),
        cite=("gao2021simcse",),
        about=120_000_000,
    ),
    Asset(
        "glove-840b-vectors",
        "GloVe, Common Crawl, 840 B tokens, 300 dimensions",
        ("vectors/glove.840B.300d.txt",),
        "nlp.stanford.edu/projects/glove",
        "PDDL",
        "harness fetch glove-840b-vectors",
        (
            Download(
                f"{GLOVE}/glove.840B.300d.zip",
                "vectors/glove.840B.300d.txt",
                keep=r"(?:.*/)?glove\.840B\.300d\.txt",
                sha256="c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f",
                size=2_176_768_927,
                unpacked=8 * GIB,
            ),
        ),
        cite=("pennington2014glove",),
    ),
    Asset(
        "glove-6b-vectors",
        "GloVe, Wikipedia 2014 and Gigaword 5, 6 B tokens, 300 dimensions",
        ("vectors/glove.6B.300d.txt",),
        "nlp.stanford.edu/projects/glove",
        "PDDL",
        "harness fetch glove-6b-vectors",
        (
            Download(
                f"{GLOVE}/glove.6B.zip",
                "vectors/glove.6B.300d.txt",
                keep=r"(?:.*/)?glove\.6B\.300d\.txt",
                sha256="617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
                size=862_182_613,
                unpacked=2 * GIB,
            ),
        ),
        cite=("pennington2014glove",),
    ),
    Asset(
        "komninos-vectors",
        "Komninos and Manandhar's dependency-based vectors of English Wikipedia",
        ("vectors/komninos_english_embeddings.gz",),
        "public.ukp.informatik.tu-darmstadt.de/reimers/embeddings",
        "not stated",
        "harness fetch komninos-vectors",
        (
            Download(
                f"{KOMNINOS}/komninos_english_embeddings.gz",
                "vectors/komninos_english_embeddings.gz",
            ),
        ),
        cite=("komninos2016dependency",),
    ),
    Asset(
        "glove-840b-sick-vectors",
        "GloVe 840 B: the rows of SICK's vocabulary, 2,765 words as written",
        ("vectors/glove.840B.300d.sick-subset.npz",),
        "a subset of glove-840b-vectors",
        "PDDL",
        "put glove.840B.300d.sick-subset.npz into DATA_DIR/vectors",
        sha256="41518c022ea6637ef0d7774820d2a6ef46d6751f56de3147f0194d9b7d522829",
        cite=("pennington2014glove",),
        size=3_498_479,
    ),
    Asset(
        "glove-6b-50d-22k-vectors",
        "GloVe 6 B, 50 dimensions: 22,118 words, 13,253 of them de-quantised from int8",
        ("vectors/glove.6B.50d.22k-subset.npz",),
        "a subset of nlp.stanford.edu/projects/glove",
        "PDDL",
        "put glove.6B.50d.22k-subset.npz into DATA_DIR/vectors",
        sha256="feebcc257772e94c9e4dd4aec33aa7acab44bff57a7334f74eade69a690379c8",
        cite=("pennington2014glove",),
        size=6_569_800,
    ),
)

# Several assets that come in one download.
TOGETHER = {"senteval": ("sts-senteval", "sick-senteval")}
